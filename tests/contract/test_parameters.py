"""A constructor parameter that cannot be used is named before any work is done."""

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.catalogue import CALIBRATORS

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")

GENERATOR = np.random.default_rng(0)
LOGITS, LABELS = GENERATOR.normal(size=(40, 3)), GENERATOR.integers(3, size=40)
GRAPH = gnncal.Graph(GENERATOR.integers(40, size=(2, 120)), 40, GENERATOR.normal(size=(40, 3)))
PARAMETERS = [
    (method, parameter)
    for method, kind in CALIBRATORS.items()
    for parameter in kind._get_param_names()
]
WRONG = (object(), {"a": 1}, 1j, b"x", "no such word", float("nan"))  # nowhere right


@pytest.mark.parametrize(("method", "parameter"), PARAMETERS, ids=map(" ".join, PARAMETERS))
def test_a_parameter_of_the_wrong_type_is_refused_by_its_name(method, parameter):
    split = {"nodes": np.arange(20), "train_nodes": np.arange(20, 30)}
    for wrong in WRONG:
        with pytest.raises(gnncal.InputError, match=rf"\b{parameter}\b"):
            CALIBRATORS[method](**{parameter: wrong}).fit(LOGITS, LABELS, GRAPH, **split)
