"""The structural law over tables: a pass for means over neighbours, a second for two hops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.calibrators.structural import StructuralLaw
from gnncal.fitting.law import LOG_TEMPERATURE
from gnncal.homophily.neighbourhood import COVARIATES, DEGREE_SCALE, Neighbourhood
from gnncal.homophily.normalised import normalised_homophily
from gnncal.scale import edges as passes
from gnncal.scale.methods.base import Rows, ScaleMethod, Tables, beside
from gnncal.scale.nodes import at_class, exact, names, probabilities, total


class ScaleStructural(ScaleMethod[StructuralLaw]):
    """The structural law: six numbers about the neighbourhood, two of which need a second pass."""

    covariates = ("entropy", "prediction", *COVARIATES)

    def describe(self, tables: Tables) -> Any:
        """Add means over the neighbours, then the support two hops away from these means."""
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
        joined = beside(means, two_hops)
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
        """Return the mean probabilities, entropy and confidence of each node's neighbours."""
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
        joined = beside(nodes, found)
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
        """Return the neighbourhoods of the calibration rows."""
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
