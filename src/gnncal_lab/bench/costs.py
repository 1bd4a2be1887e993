"""How long cells take, learned from those that are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

LARGEST_RATIO = 10.0  # of the sizes of two graphs; beyond it, times say nothing about each other
T = TypeVar("T")


class Step(NamedTuple):
    """A kind of work on a dataset: a method with its protocol, or the training of a backbone."""

    kind: tuple[str, str]
    dataset: str


class Costs:
    """Predicts seconds from steps of the same kind, and nothing from any other kind."""

    def __init__(self, size: Callable[[str], float]) -> None:
        self._size = size
        self._seconds: dict[tuple[str, str], dict[str, _Mean]] = defaultdict(
            lambda: defaultdict(_Mean)
        )

    def add(self, step: Step, seconds: float) -> None:
        """Learn from a step that took this long."""
        self._seconds[step.kind][step.dataset].add(seconds)

    def predict(self, step: Step) -> float | None:
        """Return the expected seconds of a step; None before anything like it was measured."""
        measured = self._seconds.get(step.kind, {})
        if step.dataset in measured:
            return measured[step.dataset].value
        ratios = {name: self._size(step.dataset) / self._size(name) for name in measured}
        if not ratios:
            return None
        nearest = min(ratios, key=lambda name: max(ratios[name], 1.0 / ratios[name]))
        if max(ratios[nearest], 1.0 / ratios[nearest]) > LARGEST_RATIO:
            return None
        return measured[nearest].value * ratios[nearest]


class _Mean:
    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def add(self, value: float) -> None:
        self.count += 1
        self.value += (value - self.value) / self.count


def chunks(items: Sequence[T], cost: Callable[[T], float], limit: float) -> Iterator[list[T]]:
    """Group consecutive items that cost at most ``limit`` together; a costlier item is alone."""
    chunk: list[T] = []
    total = 0.0
    for item in items:
        price = cost(item)
        if chunk and total + price > limit:
            yield chunk
            chunk, total = [], 0.0
        chunk.append(item)
        total += price
    if chunk:
        yield chunk
