"""The logits of a task: from classifiers that are trained once and cached, or from bundles."""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.files.archives import read_npz
from gnncal.files.bundle import Bundle, read_bundle
from gnncal.files.output import write_file
from gnncal_lab.bench.plan import Task
from gnncal_lab.bench.source import training_source
from gnncal_lab.classifiers import training_settings
from gnncal_lab.classifiers.treatments import parts_of, train_logits
from gnncal_lab.datasets import FACTS, Dataset, load

BUNDLE_NAME = re.compile(r"(.+)-([^-]+)-(0|[1-9][0-9]*)\.npz")  # dataset, backbone, seed
FIRST_MEMBER = b"logits.npy"  # how a cached file begins, after a few bytes of the archive


class LogitProvider(ABC):
    """Gives the logits of a task; sent to the processes that need them."""

    @abstractmethod
    def fetch(self, dataset: str) -> None:
        """Make sure that the files of a dataset are at hand, or raise; called before the others."""

    @abstractmethod
    def is_ready(self, task: Task) -> bool:
        """Return whether :meth:`load` is quick."""

    @abstractmethod
    def seems_ready(self, task: Task) -> bool:
        """Guess :meth:`is_ready` without cost, to estimate the time left."""

    @abstractmethod
    def prepare(self, task: Task) -> None:
        """Do the slow work, so that :meth:`load` is quick."""

    @abstractmethod
    def load(self, task: Task) -> Bundle:
        """Return the logits with graph, labels and split."""

    @abstractmethod
    def size(self, dataset: str) -> float:
        """Return a number that the cost of a cell grows with."""


@dataclass(frozen=True)
class TrainedLogits(LogitProvider):
    """Classifiers of :mod:`gnncal_lab.classifiers`, their logits cached in a folder."""

    cache: Path
    root: Path | None = None

    def fetch(self, dataset: str) -> None:
        """Download the dataset if it is not there."""
        load_dataset(dataset, self.root)

    def is_ready(self, task: Task) -> bool:
        """Return whether the logits are in the cache."""
        return self._read(task) is not None

    def seems_ready(self, task: Task) -> bool:
        """Return whether there is a cached file; its content is not looked at."""
        return self._path(task).exists()

    def prepare(self, task: Task) -> None:
        """Train the classifier and cache its logits."""
        self._check_place(task)
        dataset = load_dataset(task.dataset, self.root)
        split = dataset.split_of(task.seed)
        logits = train_logits(task.backbone, dataset, split, seed=task.seed)
        buffer = io.BytesIO()
        key = np.array(_key(task.backbone, dataset))
        np.savez_compressed(buffer, logits=logits, key=key)
        write_file(self._path(task), buffer.getvalue(), overwrite=True)

    def load(self, task: Task) -> Bundle:
        """Read logits from the cache; train the classifier first if they are not there."""
        logits = self._read(task)
        if logits is None:
            self.prepare(task)
            logits = self._read(task)
            assert logits is not None
        dataset = load_dataset(task.dataset, self.root)
        split = dataset.split_of(task.seed)
        return Bundle(
            logits,
            dataset.labels,
            dataset.graph,
            split.train_nodes,
            split.calibration_nodes,
            split.test_nodes,
        )

    def size(self, dataset: str) -> float:
        """Return the number of nodes and edges, which the cost of a step grows with."""
        facts = FACTS.get(dataset)
        return 1.0 if facts is None else float(facts.n_nodes + facts.n_edges)

    def _path(self, task: Task) -> Path:
        return self.cache / f"{task.dataset}-{task.backbone}-{task.seed}.npz"

    def _check_place(self, task: Task) -> None:
        """Refuse to replace a file that is not our cache, not even a broken or outdated one."""
        path = self._path(task)
        if not path.exists():
            return
        try:
            ours = "key" in read_npz(path, ())[1]
        except InputError:
            with path.open("rb") as file:
                ours = FIRST_MEMBER in file.read(100)
        if not ours:
            raise InputError(f"{path} already exists and was not written by gnncal; move it away.")

    def _read(self, task: Task) -> FloatArray | None:
        try:
            with np.load(self._path(task), allow_pickle=False) as file:
                logits, key = file["logits"], str(file["key"])
        except Exception:  # absent, or broken in any way that NumPy and zlib can complain about
            return None
        dataset = load_dataset(task.dataset, self.root)
        return logits if key == _key(task.backbone, dataset) else None


@dataclass(frozen=True)
class BundledLogits(LogitProvider):
    """Bundle files ``{dataset}-{backbone}-{seed}.npz`` of a folder: logits from anywhere."""

    folder: Path

    def fetch(self, dataset: str) -> None:
        """Raise if the folder has no bundle of the dataset."""
        if all(task.dataset != dataset for task in self.tasks()):
            raise InputError(f"{self.folder} has no files {dataset}-BACKBONE-SEED.npz.")

    def is_ready(self, task: Task) -> bool:
        """Always true: nothing has to be trained."""
        return True

    def seems_ready(self, task: Task) -> bool:
        """Always true."""
        return True

    def prepare(self, task: Task) -> None:
        """Do nothing."""

    def load(self, task: Task) -> Bundle:
        """Read the bundle of a task."""
        return _load_bundle(self._path(task))

    def size(self, dataset: str) -> float:
        """Return the size of the dataset's files."""
        files = (self._path(task) for task in self.tasks() if task.dataset == dataset)
        return float(max((path.stat().st_size for path in files), default=1))

    def tasks(self) -> list[Task]:
        """Return the tasks for which a bundle exists."""
        names = (BUNDLE_NAME.fullmatch(path.name) for path in self.folder.glob("*.npz"))
        return sorted(Task(name[1], name[2], int(name[3])) for name in names if name)

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.dataset}-{task.backbone}-{task.seed}.npz"


def _key(backbone: str, dataset: Dataset) -> str:
    """Return a key of everything that logits depend on, except the seed in the file name."""
    settings = training_settings(parts_of(backbone)[0], dataset.name)
    return f"{dataset.fingerprint} {settings} {training_source(backbone)}"


@lru_cache(maxsize=1)
def load_dataset(name: str, root: Path | None) -> Dataset:
    """Load a dataset; the last one is kept for the next cell on it."""
    return load(name, root=root)


@lru_cache(maxsize=1)
def _load_bundle(path: Path) -> Bundle:
    return read_bundle(path)
