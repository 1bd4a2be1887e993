"""``gnncal report``: calibrate with several methods and look at the result in a browser."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnncal.cli.params import OverwriteFile
from gnncal.cli.terminal import console_beside, err, page_target, print_json
from gnncal.data.errors import InputError

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
            metavar="CLASS", help="The class that matters, by name or number: adds a section on it."
        ),
    ] = None,
    new: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW",
            help="Input with other nodes, no labels needed: adds a section on what moved and "
            "whether the guarantees still stand.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    overwrite: OverwriteFile = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print verdicts and metrics as JSON.")
    ] = False,
) -> None:
    """Write one HTML file that shows whether INPUT's confidence can be trusted.

    The file needs no network. It has the verdict, reliability before and after, the groups of
    nodes where confidence is wrong, temperatures, automatic decisions, and single nodes.
    """
    from gnncal.files.bundle import read_bundle
    from gnncal.reporting.report import report as make
    from gnncal.reporting.subject import DEFAULT_METHODS
    from gnncal.scale.summary import is_summary

    target = page_target(
        page, inputs=[source] if new is None else [source, new], overwrite=overwrite
    )
    if is_summary(source):
        if keep_predictions is not None:
            raise InputError(
                f"{source} was calibrated by gnncal scale already; pass --keep-predictions or "
                "--free to that command."
            )
        needs_nodes = {"--new": new, "--methods": methods, "--positive": positive, "--node": node}
        given = [name for name, value in needs_nodes.items() if value]
        if given:
            raise InputError(
                f"{source} is the output of gnncal scale, and a report does not read its nodes "
                f"again; for {' and '.join(given)}, pass a part of the graph that fits in memory."
            )
        _report_at_scale(source, target, title=title, overwrite=overwrite, json=json)
        return
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
            title=title or f"Calibration of {source.name}",
            command=shlex.join(["gnncal", *sys.argv[1:]]),
            progress=status.update,
        )
        made.save(target, overwrite=overwrite)
    inspection = made.inspection
    if json:
        evaluations = {name: method.evaluation for name, method in inspection.methods.items()}
        verdicts = {name: method.verdict for name, method in inspection.methods.items()}
        new_nodes = {} if inspection.new_nodes is None else {"new_nodes": inspection.new_nodes}
        print_json({"page": str(page), "verdicts": verdicts, "methods": evaluations, **new_nodes})
        return
    say = console_beside(page)
    say.print(inspection.verdict.sentence)
    if inspection.new_nodes is not None:
        say.print(inspection.new_nodes.check.sentence)
        say.print(inspection.new_nodes.sentence)
    say.print(f"written to {page}", soft_wrap=True)


def _report_at_scale(
    source: Path, page: Path, *, title: str | None, overwrite: bool, json: bool
) -> None:
    """Draw what a run at scale measured; its nodes are not read again."""
    from gnncal.files.output import write_page
    from gnncal.reporting.summary import summary_page, summary_verdict
    from gnncal.scale.summary import read_summary

    summary = read_summary(source)
    text = summary_page(summary, title=title or f"Calibration of {source.name}")
    write_page(page, text, overwrite=overwrite)
    verdict = summary_verdict(summary)
    if json:
        print_json({"page": str(page), "verdicts": {summary.method: verdict}})
        return
    say = console_beside(page)
    say.print(f"{verdict.label}. {verdict.text}")
    say.print(f"written to {page}", soft_wrap=True)
