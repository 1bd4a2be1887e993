"""``gnncal decide``: say which nodes may be decided automatically, with a guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.gates import (
    NOTHING_CERTIFIED,
    FailIf,
    check_measurable,
    end_if_failed,
    failures_of,
    read_gates,
)
from gnncal.cli.params import (
    Input,
    KeepPredictions,
    Method,
    OutFolder,
    Overwrite,
    Parameters,
    SummaryAsJson,
    chosen_calibrator,
)
from gnncal.cli.policies import (
    Act,
    Budget,
    Clear,
    CostsOption,
    FalsePositiveRate,
    Positive,
    Recall,
    asked_policy,
    cross_fitted_probabilities,
    fit_policy,
    held_out_probabilities,
    policy_lines,
    policy_summary,
    read_probabilities,
    to_decide,
    verdict_of,
)
from gnncal.cli.results import collected_notes
from gnncal.cli.terminal import err, note, out, print_json, print_written, to_json
from gnncal.data.constraints import choice, number, whole_number
from gnncal.data.errors import InputError
from gnncal.files.output import result_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gnncal.calibrators.base import Calibrator
    from gnncal.cli.gates import Gate
    from gnncal.data.arrays import FloatArray
    from gnncal.decisions import Policy
    from gnncal.files.bundle import Bundle

DEFAULT_ACCURACY = 0.95
OWN_GATES = ("uncertified", "review")  # what --fail-if may name beside metrics
FOREIGN = (
    "the guarantee needs probabilities that were not fitted on the validation nodes of the input, "
    "as those of `gnncal calibrate` are. Without --probabilities, decide fits a calibrator itself "
    "and keeps nodes for the thresholds."
)
HeldOut = Annotated[
    float, typer.Option("--hold-out", help="Share of the validation nodes kept to certify.")
]
Seed = Annotated[int, typer.Option(help="Seed of the nodes held out.")]
Probabilities = Annotated[
    Path | None,
    typer.Option(help="Probabilities made elsewhere, not fitted on the validation nodes."),
]


def decide(
    source: Input,
    folder: OutFolder = Path("decided"),
    accuracy: Annotated[
        float | None,
        typer.Option(
            help="Share of the automatic decisions that must be right, for all classes together.",
            show_default=str(DEFAULT_ACCURACY),
        ),
    ] = None,
    confidence_level: Annotated[
        float, typer.Option(help="Probability with which the guarantees hold together.")
    ] = 0.9,
    keep_predictions: KeepPredictions = None,
    method: Method = None,
    param: Parameters = None,
    certify: Annotated[
        str,
        typer.Option(
            help="split: some validation nodes fit, the others certify (proven). cross-fit: all "
            "of them do both (measured, not proven)."
        ),
    ] = "split",
    held_out: HeldOut = 0.5,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    positive: Positive = None,
    act: Act = None,
    clear: Clear = None,
    recall: Recall = None,
    false_positive_rate: FalsePositiveRate = None,
    costs: CostsOption = None,
    budget: Budget = None,
    region: Annotated[
        float | None,
        typer.Option(help="Region of `gnncal label`, from which the validation nodes were drawn."),
    ] = None,
    fail_if: FailIf = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Say which nodes of INPUT may be decided automatically, with a guaranteed accuracy.

    With --positive, decide about one class instead: act, clear or review, as --act, --clear,
    --recall, --false-positive-rate, --costs or --budget ask for.

    The calibrator is fitted on one part of the validation nodes and the thresholds on the rest,
    because a calibrator looks better than it is on the nodes it was fitted on. The folder gets
    decisions.npz (or .parquet when INPUT is a folder), calibrator.safetensors, policy.safetensors
    (for gnncal apply and gnncal.load) and summary.json.

    The exit code is 3 if a guarantee was asked for and nothing can be certified, 4 if a --fail-if
    holds. It may name uncertified (how many guarantees are not certified) and review (the share of
    nodes to review) beside metrics.
    """
    from gnncal.files.bundle import read_bundle, write_decisions

    check_split(held_out, seed)
    choice("split", "cross-fit").check("--certify", certify)
    wishes = {
        "accuracy": accuracy,
        "act": act,
        "clear": clear,
        "recall": recall,
        "false_positive_rate": false_positive_rate,
    }
    if positive is not None and accuracy is not None:
        raise InputError("--accuracy is about all classes; with --positive say --act or --clear.")
    asked = any(each is not None for each in (*wishes.values(), costs, budget, positive))
    if not asked:
        wishes["accuracy"] = DEFAULT_ACCURACY
    policy = asked_policy(source, wishes, positive, costs, budget, confidence_level)
    gates = read_gates(fail_if, others=OWN_GATES)
    calibrator = fitted_calibrator(
        probabilities, method, keep_predictions, param, one_class=positive is not None
    )
    advice, given = None, {}
    with (
        result_folder(
            folder,
            "decide",
            inputs=[source, *([] if probabilities is None else [probabilities])],
            overwrite=overwrite,
        ) as staging,
        err.status("deciding"),
    ):
        bundle = read_bundle(source)
        check_measurable(gates, bundle, others=OWN_GATES)
        with collected_notes() as notes:
            nodes = bundle.nodes
            if calibrator is None:
                assert probabilities is not None
                probs = read_probabilities(probabilities, bundle)
            elif certify == "split":
                probs, nodes, advice = held_out_probabilities(calibrator, bundle, held_out, seed)
            else:
                probs, cross_fitted, advice = cross_fitted_probabilities(calibrator, bundle, seed)
                given["cross_fitted"] = cross_fitted
            fit_policy(policy, bundle, probs, nodes, calibrator=calibrator, region=region, **given)
        notes += [FOREIGN] if calibrator is None else []
        notes += [] if advice is None else [advice]
        verdict = verdict_of(policy, bundle, probs)
        failures = failures_of(gates, gate_values(gates, bundle, policy, probs, verdict))
        written = write_decisions(staging, bundle, probs, verdict, None, as_parquet=source.is_dir())
        files = [written.name]
        if calibrator is not None:
            calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
            files.append("calibrator.safetensors")
        policy.save(staging / "policy.safetensors", class_names=bundle.class_names)
        summary = {
            **fit_summary(bundle, calibrator, probs, nodes.size, notes),
            **policy_summary(policy, bundle, probs),
            "files": [*files, "policy.safetensors", "summary.json"],
        }
        (staging / "summary.json").write_text(to_json(summary) + "\n")
    said = summary["policy"]["sentence"]
    print_summary(folder, summary, [*policy_lines(summary), node_line(summary)], said, json=json)
    if policy.report_.certifies_nothing:
        raise typer.Exit(NOTHING_CERTIFIED)
    end_if_failed(failures)


def check_split(held_out: float, seed: int) -> None:
    """Check the options that say how validation nodes are split."""
    number(above=0, below=1).check("--hold-out", held_out)
    whole_number(at_least=0).check("--seed", seed)


def fitted_calibrator(
    probabilities: Path | None,
    method: str | None,
    keep_predictions: bool | None,
    param: Sequence[str] | None,
    *,
    one_class: bool = False,
) -> Calibrator | None:
    """Return the calibrator to fit; None if probabilities come from a file."""
    if probabilities is None:
        return chosen_calibrator(method, keep_predictions, param, one_class=one_class)
    if method or param or keep_predictions is not None:
        raise InputError(
            "--probabilities are calibrated already; leave --method and --param out, and "
            "--keep-predictions and --free."
        )
    return None


def gate_values(
    gates: Sequence[Gate], bundle: Bundle, policy: Policy, probs: FloatArray, verdict: Any
) -> dict[str, float | None]:
    """Return what gates may ask for: metrics of the test nodes, and what is said of decisions."""
    from gnncal.metrics.outcomes import Outcomes
    from gnncal.metrics.table import METRICS

    test, others = bundle.test_nodes, to_decide(bundle)
    own: dict[str, float | None] = {
        "uncertified": policy.report_.n_uncertified,
        "review": float((verdict["action"][others] == "review").mean()),
    }
    names = {gate.name for gate in gates} - set(own)
    if not names:
        return own
    degree, positive = bundle.graph.in_degree[test], policy.positive_
    outcomes = Outcomes(bundle.labels[test], probs[test], degree, positive=positive)
    return own | {name: METRICS[name].of(outcomes) for name in names}


def fit_summary(
    bundle: Bundle, calibrator: Calibrator | None, probs: FloatArray, n: int, notes: list[str]
) -> dict[str, Any]:
    """Return on which nodes what was fitted, as plain data."""
    from gnncal import __version__
    from gnncal.calibrators.registry import name_of

    n_fitted = 0 if calibrator is None else sum(calibrator.fit_report_.nodes_per_class)
    return {
        "gnncal": __version__,
        "method": None if calibrator is None else name_of(calibrator),
        "params": None if calibrator is None else calibrator.get_params(deep=False),
        "n_nodes": len(probs),
        "n_calibrator_nodes": n_fitted,
        "n_threshold_nodes": n,
        "n_others": int(to_decide(bundle).sum()),
        "class_names": bundle.class_names,
        "notes": notes,
    }


def node_line(summary: dict[str, Any]) -> str:
    """Say on which nodes what was fitted."""
    n = f"{summary['n_threshold_nodes']:,} validation nodes"
    if summary["method"] is None:
        return f"Certified on {n}."
    return (
        f"The calibrator ({summary['method']}) was fitted on {summary['n_calibrator_nodes']:,} "
        f"validation nodes, and certified on {n}."
    )


def print_summary(
    folder: Path, summary: dict[str, Any], lines: list[str], said: str, *, json: bool
) -> None:
    """Print the notes to stderr, and the result in plain words or as JSON to stdout."""
    for message in summary["notes"]:
        if message not in said:
            note(message)
    if json:
        print_json(summary)
        return
    out.print("\n\n".join(lines), soft_wrap=True)
    out.print()
    print_written(folder, summary["files"])
