"""Names, parameters and what a class says about its fit."""

import numpy as np
import pytest

import gnncal
import gnncal_lab
from gnncal.calibrators.registry import every_calibrator, resolve
from tests.methods import each_of

CALIBRATORS = every_calibrator()


def test_a_calibrator_says_whether_predictions_are_preserved():
    made = {name: kind(**resolve(name)[1].params) for name, kind in CALIBRATORS.items()}
    changing = {name for name, each in made.items() if not each.preserves_predictions}
    affine = {"vs", "matrix", "svs", "sms", "dirichlet", "structural-vector", "structural-free"}
    assert changing == affine | {"isotonic", "histogram", "spline", "gets", "platt", "beta"}
    assert not issubclass(
        gnncal_lab.EnsembleTemperatureScaling, gnncal.calibrators.TemperatureCalibrator
    )


def test_a_parameter_that_a_method_lacks_is_refused():
    with pytest.raises(gnncal.InputError, match="irm has no parameter 'protocol'; it takes none"):
        gnncal.get_calibrator("irm", protocol="paper")


@pytest.mark.parametrize("typed", ["HOTS", "HoTS", " hots "])
def test_case_and_spaces_of_a_name_do_not_matter(typed):
    assert type(gnncal.get_calibrator(typed)) is gnncal.HoTS


@pytest.mark.parametrize("typed", ["entropy_only", "Entropy-Only"])
def test_an_underscore_is_a_hyphen_in_a_name(typed):
    assert type(gnncal.get_calibrator(typed)).__name__ == "EntropyOnly"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("hotz", "hots"), ("histgram", "histogram"), ("entropyonly", "entropy-only")],
)
def test_a_misspelt_name_gets_a_suggestion(typed, meant):
    with pytest.raises(gnncal.InputError, match=rf"{typed}' \(did you mean '{meant}'\?\)"):
        gnncal.get_calibrator(typed)


def test_a_name_like_no_other_gets_the_list_only():
    with pytest.raises(gnncal.InputError, match=r"unknown calibrator 'qqqqq'; choose one of uncal"):
        gnncal.get_calibrator("qqqqq")
    with pytest.raises(gnncal.InputError, match=r"unknown calibrator 3; choose one of"):
        gnncal.get_calibrator(3)


def test_a_misspelt_parameter_gets_a_suggestion():
    with pytest.raises(
        gnncal.InputError, match=r"'epsilom' \(did you mean 'epsilon'\?\); it takes"
    ):
        gnncal.get_calibrator("hots", epsilom=1)


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
@pytest.mark.parametrize("name", each_of(CALIBRATORS))
@pytest.mark.parametrize("scale", [1e4, 1e-4])
def test_logits_of_any_scale_give_finite_probabilities(name, scale):
    generator = np.random.default_rng(0)
    graph = gnncal.Graph(generator.integers(0, 60, size=(2, 150)), 60, np.ones((60, 2)))
    short = {"max_epochs": 100} if CALIBRATORS[name].needs_torch else {}
    if name == "auto":
        short = {"n_folds": 2}  # a fold more is one fit more of each candidate, of the same kind
    for n_classes in (2, 4):
        logits = scale * generator.normal(size=(60, n_classes))
        labels = np.where(np.arange(60) % 3 > 0, logits.argmax(axis=1), 0)
        calibrator = gnncal.get_calibrator(name, **short)
        calibrator.fit(
            logits, labels, graph, calibration_nodes=np.arange(40), train_nodes=np.arange(40, 60)
        )
        assert np.isfinite(calibrator.predict_proba(logits, graph)).all()
        assert np.isfinite(calibrator.fit_report_.loss_after)
