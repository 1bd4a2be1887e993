"""Methods that read a node's own logits alone: TS, HTS and HoTS without homophily."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.ablations import EntropyOnly
from gnncal.calibrators.entropy import RELEASE_FLOOR, EntropyScaling
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.scale.methods.base import ScaleMethod, concentration
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
        import ibis

        e, fitted = table["entropy"], self.calibrator
        T = (1.0 - e) * fitted.certain_temperature_ + e * fitted.uncertain_temperature_
        return T if fitted.protocol == "converged" else ibis.greatest(T, RELEASE_FLOOR)


class ScaleEntropyOnly(ScaleMethod[EntropyOnly]):
    """HoTS without homophily: a temperature from the entropy alone."""

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e))."""
        K = len(self.calibrator.classes_)
        return self.calibrator.base_temperature_ + self.calibrator.beta_ * concentration(table, K)
