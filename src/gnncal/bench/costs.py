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
        self._seconds: dict[Step, _Mean] = defaultdict(_Mean)
        self._rate: dict[tuple[str, str], _Mean] = defaultdict(_Mean)  # seconds a size
        self._any_rate = _Mean()

    @property
    def measured(self) -> bool:
        """Whether a prediction is more than a guess."""
        return self._any_rate.count > 0

    def add(self, step: Step, seconds: float) -> None:
        """Learn from a step that took this long."""
        rate = seconds / self._size(step.dataset)
        self._seconds[step].add(seconds)
        self._rate[step.kind].add(rate)
        self._any_rate.add(rate)

    def predict(self, step: Step) -> float:
        """Expected seconds of a step."""
        if step in self._seconds:
            return self._seconds[step].value
        rate = self._rate.get(step.kind, self._any_rate)
        return rate.value * self._size(step.dataset) if rate.count else UNKNOWN_SECONDS


class _Mean:
    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def add(self, value: float) -> None:
        self.count += 1
        self.value += (value - self.value) / self.count


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
