"""The paper's 18 graphs, read from their raw files."""

from gnncal.datasets.catalogue import FACTS, Facts, list_datasets
from gnncal.datasets.loading import Dataset, load
from gnncal.datasets.splits import Split, random_split

__all__ = ["FACTS", "Dataset", "Facts", "Split", "list_datasets", "load", "random_split"]
