"""The rates of classes, given or estimated, which a calibrator is moved to without labels.

Where only the rates of the classes have changed, Bayes' rule moves every probability exactly:
p'_k is proportional to p_k r'_k / r_k, with r the rates where the calibrator was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gnncal.core.arrays import FloatArray, as_numpy
from gnncal.core.constraints import number
from gnncal.core.errors import InputError, shown

RATE = number(above=0, below=1)
TOLERANCE = 1e-6  # of the sum of all rates


def check_rates(rates: Any, before: FloatArray, class_names: list[str] | None) -> FloatArray:
    """Return a rate for each class, (n_classes,); classes that are not named share the rest."""
    n_classes = len(before)
    if not isinstance(rates, Mapping):
        values = _listed(rates, n_classes)
        rates = dict(enumerate(values.tolist()))
    if not rates:
        raise InputError("rates is empty; pass a rate for a class, such as {'fraud': 0.06}.")
    given = {_number_of(key, n_classes, class_names): rate for key, rate in rates.items()}
    if len(given) < len(rates):
        raise InputError("rates names a class twice; name each once.")
    for c, rate in given.items():
        RATE.check(f"the rate of class {c}", rate)
    total, others = sum(given.values()), [c for c in range(n_classes) if c not in given]
    if others and total >= 1:
        raise InputError(
            f"the rates sum to {total:g}, which leaves nothing for the other classes; pass rates "
            "that sum to less than 1."
        )
    if not others and abs(total - 1.0) > TOLERANCE:
        raise InputError(f"the rates of all classes sum to {total:g}; expected 1.")
    after = np.zeros(n_classes)
    after[list(given)] = list(given.values())
    rest = before[others]
    after[others] = (1.0 - total) * rest / rest.sum() if rest.sum() > 0 else 0.0
    return after


def log_ratio(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return ln r'_k / r_k; a class without calibration nodes has no rate that could be changed."""
    missing = np.flatnonzero((before <= 0) & (after > 0))
    if missing.size:
        raise InputError(
            f"no calibration node had class {missing[0]}, so its rate where the calibrator was "
            "fitted is not known; fit again with nodes of each class."
        )
    ratio = np.divide(after, before, out=np.ones_like(before), where=before > 0)
    return np.log(ratio)


def _listed(rates: Any, n_classes: int) -> FloatArray:
    values = as_numpy(rates) if not isinstance(rates, str) else np.empty(0)
    if values.shape != (n_classes,) or values.dtype.kind not in "fiu":
        raise InputError(
            f"rates is {shown(rates)}; expected rates by class such as {{'fraud': 0.06}}, one "
            f"number for each of the {n_classes} classes, or 'estimate'."
        )
    return values.astype(np.float64)


def _number_of(key: Any, n_classes: int, class_names: list[str] | None) -> int:
    """Return the number of a class that is named or numbered."""
    if class_names is not None and key in class_names:
        return class_names.index(key)
    is_text = isinstance(key, str) and key.isdecimal()
    is_number = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if (is_text or is_number) and 0 <= int(key) < n_classes:
        return int(key)
    known = f"0..{n_classes - 1}"
    if class_names is not None:
        known = f"{', '.join(class_names[:10])} or {known}"
    raise InputError(f"rates names the class {shown(key)}; expected one of {known}.")
