"""``gnncal methods``: list the calibrators, what each does, and its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gnncal.cli.terminal import out, print_json

if TYPE_CHECKING:
    from gnncal.calibrators.registry import MethodDescription

OURS = "gnncal"  # the package of every method that is not a plugin's


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show the parameters of this method.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List every calibrator, or show one with its parameters and their defaults."""
    from gnncal.calibrators.registry import describe, list_calibrators

    if name is not None:
        description = describe(name)
        if json:
            print_json(description)
        else:
            _print_method(description)
        return
    everything = [describe(known) for known in list_calibrators()]
    if json:
        print_json(everything)
    else:
        _print_list(everything)


def _print_list(everything: list[MethodDescription]) -> None:
    from gnncal.calibration import DEFAULT_METHOD
    from gnncal.reporting.tables import plain_table

    table = plain_table(f"{len(everything)} calibrators")
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    table.add_column("keeps predictions", justify="center")
    for method in everything:
        keeps = "yes" if method.preserves_predictions else "no"
        origin = "" if method.package == OURS else f" (From {method.package}.)"
        table.add_row(method.name, method.summary + origin, keeps)
    out.print(table)
    out.print(
        f"The default is {DEFAULT_METHOD}. `gnncal methods NAME` shows the parameters of a method."
    )


def _print_method(method: MethodDescription) -> None:
    from gnncal.calibrators.registry import class_of
    from gnncal.reporting.tables import plain_table

    package = class_of(method.name).__module__.partition(".")[0]
    home = f"{'gnncal.calibrators' if package == OURS else package}.{method.class_name}"
    out.print(f"{method.name} ({home if method.package == OURS else f'from {method.package}'})")
    out.print(method.summary)
    if method.advice:
        out.print(method.advice)
    needs = [
        "keeps every prediction" if method.preserves_predictions else "may change predictions",
        "needs a graph" if method.needs_graph else "needs no graph",
        *(["needs torch (pip install 'gnncal[neural]')"] if method.needs_torch else []),
    ]
    out.print(", ".join(needs).capitalize() + ".")
    if not method.parameters:
        out.print("It has no parameters.")
        return
    out.print()
    table = plain_table("")
    for column in ("parameter", "default", "what it may be"):
        table.add_column(column)
    for parameter in method.parameters:
        table.add_row(parameter.name, str(parameter.default), parameter.expected)
    out.print(table)
    first = method.parameters[0]
    out.print(f"Set one with --param, for instance --param {first.name}={first.default}")
