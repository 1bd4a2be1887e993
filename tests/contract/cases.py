"""Every calibrator of the catalogue with its variants, and the laws each of them is held to.

A case is named after its method, "hots" or "hots, clamped"; a new method is a case by itself.
"""

import pytest

import gnncal
from gnncal.calibrators.catalogue import CALIBRATORS
from gnncal.homophily import Support
from tests.contract.exceptions import EXCEPTIONS


def _cases():
    for name, kind in CALIBRATORS.items():
        short = SHORT.get(name, {"max_epochs": EPOCHS} if kind.needs_torch else {})
        yield name, lambda kind=kind, short=short: kind(**short)
        if "protocol" in kind._get_param_names():
            yield f"{name}, paper's protocol", lambda kind=kind: kind(protocol="paper")
    yield "vs, without bias", lambda: gnncal.VectorScaling(bias=False)
    for estimator in ("agreement", "predictor", "cross-fitted"):
        yield f"hots, {estimator}", lambda e=estimator: gnncal.HoTS(homophily=e)
    yield "hots, clamped", lambda: gnncal.HoTS(homophily=Support(clamp_train_labels=True))
    yield "hots, out side", lambda: gnncal.HoTS(homophily=Support(side="out"))
    yield "hots, both sides", lambda: gnncal.HoTS(homophily=Support(side="both"))
    yield "hots, paper's text", gnncal.HoTS.paper
    yield "hots, paper's release", lambda: gnncal.HoTS.paper("release")
    yield (
        "cagcn, original",
        lambda: gnncal.CaGCN(
            link="log-shifted",
            margin_weight=0.5,
            initial="uniform",
            normalisation="out",
            protocol="paper",
        ),
    )
    yield "gats, released", lambda: gnncal.GATS(positive=False, max_epochs=EPOCHS)
    yield "gets, frozen degrees", lambda: gnncal.GETS(train_degrees=False, max_epochs=EPOCHS)


EPOCHS = 6  # the laws hold after any number of them
SHORT = {"auto": {"n_folds": 2}}  # and with any number of folds
CASES = dict(_cases())


def every(law=None, *, which=lambda calibrator: True):
    """Parametrise a test over the cases that a law speaks of and has no exception for."""
    exceptions = EXCEPTIONS[law] if law else {}
    chosen = {
        name: make
        for name, make in CASES.items()
        if which(make()) and not {name, method_of(name)} & set(exceptions)
    }
    return pytest.mark.parametrize("make", chosen.values(), ids=chosen.keys())


def method_of(case):
    return case.partition(",")[0]


def keeps_predictions(calibrator):
    return calibrator.preserves_predictions


def divides_logits(calibrator):
    return isinstance(calibrator, gnncal.TemperatureCalibrator)


def converges(calibrator):
    return getattr(calibrator, "protocol", None) == "converged"


def does_not_stop_early(calibrator):
    return getattr(calibrator, "protocol", None) != "paper"


def needs_graph(calibrator):
    return calibrator.needs_graph


def needs_no_graph(calibrator):
    return not calibrator.needs_graph
