"""``gnncal card`` and ``explain``: what a saved calibrator is, and why a node has its number."""

from __future__ import annotations

import json as document
from pathlib import Path
from typing import Annotated

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import describe, name_of
from gnncal.cli.apply import with_class_names
from gnncal.cli.params import CalibratorFile, NewInput, SummaryAsJson, option
from gnncal.cli.terminal import print_result
from gnncal.data.errors import InputError
from gnncal.files.bundle import read_bundle
from gnncal.files.output import check_finished
from gnncal.files.saved_calibrators import described, load

LIMITS = (
    "It is fitted for one model: after training again, fit again.",
    "It holds for nodes like those it was fitted on; `gnncal check` compares new ones without "
    "labels, `gnncal watch` with them.",
    "Labels of the calibration nodes that are wrong or late bias every probability.",
)


def card(calibrator: CalibratorFile, json: SummaryAsJson = False) -> None:
    """Print a model card.

    The card lists the method, the date and data of the fit, the evidence, the limits and your tags.
    Test results come from summary.json in the same folder, as calibrate and update write it.
    """
    fitted = load(calibrator)
    sections = _sections(fitted, _tested(calibrator))
    title = f"Calibrator {calibrator.name}"
    lines = [f"# {title}"]
    for heading, points in sections.items():
        lines += ["", f"## {heading}", *(f"- {point}" for point in points)]
    print_result("\n".join(lines), {"title": title, **sections}, as_json=json)


def explain(
    calibrator: CalibratorFile,
    source: NewInput,
    node: Annotated[
        str, option("Id of the node, or its row if the input has no ids.", metavar="ID")
    ],
    json: SummaryAsJson = False,
) -> None:
    """Explain the probabilities of one node.

    The columns add up: the raw probabilities, the changes by temperature, bias, neighbours and
    floor, the calibrated probabilities. NEW must contain the node and the two hops around it.
    """
    fitted = load(calibrator)
    bundle = with_class_names(read_bundle(source, labels_required=False), fitted)
    (row,) = bundle.rows_of([node], "--node")
    found = fitted.explain(bundle.logits, bundle.graph, node=int(row))
    said = {"id": node, "calibrator": described(fitted), **vars(found), "changes": found.changes}
    text = str(found) if node == str(row) else f"{node}: {found}"
    print_result(text, said, as_json=json)


def _tested(calibrator: Path) -> list[str]:
    """Return what the summary next to a calibrator says about test nodes."""
    place = calibrator.with_name("summary.json")
    if not place.is_file():
        return []
    check_finished(place)
    try:
        test = document.loads(place.read_bytes()).get("test")
        if test is None:
            return []
        sides = [test[side] | {"ece": test[side]["ece"]["value"]} for side in ("before", "after")]
        return [
            "{} on the test nodes {:.4f} before, {:.4f} after.".format(
                name, *(s[name] for s in sides)
            )
            for name in ("nll", "ece", "accuracy")
        ]
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
        raise InputError(f"{place} is not a summary of gnncal ({error}); remove it.") from error


def _sections(fitted: Calibrator, tested: list[str]) -> dict[str, list[str]]:
    method, report, about = describe(name_of(fitted)), fitted.fit_report_, described(fitted)
    names = getattr(fitted, "class_names_", None) or [f"class {c}" for c in fitted.classes_]
    counts = ", ".join(
        f"{n:,} {name}" for name, n in zip(names, report.nodes_per_class, strict=True)
    )
    evidence = [
        f"Mean log loss on the calibration nodes {report.loss_before:.4f} before, "
        f"{report.loss_after:.4f} after.",
        *tested,
    ]
    if fitted.standard_error_ is not None:
        evidence.append(f"Standard error of its probabilities about {fitted.standard_error_:.3f}.")
    evidence += [f"Update: {each}" for each in fitted.history_]
    keeps = "keeps every prediction" if fitted.preserves_predictions else "may change predictions"
    return {
        "What": [
            f"{method.name}: {method.summary}",
            f"It {keeps} and {'needs a' if method.needs_graph else 'needs no'} graph.",
            *(f"{name}: {value}" for name, value in fitted.get_params(deep=False).items()),
        ],
        "Provenance": [f"{name}: {value}" for name, value in about.items() if value],
        "Data": [f"{sum(report.nodes_per_class):,} calibration nodes: {counts}."],
        "Evidence": evidence,
        "Limits": [*report.undetermined, *report.notes, *LIMITS],
    }
