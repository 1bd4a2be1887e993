"""Verbs that are imported when they run, of the program and of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import cleandoc
from pkgutil import resolve_name
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from gnncal.cli.terminal import error_messages, note, with_error_messages


@dataclass(frozen=True)
class Command:
    """A command of the program ``gnncal``, imported when it runs.

    Parameters
    ----------
    help : str
        Description of the command in one line.
    target : str
        ``"package.module:name"`` of a function with Typer's annotations, or of a Typer app with
        subcommands. If it raises an ``InputError``, the program prints the message as one line on
        stderr.
    examples : tuple of str, optional
        Command lines for the help, without ``gnncal``; each subcommand shows its own.

    Examples
    --------
    >>> from gnncal.cli import Command
    >>> HELLO = Command("Greet somebody.", "my_package.hello:hello")

    """

    help: str
    target: str
    examples: tuple[str, ...] = ()


class Verb(TyperCommand):
    """A verb whose usage line names required arguments without braces, in every Typer."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]


class LazyVerbs(TyperGroup):
    """The verbs of a table, then those that entry points declare."""

    own: ClassVar[dict[str, Command]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all verbs, those of the table in its order."""
        return list(dict.fromkeys([*self.own, *super().list_commands(ctx), *_declared()]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what the list of verbs shows of one."""
        command = self._described(cmd_name)
        if command is None:
            return super().get_command(ctx, cmd_name)
        return TyperCommand(cmd_name, help=command.help, rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that is about to run, imported."""
        name, found, rest = super().resolve_command(ctx, args)
        command = self._described(name or "")
        if command is not None:
            with error_messages():
                found = typer.main.get_command(_app_of(command))
        return name, found, rest

    def _described(self, name: str) -> Command | None:
        declared = _declared()
        return self.own.get(name) or (_load_declared(declared[name]) if name in declared else None)


@cache  # or a verb that runs twice in a process would be wrapped twice
def _app_of(command: Command) -> typer.Typer:
    """Return the app of a verb, each of its commands with errors in one line."""
    found = resolve_name(command.target)
    is_app = isinstance(found, typer.Typer)
    app: Any = found if is_app else typer.Typer()
    if not is_app:
        app.command()(found)
    app._add_completion, app.rich_markup_mode = False, None
    for each in app.registered_commands:
        title, _, more = cleandoc(each.callback.__doc__ or "").partition("\n\n")
        name = each.name or each.callback.__name__
        mine = [e for e in command.examples if not is_app or name in e.split()[1:2]]
        if mine:
            each.epilog = "\n  gnncal ".join(["\b\nExamples:", *mine])
        each.help = f"{title if is_app else command.help}\n\n{more}"
        each.cls = Verb
        each.callback = with_error_messages(each.callback)
    return app


def _declared() -> dict[str, EntryPoint]:
    """Return the entry points of verbs by name."""
    return {each.name: each for each in sorted(entry_points(group="gnncal.commands"))}


def _load_declared(entry_point: EntryPoint) -> Command | None:
    """Return a declared verb; None, after a note, if it cannot be used."""
    try:
        command = entry_point.load()
    except Exception as error:  # whatever another package does, gnncal goes on
        command = error
    if isinstance(command, Command):
        return command
    note(f"the verb {entry_point.name!r} is left out: {command!r} is not a gnncal.cli.Command.")
    return None
