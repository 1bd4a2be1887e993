"""The public names of gnncal and the files they come from; __init__.py loads each on first use."""

from . import calibrators as calibrators
from . import decisions as decisions
from . import metrics as metrics
from . import plotting as plotting
from . import scale as scale
from . import shift as shift
from . import testing as testing
from . import torch as torch
from .calibration import Calibration as Calibration
from .calibration import calibrate as calibrate
from .calibrators.base import Calibrator as Calibrator
from .calibrators.hots import HoTS as HoTS
from .calibrators.registry import get_calibrator as get_calibrator
from .calibrators.registry import list_calibrators as list_calibrators
from .data.errors import GnncalWarning as GnncalWarning
from .data.errors import InputError as InputError
from .data.errors import MissingExtraError as MissingExtraError
from .data.nodes import Nodes as Nodes
from .digits import example as example
from .files.bundle import read_bundle as read_bundle
from .graph.entities import EntityGraph as EntityGraph
from .graph.graph import Graph as Graph
from .loading import load as load
from .loading import save as save
from .metrics.evaluation import compare as compare
from .metrics.evaluation import evaluate as evaluate
from .multilabel import calibrate_multilabel as calibrate_multilabel
from .reporting.report import Report as Report
from .reporting.report import report as report
from .shift.check import check as check
from .shift.watch import Watch as Watch

__version__: str
