"""
Monitor a deployed calibrator
=============================

A calibrator is fitted once and used for months. ``check`` detects distribution shift without
labels. ``Watch`` monitors calibration as labels arrive.
"""

# %%
# A calibrator in use
# -------------------
# The data are real: handwritten digits, each linked to its ten most similar images. The model
# averages the pixels of similar images twice, as a graph convolution does.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import gnncal

task = gnncal.example()
labels, graph, train, test = task.labels, task.graph, task.train_nodes, task.test_nodes
around = graph.normalised_adjacency(add_self_loops=True)
images = load_digits().images / 16  # 8 x 8 pixels each


def features(pictures):
    """Return the mean pixels of similar images, of similar images."""
    return around @ (around @ pictures.reshape(len(pictures), -1))


model = LogisticRegression(max_iter=1000).fit(features(images)[train], labels[train])
logits = model.decision_function(features(images))
result = gnncal.calibrate(logits, labels, graph, **task.splits)
calibrator = result.calibrator

# %%
# Without shift
# -------------
# The calibrator stores histograms of its calibration nodes. ``check`` compares other nodes with
# them. Leave out the training nodes: the model's confidence is higher there.

print(gnncal.check(calibrator, logits, graph, nodes=test))

# %%
# Distribution shift
# ------------------
# Some months later people write with a thicker pen. The check detects the shift without a label.
# Its cost needs labels.

thick = np.maximum(images, np.roll(images, 1, axis=2))
later = model.decision_function(features(thick))
print(gnncal.check(calibrator, later, graph, nodes=test))

# %%
# The confidence of the model before and after the shift:

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, scores in {"then": logits, "now": later}.items():
    confidence = gnncal.calibrators.softmax(scores)[test].max(axis=1)
    ax.hist(confidence, bins=30, range=(0, 1), alpha=0.5, label=name)
ax.set(xlabel="confidence of the model", ylabel="nodes")
ax.legend()
plt.show()

# %%
# Labels as they arrive
# ---------------------
# A watch reads labels of nodes chosen at random. Check after each of them if you like: the overall
# false-alarm rate is at most 5%.

order = np.random.default_rng(0).permutation(test)[:400]
for name, scores in {"then": logits, "now": later}.items():
    watch = gnncal.Watch(n_classes=10)
    probs = calibrator.predict_proba(scores, graph)
    for week in np.split(order, 10):  # 40 labels each week
        seen = watch.add(probs[week], labels[week])
        if seen.is_alarm:
            break
    print(f"{name}: {seen.sentence}")

# %%
# On the command line these are ``gnncal check calibrator.safetensors new.npz`` and ``gnncal watch
# calibrator.safetensors labels.csv``; both have exit codes for a scheduler.
# Next: :ref:`a few new labels repair it <sphx_glr_gallery_07_a_few_new_labels.py>`. :doc:`/watch`
# has all options.
