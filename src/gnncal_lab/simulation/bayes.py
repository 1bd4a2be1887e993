"""The Bayes rule of the contextual stochastic block model, in the letters of the paper.

With the degree d and the composition of a neighbourhood at their expected values:

* m_c = mu_c - mean(mu), rho_0 = |m_c|, the same for every class
* h~ = (K h - 1) / (K - 1), v = sigma^2 / (d + 1), Gamma(h) = rho_0 (1 + d h~) / (d + 1)
* s_c = m_c . (x_bar - mean(mu)) / rho_0, the class-template scores of the aggregate x_bar over a
  node and its neighbours
* P(Y = c | s, h) = softmax(Gamma(h) s / v)_c, so T_Bayes(h) = v / Gamma(h) where Gamma(h) > 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from gnncal.data.arrays import BoolArray, FloatArray, as_numpy
from gnncal.data.errors import InputError
from gnncal.data.probability import normalised_homophily


@dataclass(frozen=True)
class BayesRule:
    """The Bayes classifier of nodes of a given homophily.

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    mean_degree : float
        Expected number of neighbours d.
    sigma : float
        Standard deviation of every feature.
    rho_0 : float
        The length of m_c, the distance of a class mean from the centre of all class means.

    References
    ----------
    Tae, Hwang, Lee, homophily-aware temperature scaling (NeurIPS 2026).

    Examples
    --------
    The Bayes temperature falls with homophily:

    >>> from gnncal_lab.simulation import BayesRule
    >>> rule = BayesRule(n_classes=3, mean_degree=10, sigma=1, rho_0=1)
    >>> rule.temperature([0.4, 0.6, 0.9]).round(2)
    array([0.5 , 0.2 , 0.11])

    """

    n_classes: int
    mean_degree: float
    sigma: float
    rho_0: float

    @property
    def v(self) -> float:
        """The variance of a coordinate of the aggregate."""
        return self.sigma**2 / (self.mean_degree + 1.0)

    @property
    def zero_signal(self) -> float:
        """h_0, where Gamma changes its sign: h~ = -1/d. Negative where no h is that low."""
        if self.mean_degree == 0:
            return -np.inf
        return (1.0 - (self.n_classes - 1.0) / self.mean_degree) / self.n_classes

    def signal(self, homophily: Any) -> FloatArray:
        """Return Gamma(h), the strength of the signal; negative in strong heterophily.

        Parameters
        ----------
        homophily : float or array_like
            Shares in [0, 1].

        Returns
        -------
        ndarray
            Gamma(h), of the same shape.

        """
        normalised = normalised_homophily(check_homophily(homophily), self.n_classes)
        return self.rho_0 * (1.0 + self.mean_degree * normalised) / (self.mean_degree + 1.0)

    def is_positive(self, homophily: Any) -> BoolArray:
        """Say whether h lies in H_+ = {h : Gamma(h) > 0}, where a temperature can be Bayes-optimal.

        Parameters
        ----------
        homophily : float or array_like
            Shares in [0, 1].

        Returns
        -------
        ndarray of bool
            Whether the signal is positive.

        """
        return self.signal(homophily) > 0

    def check_positive(self, homophily: Any) -> None:
        """Refuse homophily at which no positive temperature is optimal.

        Parameters
        ----------
        homophily : float or array_like
            Shares in [0, 1].

        Raises
        ------
        InputError
            If the signal is not positive somewhere.

        """
        if not self.is_positive(homophily).all():
            raise InputError(
                f"some homophily is not above h_0 = {self.zero_signal:.3f}, where the signal "
                "vanishes; there no positive temperature is optimal, take larger values."
            )

    def inverse_temperature(self, homophily: Any) -> FloatArray:
        """Return Gamma(h) / v, signed: below zero the scores' order is reversed.

        Parameters
        ----------
        homophily : float or array_like
            Shares in [0, 1].

        Returns
        -------
        ndarray
            Inverse temperatures, of the same shape.

        """
        return self.signal(homophily) / self.v

    def temperature(self, homophily: Any) -> FloatArray:
        """Return the Bayes temperature T_Bayes(h) = v / Gamma(h).

        Parameters
        ----------
        homophily : float or array_like
            Shares in [0, 1].

        Returns
        -------
        ndarray
            Temperatures; NaN where no positive temperature is optimal.

        """
        inverse = self.inverse_temperature(homophily)
        return np.divide(1.0, inverse, out=np.full_like(inverse, np.nan), where=inverse > 0)

    def posterior(self, scores: FloatArray, homophily: Any) -> FloatArray:
        """Return the Bayes posterior softmax(Gamma(h) s / v) of the class-template scores.

        Parameters
        ----------
        scores : array_like of shape (n_nodes, n_classes)
            Class-template scores s.
        homophily : float or array_like of shape (n_nodes,)
            Shares in [0, 1].

        Returns
        -------
        ndarray of shape (n_nodes, n_classes)
            Probabilities; rows sum to one.

        """
        exponent = self.inverse_temperature(homophily).reshape(-1, 1) * scores
        weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def correctness(self, homophily: Any) -> FloatArray:
        """Return q(h) = Phi(Gamma(h) / sqrt v), how often the largest of two scores is right.

        Parameters
        ----------
        homophily : float or array_like
            Shares in [0, 1].

        Returns
        -------
        ndarray
            Probabilities of a correct prediction.

        Raises
        ------
        InputError
            If there are more than two classes.

        """
        if self.n_classes != 2:
            raise InputError(f"q(h) is a normal integral for 2 classes only, not {self.n_classes}.")
        return np.asarray(ndtr(self.signal(homophily) / np.sqrt(self.v)))


def template_scores(aggregate: Any, means: FloatArray) -> FloatArray:
    """s_c = m_c . (x_bar - mean(mu)) / rho_0 of aggregates (n, F), for class means (K, F)."""
    centre = means.mean(axis=0)
    templates = means - centre
    rho_0 = np.linalg.norm(templates[0])
    return (as_numpy(aggregate) - centre) @ templates.T / rho_0


def check_homophily(homophily: Any) -> FloatArray:
    """One or more shares, as float64."""
    h = as_numpy(homophily).astype(np.float64)
    if h.size == 0 or not np.isfinite(h).all() or h.min() < 0 or h.max() > 1:
        raise InputError("homophily must be one or more shares in [0, 1].")
    return h


def check_node_homophily(homophily: Any) -> FloatArray:
    """One share for every node, shape (n_nodes,), as float64."""
    h = check_homophily(homophily)
    if h.ndim != 1:
        raise InputError(
            f"homophily has shape {h.shape}, expected (n_nodes,): pass one homophily for each "
            "node, np.full(n_nodes, 0.7)."
        )
    return h
