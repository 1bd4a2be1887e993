"""The verdict on a fit: can one act on this confidence?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gnncal.metrics.evaluation import Comparison, Difference, Evaluation, shown_class

SIGNIFICANT = 0.05
NEGLIGIBLE = 0.01  # a calibration error above the noise floor that hardly matters in use
FAINT = 0.05  # above this noise floor, an error that matters cannot be seen
UNCALIBRATED = "uncalibrated"  # the model as it is
REMAINDER = (
    "The error is still {:.1f} points larger than chance explains; the groups of the report show "
    "where."
)
MISTAKE = "Do not use these probabilities"
TOO_FEW = "Too few test nodes to tell"
NOT_BETTER = "Honest, but not clearly better than before"
UNSEEN = (
    "With so few test nodes, chance alone shows an error of {}, so a smaller error cannot be seen. "
    "Label more test nodes."
)
DISAGREEMENT = (
    "The two measures disagree: confidence now separates right from wrong predictions better, but "
    "on average it fits the accuracy worse. Where a prediction is nearly always wrong, no "
    "temperature can say so; a method that may change predictions, such as structural-free, can."
)


@dataclass(frozen=True)
class Verdict:
    """A judgement on one method, in words."""

    grade: Literal["good", "warn", "bad"]
    label: str
    text: str

    @property
    def sentence(self) -> str:
        """The judgement first, then what it rests on."""
        return f"{self.label}. {self.text}"


class PositiveEvidence(NamedTuple):
    """What the evaluations say about the probability of one class."""

    name: str
    is_honest: bool  # its error is at most negligibly above what perfect calibration shows
    sentence: str


@dataclass(frozen=True)
class Evidence:
    """The numbers that a verdict rests on."""

    ece_before: float
    ece_after: float
    floor: float  # the ECE that perfect calibration would show
    beyond_chance: bool  # whether perfect calibration would hardly ever show ece_after
    ece_rose: bool  # beyond what intervals allow
    nll: Difference
    changed: float  # share of the predictions
    accuracy_before: float
    accuracy_after: float
    price: str | None = None  # what keeping predictions costs and what to do, where it is much
    favours_a_class: bool = False  # it is given clearly more probability than there is of it
    positive: PositiveEvidence | None = None  # if a positive class is given


def evidence_of(
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    *,
    price: str | None = None,
    favours_a_class: bool = False,
) -> Evidence:
    """Collect what two evaluations of the same nodes and their comparison say."""
    return Evidence(
        before.ece.value,
        after.ece.value,
        after.ece.floor,
        after.ece.p_value <= SIGNIFICANT,
        after.ece.low > before.ece.high,
        gain.nll,
        gain.prediction_change_rate,
        before.accuracy,
        after.accuracy,
        price,
        favours_a_class,
        None if after.positive is None else _about_class(after.positive, before, after),
    )


def _about_class(positive: int, before: Evaluation, after: Evaluation) -> PositiveEvidence:
    """Say mean against base rate, then the error, before and after."""
    name, rate = shown_class(positive, after.class_names), after.positive_rate
    p, n_digits = f"P({name})", 1 if rate >= 0.01 else 2
    numbers = [(each.positive_mean, each.positive_ece) for each in (before, after)]
    (was, error_was), (mean, error) = ([_percent(v, n_digits) for v in pair] for pair in numbers)
    floor = after.floors["positive_ece"]
    chance = f"(perfect calibration would show {_percent(floor, n_digits)})"
    about = f"Mean {p} is {mean}, and {_percent(rate, n_digits)} of the test nodes are {name}"
    if numbers[0] == numbers[1]:
        said = f"{about}. The calibration error of {p} is {error} {chance}."
    else:
        moved = f"goes from {error_was} to {error}"
        said = f"{about} (before: {was}). The calibration error of {p} {moved} {chance}."
    return PositiveEvidence(name, after.positive_ece - floor < NEGLIGIBLE, said)


def judge_method(name: str, evidence: Evidence) -> Verdict:
    """Say what a method did to the confidence, and whether it is honest now.

    With a positive class the text begins with its probability, which must be honest too.
    """
    judged = _judge_confidence(name, evidence)
    if evidence.positive is None:
        return judged
    judged = replace(judged, text=f"{evidence.positive.sentence} {judged.text}")
    if judged.grade == "good" and not evidence.positive.is_honest:
        return replace(judged, grade="bad", label=f"Do not act on P({evidence.positive.name}) yet")
    return judged


def _judge_confidence(name: str, evidence: Evidence) -> Verdict:
    excess = max(evidence.ece_after - evidence.floor, 0.0)
    honest = not evidence.beyond_chance or excess < NEGLIGIBLE
    if name == UNCALIBRATED:
        return _judge_model(evidence, honest)
    better, worse = evidence.nll.high < 0, evidence.nll.low > 0
    moved = (
        f"Calibrated with {name}, the expected calibration error goes from "
        f"{_percent(evidence.ece_before)} to {_percent(evidence.ece_after)} (perfect calibration "
        f"would show {_percent(evidence.floor)}) and the log loss changes by "
        f"{evidence.nll.mean:+.3f} nats [{evidence.nll.low:+.3f}, {evidence.nll.high:+.3f}]"
    )
    changed = _changes(evidence)
    if evidence.price is not None and (evidence.favours_a_class or not honest):
        return Verdict("bad", MISTAKE, f"{evidence.price} {moved}. {changed}")
    changed = " ".join(filter(None, [changed, evidence.price]))
    if worse:
        return Verdict(
            "bad", "Worse than before", f"{moved}. {changed} Keep the model's own confidence."
        )
    if honest and evidence.floor > FAINT:
        unseen = UNSEEN.format(_percent(evidence.floor))
        return Verdict("warn", TOO_FEW, f"{moved}. {changed} {unseen}")
    if honest:
        label = "You can act on this confidence" if better else NOT_BETTER
        return Verdict("good", label, f"{moved}. {changed}")
    if better:
        rest = DISAGREEMENT if evidence.ece_rose else REMAINDER.format(100 * excess)
        return Verdict("warn", "Better, not perfect", f"{moved}. {changed} {rest}")
    return Verdict(
        "bad", "Not trustworthy yet", f"{moved}, which may be chance. {changed} Try another method."
    )


def judge_untested(price: str, *, favours_a_class: bool) -> Verdict:
    """Say what keeping predictions means where there is no test node to judge a method on."""
    if favours_a_class:
        return Verdict("bad", MISTAKE, price)
    return Verdict("warn", "Keeping predictions has its price", price)


def _judge_model(evidence: Evidence, honest: bool) -> Verdict:
    error = (
        f"The raw model has an expected calibration error of {_percent(evidence.ece_after)}; "
        f"perfect calibration would show {_percent(evidence.floor)}."
    )
    if evidence.price is not None and evidence.favours_a_class:
        return Verdict("bad", MISTAKE, f"{evidence.price} {error}")
    if honest and evidence.floor > FAINT:
        return Verdict("warn", TOO_FEW, f"{error} {UNSEEN.format(_percent(evidence.floor))}")
    if honest:
        return Verdict("good", "The model is honest as it is", error)
    return Verdict("bad", "Not trustworthy as it is", f"{error} Choose a method to repair it.")


def _changes(evidence: Evidence) -> str:
    if evidence.changed == 0:
        return "No prediction changed."
    return (
        f"It changed {_percent(evidence.changed)} of the predictions; accuracy went from "
        f"{_percent(evidence.accuracy_before)} to {_percent(evidence.accuracy_after)}."
    )


def _percent(share: float, n_digits: int = 1) -> str:
    return f"{100 * share:.{n_digits}f}%"
