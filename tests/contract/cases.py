"""Every calibrator of the catalogue with its variants, held to the laws of ``gnncal.testing``.

A case is named after its method, "hots" or "hots, clamped"; a new method is a case by itself.
"""

import dataclasses
from copy import deepcopy
from functools import cache, partial

import pytest
from hypothesis import given, settings

import gnncal
import gnncal_lab
from gnncal.calibrators.homophily import Support
from gnncal.calibrators.registry import every_calibrator, resolve
from tests.contract.exceptions import EXCEPTIONS
from tests.methods import QUICK, slow_unless
from tests.strategies import tasks


def _cases():
    for name, kind in every_calibrator().items():
        kind = partial(kind, **resolve(name)[1].params)
        short = SHORT.get(name, {"max_epochs": EPOCHS} if kind().needs_torch else {})
        yield name, partial(kind, **short)
        if hasattr(kind(), "protocol") and "protocol" not in resolve(name)[1].params:
            yield f"{name}, paper's protocol", partial(kind, protocol="paper")
    yield "vs, without bias", lambda: gnncal_lab.VectorScaling(bias=False)
    for estimator in ("agreement", "predictor", "cross-fitted"):
        yield f"hots, {estimator}", lambda e=estimator: gnncal.HoTS(homophily=e)
    yield "hots, clamped", lambda: gnncal.HoTS(homophily="clamped-support")
    yield "hots, out side", lambda: gnncal.HoTS(homophily=Support(side="out"))
    yield "hots, both sides", lambda: gnncal.HoTS(homophily=Support(side="both"))
    yield "hots, paper's release", lambda: gnncal.HoTS.paper("release")
    yield (
        "cagcn, original",
        lambda: gnncal_lab.CaGCN(
            link="log-shifted",
            margin_weight=0.5,
            initial="uniform",
            normalisation="out",
            protocol="paper",
        ),
    )
    yield "gats, released", lambda: gnncal_lab.GATS(positive=False, max_epochs=EPOCHS)
    yield "gets, frozen degrees", lambda: gnncal_lab.GETS(train_degrees=False, max_epochs=EPOCHS)


EPOCHS = 6  # the laws hold after any number of them
SHORT = {"auto": {"n_folds": 2}}  # and with any number of folds
CASES = dict(_cases())


def every_case_of(laws):
    """Parametrise a test over laws, and the cases that each speaks of and has no exception for."""
    chosen = [
        pytest.param(law, make, id=f"{law}, {name}", marks=slow_unless(name in QUICK))
        for law in laws
        for name, make in CASES.items()
        if law.applies(make()) and not {name, method_of(name)} & set(EXCEPTIONS.get(law.name, ()))
    ]
    return pytest.mark.parametrize(("law", "make"), chosen)


def hold(law, make):
    """Check a law on examples of Hypothesis, or on the law's own numbers."""
    if law.family is None:
        law.function(make())
        return
    if settings.default.derandomize:
        try:
            for task in examples_of(law):
                law.function(make(), deepcopy(task))
            return
        except Exception as error:  # Hypothesis looks for a simpler example
            each_example(law, lambda task: law.function(make(), task))
            raise AssertionError(f"{law} is broken on some calls and not on others") from error
    each_example(law, lambda task: law.function(make(), task))


@cache
def examples_of(law):
    """The examples of a law, which are the same each time: drawn once for all cases."""
    examples = []
    each_example(law, examples.append)
    return examples


def each_example(law, do):
    def holds(task):
        do(task)

    holds.__name__ = law.function.__name__  # each law gets examples of its own
    given(task=tasks(**dataclasses.asdict(law.family)))(holds)()


def method_of(case):
    return case.partition(",")[0]
