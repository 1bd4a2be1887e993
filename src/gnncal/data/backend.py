"""The few operations that formulas are written with, for arrays and tensors.

A formula asks :func:`backend_of` for the operations that suit its argument, so it is written once.
Vectors have one entry for each node. Matrices have one row for each node and few columns, such as
the classes. NumPy and torch have all of these functions:

- of every entry: ``exp``, ``log``, ``log1p``, ``sqrt``, ``absolute``, ``ceil``, ``rounded`` (to so
  many digits), ``softplus`` (ln(1 + e^x)), ``maximum``, ``minimum``, ``where``, ``nan_to_zero``;
- ``exp_``, ``add_``, ``divide_``, ``maximum_``, ``fill_`` (a value in some rows) and ``finite_``
  (infinities as the largest numbers), which may overwrite their first argument;
- of matrices: ``largest`` and ``total`` of each row, ``shifted`` rows whose largest entry is 0,
  ``products`` of two rows, ``column`` (a vector that meets every column), ``at_class`` (one entry
  of each row), ``with_class`` (another one there), ``matrix`` (vectors side by side), ``columns``
  (the vectors again), ``with_columns`` (more of them), ``weighted`` (a weighted sum of columns),
  ``product`` (W x of each row x; a weight (k,) is the diagonal of W), ``tails`` (in column m the
  sum without the m largest entries), ``width``, ``numbered`` (0, 1, .., k-1), ``ones`` (for each
  row);
- ``of_class``, which looks each class up in a table, and ``where_needed``, which calls a function
  on the rows where a condition holds;
- of precision: ``as_number`` (1 where a condition holds), ``like`` (as precise as another),
  ``precise`` (float64, in which NumPy computes numbers about single nodes), ``is_precise``,
  ``whole`` (integers).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnncal.data import numpy_backend


def backend_of(value: Any) -> Any:
    """Return the operations for a value: an array or a tensor.

    A formula of a :class:`~gnncal.calibrators.Formula` is written with them where NumPy and torch
    spell them differently, such as ``exp``, ``maximum``, ``softplus`` or ``where``.

    Parameters
    ----------
    value : ndarray or Tensor
        What the formula is applied to.

    Returns
    -------
    namespace
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
        return numpy_backend.OPERATIONS
    from gnncal.data import torch_backend

    return torch_backend.OPERATIONS
