"""Tiny benchmarks: bundles of sampled graphs with logits that a real classifier could have."""

import numpy as np

from gnncal.files.bundle import Bundle, write_bundle
from gnncal_lab.bench.logits import BundledLogits
from gnncal_lab.simulation import CSBM

N_NODES = 300


def frozen_bundle(seed, n_nodes=N_NODES):
    """Overconfident logits on a block model; a third of the nodes each for train, val and test."""
    generator = np.random.default_rng(seed)
    model = CSBM(n_classes=3, mean_degree=6, n_features=8)
    homophily = np.where(generator.random(n_nodes) < 0.5, 0.4, 0.9)
    sample = model.sample(homophily, random_state=seed)
    mean = (sample.graph.adjacency() @ sample.graph.features) / np.maximum(
        sample.graph.in_degree[:, None], 1
    )
    logits = (4.0 * (sample.graph.features + mean)[:, :3]).astype(np.float32)
    train, val, test = np.array_split(generator.permutation(n_nodes), 3)
    return Bundle(logits, sample.labels, sample.graph, *map(np.sort, (train, val, test)))


def write_bundles(folder, datasets=("A", "B"), backbones=("gcn",), seeds=(0, 1)):
    folder.mkdir(exist_ok=True)
    for d, dataset in enumerate(datasets):
        for b, backbone in enumerate(backbones):
            for seed in seeds:
                bundle = frozen_bundle(100 * d + 10 * b + seed)
                write_bundle(folder / f"{dataset}-{backbone}-{seed}.npz", bundle)
    return BundledLogits(folder)
