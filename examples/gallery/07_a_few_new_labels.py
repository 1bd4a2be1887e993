"""
A few new labels
================

The world has moved, and the calibrator is no longer right. It need not be fitted from nothing: what
it knows is still worth something. Fifty labels of the new world repair most of the harm.
"""

# %%
# A calibrator from another time
# ------------------------------
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
# What the move did: confidence is now too high.

before = gnncal.evaluate(labels[test], calibrator.predict_proba(new, graph)[test])
print(f"accuracy {before.accuracy:.1%}, ECE {before.ece.value:.1%}, log loss {before.nll:.3f}")

# %%
# Fifty labels
# ------------
# Label nodes chosen at random among those that the calibrator will be used on. ``update`` keeps
# what the calibrator knows as far as the new labels allow. The old one stays as it is.

rng = np.random.default_rng(0)
some = rng.choice(task.nodes, 50, replace=False)
updated = calibrator.update(new, labels, graph, nodes=some)
after = gnncal.evaluate(labels[test], updated.predict_proba(new, graph)[test])
print(f"accuracy {after.accuracy:.1%}, ECE {after.ece.value:.1%}, log loss {after.nll:.3f}")
print(*updated.history_)

# %%
# Update or fit again?
# --------------------
# With few labels the update is better than a fit from nothing, because it starts from what was
# known. With many labels the two come to the same. We draw the labels three times.

sizes = [10, 25, 50, 100, 250]
loss = {"update": [], "fit again": []}
for size in sizes:
    draws = [rng.choice(task.nodes, size, replace=False) for _ in range(3)]
    for name, losses in loss.items():
        found = []
        for nodes in draws:
            chosen = calibrator.update if name == "update" else gnncal.Structural().fit
            probs = chosen(new, labels, graph, nodes=nodes).predict_proba(new, graph)
            found.append(gnncal.metrics.METRICS["nll"](labels[test], probs[test]))
        losses.append(np.mean(found))

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.axhline(before.nll, color="grey", linestyle=":", label="left as it is")
for name, losses in loss.items():
    ax.plot(sizes, losses, marker="o", label=name)
ax.set(xscale="log", xlabel="new labels", ylabel="log loss on the new images")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# On the command line: ``gnncal update calibrator.safetensors new.npz --out updated/``. If only the
# rate of a class has changed, ``update`` needs the new rate and no label at all: :doc:`/shift`.
# Promises about decisions do not travel with an update; certify them again.
