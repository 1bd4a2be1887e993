"""Every classifier by name."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gnncal.data.arrays import IntArray
from gnncal.data.errors import InputError, require
from gnncal_lab.classifiers.settings import (
    NEVER_STOPPED,
    SETTINGS,
    SETTINGS_AS,
    TrainingSettings,
)
from gnncal_lab.datasets import FACTS, Dataset, Split

if TYPE_CHECKING:
    from gnncal_lab.classifiers.training import TrainedClassifier

CLASSIFIERS = {
    "gcn": "GCN",
    "gat": "GAT",
    "gin": "GIN",
    "sage": "SAGE",
    "gcnii": "GCNII",
    "gprgnn": "GPRGNN",
}


def list_classifiers() -> list[str]:
    """Return the names of the classifiers, for :func:`train_classifier`.

    Examples
    --------
    >>> from gnncal_lab.classifiers import list_classifiers
    >>> list_classifiers()
    ['gcn', 'gat', 'gin', 'sage', 'gcnii', 'gprgnn']

    """
    return list(CLASSIFIERS)


def training_settings(backbone: str, dataset_name: str) -> TrainingSettings:
    """Return the paper's training settings for a data set.

    The settings do not depend on the backbone. Data sets outside the paper get the settings of the
    paper's first group. The second group has dropout 0.8, as in the paper's release; the paper's
    table has 0.5. Change settings with ``dataclasses.replace``, for example to 16 layers for GCNII,
    as its authors use.

    Parameters
    ----------
    backbone : str
        One of :func:`list_classifiers`.
    dataset_name : str
        Name of a data set.

    Examples
    --------
    >>> from gnncal_lab.classifiers import training_settings
    >>> training_settings("gcn", "Cora").hidden
    16

    """
    _check_name(backbone)
    like = SETTINGS_AS.get(dataset_name, dataset_name)
    settings = SETTINGS[FACTS[like].group if like in FACTS else "G1"]
    return replace(settings, patience=None) if like in NEVER_STOPPED else settings


def train_classifier(
    backbone: str,
    dataset: Dataset,
    split: Split,
    *,
    seed: int,
    settings: TrainingSettings | None = None,
) -> TrainedClassifier:
    """Train a classifier on training nodes, with early stopping on calibration nodes.

    The same seed gives the same classifier. Torch's global random state does not change.

    Parameters
    ----------
    backbone : str
        One of :func:`list_classifiers`.
    dataset : Dataset
        Graph, features and labels.
    split : Split
        Training, validation and test nodes.
    seed : int
        Seed of the initial weights and of dropout.
    settings : TrainingSettings, optional
        Default: ``training_settings(backbone, dataset.name)``.

    Returns
    -------
    TrainedClassifier
        Its method ``logits()`` returns an array (n_nodes, n_classes).

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal_lab.classifiers import TrainingSettings, train_classifier
    >>> from gnncal_lab.datasets import Dataset, random_split
    >>> from gnncal_lab.simulation import CSBM
    >>> sample = CSBM(n_classes=3).sample(np.full(300, 0.8))
    >>> data, split = Dataset("blocks", sample.graph, sample.labels), random_split(300, seed=0)
    >>> settings = TrainingSettings(max_epochs=30)
    >>> logits = train_classifier("gcn", data, split, seed=0, settings=settings).logits()
    >>> bool((logits.argmax(axis=1) == sample.labels)[split.test_nodes].mean() > 0.9)
    True

    """
    torch = require("torch", extra="neural", purpose="training a classifier")
    _check_name(backbone)
    if dataset.graph.features is None:
        raise InputError(f"{dataset.name} has no node features; a classifier needs them.")
    _check_split(dataset, split)
    from gnncal_lab.classifiers import training
    from gnncal_lab.classifiers.inputs import GraphInput

    settings = settings or training_settings(backbone, dataset.name)
    inputs, labels = GraphInput(dataset.graph), torch.tensor(dataset.labels)
    nodes = torch.tensor(split.train_nodes), torch.tensor(split.calibration_nodes)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = _make(backbone, inputs.n_features, dataset.n_classes, settings)
        n_epochs = training.train(network, inputs, labels, *nodes, settings)
    logits = training.evaluate(network, inputs)[nodes[1]]
    loss = torch.nn.functional.cross_entropy(logits, labels[nodes[1]]).item()
    return training.TrainedClassifier(backbone, settings, n_epochs, loss, network, inputs)


def _make(backbone: str, n_features: int, n_classes: int, settings: TrainingSettings) -> Any:
    module = import_module(f"gnncal_lab.classifiers.{backbone}")
    return getattr(module, CLASSIFIERS[backbone])(n_features, n_classes, settings)


def _check_name(backbone: str) -> None:
    if backbone not in CLASSIFIERS:
        names = ", ".join(CLASSIFIERS)
        raise InputError(f"unknown classifier {backbone!r}; expected one of {names}.")


def _check_split(dataset: Dataset, split: Split) -> None:
    for name in ("train_nodes", "calibration_nodes"):
        nodes = getattr(split, name)
        if len(nodes) == 0:
            raise InputError(f"split.{name} is empty; training needs nodes to fit and to stop on.")
        _check_labelled(name, dataset.labels, np.asarray(nodes))


def _check_labelled(name: str, labels: IntArray, nodes: IntArray) -> None:
    if nodes.dtype.kind not in "iu" or nodes.min() < 0 or nodes.max() >= len(labels):
        raise InputError(f"split.{name} must hold node numbers from 0 to {len(labels) - 1}.")
    unknown = int((labels[nodes] < 0).sum())
    if unknown:
        raise InputError(
            f"{unknown} of the {len(nodes)} nodes in split.{name} have no label; leave them out."
        )
