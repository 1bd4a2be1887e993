"""Help texts that name the entries of a table, which is read only when the help is shown.

Typer makes the texts of all verbs at every start. The tables are in modules that take a second
or two to import, which ``gnncal --version`` should not cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand

NAMES_OF_SCORES = "{scores}"  # in a help text, it stands for the names


def _scores() -> str:
    from gnncal.decisions.scores import SCORES

    return ", ".join(SCORES)


TABLES: dict[str, Callable[[], str]] = {NAMES_OF_SCORES: _scores}


class Verb(TyperCommand):
    """A verb whose options may name a table in their help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names that the tables have now."""
        for param in self.params:
            text = getattr(param, "help", None) or ""
            for mark, names in TABLES.items():
                if mark in text:
                    text = text.replace(mark, names())
                    param.help = text  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)
