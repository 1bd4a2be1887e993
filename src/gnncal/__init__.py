"""Calibrated confidence for graph neural networks.

A trained network gives logits; a calibrator turns them into probabilities that can be trusted.

Examples
--------
>>> import numpy as np
>>> import gnncal
>>> sample = gnncal.lab.simulation.CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
>>> logits, labels, graph = 3 * sample.graph.features[:, :3], sample.labels, sample.graph
>>> calibrator = gnncal.StructuralLaw().fit(logits, labels, graph, nodes=range(200))
>>> calibrator.predict_proba(logits, graph).shape
(400, 3)

"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnncal import classifiers as classifiers
    from gnncal import datasets as datasets
    from gnncal import decisions as decisions
    from gnncal import homophily as homophily
    from gnncal import inspection as inspection
    from gnncal import metrics as metrics
    from gnncal import plotting as plotting
    from gnncal import scale as scale
    from gnncal import simulation as simulation
    from gnncal import testing as testing
    from gnncal import torch as torch
    from gnncal.calibrators.ablations import EntropyOnly as EntropyOnly
    from gnncal.calibrators.ablations import HomophilyOnly as HomophilyOnly
    from gnncal.calibrators.ablations import HoTSAlphaOne as HoTSAlphaOne
    from gnncal.calibrators.auto import Auto as Auto
    from gnncal.calibrators.base import Calibrator as Calibrator
    from gnncal.calibrators.base import FitReport as FitReport
    from gnncal.calibrators.base import TemperatureCalibrator as TemperatureCalibrator
    from gnncal.calibrators.catalogue import get_calibrator as get_calibrator
    from gnncal.calibrators.catalogue import list_calibrators as list_calibrators
    from gnncal.calibrators.dirichlet import DirichletCalibration as DirichletCalibration
    from gnncal.calibrators.ensemble import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from gnncal.calibrators.entropy import EntropyScaling as EntropyScaling
    from gnncal.calibrators.entropy import LogEntropyScaling as LogEntropyScaling
    from gnncal.calibrators.histogram import HistogramBinning as HistogramBinning
    from gnncal.calibrators.hots import HoTS as HoTS
    from gnncal.calibrators.isotonic import IsotonicCalibration as IsotonicCalibration
    from gnncal.calibrators.isotonic import MultiClassIsotonic as MultiClassIsotonic
    from gnncal.calibrators.neural.cagcn import CaGCN as CaGCN
    from gnncal.calibrators.neural.gats import GATS as GATS
    from gnncal.calibrators.neural.gets import GETS as GETS
    from gnncal.calibrators.neural.wats import WATS as WATS
    from gnncal.calibrators.order_invariant import OrderInvariant as OrderInvariant
    from gnncal.calibrators.ratio_binned import RatioBinnedScaling as RatioBinnedScaling
    from gnncal.calibrators.spline import SplineCalibration as SplineCalibration
    from gnncal.calibrators.structural import StructuralLaw as StructuralLaw
    from gnncal.calibrators.structural_graph import StructuralGraph as StructuralGraph
    from gnncal.calibrators.structural_remainder import StructuralRemainder as StructuralRemainder
    from gnncal.calibrators.structural_vector import StructuralVector as StructuralVector
    from gnncal.calibrators.structured import StructuredMatrixScaling as StructuredMatrixScaling
    from gnncal.calibrators.structured import StructuredVectorScaling as StructuredVectorScaling
    from gnncal.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from gnncal.calibrators.uncalibrated import Uncalibrated as Uncalibrated
    from gnncal.calibrators.vector import VectorScaling as VectorScaling
    from gnncal.core.errors import GnncalWarning as GnncalWarning
    from gnncal.core.errors import InputError as InputError
    from gnncal.core.errors import MissingExtraError as MissingExtraError
    from gnncal.core.graph import Graph as Graph
    from gnncal.core.probability import logits_from_probabilities as logits_from_probabilities
    from gnncal.core.probability import softmax as softmax
    from gnncal.files import read_bundle as read_bundle
    from gnncal.files.saved import load as load
    from gnncal.inspection.page.report import Report as Report
    from gnncal.inspection.page.report import report as report
    from gnncal.interop import from_dgl as from_dgl
    from gnncal.interop import from_networkx as from_networkx
    from gnncal.interop import from_pyg as from_pyg
    from gnncal.interop import from_scipy as from_scipy
    from gnncal.lab.settings import settings_for as settings_for
    from gnncal.metrics.evaluation import compare as compare
    from gnncal.metrics.evaluation import evaluate as evaluate
    from gnncal.pipeline import Calibration as Calibration
    from gnncal.pipeline import calibrate as calibrate

__version__ = "0.1.0"

# Loaded on first use: scikit-learn and SciPy take a second or two, which `import gnncal`
# should not cost. The block above says the same to type checkers; a test compares the two.
_HOME = {
    "classifiers": "",
    "datasets": "",
    "decisions": "",
    "homophily": "",
    "inspection": "",
    "metrics": "",
    "plotting": "",
    "scale": "",
    "simulation": "",
    "testing": "",
    "torch": "",
    "read_bundle": "bundles",
    "EntropyOnly": "calibrators.ablations",
    "HomophilyOnly": "calibrators.ablations",
    "HoTSAlphaOne": "calibrators.ablations",
    "Auto": "calibrators.auto",
    "Calibrator": "calibrators.base",
    "FitReport": "calibrators.base",
    "TemperatureCalibrator": "calibrators.base",
    "get_calibrator": "calibrators.catalogue",
    "list_calibrators": "calibrators.catalogue",
    "DirichletCalibration": "calibrators.dirichlet",
    "EnsembleTemperatureScaling": "calibrators.ensemble",
    "EntropyScaling": "calibrators.entropy",
    "LogEntropyScaling": "calibrators.entropy",
    "HistogramBinning": "calibrators.histogram",
    "HoTS": "calibrators.hots",
    "IsotonicCalibration": "calibrators.isotonic",
    "MultiClassIsotonic": "calibrators.isotonic",
    "OrderInvariant": "calibrators.order_invariant",
    "load": "calibrators.persistence",
    "RatioBinnedScaling": "calibrators.ratio_binned",
    "SplineCalibration": "calibrators.spline",
    "StructuralLaw": "calibrators.structural",
    "StructuralGraph": "calibrators.structural_graph",
    "StructuralRemainder": "calibrators.structural_remainder",
    "StructuralVector": "calibrators.structural_vector",
    "StructuredMatrixScaling": "calibrators.structured",
    "StructuredVectorScaling": "calibrators.structured",
    "CaGCN": "calibrators.neural.cagcn",
    "GATS": "calibrators.neural.gats",
    "GETS": "calibrators.neural.gets",
    "WATS": "calibrators.neural.wats",
    "settings_for": "calibrators.settings",
    "TemperatureScaling": "calibrators.temperature",
    "Uncalibrated": "calibrators.uncalibrated",
    "VectorScaling": "calibrators.vector",
    "GnncalWarning": "core.errors",
    "InputError": "core.errors",
    "MissingExtraError": "core.errors",
    "Graph": "core.graph",
    "logits_from_probabilities": "core.probability",
    "softmax": "core.probability",
    "compare": "evaluation",
    "evaluate": "evaluation",
    "from_dgl": "interop",
    "from_networkx": "interop",
    "from_pyg": "interop",
    "from_scipy": "interop",
    "Calibration": "pipeline",
    "calibrate": "pipeline",
    "Report": "rendering.calibration.report",
    "report": "rendering.calibration.report",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gnncal' has no attribute {name!r}")
    home = _HOME[name]
    value = (
        getattr(import_module(f"gnncal.{home}"), name) if home else import_module(f"gnncal.{name}")
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
