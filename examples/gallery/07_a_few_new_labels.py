"""
Update a calibrator with 50 labels
==================================

After a distribution shift the calibrator is wrong, but need not be refitted from scratch: the old
fit is a prior for the new labels. Here fifty labels repair most of the damage.
"""

# %%
# A calibrator before the shift
# -----------------------------
# Handwritten digits, each linked to its ten most similar images. The model and the calibrator were
# made when people wrote with a thin pen. Now the pen is thicker.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import gnncal

task = gnncal.example()
labels, graph, train, test = task.labels, task.graph, task.train_nodes, task.test_nodes
around = graph.normalised_adjacency(add_self_loops=True)
thin = load_digits().images / 16
thick = np.maximum(thin, np.roll(thin, 1, axis=2))


def features(pictures):
    """Return the mean pixels of similar images, of similar images."""
    return around @ (around @ pictures.reshape(len(pictures), -1))


model = LogisticRegression(max_iter=1000).fit(features(thin)[train], labels[train])
old = model.decision_function(features(thin))
new = model.decision_function(features(thick))
calibrator = gnncal.calibrate(old, labels, graph, **task.splits).calibrator

# %%
# After the shift, confidence is too high.

before = gnncal.evaluate(labels[test], calibrator.predict_proba(new, graph)[test])
print(f"accuracy {before.accuracy:.1%}, ECE {before.ece.value:.1%}, log loss {before.nll:.3f}")

# %%
# Fifty labels
# ------------
# Label nodes chosen at random among those that the calibrator will be used on. ``update``
# combines the old fit with the new labels. The old calibrator is unchanged.

rng = np.random.default_rng(0)
some = rng.choice(task.nodes, 50, replace=False)
updated = calibrator.update(new, labels, graph, nodes=some)
after = gnncal.evaluate(labels[test], updated.predict_proba(new, graph)[test])
print(f"accuracy {after.accuracy:.1%}, ECE {after.ece.value:.1%}, log loss {after.nll:.3f}")
print(*updated.history_)

# %%
# Update or refit?
# ----------------
# With few labels the update is better than a refit from scratch. With many labels the two agree.
# We draw the labels three times.

sizes = [10, 25, 50, 100, 250]
loss = {"update": [], "fit again": []}
for size in sizes:
    draws = [rng.choice(task.nodes, size, replace=False) for _ in range(3)]
    for name, losses in loss.items():
        found = []
        for nodes in draws:
            chosen = calibrator.update if name == "update" else gnncal.calibrators.Structural().fit
            probs = chosen(new, labels, graph, nodes=nodes).predict_proba(new, graph)
            found.append(gnncal.metrics.METRICS["nll"](labels[test], probs[test]))
        losses.append(np.mean(found))

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.axhline(before.nll, color="grey", linestyle=":", label="no update")
for name, losses in loss.items():
    ax.plot(sizes, losses, marker="o", label=name)
ax.set(xscale="log", xlabel="new labels", ylabel="log loss on the new images")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# On the command line: ``gnncal update calibrator.safetensors new.npz --out updated/``. If only the
# base rate of a class has changed, ``update`` needs the new rate and no label: :doc:`/watch`.
# Guarantees must be certified again after an update.
