"""HoTS over tables: one pass over the edges for the homophily of every node."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.hots import HoTS
from gnncal.core.errors import InputError
from gnncal.formulas.probability import normalised_homophily
from gnncal.homophily import Agreement, Support, make_estimator
from gnncal.homophily.agreement import agreement_of
from gnncal.homophily.support import support_of
from gnncal.nodes import Nodes
from gnncal.scale import edges as passes
from gnncal.scale.methods.base import Rows, ScaleMethod, Tables, beside, concentration
from gnncal.scale.nodes import names, probabilities


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
        K, nodes, side = tables.n_classes, tables.nodes, self.estimator.side
        ps = names("p", K)
        if isinstance(self.estimator, Support):
            values = probabilities(nodes, K)
        else:
            values = [(nodes["prediction"] == k).cast("float64") for k in range(K)]
        found = tables.keep(
            "neighbours",
            passes.sum_at_own_class(
                passes.both_ends(tables.edges, both=side != "in"),
                nodes.select("id", **dict(zip(ps, values, strict=True))),
                ps,
                nodes,
                name="support",
                only_inward={"in": True, "out": False, "both": None}[side],
            ),
        )
        joined = beside(nodes, found)
        rows, loops = joined["rows"].fill_null(0), joined["loops"].fill_null(0)
        inward = joined["inward"].fill_null(0) if side != "in" else rows
        loops_of_side = loops if side != "out" else loops / 2  # with both ends each counts twice
        own = 1.0 / joined["mass"] if isinstance(self.estimator, Support) else 1.0
        neighbours = {"in": rows, "both": rows, "out": rows - inward}[side] - loops_of_side
        share = (joined["support"] - loops_of_side * own) / neighbours.nullif(0)
        return joined.mutate(in_degree=inward, homophily=share).drop(*found.columns[1:])

    def with_neighbourhoods(self, nodes: Nodes, rows: Rows) -> Nodes:
        """Add h^, NaN without neighbours."""
        share = support_of if isinstance(self.estimator, Support) else agreement_of
        return nodes.with_result(rows["homophily"], share, self.estimator.side)

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e)) / (|h~| + epsilon)^alpha."""
        import ibis

        fitted, K = self.calibrator, len(self.calibrator.classes_)
        homophily = table["homophily"].fill_null(fitted.isolated_homophily_)
        signal = normalised_homophily(homophily, K).abs() + fitted.epsilon
        numerator = concentration(table, K, fitted.minimum_certainty)
        ratio = numerator * (signal.ln() * -fitted.alpha_).exp()
        T = fitted.base_temperature_ + fitted.beta_ * ratio
        if fitted.temperature_range is None:
            return T
        low, high = fitted.temperature_range
        return ibis.least(ibis.greatest(T, float(low)), float(high))
