"""Train a GCN with Lightning; a callback calibrates it when training ends.

    pip install 'gnncal[pyg,torchmetrics]' lightning
    python examples/train_lightning.py --out run

This logs ECE with its noise floor, and NLL, before and after calibration to run/metrics.csv. It
saves model and calibrator together in run/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torchmetrics import MetricCollection

from example_graph import load_data
from gnncal.torch import CalibratedModel, Metric


class NodeClassifier(lightning.LightningModule):
    """A two-layer GCN on the whole graph; a step is an epoch."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.gnn = GCN(n_features, 64, 2, n_classes, dropout=0.5)

    def training_step(self, data: Data) -> torch.Tensor:
        """Return the loss of the training nodes."""
        logits = self.gnn(data.x, data.edge_index)
        return cross_entropy(logits[data.train_mask], data.y[data.train_mask])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser, Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


class CalibrateAtEnd(lightning.Callback):
    """Fits a calibrator on the validation nodes, logs what it changes, and saves it."""

    def __init__(self, data: Data, folder: Path, method: str = "structural") -> None:
        self.data, self.folder, self.method = data, folder, method

    def on_train_end(self, trainer: lightning.Trainer, module: NodeClassifier) -> None:
        """Calibrate the trained model."""
        data = self.data.to(module.device)
        calibrated = CalibratedModel.fit(module.gnn, data, method=self.method)
        module.gnn.eval()
        with torch.no_grad():
            raw = module.gnn(data.x, data.edge_index).softmax(dim=1)
        for prefix, probs in (("before_", raw), ("after_", calibrated.predict(data))):
            names = ("ece", "ece_floor", "nll", "brier")
            metrics = MetricCollection({name: Metric(name) for name in names}, prefix=prefix)
            metrics.update(probs[data.test_mask], data.y[data.test_mask])
            trainer.logger.log_metrics({name: float(v) for name, v in metrics.compute().items()})
        calibrated.save(self.folder)


def main() -> None:
    """Train and calibrate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for logs and models")
    options = parser.parse_args()

    lightning.seed_everything(0)
    data = load_data()
    trainer = lightning.Trainer(
        max_epochs=100,
        accelerator="cpu",
        logger=CSVLogger(options.out, name="", version=""),
        callbacks=[CalibrateAtEnd(data, options.out)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        log_every_n_steps=1,
    )
    loader = DataLoader([data], batch_size=None)  # the graph itself is the batch
    trainer.fit(NodeClassifier(data.num_features, int(data.y.max()) + 1), loader)
    print(f"saved to {options.out}")


if __name__ == "__main__":
    main()
