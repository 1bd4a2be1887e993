"""
Rare classes: from a class-weighted model to a policy
=====================================================

Fraud, abuse, failure: one rare class matters (class imbalance). Such models are often trained with
class weights, which inflate its probability. This example repairs the probability and fits a
policy: act on some nodes, clear others, and send the rest to manual review.
"""

# %%
# A class-weighted model
# ----------------------
# The data are real and need no download: 1,797 handwritten digits, each linked to its ten most
# similar images. We look for the 8, which is one image in ten. The model averages the pixels of
# similar images twice, as a graph convolution does. ``class_weight="balanced"`` makes a missed 8
# count nine times as much as a false positive.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import gnncal
from gnncal.decisions import Costs, Policy, hold_out
from gnncal.plotting import ReliabilityDisplay

task = gnncal.example()
graph, splits, test = task.graph, task.splits, task.test_nodes
labels = (task.labels == 8).astype(int)
names = ["other", "8"]

around = graph.normalised_adjacency(add_self_loops=True)
features = around @ (around @ (load_digits().data / 16))
model = LogisticRegression(class_weight="balanced", max_iter=1000)
model.fit(features[task.train_nodes], labels[task.train_nodes])
score = model.decision_function(features)
logits = np.column_stack([np.zeros_like(score), score])  # a column for each class

# %%
# Let predictions change
# ----------------------
# By default gnncal keeps the predicted classes. For this model that is a mistake, and gnncal warns.

kept = gnncal.calibrate(logits, labels, graph, **splits, class_names=names)
print(kept.advice)

# %%
# No temperature can repair a shifted decision boundary. Name the class instead: with ``positive``
# the calibrator may change predictions, and the table ends with the metrics of this class. "mean P"
# far above "rate" shows the effect of the weights.

result = gnncal.calibrate(logits, labels, graph, **splits, positive="8", class_names=names)
print(result)

# %%
# Error of the probability
# ------------------------
# "ECE of P" is the mean gap between the probability of an 8 and the share of images that are one.

shown = {
    "raw": gnncal.calibrators.softmax(logits),
    "predictions kept": kept.probabilities,
    "free": result.probabilities,
}
for name, probs in shown.items():
    found = gnncal.evaluate(labels[test], probs[test], positive=1)
    print(f"{name}: ECE of P {found.positive_ece:.1%}")

# %%
# The chart shows where. Both axes are logarithmic, because most nodes of a rare class are near
# zero. The grey band is where points of a calibrated model lie, and the star is the mean of
# all nodes. The raw model is far below the diagonal: of the images with P = 10%, none is
# an 8.

figure, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained")
for ax, name in zip(axes, ("raw", "free"), strict=True):
    ReliabilityDisplay.from_predictions(
        labels[test],
        shown[name][test],
        positive="8",
        class_names=names,
        log=True,
        name=name,
        ax=ax,
    )
plt.show()

# %%
# Guarantees
# ----------
# A policy needs labelled nodes that the calibrator has not seen. ``hold_out`` splits the validation
# nodes; with ``labels`` both halves get their share of the rare class.

fit_nodes, held_out = hold_out(task.nodes, labels=labels)
half = gnncal.calibrate(
    logits,
    labels,
    graph,
    nodes=fit_nodes,
    train_nodes=task.train_nodes,
    positive="8",
    class_names=names,
)
probs = half.probabilities
print(f"{labels[fit_nodes].sum()} and {labels[held_out].sum()} images of an 8")

# %%
# Set the guarantees. Of the nodes that are acted on, at least 80% must be an 8. Of those
# that are cleared, at least 98% must not be. The rest goes to review.

fitted_on = {"nodes": held_out, "class_names": names, "decision_nodes": test}
policy = Policy(positive="8", act=0.8, clear=0.98).fit(probs, labels, **fitted_on)
print(policy)

# %%
# A guarantee that 250 labelled nodes cannot certify decides no node. A warning names the best
# guarantee that they certify, and how many labels are needed.
# The policy prints the same, so the warning is off here.

with warnings.catch_warnings(action="ignore", category=gnncal.GnncalWarning):
    too_much = Policy(positive="8", act=0.95).fit(probs, labels, **fitted_on)
print(too_much)

# %%
# Observed results on the test nodes, whose labels have not been used so far.

print(policy.judge(labels[test], probs[test]))

# %%
# Costs
# -----
# Or pass the costs of a mistake and of a review. Each node then gets the action with the lowest
# expected cost. Nothing is guaranteed, but the total is forecast with an interval and compared with
# the alternatives.

raw_predictions = logits.argmax(axis=1)
costs = Costs(missed=500, false_alarm=20, review=3)
cheapest = Policy(positive="8", costs=costs)
cheapest.fit(probs, labels, **fitted_on, predictions=raw_predictions)
print(cheapest)
print(cheapest.judge(labels[test], probs[test], predictions=raw_predictions[test]))

# %%
# A review budget
# ---------------
# Or pass how many nodes your team can review: those with the highest probability are chosen.

budget = Policy(positive="8", budget=60).fit(probs, labels, **fitted_on)
print(budget)
print(budget.judge(labels[test], probs[test]))

# %%
# Save it, and use it on new nodes
# --------------------------------
# Calibrator and policy belong together. Both are small files without pickle.

from pathlib import Path
from tempfile import TemporaryDirectory

with TemporaryDirectory() as name:
    folder = Path(name)
    half.calibrator.save(folder / "calibrator.safetensors")
    policy.save(folder / "policy.safetensors")
    calibrator = gnncal.load(folder / "calibrator.safetensors")
    rule = gnncal.load(folder / "policy.safetensors")

new_probs = calibrator.predict_proba(logits, graph)[test]
actions = rule.decide(new_probs)
for action in ("act", "clear", "review"):
    print(f"{action}: {np.sum(actions == action)} nodes")

# %%
# On the command line the same is ``gnncal decide model.npz --positive 8 --act 0.8 --clear 0.98``
# and then ``gnncal apply decided/calibrator.safetensors new.npz --policy
# decided/policy.safetensors``. The guarantees apply to nodes like those that were held
# out. :doc:`/watch` detects distribution shift, and :doc:`/decisions` covers policies.
