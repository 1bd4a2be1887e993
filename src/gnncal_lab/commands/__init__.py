"""The verbs of the laboratory: ``gnncal bench``, ``gnncal csbm`` and ``gnncal block-model``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from gnncal.cli.terminal import err

T = TypeVar("T")


def with_bar(items: Collection[T], doing: str) -> Iterable[T]:
    """Show a progress bar while the items are worked through, if there is a terminal to show it."""
    if not err.is_terminal:
        return items  # a bar that is switched off still ends its line in Rich before 14.3
    from rich.progress import track

    return track(items, doing, console=err, transient=True)
