"""The laws of calibrators, by what they speak of, and those of scores and of metrics."""

from gnncal.testing.law import Law
from gnncal.testing.laws.fits import FITS
from gnncal.testing.laws.invariance import INVARIANCE
from gnncal.testing.laws.metrics import METRICS
from gnncal.testing.laws.parameters import PARAMETERS
from gnncal.testing.laws.probabilities import PROBABILITIES
from gnncal.testing.laws.scores import SCORES
from gnncal.testing.laws.serving import SERVING

LAWS: tuple[Law, ...] = (*PROBABILITIES, *INVARIANCE, *FITS, *SERVING, *PARAMETERS)
SCORE_LAWS: tuple[Law, ...] = SCORES
METRIC_LAWS: tuple[Law, ...] = METRICS

__all__ = [
    "FITS",
    "INVARIANCE",
    "LAWS",
    "METRIC_LAWS",
    "PARAMETERS",
    "PROBABILITIES",
    "SCORE_LAWS",
    "SERVING",
]
