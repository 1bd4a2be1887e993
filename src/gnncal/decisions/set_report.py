"""What a fit of sets found on the calibration nodes, in numbers and in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.tabular import DECIMALS, Table, Tabular, count, number, quantities, text
from gnncal.decisions.quantile import INTERVAL_LEVEL, coverage_limits, fewest_calibration

ENDS = f"of {100 * INTERVAL_LEVEL:g} % of such draws"
MOST_NAMED = 10  # classes that a sentence names


@dataclass(frozen=True, repr=False)
class ConformalReport(Tabular):
    """What a fit found on the calibration nodes, in numbers and in one sentence.

    It prints as a table.

    Attributes
    ----------
    coverage : float
        The coverage that was asked for.
    n_calibration : int
        Number of calibration nodes.
    threshold : float
        Largest score of a class in a set; infinite if there are too few calibration nodes.
    coverage_low, coverage_high : float
        95 % of draws of as many calibration nodes cover a share between these.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ConformalClassifier
    >>> generator = np.random.default_rng(0)
    >>> probs = generator.dirichlet([1, 1, 1], size=500)
    >>> labels = np.array([generator.choice(3, p=row) for row in probs])
    >>> report = ConformalClassifier(0.9).fit(probs, labels).report_
    >>> round(report.coverage_low, 2), round(report.coverage_high, 2)
    (0.87, 0.92)

    """

    coverage: float
    n_calibration: int
    threshold: float
    coverage_low: float
    coverage_high: float

    @property
    def leaves_a_class_open(self) -> bool:
        """Whether there are too few calibration nodes to leave any class out of a set."""
        return self.threshold == np.inf

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        share = f"{100 * self.coverage:g} %"
        if self.leaves_a_class_open:
            return (
                f"Every set has all classes: {self.n_calibration:,} calibration nodes are too few "
                f"for {share} coverage, which takes at least {fewest_calibration(self.coverage):,}."
            )
        return (
            f"Averaged over draws of the calibration nodes, the sets have the true class of at "
            f"least {share} of the nodes."
        )

    def _tables(self) -> Sequence[Table]:
        names = {
            "coverage": "coverage asked for",
            "coverage_low": f"  lowest {ENDS}",
            "coverage_high": f"  highest {ENDS}",
            "n_calibration": "calibration nodes",
            "threshold": "threshold of the scores",
        }
        return [quantities(self, self.sentence, names)]


@dataclass(frozen=True, repr=False)
class ClassConformalReport(Tabular):
    """What a fit with one threshold for each class found, in numbers and in plain words.

    It prints as a table with a row for each class.

    Attributes
    ----------
    coverage : float
        The coverage that was asked for, of the nodes of each class.
    n_calibration : int
        Number of calibration nodes.
    class_names : tuple of str
        What the classes are called.
    n_by_class : tuple of int
        Number of calibration nodes of each class.
    threshold_by_class : tuple of float
        Largest score with which the class is in a set; infinite if too few calibration nodes have
        the class, which is then in every set.
    low_by_class, high_by_class : tuple of float
        95 % of draws of as many calibration nodes cover a share of the class between these.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.decisions import ConformalClassifier
    >>> generator = np.random.default_rng(0)
    >>> probs = generator.dirichlet([8, 1], size=500)
    >>> labels = np.array([generator.choice(2, p=row) for row in probs])
    >>> conformal = ConformalClassifier(0.9, score="lac", by_class=True)
    >>> report = conformal.fit(probs, labels, class_names=["legitimate", "fraud"]).report_
    >>> report.n_by_class, [round(low, 2) for low in report.low_by_class]
    ((449, 51), [0.87, 0.81])

    """

    coverage: float
    n_calibration: int
    class_names: tuple[str, ...]
    n_by_class: tuple[int, ...]
    threshold_by_class: tuple[float, ...]
    low_by_class: tuple[float, ...]
    high_by_class: tuple[float, ...]

    @property
    def leaves_a_class_open(self) -> bool:
        """Whether a class has too few calibration nodes to be left out of any set."""
        return np.inf in self.threshold_by_class

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        share = f"{100 * self.coverage:g} %"
        promise = (
            "Averaged over draws of the calibration nodes, the sets have the true class of at "
            f"least {share} of the nodes of each class."
        )
        rows = zip(self.class_names, self.n_by_class, self.threshold_by_class, strict=True)
        few = [f"{name} ({n:,})" for name, n, threshold in rows if threshold == np.inf]
        if not few:
            return promise
        named = ", ".join(few[:MOST_NAMED]) + (", ..." if len(few) > MOST_NAMED else "")
        which = "1 class, which has" if len(few) == 1 else f"{len(few):,} classes, which have"
        return (
            f"{promise} Every set has {which} too few calibration nodes for {share}: {named}. It "
            f"takes at least {fewest_calibration(self.coverage):,} nodes of a class."
        )

    def _tables(self) -> Sequence[Table]:
        columns = (
            "class",
            "calibration nodes",
            "threshold of the scores",
            f"lowest coverage {ENDS}",
            "highest",
        )
        values = zip(
            *(self.class_names, self.n_by_class, self.threshold_by_class),
            *(self.low_by_class, self.high_by_class),
            strict=True,
        )
        rows = [
            [text(name), count(n), *(number(value, DECIMALS) for value in numbers)]
            for name, n, *numbers in values
        ]
        return [Table(self.sentence, columns, rows)]


def report_of(coverage: float, n: int, threshold: float) -> ConformalReport:
    """Return the report of a threshold that rests on n calibration nodes."""
    return ConformalReport(float(coverage), n, threshold, *coverage_limits(n, coverage))


def class_report_of(
    coverage: float, counts: IntArray, thresholds: FloatArray, names: Sequence[str] | None
) -> ClassConformalReport:
    """Return the report of thresholds (K,) that rest on so many nodes of each class (K,)."""
    limits = [coverage_limits(n, coverage) for n in counts.tolist()]
    lows, highs = zip(*limits, strict=True)
    return ClassConformalReport(
        coverage=float(coverage),
        n_calibration=int(counts.sum()),
        class_names=tuple(names or (f"class {c}" for c in range(len(counts)))),
        n_by_class=tuple(counts.tolist()),
        threshold_by_class=tuple(thresholds.tolist()),
        low_by_class=lows,
        high_by_class=highs,
    )
