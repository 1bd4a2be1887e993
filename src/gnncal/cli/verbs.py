"""Verbs of other packages, found through entry points.

A package declares them in its ``pyproject.toml``, and gnncal needs no change::

    [project.entry-points."gnncal.commands"]
    my-verb = "my_package.verbs:MY_VERB"

``bench``, ``block-model`` and ``csbm`` of :mod:`gnncal_lab` come through the same door.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand

from gnncal.cli.terminal import Verbs, friendly, note

GROUP = "gnncal.commands"


@dataclass(frozen=True)
class Command:
    """A verb that a package adds to the program ``gnncal``.

    It belongs into a module that imports little: ``gnncal --help`` imports it to show the help,
    and ``load`` is called when the verb runs.

    Parameters
    ----------
    help : str
        What the verb does, in one line.
    load : callable
        Takes nothing and returns a function with Typer's annotations, or a Typer app whose
        commands are the verb's own. An ``InputError`` in them becomes one line on stderr.

    Examples
    --------
    >>> from gnncal.cli import Command
    >>> def load():
    ...     def hello(name: str = "graph") -> None:
    ...         print(f"hello {name}")
    ...     return hello
    >>> HELLO = Command("Greet somebody.", load)

    """

    help: str
    load: Callable[[], Callable[..., None] | typer.Typer]


class AllVerbs(Verbs):
    """The program's own verbs, then those that entry points declare."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all verbs."""
        own = super().list_commands(ctx)
        return own + [each.name for each in _declared() if each.name not in own]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb by name; of a declared one, only what the help shows."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        found = next((each for each in _declared() if each.name == cmd_name), None)
        return None if found is None else _announced(found)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that is about to run, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.loaded() if isinstance(command, _Announced) else command, rest


class _Announced(TyperCommand):
    """A declared verb that is not imported yet."""

    command: Command

    def loaded(self) -> Any:
        """Return the verb itself."""
        return typer.main.get_command(_app_of(self.command))


@cache  # or a verb that runs twice in a process would be wrapped twice
def _app_of(command: Command) -> typer.Typer:
    """Return the app of a verb, each of its commands with errors in one line."""
    found = command.load()
    app = found if isinstance(found, typer.Typer) else typer.Typer()
    if not isinstance(found, typer.Typer):
        app.command()(found)
    app._add_completion = False
    for each in app.registered_commands:
        each.callback = friendly(each.callback)  # type: ignore[arg-type]
    return app


def _declared() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda each: each.name)


def _announced(entry_point: EntryPoint) -> _Announced | None:
    """Return what the help shows of a declared verb; None, after a note, if it cannot be used."""
    try:
        command = entry_point.load()
    except Exception as error:  # whatever another package does, gnncal goes on
        command = error
    if not isinstance(command, Command):
        note(f"the verb {entry_point.name!r} is left out: {command!r} is no gnncal.cli.Command.")
        return None
    announced = _Announced(entry_point.name, help=command.help)
    announced.command = command
    return announced
