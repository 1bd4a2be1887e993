"""The quick start, where gnncal and its own dependencies are all there is.

`make dist` runs it in an empty environment with the wheel that it built.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import gnncal
from gnncal_lab.bench.published import main_ece


def make_data(n_nodes: int = 300) -> dict[str, np.ndarray]:
    """Overconfident logits on a random graph, split into three parts."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(n_nodes, 3))
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    senders = generator.integers(n_nodes, size=4 * n_nodes)
    receivers = generator.integers(n_nodes, size=4 * n_nodes)
    edges = np.stack([np.r_[senders, receivers], np.r_[receivers, senders]])
    part = np.arange(n_nodes) % 3
    masks = {name: part == k for k, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    return {"logits": 3 * logits, "labels": labels, "edge_index": edges, **masks}


def main() -> None:
    """Calibrate in Python and on the command line; data files of the package are there."""
    data = make_data()
    result = gnncal.calibrate(
        data["logits"],
        data["labels"],
        gnncal.Graph(data["edge_index"], len(data["labels"])),
        calibration_nodes=data["val_mask"],
        train_nodes=data["train_mask"],
        test_nodes=data["test_mask"],
    )
    print(result)
    assert result.probabilities.shape == data["logits"].shape
    assert main_ece(), "the paper's values are in the package"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "model.npz", **data)
        words = ("calibrate", folder / "model.npz", "--out", folder / "calibrated")
        subprocess.run([sys.executable, "-m", "gnncal", *map(str, words)], check=True)
        again = gnncal.load(folder / "calibrated" / "calibrator.safetensors")
        assert again.classes_.size == 3
    print(f"gnncal {gnncal.__version__} of {Path(gnncal.__file__).parent} works")


if __name__ == "__main__":
    main()
