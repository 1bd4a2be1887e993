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

import warnings

import matplotlib.pyplot as plt
import numpy as np

import gnncal
from gnncal.lab.classifiers import train_classifier
from gnncal.lab.datasets import Dataset, Split

rng = np.random.default_rng(0)
n = 4000
sample = gnncal.lab.simulation.CSBM(mean_degree=5, separation=0.8, n_features=48).sample(
    rng.uniform(0.2, 0.95, n)
)
graph, labels = sample.graph.to_undirected(), sample.labels
train, val, test = np.split(rng.permutation(n), [200, 1000])
gcn = train_classifier("gcn", Dataset("sampled", graph, labels), Split(train, val, test), seed=0)
logits = gcn.logits()

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
        nodes = rng.choice(val, size, replace=False)
        for m, method in enumerate(methods):
            fitted = gnncal.get_calibrator(method).fit(logits, labels, graph, nodes=nodes)
            probs = fitted.predict_proba(logits, graph)[test]
            loss[m, s, draw] = gnncal.metrics.negative_log_likelihood(labels[test], probs)

raw = gnncal.metrics.negative_log_likelihood(labels[test], gnncal.softmax(logits)[test])

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
ax.set_ylim(loss.min() - 0.02, raw + 0.25)
ax.legend()
plt.show()

# %%
# ``structural`` has a prior that keeps it close to a plain rule until the labels say otherwise.
# This is one model on one sampled graph; :doc:`/evidence` has the same on fourteen real graphs.
