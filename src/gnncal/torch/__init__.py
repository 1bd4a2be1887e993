"""Calibration inside PyTorch: fitted calibrators as modules, calibrated models, metrics.

``calibrator.to_torch()`` is a module from logits and edges to probabilities.
``CalibratedModel.fit(model, data)`` is the model itself with calibrated outputs.
"""

from gnncal.core.errors import require

require("torch", extra="neural", purpose="gnncal.torch")  # before anything here imports it

from gnncal.torch.export import export  # noqa: E402
from gnncal.torch.model import CalibratedModel  # noqa: E402
from gnncal.torch.module import CalibratorModule, to_module  # noqa: E402

__all__ = ["CalibratedModel", "CalibratorModule", "export", "to_module"]
