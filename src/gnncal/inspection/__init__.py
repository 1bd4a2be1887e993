"""What a calibration did, as records that reports and charts show."""

from gnncal.inspection.homophily import HomophilyGroups, homophily_groups, neighbour_support
from gnncal.inspection.temperature import Curve, TemperatureProfile, temperature_profile

__all__ = [
    "Curve",
    "HomophilyGroups",
    "TemperatureProfile",
    "homophily_groups",
    "neighbour_support",
    "temperature_profile",
]
