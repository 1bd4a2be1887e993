"""
Deploy a calibrated model
=========================

Your model is a PyTorch module, and its users need calibrated probabilities. ``CalibratedModel``
wraps the model and its calibrator in one object.
"""

# %%
# A trained model
# ---------------
# The model is a graph network on handwritten digits, each linked to its ten most similar images.

from pathlib import Path
from tempfile import mkdtemp

import torch
from sklearn.datasets import load_digits
from torch_geometric.data import Data
from torch_geometric.nn import SGConv

import gnncal
from gnncal.torch import CalibratedModel

task = gnncal.example()
node = torch.arange(len(task.labels))
data = Data(
    x=torch.tensor(load_digits().data / 16).float(),
    edge_index=torch.tensor(task.graph.edge_index).long(),
    y=torch.tensor(task.labels),
    train_mask=torch.isin(node, torch.tensor(task.train_nodes)),
    val_mask=torch.isin(node, torch.tensor(task.calibration_nodes)),
)
torch.manual_seed(0)
model = SGConv(64, 10, K=2)
adam = torch.optim.Adam(model.parameters(), lr=0.05)
for _ in range(100):
    adam.zero_grad()
    logits = model(data.x, data.edge_index)
    torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
    adam.step()

# %%
# Wrap the model
# --------------
# ``fit`` runs the model once and fits a calibrator on ``data.val_mask``. The weights of the model
# stay unchanged.

calibrated = CalibratedModel.fit(model, data)
probs = calibrated.predict(data)
test = task.test_nodes
for name, chosen in {"the model alone": torch.softmax(logits, dim=1), "calibrated": probs}.items():
    found = gnncal.evaluate(data.y[test], chosen[test])
    print(f"{name}: ECE {found.ece.value:.1%}, log loss {found.nll:.3f}")

# %%
# Save and load
# -------------
# ``save`` writes a file for the model and one for the calibrator, without pickle. ``load`` replaces
# the weights of the module that you pass.

folder = Path(mkdtemp())
calibrated.save(folder / "run")
print(sorted(path.name for path in (folder / "run").iterdir()))
served = CalibratedModel.load(folder / "run", SGConv(64, 10, K=2))
print(f"largest difference: {(served.predict(data) - probs).abs().max().item():.1e}")

# %%
# The calibrator as a module
# --------------------------
# The calibrator alone is a module that maps logits and edges to probabilities. The
# probabilities of a node depend on the nodes within ``hops``, along edges in both directions, and
# on all edges among them.

module = gnncal.load(folder / "run" / "calibrator.safetensors").to_torch()
print(module)
print(module(logits.detach(), data.edge_index)[0])

# %%
# Export to ONNX
# --------------
# ``gnncal export calibrator.safetensors --to onnx`` writes a file that runs without gnncal or
# Python. ``--to torch`` writes a file for ``torch.export.load``. :doc:`/torch` covers mini-batches
# and an example service.
