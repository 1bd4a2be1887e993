"""``gnncal methods``: list the calibrators, what each does, and its parameters."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group

from gnncal.calibrators.registry import (
    DEFAULT_METHOD,
    MethodDescription,
    class_of,
    describe,
    list_calibrators,
)
from gnncal.cli.terminal import plain_table, print_result

OURS = "gnncal"  # the package of every method that is not a plugin's


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the parameters of this method.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List methods."""
    if name is not None:
        method = describe(name)
        print_result(_one(method), method, as_json=json)
        return
    everything = [describe(known) for known in list_calibrators()]
    table = plain_table(f"{len(everything)} calibrators")
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    table.add_column("keeps predictions", justify="center")
    for method in everything:
        keeps = "yes" if method.preserves_predictions else "no"
        origin = "" if method.package == OURS else f" (From {method.package}.)"
        table.add_row(method.name, method.summary + origin, keeps)
    last = f"The default is {DEFAULT_METHOD}. `gnncal methods NAME` shows a method's parameters."
    print_result(Group(table, last), everything, as_json=json)


def _one(method: MethodDescription) -> Group:
    package = class_of(method.name).__module__.partition(".")[0]
    home = f"{'gnncal.calibrators' if package == OURS else package}.{method.class_name}"
    needs = "keeps every prediction" if method.preserves_predictions else "may change predictions"
    needs += ", needs a graph" if method.needs_graph else ", needs no graph"
    needs += ", needs torch (pip install 'gnncal[neural]')" if method.needs_torch else ""
    lines = [
        f"{method.name} ({home if method.package == OURS else f'from {method.package}'})",
        method.summary,
        *([method.advice] if method.advice else []),
        f"{needs.capitalize()}.",
    ]
    if not method.parameters:
        return Group(*lines, "It has no parameters.")
    table = plain_table("")
    for column in ("parameter", "default", "what it may be"):
        table.add_column(column)
    for parameter in method.parameters:
        table.add_row(parameter.name, str(parameter.default), parameter.expected)
    first = method.parameters[0]
    last = f"Set one with --param, for instance --param {first.name}={first.default}"
    return Group(*lines, "", table, last)
