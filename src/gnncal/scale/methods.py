"""The methods that work at scale: what each needs of the edges, and its temperature.

A method is fitted by the code that fits it in memory, on the calibration rows alone
(:func:`gnncal.calibrators.rows.fit_rows`). Here it says which passes over the edges describe its
neighbourhoods, and writes its formula once more, as an expression over the nodes' table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from gnncal.calibrators.ablations import EntropyOnly
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import name_of
from gnncal.calibrators.entropy import RELEASE_FLOOR, EntropyScaling
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.law import LOG_TEMPERATURE
from gnncal.calibrators.ratio_binned import DIGITS, RatioBinnedScaling
from gnncal.calibrators.structural import StructuralLaw
from gnncal.calibrators.temperature import TemperatureScaling
from gnncal.core.arrays import FloatArray
from gnncal.core.errors import InputError
from gnncal.homophily import Agreement, Support
from gnncal.homophily.neighbourhood import COVARIATES, DEGREE_SCALE, Neighbourhood
from gnncal.homophily.normalised import normalised_homophily
from gnncal.scale import edges as passes
from gnncal.scale.nodes import at_class, exact, names, probabilities, total

C = TypeVar("C", bound=Calibrator)
Rows = dict[str, FloatArray]


class Tables(Protocol):
    """The nodes and edges of a run, and where results of a pass are kept."""

    nodes: Any  # id, label, split, z0..zK-1, top, mass, prediction, entropy
    edges: Any  # src, dst
    n_classes: int

    @property
    def is_undirected(self) -> bool:
        """Whether every edge is listed in both directions equally often."""

    def keep(self, name: str, expression: Any) -> Any:
        """Compute a table and keep it until the run ends."""


class ScaleMethod(ABC, Generic[C]):
    """A temperature method over tables."""

    covariates: ClassVar[tuple[str, ...]] = ()  # columns that a fit reads beside the logits

    def __init__(self, calibrator: C) -> None:
        self.calibrator = calibrator
        self.check()

    def check(self) -> None:
        """Raise an InputError where the calibrator has a parameter that only works in memory."""
        if getattr(self.calibrator, "protocol", "converged") == "paper" and not self._is_fitted:
            raise InputError(
                f"{name_of(self.calibrator)} with protocol='paper' is fitted in memory only; use "
                "protocol='converged', or fit it with gnncal calibrate and pass --calibrator."
            )

    @property
    def _is_fitted(self) -> bool:
        return hasattr(self.calibrator, "fit_report_")

    def describe(self, tables: Tables) -> Any:
        """The nodes' table with ``in_degree`` and the covariates; null without neighbours."""
        ends = passes.both_ends(tables.edges, both=False)
        found = tables.keep("neighbours", passes.count_neighbours(ends, tables.nodes))
        joined = _beside(tables.nodes, found)
        return joined.mutate(in_degree=joined["rows"].fill_null(0)).drop("rows", "loops")

    def seen(self, rows: Rows) -> Any:
        """What the fit needs of the neighbourhoods of the calibration rows."""
        return None

    @abstractmethod
    def temperature(self, table: Any) -> Any:
        """T of each node, from the fitted calibrator's parameters."""


class ScaleTemperature(ScaleMethod[TemperatureScaling]):
    """One temperature for all nodes."""

    def temperature(self, table: Any) -> Any:
        """T."""
        return exact(self.calibrator.base_temperature_)


class ScaleEntropy(ScaleMethod[EntropyScaling]):
    """HTS: linear in the entropy."""

    def temperature(self, table: Any) -> Any:
        """(1 - e) T_0 + e T_1."""
        import ibis

        e, fitted = table["entropy"], self.calibrator
        T = (1.0 - e) * fitted.certain_temperature_ + e * fitted.uncertain_temperature_
        return T if fitted.protocol == "converged" else ibis.greatest(T, RELEASE_FLOOR)


class ScaleEntropyOnly(ScaleMethod[EntropyOnly]):
    """HoTS without homophily."""

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e))."""
        K = len(self.calibrator.classes_)
        return self.calibrator.base_temperature_ + self.calibrator.beta_ * _concentration(table, K)


class ScaleHoTS(ScaleMethod[HoTS]):
    """HoTS with the support or the agreement of the neighbours as homophily."""

    covariates = ("homophily",)

    def check(self) -> None:
        """Only estimators that learn nothing are sums over edges."""
        super().check()
        from gnncal.homophily import make_estimator

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
        """One pass, with two ends if receivers count."""
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
        joined = _beside(nodes, found)
        rows, loops = joined["rows"].fill_null(0), joined["loops"].fill_null(0)
        inward = joined["inward"].fill_null(0) if side != "in" else rows
        loops_of_side = loops if side != "out" else loops / 2  # at two ends each stands twice
        own = 1.0 / joined["mass"] if isinstance(self.estimator, Support) else 1.0
        neighbours = {"in": rows, "both": rows, "out": rows - inward}[side] - loops_of_side
        share = (joined["support"] - loops_of_side * own) / neighbours.nullif(0)
        return joined.mutate(in_degree=inward, homophily=share).drop(*found.columns[1:])

    def seen(self, rows: Rows) -> FloatArray:
        """h^, NaN without neighbours."""
        return rows["homophily"]

    def temperature(self, table: Any) -> Any:
        """T_base + beta sqrt(2 K ln K (1 - e)) / (|h~| + epsilon)^alpha."""
        import ibis

        fitted, K = self.calibrator, len(self.calibrator.classes_)
        homophily = table["homophily"].fill_null(fitted.isolated_homophily_)
        signal = normalised_homophily(homophily, K).abs() + fitted.epsilon
        numerator = _concentration(table, K, fitted.minimum_certainty)
        ratio = numerator * (signal.ln() * -fitted.alpha_).exp()
        T = fitted.base_temperature_ + fitted.beta_ * ratio
        if fitted.temperature_range is None:
            return T
        low, high = fitted.temperature_range
        return ibis.least(ibis.greatest(T, float(low)), float(high))


class ScaleRatioBinned(ScaleMethod[RatioBinnedScaling]):
    """RBS: senders and receivers alike, self-loops included."""

    covariates = ("ratio",)

    def check(self) -> None:
        """Merging duplicates would need all edges sorted."""
        super().check()
        if self.calibrator.merge_duplicate_edges:
            raise InputError(
                "rbs with merge_duplicate_edges=True works in memory only; remove duplicate edges "
                "from the input, or leave the parameter out."
            )

    def describe(self, tables: Tables) -> Any:
        """One pass, with two ends unless the graph is undirected."""
        K, nodes, both = tables.n_classes, tables.nodes, not tables.is_undirected
        ps = names("p", K)
        found = tables.keep(
            "neighbours",
            passes.sum_at_own_class(
                passes.both_ends(tables.edges, both=both),
                nodes.select("id", **dict(zip(ps, probabilities(nodes, K), strict=True))),
                ps,
                nodes,
                name="support",
                only_inward=None,
            ),
        )
        joined = _beside(nodes, found)
        inward = joined["inward" if both else "rows"].fill_null(0)
        ratio = (joined["support"] / joined["rows"]).fill_null(1.0)
        return joined.mutate(in_degree=inward, ratio=ratio).drop(*found.columns[1:])

    def seen(self, rows: Rows) -> FloatArray:
        """r, 1 without neighbours."""
        return rows["ratio"]

    def temperature(self, table: Any) -> Any:
        """T_b of the bin of r."""
        temperatures = [exact(T) for T in self.calibrator.bin_temperatures_]
        B = len(temperatures)
        edge = (table["ratio"] * B).round(DIGITS).ceil().cast("int64")
        return at_class((edge - 1).clip(0, B - 1), temperatures)


class ScaleStructural(ScaleMethod[StructuralLaw]):
    """The structural law: six numbers about the neighbourhood, two of which need a second pass."""

    covariates = ("entropy", "prediction", *COVARIATES)

    def describe(self, tables: Tables) -> Any:
        """Means over the neighbours, then the support two hops away from those means."""
        K, nodes, both = tables.n_classes, tables.nodes, not tables.is_undirected
        means = self._means(tables, both=both)
        two_hops = tables.keep(
            "two_hops",
            passes.sum_at_own_class(
                passes.both_ends(tables.edges, both=both),
                means.select("id", *names("mean", K)),
                names("mean", K),
                nodes,
                name="reached",
                only_inward=None,
            ).select("node", "reached"),
        )
        joined = _beside(means, two_hops)
        own = at_class(joined["prediction"], [joined[m] for m in names("mean", K)])
        count = joined["neighbours"].nullif(0)
        reached = (joined["reached"] - joined["loops"] * own) / count
        described = joined.select(
            "id",
            support=normalised_homophily(own, K),
            two_hop_support=normalised_homophily(reached, K),
            neighbour_entropy=joined["mean_entropy"],
            relative_confidence=1.0 / joined["mass"] - joined["mean_confidence"],
            log_in_degree=(joined["in_degree"] + 1).ln() / DEGREE_SCALE,
            log_out_degree=(joined["out_degree"] + 1).ln() / DEGREE_SCALE,
            in_degree=joined["in_degree"],
        )
        return nodes.join(described, "id")

    def _means(self, tables: Tables, *, both: bool) -> Any:
        """Mean probabilities, entropy and confidence of each node's neighbours."""
        K, nodes = tables.n_classes, tables.nodes
        ps = names("p", K)
        values = nodes.select(
            "id",
            neighbour_entropy=nodes["entropy"],
            neighbour_mass=1.0 / nodes["mass"],
            **dict(zip(ps, probabilities(nodes, K), strict=True)),
        )
        ends = passes.both_ends(tables.edges, both=both)
        found = tables.keep(
            "neighbours",
            passes.sum_neighbours(ends, values, [*ps, "neighbour_entropy", "neighbour_mass"]),
        )
        joined = _beside(nodes, found)
        rows, loops = joined["rows"].fill_null(0), joined["loops"].fill_null(0)
        inward = joined["inward"].fill_null(0) if both else rows
        count = (rows - loops).nullif(0)

        def mean(total_column: str, own: Any) -> Any:
            return (joined[total_column] - loops * own) / count

        own = probabilities(joined, K)
        return tables.keep(
            "means",
            joined.select(
                *("id", "prediction", "mass"),
                loops=loops,
                neighbours=rows - loops,
                in_degree=inward,
                out_degree=rows - inward if both else inward,
                mean_entropy=mean("neighbour_entropy", joined["entropy"]),
                mean_confidence=mean("neighbour_mass", 1.0 / joined["mass"]),
                **{f"mean{k}": mean(f"p{k}", own[k]) for k in range(K)},
            ),
        )

    def seen(self, rows: Rows) -> Neighbourhood:
        """The neighbourhoods of the calibration rows."""
        covariates = np.stack([rows[name] for name in COVARIATES], axis=1)
        predictions = rows["prediction"].astype(np.int64)
        return Neighbourhood(
            predictions, rows["entropy"], covariates, np.empty((len(predictions), 0))
        )

    def temperature(self, table: Any) -> Any:
        """exp(ln[T_c (1 - e) + T_u e] + w s + o)."""
        fitted, e = self.calibrator, table["entropy"]
        base = (1.0 - e) * fitted.certain_temperature_ + e * fitted.uncertain_temperature_
        terms = [
            ((table[name] - float(centre)) * float(weight)).fill_null(0.0)
            for name, weight, centre in zip(
                COVARIATES, fitted.weights_, fitted.centre_, strict=True
            )
        ]
        offset = at_class(table["prediction"], [exact(o) for o in fitted.class_offsets_])
        log_temperature = base.ln() + total(terms) + offset
        return log_temperature.clip(-LOG_TEMPERATURE, LOG_TEMPERATURE).exp()


METHODS: dict[type[Calibrator], type[ScaleMethod[Any]]] = {
    TemperatureScaling: ScaleTemperature,
    EntropyScaling: ScaleEntropy,
    EntropyOnly: ScaleEntropyOnly,
    HoTS: ScaleHoTS,
    StructuralLaw: ScaleStructural,
    RatioBinnedScaling: ScaleRatioBinned,
}


def method_for(calibrator: Calibrator) -> ScaleMethod[Any]:
    """The method over tables that belongs to a calibrator."""
    if type(calibrator) not in METHODS:
        raise InputError(
            f"{name_of(calibrator)} works in memory only; at scale use one of "
            f"{', '.join(name_of(kind()) for kind in METHODS)}."
        )
    return METHODS[type(calibrator)](calibrator)


def _concentration(table: Any, n_classes: int, minimum: float = 0.0) -> Any:
    """sqrt(2 K ln K (1 - e))."""
    import ibis

    certainty = ibis.greatest(1.0 - table["entropy"], minimum)
    return (certainty * (2.0 * n_classes * log(n_classes))).sqrt()


def _beside(nodes: Any, found: Any) -> Any:
    """Every node, with what a pass found; null where it found nothing."""
    return nodes.left_join(found, nodes["id"] == found["node"]).drop("node")
