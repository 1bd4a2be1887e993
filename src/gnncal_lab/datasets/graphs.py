"""The paper's 18 graphs as one table of facts.

Sizes and homophily are those of the paper's table of data sets; edges are directed ones, counted
after preprocessing. Which preprocessing a graph has follows from those counts rather than from the
paper's prose: only some graphs get self-loops, and those of Geom-GCN stay directed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gnncal.data.errors import InputError
from gnncal_lab.datasets import formats, planetoid
from gnncal_lab.datasets.preprocessing import RawGraph, Reverse


@dataclass(frozen=True)
class Family:
    """Graphs that share a file format and the treatment of their edges and features."""

    source: str  # the class that downloads the raw files
    read: Callable[[list[Path]], RawGraph]
    reverse: Reverse = "listed"
    largest_component: bool = False
    row_normalise: bool = False


@dataclass(frozen=True)
class Facts:
    """Source, preprocessing and expected statistics of a data set.

    Attributes
    ----------
    family : Family
        Collection of the graph, which determines file format and preprocessing.
    source_name : str or None
        Name of the graph in the class that downloads it.
    folder : str
        Folder of the raw files, below the root.
    files : tuple of str
        Names of the raw files.
    self_loops : bool
        Whether the self-loops of the files are replaced by one self-loop at each node.
    n_nodes, n_edges, n_classes, n_features : int
        Sizes after preprocessing.
    homophily : float
        Mean over nodes of the share of out-neighbours that have the node's class.
    homophily_std : float
        Sample standard deviation of that share. Self-loops count as neighbours in both.
    regime : {"homophilic", "heterophilic", "large"}
        Group of the graph in the paper's tables.
    group : {"G1", "G2", "G3"}
        Group of training settings.
    note : str
        A peculiarity of the data set, if any.

    Examples
    --------
    >>> from gnncal_lab.datasets import FACTS
    >>> FACTS["Cora"].n_nodes, FACTS["Cora"].n_classes, FACTS["Cora"].regime
    (2708, 7, 'homophilic')

    """

    family: Family
    source_name: str | None
    folder: str
    files: tuple[str, ...]
    self_loops: bool
    n_nodes: int
    n_edges: int
    n_classes: int
    n_features: int
    homophily: float
    homophily_std: float
    regime: Literal["homophilic", "heterophilic", "large"]
    group: Literal["G1", "G2", "G3"]
    note: str = ""


PYG = "torch_geometric.datasets."
PLANETOID = Family(PYG + "Planetoid", planetoid.read, "merged", row_normalise=True)
CITATION = Family(PYG + "CitationFull", formats.read_gnnbench, "merged", largest_component=True)
AMAZON = Family(PYG + "Amazon", formats.read_gnnbench, "merged", largest_component=True)
COAUTHOR = Family(PYG + "Coauthor", formats.read_gnnbench, "merged", largest_component=True)
WEBKB = Family(PYG + "WebKB", formats.read_geom_gcn)
WIKIPEDIA = Family(PYG + "WikipediaNetwork", formats.read_geom_gcn)
ACTOR = Family(PYG + "Actor", formats.read_geom_gcn)
HETEROPHILOUS = Family(
    PYG + "HeterophilousGraphDataset", formats.read_heterophilous, reverse="appended"
)
OGB = Family("ogb.nodeproppred.PygNodePropPredDataset", formats.read_ogb, reverse="appended")
REDDIT = Family(PYG + "Reddit", formats.read_reddit)

GEOM_GCN_FILES = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
OGB_FILES = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz")
REDDIT_FILES = ("reddit_data.npz", "reddit_graph.npz")
CORNELL_NOTE = (
    "The label file that Geom-GCN publishes has the class counts of Texas, so the paper's "
    "homophily, 0.560 ± 0.273, cannot be reproduced from it."
)


def _planetoid_files(name: str) -> tuple[str, ...]:
    parts = ("allx", "tx", "ally", "ty", "graph", "test.index")
    return tuple(f"ind.{name}.{part}" for part in parts)


# fmt: off
FACTS: dict[str, Facts] = {
    "Cora": Facts(PLANETOID, "Cora", "Cora/raw", _planetoid_files("cora"), True,
        2_708, 13_264, 7, 1_433, 0.871, 0.211, "homophilic", "G1"),
    "CiteSeer": Facts(PLANETOID, "CiteSeer", "CiteSeer/raw", _planetoid_files("citeseer"), True,
        3_327, 12_431, 6, 3_703, 0.820, 0.245, "homophilic", "G1"),
    "PubMed": Facts(PLANETOID, "PubMed", "PubMed/raw", _planetoid_files("pubmed"), True,
        19_717, 108_365, 3, 500, 0.865, 0.217, "homophilic", "G1"),
    "CoraFull": Facts(CITATION, "cora", "cora/raw", ("cora.npz",), True,
        18_800, 144_170, 70, 8_710, 0.677, 0.274, "homophilic", "G2"),
    "Computers": Facts(
        AMAZON, "Computers", "Computers/raw", ("amazon_electronics_computers.npz",), False,
        13_381, 491_556, 10, 767, 0.802, 0.239, "homophilic", "G2"),
    "Photo": Facts(AMAZON, "Photo", "Photo/raw", ("amazon_electronics_photo.npz",), False,
        7_487, 238_087, 8, 745, 0.849, 0.227, "homophilic", "G2"),
    "CS": Facts(COAUTHOR, "CS", "CS/raw", ("ms_academic_cs.npz",), False,
        18_333, 163_788, 15, 6_805, 0.832, 0.239, "homophilic", "G2"),
    "Physics": Facts(COAUTHOR, "Physics", "Physics/raw", ("ms_academic_phy.npz",), False,
        34_493, 495_924, 5, 8_415, 0.915, 0.174, "homophilic", "G2"),
    "Texas": Facts(WEBKB, "Texas", "texas/raw", GEOM_GCN_FILES, True,
        183, 492, 5, 1_703, 0.530, 0.268, "heterophilic", "G1"),
    "Cornell": Facts(WEBKB, "Cornell", "cornell/raw", GEOM_GCN_FILES, True,
        183, 478, 5, 1_703, 0.560, 0.273, "heterophilic", "G1", CORNELL_NOTE),
    "Wisconsin": Facts(WEBKB, "Wisconsin", "wisconsin/raw", GEOM_GCN_FILES, True,
        251, 750, 5, 1_703, 0.565, 0.290, "heterophilic", "G1"),
    "Chameleon": Facts(WIKIPEDIA, "chameleon", "chameleon/geom_gcn/raw", GEOM_GCN_FILES, False,
        2_277, 36_101, 5, 2_325, 0.104, 0.229, "heterophilic", "G1"),
    "Squirrel": Facts(WIKIPEDIA, "squirrel", "squirrel/geom_gcn/raw", GEOM_GCN_FILES, False,
        5_201, 217_073, 5, 2_089, 0.089, 0.194, "heterophilic", "G1"),
    "Actor": Facts(ACTOR, None, "Actor/raw", GEOM_GCN_FILES, True,
        7_600, 40_869, 5, 932, 0.608, 0.319, "heterophilic", "G1"),
    "Roman-Empire": Facts(
        HETEROPHILOUS, "Roman-empire", "roman_empire/raw", ("roman_empire.npz",), False,
        22_662, 65_854, 18, 300, 0.046, 0.139, "heterophilic", "G1"),
    "tolokers": Facts(HETEROPHILOUS, "Tolokers", "tolokers/raw", ("tolokers.npz",), False,
        11_758, 1_038_000, 2, 10, 0.634, 0.247, "heterophilic", "G1"),
    "ogbn-arxiv": Facts(OGB, "ogbn-arxiv", "ogbn_arxiv/raw", OGB_FILES, True,
        169_343, 2_501_829, 40, 128, 0.707, 0.272, "large", "G3"),
    "Reddit": Facts(REDDIT, None, "Reddit/raw", REDDIT_FILES, True,
        232_965, 114_848_857, 41, 602, 0.813, 0.230, "large", "G1"),
}
# fmt: on
# Graphs that are not part of the paper's experiments, one file each (one_file.py), by name.
ONE_FILE = {"arxiv-years": "arxiv_years.npz"}


def list_datasets() -> list[str]:
    """Return the names of the paper's 18 data sets, in the order of the paper's tables.

    Examples
    --------
    >>> from gnncal_lab.datasets import list_datasets
    >>> len(list_datasets()), list_datasets()[0]
    (18, 'Cora')

    """
    return list(FACTS)


def official_name(name: str) -> str:
    """Return the name in the spelling of the table; upper and lower case do not matter."""
    for known in (*FACTS, *ONE_FILE):
        if known.lower() == str(name).lower():
            return known
    raise InputError(
        f"unknown data set {name!r}; expected one of {', '.join((*FACTS, *ONE_FILE))}."
    )
