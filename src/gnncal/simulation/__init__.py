"""Graphs whose true probabilities are known."""

from gnncal.simulation.csbm import CSBM, GraphSample, PopulationSample

__all__ = ["CSBM", "GraphSample", "PopulationSample"]
