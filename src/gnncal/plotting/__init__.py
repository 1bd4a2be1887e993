"""Charts for papers and notebooks, with the interface of scikit-learn's displays.

Matplotlib comes with ``pip install 'gnncal[plot]'``.
"""

from gnncal.plotting.reliability import ReliabilityDisplay
from gnncal.plotting.risk_coverage import RiskCoverageDisplay
from gnncal.plotting.temperature import TemperatureDisplay

__all__ = ["ReliabilityDisplay", "RiskCoverageDisplay", "TemperatureDisplay"]
