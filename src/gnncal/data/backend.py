"""The few operations that formulas are written with, for arrays, tensors and table columns.

A formula asks :func:`backend_of` for the operations that suit its argument, so it is written once.
Vectors have one entry for each node. Matrices have one row for each node and few columns, such as
the classes. NumPy and torch have all of these functions, Ibis those that tables need:

- of every entry: ``exp``, ``log``, ``log1p``, ``sqrt``, ``absolute``, ``softplus``, ``maximum``,
  ``minimum``, ``where``, ``rounded``, ``ceil``;
- ``exp_``, ``add_``, ``divide_``, ``maximum_``, ``fill_`` and ``finite_``, which may overwrite
  their first argument;
- of matrices: ``largest`` and ``total`` of each row, ``shifted`` rows whose largest entry is 0,
  ``products`` of two rows, ``column`` (a vector that meets every column), ``at_class`` (one entry
  of each row), ``with_class`` (another one there), ``matrix`` (vectors side by side) and
  ``columns`` (the vectors again), ``weighted`` (a weighted sum of columns), ``product`` (with a
  matrix of weights), ``tails`` (sums without the largest entries), ``width``, ``numbered``;
- ``of_class``, which looks each class up in a table.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gnncal.data import numpy_backend


def backend_of(value: Any) -> ModuleType:
    """Return the module with the operations for a value: an array, a tensor or columns.

    A formula of a :class:`~gnncal.calibrators.Formula` is written with these operations where
    NumPy and torch spell them differently, such as ``exp``, ``maximum``, ``softplus`` or ``where``.

    Parameters
    ----------
    value : ndarray, Tensor or columns
        What the formula is applied to.

    Returns
    -------
    module
        Functions with the same names for each kind.

    Examples
    --------
    >>> import numpy as np
    >>> from gnncal.calibrators import backend_of
    >>> z = np.array([[0.0, 2.0], [1.0, 0.5]])
    >>> backend_of(z).largest(z)
    array([2., 1.])

    """
    if isinstance(value, np.ndarray | float | int | np.generic):
        return numpy_backend
    if type(value).__module__.partition(".")[0] == "torch":
        from gnncal.data import torch_backend

        return torch_backend
    from gnncal.data import ibis_backend

    return ibis_backend
