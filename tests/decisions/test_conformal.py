import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone

from gnncal import GnncalWarning, Graph, InputError
from gnncal.decisions import ConformalClassifier, hold_out
from gnncal.decisions.scores import aps, daps, raps
from gnncal.decisions.sets import conformal_quantile, fewest_calibration

N_NODES, N_CLASSES = 200, 4
SPLITS = 1000
CASES = [("aps", 99), ("raps", 50), ("daps", 99), ("snaps", 99)]  # 90 of 100, and 46 of 51


def pool(seed=0, n_nodes=N_NODES):
    """An overconfident model on a graph in which neighbours tend to be of one class."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(N_CLASSES, size=n_nodes)
    logits = 2.0 * np.eye(N_CLASSES)[labels] + 1.5 * generator.normal(size=(n_nodes, N_CLASSES))
    probs = np.exp(2.0 * logits)
    edges = generator.integers(n_nodes, size=(2, 6 * n_nodes))
    edges = edges[:, (labels[edges[0]] == labels[edges[1]]) | (generator.random(6 * n_nodes) < 0.2)]
    features = np.eye(N_CLASSES)[labels] + generator.normal(size=(n_nodes, N_CLASSES))
    graph = Graph(np.concatenate([edges, edges[::-1]], axis=1), n_nodes, features)
    return probs / probs.sum(axis=1, keepdims=True), labels, graph


def not_random(score):
    """Return the score without random numbers."""
    return lambda probs, uniform, graph, **params: score(probs, 0 * uniform, graph, **params)


def covered(sets, labels, nodes):
    return sets[nodes, labels[nodes]].mean()


@pytest.mark.parametrize(("score", "n"), CASES)
def test_marginal_coverage_over_a_thousand_splits_is_exact(score, n):
    # With scores that have no ties, the rank of a new score among n + 1 is uniform. The number of
    # covered nodes among m others is then beta-binomial, over the draw of the calibration nodes.
    probs, labels, graph = pool()
    rank, m = int(np.ceil(0.9 * (n + 1) - 1e-9)), N_NODES - n
    generator = np.random.default_rng(1)
    conformal = ConformalClassifier(coverage=0.9, score=score, nonempty=False, random_state=0)
    shares = []
    for _ in range(SPLITS):
        order = generator.permutation(N_NODES)
        conformal.fit(probs, labels, graph, calibration_nodes=order[:n])
        shares.append(covered(conformal.predict_set(probs, graph), labels, order[n:]))
    law = stats.betabinom(m, rank, n + 1 - rank)
    margin = 4 * law.std() / m / np.sqrt(SPLITS)
    assert 0.9 <= rank / (n + 1) < 0.9 + 1 / (n + 1)
    assert abs(np.mean(shares) - rank / (n + 1)) < margin
    # and not only its mean: the shares have this law (0.078 is passed once in 100,000)
    counts = np.arange(m + 1)
    seen = np.searchsorted(np.sort(np.rint(np.multiply(shares, m))), counts, side="right") / SPLITS
    assert np.abs(seen - law.cdf(counts)).max() < 0.078


def test_without_randomisation_coverage_is_at_least_what_was_asked():
    probs, labels, _ = pool()
    generator = np.random.default_rng(2)
    conformal = ConformalClassifier(score=not_random(aps))
    shares = []
    for _ in range(200):
        order = generator.permutation(N_NODES)
        sets = conformal.fit(probs, labels, calibration_nodes=order[:80]).predict_set(probs)
        shares.append(covered(sets, labels, order[80:]))
    assert np.mean(shares) > 0.9


def test_scores_of_one_node_by_hand():
    probs, u = np.array([[0.2, 0.5, 0.3]]), np.array([0.5])
    # ranks: class 1, class 2, class 0; sums 0.5, 0.8, 1.0
    plain = [1.0 - 0.1, 0.5 - 0.25, 0.8 - 0.15]
    np.testing.assert_allclose(aps(probs, u, None)[0], plain)
    np.testing.assert_allclose(aps(probs, 0 * u, None)[0], [1.0, 0.5, 0.8])
    penalised = [plain[0] + 2 * 0.2, plain[1], plain[2] + 0.2]
    np.testing.assert_allclose(raps(probs, u, None, k_reg=1, lambda_reg=0.2)[0], penalised)
    np.testing.assert_allclose(raps(probs, u, None, lambda_reg=0)[0], plain)


def test_diffused_scores_of_a_path_by_hand():
    # 0 - 1 - 2 and 3 alone; class scores without randomisation are the sums of sorted mass.
    probs = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.5, 0.5]])
    own = np.array([[0.9, 1.0], [1.0, 0.6], [0.7, 1.0], [0.5, 1.0]])
    path = Graph([[0, 1, 1, 2, 1], [1, 0, 2, 1, 1]], 4)  # the loop at 1 plays no part
    expected = [
        0.75 * own[0] + 0.25 * own[1],
        0.75 * own[1] + 0.25 * (own[0] + own[2]) / 2,
        0.75 * own[2] + 0.25 * own[1],
        own[3],
    ]
    params = {"diffusion": 0.25}
    np.testing.assert_allclose(daps(probs, np.zeros(4), path, **params), expected)
    directed = Graph([[0, 1], [1, 2]], 4)  # either end of an edge is a neighbour of the other
    np.testing.assert_allclose(daps(probs, np.zeros(4), directed, **params), expected)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.8, 0.95]))
def test_a_straight_line_reimplementation_gives_the_same_sets(seed, coverage):
    probs, labels, graph = pool(seed, 40)
    conformal = ConformalClassifier(
        coverage=coverage,
        score=not_random(daps),
        score_params={"diffusion": 0.4},
        nonempty=False,
    )
    own = np.zeros((40, N_CLASSES))
    for i, row in enumerate(probs):
        for c in range(N_CLASSES):
            before = [row[k] for k in range(N_CLASSES) if row[k] > row[c]]
            own[i, c] = sum(before) + row[c]
    diffused = own.copy()
    senders, receivers = graph.edge_index
    for i in range(40):
        near = [s for s, r in zip(senders, receivers, strict=True) if r == i and s != i]
        if near:
            diffused[i] = 0.6 * own[i] + 0.4 * np.mean([own[j] for j in near], axis=0)
    calibration = sorted(diffused[i, labels[i]] for i in range(20))
    rank = int(np.ceil(21 * coverage - 1e-9))
    threshold = calibration[rank - 1] if rank <= 20 else np.inf
    conformal.fit(probs, labels, graph, calibration_nodes=np.arange(20))
    assert conformal.threshold_ == pytest.approx(threshold)
    clear = np.abs(diffused - threshold) > 1e-9
    sets = conformal.predict_set(probs, graph)
    np.testing.assert_array_equal(sets[clear], (diffused <= threshold)[clear])


@pytest.mark.parametrize("score", [aps, raps, daps])
def test_without_random_numbers_relabelling_nodes_commutes(score):
    probs, labels, graph = pool()
    order = np.random.default_rng(3).permutation(N_NODES)
    place = np.argsort(order)
    moved = Graph(place[graph.edge_index], N_NODES)
    nodes = np.arange(N_NODES) < 100
    conformal = ConformalClassifier(score=not_random(score))
    sets = conformal.fit(probs, labels, graph, calibration_nodes=nodes).predict_set(probs, graph)
    conformal.fit(probs[order], labels[order], moved, calibration_nodes=nodes[order])
    np.testing.assert_array_equal(conformal.predict_set(probs[order], moved), sets[order])


def test_the_same_seed_gives_the_same_sets_and_another_seed_others():
    probs, labels, _ = pool()
    nodes = np.arange(100)

    def sets(seed):
        return (
            ConformalClassifier(score="aps", random_state=seed)
            .fit(probs, labels, calibration_nodes=nodes)
            .predict_set(probs)
        )

    np.testing.assert_array_equal(sets(4), sets(4))
    assert (sets(4) != sets(5)).any()


@pytest.mark.parametrize(
    ("broken", "match"),
    [
        (lambda s: np.where(np.arange(len(s))[:, None] == 7, np.nan, s), "or NaN"),
        (lambda s: s[:, 0], r"have shape \(200,\)"),
        (lambda s: s.astype(str), "dtype <U"),
        (lambda s: s + 0j, "dtype complex128"),
    ],
)
def test_a_score_that_is_no_number_for_each_class_is_refused(broken, match):
    probs, labels, _ = pool()
    conformal = ConformalClassifier(score=lambda *given: broken(aps(*given)), random_state=0)
    with pytest.raises(InputError, match=f"the scores .*{match}"):
        conformal.fit(probs, labels, calibration_nodes=range(len(probs)))
    conformal.set_params(score=aps).fit(probs, labels, calibration_nodes=range(len(probs)))
    conformal.score = lambda *given: broken(aps(*given))
    with pytest.raises(InputError, match="the scores "):
        conformal.predict_set(probs)


def test_filling_empty_sets_adds_the_predicted_class_and_nothing_else():
    probs, labels, _ = pool()
    nodes = np.arange(150)
    may_be_empty = ConformalClassifier(coverage=0.5, nonempty=False, random_state=0).fit(
        probs, labels, calibration_nodes=nodes
    )
    filled = (
        clone(may_be_empty).set_params(nonempty=True).fit(probs, labels, calibration_nodes=nodes)
    )
    before, after = may_be_empty.predict_set(probs), filled.predict_set(probs)
    empty = ~before.any(axis=1)
    assert empty.any()
    np.testing.assert_array_equal(before[~empty], after[~empty])
    np.testing.assert_array_equal(after[empty].sum(axis=1), 1)
    np.testing.assert_array_equal(after[empty].argmax(axis=1), probs[empty].argmax(axis=1))


def test_too_few_calibration_nodes_give_full_sets_and_a_warning():
    probs, labels, _ = pool()
    conformal = ConformalClassifier(coverage=0.9, random_state=0)
    with pytest.warns(GnncalWarning, match="8 calibration nodes are too few .* at least 9"):
        conformal.fit(probs[:8], labels[:8], calibration_nodes=range(len(probs[:8])))
    assert conformal.predict_set(probs).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            conformal.fit(probs[:9], labels[:9], calibration_nodes=range(len(probs[:9]))).threshold_
            < np.inf
        )


def test_the_quantile_is_the_rank_of_n_plus_one():
    scores = np.array([0.5, 0.1, 0.9, 0.3])
    assert conformal_quantile(scores, 0.8) == 0.9  # ceil(5 * 0.8) = 4
    assert conformal_quantile(scores, 0.6) == 0.5
    assert conformal_quantile(scores, 0.81) == np.inf
    assert [fewest_calibration(c) for c in (0.5, 0.9, 0.95, 0.99)] == [1, 9, 19, 99]


def test_labels_outside_the_calibration_nodes_never_matter():
    probs, labels, graph = pool()
    nodes, hidden = np.arange(100), np.where(np.arange(N_NODES) < 100, labels, -1)
    conformal = ConformalClassifier(score="daps", random_state=0)
    first = conformal.fit(probs, labels, graph, calibration_nodes=nodes).threshold_
    assert conformal.fit(probs, hidden, graph, calibration_nodes=nodes).threshold_ == first


def test_scikit_learn_conventions_hold():
    conformal = ConformalClassifier(score="raps", score_params={"k_reg": 2})
    assert clone(conformal).get_params() == conformal.get_params()
    assert "score_params={'k_reg': 2}" in repr(conformal)
    with pytest.raises(Exception, match="not fitted"):
        conformal.predict_set([[0.5, 0.5]])


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"coverage": 1.0}, "coverage is 1"),
        ({"score": "lca"}, "score is 'lca'; expected 'lac', "),
        ({"score": "raps", "score_params": {"lambda_reg": np.nan}}, "expected a number"),
        ({"score": "daps", "score_params": {"k_reg": 1}}, "daps has no parameter 'k_reg'"),
        ({"score": "lac", "score_params": {"k_reg": 1}}, "lac has no parameter"),
        ({"score_params": 3}, "score_params is 3; expected a dictionary"),
        ({"random_state": -1}, "random_state is -1"),
        ({"nonempty": 1}, "nonempty is 1"),
    ],
)
def test_parameters_out_of_range_are_refused(params, match):
    probs, labels, graph = pool()
    with pytest.raises(InputError, match=match):
        ConformalClassifier(**params).fit(probs, labels, graph, calibration_nodes=range(len(probs)))


def test_hostile_input_is_refused_with_one_sentence():
    probs, labels, graph = pool()
    daps = ConformalClassifier(score="daps", random_state=0)
    with pytest.raises(InputError, match="needs a graph; pass that"):
        daps.fit(probs, labels, calibration_nodes=range(len(probs)))
    with pytest.raises(InputError, match="the graph has 200 nodes"):
        daps.fit(probs[:100], labels[:100], graph, calibration_nodes=range(len(probs[:100])))
    for label in (-2, 2**64 - 1, 1e300):  # only -1 means unknown
        other = labels.astype(np.uint64 if label == 2**64 - 1 else float)
        other[3] = label
        with pytest.raises(InputError, match=r"lie outside|which is not a class"):
            daps.fit(probs, other, graph, calibration_nodes=range(len(probs)))
    daps.fit(probs, labels, graph, calibration_nodes=range(len(probs)))
    with pytest.raises(InputError, match="needs a graph; pass that"):
        daps.predict_set(probs)
    with pytest.raises(InputError, match="3 columns"):
        daps.predict_set([[0.2, 0.3, 0.5]], graph)
    with pytest.raises(InputError, match="negative"):
        daps.fit(probs - 0.5, labels, graph, calibration_nodes=range(len(probs - 0.5)))


@given(st.integers(2, 60), st.integers(0, 1000))
def test_held_out_nodes_and_the_rest_are_a_partition(n, seed):
    nodes = np.random.default_rng(seed).choice(500, size=n, replace=False)
    rest, held = hold_out(nodes, share=0.5, random_state=seed)
    assert abs(len(rest) - len(held)) <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate([rest, held])), np.sort(nodes))
    mask = np.zeros(500, dtype=bool)
    mask[nodes] = True
    np.testing.assert_array_equal(hold_out(mask, random_state=seed)[1], held)


def test_a_single_node_cannot_be_split():
    with pytest.raises(InputError, match="1 labelled nodes cannot be split"):
        hold_out([4])
    with pytest.raises(InputError, match="0 labelled nodes cannot be split"):
        hold_out([])
    with pytest.raises(InputError, match="share is 1"):
        hold_out([1, 2], share=1)
    for nodes in (None, {}, "x", [0.5, 1.5], [[1], [2, 3]], object()):
        with pytest.raises(InputError):
            hold_out(nodes)


def test_a_pytorch_geometric_graph_gives_the_same_sets():
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    generator = np.random.default_rng(0)
    edges = generator.integers(60, size=(2, 200))
    probs = generator.dirichlet([1, 1, 1], size=60)
    labels = generator.integers(3, size=60)
    data = pyg.Data(edge_index=torch.as_tensor(edges), num_nodes=60)
    sets = [
        ConformalClassifier(score="daps", random_state=0)
        .fit(probs, labels, graph, calibration_nodes=range(30))
        .predict_set(probs, graph)
        for graph in (Graph(edges, 60), data)
    ]
    np.testing.assert_array_equal(*sets)


@pytest.mark.parametrize("way", ["rows", "graph", "ids"])
def test_nine_tied_calibration_nodes_cover_as_often_as_asked(way):
    # With one seed for all fits, the first nine nodes had the same numbers in each: 0.79.
    generator, covered, n = np.random.default_rng(0), [], 9
    for draw in range(500):
        probs = np.tile([1.0, 0.0], (n + 20, 1))
        labels = np.zeros(n + 20, dtype=int)
        labels[generator.random(n + 20) < 0.05] = 1
        conformal = ConformalClassifier(0.9, score="aps", nonempty=False)
        if way == "graph":
            sets = conformal.fit(probs, labels, calibration_nodes=range(n)).predict_set(probs)[n:]
        else:
            ids = [None, None] if way == "rows" else np.split(np.arange(n + 20) + 7 * draw, [n])
            conformal.fit(probs[:n], labels[:n], calibration_nodes=range(n), ids=ids[0])
            sets = conformal.predict_set(probs[n:], ids=ids[1])
        covered.append(sets[np.arange(20), labels[n:]].mean())
    assert np.mean(covered) >= 0.9 - 4 * np.std(covered) / np.sqrt(len(covered))
    assert np.mean(covered) <= 0.9 + 4 * np.std(covered) / np.sqrt(len(covered))
