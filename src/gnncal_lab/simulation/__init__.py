"""Simulated graphs with known true probabilities, and checks of the paper's theory."""

from gnncal_lab.simulation.bayes import BayesRule
from gnncal_lab.simulation.csbm import CSBM, GraphSample, PopulationSample

__all__ = ["CSBM", "BayesRule", "GraphSample", "PopulationSample"]
