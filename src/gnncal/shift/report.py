"""What a watch says: each claim in words and as a line of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnncal.data.tables import Cell, Table, Tabular, count, number, text
from gnncal.shift.betting import Claim, ClaimName

WHAT_TO_DO = "Label nodes chosen at random and update the calibrator, or fit it again."


@dataclass(frozen=True)
class ClaimReport:
    """What the labels say about one claim."""

    name: ClaimName
    n_labels: int
    stated: float
    happened: float
    evidence: float
    limit: float
    alarm_at: int | None
    sentence: str


@dataclass(frozen=True, repr=False)
class WatchReport(Tabular):
    """What the labels say so far. It prints as a table.

    Attributes
    ----------
    is_alarm : bool
        Whether a claim was found wrong.
    sentence : str
        What that means, and what to do.
    false_alarms : float
        Largest chance of an alarm, at any time, while every claim holds.
    claims : tuple of ClaimReport
        Each claim.

    """

    is_alarm: bool
    sentence: str
    false_alarms: float
    claims: tuple[ClaimReport, ...]

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{super().__repr__()}"

    def _tables(self) -> Sequence[Table]:
        columns = ("claim", "labels", "stated", "happened", "evidence", "alarm from", "alarm at")
        rows = [
            [
                text(claim.name),
                count(claim.n_labels),
                number(claim.stated, 3),
                number(claim.happened, 3),
                Cell(claim.evidence, f"{claim.evidence:,.3g}"),
                Cell(claim.limit, f"{claim.limit:,.3g}"),
                Cell(claim.alarm_at, "" if claim.alarm_at is None else f"label {claim.alarm_at:,}"),
            ]
            for claim in self.claims
        ]
        return [Table("", columns, rows)]


def report_of(claims: Sequence[Claim], false_alarms: float, positive: str | None) -> WatchReport:
    """Say what the labels of some claims mean; ``positive`` is the name of the positive class."""
    limit = len(claims) / false_alarms
    reports = tuple(
        ClaimReport(
            claim.name,
            claim.n_labels,
            claim.stated,
            claim.happened,
            claim.latest,
            limit,
            claim.alarm_at,
            _sentence(claim, positive),
        )
        for claim in claims
    )
    alarms = [report.sentence for report in reports if report.alarm_at is not None]
    if alarms:
        sentence = " ".join(["Alarm.", *alarms, WHAT_TO_DO])
    else:
        sentence = " ".join(["No alarm.", *(report.sentence for report in reports)])
    return WatchReport(bool(alarms), sentence, false_alarms, reports)


def _sentence(claim: Claim, positive: str | None) -> str:
    subject = {
        "confidence": "confidence",
        "positive": f"the probability of {positive}",
        "decide": "the accuracy of automatic decisions",
        "act": f"the share of {positive} among the nodes acted on",
        "clear": f"the share without {positive} among the nodes cleared",
    }[claim.name]
    begun = subject[:1].upper() + subject[1:]
    if not claim.n_labels:
        return f"No label bears on {subject} yet."
    if claim.alarm_at is None:
        return (
            f"{begun}: {claim.stated:.2f} stated, {claim.happened:.2f} happened, "
            f"{claim.n_labels:,} labels."
        )
    before, stated, happened = claim.since()
    since = f"Since about label {before + 1:,}" if before else "From the first label on"
    found = f"It was found at label {claim.alarm_at:,}."
    if claim.guaranteed is not None:
        target = f"{claim.guaranteed:.2f} was guaranteed"
        return f"{begun} is too low. {since} it is {happened:.2f}; {target}. {found}"
    direction = "too high" if stated > happened else "too low"
    mean = "the mean confidence" if claim.name == "confidence" else "the mean probability"
    have = "have the predicted class" if claim.name == "confidence" else f"are {positive}"
    gap = f"{mean} is {stated:.2f}, and {happened:.2f} {have}"
    return f"{begun} is {direction}. {since} {gap}. {found}"
