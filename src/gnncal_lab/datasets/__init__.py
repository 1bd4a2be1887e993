"""The paper's 18 data sets, read from their raw files, and data sets in one file."""

from gnncal_lab.datasets.dataset import Dataset
from gnncal_lab.datasets.graphs import FACTS, Facts, list_datasets
from gnncal_lab.datasets.loading import load
from gnncal_lab.datasets.one_file import load_file
from gnncal_lab.datasets.splits import Split, random_split

__all__ = [
    "FACTS",
    "Dataset",
    "Facts",
    "Split",
    "list_datasets",
    "load",
    "load_file",
    "random_split",
]
