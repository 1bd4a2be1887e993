"""HoTS over tables: one pass over the edges for the homophily of every node."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.homophily import Support, make_estimator, support_of
from gnncal.calibrators.hots import HoTS
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.data.probability import concentration
from gnncal.math.structural import log_signal, power_law, power_ratio
from gnncal.scale.methods.base import (
    Rows,
    ScaleMethod,
    Tables,
    join_by_node,
    mean_support,
)


class ScaleHoTS(ScaleMethod[HoTS]):
    """HoTS with the support of the neighbours as homophily."""

    covariates = ("homophily",)

    def check(self) -> None:
        """Refuse estimators that learn, because only the others are sums over edges."""
        super().check()
        estimator = make_estimator(self.calibrator.homophily)
        if self._is_fitted:
            estimator = self.calibrator.estimator_
        if not isinstance(estimator, Support) or estimator.clamp_train_labels:
            raise InputError(
                f"homophily={self.calibrator.homophily!r} needs the graph in memory; at scale use "
                "'support' without clamped training labels."
            )
        self.estimator = estimator

    def describe(self, tables: Tables) -> Any:
        """Pass over the edges once, with both ends if receivers count."""
        side = self.estimator.side
        only_inward = {"in": True, "out": False, "both": None}[side]
        share = mean_support(
            tables, both=side != "in", loops=False, only_inward=only_inward, direction=False
        )
        joined = join_by_node(tables.nodes, share)
        return joined.select(
            "id", in_degree=joined["in_degree"].fill_null(0), homophily=joined["support"]
        )

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add h^, NaN without neighbours."""
        return nodes.with_result(rows["homophily"], support_of, self.estimator.side)

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e)) / (|h~| + epsilon)^alpha."""
        from gnncal.data.ibis_backend import maximum, minimum

        fitted, K = self.calibrator, len(self.calibrator.classes_)
        homophily = table["homophily"].fill_null(fitted.isolated_homophily_)
        numerator = concentration(table["entropy"], K, fitted.minimum_certainty)
        ratio = power_ratio(numerator, log_signal(homophily, K, fitted.epsilon), fitted.alpha_)
        T = power_law(ratio, fitted.base_temperature_, fitted.beta_)
        if fitted.temperature_range is None:
            return T
        low, high = fitted.temperature_range
        return minimum(maximum(T, float(low)), float(high))
