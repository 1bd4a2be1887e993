"""What ``calibrate``, ``apply`` and ``update`` write and print of a result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gnncal import __version__
from gnncal.calibration import Calibration
from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.fit_report import learned_values
from gnncal.calibrators.registry import name_of
from gnncal.cli import policies
from gnncal.cli.terminal import print_result, to_json
from gnncal.data.nodes import Nodes
from gnncal.decisions import Policy
from gnncal.files.bundle import Bundle, write_nodes
from gnncal.files.saved_calibrators import provenance
from gnncal.metrics.evaluation import positive_as_dict

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect the warnings of the block as they come, each message once."""
    notes: list[str] = []

    def collect(message: Warning | str, *rest: Any, **more: Any) -> None:
        notes.extend({str(message)} - {*notes})

    with warnings.catch_warnings():
        warnings.showwarning = collect
        yield notes


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
) -> dict[str, Any]:
    """Write a result, with its calibrator unless it was only applied, and return the summary."""
    rows = ... if bundle.only is None else bundle.only
    calibrator, probs, n_all = result.calibrator, result.probabilities[rows], len(bundle.logits)
    values = probs.max(axis=1) if result.positive is None else probs[:, result.positive]
    n_neighbours = bundle.graph.neighbour_counts(side=bundle.graph.all_sides)[rows]
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
    write_nodes(staging / f"probabilities.{kind}", bundle, probs, columns, made)
    if applied_to is None:
        calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
    said = {
        "provenance": made,
        "learned": learned_values(calibrator),
        "fit_report": calibrator.fit_report_,
        "history": calibrator.history_,
        "preserves_predictions": calibrator.preserves_predictions,
        "n_nodes": len(probs),
        "n_context": n_all - len(probs),
        "n_edges": bundle.graph.n_edges,
        "n_calibration_nodes": sum(calibrator.fit_report_.nodes_per_class),
        "positive": positive_as_dict(result.positive, bundle.class_names),
        "statistics": {  # of the positive class, or of confidences; they need no labels
            "mean_probability": float(values.mean()),
            "share_above_half": float((values > 0.5).mean()),
            "share_isolated": float((n_neighbours == 0).mean()),
            "quantiles": {f"{q:g}": float(np.quantile(values, q)) for q in QUANTILES},
        },
        "price": result.price,
        "verdict": result.verdict,
        "advice": result.advice,
        "class_names": bundle.class_names,
        "notes": notes,
    }
    if result.before is not None:
        difference = result.comparison
        said["test"] = {"before": result.before, "after": result.after, "difference": difference}
    if policy is not None:
        given = {"policy": policy}, bundle, probs
        decided, about = policies.decide_nodes(*given, is_foreign=is_foreign)
        said |= about
        write_nodes(staging / f"decisions.{kind}", bundle, probs, decided, made)
    return write_summary(staging, calibrator, said)


def write_summary(
    staging: Path, calibrator: Calibrator | None, said: Mapping[str, Any]
) -> dict[str, Any]:
    """Write what is said about a result, and its files, to ``summary.json`` and return it."""
    summary = {
        "gnncal": __version__,
        "method": None if calibrator is None else name_of(calibrator),
        "params": None if calibrator is None else calibrator.get_params(deep=False),
        **said,
        "files": sorted(["summary.json", *(file.name for file in staging.iterdir())]),
    }
    (staging / "summary.json").write_text(to_json(summary) + "\n")
    return summary


def print_results(
    folder: Path,
    paragraphs: Sequence[object],
    summary: dict[str, Any],
    *,
    as_json: bool,
    notes: Sequence[str] | None = None,
) -> None:
    """Print what is said about a result, its notes, and where the files are."""
    print_result(
        "\n\n".join(map(str, paragraphs)),
        summary,
        as_json=as_json,
        notes=summary["notes"] if notes is None else notes,
        written=f"{folder}: {', '.join(summary['files'])}",
    )
