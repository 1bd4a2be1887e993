"""Train a GCN in a plain loop, calibrate it at the end, and save both together.

    pip install 'gnncal[pyg,torchmetrics]'
    python examples/train_torch.py --out run

This prints ECE with its noise floor, and NLL, on the test nodes before and after calibration.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torchmetrics import MetricCollection

from example_graph import load_data
from gnncal.torch import CalibratedModel, Metric


def train(data: Data, *, epochs: int = 100, seed: int = 0) -> GCN:
    """Return a two-layer GCN, trained on the training nodes."""
    torch.manual_seed(seed)
    model = GCN(data.num_features, 64, 2, int(data.y.max()) + 1, dropout=0.5)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        model.train()
        optimiser.zero_grad()
        logits = model(data.x, data.edge_index)
        cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
        optimiser.step()
    return model.eval()


def judge(probs: torch.Tensor, data: Data) -> dict[str, float]:
    """Return every metric of the probabilities on the test nodes."""
    metrics = MetricCollection(
        {name: Metric(name) for name in ("ece", "ece_floor", "nll", "brier")}
    )
    metrics.update(probs[data.test_mask], data.y[data.test_mask])
    return {name: float(value) for name, value in metrics.compute().items()}


def main() -> None:
    """Train, calibrate, judge, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for model and calibrator")
    parser.add_argument("--method", default="structural", help="a calibrator's name")
    options = parser.parse_args()

    data = load_data()
    model = train(data)
    calibrated = CalibratedModel.fit(model, data, method=options.method)  # on data.val_mask

    with torch.no_grad():
        before = judge(model(data.x, data.edge_index).softmax(dim=1), data)
    after = judge(calibrated.predict(data), data)
    print(f"{'':8}{'ECE %':>8}{'floor %':>9}{'NLL':>8}")
    for name, found in (("before", before), ("after", after)):
        ece, floor = 100 * found["ece"], 100 * found["ece_floor"]
        print(f"{name:8}{ece:8.2f}{floor:9.2f}{found['nll']:8.4f}")

    calibrated.save(options.out)
    print(f"saved to {options.out}")


if __name__ == "__main__":
    main()
