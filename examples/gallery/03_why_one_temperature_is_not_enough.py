"""
Limits of a single temperature
==============================

Temperature scaling corrects the *average* confidence. On a graph, two errors can cancel in this
average: some nodes are underconfident, others overconfident.
"""

# %%
# A graph with two kinds of nodes
# -------------------------------
# The homophily of a node is the share of its neighbours that have its class. Half of the sampled
# nodes have homophily 0.95, the other half 0.3.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import gnncal
import gnncal_lab
from gnncal.plotting import TemperatureDisplay
from gnncal_lab import HomophilySplitDisplay

rng = np.random.default_rng(0)
n = 6000
homophily = np.where(rng.random(n) < 0.5, 0.3, 0.95)
sample = gnncal_lab.simulation.CSBM(mean_degree=15, separation=1.0, n_features=48).sample(homophily)
train, val, test = np.split(rng.permutation(n), [240, 960])

# %%
# The model is a softmax regression on the mean features of a node and its neighbours. It is trained
# on few nodes and becomes overconfident.

senders, receivers = sample.graph.edge_index
ones = np.ones(len(senders))
neighbours = sparse.csr_matrix((ones, (receivers, senders)), shape=(n, n)) + sparse.eye(n)
means = np.asarray(neighbours @ sample.graph.features / neighbours.sum(axis=1))
model = LogisticRegression(C=10.0, max_iter=2000).fit(means[train], sample.labels[train])
logits = model.decision_function(means)

# %%
# Two calibrators
# ---------------
# ``ts`` fits one temperature for all nodes. ``structural`` computes a temperature for each node.

splits = {"calibration_nodes": val, "train_nodes": train, "test_nodes": test}
one = gnncal.calibrate(logits, sample.labels, sample.graph, method="ts", **splits)
each = gnncal.calibrate(logits, sample.labels, sample.graph, method="structural", **splits)

for name, result in {"one temperature": one, "one for each node": each}.items():
    print(f"{name}: log loss {result.before.nll:.3f} -> {result.after.nll:.3f}")

# %%
# Calibration by homophily
# ------------------------
# The chart shows confidence minus accuracy (positive: overconfident). With ``ts``, nodes with low
# homophily stay overconfident, and nodes with high homophily become underconfident. With
# ``structural``, both gaps are smaller than with ``ts``.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
labels, before = sample.labels[test], gnncal.calibrators.softmax(logits)[test]
for ax, (name, result) in zip(axes, {"ts": one, "structural": each}.items(), strict=True):
    probs = result.probabilities[test]
    HomophilySplitDisplay.from_predictions(
        labels, probs, sample.homophily[test], before=before, ax=ax
    )
    ax.set_title(name)
plt.show()

# %%
# Temperature of each node
# ------------------------
# Homophily is unknown without labels, so ``structural`` uses support: the mean probability that the
# neighbours give to the node's predicted class. Nodes with high support get a low temperature,
# which raises their confidence.

TemperatureDisplay.from_estimator(each.calibrator, logits, sample.graph, nodes=test)
plt.show()
