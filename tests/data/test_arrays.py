"""Small helpers for arrays, held to what NumPy says."""

import numpy as np
import pytest

from gnncal.data.arrays import ROWS_AT_ONCE, row_maxima


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 2, 10, 31, 32, 100])
@pytest.mark.parametrize("n_rows", [0, 1, 7, ROWS_AT_ONCE, ROWS_AT_ONCE + 3])
def test_the_largest_entries_of_rows_are_those_of_numpy(n_rows, n_columns, dtype):
    values = np.random.default_rng(0).normal(size=(n_rows, n_columns)).astype(dtype)
    values[::5, 0] = np.nan
    values[1::5, -1] = np.inf
    for matrix in (values, np.asfortranarray(values), values[::2]):
        found = row_maxima(matrix)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, matrix.max(axis=1))
