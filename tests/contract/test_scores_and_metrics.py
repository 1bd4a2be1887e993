"""Every conformal score and every metric of the tables, held to their laws."""

from functools import partial

import pytest

from gnncal.decisions.scores import SCORES, daps, raps, snaps
from gnncal.metrics import METRICS
from tests.contract.cases import hold
from tests.contract.exceptions import OF_METRICS, OF_SCORES
from tests.contract.metric_laws import METRICS as METRIC_LAWS
from tests.contract.score_laws import SCORES as SCORE_LAWS

EVERY_SCORE = {**SCORES} | {
    "raps, without a penalty": partial(raps, lambda_reg=0),
    "daps, neighbours alone": partial(daps, diffusion=1.0),
    "snaps, similar nodes alone": partial(snaps, similar=1.0, neighbours=0.0, k=3),
    "snaps, neighbours alone": partial(snaps, similar=0.0, neighbours=1.0),
}


def cases(laws, subjects, exceptions):
    chosen = {
        f"{law}, {name}": (law, subject)
        for law in laws
        for name, subject in subjects.items()
        if law.applies(subject) and name not in exceptions.get(law.name, ())
    }
    return pytest.mark.parametrize(("law", "subject"), chosen.values(), ids=chosen.keys())


@cases(SCORE_LAWS, EVERY_SCORE, OF_SCORES)
def test_a_score_keeps_the_laws(law, subject):
    hold(law, lambda: subject)


@cases(METRIC_LAWS, METRICS, OF_METRICS)
def test_a_metric_keeps_the_laws(law, subject):
    hold(law, lambda: subject)


@pytest.mark.parametrize(
    ("exceptions", "laws", "subjects"),
    [(OF_SCORES, SCORE_LAWS, EVERY_SCORE), (OF_METRICS, METRIC_LAWS, METRICS)],
)
def test_every_exception_names_a_law_and_a_subject_that_there_are(exceptions, laws, subjects):
    assert set(exceptions) <= {law.name for law in laws}
    assert {name for law in exceptions.values() for name in law} <= set(subjects)
