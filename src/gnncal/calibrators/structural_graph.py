"""The structural law with a bias for each class and one more word from the neighbours."""

from __future__ import annotations

from gnncal.calibrators.structural_scores import StructuralScores


class StructuralGraph(StructuralScores):
    r"""The structural law, a bias for each class, and what the neighbours say once more.

    .. math:: p_i = \mathrm{softmax}(z_i / T_i + b + \gamma \ln(\bar p_i + 0.02))

    :math:`\bar p_i` is the mean of the neighbours' probabilities, senders and receivers together.
    One number, :math:`\gamma`, says how much they count. Predictions may change, and often
    become better.
    """

    listens = True
