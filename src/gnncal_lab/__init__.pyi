"""The public names of the laboratory and the files they come from."""

from . import classifiers as classifiers
from . import datasets as datasets
from . import simulation as simulation
from .bench.summary import PairedComparison as PairedComparison
from .bench.summary import compare_paired as compare_paired
from .settings import settings_for as settings_for
