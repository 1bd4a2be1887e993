"""Residuals smoothed along the confidence axis: the kernel of the smooth calibration error."""

from __future__ import annotations

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize.elementwise import find_root

from gnncal.core.arrays import FloatArray, IntArray

N_CELLS = 1000  # resolution, far finer than the bandwidths that are picked


def smoothing_cell(confidence: FloatArray) -> IntArray:
    """Return the cell of the confidence axis that each residual falls into."""
    return np.minimum((confidence * N_CELLS).astype(np.int64), N_CELLS - 1)


def spectrum_of(mass: FloatArray) -> FloatArray:
    """Cosine transform of residuals summed by cell, each column of (N_CELLS, n_draws)."""
    return dct(mass, type=2, norm="ortho", axis=0)


def smoothed(spectrum: FloatArray, bandwidth: FloatArray | float) -> FloatArray:
    """Return the residuals by cell after smoothing with a Gaussian reflected at 0 and 1."""
    frequency = np.pi * np.arange(N_CELLS)[:, None]
    damping = np.exp(-0.5 * (bandwidth * frequency) ** 2)
    return idct(spectrum * damping, type=2, norm="ortho", axis=0)


def smooth_error(mass: FloatArray) -> FloatArray:
    """The bandwidth that equals the size of the smoothed residuals, for each column of mass."""
    spectrum = spectrum_of(mass)

    def excess(bandwidth: FloatArray, column: IntArray) -> FloatArray:
        return np.abs(smoothed(spectrum[:, column], bandwidth)).sum(axis=0) - bandwidth

    columns = np.arange(mass.shape[1])
    saturated = excess(np.ones(len(columns)), columns) >= 0
    roots = find_root(excess, (0.0, 1.0), args=(columns,), tolerances={"xatol": 1e-9}).x
    return np.where(saturated, 1.0, roots)
