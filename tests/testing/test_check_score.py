"""``check_score`` passes what keeps the laws and names the law that is broken."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import gnncal
from gnncal.calibrators import number
from gnncal.decisions import ConformalScore
from gnncal.testing import check_score


@dataclass(frozen=True)
class Improbability(ConformalScore):
    """One minus the probability: a fair score that is not in the table."""

    power: float = 1.0

    constraints: ClassVar[dict] = {"power": number(above=0)}

    def scores(self, probs, uniform, graph):
        return (1 - probs) ** self.power


class HasNaN(Improbability):
    def scores(self, probs, uniform, graph):
        return np.where(probs == probs.max(), np.nan, 1 - probs)


class Draws(Improbability):
    def scores(self, probs, uniform, graph):
        return 1 - probs + np.random.default_rng().uniform(0, 0.01, probs.shape)


class Overwrites(Improbability):
    def scores(self, probs, uniform, graph):
        probs *= -1
        return 1 + probs


class KnowsPlaces(Improbability):
    def scores(self, probs, uniform, graph):
        return 1 - probs + np.linspace(0, 1, len(probs))[:, None]


class LikesClassZero(Improbability):
    def scores(self, probs, uniform, graph):
        return 1 - probs - 0.5 * (np.arange(probs.shape[1]) == 0)


class UpsideDown(Improbability):
    def scores(self, probs, uniform, graph):
        return probs


class HidesItsGraph(Improbability):
    def scores(self, probs, uniform, graph):
        return 1 - probs if graph is None else graph.in_degree[:, None] + 1 - probs


class NeedsButIgnores(Improbability):
    needs_graph = True


@dataclass(frozen=True)
class Unchecked(Improbability):
    offset: float = 0.0


class Forgetful(Improbability):
    """Scores the calibration nodes, which come first, otherwise than the others."""

    calls: ClassVar[list] = []

    def scores(self, probs, uniform, graph):
        self.calls.append(1)
        return 1 - probs if len(self.calls) % 2 else 2 - probs


BROKEN = {
    HasNaN: "it is one finite number for each node and class",
    Draws: "scoring twice gives the same to the bit",
    Overwrites: "inputs are not mutated",
    KnowsPlaces: "renumbering nodes commutes with scoring",
    LikesClassZero: "relabelling classes commutes with scoring",
    UpsideDown: "a more probable class of a node alone never scores worse",
    HidesItsGraph: "it says whether it looks at the graph",
    NeedsButIgnores: "it says whether it looks at the graph",
    Unchecked: "a field that cannot be used is named",
    Forgetful: "sets have the true class as often as asked",
}


def test_a_fair_score_of_ones_own_keeps_every_law():
    check_score(Improbability)
    check_score(Improbability(power=2.0))


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_law_is_named(kind):
    with pytest.raises(AssertionError, match=f"{kind.__name__} breaks .*(\n.*)*{BROKEN[kind]}: "):
        check_score(kind)


def test_what_is_no_score_or_no_law_is_refused():
    with pytest.raises(gnncal.InputError, match="no score; derive"):
        check_score("aps")
    with pytest.raises(gnncal.InputError, match=r"no law 'x'.*gnncal\.testing\.SCORE_LAWS"):
        check_score(Improbability, expected_failures={"x": "because"})


def test_a_law_that_cannot_hold_is_excused_with_its_reason():
    check_score(
        LikesClassZero,
        expected_failures={
            BROKEN[LikesClassZero]: "it is about class 0",
            BROKEN[UpsideDown]: "the same",
        },
    )
