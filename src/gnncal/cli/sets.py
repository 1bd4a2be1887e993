"""``gnncal sets``: give each node a set of classes that has the true one as often as asked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gnncal.cli.decide import (
    FOREIGN,
    HeldOut,
    Probabilities,
    Seed,
    check_split,
    fit_summary,
    fitted_calibrator,
    node_line,
    print_summary,
)
from gnncal.cli.params import (
    Input,
    KeepPredictions,
    Method,
    OutFolder,
    Overwrite,
    Parameters,
    SummaryAsJson,
)
from gnncal.cli.policies import held_out_probabilities, read_probabilities, to_decide
from gnncal.cli.results import collected_notes
from gnncal.cli.terminal import err, to_json
from gnncal.data.constraints import choice, number
from gnncal.files.output import result_folder


def sets(
    source: Input,
    folder: OutFolder = Path("sets"),
    coverage: Annotated[
        float, typer.Option(help="Share of the sets that must have the true class.")
    ] = 0.9,
    score: Annotated[
        str, typer.Option(help="How sets are made: lac, aps, raps, daps, snaps.")
    ] = "aps",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Guarantee that share for the nodes of each class.")
    ] = False,
    keep_predictions: KeepPredictions = None,
    method: Method = None,
    param: Parameters = None,
    held_out: HeldOut = 0.5,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Give each node of INPUT a set of classes that contains the true one as often as asked.

    The calibrator is fitted on one part of the validation nodes and the sets on the rest. The
    folder gets decisions.npz (or .parquet when INPUT is a folder) with the sets,
    calibrator.safetensors, conformal.safetensors (for gnncal.load) and summary.json.
    """
    from gnncal.decisions import ConformalClassifier
    from gnncal.decisions.scores import SCORES
    from gnncal.files.bundle import read_bundle, write_decisions

    check_split(held_out, seed)
    number(above=0, below=1).check("--coverage", coverage)
    choice(*SCORES).check("--score", score)
    calibrator = fitted_calibrator(probabilities, method, keep_predictions, param)
    advice = None
    with (
        result_folder(
            folder,
            "sets",
            inputs=[source, *([] if probabilities is None else [probabilities])],
            overwrite=overwrite,
        ) as staging,
        err.status("making sets"),
    ):
        bundle = read_bundle(source)
        with collected_notes() as notes:
            nodes = bundle.nodes
            if calibrator is None:
                assert probabilities is not None
                probs = read_probabilities(probabilities, bundle)
            else:
                probs, nodes, advice = held_out_probabilities(calibrator, bundle, held_out, seed)
            conformal = ConformalClassifier(
                coverage, score=score, by_class=by_class, random_state=seed
            )
            ids = bundle.node_ids  # a node has the same set whenever it is asked for by its id
            conformal.fit(
                *(probs, bundle.labels, bundle.graph),
                nodes=nodes,
                ids=ids,
                class_names=bundle.class_names,
                calibrator=calibrator,
            )
            members = conformal.predict_set(probs, bundle.graph, ids=ids)
        notes += [FOREIGN] if calibrator is None else []
        notes += [] if advice is None else [advice]
        report, sizes = conformal.report_, members[to_decide(bundle)].sum(axis=1)
        written = write_decisions(staging, bundle, probs, {}, members, as_parquet=source.is_dir())
        files = [written.name]
        if calibrator is not None:
            calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
            files.append("calibrator.safetensors")
        conformal.save(staging / "conformal.safetensors", class_names=bundle.class_names)
        said = {"score": score, **asdict(report), "sentence": report.sentence}
        said |= {"assumption": report.assumption, "mean_size": float(sizes.mean())}
        lines = [
            f"{report.sentence} They have {sizes.mean():.2f} classes on average.",
            report.assumption,
        ]
        if bundle.test_nodes.size:
            from gnncal.decisions.sets import judge_sets

            test = bundle.test_nodes
            outcome = judge_sets(bundle.labels[test], members[test], class_names=bundle.class_names)
            said["test"] = {**asdict(outcome), "sentence": outcome.sentence}
            lines.append(outcome.sentence)
        summary = {
            **fit_summary(bundle, calibrator, probs, nodes.size, notes),
            "sets": said,
            "files": [*files, "conformal.safetensors", "summary.json"],
        }
        (staging / "summary.json").write_text(to_json(summary) + "\n")
    print_summary(folder, summary, [*lines, node_line(summary)], report.sentence, json=json)
