"""What a calibrator is and takes, as data."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import class_of, find_name, find_preset, provider_of


@dataclass(frozen=True)
class ParameterDescription:
    """One parameter of a constructor."""

    name: str
    default: Any
    expected: str  # what it may be; "" if anything


@dataclass(frozen=True)
class MethodDescription:
    """A calibrator as a list of methods shows it."""

    name: str
    class_name: str
    summary: str
    advice: str  # when to use it; "" if the docstring has no notes
    preserves_predictions: bool
    needs_graph: bool
    needs_torch: bool
    package: str  # "gnncal", or name and version of the package that provides it
    parameters: tuple[ParameterDescription, ...]


def describe(name: str) -> MethodDescription:
    """Return the description of the calibrator with this name."""
    name = find_name(name)
    kind = class_of(name)
    preset = find_preset(name)
    given = {} if preset is None else preset.params
    made = kind(**given)
    first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return MethodDescription(
        name,
        kind.__name__,
        _plain(first) if preset is None else preset.summary,
        _advice(kind) if preset is None else preset.advice,
        made.preserves_predictions,
        made.needs_graph,
        kind.needs_torch,
        provider_of(name),
        tuple(
            ParameterDescription(
                parameter.name,
                parameter.default,
                kind.constraints[parameter.name].expected
                if parameter.name in kind.constraints
                else "",
            )
            for parameter in inspect.signature(kind).parameters.values()
            if parameter.name not in given
        ),
    )


def _advice(kind: type[Calibrator]) -> str:
    """Return the first paragraph of the docstring's notes, which says when to use the method."""
    documentation = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    _, _, notes = documentation.partition("\nNotes\n-----\n")
    return _plain(notes.partition("\n\n")[0])


def _plain(text: str) -> str:
    """Return a docstring's text on one line, without marks of code."""
    return " ".join(text.split()).replace("``", "")
