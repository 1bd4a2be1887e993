"""One fitted number: its range, what the ends of the range mean, and the solver's coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.core.arrays import FloatArray
from gnncal.core.constraints import Constraint, number

TEMPERATURE_RANGE = (float(np.exp(-5.0)), float(np.exp(5.0)))  # beyond it softmax saturates or ties


@dataclass(frozen=True)
class Parameter:
    """One number that a :class:`ParametricTemperature` fits.

    A number whose lower bound is positive is searched on a logarithmic scale.

    Parameters
    ----------
    name : str
        With a trailing underscore it is the learned attribute.
    lower, upper : float
        Bounds of the fit.
    meaning_of_lower, meaning_of_upper : str
        What it says about the data when the fit ends there.
    simpler_at_lower : bool, default=False
        Whether the lower bound only makes the formula simpler, and is no sign of trouble.

    Examples
    --------
    >>> from gnncal.calibrators import Parameter
    >>> Parameter("slope", -20.0, 20.0, "the temperature falls as steeply as allowed").upper
    20.0

    """

    name: str
    lower: float
    upper: float
    meaning_of_lower: str
    meaning_of_upper: str = "the search stops here; the true optimum lies beyond"
    simpler_at_lower: bool = False

    @property
    def constraint(self) -> Constraint:
        """What a saved value may be; early stopping can end a little outside the bounds."""
        if self.lower > 0:
            return number(above=0, at_most=10 * self.upper)
        return number(at_least=10 * self.lower, at_most=10 * self.upper)

    def is_harmless(self, value: float) -> bool:
        """Return whether a value at a bound only means that a simpler formula is enough.

        Parameters
        ----------
        value : float
            What the fit ended with.

        Returns
        -------
        bool
            False if the bound is a sign of trouble.

        """
        return self.simpler_at_lower and value < self.upper / 2

    def bound_hit(self, value: float) -> str | None:
        """Return what it means that the fit ended at a bound, if it did.

        Parameters
        ----------
        value : float
            What the fit ended with.

        Returns
        -------
        str or None
            The meaning; None inside the bounds.

        """
        if value <= self.lower + 1e-5 * abs(self.lower):
            return f"{self.name} = {value:.4g} at its lower bound ({self.meaning_of_lower})"
        if value >= self.upper - 1e-5 * abs(self.upper):
            return f"{self.name} = {value:.4g} at its upper bound ({self.meaning_of_upper})"
        return None


class Scale:
    """The solver's coordinates: logarithms of the parameters that must be positive."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.logarithmic = np.array([p.lower > 0 for p in parameters])
        self.lower = self.encode(np.array([p.lower for p in parameters]))
        self.upper = self.encode(np.array([p.upper for p in parameters]))

    def encode(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates (..., p) of parameters."""
        return np.log(theta, out=theta.astype(np.float64), where=self.logarithmic)

    def decode(self, code: FloatArray) -> FloatArray:
        """Return the parameters (..., p) of coordinates."""
        return np.exp(code, out=code.copy(), where=self.logarithmic)

    def by_code(
        self, theta: FloatArray, gradient: FloatArray, hessian: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Derivatives by the parameters turned into derivatives by the coordinates."""
        scale = np.where(self.logarithmic, theta, 1.0)  # dtheta/dcode
        gradient = gradient * scale
        hessian = hessian * scale[:, None, :] * scale[:, :, None]
        diagonal = np.eye(len(self.lower)) * self.logarithmic
        return gradient, hessian + gradient[:, None, :] * diagonal
