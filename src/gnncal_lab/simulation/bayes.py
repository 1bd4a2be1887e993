"""The Bayes rule of the contextual stochastic block model, with the symbols of the paper."""

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
    """The Bayes classifier of nodes with a given homophily h.

    The degree d and the composition of every neighbourhood equal their expected values:

    * centred mean of class c: m_c = mu_c - mean(mu), with length rho_0 for every class
    * normalised homophily: h~ = (K h - 1) / (K - 1)
    * signal and variance: Gamma(h) = rho_0 (1 + d h~) / (d + 1) and v = sigma^2 / (d + 1)
    * class-template scores: s_c = m_c . (x_bar - mean(mu)) / rho_0, where x_bar is the mean of the
      features of a node and its neighbours
    * posterior: softmax(Gamma(h) s / v), so T_Bayes(h) = v / Gamma(h) if Gamma(h) > 0

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    mean_degree : float
        Expected number of neighbours d.
    sigma : float
        Standard deviation of every feature.
    rho_0 : float
        The length of m_c: the distance of a class mean from the mean of all class means.

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
        """The variance v of each coordinate of x_bar."""
        return self.sigma**2 / (self.mean_degree + 1.0)

    @property
    def zero_signal(self) -> float:
        """The homophily h_0 where Gamma is zero (h~ = -1/d); negative if h cannot be that low."""
        if self.mean_degree == 0:
            return -np.inf
        return (1.0 - (self.n_classes - 1.0) / self.mean_degree) / self.n_classes

    def signal(self, homophily: Any) -> FloatArray:
        """Return the signal Gamma(h), which is negative in strong heterophily.

        Parameters
        ----------
        homophily : float or array_like
            Homophily h in [0, 1].

        """
        normalised = normalised_homophily(check_homophily(homophily), self.n_classes)
        return self.rho_0 * (1.0 + self.mean_degree * normalised) / (self.mean_degree + 1.0)

    def is_positive(self, homophily: Any) -> BoolArray:
        """Return whether Gamma(h) > 0, so that a positive temperature is Bayes-optimal.

        Parameters
        ----------
        homophily : float or array_like
            Homophily h in [0, 1].

        """
        return self.signal(homophily) > 0

    def check_positive(self, homophily: Any) -> None:
        """Raise an InputError unless Gamma(h) > 0 for all given h.

        Parameters
        ----------
        homophily : float or array_like
            Homophily h in [0, 1].

        """
        if not self.is_positive(homophily).all():
            raise InputError(
                f"some homophily is not above h_0 = {self.zero_signal:.3f}, where the signal "
                "is zero; no positive temperature is optimal there, so take larger values."
            )

    def inverse_temperature(self, homophily: Any) -> FloatArray:
        """Return Gamma(h) / v; negative values reverse the order of the scores.

        Parameters
        ----------
        homophily : float or array_like
            Homophily h in [0, 1].

        """
        return self.signal(homophily) / self.v

    def temperature(self, homophily: Any) -> FloatArray:
        """Return the Bayes temperature T_Bayes(h) = v / Gamma(h); NaN unless Gamma(h) > 0.

        Parameters
        ----------
        homophily : float or array_like
            Homophily h in [0, 1].

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
            Homophily h in [0, 1].

        """
        exponent = self.inverse_temperature(homophily).reshape(-1, 1) * scores
        weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def correctness(self, homophily: Any) -> FloatArray:
        """Return q(h) = Phi(Gamma(h) / sqrt(v)), the accuracy of the larger score of two classes.

        Parameters
        ----------
        homophily : float or array_like
            Homophily h in [0, 1].

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
    """Return one or more homophilies, as float64."""
    h = as_numpy(homophily).astype(np.float64)
    if h.size == 0 or not np.isfinite(h).all() or h.min() < 0 or h.max() > 1:
        raise InputError("homophily must be one or more shares in [0, 1].")
    return h


def check_node_homophily(homophily: Any) -> FloatArray:
    """Return the homophily of every node, shape (n_nodes,), as float64."""
    h = check_homophily(homophily)
    if h.ndim != 1:
        raise InputError(
            f"homophily has shape {h.shape}, expected (n_nodes,): pass one homophily for each "
            "node, np.full(n_nodes, 0.7)."
        )
    return h
