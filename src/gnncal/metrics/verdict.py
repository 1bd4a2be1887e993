"""The verdict on a fit: can one act on this confidence?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gnncal.data.constraints import NONE, number
from gnncal.metrics.evaluation import Comparison, Evaluation, shown_class
from gnncal.metrics.uncertainty import CalibrationEstimate

SIGNIFICANT = 0.05
NEGLIGIBLE = 0.01  # a calibration error above the noise floor that hardly matters in use
TOLERANCE = number(above=0, below=1) | NONE  # what a user may tolerate
STRICTEST, LOOSEST = 0.03, 0.06  # limits of the default tolerance
FLOORS = 2.0  # so many noise floors are tolerated between these limits
SHARE_OF_RATE = 0.5  # of the base rate: never more is tolerated of P(class)
NEARLY = 1.1  # a limit that is missed by this factor still lets most samples pass
UNSEEN_ERROR = 3.69  # -ln(0.025): n equal outcomes may hide an error of this / n
UNCALIBRATED = "uncalibrated"  # the raw model
REMAINDER = (
    "The error is still {:.1f} points larger than chance explains; the groups of the report show "
    "where."
)
MISTAKE = "Do not use these probabilities"
NOT_SHOWN = "Calibration not shown yet"
CHECK_EDGES = "Check the order of the edges first"
NOT_BETTER = "Calibrated, but not clearly better than before"
REACHES = "The interval of {} exceeds its tolerance."
NEEDED = "If {} is calibrated, about {:,} labelled test nodes would show it."
DISAGREEMENT = (
    "The two measures disagree: confidence now separates correct from wrong predictions better, "
    "but its mean is further from the accuracy. Where predictions are nearly always wrong, no "
    "temperature lowers their confidence enough; structural-free, which may change them, can."
)


@dataclass(frozen=True)
class Verdict:
    """The verdict on one method: a short ``label``, and a ``text`` with the reasons.

    If calibration is not shown yet, ``n_needed`` is about the number of labelled test nodes that
    would show it; otherwise it is None.
    """

    grade: Literal["good", "warn", "bad"]
    label: str
    text: str
    n_needed: int | None = None

    @property
    def sentence(self) -> str:
        """The label, followed by the text."""
        return f"{self.label}. {self.text}"


@dataclass(frozen=True)
class _Error:
    """A calibration error, and the largest one to act on."""

    of: str
    estimate: CalibrationEstimate
    tolerance: float | None  # None: the default
    rate: float = 1.0  # of the class or of all others, whichever is rarer
    stated_rate: float = 1.0  # the mean probability of the rarer ones

    @property
    def limit(self) -> float:
        """The largest error to act on."""
        return self._limit(self.estimate.floor, self.rate)

    def _limit(self, floor: float, rate: float) -> float:
        if self.tolerance is not None:
            return self.tolerance
        return min(max(STRICTEST, min(FLOORS * floor, LOOSEST)), SHARE_OF_RATE * rate)

    @property
    def is_shown(self) -> bool:
        """Whether the whole interval lies below the limit."""
        return self.estimate.high < self.limit

    @property
    def excess(self) -> float:
        """The error beyond its noise floor."""
        return max(self.estimate.value - self.estimate.floor, 0.0)

    @property
    def is_wrong(self) -> bool:
        """Whether an error that matters is significant."""
        if self.tolerance is not None and self.is_shown:
            return False
        matters = self.excess >= min(NEGLIGIBLE, self.limit)
        return self.estimate.p_value <= SIGNIFICANT and matters

    @property
    def n_needed(self) -> int | None:
        """About how many test nodes show calibration in most samples, to two digits.

        The interval and the noise floor shrink with the root of the number of nodes.
        """
        n_nodes, rate = self.estimate.n_nodes, self.rate or self.stated_rate
        needed = 0.0
        for floor in (1.0, 0.0):  # the loosest limit first
            limit = self._limit(floor, rate)
            if limit == 0.0:
                return None
            growth = (self.estimate.calibrated_high / limit) ** 2
            needed = growth * n_nodes + UNSEEN_ERROR / limit
            floor_then = self.estimate.floor * math.sqrt(n_nodes / needed)
            if limit <= NEARLY * self._limit(floor_then, rate):
                break
        if needed <= n_nodes:  # most samples of this size show it, but not this one
            needed = 2.0 * n_nodes
        unit = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
        return math.ceil(needed / unit) * unit

    def expected(self, n_digits: int = 1) -> str:
        """Say what the error is compared with."""
        floor, high = (_percent(v, n_digits) for v in (self.estimate.floor, self.estimate.high))
        return (
            f"(perfect calibration would show {floor}; its {100 * self.estimate.level:.0f}% "
            f"interval ends at {high}, tolerance {100 * self.limit:.2g}%)"
        )


def judge_method(
    name: str,
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    *,
    price: str | None = None,  # the cost of keeping predictions and the fix, if the cost is large
    favours_a_class: bool = False,  # the mean probability of a class clearly exceeds its base rate
    tolerance: float | None = None,  # the largest calibration error to act on
    wrong_edges: str | None = None,  # why the edges seem to belong to other nodes
) -> Verdict:
    """Say what a method did to the confidence, and whether it is calibrated now."""
    errors = [_Error("the confidence", after.ece, tolerance)]
    shown = None
    if after.positive is not None:
        shown = shown_class(after.positive, after.class_names)
        assert after.positive_estimate is not None
        rates = (min(each, 1.0 - each) for each in (after.positive_rate, after.positive_mean))
        errors.append(_Error(f"P({shown})", after.positive_estimate, tolerance, *rates))
    judged = _judge_confidence(name, before, after, gain, price, favours_a_class, errors)
    if shown is not None:
        label = judged.label.replace("this confidence", f"P({shown})")
        if errors[-1].is_wrong and (judged.grade == "good" or label == NOT_SHOWN):
            judged, label = replace(judged, grade="bad"), f"Do not act on P({shown}) yet"
        text = f"{_about_class(before, after, errors[-1])} {judged.text}"
        judged = replace(judged, label=label, text=text)
    if wrong_edges is not None and judged.label == MISTAKE:  # which holds for any edges
        return replace(judged, text=f"{judged.text} {_capital(wrong_edges)}")
    if wrong_edges is not None:
        return Verdict("bad", CHECK_EDGES, f"{_capital(wrong_edges)} {judged.text}")
    return judged


def _about_class(before: Evaluation, after: Evaluation, of_class: _Error) -> str:
    """Say mean against base rate, then the error, before and after."""
    rate, p = after.positive_rate, of_class.of
    name, n_digits = p[2:-1], 1 if rate >= 0.01 else 2
    numbers = [(each.positive_mean, each.positive_ece) for each in (before, after)]
    (was, error_was), (mean, error) = ([_percent(v, n_digits) for v in pair] for pair in numbers)
    about = f"Mean {p} is {mean}, and {_percent(rate, n_digits)} of the test nodes are {name}"
    moved = f"is {error}"
    if numbers[0] != numbers[1]:
        about, moved = f"{about} (before: {was})", f"goes from {error_was} to {error}"
    return f"{about}. The calibration error of {p} {moved} {of_class.expected(n_digits)}."


def _judge_confidence(
    name: str,
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    price: str | None,
    favours_a_class: bool,
    errors: Sequence[_Error],  # of the confidence, then of P(class)
) -> Verdict:
    error, ece, nll = errors[0], after.ece, gain.nll
    if name == UNCALIBRATED:
        return _judge_model(errors, price if favours_a_class else None)
    moved = (
        f"With {name}, the expected calibration error goes from {_percent(before.ece.value)} to "
        f"{_percent(ece.value)} {error.expected()}, and the log loss changes by {nll.mean:+.3f} "
        f"nats {nll.interval(3)}"
    )
    changed = "No prediction changed."
    if gain.prediction_change_rate:
        changed = (
            f"It changed {_percent(gain.prediction_change_rate)} of the predictions; accuracy went "
            f"from {_percent(before.accuracy)} to {_percent(after.accuracy)}."
        )
    if price is not None and (favours_a_class or error.is_wrong):
        return Verdict("bad", MISTAKE, f"{price} {moved}. {changed}")
    changed = " ".join(filter(None, [changed, price]))
    if nll.low > 0:
        advice = "Keep the model's own confidence."
        return Verdict("bad", "Worse than before", f"{moved}. {changed} {advice}")
    if not error.is_wrong:
        if (unseen := _not_shown(errors, f"{moved}. {changed}")) is not None:
            return unseen
        label = "You can act on this confidence" if nll.high < 0 else NOT_BETTER
        return Verdict("good", label, f"{moved}. {changed}")
    if nll.high < 0:
        rest = DISAGREEMENT if ece.low > before.ece.high else REMAINDER.format(100 * error.excess)
        return Verdict("warn", "Better, not perfect", f"{moved}. {changed} {rest}")
    chance = f"{moved}. The change may be chance. {changed} Try another method."
    return Verdict("bad", "Not trustworthy yet", chance)


def judge_untested(price: str, *, favours_a_class: bool) -> Verdict:
    """Return the verdict on keeping predictions if no test nodes can judge a method."""
    if favours_a_class:
        return Verdict("bad", MISTAKE, price)
    return Verdict("warn", "Keeping predictions raises the log loss", price)


def _judge_model(errors: Sequence[_Error], mistake: str | None) -> Verdict:
    error = errors[0]
    text = (
        f"The raw model has an expected calibration error of {_percent(error.estimate.value)} "
        f"{error.expected()}."
    )
    if mistake is not None:
        return Verdict("bad", MISTAKE, f"{mistake} {text}")
    if error.is_wrong:
        return Verdict(
            "bad", "The model is not calibrated", f"{text} Choose a method to repair it."
        )
    good = Verdict("good", "The model is already calibrated", text)
    return _not_shown(errors, text) or good


def _not_shown(errors: Sequence[_Error], text: str) -> Verdict | None:
    """Return the verdict that test nodes are too few to show calibration; None if they do."""
    unseen = [error for error in errors if not error.is_shown]
    if not unseen:
        return None
    sentences, needed = [text], []
    for error in unseen:
        sentences.append(REACHES.format(error.of))
        if (number_of_nodes := error.n_needed) is None:
            sentences.append("No test node shows this class; label some that have it.")
        else:
            sentences.append(NEEDED.format(error.of, number_of_nodes))
            needed.append(number_of_nodes)
    return Verdict("warn", NOT_SHOWN, " ".join(sentences), max(needed, default=None))


def _capital(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}"


def _percent(share: float, n_digits: int = 1) -> str:
    return f"{100 * share:.{n_digits}f}%"
