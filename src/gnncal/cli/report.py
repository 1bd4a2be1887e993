"""``gnncal report``: calibrate with several methods and look at the result in a browser."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gnncal.cli.params import OverwriteFile, SummaryAsJson
from gnncal.cli.terminal import check_page_target, console_beside, err, print_result
from gnncal.data.errors import InputError
from gnncal.files.bundle import read_bundle
from gnncal.files.output import write_page
from gnncal.reporting.input import DEFAULT_METHODS
from gnncal.reporting.report import report as make
from gnncal.reporting.summary import summary_page, summary_verdict
from gnncal.scale.summary import is_summary, read_summary

ReportPredictions = Annotated[
    bool | None,
    typer.Option(
        "--keep-predictions/--free",
        help="Only methods that keep every predicted class, or open with one that may correct it.",
        show_default="both kinds",
    ),
]


def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help=".npz file, folder of Parquet files, or output of gnncal scale."
        ),
    ],
    page: Annotated[Path, typer.Option("--out", help="HTML file to write.")] = Path("report.html"),
    methods: Annotated[
        str | None,
        typer.Option(
            help="Calibrators, separated by commas; `gnncal methods` lists them. If all keep "
            "predictions, structural-free is added.",
            show_default="ts,hots,structural",
        ),
    ] = None,
    keep_predictions: ReportPredictions = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A node to show first. May be given several times."),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS", help="The class that matters, by name or number: judge it first."
        ),
    ] = None,
    new: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW",
            help="Input with other nodes, no labels needed: adds a section on distribution shift "
            "and whether the guarantees still hold.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    overwrite: OverwriteFile = False,
    json: SummaryAsJson = False,
) -> None:
    """Write a report.

    The file needs no network. It has the verdict, reliability before and after, the groups of
    nodes where confidence is wrong, temperatures, automatic decisions, and single nodes.
    """
    check_page_target(page, inputs=[source] if new is None else [source, new], overwrite=overwrite)
    heading = title or f"Calibration of {source.name}"
    if is_summary(source):
        given = {
            "--keep-predictions": keep_predictions,
            "--free": keep_predictions is False,
            "--new": new,
            "--methods": methods,
            "--positive": positive,
            "--node": node,
        }
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
                keep_predictions=keep_predictions,
                class_names=bundle.class_names,
                node_ids=bundle.node_ids,
                focus=node or (),
                positive=positive,
                new=None if new is None else read_bundle(new, labels_required=False),
                title=heading,
                command=shlex.join(["gnncal", *sys.argv[1:]]),
                progress=status.update,
            )
            made.save(page, overwrite=overwrite)
        text, document = made.sentences, made.document
    print_result(
        text,
        {"page": str(page), **document},
        as_json=json,
        written=str(page),
        to=console_beside(page),
    )


def _at_scale(
    source: Path, page: Path, title: str, given: dict[str, Any], *, overwrite: bool
) -> tuple[str, dict[str, Any]]:
    """Draw what a run at scale measured; its nodes are not read again."""
    asked = [name for name, value in given.items() if value]
    if asked:
        raise InputError(
            f"{source} is the output of gnncal scale, and a report does not read its nodes "
            f"again; for {' and '.join(asked)}, pass a part of the graph that fits in memory."
        )
    summary = read_summary(source)
    write_page(page, summary_page(summary, title=title), overwrite=overwrite)
    verdict = summary_verdict(summary)
    return verdict.sentence, {"verdicts": {summary.method: verdict}}
