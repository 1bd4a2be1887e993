"""
Which nodes may I decide automatically?
=======================================

A machine should decide the nodes where at least 80 % of its decisions are right, and a person
should look at the rest. Where is the line? A certified threshold answers that, with a guarantee
that holds for any model.
"""

# %%
# A model and its logits
# ----------------------

import matplotlib.pyplot as plt
import numpy as np

import gnncal
from gnncal.decisions import ConformalClassifier, SelectiveClassifier, hold_out
from gnncal.lab.classifiers import train_classifier
from gnncal.lab.datasets import Dataset, Split

rng = np.random.default_rng(0)
n = 4000
sample = gnncal.lab.simulation.CSBM(mean_degree=5, separation=0.8, n_features=48).sample(
    rng.uniform(0.2, 0.95, n)
)
graph, labels = sample.graph.to_undirected(), sample.labels
train, val, test = np.split(rng.permutation(n), [400, 1200])
gcn = train_classifier("gcn", Dataset("sampled", graph, labels), Split(train, val, test), seed=0)
logits = gcn.logits()

# %%
# Keep some nodes for the threshold
# ---------------------------------
# The guarantee needs labelled nodes that the calibrator has not seen. ``hold_out`` splits the
# validation nodes in two.

fit_nodes, held_out = hold_out(val)
probs = gnncal.calibrate(logits, labels, graph, nodes=fit_nodes, train_nodes=train).probabilities

rule = SelectiveClassifier(target_accuracy=0.8).fit(probs, labels, nodes=held_out)
print(rule.report_.sentence)

# %%
# Does it keep the promise?
# -------------------------
# We look at the test nodes, whose labels took no part. Raw and calibrated probabilities both keep
# the promise. Better probabilities let the machine decide more nodes.

raw = gnncal.softmax(logits)
for name, chosen in {"raw": raw, "calibrated": probs}.items():
    decided = SelectiveClassifier(target_accuracy=0.8).fit(chosen, labels, nodes=held_out)
    automatic = decided.decide(chosen)[test]
    right = (chosen.argmax(axis=1) == labels)[test][automatic].mean()
    print(f"{name}: {automatic.mean():.0%} of the test nodes decided, {right:.1%} of them right")

# %%
# Other targets
# -------------
# The curve shows the mistakes among the most confident nodes, against how many nodes they are.

from gnncal.metrics import risk_coverage_curve
from gnncal.plotting import LINES, draw_risk_coverage

figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for line, (name, chosen) in zip(LINES, {"raw": raw, "calibrated": probs}.items(), strict=False):
    curve = risk_coverage_curve(labels[test], chosen[test])
    draw_risk_coverage(curve, ax=ax, label=name, line=line, references=name == "raw")
ax.legend()
plt.show()

# %%
# The other nodes: a short list instead of one class
# --------------------------------------------------
# For nodes that a person must look at, a set of classes that has the true one in 90 % of the cases
# is often short.

sets = ConformalClassifier(coverage=0.9).fit(probs, labels, nodes=held_out)
members = sets.predict_set(probs)[test]
print(f"{members[np.arange(len(test)), labels[test]].mean():.1%} of the sets have the true class")
print("number of nodes with 1, 2, ... classes:", np.bincount(members.sum(axis=1))[1:])
