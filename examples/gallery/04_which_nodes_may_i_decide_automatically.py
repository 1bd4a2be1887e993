"""
Automate decisions with a guarantee
===================================

Decide nodes automatically if at least 98% of the decisions are correct, and send the rest to manual
review. A certified threshold does this, with a guarantee that holds for any model.
"""

# %%
# A model and its logits
# ----------------------
# Handwritten digits as a 10-nearest-neighbour graph. The model's accuracy is about 97%.

import matplotlib.pyplot as plt
import numpy as np

import gnncal
from gnncal.decisions import ConformalClassifier, Policy, hold_out

task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes

# %%
# Hold out nodes for the threshold
# --------------------------------
# The guarantee needs labelled nodes that the calibrator has not seen. ``hold_out`` splits the
# validation nodes in two.

fit_nodes, held_out = hold_out(task.nodes)
probs = gnncal.calibrate(
    logits, labels, graph, nodes=fit_nodes, train_nodes=task.train_nodes
).probabilities

rule = Policy(accuracy=0.98).fit(probs, labels, nodes=held_out)
print(rule.report_.sentence)

# %%
# Observed accuracy
# -----------------
# The labels of the test nodes have not been used so far. The guarantee holds for raw and for
# calibrated probabilities. Better probabilities decide more nodes.

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
# Prediction sets for the other nodes
# -----------------------------------
# For nodes in review, a set of classes that contains the true one with probability 98% (conformal
# prediction) is often short.

sets = ConformalClassifier(coverage=0.98, score="lac").fit(probs, labels, nodes=held_out)
members = sets.predict_set(probs)[test]
print(f"{members[np.arange(len(test)), labels[test]].mean():.1%} of the sets have the true class")
print("number of nodes with 1, 2, ... classes:", np.bincount(members.sum(axis=1))[1:])
