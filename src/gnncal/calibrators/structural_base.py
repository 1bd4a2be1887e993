"""What every structural method holds: the parameters of the law and the centre of its inputs."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import number
from gnncal.core.learned import Array, LearnedTable
from gnncal.core.nodes import Nodes
from gnncal.fitting.law import Law, LawRows
from gnncal.homophily.neighbourhood import Neighbourhood, describe_neighbourhoods


class LawHolder:
    """Keeps a fitted law in attributes that are saved, and reads it from them."""

    law_learned: ClassVar[LearnedTable] = {
        "certain_temperature_": number(above=0, at_most=1e6),
        "uncertain_temperature_": number(above=0, at_most=1e6),
        "weights_": Array("6"),
        "class_offsets_": Array("K"),
        "centre_": Array("6"),
    }
    certain_temperature_: float  # T_c, at entropy 0 in a typical neighbourhood
    uncertain_temperature_: float  # T_u, at entropy 1
    weights_: FloatArray  # (6,) w, in the order of gnncal.homophily.COVARIATES
    class_offsets_: FloatArray  # (n_classes,) o
    centre_: FloatArray  # (6,) means of the covariates on the calibration nodes

    def _hold(self, law: Law, centre: FloatArray) -> None:
        self.certain_temperature_ = float(np.exp(law.log_certain))
        self.uncertain_temperature_ = float(np.exp(law.log_uncertain))
        self.weights_, self.class_offsets_, self.centre_ = law.weights, law.offsets, centre

    def _held(self) -> Law:
        return Law(
            float(np.log(self.certain_temperature_)),
            float(np.log(self.uncertain_temperature_)),
            self.weights_,
            self.class_offsets_,
        )

    def _rows(self, nodes: Nodes) -> LawRows:
        return law_rows(nodes.once(describe_neighbourhoods), self.centre_)


def centre_of(covariates: FloatArray) -> FloatArray:
    """Return the mean of each covariate over the rows where it is known; zero where it never is."""
    known = ~np.isnan(covariates)
    return np.where(known, covariates, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


def law_rows(neighbourhood: Neighbourhood, centre: FloatArray) -> LawRows:
    """Return what the law looks at; a node without neighbours has a typical neighbourhood."""
    covariates = np.nan_to_num(neighbourhood.covariates - centre, copy=False, nan=0.0)
    return LawRows(neighbourhood.entropy, covariates, neighbourhood.predictions)
