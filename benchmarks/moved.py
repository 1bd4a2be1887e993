"""Worlds that have moved: a model and its calibrator here, and nodes there that differ.

The scripts about shift share them. A family is a set of graphs among which a model is carried:
seven countries of twitch (42 pairs), three libraries of papers (6 pairs), tolokers with the rate of
banned workers changed by resampling (3), and the years of ogbn-arxiv's graph (2).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gnncal.data.arrays import IntArray
from gnncal.files.output import write_file
from gnncal_lab.classifiers import train_classifier
from gnncal_lab.datasets import Split
from practice import LIBRARIES, SETTINGS, TWITCH, Models, Practice

FAMILIES = ("twitch", "libraries", "tolokers", "years")
RATES = {"twice the rate": 2.0, "half the rate": 0.5, "3% positive": None}
YEARS = (2019, 2020)


@dataclass(frozen=True)
class Move:
    """A calibrator is fitted on ``here.nodes``; ``there.nodes`` may be labelled anew.

    ``there.test_nodes`` judge.
    """

    family: str
    source: str
    target: str
    here: Practice
    there: Practice


def moves(models: Models, family: str, seed: int) -> Iterator[Move]:
    """Return every move of a family."""
    if family == "tolokers":
        yield from _resampled(models, seed)
    elif family == "years":
        yield from _years(models, seed)
    else:
        graphs = {"twitch": TWITCH, "libraries": LIBRARIES}[family]
        for source in graphs:
            here = models.practice(source, seed)
            for target in graphs:
                if target != source:
                    there = models.elsewhere(source, target, seed)
                    yield Move(family, source, target, here, there)


def _resampled(models: Models, seed: int) -> Iterator[Move]:
    """The test nodes of tolokers, thinned out until the rate is another; half may be labelled."""
    here = models.practice("tolokers", seed)
    rate = float(here.labels[here.calibration_nodes].mean())
    for target, factor in RATES.items():
        wanted = 0.03 if factor is None else factor * rate
        generator = np.random.default_rng([seed, len(target)])
        chosen = generator.permutation(_thinned(here, wanted, generator))
        pool, judged = np.split(chosen, [len(chosen) // 2])
        there = replace(here, calibration_nodes=np.sort(pool), test_nodes=np.sort(judged))
        yield Move("tolokers", "tolokers", target, here, there)


def _thinned(here: Practice, rate: float, generator: np.random.Generator) -> IntArray:
    """As many test nodes as can have this rate of positives."""
    test = generator.permutation(here.test_nodes)
    positive = here.labels[test] == 1
    n_positive = min(positive.sum(), int(rate / (1.0 - rate) * (~positive).sum()))
    n_negative = int(n_positive * (1.0 - rate) / rate)
    return np.concatenate([test[positive][:n_positive], test[~positive][:n_negative]])


def _years(models: Models, seed: int) -> Iterator[Move]:
    """Trained on papers up to 2017, calibrated on half of 2018, used in later years."""
    dataset = models.dataset("arxiv_years")
    with np.load(models.data / "more" / "arxiv_years.npz", allow_pickle=False) as file:
        year, train = file["node_year"].ravel(), np.sort(file["train_idx"])
    generator = np.random.default_rng(seed)
    halves = {y: _halved(np.flatnonzero(year == y), generator) for y in (2018, *YEARS)}
    calibration, rest = halves[2018]
    path = models.cache / f"arxiv_years-by-time-{seed}.npz"
    if not path.exists():
        split = Split(train, calibration, rest)
        classifier = train_classifier("gcn", dataset, split, seed=seed, settings=SETTINGS)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, logits=classifier.logits(dataset.graph))
        write_file(path, buffer.getvalue(), overwrite=True)
    with np.load(path, allow_pickle=False) as file:
        logits = file["logits"]
    labels, graph = dataset.labels, dataset.graph
    here = Practice("2018", logits, labels, graph, train, calibration, rest)
    for y in YEARS:
        there = replace(here, name=str(y), calibration_nodes=halves[y][0], test_nodes=halves[y][1])
        yield Move("years", "2018", str(y), here, there)


def _halved(nodes: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    first, second = np.array_split(generator.permutation(nodes), 2)
    return np.sort(first), np.sort(second)
