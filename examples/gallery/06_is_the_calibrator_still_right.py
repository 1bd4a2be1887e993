"""
Monitor a deployed calibrator
=============================

``gnncal.check`` detects distribution shift without labels. ``gnncal.Watch`` monitors calibration as
labels arrive.
"""

# %%
# A calibrator in use
# -------------------
# The data are handwritten digits, each linked to its ten most similar images. The model averages
# the pixels of similar images twice, like two graph convolutions.

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
    """Average the pixels of similar images, twice."""
    return around @ (around @ pictures.reshape(len(pictures), -1))


model = LogisticRegression(max_iter=1000).fit(features(images)[train], labels[train])
logits = model.decision_function(features(images))
result = gnncal.calibrate(logits, labels, graph, **task.splits)
calibrator = result.calibrator

# %%
# Without shift
# -------------
# The calibrator stores histograms of its calibration nodes, and ``check`` compares new nodes with
# them. Leave out the training nodes: the model's confidence is higher there. In the table, "by
# chance" is the largest distance to expect without shift.

print(gnncal.check(calibrator, logits, graph, nodes=test))

# %%
# Distribution shift
# ------------------
# Some months later people write with a thicker pen. ``check`` detects the shift without labels.

thick = np.maximum(images, np.roll(images, 1, axis=2))
later = model.decision_function(features(thick))
print(gnncal.check(calibrator, later, graph, nodes=test))

# %%
# The chart shows the confidence of the model before and after the shift.

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, scores in {"before the shift": logits, "after the shift": later}.items():
    confidence = gnncal.calibrators.softmax(scores)[test].max(axis=1)
    ax.hist(confidence, bins=30, range=(0, 1), alpha=0.5, label=name)
ax.set(xlabel="confidence of the model", ylabel="nodes")
ax.legend()
plt.show()

# %%
# Monitoring with labels
# ----------------------
# ``Watch`` reads the labels of nodes chosen at random. You may check after each label: the overall
# false-alarm rate is at most 5%.

order = np.random.default_rng(0).permutation(test)[:400]
for name, scores in {"before the shift": logits, "after the shift": later}.items():
    watch = gnncal.Watch(n_classes=10)
    probs = calibrator.predict_proba(scores, graph)
    for week in np.split(order, 10):  # 40 labels each week
        seen = watch.add(probs[week], labels[week])
        if seen.is_alarm:
            break
    print(f"{name}: {seen.sentence}")

# %%
# On the command line, run ``gnncal check calibrator.safetensors new.npz`` and ``gnncal watch
# calibrator.safetensors labels.csv``. Their exit codes report shift and alarm to a scheduler. Next:
# :ref:`update the calibrator with 50 labels <sphx_glr_gallery_07_a_few_new_labels.py>`.
# :doc:`/watch` has all options.
