"""Methods that read a node's own logits alone: TS, HTS and HoTS without homophily."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.temperature import RELEASE_FLOOR, EntropyScaling, TemperatureScaling
from gnncal.data.probability import concentration
from gnncal.math.structural import entropy_temperature, power_law
from gnncal.scale.methods.base import ScaleMethod
from gnncal.scale.nodes import exact


class ScaleTemperature(ScaleMethod[TemperatureScaling]):
    """One temperature for all nodes."""

    def temperature(self, table: Any) -> Any:
        """Return the one temperature T."""
        return exact(self.calibrator.base_temperature_)


class ScaleEntropy(ScaleMethod[EntropyScaling]):
    """HTS: a temperature that is linear in the entropy."""

    def temperature(self, table: Any) -> Any:
        """Return T = (1 - e) T_0 + e T_1."""
        fitted = self.calibrator
        floor = None if fitted.protocol == "converged" else RELEASE_FLOOR
        certain, uncertain = fitted.certain_temperature_, fitted.uncertain_temperature_
        return entropy_temperature(table["entropy"], certain, uncertain, floor)


class ScaleEntropyOnly(ScaleMethod[HoTS]):
    """HoTS without homophily: a temperature from the entropy alone."""

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e))."""
        fitted = self.calibrator
        c = concentration(table["entropy"], len(fitted.classes_), fitted.minimum_certainty)
        return power_law(c, fitted.base_temperature_, fitted.beta_)
