"""``gnncal calibrate``: probabilities one can trust from logits, labels and a graph."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from gnncal.cli.terminal import (
    err,
    note,
    out,
    print_json,
    print_written,
    staged_folder,
    to_json,
)


def calibrate(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help=".npz file, or folder of Parquet files.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    method: Annotated[str, typer.Option(help="A calibrator's name, such as hots or ts.")] = "hots",
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Calibrate INPUT and write probabilities, the calibrator and a summary to a folder.

    The folder gets probabilities.npz (or .parquet when INPUT is a folder),
    calibrator.safetensors and summary.json.
    """
    from gnncal import __version__
    from gnncal.bundles import read_bundle, write_probabilities
    from gnncal.calibrators.base import TemperatureCalibrator
    from gnncal.calibrators.catalogue import get_calibrator
    from gnncal.core.probability import softmax
    from gnncal.evaluation import compare, evaluate, evaluation_table

    calibrator = get_calibrator(method)
    with staged_folder(folder) as staging, err.status(f"calibrating with {method}"):
        bundle = read_bundle(source)
        with warnings.catch_warnings(record=True) as caught:
            calibrator.fit(
                bundle.logits,
                bundle.labels,
                bundle.graph,
                nodes=bundle.nodes,
                train_nodes=bundle.train_nodes,
            )
            probs = calibrator.predict_proba(bundle.logits, bundle.graph)
        notes = list(dict.fromkeys(str(warning.message) for warning in caught))
        temperature = getattr(calibrator, "temperature_", None)
        assert temperature is not None or not isinstance(calibrator, TemperatureCalibrator)
        written = write_probabilities(
            staging, bundle, probs, temperature, as_parquet=source.is_dir()
        )
        calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
        summary: dict[str, Any] = {
            "gnncal": __version__,
            "method": method,
            "params": calibrator.get_params(),
            "learned": {
                name.rstrip("_"): value
                for name in calibrator.learned
                if isinstance(value := getattr(calibrator, name), bool | int | float | str)
            },
            "fit_report": calibrator.fit_report_,
            "preserves_predictions": calibrator.preserves_predictions,
            "n_nodes": len(probs),
            "n_edges": bundle.graph.n_edges,
            "n_calibration_nodes": len(bundle.nodes),
            "class_names": bundle.class_names,
            "notes": notes,
            "files": [written.name, "calibrator.safetensors", "summary.json"],
        }
        test = bundle.test_nodes
        if test.size:
            truth, raw = bundle.labels[test], softmax(bundle.logits[test])
            degree = bundle.graph.in_degree[test]
            before = evaluate(truth, raw, in_degree=degree)
            after = evaluate(truth, probs[test], in_degree=degree)
            comparison = compare(truth, raw, probs[test])
            summary["test"] = {"before": before, "after": after, "difference": comparison}
        (staging / "summary.json").write_text(to_json(summary) + "\n")
    for message in notes:
        note(message)
    if json:
        print_json(summary)
        return
    report = calibrator.fit_report_
    out.print(
        f"{method}: mean log loss on {len(bundle.nodes):,} calibration nodes "
        f"{report.loss_before:.4f} -> {report.loss_after:.4f}"
    )
    if test.size:
        out.print(evaluation_table({"before": before, "after": after}).as_text())
        out.print(f"\n{comparison}\n")
    print_written(folder, summary["files"])
