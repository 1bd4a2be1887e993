"""The verdict on a fit: can one act on this confidence?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gnncal.metrics.evaluation import Comparison, Evaluation, shown_class
from gnncal.metrics.uncertainty import CalibrationEstimate

SIGNIFICANT = 0.05
NEGLIGIBLE = 0.01  # a calibration error above the noise floor that hardly matters in use
FAINT = 0.05  # above this noise floor, an error that matters cannot be seen
UNCALIBRATED = "uncalibrated"  # the raw model
REMAINDER = (
    "The error is still {:.1f} points larger than chance explains; the groups of the report show "
    "where."
)
MISTAKE = "Do not use these probabilities"
TOO_FEW = "Too few test nodes to tell"
NOT_BETTER = "Calibrated, but not clearly better than before"
UNSEEN = (
    "With so few test nodes, perfect calibration would show an error of {} by chance, so a smaller "
    "error cannot be detected. Label more test nodes."
)
DISAGREEMENT = (
    "The two measures disagree: confidence now separates correct from wrong predictions better, "
    "but its mean is further from the accuracy. Where predictions are nearly always wrong, no "
    "temperature lowers their confidence enough; structural-free, which may change them, can."
)


@dataclass(frozen=True)
class Verdict:
    """The verdict on one method: a short ``label``, and a ``text`` with the reasons."""

    grade: Literal["good", "warn", "bad"]
    label: str
    text: str

    @property
    def sentence(self) -> str:
        """The label, followed by the text."""
        return f"{self.label}. {self.text}"


def judge_method(
    name: str,
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    *,
    price: str | None = None,  # the cost of keeping predictions and the fix, if the cost is large
    favours_a_class: bool = False,  # the mean probability of a class clearly exceeds its base rate
) -> Verdict:
    """Say what a method did to the confidence, and whether it is calibrated now."""
    judged = _judge_confidence(name, before, after, gain, price, favours_a_class)
    if after.positive is None:
        return judged
    shown = shown_class(after.positive, after.class_names)
    label = judged.label.replace("this confidence", f"P({shown})")
    judged = replace(
        judged, label=label, text=f"{_about_class(shown, before, after)} {judged.text}"
    )
    if judged.grade == "good" and after.positive_ece - after.floors["positive_ece"] >= NEGLIGIBLE:
        return replace(judged, grade="bad", label=f"Do not act on P({shown}) yet")
    return judged


def _about_class(name: str, before: Evaluation, after: Evaluation) -> str:
    """Say mean against base rate, then the error, before and after."""
    rate = after.positive_rate
    p, n_digits = f"P({name})", 1 if rate >= 0.01 else 2
    numbers = [(each.positive_mean, each.positive_ece) for each in (before, after)]
    (was, error_was), (mean, error) = ([_percent(v, n_digits) for v in pair] for pair in numbers)
    about = f"Mean {p} is {mean}, and {_percent(rate, n_digits)} of the test nodes are {name}"
    moved = f"is {error}"
    if numbers[0] != numbers[1]:
        about, moved = f"{about} (before: {was})", f"goes from {error_was} to {error}"
    chance = f"perfect calibration would show {_percent(after.floors['positive_ece'], n_digits)}"
    return f"{about}. The calibration error of {p} {moved} ({chance})."


def _judge_confidence(
    name: str,
    before: Evaluation,
    after: Evaluation,
    gain: Comparison,
    price: str | None,
    favours_a_class: bool,
) -> Verdict:
    ece, nll = after.ece, gain.nll
    excess = max(ece.value - ece.floor, 0.0)
    calibrated = ece.p_value > SIGNIFICANT or excess < NEGLIGIBLE
    if name == UNCALIBRATED:
        return _judge_model(ece, calibrated, price if favours_a_class else None)
    moved = (
        f"With {name}, the expected calibration error goes from {_percent(before.ece.value)} to "
        f"{_percent(ece.value)} (perfect calibration would show {_percent(ece.floor)}), and the "
        f"log loss changes by {nll.mean:+.3f} nats [{nll.low:+.3f}, {nll.high:+.3f}]"
    )
    changed = "No prediction changed."
    if gain.prediction_change_rate:
        changed = (
            f"It changed {_percent(gain.prediction_change_rate)} of the predictions; accuracy went "
            f"from {_percent(before.accuracy)} to {_percent(after.accuracy)}."
        )
    if price is not None and (favours_a_class or not calibrated):
        return Verdict("bad", MISTAKE, f"{price} {moved}. {changed}")
    changed = " ".join(filter(None, [changed, price]))
    if nll.low > 0:
        advice = "Keep the model's own confidence."
        return Verdict("bad", "Worse than before", f"{moved}. {changed} {advice}")
    if calibrated and ece.floor > FAINT:
        unseen = UNSEEN.format(_percent(ece.floor))
        return Verdict("warn", TOO_FEW, f"{moved}. {changed} {unseen}")
    if calibrated:
        label = "You can act on this confidence" if nll.high < 0 else NOT_BETTER
        return Verdict("good", label, f"{moved}. {changed}")
    if nll.high < 0:
        rest = DISAGREEMENT if ece.low > before.ece.high else REMAINDER.format(100 * excess)
        return Verdict("warn", "Better, not perfect", f"{moved}. {changed} {rest}")
    chance = f"{moved}. The change may be chance. {changed} Try another method."
    return Verdict("bad", "Not trustworthy yet", chance)


def judge_untested(price: str, *, favours_a_class: bool) -> Verdict:
    """Return the verdict on keeping predictions if no test nodes can judge a method."""
    if favours_a_class:
        return Verdict("bad", MISTAKE, price)
    return Verdict("warn", "Keeping predictions raises the log loss", price)


def _judge_model(ece: CalibrationEstimate, calibrated: bool, mistake: str | None) -> Verdict:
    error = (
        f"The raw model has an expected calibration error of {_percent(ece.value)}; "
        f"perfect calibration would show {_percent(ece.floor)}."
    )
    if mistake is not None:
        return Verdict("bad", MISTAKE, f"{mistake} {error}")
    if calibrated and ece.floor > FAINT:
        return Verdict("warn", TOO_FEW, f"{error} {UNSEEN.format(_percent(ece.floor))}")
    if calibrated:
        return Verdict("good", "The model is already calibrated", error)
    return Verdict("bad", "The model is not calibrated", f"{error} Choose a method to repair it.")


def _percent(share: float, n_digits: int = 1) -> str:
    return f"{100 * share:.{n_digits}f}%"
