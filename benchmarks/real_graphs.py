"""Train GCN and GAT classifiers on public graphs and store what a calibrator needs.

    python benchmarks/real_graphs.py --data ROOT --out DIR [--datasets Cora,CS] [--seeds 5]

One ``.npz`` bundle is written per (dataset, backbone, seed): logits, labels, edges, split and
features. ``benchmarks/homophily_estimators.py`` reads them, and so does ``gnncal calibrate``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np

import gnncal
from gnncal.bundles.bundle import Bundle
from gnncal.bundles.npz import write_bundle
from gnncal.classifiers import train_classifier
from gnncal.datasets import FACTS, load, random_split

LEFT_OUT = ("CoraFull", "Roman-Empire", "ogbn-arxiv", "Reddit")  # not in docs/homophily.md
DATASETS = sorted(set(FACTS) - set(LEFT_OUT), key=lambda name: FACTS[name].n_edges)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="root of the raw files")
    parser.add_argument("--out", type=Path, required=True, help="folder for the bundles")
    parser.add_argument("--datasets", default=",".join(DATASETS), help="names, by commas")
    parser.add_argument("--backbones", default="gcn,gat")
    parser.add_argument("--seeds", type=int, default=5, help="run seeds 0 .. SEEDS-1")
    arguments = parser.parse_args()
    for seed in range(arguments.seeds):
        for backbone in arguments.backbones.split(","):
            for name in arguments.datasets.split(","):
                path = arguments.out / f"{name}-{backbone}-{seed}.npz"
                if not path.exists():
                    print(make_bundle(arguments.data, name, backbone, seed, path), flush=True)


def make_bundle(root: Path | None, name: str, backbone: str, seed: int, path: Path) -> str:
    """Train one classifier, write its bundle and return a line for the log."""
    start, dataset = perf_counter(), load(name, root)
    split = random_split(dataset.graph.n_nodes, seed)
    classifier = train_classifier(backbone, dataset, split, seed=seed)
    nodes = (np.sort(part) for part in split)
    bundle = Bundle(classifier.logits(), dataset.labels, dataset.graph, *nodes)
    write_bundle(path, bundle)
    truth, probs = dataset.labels[split.test], gnncal.softmax(bundle.logits[split.test])
    ece = gnncal.metrics.expected_calibration_error(truth, probs)
    accuracy = (probs.argmax(axis=1) == truth).mean()
    result = f"accuracy {100 * accuracy:5.2f}  ECE {100 * ece:5.2f}"
    seconds = f"epochs {classifier.n_epochs:3d}  {perf_counter() - start:6.1f} s"
    return f"{name:<10} {backbone} seed {seed}: {result}  {seconds}"


if __name__ == "__main__":
    main()
