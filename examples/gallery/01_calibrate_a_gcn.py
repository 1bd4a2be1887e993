"""
Calibrate a GCN
===============

You trained a GCN with PyTorch Geometric. It is often right, but when it says 90 %, is it right in
90 % of the cases? Here is how to find out, and how to repair it in one call.
"""

# %%
# The graph
# ---------
# We use Cora if ``GNNCAL_DATA`` names the folder that has it. Otherwise we sample a graph of about
# the same size, so that the script runs without a download.

import os

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import gnncal

if os.environ.get("GNNCAL_DATA"):
    cora = gnncal.lab.datasets.load("Cora")
    graph, labels = cora.graph, cora.labels
    features = torch.tensor(graph.features.toarray())
else:
    model = gnncal.lab.simulation.CSBM(n_classes=7, mean_degree=4, separation=2.0, n_features=200)
    sample = model.sample_undirected(2700, homophily=0.8)
    graph, labels = sample.graph, sample.labels
    features = torch.tensor(graph.features)

order = torch.randperm(graph.n_nodes, generator=torch.Generator().manual_seed(0))
rank = order.argsort()
data = Data(
    x=features.float(),
    edge_index=torch.tensor(graph.edge_index).long(),
    y=torch.tensor(labels),
    train_mask=rank < 200,
    val_mask=(rank >= 200) & (rank < 500),
    test_mask=rank >= 500,
)
print(data)

# %%
# The model
# ---------
# A GCN with two layers, trained until it knows its training nodes by heart.


class GCN(torch.nn.Module):
    """Two graph convolutions."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.first = GCNConv(n_features, 32)
        self.second = GCNConv(32, n_classes)

    def forward(self, x, edge_index):
        """Return the logits of every node."""
        hidden = torch.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(hidden, edge_index)


torch.manual_seed(0)
gcn = GCN(data.num_features, int(data.y.max()) + 1)
adam = torch.optim.Adam(gcn.parameters(), lr=0.01)
for _ in range(150):
    adam.zero_grad()
    logits = gcn(data.x, data.edge_index)
    torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
    adam.step()

gcn.eval()
with torch.no_grad():
    logits = gcn(data.x, data.edge_index)

# %%
# Calibrate
# ---------
# One call fits on the validation nodes and judges on the test nodes. Training nodes are named so
# that nothing is fitted to what the model has memorised.

result = gnncal.calibrate(
    logits,
    data.y,
    data,
    nodes=data.val_mask,
    train_nodes=data.train_mask,
    test_nodes=data.test_mask,
)
print(result)

# %%
# "ECE %" is how far confidence is from accuracy on average. The line below says what a perfectly
# calibrated model would show on these nodes by chance. The second table has the difference in log
# loss with its interval. No prediction has changed. Where a model was nearly honest before, the ECE
# can rise by chance while the log loss falls; the log loss is the one to trust.
#
# Look at it
# ----------
# Bars are the accuracy of nodes with similar confidence. In a calibrated model they reach the
# diagonal. Hatching shows the gap between accuracy and confidence.

import matplotlib.pyplot as plt

from gnncal.plotting import ReliabilityDisplay

test = data.test_mask.numpy()
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
before = gnncal.softmax(logits)[test]
after = result.probabilities[test]
ReliabilityDisplay.from_predictions(labels[test], before, name="before", ax=left)
ReliabilityDisplay.from_predictions(labels[test], after, name="after", ax=right)
plt.show()

# %%
# Keep it
# -------
# The calibrator is a small file without pickle. It works on new logits and on other graphs.

from tempfile import TemporaryDirectory

with TemporaryDirectory() as folder:
    result.calibrator.save(f"{folder}/calibrator.safetensors")
    again = gnncal.load(f"{folder}/calibrator.safetensors")
probs = again.predict_proba(logits, data)
print(abs(probs - result.probabilities).max())
