"""A law: a sentence that must be true of a calibrator."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gnncal.core.errors import GnncalWarning
from gnncal.testing.tasks import Family, random_task

N_EXAMPLES = 8  # random tasks on which a law is checked


def _always(subject: Any) -> bool:
    return True


@dataclass(frozen=True)
class Law:
    """A sentence that must be true of a calibrator."""

    function: Callable[..., None]
    family: Family | None
    applies: Callable[[Any], bool]

    @property
    def name(self) -> str:
        """The law as a sentence, by which expected failures name it."""
        return self.function.__name__.replace("_", " ")

    def __str__(self) -> str:
        return self.name

    def check(self, subject: Any, *, n_examples: int = N_EXAMPLES) -> None:
        """Check that a calibrator keeps the law."""
        if self.family is None:
            self._check_once(subject)
            return
        for seed in range(n_examples):
            self._check_once(subject, random_task(seed, self.family), seed=seed)

    def _check_once(self, subject: Any, *task: Any, seed: int | None = None) -> None:
        where = "" if seed is None else f" (on gnncal.testing.random_task({seed}, {self.family}))"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GnncalWarning)  # small tasks are full of them
            try:
                self.function(subject, *task)
            except Exception as error:  # what is broken may raise anything
                what = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                reason = " ".join(str(error).split())
                raise AssertionError(f"{self.name}: {what}{reason}{where}") from error


def law(
    *, family: Family | None = None, applies: Callable[[Any], bool] = _always
) -> Callable[[Callable[..., None]], Law]:
    """Make a law of a function; the function's name is the law as a sentence."""
    return lambda function: Law(function, family, applies)


@contextmanager
def refused(kind: type[Exception], words: str) -> Iterator[None]:
    """Demand that the block raises this kind of error with these words, a regular expression."""
    said = None
    try:
        yield
    except kind as error:
        said = str(error)
    assert said is not None, f"no {kind.__name__} was raised that says {words!r}"
    assert re.search(words, said), f"the message {said!r} does not say {words!r}"
