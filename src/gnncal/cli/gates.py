"""Gates: ``--fail-if 'ece>0.05'`` ends a verb with an exit code after its results are written."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Annotated

import typer

from gnncal.cli.params import Texts, read_pairs, several
from gnncal.cli.terminal import print_line
from gnncal.data.checks import suggestion
from gnncal.data.errors import InputError
from gnncal.metrics.table import METRICS

NOTHING_CERTIFIED = 3  # exit code of decide
GATE_FAILED = 4  # exit code of every verb with --fail-if
SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
HIGHEST = {"nll": inf, "brier": 2.0, "uncertified": inf}  # of all others: 1
GATE = r"([A-Za-z_]\w*)\s*([<>]=?\s*[-+.\deE]+)"
Gates = dict[str, tuple[str, float]]  # sign and limit by name
FailIf = Annotated[
    Texts,
    several(
        "End with exit code 4 if this condition holds on the test nodes, such as 'ece>0.05'. "
        "Metrics have the names of the --json output; shares lie between 0 and 1.",
        "METRIC>NUMBER",
    ),
]


def read_gates(given: Sequence[str] | None, *, others: Collection[str] = ()) -> Gates:
    """Return the gates that were asked for; names are those of metrics, and some others."""
    known, expected = [*METRICS, *others], "a metric and a limit: 'ece>0.05'"
    gates = read_pairs(given, "--fail-if", GATE, expected, _read_limit)
    for name in gates:
        if name not in known:
            raise InputError(
                f"--fail-if names {name!r}{suggestion(name, known)}; expected one of "
                f"{', '.join(known)}."
            )
        (sign, limit), highest = gates[name], HIGHEST.get(name, 1.0)
        is_never = limit >= highest if sign == ">" else sign == "<" and limit <= 0
        if is_never or not 0 <= limit <= highest:
            between = "is at least 0" if highest == inf else f"lies between 0 and {highest:g}"
            hint = "; write shares, not percent" if highest == 1 else ""
            raise InputError(
                f"--fail-if says {name}{sign}{limit:g}, but {name} {between}, so the condition "
                f"holds always or never{hint}; pass a limit such as 'ece>0.05'."
            )
    return gates


def _read_limit(text: str) -> tuple[str, float]:
    sign = text[:2].strip("-+.0123456789 ")
    return sign, float(text.removeprefix(sign))


def failures_of(gates: Gates, values: Mapping[str, float | None]) -> list[str]:
    """Return one sentence for each gate whose condition holds."""
    failures = []
    for name, (sign, limit) in gates.items():
        value = values.get(name)
        if value is None or value != value:
            raise InputError(
                f"--fail-if asks for {name}, which has no value here; metrics need labelled "
                "test nodes, and those of one class --positive."
            )
        if SIGNS[sign](value, limit):
            failures.append(f"{name} is {value:.4g}, and --fail-if says {name}{sign}{limit:g}.")
    return failures


def end_if_failed(failures: Sequence[str]) -> None:
    """Say which gates failed and end with their exit code."""
    for sentence in failures:
        print_line("gate", sentence)
    if failures:
        raise typer.Exit(GATE_FAILED)
