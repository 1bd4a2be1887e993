"""What a run reports while it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from gnncal.scale.engines import Engine


class Progress:
    """Base of listeners; it measures how long each stage takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, engine: Engine) -> Iterator[None]:
        """Time a stage, and show it while it lasts."""
        start = perf_counter()
        with self.shown(name, engine):
            yield
        self.seconds[name] = perf_counter() - start

    @contextmanager
    def shown(self, name: str, engine: Engine) -> Iterator[None]:
        """Show a stage while it lasts; nothing by default."""
        yield


class Silent(Progress):
    """Shows nothing."""
