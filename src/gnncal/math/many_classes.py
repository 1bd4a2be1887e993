"""The affine fit with a full matrix for many classes: Newton's method in the row space."""

from __future__ import annotations

import numpy as np

from gnncal.data.arrays import FloatArray, IntArray
from gnncal.math.losses import loss_and_residual
from gnncal.math.solvers import Solution

MAX_STEPS = 200  # of Newton's method; a few dozen are usual
MAX_PRODUCTS = 20_000  # with the Hessian, in all steps together
SCALED_GRADIENT = 1e-7  # by parameters scaled to curvature one at the start
SMALL_SHARE = 1e-3  # of the penalty off the diagonal, which a smaller gradient is as good as none
GRADIENT_TOLERANCE = 1e-5  # of the gradient itself: below it, the end counts as the minimum


class RowSpaceLoss:
    r"""The penalised loss of :math:`\mathrm{softmax}(x + \Delta x + b)` in few coordinates.

    .. math:: \Delta = B V - \mathrm{diag}(B V) + \mathrm{diag}(d)

    """

    def __init__(
        self,
        x: FloatArray,
        labels: IntArray,
        weights: FloatArray | None = None,
        *,
        diagonal: float,
        off_diagonal: float,
        mu: float,
    ) -> None:
        self.x = x.astype(np.float64)  # (n, K)
        self.labels, self.weights = labels, weights
        # What a row's part in a mean is divided by: one number, or one for each row with weights.
        self.divisor = len(labels) if weights is None else weights.sum() / weights[:, None]
        left, size, self.basis = np.linalg.svd(self.x, full_matrices=False)
        self.left = left * size  # L, (n, r)
        self.diagonal, self.off_diagonal, self.mu = diagonal, off_diagonal, mu

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the penalised loss and its gradient."""
        loss, residual = loss_and_residual(self.x + self._moves(theta), self.labels, self.weights)
        penalty = self._penalty_slope(theta)
        return loss + float(penalty @ theta) / 2.0, self._back(residual) + penalty

    def hessian_product(self, probs: FloatArray, direction: FloatArray) -> FloatArray:
        """The Hessian times a direction, where the model's probabilities (n, K) are these."""
        moved = self._moves(direction)
        by_scores = probs * (moved - (probs * moved).sum(axis=1, keepdims=True)) / self.divisor
        return self._back(by_scores) + self._penalty_slope(direction)

    def probabilities(self, theta: FloatArray) -> FloatArray:
        """Return the model's probabilities (n, K)."""
        scores = self.x + self._moves(theta)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        return np.divide(scores, scores.sum(axis=1, keepdims=True), out=scores)

    def scale(self) -> FloatArray:
        """One over the root of the Hessian's diagonal at the start, about."""
        probs = self.probabilities(np.zeros(self.n_parameters))
        weights = probs * (1.0 - probs) / self.divisor
        curvature = (
            weights.T @ self.left**2 + 2.0 * self.off_diagonal,
            (weights * self.x**2).sum(axis=0) + 2.0 * self.diagonal,
            weights.sum(axis=0) + 2.0 * self.mu,
        )
        return 1.0 / np.sqrt(np.concatenate([part.ravel() for part in curvature]))

    @property
    def n_parameters(self) -> int:
        """(r + 2) K."""
        return (len(self.basis) + 2) * self.x.shape[1]

    def change_and_bias(self, theta: FloatArray) -> FloatArray:
        """(Δ, b), flattened, shape (K² + K,)."""
        by_basis, diagonal, bias = self._split(theta)
        change = by_basis @ self.basis
        np.fill_diagonal(change, diagonal)
        return np.append(change.ravel(), bias)

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        n_classes = self.x.shape[1]
        flat, diagonal, bias = np.split(theta, [-2 * n_classes, -n_classes])
        return flat.reshape(n_classes, -1), diagonal, bias

    def _moves(self, theta: FloatArray) -> FloatArray:
        """Δ x + b of each row, (n, K)."""
        by_basis, diagonal, bias = self._split(theta)
        hidden = np.einsum("kr,rk->k", by_basis, self.basis)  # the diagonal of B V
        return self.left @ by_basis.T + self.x * (diagonal - hidden) + bias

    def _back(self, by_scores: FloatArray) -> FloatArray:
        """Derivatives by theta, from those by the scores (n, K)."""
        by_diagonal = (by_scores * self.x).sum(axis=0)
        by_basis = by_scores.T @ self.left - by_diagonal[:, None] * self.basis.T
        return np.concatenate([by_basis.ravel(), by_diagonal, by_scores.sum(axis=0)])

    def _penalty_slope(self, theta: FloatArray) -> FloatArray:
        by_basis, diagonal, bias = self._split(theta)
        hidden = np.einsum("kr,rk->k", by_basis, self.basis)
        off_diagonal = 2.0 * self.off_diagonal * (by_basis - hidden[:, None] * self.basis.T)
        slopes = (off_diagonal.ravel(), 2.0 * self.diagonal * diagonal, 2.0 * self.mu * bias)
        return np.concatenate(slopes)


def fit_matrix(loss: RowSpaceLoss) -> Solution:
    """Newton's method with conjugate gradients, within a fixed number of products."""
    scale, n_products = loss.scale(), 0
    # A weak penalty leaves the loss flat, where a small gradient may still be far from the end.
    gradient_limit = min(SCALED_GRADIENT, SMALL_SHARE * loss.off_diagonal)
    at = np.full(loss.n_parameters, np.nan)  # where the probabilities below belong
    probs: FloatArray = np.empty((0, 0))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss.value_and_gradient(theta * scale)
        return value, gradient * scale

    def product(theta: FloatArray, direction: FloatArray) -> FloatArray:
        nonlocal n_products, probs
        n_products += 1
        if not np.array_equal(theta, at):
            at[...], probs = theta, loss.probabilities(theta * scale)
        return scale * loss.hessian_product(probs, direction * scale)

    def stop_after_enough(_: FloatArray) -> None:
        if n_products > MAX_PRODUCTS:
            raise StopIteration

    from scipy.optimize import minimize  # here because it takes long to import

    result = minimize(
        objective,
        np.zeros(loss.n_parameters),
        jac=True,
        hessp=product,
        method="trust-ncg",
        callback=stop_after_enough,
        options={"gtol": gradient_limit, "maxiter": MAX_STEPS},
    )
    theta = result.x * scale
    value, gradient = loss.value_and_gradient(theta)
    converged = bool(np.abs(gradient).max() < GRADIENT_TOLERANCE)
    return Solution(loss.change_and_bias(theta), value, int(result.nit), converged)
