"""Calibration inside PyTorch: fitted calibrators as modules, calibrated models, metrics.

``calibrator.to_torch()`` returns a module from logits and edges to probabilities.
``CalibratedModel.fit(model, data)`` returns a model with calibrated outputs.
"""

from typing import TYPE_CHECKING, Any

from gnncal.data.errors import require

require("torch", extra="neural", purpose="gnncal.torch")  # before anything here imports it

from gnncal.torch.export import export  # noqa: E402
from gnncal.torch.model import CalibratedModel  # noqa: E402
from gnncal.torch.module import CalibratorModule  # noqa: E402

if TYPE_CHECKING:
    from gnncal.torch.metric import Metric

__all__ = ["CalibratedModel", "CalibratorModule", "Metric", "export"]


def __getattr__(name: str) -> Any:
    if name != "Metric":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gnncal.torch.metric import Metric  # needs torchmetrics

    return Metric
