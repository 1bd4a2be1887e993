"""``check_calibrator`` passes what keeps the laws and names the law that is broken."""

import subprocess
import sys

import numpy as np
import pytest

import gnncal
import gnncal_lab
from gnncal.calibrators.registry import CALIBRATORS
from gnncal.testing import LAWS, check_calibrator
from gnncal.testing.tasks import KINDS, TaskFamily, random_task, small_task

CONSTANT = "a constant added to a row of logits changes nothing"


class Fair(gnncal.calibrators.TemperatureScaling):
    """Temperature scaling in a class that no package declares."""


class ChangesPredictions(gnncal_lab.VectorScaling):
    preserves_predictions = True


class Leaks(gnncal.calibrators.TemperatureScaling):
    """Looks at the labels of all nodes."""

    def fit(self, logits, labels=None, graph=None, *, calibration_nodes=None, train_nodes=None):
        super().fit(
            logits, labels, graph, calibration_nodes=calibration_nodes, train_nodes=train_nodes
        )
        self.base_temperature_ *= 1.0 + np.abs(labels).mean()
        self.temperature_ = self.temperature_ * (1.0 + np.abs(labels).mean())
        return self


class Forgets(gnncal.calibrators.TemperatureScaling):
    """Needs an attribute that ``learned`` does not name."""

    def _fit(self, nodes):
        super()._fit(nodes)
        self.factor_ = 2.0

    def _temperature(self, nodes):
        return super()._temperature(nodes) * self.factor_ / 2.0


class Draws(gnncal.calibrators.TemperatureScaling):
    """Draws from the global generator, which no parameter seeds."""

    def _fit(self, nodes):
        super()._fit(nodes)
        self.base_temperature_ *= np.random.uniform(1.0, 1.001)  # noqa: NPY002
        self.temperature_ = np.full(nodes.n_nodes, self.base_temperature_)


class Overwrites(gnncal.calibrators.TemperatureScaling):
    """Writes into the caller's logits."""

    def predict_proba(self, logits, graph=None):
        probs = super().predict_proba(logits, graph)
        logits += 1.0
        return probs


class Careless(gnncal_lab.HistogramBinning):
    """Does not say what its parameter may be."""

    constraints = {}  # noqa: RUF012


class Fails(gnncal.calibrators.TemperatureScaling):
    """Raises what no caller expects."""

    def _fit(self, nodes):
        raise ZeroDivisionError("in the middle of a fit")


class Bent(gnncal.HoTS):
    """Takes its temperature for linear in the parameters."""

    def _second_derivatives(self, theta, covariates, weights):
        return np.zeros((3, 3))


@pytest.mark.parametrize("calibrator", [gnncal.calibrators.TemperatureScaling, Fair, Fair()])
def test_a_class_or_an_object_that_keeps_the_laws_passes(calibrator):
    assert check_calibrator(calibrator) is None
    assert not any(name.startswith("under-test") for name in CALIBRATORS)  # only while tested


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (ChangesPredictions, "predictions never change where the class says so"),
        (Leaks, "labels outside nodes and train nodes never matter"),
        (Forgets, "a loaded calibrator predicts the same and can be fitted again"),
        (Draws, "refitting gives the same to the bit"),
        (Overwrites, "inputs are not mutated"),
        (Bent, "derivatives of a temperature are those of finite differences"),
        (Careless, "a parameter of the wrong type is refused by its name"),
        (Fails, "rows are probabilities: ZeroDivisionError: in the middle of a fit"),
    ],
)
def test_a_wrong_one_fails_with_the_name_of_the_law(wrong, law):
    with pytest.raises(AssertionError, match=rf"^{wrong.__name__} breaks (.*\n)+?- {law}"):
        check_calibrator(wrong, n_examples=len(KINDS))


def test_a_law_can_be_excused_with_a_reason():
    with pytest.raises(AssertionError, match=f"VectorScaling breaks a law:\n- {CONSTANT}"):
        check_calibrator(gnncal_lab.VectorScaling)
    check_calibrator(gnncal_lab.VectorScaling, expected_failures={CONSTANT: "weights scale it"})


def test_an_excuse_names_a_law():
    with pytest.raises(gnncal.InputError, match="did you mean 'a constant"):
        check_calibrator(
            gnncal_lab.VectorScaling,
            expected_failures={"a constant added to a row of logit changes nothing": "x"},
        )


class Demanding(gnncal.calibrators.Uncalibrated):
    """Cannot be made without a parameter."""

    def __init__(self, power):
        self.power = power


class Silent(gnncal.calibrators.TemperatureScaling):
    """Does not say what the fit has found."""

    def _fit(self, nodes):
        self.base_temperature_ = 1.0


class Wide(gnncal.calibrators.TemperatureScaling):
    """Gives each class a temperature."""

    def _temperature(self, nodes):
        return np.ones(nodes.logits.shape)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict, r"dict cannot be used as a calibrator: .* not a subclass of gnncal\.Calibrator"),
        (3, r"int cannot be used as a calibrator"),
        (Demanding, r"Demanding\(\) raises TypeError: .* required .* argument: 'power'"),
    ],
)
def test_what_is_no_calibrator_is_refused(wrong, message):
    with pytest.raises(gnncal.InputError, match=message):
        check_calibrator(wrong)


def test_what_a_fit_does_not_set_is_named():
    task = small_task()
    with pytest.raises(NotImplementedError, match=r"Silent\._fit does not set fit_report_"):
        task.fit(Silent())
    with pytest.raises(ValueError, match=r"Wide\._temperature gives the shape \(.*; expected \("):
        task.fit(Wide()).predict_proba(task.logits, task.graph)


def test_names_of_laws_are_sentences_and_differ():
    names = [law.name for law in LAWS]
    assert len(set(names)) == len(names) > 20
    assert all(law.function.__doc__ for law in LAWS)


def test_random_tasks_depend_on_the_seed_alone_and_keep_their_limits():
    family = TaskFamily(("plain",), smallest=24, fewest=8)
    for seed in range(20):
        task, again = random_task(seed, family), random_task(seed, family)
        np.testing.assert_array_equal(task.logits, again.logits)
        assert len(task.logits) >= 24
        assert len(task.calibration_nodes) >= 8
        assert not set(task.calibration_nodes) & set(task.train_nodes)


@pytest.mark.slow
def test_neither_pytest_nor_hypothesis_is_needed():
    script = (
        "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None\n"
        "import gnncal; tested = gnncal.calibrators.Uncalibrated\n"
        "gnncal.testing.check_calibrator(tested, expected_failures="
        "{'a planted temperature is recovered': 'it learns nothing'})"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
