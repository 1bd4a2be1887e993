"""Estimators as objects: given to a calibrator, cloned, shown, saved, shared, read from files."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import gnncal
from gnncal.calibrators.homophily import Given, Predictor, Support, from_plain, to_plain
from gnncal_lab.homophily import ClampedAgreement, CrossFitted, Shared

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
OLDER = Path(__file__).parents[1] / "older_files"
OBJECTS = [
    Support(side="both"),
    ClampedAgreement(),
    Predictor(hidden=4, max_epochs=5, random_state=3),
    CrossFitted(n_folds=3, side="in", max_epochs=5),
]


@pytest.fixture(scope="module")
def task():
    generator = np.random.default_rng(3)
    labels = generator.integers(3, size=90)
    logits = generator.normal(size=(90, 3)) + 2 * np.eye(3)[labels]
    features = generator.normal(size=(90, 4)) + np.eye(4)[labels]
    graph = gnncal.Graph(generator.integers(90, size=(2, 400)), 90, features)
    return (
        logits,
        labels,
        graph,
        {"calibration_nodes": np.arange(0, 60), "train_nodes": np.arange(60, 80)},
    )


def fit(calibrator, task):
    logits, labels, graph, split = task
    return calibrator.fit(logits, labels, graph, **split)


@pytest.mark.parametrize("estimator", OBJECTS, ids=lambda e: type(e).__name__)
def test_a_calibrator_with_an_estimator_is_cloned_shown_and_saved(task, tmp_path, estimator):
    calibrator = fit(gnncal.HoTS(homophily=estimator), task)
    again = fit(clone(calibrator), task)
    assert again.get_params() == calibrator.get_params()
    assert repr(estimator) in " ".join(repr(calibrator).split())
    calibrator.save(tmp_path / "c")
    loaded = gnncal.load(tmp_path / "c")
    assert loaded.homophily == estimator
    logits, _, graph, _ = task
    probs = calibrator.predict_proba(logits, graph)
    np.testing.assert_array_equal(loaded.predict_proba(logits, graph), probs)
    np.testing.assert_array_equal(again.predict_proba(logits, graph), probs)


@pytest.mark.parametrize("estimator", [*OBJECTS, Support(), Predictor(), CrossFitted()], ids=repr)
def test_the_plain_form_gives_the_estimator_back(estimator):
    assert from_plain(to_plain(estimator)) == estimator
    assert to_plain(Shared(estimator)) == to_plain(estimator)


def test_the_plain_form_names_every_parameter_and_nothing_unknown_is_read():
    plain = {"estimator": "support", "side": "in"}
    assert to_plain("support") == to_plain(Support()) == plain
    with pytest.raises(gnncal.InputError, match="unknown homophily estimator 'oracle'"):
        from_plain({"estimator": "oracle"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_folds'"):
        from_plain({**plain, "n_folds": 3})
    with pytest.raises(gnncal.InputError, match="side is 3; expected"):
        from_plain({**plain, "side": 3})


def test_an_array_may_be_given_by_itself_or_as_an_object(task, tmp_path):
    shares = np.random.default_rng(0).random(90)
    by_array, by_object = (fit(gnncal.HoTS(homophily=h), task) for h in (shares, Given(shares)))
    logits, _, graph, _ = task
    probs = by_array.predict_proba(logits, graph)
    np.testing.assert_array_equal(by_object.predict_proba(logits, graph), probs)
    by_object.save(tmp_path / "c")
    np.testing.assert_array_equal(gnncal.load(tmp_path / "c").predict_proba(logits, graph), probs)


def test_a_shared_estimator_learns_once_for_all_calibrators_of_a_task(task, monkeypatch):
    trained = []
    train = Predictor._train
    monkeypatch.setattr(Predictor, "_train", lambda *a: trained.append(1) or train(*a))
    alone = fit(gnncal.HoTS(homophily=Predictor()), task)
    shared = Shared(Predictor())
    both = [
        fit(gnncal.get_calibrator(name, homophily=shared), task)
        for name in ("hots", "homophily-only")
    ]
    fit(clone(both[0]), task)
    assert len(trained) == 2  # alone, and once for the three others
    for name in ("base_temperature_", "beta_", "alpha_"):
        assert getattr(both[0], name) == getattr(alone, name)
    np.testing.assert_array_equal(both[1].homophily_, alone.homophily_)
    logits, labels, graph, split = task
    gnncal.HoTS(homophily=shared).fit(logits, (labels + 1) % 3, graph, **split)
    assert len(trained) == 3  # other labels, another predictor
