"""
Automate decisions with a guarantee
===================================

Decide nodes with high confidence automatically, and send the rest to manual review. A certified
threshold guarantees with probability 90% that at least 98% of the automatic decisions are correct.
"""

# %%
# A model and its logits
# ----------------------
# The data are handwritten digits, each linked to its ten most similar images. The model's accuracy
# is 97%.

import matplotlib.pyplot as plt
import numpy as np

import gnncal
from gnncal.decisions import ConformalClassifier, Policy, hold_out

task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes

# %%
# Hold out nodes for the threshold
# --------------------------------
# The threshold needs labelled nodes that the calibrator has not seen. ``hold_out`` splits the
# validation nodes into two halves.

fit_nodes, held_out = hold_out(task.calibration_nodes)
probs = gnncal.calibrate(
    logits, labels, graph, calibration_nodes=fit_nodes, train_nodes=task.train_nodes
).probabilities

given = {"calibration_nodes": held_out, "train_nodes": task.train_nodes}
rule = Policy(accuracy=0.98).fit(probs, labels, **given)
print(rule.report_.sentence)

# %%
# Observed accuracy
# -----------------
# The labels of the test nodes have not been used so far. The guarantee holds for any probabilities,
# raw or calibrated.

raw = gnncal.calibrators.softmax(logits)
for name, chosen in {"raw": raw, "calibrated": probs}.items():
    decided = Policy(accuracy=0.98).fit(chosen, labels, **given)
    automatic = decided.decide(chosen[test]) == "decide"
    right = (chosen.argmax(axis=1) == labels)[test][automatic].mean()
    print(f"{name}: {automatic.mean():.0%} of the test nodes decided, {right:.1%} of them right")

# %%
# Risk-coverage curve
# -------------------
# Each curve shows how the share of mistakes grows as more nodes are decided.

from gnncal.plotting import RiskCoverageDisplay

figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name, chosen in {"raw": raw, "calibrated": probs}.items():
    RiskCoverageDisplay.from_predictions(labels[test], chosen[test], name=name, ax=ax)
plt.show()

# %%
# Prediction sets
# ---------------
# A prediction set contains the true class with probability at least 98%, on average over nodes and
# over draws of the held-out nodes (conformal prediction). In one draw, the share can be below 98%.

sets = ConformalClassifier(coverage=0.98, score="lac").fit(
    probs, labels, calibration_nodes=held_out
)
members = sets.predict_set(probs)[test]
print(f"{members[np.arange(len(test)), labels[test]].mean():.1%} of the sets have the true class")
print("number of nodes with 1, 2, ... classes:", np.bincount(members.sum(axis=1))[1:])
