"""The public names of the laboratory and the files they come from."""

from . import classifiers as classifiers
from . import datasets as datasets
from . import homophily as homophily
from . import simulation as simulation
from .bench.summary import PairedComparison as PairedComparison
from .bench.summary import compare_paired as compare_paired
from .methods.beta import BetaCalibration as BetaCalibration
from .methods.dirichlet import DirichletCalibration as DirichletCalibration
from .methods.ensemble import EnsembleTemperatureScaling as EnsembleTemperatureScaling
from .methods.histogram import HistogramBinning as HistogramBinning
from .methods.isotonic import IsotonicCalibration as IsotonicCalibration
from .methods.log_entropy import LogEntropyScaling as LogEntropyScaling
from .methods.matrix import MatrixScaling as MatrixScaling
from .methods.neural.cagcn import CaGCN as CaGCN
from .methods.neural.gats import GATS as GATS
from .methods.neural.gets import GETS as GETS
from .methods.neural.wats import WATS as WATS
from .methods.order_invariant import OrderInvariant as OrderInvariant
from .methods.platt import PlattScaling as PlattScaling
from .methods.ratio_binned import RatioBinnedScaling as RatioBinnedScaling
from .methods.simi_mailbox import SimiMailbox as SimiMailbox
from .methods.spline import SplineCalibration as SplineCalibration
from .methods.vector import VectorScaling as VectorScaling
from .reliability import MonotoneReliability as MonotoneReliability
from .settings import settings_for as settings_for
