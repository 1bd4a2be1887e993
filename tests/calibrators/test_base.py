"""What every calibrator offers besides probabilities: clear attributes, before and after a load."""

import numpy as np
import pytest

import gnncal

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
N, K = 60, 3
GENERATOR = np.random.default_rng(5)
LABELS = GENERATOR.integers(K, size=N)
LOGITS = GENERATOR.normal(size=(N, K)) + np.eye(K)[LABELS]
GRAPH = gnncal.Graph(GENERATOR.integers(N, size=(2, 4 * N)), N)
NODES = np.arange(0, N, 2)


def test_what_describes_the_fitted_graph_is_explained_after_a_load(tmp_path):
    calibrator = gnncal.HoTS().fit(LOGITS, LABELS, GRAPH, calibration_nodes=NODES)
    calibrator.save(tmp_path / "c")
    loaded = gnncal.load(tmp_path / "c")
    with pytest.raises(AttributeError, match=r"not saved with HoTS.*predict_temperature\(\)"):
        _ = loaded.temperature_
    with pytest.raises(AttributeError, match="homophily_ describes the graph of the fit"):
        _ = loaded.homophily_
    for absent in (gnncal.HoTS(), gnncal.calibrators.TemperatureScaling()):
        with pytest.raises(AttributeError, match="has no attribute 'temperature_'"):
            _ = absent.temperature_


@pytest.mark.parametrize("limits", [[0.5, 2], (0.5, 2)])
def test_a_loaded_temperature_range_can_be_fitted_again(tmp_path, limits):
    calibrator = gnncal.HoTS(temperature_range=limits).fit(
        LOGITS, LABELS, GRAPH, calibration_nodes=NODES
    )
    calibrator.save(tmp_path / "c")
    again = gnncal.load(tmp_path / "c").fit(LOGITS, LABELS, GRAPH, calibration_nodes=NODES)
    np.testing.assert_array_equal(again.temperature_, calibrator.temperature_)


class TooLarge(gnncal.calibrators.TemperatureScaling):
    """Needs more memory than any machine can address."""

    def _fit(self, nodes):
        np.empty(2**60, dtype=np.uint8)


def test_a_fit_that_runs_out_of_memory_says_so_in_a_sentence():
    wrong = r"^TooLarge ran out of memory on 3 classes and 30 calibration nodes; .*'ts'\.$"
    with pytest.raises(gnncal.InputError, match=wrong):
        TooLarge().fit(LOGITS, LABELS, calibration_nodes=NODES)
    with pytest.raises(gnncal.InputError, match=wrong):
        gnncal.calibrate(LOGITS, LABELS, calibration_nodes=NODES, method=TooLarge())
