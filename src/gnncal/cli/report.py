"""``gnncal report``: calibrate with several methods and look at the result in a browser."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from gnncal.cli import params
from gnncal.cli.params import File, Text, argument, option
from gnncal.cli.terminal import err, print_result
from gnncal.data.errors import InputError
from gnncal.files.bundle import read_bundle
from gnncal.files.output import check_file, write_page
from gnncal.files.saved_calibrators import load
from gnncal.reporting.input import DEFAULT_METHODS
from gnncal.reporting.report import report as make
from gnncal.reporting.summary import summary_page, summary_verdict
from gnncal.scale.summary import is_summary, read_summary


def report(
    source: Annotated[
        Path, argument("INPUT", ".npz file, folder of Parquet files, or output of gnncal scale.")
    ],
    page: Annotated[Path, option("HTML file to write.", "--out")] = Path("report.html"),
    methods: Annotated[
        Text,
        option(
            "Calibrators, separated by commas; `gnncal methods` lists them. If all keep "
            "predictions, structural-free is added.",
            show_default="ts,hots,structural",
        ),
    ] = None,
    calibrator: Annotated[
        File, option("Report on this saved calibrator instead of fitting.", metavar="FILE")
    ] = None,
    node: Annotated[
        list[str] | None, option("A node to show first. May be given several times.", metavar="ID")
    ] = None,
    positive: Annotated[
        Text, option("The class that matters, by name or number: judge it first.", metavar="CLASS")
    ] = None,
    new: Annotated[
        File,
        option(
            "Input with other nodes, no labels needed: adds a section on distribution shift and "
            "whether the guarantees still hold.",
            metavar="NEW",
        ),
    ] = None,
    title: Annotated[Text, option("Heading of the page.")] = None,
    overwrite: params.OverwriteFile = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Write a report.

    The file needs no network. It has the verdict, reliability before and after, the groups of
    nodes where confidence is wrong, temperatures, automatic decisions, and single nodes.
    """
    inputs = [each for each in (source, new, calibrator) if each is not None]
    check_file(page, inputs=inputs, overwrite=overwrite)
    heading = title or f"Calibration of {source.name}"
    if is_summary(source):
        given: dict[str, Any] = {"--methods": methods, "--node": node, "--positive": positive}
        given |= {"--new": new, "--calibrator": calibrator}
        text, document = _at_scale(source, page, heading, given, overwrite=overwrite)
    else:
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
                calibrator=None if calibrator is None else load(calibrator),
                new=None if new is None else read_bundle(new, labels_required=False),
                title=heading,
                command=shlex.join(["gnncal", *sys.argv[1:]]),
                progress=status.update,
            )
            made.save(page, overwrite=overwrite)
        text, document = made.sentences, made.document
    print_result(text, {"page": str(page), **document}, as_json=json, written=page)


def _at_scale(
    source: Path, page: Path, title: str, given: dict[str, Any], *, overwrite: bool
) -> tuple[str, dict[str, Any]]:
    """Draw what a run at scale measured; its nodes are not read again."""
    if asked := [name for name, value in given.items() if value]:
        raise InputError(
            f"{source} is the output of gnncal scale, and a report does not read its nodes "
            f"again; for {' and '.join(asked)}, pass a part of the graph that fits in memory."
        )
    summary = read_summary(source)
    write_page(page, summary_page(summary, title=title), overwrite=overwrite)
    verdict = summary_verdict(summary)
    return verdict.sentence, {"verdicts": {summary.method: verdict}}
