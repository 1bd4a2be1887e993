"""Groups of nodes by homophily, and how well each is calibrated."""

import numpy as np
import pytest

import gnncal
from gnncal_lab import neighbour_support
from gnncal_lab.pages.homophily_split import homophily_groups
from tests.metrics.outcomes import top_label

LABELS, PROBS = top_label([0.9, 0.8, 0.7, 0.6, 0.99, 0.5], [0, 1, 1, 1, 1, 0])
HOMOPHILY = [0.1, 0.3, 0.8, 1.0, np.nan, 0.2]


def test_groups_by_hand():
    # Known are 0.1, 0.2, 0.3 | 0.8, 1.0: the first half is rounded up.
    groups = homophily_groups(LABELS, {"raw": PROBS}, HOMOPHILY, n_groups=2)
    np.testing.assert_allclose(groups.lower, [0.0, 0.3])
    np.testing.assert_allclose(groups.upper, [0.3, 1.0])
    np.testing.assert_allclose(groups.homophily, [0.2, 0.9])
    cells = groups.sides["raw"]
    np.testing.assert_array_equal(cells.count, [3, 2])
    np.testing.assert_allclose(cells.confidence, [(0.9 + 0.8 + 0.5) / 3, 0.65])
    np.testing.assert_allclose(cells.accuracy, [1 / 3, 1.0])
    assert groups.n_unknown == 1


def test_nodes_of_equal_homophily_stay_together():
    groups = homophily_groups(LABELS[:4], {"raw": PROBS[:4]}, [0.5, 0.5, 0.5, 0.9], n_groups=4)
    np.testing.assert_array_equal(groups.sides["raw"].count, [3, 1])


def test_every_side_has_the_same_groups():
    sides = {"before": PROBS, "after": gnncal.calibrators.softmax(PROBS)}
    groups = homophily_groups(LABELS, sides, HOMOPHILY)
    assert list(groups.sides) == ["before", "after"]
    np.testing.assert_array_equal(groups.sides["before"].count, groups.sides["after"].count)


@pytest.mark.parametrize(
    ("homophily", "message"),
    [
        ([0.1, 0.2], "homophily has shape"),
        ([np.nan] * 6, "no value"),
        ([0.1, 0.3, 0.8, 1.2, 0.0, 0.2], "outside"),
    ],
)
def test_what_is_no_homophily_is_refused(homophily, message):
    with pytest.raises(gnncal.InputError, match=message):
        homophily_groups(LABELS, {"raw": PROBS}, homophily)


def test_support_counts_senders_and_receivers_of_a_directed_graph():
    graph = gnncal.Graph([[0, 1], [1, 2]], 4)  # 0 -> 1 -> 2, and 3 alone
    probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    support = neighbour_support(np.log(probs), graph)
    np.testing.assert_allclose(support, [0.2, (0.1 + 0.4) / 2, 0.2, np.nan])
