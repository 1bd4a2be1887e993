"""
Deploy a calibrated model
=========================

Your model is a PyTorch module, and its users should get calibrated probabilities. Wrap the model
with its calibrator: one object, one folder, one call.
"""

# %%
# A trained model
# ---------------
# Handwritten digits as a 10-nearest-neighbour graph, and a graph network.

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
    val_mask=torch.isin(node, torch.tensor(task.nodes)),
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
# Model and calibrator in one
# ---------------------------
# ``fit`` runs the model once and calibrates on ``data.val_mask``. The model itself is not trained.

calibrated = CalibratedModel.fit(model, data)
probs = calibrated.predict(data)
test = task.test_nodes
for name, chosen in {"the model alone": torch.softmax(logits, dim=1), "calibrated": probs}.items():
    found = gnncal.evaluate(data.y[test], chosen[test])
    print(f"{name}: ECE {found.ece.value:.1%}, log loss {found.nll:.3f}")

# %%
# Save it, load it
# ----------------
# Two small files without pickle. Loading needs the code of the model.

folder = Path(mkdtemp())
calibrated.save(folder / "run")
print(sorted(path.name for path in (folder / "run").iterdir()))
served = CalibratedModel.load(folder / "run", SGConv(64, 10, K=2))
print(f"largest difference: {(served.predict(data) - probs).abs().max().item():.1e}")

# %%
# The calibrator as a module
# --------------------------
# If logits come from elsewhere, the calibrator alone is a module too: logits and edges in,
# probabilities out. ``hops`` is the radius of the neighbourhood that it needs.

module = gnncal.load(folder / "run" / "calibrator.safetensors").to_torch()
print(module)
print(module(logits.detach(), data.edge_index)[0])

# %%
# Export to ONNX
# --------------
# ``gnncal export calibrator.safetensors --to onnx`` writes a file that runs without gnncal and
# without Python; ``--to torch`` writes one for ``torch.export.load``. :doc:`/torch` has
# mini-batches and a worked service.
