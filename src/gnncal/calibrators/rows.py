"""Fits on the calibration rows alone, for callers that described the neighbourhoods elsewhere."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.data import check_fit_data

AnyCalibrator = TypeVar("AnyCalibrator", bound=Calibrator)


def fit_rows(
    calibrator: AnyCalibrator, logits: FloatArray, labels: IntArray, seen: Any = None
) -> AnyCalibrator:
    """Fit a calibrator to calibration nodes whose neighbourhoods are known already.

    This is the fit of :meth:`gnncal.Calibrator.fit`; only the graph is left out.

    Parameters
    ----------
    calibrator : the calibrator to fit.
    logits : (n, n_classes) raw scores of the calibration nodes alone.
    labels : (n,) their classes 0..K-1.
    seen : what the method needs of their neighbourhoods: h^ (n,) for HoTS, ratios (n,) for RBS, a
        :class:`gnncal.homophily.neighbourhood.Neighbourhood` for the structural law. None for
        methods that ignore structure.

    Returns
    -------
    The same calibrator, fitted.

    Example
    -------
    >>> import numpy as np
    >>> from gnncal import TemperatureScaling
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]]), np.array([0, 1, 1])
    >>> round(fit_rows(TemperatureScaling(), logits, labels).base_temperature_, 4)
    2.8854

    """
    calibrator.check_params()
    data = check_fit_data(logits, labels, None, np.arange(len(labels)), None)
    if seen is None:
        calibrator._fit(data)
    else:
        fits_seen: Any = calibrator  # one of the methods named above
        fits_seen._fit_seen(data, seen)
    calibrator._conclude(data)
    return calibrator
