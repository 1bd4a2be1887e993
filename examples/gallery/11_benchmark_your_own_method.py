"""
Benchmark your own method
=========================

Compare your method with others on your models. A good result on one graph proves little: use
several graphs, the same logits for all methods, and intervals over graphs.
"""

# %%
# Bundles
# -------
# A bundle is one file with the logits, labels, edges and splits of one trained model. This example
# uses six random graphs, from low to high homophily (the share of neighbours with the node's
# class).

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np

import gnncal
import gnncal_lab
from gnncal_lab import compare_paired

folder = Path(mkdtemp())
for i, level in enumerate([0.3, 0.45, 0.6, 0.7, 0.8, 0.9]):
    rng = np.random.default_rng(i)
    n = 2000
    model = gnncal_lab.simulation.CSBM(mean_degree=3, separation=1.0)
    sample = model.sample(np.clip(rng.normal(level, 0.2, n), 0.1, 1.0), random_state=i)
    graph, order = sample.graph.to_undirected(), rng.permutation(n)
    np.savez(
        folder / f"graph{i}-mine-0.npz",  # dataset, model and seed
        logits=4.0 * graph.features[:, :5],
        labels=sample.labels,
        edge_index=graph.edge_index,
        val_mask=order[:300],
        test_mask=order[300:],
    )
bundles = {path.stem: gnncal.read_bundle(path) for path in sorted(folder.glob("*.npz"))}
print(*bundles)

# %%
# Your method
# -----------
# A method is a function that returns probabilities. This one mixes the probabilities of temperature
# scaling with their mean over the neighbourhood.


def mine(bundle):
    """Return the probabilities of the new method."""
    ts = gnncal.calibrators.TemperatureScaling().fit(
        bundle.logits, bundle.labels, calibration_nodes=bundle.calibration_nodes
    )
    own = ts.predict_proba(bundle.logits)
    senders, receivers = bundle.graph.edge_index
    heard = np.zeros_like(own)
    np.add.at(heard, receivers, own[senders])
    heard = (heard + own) / (bundle.graph.in_degree + 1)[:, None]
    return 0.7 * own + 0.3 * heard


# %%
# Other methods
# -------------

rivals = ["uncalibrated", "ts", "vs", "hts", "hots", "structural", "structural-free"]


def calibrated(bundle, method):
    """Return the probabilities of one of gnncal's methods."""
    fitted = gnncal.calibrate(
        bundle.logits,
        bundle.labels,
        bundle.graph,
        calibration_nodes=bundle.calibration_nodes,
        method=method,
    )
    return fitted.probabilities


loss = {name: [] for name in ["mine", *rivals]}
for bundle in bundles.values():
    test = bundle.test_nodes
    for name, losses in loss.items():
        probs = mine(bundle) if name == "mine" else calibrated(bundle, name)
        losses.append(gnncal.metrics.METRICS["nll"](bundle.labels[test], probs[test]))

# %%
# The comparison
# --------------
# Each line has the mean difference in log loss from temperature scaling (negative: better), its 95%
# interval over graphs, and the number of graphs on which the method has the lower log loss.

found = {
    name: compare_paired(losses, loss["ts"], list(bundles))
    for name, losses in loss.items()
    if name != "ts"
}
found = dict(sorted(found.items(), key=lambda item: item[1].mean_difference))
for name, c in found.items():
    wins = f"{c.win_rate * c.n_graphs:g} of {c.n_graphs}"
    print(f"{name:18}{c.mean_difference:+.3f} [{c.low:+.3f}, {c.high:+.3f}]  lower on {wins}")

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for row, c in enumerate(found.values()):
    ax.plot([c.low, c.high], [row, row], color="tab:blue")
    ax.plot(c.mean_difference, row, "o", color="tab:blue")
ax.axvline(0.0, color="grey", linewidth=1)
ax.set_yticks(range(len(found)), found)
ax.invert_yaxis()
ax.set_xlabel("log loss minus that of ts (negative: better)")
plt.show()

# %%
# On the command line
# -------------------
# ``gnncal bench run --bundles FOLDER --out my-results`` runs all methods on your bundles and
# resumes after an interruption. ``gnncal bench report my-results`` writes a leaderboard. Your
# method takes part if it is :doc:`in a package </plugins>`.
