"""Classifiers that are made to be calibrated before any calibrator sees them.

A treatment is a module of this folder: ``dcgc`` weighs the edges of a trained classifier, ``gcl``
is the loss that it is trained with. ``gcn+dcgc`` is a backbone of the benchmark like ``gcn``.
"""

from __future__ import annotations

from gnncal.data.arrays import FloatArray
from gnncal_lab.classifiers.backbones import train_classifier
from gnncal_lab.datasets import Dataset, Split

SEPARATOR = "+"  # a hyphen ends the name of a backbone in the names of files
TREATED = ("gcn+dcgc", "gat+dcgc", "gcn+gcl", "gat+gcl")


def parts_of(backbone: str) -> list[str]:
    """Return the network of a backbone, and its treatment if it has one."""
    return backbone.split(SEPARATOR) if backbone in TREATED else [backbone]


def train_logits(backbone: str, dataset: Dataset, split: Split, *, seed: int) -> FloatArray:
    """Return the logits of a backbone of the benchmark, trained and treated."""
    network, *treatment = parts_of(backbone)
    if treatment == ["gcl"]:
        from gnncal_lab.classifiers.gcl import train_with_gcl

        return train_with_gcl(network, dataset, split, seed=seed).logits()
    classifier = train_classifier(network, dataset, split, seed=seed)
    if treatment == ["dcgc"]:
        from gnncal_lab.classifiers.dcgc import reweighted_logits

        return reweighted_logits(classifier, dataset, split, seed=seed)
    return classifier.logits()
