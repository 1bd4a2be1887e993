"""What ``calibrate`` and ``apply`` write and print of a result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnncal.cli.terminal import note, out, print_json, print_written, to_json

if TYPE_CHECKING:
    from gnncal.calibration import Calibration
    from gnncal.data.nodes import Nodes
    from gnncal.decisions import Policy
    from gnncal.files.bundle import Bundle


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect the warnings of the block, each message once, in a list that is filled at the end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        yield notes
    notes += dict.fromkeys(str(warning.message) for warning in caught)


def write_results(
    staging: Path,
    bundle: Bundle,
    result: Calibration,
    notes: list[str],
    *,
    as_parquet: bool,
    applied_to: Nodes | None = None,
    policy: Policy | None = None,
    is_foreign: bool = False,
    also: Sequence[str] = (),
) -> dict[str, Any]:
    """Write probabilities, perhaps what a policy decides, and summary; return the summary.

    A calibrator that was fitted here is written too; one from a file was ``applied_to`` nodes.
    ``also`` names files that the caller has written.
    """
    from gnncal.calibrators.base import HasTemperature
    from gnncal.cli.policies import policy_summary, verdict_of
    from gnncal.files.bundle import write_decisions, write_probabilities

    calibrator = result.calibrator
    temperature = None
    if isinstance(calibrator, HasTemperature):
        temperature = (
            calibrator.temperature_
            if applied_to is None  # fitted on this very graph
            else calibrator.predict_temperature(applied_to)
        )
    probs = result.probabilities
    written = write_probabilities(staging, bundle, probs, temperature, as_parquet=as_parquet)
    files = [written.name]
    if applied_to is None:
        calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
        files.append("calibrator.safetensors")
    decided: dict[str, Any] = {}
    if policy is not None:
        decided = policy_summary(policy, bundle, probs, is_foreign=is_foreign)
        columns = verdict_of(policy, bundle, probs)
        files.append(
            write_decisions(staging, bundle, probs, columns, None, as_parquet=as_parquet).name
        )
    files += [*also, "summary.json"]
    summary = {**summarise(bundle, result, notes), **decided, "files": files}
    (staging / "summary.json").write_text(to_json(summary) + "\n")
    return summary


def summarise(bundle: Bundle, result: Calibration, notes: list[str]) -> dict[str, Any]:
    """Return everything of a result except the probabilities, as plain data for summary.json."""
    from gnncal import __version__
    from gnncal.calibrators.registry import name_of
    from gnncal.metrics.evaluation import positive_as_dict

    calibrator = result.calibrator
    summary = {
        "gnncal": __version__,
        "method": name_of(calibrator),
        "params": calibrator.get_params(deep=False),
        "learned": calibrator._learned_values(),
        "fit_report": calibrator.fit_report_,
        "history": calibrator.history_,
        "preserves_predictions": calibrator.preserves_predictions,
        "n_nodes": len(result.probabilities),
        "n_edges": bundle.graph.n_edges,
        "n_calibration_nodes": sum(calibrator.fit_report_.nodes_per_class),
        "class_names": bundle.class_names,
        "positive": positive_as_dict(result.positive, bundle.class_names),
        "price": result.price,
        "verdict": result.verdict,
        "advice": result.advice,
        "notes": notes,
    }
    if result.before is not None:
        difference = result.comparison
        summary["test"] = {"before": result.before, "after": result.after, "difference": difference}
    return summary


def print_results(
    folder: Path, result: Calibration, summary: dict[str, Any], *, as_json: bool
) -> None:
    """Print the notes to stderr, and the result as tables or the summary as JSON to stdout."""
    for message in summary["notes"]:
        note(message)
    if as_json:
        print_json(summary)
        return
    out.print(result, soft_wrap=True)
    out.print()
    if "policy" in summary:
        from gnncal.cli.policies import policy_lines

        out.print("\n\n".join(policy_lines(summary)) + "\n", soft_wrap=True)
    print_written(folder, summary["files"])
