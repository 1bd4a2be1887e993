"""The public names of gnncal and the files they come from; __init__.py loads each on first use."""

from . import calibrators as calibrators
from . import decisions as decisions
from . import metrics as metrics
from . import plotting as plotting
from . import scale as scale
from . import testing as testing
from . import torch as torch
from .calibrators.base import Calibrator as Calibrator
from .calibrators.catalogue import get_calibrator as get_calibrator
from .calibrators.catalogue import list_calibrators as list_calibrators
from .calibrators.hots import HoTS as HoTS
from .core.errors import GnncalWarning as GnncalWarning
from .core.errors import InputError as InputError
from .core.errors import MissingExtraError as MissingExtraError
from .core.graph import Graph as Graph
from .digits import example as example
from .files.bundle import read_bundle as read_bundle
from .inspection.page.report import Report as Report
from .inspection.page.report import report as report
from .loading import load as load
from .metrics.evaluation import compare as compare
from .metrics.evaluation import evaluate as evaluate
from .nodes import Nodes as Nodes
from .pipeline import Calibration as Calibration
from .pipeline import calibrate as calibrate
from .shift.check import check as check
from .shift.watch import Watch as Watch

__version__: str
