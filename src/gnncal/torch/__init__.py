"""Calibration inside PyTorch: fitted calibrators as modules, calibrated models, metrics.

>>> module = calibrator.to_torch()                       # (logits, edge_index) -> probabilities
>>> model = gnncal.torch.CalibratedModel.fit(gnn, data)  # (x, edge_index) -> probabilities
"""

from gnncal.core.errors import require

require("torch", extra="neural", purpose="gnncal.torch")  # before anything here imports it

from gnncal.torch.catalogue import to_module  # noqa: E402
from gnncal.torch.export import export  # noqa: E402
from gnncal.torch.model import CalibratedModel  # noqa: E402
from gnncal.torch.module import CalibratorModule, TemperatureModule  # noqa: E402

__all__ = ["CalibratedModel", "CalibratorModule", "TemperatureModule", "export", "to_module"]
