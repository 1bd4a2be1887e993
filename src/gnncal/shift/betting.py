r"""Evidence against a claim of calibration that may be looked at after every label.

The claim is that an event has the probability p that was predicted, within a tolerance. A bet
is another probability q. If the event happens, the wealth of the bet is multiplied by q / p', else
by (1 - q) / (1 - p'), with p' the end of the tolerated interval that is nearer to q. If the claim
holds, no bet gains on average, whatever came before. The evidence is the mean wealth over many
bets, each begun at many times:

.. math:: E_t = \sum_b w_b \sum_j v_j \prod_{i > b}^{t} \frac{q_{ij}(y_i)}{p'_{ij}(y_i)}

By Ville's inequality the chance that E ever exceeds 1 / a is at most a if the claim holds. Bets
that begin late keep the evidence alert after a long time in which all was well; a bet that has not
begun keeps its stake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit, logsumexp

from gnncal.data.arrays import BoolArray, FloatArray

GAPS = (0.02, 0.04, 0.07, 0.11, 0.16, 0.24, 0.36)  # bets on p plus or minus so much
LOG_ODDS = (0.3, 0.7, 1.3, 2.0)  # on odds that are so much larger or smaller, as if a rate changed
SLOPES = (0.5, 0.7, 1.4, 2.0)  # on log odds times so much, as if a temperature were wrong
SLOPE_WEIGHT = 0.2  # of all stakes
START = 50  # labels between the times when bets begin
FIRST = 0.5  # share of the stakes that are bet from the first label on
CERTAIN = 1e-3  # nearer to 0 or 1 no probability is taken at its word


class Evidence:
    """Evidence against a claim, for several streams of labels at once."""

    def __init__(
        self,
        n_streams: int = 1,
        *,
        tolerance: float = 0.0,
        rate: tuple[float, float] | None = None,
        only_below: bool = False,
    ):
        self.tolerance, self.only_below = tolerance, only_below
        self.rate = rate  # of the event at the fit, and its standard error
        self.n_labels = 0
        stakes = np.full(len(GAPS), 1.0 / len(GAPS))
        if not only_below:
            n_moves, n_slopes = 2 * (len(GAPS) + len(LOG_ODDS)), len(SLOPES)
            each = [(1.0 - SLOPE_WEIGHT) / n_moves, SLOPE_WEIGHT / n_slopes]
            stakes = np.repeat(each, [n_moves, n_slopes])
        self.log_stakes = np.log(stakes)  # (n_bets,)
        # ln of the wealth of the bets that have begun, (n_streams, n_bets)
        self.log_wealth = np.full((n_streams, self.log_stakes.size), -np.inf)

    def add(self, predicted: FloatArray, observed: BoolArray) -> FloatArray:
        """Take some labels in and return ln E after each of them, (n_streams, n)."""
        evidence = np.empty(predicted.shape)
        done = 0
        while done < predicted.shape[1]:
            if self.n_labels % START == 0:
                begun = np.log(start_prior(self.n_labels // START)) + self.log_stakes
                self.log_wealth = np.logaddexp(self.log_wealth, begun)
            end = min(done + START - self.n_labels % START, predicted.shape[1])
            gains = self._log_gains(predicted[:, done:end], observed[:, done:end])
            wealth = self.log_wealth[:, None, :] + np.cumsum(gains, axis=1)
            kept = np.log(start_survival(self.n_labels // START))
            evidence[:, done:end] = np.logaddexp(logsumexp(wealth, axis=-1), kept)
            self.log_wealth = wealth[:, -1]
            self.n_labels += end - done
            done = end
        return evidence

    def _log_gains(self, predicted: FloatArray, observed: BoolArray) -> FloatArray:
        """Return what each label does to ln wealth of each bet, (n_streams, n, n_bets)."""
        p = predicted[..., None]
        q = np.clip(self._bets(p), CERTAIN / 2, 1.0 - CERTAIN / 2)
        # A wider interval is easier to hold to, so the claim is not made stronger than it is.
        tolerated: Any = self.tolerance
        if self.rate is not None:  # an error of the rate moves larger probabilities by more
            rate, error = self.rate
            tolerated = np.minimum(tolerated, error / rate * np.maximum(p, rate))
        low = np.minimum(p - tolerated, 1.0 - CERTAIN)
        high = np.maximum(p + tolerated, CERTAIN)
        nearer = np.clip(q, low, high)  # q itself where it is tolerated: nothing is bet
        return np.log(np.where(observed[..., None], q / nearer, (1.0 - q) / (1.0 - nearer)))

    def _bets(self, p: FloatArray) -> FloatArray:
        """Return the probabilities (..., n_bets) that are bet on, for p (..., 1)."""
        if self.only_below:
            return p - np.array(GAPS)
        gaps, odds = (np.array([*values, *(-v for v in values)]) for values in (GAPS, LOG_ODDS))
        z = logit(np.clip(p, CERTAIN / 2, 1.0 - CERTAIN / 2))
        return np.concatenate([p + gaps, expit(z + odds), expit(z * np.array(SLOPES))], axis=-1)


def start_prior(start: int) -> float:
    """Return the share of the stakes whose bets begin at a start; 0 is the first label."""
    return FIRST if start == 0 else (1.0 - FIRST) / (start * (start + 1))


def start_survival(start: int) -> float:
    """Return the share of the stakes whose bets begin after a start."""
    return (1.0 - FIRST) / (start + 1)
