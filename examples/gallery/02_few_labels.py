"""
Few labels
==========

Labels are expensive, and every label spent on calibration could have trained the model. How many
does calibration need? That depends on the method: those with many parameters are worse than no
calibration until they have hundreds of labels.
"""

# %%
# A model
# -------
# Handwritten digits as a 10-nearest-neighbour graph, with a trained model's logits.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import gnncal

rng = np.random.default_rng(0)
task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes

# %%
# Calibrate on 10 to 300 of the validation nodes
# ----------------------------------------------
# We draw nodes five times for each size, the same nodes for every method. With very few nodes
# gnncal warns that the labels do not determine the fit. Here we want to see the effect, so the
# warnings are off.

warnings.simplefilter("ignore", gnncal.GnncalWarning)
methods = ["ts", "vs", "hots", "structural"]
sizes = [10, 30, 100, 300]
loss = np.zeros((len(methods), len(sizes), 5))
for s, size in enumerate(sizes):
    for draw in range(5):
        nodes = rng.choice(task.nodes, size, replace=False)
        for m, method in enumerate(methods):
            fitted = gnncal.get_calibrator(method).fit(logits, labels, graph, nodes=nodes)
            probs = fitted.predict_proba(logits, graph)[test]
            loss[m, s, draw] = gnncal.metrics.METRICS["nll"](labels[test], probs)

raw = gnncal.metrics.METRICS["nll"](labels[test], gnncal.calibrators.softmax(logits)[test])

# %%
# The result
# ----------
# Lines are the mean over draws; bands go from the best draw to the worst.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.axhline(raw, color="grey", linestyle=":", label="uncalibrated")
for method, values in zip(methods, loss, strict=True):
    (line,) = ax.plot(sizes, values.mean(axis=1), marker="o", label=method)
    ax.fill_between(
        sizes, values.min(axis=1), values.max(axis=1), color=line.get_color(), alpha=0.15
    )
ax.set(xscale="log", xlabel="calibration nodes", ylabel="log loss on the test nodes")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set_ylim(0.1, 1.2)
ax.legend()
plt.show()

# %%
# ``structural`` has a prior that keeps it close to a simple rule until there are enough labels.
# This is one model on one graph; :doc:`/evidence` has the same on fourteen.
