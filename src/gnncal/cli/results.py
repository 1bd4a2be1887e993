"""What ``calibrate``, ``apply`` and ``update`` write and print of a result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gnncal import __version__
from gnncal.calibration import Calibration
from gnncal.calibrators.base import TemperatureMixin
from gnncal.calibrators.fit_report import learned_values
from gnncal.calibrators.registry import name_of
from gnncal.cli import policies
from gnncal.cli.terminal import print_result, to_json
from gnncal.data.arrays import FloatArray
from gnncal.data.nodes import Nodes
from gnncal.decisions import Policy
from gnncal.files.bundle import Bundle, write_nodes
from gnncal.files.saved_calibrators import provenance
from gnncal.metrics.evaluation import positive_as_dict

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect the warnings of the block, each message once, in a list that is filled at the end."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        yield notes
    notes += dict.fromkeys(str(warning.message) for warning in caught)


def statistics(
    bundle: Bundle, probs: FloatArray, positive: int | None
) -> dict[str, float | dict[str, float]]:
    """Describe the probabilities of the rows in question without labels.

    They are those of the positive class, or the confidences if there is none.
    """
    rows = ... if bundle.only is None else bundle.only
    values = (probs.max(axis=1) if positive is None else probs[:, positive])[rows]
    counts = bundle.graph.neighbour_counts(side=bundle.graph.all_sides)[rows]
    return {
        "mean_probability": float(values.mean()),
        "share_above_half": float((values > 0.5).mean()),
        "share_isolated": float((counts == 0).mean()),
        "quantiles": {f"{q:g}": float(np.quantile(values, q)) for q in QUANTILES},
    }


def write_results(
    staging: Path,
    bundle: Bundle,
    result: Calibration,
    notes: list[str],
    *,
    as_parquet: bool,
    applied_to: Nodes | None = None,
    policy: Policy | None = None,
    policy_file: Path | None = None,
    is_foreign: bool = False,
    also: Sequence[str] = (),
) -> dict[str, Any]:
    """Write probabilities, the calibrator unless it was only ``applied_to`` nodes, a policy's
    decisions, and the summary, which is returned; ``also`` names files that are there already."""
    rows = ... if bundle.only is None else bundle.only
    calibrator, probs, n_all = result.calibrator, result.probabilities[rows], len(bundle.logits)
    described = statistics(bundle, result.probabilities, result.positive)
    bundle = bundle.cut()
    kind = "parquet" if as_parquet else "npz"
    columns: dict[str, Any] = {"temperature": None, "probs": probs}
    if isinstance(calibrator, TemperatureMixin):
        columns["temperature"] = (
            calibrator.temperature_
            if applied_to is None
            else calibrator.predict_temperature(applied_to)[rows]
        )
    made = provenance(calibrator, policy=policy_file)
    if policy is not None:
        made["policy"] |= {name: policy.made_[name] for name in ("gnncal", "date")}
    files = [write_nodes(staging / f"probabilities.{kind}", bundle, probs, columns, made)]
    if applied_to is None:
        files.append("calibrator.safetensors")
        calibrator.save(staging / files[-1], class_names=bundle.class_names)
    summary = {
        "gnncal": __version__,
        "provenance": made,
        "method": name_of(calibrator),
        "params": calibrator.get_params(deep=False),
        "learned": learned_values(calibrator),
        "fit_report": calibrator.fit_report_,
        "history": calibrator.history_,
        "preserves_predictions": calibrator.preserves_predictions,
        "n_nodes": len(probs),
        "n_context": n_all - len(probs),
        "n_edges": bundle.graph.n_edges,
        "n_calibration_nodes": sum(calibrator.fit_report_.nodes_per_class),
        "class_names": bundle.class_names,
        "positive": positive_as_dict(result.positive, bundle.class_names),
        "statistics": described,
        "price": result.price,
        "verdict": result.verdict,
        "advice": result.advice,
        "notes": notes,
    }
    if result.before is not None:
        difference = result.comparison
        summary["test"] = {"before": result.before, "after": result.after, "difference": difference}
    if policy is not None:
        summary |= policies.summary({"": policy}, bundle, probs, is_foreign=is_foreign)
        decided = policies.decision_columns({"": policy}, bundle, probs)
        files.append(write_nodes(staging / f"decisions.{kind}", bundle, probs, decided, made))
    summary["files"] = [*files, *also, "summary.json"]
    (staging / "summary.json").write_text(to_json(summary) + "\n")
    return summary


def print_results(folder: Path, result: object, summary: dict[str, Any], *, as_json: bool) -> None:
    """Print a result, what a policy makes of it, and where the files are."""
    said = [result, *(policies.lines(summary) if "policy" in summary else ())]
    print_result(
        "\n\n".join(map(str, said)),
        summary,
        as_json=as_json,
        notes=summary["notes"],
        written=f"{folder}: {', '.join(summary['files'])}",
    )
