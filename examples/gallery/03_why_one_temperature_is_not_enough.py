"""
Why one temperature is not enough
=================================

Temperature scaling makes the *average* confidence right. On a graph that can hide two errors
that cancel: nodes with neighbours of their own class are underconfident, the others overconfident.
"""

# %%
# A graph with two kinds of nodes
# -------------------------------
# Half of the nodes have nearly only neighbours of their own class, the other half few.
# The share of neighbours with the same class is called homophily.

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
# The model: softmax regression on the mean over a node and its neighbours, which is a GCN with
# one linear layer. It is trained on few nodes and becomes overconfident.

senders, receivers = sample.graph.edge_index
ones = np.ones(len(senders))
neighbours = sparse.csr_matrix((ones, (receivers, senders)), shape=(n, n)) + sparse.eye(n)
means = np.asarray(neighbours @ sample.graph.features / neighbours.sum(axis=1))
model = LogisticRegression(C=10.0, max_iter=2000).fit(means[train], sample.labels[train])
logits = model.decision_function(means)

# %%
# Two calibrations
# ----------------

splits = {"nodes": val, "train_nodes": train, "test_nodes": test}
one = gnncal.calibrate(logits, sample.labels, sample.graph, method="ts", **splits)
each = gnncal.calibrate(logits, sample.labels, sample.graph, method="structural", **splits)

for name, result in {"one temperature": one, "one for each node": each}.items():
    print(f"{name}: log loss {result.before.nll:.3f} -> {result.after.nll:.3f}")

# %%
# Calibration by homophily
# ------------------------
# The chart shows confidence minus accuracy for nodes of similar homophily. Above zero the
# model is overconfident. One temperature moves all nodes the same way, so both kinds of nodes
# stay wrong.

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
# The fitted law
# --------------
# The structural method gives each node its own temperature, from the model's uncertainty at the
# node and from its neighbours' predictions. It does not know the homophily. Where neighbours
# support the prediction, the temperature is low and the confidence high.

TemperatureDisplay.from_estimator(each.calibrator, logits, sample.graph, nodes=test)
plt.show()
