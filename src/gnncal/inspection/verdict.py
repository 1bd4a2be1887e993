"""The report's first sentence: may one act on this confidence?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gnncal.evaluation import Comparison, Evaluation

SIGNIFICANT = 0.05
NEGLIGIBLE = 0.01  # a calibration error above the noise floor that hardly any use would notice


@dataclass(frozen=True)
class Verdict:
    """A judgement on one method, in words."""

    grade: Literal["good", "warn", "bad"]
    label: str
    text: str


def judge_method(name: str, before: Evaluation, after: Evaluation, gain: Comparison) -> Verdict:
    """Say what a method did to the confidence, and whether it is honest now.

    Better or worse is decided by the paired interval of the log loss, honest or not by the ECE
    beside what perfect calibration would show on the same nodes.
    """
    excess = max(after.ece.value - after.ece.floor, 0.0)
    honest = after.ece.p_value > SIGNIFICANT or excess < NEGLIGIBLE
    if name == "uncalibrated":
        return _verdict_on_the_model(after, honest)
    better, worse = gain.nll.high < 0, gain.nll.low > 0
    moved = (
        f"Calibrated with {name}, the expected calibration error goes from "
        f"{_percent(before.ece.value)} to {_percent(after.ece.value)} (perfect calibration would "
        f"show {_percent(after.ece.floor)}) and the log loss changes by {gain.nll.mean:+.3f} nats "
        f"[{gain.nll.low:+.3f}, {gain.nll.high:+.3f}]"
    )
    changed = _changes(gain, before, after)
    if worse:
        return Verdict(
            "bad", "Worse than before", f"{moved}. {changed} Keep the model's own confidence."
        )
    if honest:
        label = "You can act on this confidence" if better else "Honest, with or without it"
        return Verdict("good", label, f"{moved}. {changed}")
    if better:
        rest = (
            f"What remains is {100 * excess:.1f} points more than chance explains; the groups "
            "below show where."
        )
        if after.ece.low > before.ece.high:
            rest = (
                "The two measures disagree: it tells right nodes from wrong ones better, but its "
                "average confidence fits the accuracy worse. Where a prediction is nearly always "
                "wrong, no temperature can say so; a method that may change predictions, such as "
                "structural-graph, can."
            )
        return Verdict("warn", "Better, not perfect", f"{moved}. {changed} {rest}")
    return Verdict(
        "bad", "Not trustworthy yet", f"{moved}, which may be chance. {changed} Try another method."
    )


def _verdict_on_the_model(after: Evaluation, honest: bool) -> Verdict:
    error = (
        f"The model as it is has an expected calibration error of {_percent(after.ece.value)}; "
        f"perfect calibration would show {_percent(after.ece.floor)}."
    )
    if honest:
        return Verdict("good", "The model is honest as it is", error)
    return Verdict("bad", "Not trustworthy as it is", f"{error} Choose a method to repair it.")


def _changes(gain: Comparison, before: Evaluation, after: Evaluation) -> str:
    if gain.prediction_change_rate == 0:
        return "No prediction changed."
    return (
        f"It changed {_percent(gain.prediction_change_rate)} of the predictions; accuracy went "
        f"from {_percent(before.accuracy)} to {_percent(after.accuracy)}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
