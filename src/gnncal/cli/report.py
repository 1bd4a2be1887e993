"""``gnncal report``: calibrate with several methods and look at the result in a browser."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from gnncal.cli import params
from gnncal.cli.params import File, Text, Texts, option, several
from gnncal.cli.terminal import err, print_result
from gnncal.files.bundle import read_bundle
from gnncal.files.output import check_file
from gnncal.files.saved_calibrators import load
from gnncal.reporting.input import DEFAULT_METHODS
from gnncal.reporting.report import report as make


def report(
    source: params.Input,
    page: Annotated[Path, option("HTML file to write.", "--out")] = Path("report.html"),
    methods: Annotated[
        Text,
        option(
            "Calibrators, separated by commas; `gnncal methods` lists all. If all keep "
            "predictions, structural-free is added.",
            default="ts,hots,structural",
        ),
    ] = None,
    calibrator: params.SavedCalibrator = None,
    node: Annotated[Texts, several("A node to list first.", "ID")] = None,
    positive: params.PositiveOfFit = None,
    tolerance: params.Tolerance = None,
    new: Annotated[
        File,
        option(
            "Input with new nodes, without labels. Adds a section on distribution shift and on "
            "whether guarantees hold for them.",
            metavar="NEW",
        ),
    ] = None,
    title: Annotated[Text, option("Heading of the page.")] = None,
    overwrite: params.OverwriteFile = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Write a report.

    The file needs no network. It shows the verdict, reliability before and after, groups of nodes
    with wrong confidence, temperatures, automatic decisions, and single nodes.
    """
    inputs = [each for each in (source, new, calibrator) if each is not None]
    check_file(page, inputs=inputs, overwrite=overwrite)
    with err.status("reading the input") as status:
        bundle = read_bundle(source)
        made = make(
            bundle.logits,
            bundle.labels,
            bundle.graph,
            **bundle.splits,
            methods=DEFAULT_METHODS if methods is None else methods.split(","),
            class_names=bundle.class_names,
            node_ids=bundle.node_ids,
            focus=node or (),
            positive=positive,
            tolerance=tolerance,
            calibrator=None if calibrator is None else load(calibrator),
            new=None if new is None else read_bundle(new, labels_required=False),
            title=title or f"Calibration of {source.name}",
            command=shlex.join(["gnncal", *sys.argv[1:]]),
            progress=status.update,
        )
        made.save(page, overwrite=overwrite)
    found, lines = made.findings, [made.findings.verdict.sentence]
    document: dict[str, object] = {
        "page": str(page),
        "verdicts": {name: each.verdict for name, each in found.methods.items()},
        "methods": {name: each.evaluation for name, each in found.methods.items()},
    }
    if found.new_nodes is not None:
        document["new_nodes"] = found.new_nodes
        lines += [found.new_nodes.check.sentence, found.new_nodes.sentence]
    print_result("\n".join(lines), document, as_json=json, written=page)
