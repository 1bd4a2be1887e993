"""How long cells take, learned from those that are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

UNKNOWN_SECONDS = 2.0  # of a cell when nothing has been measured yet
T = TypeVar("T")


class Step(NamedTuple):
    """A kind of work on a dataset: a method with its protocol, or the training of a backbone."""

    kind: tuple[str, str]
    dataset: str


class Costs:
    """Predicts seconds: of the same step, else of its kind by dataset size, else of any kind."""

    def __init__(self, size: Callable[[str], float]) -> None:
        self._size = size
        self._seconds: dict[Step, list[float]] = defaultdict(list)
        self._rate: dict[tuple[str, str], list[float]] = defaultdict(list)  # seconds a size

    def add(self, step: Step, seconds: float) -> None:
        """Learn from a step that took this long."""
        self._seconds[step].append(seconds)
        self._rate[step.kind].append(seconds / self._size(step.dataset))

    def predict(self, step: Step) -> float:
        """Expected seconds of a step."""
        if step in self._seconds:
            return _mean(self._seconds[step])
        if step.kind in self._rate:
            return _mean(self._rate[step.kind]) * self._size(step.dataset)
        if self._rate:
            rates = [_mean(rates) for rates in self._rate.values()]
            return _mean(rates) * self._size(step.dataset)
        return UNKNOWN_SECONDS


def chunks(items: Sequence[T], cost: Callable[[T], float], limit: float) -> Iterator[list[T]]:
    """Runs of items that cost at most ``limit`` together; a dearer item stands alone."""
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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
