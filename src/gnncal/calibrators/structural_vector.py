"""The structural law with a bias for each class."""

from __future__ import annotations

from gnncal.calibrators.structural_scores import StructuralScores


class StructuralVector(StructuralScores):
    r"""The structural law and a bias for each class, fitted together.

    .. math:: p_i = \mathrm{softmax}(z_i / T_i + b)

    The bias corrects classes that the model favours or neglects, so predictions may change. A
    prior keeps it small where the calibration nodes do not ask for it.
    """

    listens = False
