"""
Rare classes: from a class-weighted model to a policy
=====================================================

Fraud, abuse and failure are rare classes (class imbalance). Models for such classes are often
trained with class weights, which inflate the probability of the rare class. This example calibrates
this probability and fits a policy: act on some nodes, clear others, and send the rest to manual
review.
"""

# %%
# A class-weighted model
# ----------------------
# The data are 1,797 real handwritten digits, each linked to its ten most similar images. The rare
# class is the digit 8, one image in ten. The model averages the pixels of similar images twice,
# like two graph convolutions. ``class_weight="balanced"`` makes a missed 8 count about nine times
# as much as a false positive.

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
# By default gnncal keeps the predicted classes. That is a mistake here: the class weights shifted
# the decision boundary, and no temperature shifts it back. A warning says so.

kept = gnncal.calibrate(logits, labels, graph, **splits, class_names=names)
print(kept.advice)

# %%
# Name the class with ``positive``. The calibrator may then change predictions, and the output
# includes the metrics of this class. P is the probability of an 8. A "mean P" far above "rate"
# shows the effect of the class weights.

result = gnncal.calibrate(logits, labels, graph, **splits, positive="8", class_names=names)
print(result)

# %%
# Calibration error of the rare class
# -----------------------------------
# "ECE of P" is the mean gap between P and the share of 8s, over bins of P.

shown = {
    "raw": gnncal.calibrators.softmax(logits),
    "predictions kept": kept.probabilities,
    "predictions changed": result.probabilities,
}
for name, probs in shown.items():
    found = gnncal.evaluate(labels[test], probs[test], positive=1)
    print(f"{name}: ECE of P {found.positive_ece:.1%}")

# %%
# Both axes of the chart are logarithmic, because P is near zero for most nodes. The raw model is
# far below the diagonal: for example, no image with P near 10% is an 8.

figure, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained")
for ax, name in zip(axes, ("raw", "predictions changed"), strict=True):
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
# nodes into two halves. With ``labels``, both halves get the same share of the rare class.

fit_nodes, held_out = hold_out(task.calibration_nodes, labels=labels)
half = gnncal.calibrate(
    logits,
    labels,
    graph,
    calibration_nodes=fit_nodes,
    train_nodes=task.train_nodes,
    positive="8",
    class_names=names,
)
probs = half.probabilities
print(f"{labels[fit_nodes].sum()} and {labels[held_out].sum()} images of an 8")

# %%
# We set two guarantees: at least 80% of the nodes that are acted on are an 8, and at least 98% of
# the cleared nodes are not an 8.

fitted_on = {"calibration_nodes": held_out, "class_names": names, "decision_nodes": test}
fitted_on["train_nodes"] = task.train_nodes
policy = Policy(positive="8", act=0.8, clear=0.98).fit(probs, labels, **fitted_on)
print(policy)

# %%
# If the labels cannot certify a guarantee, all nodes go to review. A warning names the best
# guarantee that the labels certify. The policy prints the same text, so the warning is off here.

with warnings.catch_warnings(action="ignore", category=gnncal.GnncalWarning):
    too_much = Policy(positive="8", act=0.95).fit(probs, labels, **fitted_on)
print(too_much)

# %%
# ``judge`` evaluates the first policy on the test nodes. No fit has used their labels.

print(policy.judge(labels[test], probs[test]))

# %%
# Costs
# -----
# Instead of guarantees, you can pass the costs of mistakes and of a review. Each node then gets the
# action with the lowest expected cost. The policy forecasts the total cost, without a guarantee.

raw_predictions = logits.argmax(axis=1)
costs = Costs(missed=500, false_alarm=20, review=3)
cheapest = Policy(positive="8", costs=costs)
cheapest.fit(probs, labels, **fitted_on, predictions=raw_predictions)
print(cheapest)
print(cheapest.judge(labels[test], probs[test], predictions=raw_predictions[test]))

# %%
# A review budget
# ---------------
# You can also pass the number of nodes that your team can review. The policy selects the nodes with
# the highest P.

budget = Policy(positive="8", budget=60).fit(probs, labels, **fitted_on)
print(budget)
print(budget.judge(labels[test], probs[test]))

# %%
# Save and reuse
# --------------
# Save the calibrator with the policy: the guarantees hold only for the probabilities of this
# calibrator. Neither file contains a pickle.

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
# On the command line, run ``gnncal decide model.npz --positive 8 --act 0.8 --clear 0.98 --hold-out
# 0.5``, then ``gnncal apply decided/calibrator.safetensors new.npz --policy
# decided/policy.safetensors``. The guarantees hold for nodes from the same population as the
# held-out nodes. For distribution shift see :doc:`/watch`, for policies :doc:`/decisions`.
