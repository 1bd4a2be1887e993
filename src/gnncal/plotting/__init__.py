"""Charts for papers and notebooks.

``draw_*`` draws a record onto a matplotlib axis and computes nothing. A ``*Display`` computes
the record too, in scikit-learn's manner. Matplotlib comes with ``pip install 'gnncal[plot]'``.
"""

from gnncal.plotting.homophily_split import HomophilySplitDisplay, draw_homophily_split
from gnncal.plotting.positive_reliability import (
    PositiveReliability,
    PositiveReliabilityDisplay,
    draw_positive_reliability,
)
from gnncal.plotting.reliability import ReliabilityDisplay, draw_reliability, save_reliability
from gnncal.plotting.risk_coverage import RiskCoverageDisplay, draw_risk_coverage
from gnncal.plotting.style import LINES
from gnncal.plotting.temperature import TemperatureDisplay, draw_temperature

__all__ = [
    "LINES",
    "HomophilySplitDisplay",
    "PositiveReliability",
    "PositiveReliabilityDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "TemperatureDisplay",
    "draw_homophily_split",
    "draw_positive_reliability",
    "draw_reliability",
    "draw_risk_coverage",
    "draw_temperature",
    "save_reliability",
]
