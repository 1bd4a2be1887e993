"""
Which nodes may I decide automatically?
=======================================

A machine should decide the nodes where at least 98 % of its decisions are right, and a person
should look at the rest. Where is the line? A certified threshold answers that, with a guarantee
that holds for any model.
"""

# %%
# A model and its logits
# ----------------------
# Handwritten digits, each linked to its ten most similar. The model is right about 97 % of them.

import matplotlib.pyplot as plt
import numpy as np

import gnncal
from gnncal.decisions import ConformalClassifier, Policy, hold_out

task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes

# %%
# Keep some nodes for the threshold
# ---------------------------------
# The guarantee needs labelled nodes that the calibrator has not seen. ``hold_out`` splits the
# validation nodes in two.

fit_nodes, held_out = hold_out(task.nodes)
probs = gnncal.calibrate(
    logits, labels, graph, nodes=fit_nodes, train_nodes=task.train_nodes
).probabilities

rule = Policy(accuracy=0.98).fit(probs, labels, nodes=held_out)
print(rule.report_.sentence)

# %%
# Does it keep the guarantee?
# ---------------------------
# We look at the test nodes, whose labels took no part. The guarantee holds for raw and for
# calibrated probabilities. Better probabilities let the machine decide more nodes.

raw = gnncal.calibrators.softmax(logits)
for name, chosen in {"raw": raw, "calibrated": probs}.items():
    decided = Policy(accuracy=0.98).fit(chosen, labels, nodes=held_out)
    automatic = decided.decide(chosen[test]) == "decide"
    right = (chosen.argmax(axis=1) == labels)[test][automatic].mean()
    print(f"{name}: {automatic.mean():.0%} of the test nodes decided, {right:.1%} of them right")

# %%
# Other targets
# -------------
# The curve shows the mistakes among the most confident nodes, against how many nodes they are.

from gnncal.plotting import RiskCoverageDisplay

figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name, chosen in {"raw": raw, "calibrated": probs}.items():
    RiskCoverageDisplay.from_predictions(labels[test], chosen[test], name=name, ax=ax)
plt.show()

# %%
# The other nodes: a short list instead of one class
# --------------------------------------------------
# For nodes that a person must look at, a set of classes that has the true one in 98 % of the cases
# is often short.

sets = ConformalClassifier(coverage=0.98, score="lac").fit(probs, labels, nodes=held_out)
members = sets.predict_set(probs)[test]
print(f"{members[np.arange(len(test)), labels[test]].mean():.1%} of the sets have the true class")
print("number of nodes with 1, 2, ... classes:", np.bincount(members.sum(axis=1))[1:])
