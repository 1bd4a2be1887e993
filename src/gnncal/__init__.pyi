"""The public names of gnncal and the files they come from; __init__.py loads each on first use."""

from . import calibrators as calibrators
from . import decisions as decisions
from . import homophily as homophily
from . import inspection as inspection
from . import lab as lab
from . import metrics as metrics
from . import plotting as plotting
from . import scale as scale
from . import testing as testing
from . import torch as torch
from .calibrators.auto import Auto as Auto
from .calibrators.base import Calibrator as Calibrator
from .calibrators.base import FitReport as FitReport
from .calibrators.base import TemperatureCalibrator as TemperatureCalibrator
from .calibrators.beta import BetaCalibration as BetaCalibration
from .calibrators.catalogue import get_calibrator as get_calibrator
from .calibrators.catalogue import list_calibrators as list_calibrators
from .calibrators.dirichlet import DirichletCalibration as DirichletCalibration
from .calibrators.ensemble import (
    EnsembleTemperatureScaling as EnsembleTemperatureScaling,
)
from .calibrators.entropy import EntropyScaling as EntropyScaling
from .calibrators.entropy import LogEntropyScaling as LogEntropyScaling
from .calibrators.histogram import HistogramBinning as HistogramBinning
from .calibrators.history import History as History
from .calibrators.hots import HoTS as HoTS
from .calibrators.isotonic import IsotonicCalibration as IsotonicCalibration
from .calibrators.isotonic import MultiClassIsotonic as MultiClassIsotonic
from .calibrators.matrix import MatrixScaling as MatrixScaling
from .calibrators.neural.cagcn import CaGCN as CaGCN
from .calibrators.neural.gats import GATS as GATS
from .calibrators.neural.gets import GETS as GETS
from .calibrators.neural.wats import WATS as WATS
from .calibrators.order_invariant import OrderInvariant as OrderInvariant
from .calibrators.platt import PlattScaling as PlattScaling
from .calibrators.ratio_binned import RatioBinnedScaling as RatioBinnedScaling
from .calibrators.simi_mailbox import SimiMailbox as SimiMailbox
from .calibrators.spline import SplineCalibration as SplineCalibration
from .calibrators.structural import Structural as Structural
from .calibrators.structured import StructuredMatrixScaling as StructuredMatrixScaling
from .calibrators.structured import StructuredVectorScaling as StructuredVectorScaling
from .calibrators.temperature import TemperatureScaling as TemperatureScaling
from .calibrators.uncalibrated import Uncalibrated as Uncalibrated
from .calibrators.vector import VectorScaling as VectorScaling
from .core.errors import GnncalWarning as GnncalWarning
from .core.errors import InputError as InputError
from .core.errors import MissingExtraError as MissingExtraError
from .core.graph import Graph as Graph
from .digits import example as example
from .files import read_bundle as read_bundle
from .inspection.page.report import Report as Report
from .inspection.page.report import report as report
from .interop import from_dgl as from_dgl
from .interop import from_networkx as from_networkx
from .interop import from_pyg as from_pyg
from .interop import from_scipy as from_scipy
from .loading import load as load
from .metrics.evaluation import compare as compare
from .metrics.evaluation import evaluate as evaluate
from .nodes import Nodes as Nodes
from .pipeline import Calibration as Calibration
from .pipeline import calibrate as calibrate
from .probability import logits_from_probabilities as logits_from_probabilities
from .probability import softmax as softmax
from .shift.check import check as check
from .shift.watch import Watch as Watch

__version__: str
