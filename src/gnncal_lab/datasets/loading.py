"""Load a graph of the paper by its name."""

from __future__ import annotations

import os
from pathlib import Path

from gnncal.data.arrays import IntArray
from gnncal.data.errors import InputError
from gnncal.graph.graph import Graph
from gnncal_lab.datasets import cache
from gnncal_lab.datasets.dataset import Dataset
from gnncal_lab.datasets.download import download
from gnncal_lab.datasets.graphs import FACTS, ONE_FILE, Facts, official_name
from gnncal_lab.datasets.one_file import load_file
from gnncal_lab.datasets.preprocessing import (
    RawGraph,
    add_reverse_edges,
    checked,
    compact,
    keep_largest_component,
    normalise_rows,
    replace_self_loops,
)


def load(name: str, root: str | Path | None = None) -> Dataset:
    """Load one of the paper's 18 graphs, preprocessed as in the paper, or ``"arxiv-years"``.

    ``"arxiv-years"`` has the edges, the labels and the official split of ogbn-arxiv, but other
    features. Its file, ``arxiv_years.npz``, cannot be downloaded (docs/benchmark.md).

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`, or ``"arxiv-years"``; upper and lower case do not matter.
    root : str or Path, optional
        Folder of the raw files, in PyTorch Geometric's layout; missing files are downloaded into
        it. Default: ``$GNNCAL_DATA``, or a folder in the user's cache.

    Returns
    -------
    Dataset
        Graph, features and labels.

    Examples
    --------
    >>> from gnncal_lab import datasets
    >>> datasets.load("Cora").graph.n_nodes  # doctest: +SKIP
    2708

    """
    name = official_name(name)
    folder = Path(root or os.environ.get("GNNCAL_DATA") or cache.user_cache() / "raw")
    if name in ONE_FILE:
        return _load_one_file(name, folder)
    facts = FACTS[name]
    paths = [folder / facts.folder / file for file in facts.files]
    if not all(path.exists() for path in paths):
        download(name, facts, folder)
    stored, key = cache.user_cache() / "parsed" / f"{name}.npz", cache.identity(paths)
    found = cache.read(stored, key)
    if found is None:
        found = _parse(name, facts, paths)
        cache.write(stored, key, *found)
    return Dataset(name, *found)


def _load_one_file(name: str, folder: Path) -> Dataset:
    """Return a graph of one file with one self-loop at each node, as ogbn-arxiv has them."""
    paths = [folder / part / ONE_FILE[name] for part in ("", "more")]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise InputError(
            f"{name} is the file {ONE_FILE[name]}, which is not in {folder}; put it there, or pass "
            "the root that has it."
        )
    found = load_file(path)
    raw = replace_self_loops(RawGraph(found.graph.features, found.labels, found.graph.edge_index))
    graph = Graph(raw.edges, len(raw.labels), raw.features)
    return Dataset(name, graph, raw.labels, found.split)


def _parse(name: str, facts: Facts, paths: list[Path]) -> tuple[Graph, IntArray]:
    try:
        raw = preprocess(checked(facts.family.read(paths)), facts)
        return Graph(raw.edges, len(raw.labels), compact(raw.features)), raw.labels
    except Exception as error:  # a damaged file can break a parser in any way
        raise InputError(
            f"the raw files of {name} in {paths[0].parent} cannot be read "
            f"({type(error).__name__}: {error}); delete them and load again."
        ) from error


def preprocess(raw: RawGraph, facts: Facts) -> RawGraph:
    """Return the graph after the preprocessing that the table of facts lists."""
    raw = add_reverse_edges(raw, facts.family.reverse)
    if facts.family.largest_component:
        raw = keep_largest_component(raw)
    if facts.self_loops:
        raw = replace_self_loops(raw)
    if facts.family.row_normalise:
        raw = normalise_rows(raw)
    return raw
