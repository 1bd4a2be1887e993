"""Models as practitioners have them: trained on one graph, perhaps class-weighted, used elsewhere.

The scripts about rare classes, shift and graphs that took no part share it. A graph is an .npz file
(``gnncal_lab.datasets.load_file``) below ``--data`` (or its folders ``more`` and ``external``), or
one of the paper's by name. Every model is trained once, and its logits are cached.

    python benchmarks/practice.py --data DATA --cache results/practice   # trains all of them
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import scale

from gnncal import Graph
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.files.output import write_file
from gnncal_lab.classifiers import TrainingSettings, train_classifier
from gnncal_lab.classifiers.batches import BatchSettings, train_in_batches
from gnncal_lab.datasets import FACTS, Dataset, Split, load, load_file

TWITCH = tuple(f"twitch_{country}" for country in ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW"))
LIBRARIES = ("acmv9", "citationv1", "dblpv7")
SAME_FEATURES = (TWITCH, LIBRARIES)  # a model of one of them can be used on the others
RARE = ("tolokers", "amazon_fraud", "reddit_bans")
EXTERNAL = ("acm", "blogcatalog", "flickr", "uai", "dblp", "cora_ml", "minesweeper", "facebook")
IN_BATCHES = "sage-batches"  # GraphSAGE with mini-batches, on its own graph only
FOLDERS = ("", "more", "external")
SETTINGS = TrainingSettings(hidden=64, checkpoint="matched")


@dataclass(frozen=True)
class Practice:
    """Logits of a trained model on a graph, with labels and splits."""

    name: str
    logits: FloatArray  # (n_nodes, n_classes)
    labels: IntArray  # (n_nodes,)
    graph: Graph
    train_nodes: IntArray
    calibration_nodes: IntArray  # calibration
    test_nodes: IntArray


@dataclass(frozen=True)
class Models:
    """Trains models and keeps their logits in a folder.

    ``data`` has the graphs, ``cache`` the logits.
    """

    data: Path
    cache: Path

    def practice(
        self,
        name: str,
        seed: int,
        *,
        weighted: bool = False,
        backbone: str = "gcn",
        shares: tuple[float, float] = (0.4, 0.2),
    ) -> Practice:
        """Return the model of a graph on that graph; ``weighted`` gives classes equal weight.

        ``shares`` are those of training and calibration nodes; the rest are test nodes.
        """
        return self.elsewhere(name, name, seed, weighted=weighted, backbone=backbone, shares=shares)

    def elsewhere(
        self,
        source: str,
        target: str,
        seed: int,
        *,
        weighted: bool = False,
        backbone: str = "gcn",
        shares: tuple[float, float] = (0.4, 0.2),
    ) -> Practice:
        """Return the model of the source on the target, whose nodes split anew if it is another."""
        train, validation = shares
        kind = f"{backbone}{'-weighted' if weighted else ''}-{train:g}-{validation:g}-{seed}"
        path = self.cache / f"{source}-on-{target}-{kind}.npz"
        if not path.exists():
            self._train(source, seed, weighted, backbone, shares, kind)
        with np.load(path, allow_pickle=False) as file:
            logits = file["logits"]
        dataset = self.dataset(target)
        nodes = split(dataset.graph.n_nodes, seed, shares)
        return Practice(target, logits, dataset.labels, dataset.graph, *nodes)

    def dataset(self, name: str) -> Dataset:
        """Return a graph with its features standardised if they are dense."""
        return _dataset(self.data, name)

    def _train(
        self,
        source: str,
        seed: int,
        weighted: bool,
        backbone: str,
        shares: tuple[float, float],
        kind: str,
    ) -> None:
        dataset = self.dataset(source)
        settings = replace(SETTINGS, loss="weighted") if weighted else SETTINGS
        nodes = split(dataset.graph.n_nodes, seed, shares)
        if backbone == IN_BATCHES:
            logits = train_in_batches(
                dataset, nodes, seed=seed, settings=BatchSettings(weighted=weighted)
            )
            self._keep(f"{source}-on-{source}-{kind}", logits)
            return
        classifier = train_classifier(backbone, dataset, nodes, seed=seed, settings=settings)
        others = next((group for group in SAME_FEATURES if source in group), (source,))
        for target in others:
            logits = classifier.logits(self.dataset(target).graph)
            self._keep(f"{source}-on-{target}-{kind}", logits)

    def _keep(self, name: str, logits: FloatArray) -> None:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, logits=logits)
        write_file(self.cache / f"{name}.npz", buffer.getvalue(), overwrite=True)


@lru_cache(maxsize=16)
def _dataset(data: Path, name: str) -> Dataset:
    found = _named(data, name)
    features = found.graph.features
    if isinstance(features, np.ndarray):
        graph = Graph(found.graph.edge_index, len(found.labels), scale(features.astype(np.float64)))
        return Dataset(name, graph, found.labels)
    return found


def resampled(dataset: Dataset, name: str, rate: float) -> Dataset:
    """Return the graph without so many of its positives that those left have this rate."""
    positive, negative = (np.flatnonzero(dataset.labels == c) for c in (1, 0))
    n_kept = round(rate / (1 - rate) * len(negative))
    kept = np.random.default_rng(0).choice(positive, n_kept, replace=False)
    nodes = np.sort(np.concatenate([negative, kept]))
    number = np.full(len(dataset.labels), -1)
    number[nodes] = np.arange(len(nodes))
    edges = number[dataset.graph.edge_index]
    edges = edges[:, (edges >= 0).all(axis=0)]
    features = dataset.graph.features
    assert features is not None
    return Dataset(name, Graph(edges, len(nodes), features[nodes]), dataset.labels[nodes])


def _named(data: Path, name: str) -> Dataset:
    if "@" in name:  # such as twitch_DE@0.05: with 5% positives
        whole, rate = name.split("@")
        return resampled(_named(data, whole), name, float(rate))
    if name in FACTS:
        return load(name, data)
    paths = [data / folder / f"{name}.npz" for folder in FOLDERS]
    return load_file(next((path for path in paths if path.exists()), paths[0]))


def split(n_nodes: int, seed: int, shares: tuple[float, float]) -> Split:
    """Return training, calibration and test nodes, drawn at random."""
    order = np.random.default_rng(seed).permutation(n_nodes)
    train, validation = shares
    cuts = [round(train * n_nodes), round((train + validation) * n_nodes)]
    return Split(*map(np.sort, np.split(order, cuts)))


def options_for(description: str | None, out: str) -> argparse.ArgumentParser:
    """Options that every script on these models has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the graphs")
    parser.add_argument("--cache", type=Path, default=Path("results/practice"), help="logits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def other_rows(path: Path, graphs: Collection[str]) -> list[dict[str, Any]]:
    """Return the rows of a record, if there is one, that are not of these graphs."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if row["graph"] not in graphs]


def write_rows(path: Path, rows: list[dict[str, Any]], about: dict[str, Any] | None = None) -> None:
    """Write a record with a line for each row, and what else is to be said about them."""
    parts = {**(about or {}), "rows": rows}
    text = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, each)) + "\n]"
        for name, each in parts.items()
    )
    write_file(path, f"{{{text}}}\n".encode(), overwrite=True)


def main() -> None:
    """Train every model that the scripts use, so that they only read afterwards."""
    options = options_for(__doc__, "").parse_args()
    models = Models(options.data, options.cache)
    kinds = [(name, True) for name in (*RARE, "twitch_RU")]
    kinds += [(name, False) for name in (*RARE, *LIBRARIES, *TWITCH)]
    for seed in range(options.seeds):
        for name, weighted in kinds:
            made = models.practice(name, seed, weighted=weighted)
            right = made.logits.argmax(axis=1) == made.labels
            kind = "weighted" if weighted else "plain"
            print(f"{name} {kind} {seed}: {right[made.test_nodes].mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
