"""``gnncal methods``: list the calibrators, what each does, and its parameters."""

from __future__ import annotations

from textwrap import fill
from typing import Annotated

import typer

from gnncal.calibrators import registry
from gnncal.calibrators.registry import DEFAULT_METHOD, OURS, MethodDescription, describe
from gnncal.cli.params import SummaryAsJson
from gnncal.cli.terminal import print_result

WIDTH = 80  # columns of the list


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the parameters of this method.")
    ] = None,
    json: SummaryAsJson = False,
) -> None:
    """List methods."""
    if name is not None:
        method = describe(name)
        print_result("\n".join(_one(method)), method, as_json=json)
        return
    everything = [describe(known) for known in registry.list_calibrators()]
    widest = max(len(method.name) for method in everything)
    lines = [f"{len(everything)} calibrators, and whether each keeps or may change predictions\n"]
    for method in everything:
        keeps = "keeps" if method.preserves_predictions else "changes"
        origin = "" if method.package == OURS else f" (From {method.package}.)"
        text = f"{method.name:<{widest}}  {keeps:7}  {method.summary}{origin}"
        indent = " " * (widest + 11)
        lines.append(fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False))
    lines.append(f"\nThe default is {DEFAULT_METHOD}. `gnncal methods NAME` shows its parameters.")
    print_result("\n".join(lines), everything, as_json=json)


def _one(method: MethodDescription) -> list[str]:
    package = registry.resolve(method.name)[1].kind.__module__.partition(".")[0]
    home = f"{'gnncal.calibrators' if package == OURS else package}.{method.class_name}"
    needs = "keeps every prediction" if method.preserves_predictions else "may change predictions"
    needs += ", needs a graph" if method.needs_graph else ", needs no graph"
    needs += ", needs torch (pip install 'gnncal[neural]')" if method.needs_torch else ""
    lines = [
        f"{method.name} ({home if method.package == OURS else f'from {method.package}'})",
        method.summary,
        *([method.advice] if method.advice else []),
        f"{needs.capitalize()}.",
        "",
    ]
    if not method.parameters:
        return [*lines, "It has no parameters."]
    given = {
        f"--param {each['name']}={each['default']}": each["expected"] for each in method.parameters
    }
    widest = max(map(len, given))
    return [*lines, *(f"  {text:<{widest}}  {expected}" for text, expected in given.items())]
