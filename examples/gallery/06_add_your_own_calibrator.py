"""
Add your own calibrator
=======================

A calibrator is a class with two methods: one learns from the calibration nodes, one gives each node
its temperature. Everything else is inherited: the checks of the input, ``predict_proba``,
scikit-learn's ``clone`` and ``get_params``, saving, reports and the benchmark.
"""

# %%
# The idea
# --------
# Nodes with many neighbours average over more of them, so a GCN knows more there. Let the
# temperature depend on the degree:
#
# .. math:: \ln T_i = a + b \ln(1 + d_i)

from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import gnncal
from gnncal.calibrators.base import FitReport
from gnncal.calibrators.losses import TemperatureLoss
from gnncal.core.constraints import number

# %%
# The class
# ---------
# ``TemperatureCalibrator`` divides logits by a positive number, so predictions cannot change.
# ``_fit`` gets a ``FitData``: logits of every node, and labels of the calibration and training
# nodes only. Labels of test nodes are not in it, so nothing can leak.


class DegreeTemperature(gnncal.TemperatureCalibrator):
    r"""A temperature for each node from its in-degree: ln T = a + b ln(1 + d)."""

    needs_graph = True
    fitting = "convex"
    learned: ClassVar = {"a_": number(), "b_": number()}  # what a saved file may hold

    def _fit(self, data):
        log_degree = np.log1p(data.graph.in_degree)
        loss = TemperatureLoss(data.logits[data.nodes], data.labels)

        def mean_loss(parameters):
            a, b = parameters
            return loss.value(np.exp(a + b * log_degree[data.nodes]))

        found = minimize(mean_loss, x0=[0.0, 0.0], method="Nelder-Mead")
        self.a_, self.b_ = map(float, found.x)
        self.temperature_ = np.exp(self.a_ + self.b_ * log_degree)
        self.fit_report_ = FitReport.of(data, found.fun)

    def _temperature(self, logits, graph, known_labels):
        return np.exp(self.a_ + self.b_ * np.log1p(graph.in_degree))


# %%
# Use it
# ------
# As any other method.

rng = np.random.default_rng(0)
n = 4000
model = gnncal.simulation.CSBM(mean_degree=3, separation=1.0, n_features=16, degree_spread=1.0)
sample = model.sample(rng.uniform(0.5, 0.9, n))
graph, labels = sample.graph.to_undirected(), sample.labels
senders, receivers = graph.edge_index
total = graph.features[:, :5].copy()  # features of a node and its neighbours
np.add.at(total, receivers, graph.features[senders, :5])
logits = 4.0 * total / (1 + graph.in_degree)[:, None]
val, test = np.arange(500), np.arange(500, n)

result = gnncal.calibrate(
    logits, labels, graph, nodes=val, test_nodes=test, method=DegreeTemperature()
)
print(f"ln T = {result.calibrator.a_:.2f} {result.calibrator.b_:+.2f} ln(1 + degree)")
print(result.comparison)

# %%
# The law that was fitted, and the nodes that it gives a temperature to.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.scatter(graph.in_degree, result.calibrator.temperature_, s=6)
ax.axhline(1.0, color="grey", linewidth=1)
ax.set(xlabel="degree", ylabel="temperature", yscale="log")
plt.show()

# %%
# Is it better than one temperature?

ts = gnncal.calibrate(logits, labels, graph, nodes=val, method="ts").probabilities
print(gnncal.compare(labels[test], ts[test], result.probabilities[test]))

# %%
# Next: :ref:`benchmark it against the others
# <sphx_glr_gallery_07_benchmark_your_own_method.py>`.
