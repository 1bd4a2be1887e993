"""
Add your own calibrator
=======================

A calibrator is a class with two methods: one learns from the calibration nodes, one gives each node
its temperature. Everything else is inherited: the checks of the input, ``predict_proba``,
scikit-learn's ``clone`` and ``get_params``, saving, reports and the benchmark.
``gnncal.calibrators`` has what it is made of.
"""

# %%
# The idea
# --------
# A GCN averages over the neighbours of a node, so it knows more about a node with many neighbours.
# Let the temperature depend on the degree:
#
# .. math:: \ln T_i = a + \frac{b}{1 + d_i}

from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import gnncal
from gnncal.calibrators import FitReport, TemperatureCalibrator, TemperatureLoss, number

# %%
# The class
# ---------
# ``TemperatureCalibrator`` divides logits by a positive number, so predictions cannot change.
# ``_fit`` gets a ``Nodes``: logits of every node, their graph, and labels of the calibration and
# training nodes only. Labels of test nodes are not in it, so nothing can leak.


class DegreeTemperature(TemperatureCalibrator):
    """A temperature for each node from its degree."""

    needs_graph = True
    # What a saved file holds, and what each value may be.
    learned: ClassVar = dict.fromkeys(["a_", "b_"], number(at_least=-5.0, at_most=5.0))

    def _fit(self, nodes):
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels)
        every = self._rows(nodes)  # (n_nodes, 2): one, and 1 / (1 + degree)
        rows = every[nodes.calibration_nodes]

        def objective(theta):
            temperature = np.exp(rows @ theta)
            value, slope, _ = loss.derivatives(temperature)
            gradient = rows.T @ (slope * temperature)
            # A small penalty keeps T near one where the labels say nothing.
            return value + 1e-3 * theta @ theta, gradient + 2e-3 * theta

        found = minimize(objective, np.zeros(2), jac=True, bounds=[(-5.0, 5.0)] * 2)
        self.a_, self.b_ = map(float, found.x)
        self.temperature_ = np.exp(every @ found.x)
        self.fit_report_ = FitReport.of(nodes, loss.value(np.exp(rows @ found.x)))

    def _temperature(self, nodes):
        return np.exp(self._rows(nodes) @ np.array([self.a_, self.b_]))

    def _rows(self, nodes):
        return np.stack([np.ones(nodes.n_nodes), 1.0 / (1.0 + nodes.graph.in_degree)], axis=1)


# %%
# Use it
# ------
# Use it like any other method. The data are handwritten digits, each linked to similar ones.

task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes
result = gnncal.calibrate(logits, labels, graph, **task.splits, method=DegreeTemperature())
print(f"ln T = {result.calibrator.a_:.2f} {result.calibrator.b_:+.2f} / (1 + degree)")
print(result.comparison)

# %%
# The law that was fitted, and the nodes that it gives a temperature to.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.scatter(graph.in_degree, result.calibrator.temperature_, s=6)
ax.axhline(1.0, color="grey", linewidth=1)
ax.set(xlabel="degree", ylabel="temperature", yscale="log")
plt.show()

# %%
# Is it better than one temperature? Hardly, on this graph: all images have neighbours enough.

ts = gnncal.calibrate(logits, labels, graph, **task.splits, method="ts").probabilities
print(gnncal.compare(labels[test], ts[test], result.probabilities[test]))

# %%
# Is it correct?
# --------------
# gnncal holds every calibrator to the same laws: rows are probabilities, labels of test nodes never
# matter, a saved calibrator predicts the same, and more. The call is silent if all of them hold.

gnncal.testing.check_calibrator(DegreeTemperature)

# %%
# Next: :ref:`benchmark it against the others
# <sphx_glr_gallery_11_benchmark_your_own_method.py>`, or :doc:`put it into a package of your own
# </plugins>`, so that it has a name in ``gnncal calibrate``, in the benchmark and in reports.
