"""Graphs whose true probabilities are known, and the paper's theory checked on them."""

from gnncal_lab.simulation.bayes import BayesRule
from gnncal_lab.simulation.csbm import CSBM, GraphSample, PopulationSample

__all__ = ["CSBM", "BayesRule", "GraphSample", "PopulationSample"]
