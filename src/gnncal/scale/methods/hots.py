"""HoTS over tables: one pass over the edges for the homophily of every node."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.hots import HoTS
from gnncal.core.errors import InputError
from gnncal.formulas.probability import concentration
from gnncal.formulas.temperatures import log_signal, power_law, power_ratio
from gnncal.homophily import Agreement, Support, make_estimator
from gnncal.homophily.agreement import agreement_of
from gnncal.homophily.support import support_of
from gnncal.nodes import Nodes
from gnncal.scale import edges as passes
from gnncal.scale.methods.base import (
    Rows,
    ScaleMethod,
    Tables,
    join_by_node,
    mean_support,
)


class ScaleHoTS(ScaleMethod[HoTS]):
    """HoTS with the support or the agreement of the neighbours as homophily."""

    covariates = ("homophily",)

    def check(self) -> None:
        """Refuse estimators that learn, because only the others are sums over edges."""
        super().check()
        estimator = make_estimator(self.calibrator.homophily)
        if self._is_fitted:
            estimator = self.calibrator._estimator
        if not isinstance(estimator, Support | Agreement) or estimator.clamp_train_labels:
            raise InputError(
                f"homophily={self.calibrator.homophily!r} needs the graph in memory; at scale use "
                "'support' or 'agreement' without clamped training labels."
            )
        self.estimator = estimator

    def describe(self, tables: Tables) -> Any:
        """Pass over the edges once, with both ends if receivers count."""
        side = self.estimator.side
        only_inward = {"in": True, "out": False, "both": None}[side]
        if isinstance(self.estimator, Support):
            share = mean_support(
                tables, both=side != "in", loops=False, only_inward=only_inward, direction=False
            )
        else:
            share = self._agreement(tables, only_inward)
        joined = join_by_node(tables.nodes, share)
        return joined.select(
            "id", in_degree=joined["in_degree"].fill_null(0), homophily=joined["support"]
        )

    def _agreement(self, tables: Tables, only_inward: bool | None) -> Any:
        """Find the share of other ends that have the node's own prediction."""
        nodes = tables.nodes
        ends = passes.both_ends(tables.edges, nodes, both=only_inward is not True)
        rows = passes.joined(ends, nodes.select("id", other_prediction=nodes["prediction"]))
        chosen = None if only_inward is None else rows["inward"] == int(only_inward)
        agrees = (rows["other_prediction"] == rows["own"]).cast("float64")
        sums = passes.degrees(rows) | {"support": agrees.mean(where=chosen)}
        neighbours = tables.keep("neighbours", rows.group_by("node").aggregate(**sums))
        tables.count(neighbours)
        return neighbours

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add h^, NaN without neighbours."""
        share = support_of if isinstance(self.estimator, Support) else agreement_of
        return nodes.with_result(rows["homophily"], share, self.estimator.side)

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e)) / (|h~| + epsilon)^alpha."""
        from gnncal.backends.ibis import maximum, minimum

        fitted, K = self.calibrator, len(self.calibrator.classes_)
        homophily = table["homophily"].fill_null(fitted.isolated_homophily_)
        numerator = concentration(table["entropy"], K, fitted.minimum_certainty)
        ratio = power_ratio(numerator, log_signal(homophily, K, fitted.epsilon), fitted.alpha_)
        T = power_law(ratio, fitted.base_temperature_, fitted.beta_)
        if fitted.temperature_range is None:
            return T
        low, high = fitted.temperature_range
        return minimum(maximum(T, float(low)), float(high))
