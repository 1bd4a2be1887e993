"""The laws of calibrators, by what they speak of."""

from gnncal.testing.law import Law
from gnncal.testing.laws.fits import FITS
from gnncal.testing.laws.invariance import INVARIANCE
from gnncal.testing.laws.parameters import PARAMETERS
from gnncal.testing.laws.probabilities import PROBABILITIES
from gnncal.testing.laws.serving import SERVING

LAWS: tuple[Law, ...] = (*PROBABILITIES, *INVARIANCE, *FITS, *SERVING, *PARAMETERS)

__all__ = [
    "FITS",
    "INVARIANCE",
    "LAWS",
    "PARAMETERS",
    "PROBABILITIES",
    "SERVING",
]
