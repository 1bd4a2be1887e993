"""
Calibrate a GCN
===============

You trained a GCN with PyTorch Geometric. When its confidence is 90%, is its accuracy 90%? This
example calibrates a trained GCN in one call (post-hoc calibration) and draws reliability diagrams.
"""

# %%
# The graph
# ---------
# The data are 1,797 real handwritten digits, each linked to its ten most similar images. Replace
# this ``Data`` with your own.

import torch
from sklearn.datasets import load_digits
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import gnncal

task = gnncal.example()
node = torch.arange(len(task.labels))
data = Data(
    x=torch.tensor(load_digits().data / 16).float(),
    edge_index=torch.tensor(task.graph.edge_index).long(),
    y=torch.tensor(task.labels),
    train_mask=torch.isin(node, torch.tensor(task.train_nodes)),
    val_mask=torch.isin(node, torch.tensor(task.calibration_nodes)),
    test_mask=torch.isin(node, torch.tensor(task.test_nodes)),
)
print(data)

# %%
# The model
# ---------
# The GCN has the hyperparameters of PyTorch Geometric's tutorial and is trained for 60 epochs.


class GCN(torch.nn.Module):
    """Two graph convolutions."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.first = GCNConv(n_features, 16)
        self.second = GCNConv(16, n_classes)

    def forward(self, x, edge_index):
        """Return the logits of every node."""
        hidden = torch.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(hidden, edge_index)


torch.manual_seed(0)
gcn = GCN(data.num_features, int(data.y.max()) + 1)
adam = torch.optim.Adam(gcn.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(60):
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
# One call fits the calibrator on the validation nodes and evaluates it on the test nodes. Nothing
# is fitted to the training nodes, because the model has seen their labels.

result = gnncal.calibrate(
    logits,
    data.y,
    data,
    calibration_nodes=data.val_mask,
    train_nodes=data.train_mask,
    test_nodes=data.test_mask,
)
print(result)

# %%
# "ECE %" is the mean gap between confidence and accuracy. "If perfectly calibrated" is the noise
# floor: the ECE of a perfectly calibrated model with the same confidences. The second table has
# the change in log loss (NLL) with its interval (negative: better).
#
# Draw a reliability diagram
# --------------------------
# Each bar is the accuracy of the nodes in one bin of confidence. The bars of a calibrated model end
# near the diagonal. Most bars of the raw model end above it: the raw model is underconfident.

import matplotlib.pyplot as plt

from gnncal.plotting import ReliabilityDisplay

test = data.test_mask.numpy()
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
before = gnncal.calibrators.softmax(logits)[test]
after = result.probabilities[test]
ReliabilityDisplay.from_predictions(task.labels[test], before, name="before", ax=left)
ReliabilityDisplay.from_predictions(task.labels[test], after, name="after", ax=right)
plt.show()

# %%
# Save the calibrator
# -------------------
# The file contains no pickle. The calibrator works on new logits of this model and on other graphs
# with the same classes.

from tempfile import TemporaryDirectory

with TemporaryDirectory() as folder:
    result.calibrator.save(f"{folder}/calibrator.safetensors")
    again = gnncal.load(f"{folder}/calibrator.safetensors")
probs = again.predict_proba(logits, data)
print(abs(probs - result.probabilities).max())
