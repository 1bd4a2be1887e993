"""Where the logits of a task come from: trained once and cached, or files of the user's."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gnncal.bench.plan import Task
from gnncal.bundles import read_bundle
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.errors import InputError
from gnncal.core.files import write_atomically
from gnncal.core.graph import Graph
from gnncal.datasets import FACTS, Dataset, load, random_split

BUNDLE_NAME = re.compile(r"(.+)-([^-]+)-(0|[1-9][0-9]*)\.npz")  # dataset, backbone, seed


@dataclass(frozen=True)
class FrozenLogits:
    """What a trained classifier says, and on which nodes it may be calibrated and judged."""

    logits: FloatArray  # (n_nodes, n_classes)
    labels: IntArray  # (n_nodes,)
    graph: Graph
    train: IntArray
    validation: IntArray
    test: IntArray


class Source(Protocol):
    """Gives the logits of a task; sent to the processes that need them."""

    def fetch(self, dataset: str) -> None:
        """Have the files of a dataset at hand, or raise; the others come after it."""

    def is_ready(self, task: Task) -> bool:
        """Whether :meth:`load` is quick."""

    def prepare(self, task: Task) -> None:
        """Make it quick."""

    def load(self, task: Task) -> FrozenLogits:
        """The logits with graph, labels and split."""

    def size(self, dataset: str) -> float:
        """A number that the cost of a cell grows with."""


@dataclass(frozen=True)
class TrainedLogits:
    """Classifiers of :mod:`gnncal.classifiers`, their logits cached in a folder.

    A cached file that cannot be read, or that comes from other data or other settings than today's,
    is trained again.
    """

    cache: Path
    root: Path | None = None

    def fetch(self, dataset: str) -> None:
        """Download the dataset if it is not there."""
        load_dataset(dataset, self.root)

    def is_ready(self, task: Task) -> bool:
        """Whether the logits are in the cache."""
        return self._read(task) is not None

    def prepare(self, task: Task) -> None:
        """Train the classifier and cache its logits."""
        from gnncal.classifiers import train_classifier

        dataset = load_dataset(task.dataset, self.root)
        split = random_split(dataset.graph.n_nodes, task.seed)
        classifier = train_classifier(task.backbone, dataset, split, seed=task.seed)
        buffer = io.BytesIO()
        key = np.array(_key(task.backbone, dataset))
        np.savez_compressed(buffer, logits=classifier.logits(), key=key)
        write_atomically(self._path(task), buffer.getvalue())

    def load(self, task: Task) -> FrozenLogits:
        """From the cache; trained first if they are not there."""
        logits = self._read(task)
        if logits is None:
            self.prepare(task)
            logits = self._read(task)
            assert logits is not None
        dataset = load_dataset(task.dataset, self.root)
        split = random_split(dataset.graph.n_nodes, task.seed)
        return FrozenLogits(
            logits, dataset.labels, dataset.graph, split.train, split.validation, split.test
        )

    def size(self, dataset: str) -> float:
        """Nodes and edges: what a step of any method touches."""
        facts = FACTS.get(dataset)
        return 1.0 if facts is None else float(facts.n_nodes + facts.n_edges)

    def _path(self, task: Task) -> Path:
        return self.cache / f"{task.dataset}-{task.backbone}-{task.seed}.npz"

    def _read(self, task: Task) -> FloatArray | None:
        try:
            with np.load(self._path(task), allow_pickle=False) as file:
                logits, key = file["logits"], str(file["key"])
        except Exception:  # none, or a broken one, of which NumPy and zlib say almost anything
            return None
        dataset = load_dataset(task.dataset, self.root)
        return logits if key == _key(task.backbone, dataset) else None


@dataclass(frozen=True)
class BundledLogits:
    """Bundle files ``{dataset}-{backbone}-{seed}.npz`` of a folder: logits from anywhere."""

    folder: Path

    def fetch(self, dataset: str) -> None:
        """Nothing to fetch, but there must be files of this name."""
        if all(task.dataset != dataset for task in self.tasks()):
            raise InputError(f"{self.folder} has no files {dataset}-BACKBONE-SEED.npz.")

    def is_ready(self, task: Task) -> bool:
        """Nothing has to be trained."""
        return True

    def prepare(self, task: Task) -> None:
        """Nothing to do."""

    def load(self, task: Task) -> FrozenLogits:
        """The bundle of the task."""
        return _load_bundle(self._path(task))

    def size(self, dataset: str) -> float:
        """The size of the dataset's files."""
        files = (self._path(task) for task in self.tasks() if task.dataset == dataset)
        return float(max((path.stat().st_size for path in files), default=1))

    def tasks(self) -> list[Task]:
        """Of which there are files."""
        names = (BUNDLE_NAME.fullmatch(path.name) for path in self.folder.glob("*.npz"))
        return sorted(Task(name[1], name[2], int(name[3])) for name in names if name)

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.dataset}-{task.backbone}-{task.seed}.npz"


def _key(backbone: str, dataset: Dataset) -> str:
    """What logits depend on, beside the seed in the name of their file."""
    from gnncal.classifiers import training_settings

    return f"{dataset.fingerprint} {training_settings(backbone, dataset.name)}"


@lru_cache(maxsize=1)
def load_dataset(name: str, root: Path | None) -> Dataset:
    """A dataset, kept for the next cell on the same one."""
    return load(name, root=root)


@lru_cache(maxsize=1)
def _load_bundle(path: Path) -> FrozenLogits:
    bundle = read_bundle(path)
    nodes: dict[str, Any] = {
        "train": bundle.train_nodes,
        "validation": bundle.nodes,
        "test": bundle.test_nodes,
    }
    return FrozenLogits(bundle.logits, bundle.labels, bundle.graph, **nodes)
