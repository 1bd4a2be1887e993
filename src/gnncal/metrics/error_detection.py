"""Error detection: does a low confidence tell which predictions are wrong?

Hendrycks, Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in
neural networks" (ICLR 2017).
"""

from __future__ import annotations

from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.risk_coverage import ranking_of


def error_auroc_of(outcomes: Outcomes) -> float | None:
    """How often a mistake is less confident than a right prediction; ties count half."""
    return outcomes.once(ranking_of).reversed.auroc()


def error_aupr_of(outcomes: Outcomes) -> float | None:
    """Average precision of a low confidence as a sign of a mistake; None without a mistake."""
    return outcomes.once(ranking_of).reversed.average_precision()
