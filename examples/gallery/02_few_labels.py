"""
Calibrate with few labels
=========================

Every label spent on calibration could have trained the model. How many labels does calibration
need? That depends on the method: with too few labels, a method with many parameters is worse than
no calibration.
"""

# %%
# A trained model
# ---------------
# The logits are those of a model trained on handwritten digits, each linked to its ten most similar
# images.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import gnncal

rng = np.random.default_rng(0)
task = gnncal.example()
logits, labels, graph, test = task.logits, task.labels, task.graph, task.test_nodes

# %%
# Calibrate on 10 to 300 nodes
# ----------------------------
# For each size we draw calibration nodes five times. All methods get the same nodes. The methods
# are temperature scaling (``ts``), vector scaling (``vs``), HoTS (``hots``) and the default,
# ``structural``. Warnings about too few labels are off.

warnings.simplefilter("ignore", gnncal.GnncalWarning)
methods = ["ts", "vs", "hots", "structural"]
sizes = [10, 30, 100, 300]
loss = np.zeros((len(methods), len(sizes), 5))
for s, size in enumerate(sizes):
    for draw in range(5):
        nodes = rng.choice(task.calibration_nodes, size, replace=False)
        for m, method in enumerate(methods):
            fitted = gnncal.get_calibrator(method).fit(
                logits, labels, graph, calibration_nodes=nodes
            )
            probs = fitted.predict_proba(logits, graph)[test]
            loss[m, s, draw] = gnncal.metrics.METRICS["nll"](labels[test], probs)

raw = gnncal.metrics.METRICS["nll"](labels[test], gnncal.calibrators.softmax(logits)[test])

# %%
# The result
# ----------
# Each line is the mean over five draws. Each band extends from the best draw to the worst.

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
# ``structural`` works with few labels because it has a prior on its parameters. :doc:`/evidence`
# covers fourteen graphs.
