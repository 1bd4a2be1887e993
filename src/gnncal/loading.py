"""``gnncal.load``: a fitted object from its file, whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnncal.decisions import base as decisions
from gnncal.files import saved_calibrators as calibrators
from gnncal.files.format import ReadTensor, read_saved


def load(path: str | Path) -> Any:
    """Read what ``save`` has written: a calibrator, or a classifier for decisions.

    Nothing is unpickled, and every value is checked, so untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Calibrator, Policy or ConformalClassifier
        The fitted object. What describes the fitted graph, such as ``temperature_``, is not in
        the file.

    Raises
    ------
    InputError
        If there is no such file, it is damaged, or a newer gnncal has written it.
    MissingExtraError
        If a calibrator needs PyTorch and it is not installed.

    Examples
    --------
    >>> from gnncal import load
    >>> from gnncal.calibrators import TemperatureScaling
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> TemperatureScaling().fit(logits, labels).save("ts.safetensors")
    >>> round(load("ts.safetensors").base_temperature_, 2)
    1.82

    """
    return read_saved(path, _rebuild)


def _rebuild(header: dict[str, Any], tensor: ReadTensor) -> Any:
    kind = decisions if "decision" in header else calibrators
    return kind.rebuild(header, tensor)
