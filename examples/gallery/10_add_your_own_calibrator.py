"""
Add your own calibrator
=======================

A calibrator is a class with two methods: ``_fit`` learns from the calibration nodes, and
``_temperature`` returns the temperature of each node. The base class adds input checks,
``predict_proba``, ``get_params``, saving and support for scikit-learn's ``clone``.
``gnncal.calibrators`` has the building blocks.
"""

# %%
# The idea
# --------
# A GCN averages over the neighbours of a node, so it knows more about a node with many neighbours.
# Let the temperature T of node i depend on its degree d, with parameters a and b:
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
# ``_fit`` gets a ``Nodes`` object: the logits of all nodes, the graph, and the labels of the
# calibration and training nodes. Test labels are not in the object, so they cannot leak.


class DegreeTemperature(TemperatureCalibrator):
    """A temperature for each node from its degree."""

    needs_graph = True
    # The values in a saved file, with their ranges.
    learned: ClassVar = dict.fromkeys(["a_", "b_"], number(at_least=-5.0, at_most=5.0))

    def _fit(self, nodes):
        loss = TemperatureLoss(nodes.calibration_logits, nodes.labels)
        every = self._rows(nodes)  # (n_nodes, 2): 1 and 1 / (1 + degree)
        rows = every[nodes.calibration_nodes]

        def objective(theta):
            temperature = np.exp(rows @ theta)
            value, slope, _ = loss.derivatives(temperature)
            gradient = rows.T @ (slope * temperature)
            # A small penalty keeps T near 1 if there are few labels.
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
# Pass an instance as ``method``. The data are handwritten digits, each linked to its ten most
# similar images.

task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes
result = gnncal.calibrate(logits, labels, graph, **task.splits, method=DegreeTemperature())
print(f"ln T = {result.calibrator.a_:.2f} {result.calibrator.b_:+.2f} / (1 + degree)")
print(result.comparison)

# %%
# The chart shows the fitted temperature of each node.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.scatter(graph.in_degree, result.calibrator.temperature_, s=6)
ax.axhline(1.0, color="grey", linewidth=1)
ax.set(xlabel="degree", ylabel="temperature", yscale="log")
plt.show()

# %%
# Compared with one temperature (``ts``), the gain on this graph is tiny, because every node has at
# least ten neighbours.

ts = gnncal.calibrate(logits, labels, graph, **task.splits, method="ts").probabilities
print(gnncal.compare(labels[test], ts[test], result.probabilities[test]))

# %%
# Test it
# -------
# ``check_calibrator`` tests laws that every calibrator must obey. For example, labels of test nodes
# never matter, and a saved calibrator predicts the same. The call is silent if all laws hold.

gnncal.testing.check_calibrator(DegreeTemperature)

# %%
# Next: :ref:`benchmark your method <sphx_glr_gallery_11_benchmark_your_own_method.py>`, or
# :doc:`put the class into a package </plugins>`. The method's name then works in
# ``gnncal calibrate``, ``bench`` and ``report``.
