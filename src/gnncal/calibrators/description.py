"""What a calibrator is and takes, as data read from its class and its docstring."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import class_of, find_name, find_preset, provider_of

ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?([^`]*)`")  # :class:`gnncal.Graph` shows as Graph
ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*) : .*\n(?P<description>(?:[ ]+\S.*(?:\n|$))+)", re.M)


@dataclass(frozen=True)
class ParameterDescription:
    """One parameter of a constructor."""

    name: str
    default: Any
    note: str  # from the docstring


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
    signature, preset = inspect.signature(kind), find_preset(name)
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
            ParameterDescription(parameter, signature.parameters[parameter].default, note)
            for parameter, note in _notes(kind).items()
            if parameter not in given
        ),
    )


def _advice(kind: type[Calibrator]) -> str:
    """Return the first paragraph of the docstring's notes, which says when to use the method."""
    documentation = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    _, _, notes = documentation.partition("\nNotes\n-----\n")
    return _plain(notes.partition("\n\n")[0])


def _notes(kind: type[Calibrator]) -> dict[str, str]:
    """Return the documentation of each parameter, from the nearest class that explains it."""
    documented = [_documented_parameters(parent) for parent in kind.__mro__]
    return {
        name: next((notes[name] for notes in documented if name in notes), "")
        for name in inspect.signature(kind).parameters
    }


def _documented_parameters(kind: type) -> dict[str, str]:
    """Return the descriptions in a class's own "Parameters" section, by name.

    An entry is ``name : type`` or ``name, other : type``, with the description on indented lines.
    """
    documentation = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    _, _, section = documentation.partition("\nParameters\n----------\n")
    notes: dict[str, str] = {}
    for entry in ENTRY.finditer(section.partition("\n\n")[0]):
        notes |= dict.fromkeys(entry["names"].split(", "), _plain(entry["description"]))
    return notes


def _plain(text: str) -> str:
    """Return a docstring's text without the marks of reStructuredText."""
    return ROLE.sub(r"\1", " ".join(text.split())).replace("``", "")
