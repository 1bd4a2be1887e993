"""The product's own verbs; those of the laboratory and of other packages join them."""

from __future__ import annotations

from typing import Annotated

import typer

from gnncal import __version__
from gnncal.cli.apply import apply
from gnncal.cli.calibrate import calibrate
from gnncal.cli.check import check
from gnncal.cli.decide import decide, label, sets
from gnncal.cli.demo import demo
from gnncal.cli.evaluate import evaluate
from gnncal.cli.export import export
from gnncal.cli.methods import methods
from gnncal.cli.report import report
from gnncal.cli.scale import scale
from gnncal.cli.terminal import friendly
from gnncal.cli.update import update
from gnncal.cli.verbs import AllVerbs
from gnncal.cli.watch import watch

app = typer.Typer(
    name="gnncal",
    cls=AllVerbs,
    help="Trustworthy confidence for graph neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
IN_ORDER_OF_WORK = (
    *(calibrate, evaluate, report),
    *(label, decide, sets, check, watch, update),
    *(apply, export, scale, methods),
    demo,
)
for verb in IN_ORDER_OF_WORK:
    app.command()(friendly(verb))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__, flush=True)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Trustworthy confidence for graph neural networks."""
