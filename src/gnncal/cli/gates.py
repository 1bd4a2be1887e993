"""Gates for pipelines: ``--fail-if 'ece>0.05'`` ends a verb with an exit code of its own.

The results are written and printed first, so that whoever is called can look at them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from gnncal.cli.params import option
from gnncal.cli.terminal import print_line
from gnncal.data.checks import suggestion
from gnncal.data.errors import InputError
from gnncal.metrics.table import METRICS

NOTHING_CERTIFIED = 3  # exit code of decide
GATE_FAILED = 4  # exit code of every verb with --fail-if
SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
GATE = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|>|<)\s*([-+.\de]+)\s*", re.IGNORECASE | re.ASCII)
FailIf = Annotated[
    list[str] | None,
    option(
        "End with exit code 4 if this holds on the test nodes, such as 'ece>0.05' or "
        "'accuracy<0.8'. Use the metric names of --json; shares lie between 0 and 1. May be "
        "given several times.",
        metavar="METRIC>NUMBER",
    ),
]


class Gate(NamedTuple):
    """A condition under which a pipeline should stop."""

    name: str
    sign: str
    limit: float


def read_gates(given: Sequence[str] | None, *, others: Collection[str] = ()) -> list[Gate]:
    """Return the gates that were asked for; names are those of metrics, and some others."""
    gates, known = [], [*METRICS, *others]
    for text in given or []:
        match = GATE.fullmatch(text)
        try:
            gate = Gate(match[1], match[2], float(match[3]))  # type: ignore[index]
        except (TypeError, ValueError):
            raise InputError(
                f"--fail-if is {text!r}; expected a metric and a limit: 'ece>0.05'."
            ) from None
        if gate.name not in known:
            raise InputError(
                f"--fail-if names {gate.name!r}{suggestion(gate.name, known)}; expected one of "
                f"{', '.join(known)}."
            )
        gates.append(gate)
    return gates


def failures_of(gates: Sequence[Gate], values: Mapping[str, float | None]) -> list[str]:
    """Return one sentence for each gate whose condition holds."""
    failures = []
    for gate in gates:
        value, limit = values.get(gate.name), f"{gate.name}{gate.sign}{gate.limit:g}"
        if value is None or value != value:
            raise InputError(
                f"--fail-if asks for {gate.name}, which has no value here; metrics need labelled "
                "test nodes, and those of one class --positive."
            )
        if SIGNS[gate.sign](value, gate.limit):
            failures.append(f"{gate.name} is {value:.4g}, and --fail-if says {limit}.")
    return failures


def end_if_failed(failures: Sequence[str]) -> None:
    """Say which gates failed and end with their exit code."""
    for sentence in failures:
        print_line("gate", sentence)
    if failures:
        raise typer.Exit(GATE_FAILED)
