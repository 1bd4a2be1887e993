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
from gnncal.data.checks import class_label
from gnncal.data.errors import InputError
from gnncal.files.bundle import read_bundle
from gnncal.files.output import check_finished
from gnncal.files.saved_calibrators import described, load

LIMITS = (
    "The calibrator is valid for one model. Refit the calibrator when the model is retrained.",
    "The calibrator is valid for nodes from the same population as the calibration nodes. "
    "`gnncal check` tests this without labels, `gnncal watch` with labels.",
    "Wrong or late labels of calibration nodes bias every probability.",
)
OF_CLASS = {"positive_ece": "Expected calibration error of P({})"}
TESTED = {"nll": "Mean log loss", "ece": "Expected calibration error", "accuracy": "Accuracy"}


def card(calibrator: CalibratorFile, json: SummaryAsJson = False) -> None:
    """Print a model card.

    The card lists the method, the date and data of the fit, the evidence, the limits and your tags.
    Test results come from the summary.json that calibrate or update wrote into the same folder.
    """
    fitted = load(calibrator)
    sections = _sections(fitted, _tested(calibrator, _class_of_interest(fitted)))
    title = f"Calibrator {calibrator.name}"
    lines = [f"# {_on_one_line(title)}"]
    for heading, points in sections.items():
        lines += ["", f"## {heading}", *(f"- {_on_one_line(point)}" for point in points)]
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

    The table shows the raw probabilities, the change by each part of the method, and the calibrated
    probabilities, which are the raw probabilities plus all changes. NEW must contain all nodes
    within two hops of the node, along edges in both directions, and all edges among them.
    """
    fitted = load(calibrator)
    bundle = with_class_names(read_bundle(source, labels_required=False), fitted)
    (row,) = bundle.rows_of([node], "--node")
    found = fitted.explain(bundle.logits, bundle.graph, node=int(row))
    said = {"id": node, "calibrator": described(fitted), **vars(found), "changes": found.changes}
    text = str(found) if node == str(row) else f"{node}: {found}"
    print_result(text, said, as_json=json)


def _class_of_interest(fitted: Calibrator) -> str | None:
    if fitted.positive_ is None:
        return None
    return class_label(fitted.positive_, getattr(fitted, "class_names_", None))


def _on_one_line(text: str) -> str:
    """Return text that begins neither a line nor HTML where the card is shown as a page."""
    return " ".join(text.split()).replace("<", "&lt;")


def _tested(calibrator: Path, positive: str | None) -> list[str]:
    """Return what the summary next to a calibrator says about test nodes."""
    place = calibrator.with_name("summary.json")
    if not place.is_file():
        return []
    check_finished(place)
    try:
        test = document.loads(place.read_bytes()).get("test")
        if test is None:
            return []
        titles = dict(TESTED)
        if positive is not None and "positive" in test["after"]:
            titles = {name: title.format(positive) for name, title in OF_CLASS.items()} | titles
        sides = [test[side] | {"ece": test[side]["ece"]["value"]} for side in ("before", "after")]
        return [
            "{} on the test nodes: {:.4f} before, {:.4f} after.".format(
                title, *(s[name] for s in sides)
            )
            for name, title in titles.items()
        ]
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
        raise InputError(f"{place} is not a summary of gnncal ({error}); remove it.") from error


def _sections(fitted: Calibrator, tested: list[str]) -> dict[str, list[str]]:
    method, report, about = describe(name_of(fitted)), fitted.fit_report_, described(fitted)
    names = getattr(fitted, "class_names_", None) or [f"class {c}" for c in fitted.classes_]
    counts = ", ".join(
        f"{name} ({n:,})" for name, n in zip(names, report.nodes_per_class, strict=True)
    )
    evidence = [
        f"Mean log loss on the calibration nodes: {report.loss_before:.4f} before, "
        f"{report.loss_after:.4f} after.",
        *tested,
    ]
    if fitted.standard_error_ is not None:
        evidence.append(f"Standard error of the probabilities: about {fitted.standard_error_:.3f}.")
    evidence += [f"Update: {each}" for each in fitted.history_]
    positive = _class_of_interest(fitted)
    of_class = [] if positive is None else [f"Class of interest: {positive}"]
    keeps = "keeps every prediction" if fitted.preserves_predictions else "may change predictions"
    return {
        "Method": [
            f"{method.name}: {method.summary}",
            f"The method {keeps} and {'needs a' if method.needs_graph else 'needs no'} graph.",
            *(f"{name}: {value}" for name, value in fitted.get_params(deep=False).items()),
        ],
        "Provenance": [f"{name}: {value}" for name, value in about.items() if value],
        "Data": [
            *(f"{sum(report.nodes_per_class):,} calibration nodes", f"By class: {counts}"),
            *of_class,
        ],
        "Evidence": evidence,
        "Limits": [*report.undetermined, *report.notes, *LIMITS],
    }
