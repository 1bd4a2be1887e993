"""Names for the ablations of the product's methods: a class with some parameters set."""

from gnncal import HoTS, Structural
from gnncal.calibrators import Preset

STRUCTURAL_VECTOR = Preset(
    Structural,
    {"keep_predictions": False, "without": "neighbours"},
    "The structural law and a bias for each class: an ablation of structural-free.",
    "Use it where predictions may change, but the neighbours should not outvote the model.",
)
ENTROPY_ONLY = Preset(
    HoTS,
    {"without": "homophily"},
    "HoTS without homophily: a temperature from the entropy alone.",
    "Use it as the ablation of HoTS without homophily. With few calibration nodes it does better "
    "than hots does.",
)
HOMOPHILY_ONLY = Preset(
    HoTS,
    {"without": "entropy"},
    "HoTS without the entropy: a temperature from homophily alone.",
    "Use it as the ablation of HoTS without entropy.",
)
HOTS_ALPHA1 = Preset(
    HoTS,
    {"without": "exponent"},
    "HoTS with the exponent fixed at 1, the first order of the theory.",
    "Use it as the ablation of HoTS with its exponent fixed at one.",
)
