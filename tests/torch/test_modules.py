"""A module gives the probabilities of its calibrator, whatever the graph and the logits."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given

import gnncal
from gnncal.calibrators.homophily import Support
from tests.strategies import small_task, tasks

torch = pytest.importorskip("torch")

from gnncal.calibrators.base import Calibrator  # noqa: E402
from gnncal.calibrators.registry import every_calibrator  # noqa: E402

CALIBRATORS = every_calibrator()

NAMES = [
    name
    for name, kind in CALIBRATORS.items()
    if kind._as_formula is not Calibrator._as_formula and name not in ("auto", "hots-paper")
]  # the paper's predictor needs features: refused below
VARIANTS = {
    "hots": {"homophily": Support(side="both")},
    "homophily-only": {"homophily": Support(side="out")},
    "hots-alpha1": {"temperature_range": (0.5, 2.0), "minimum_certainty": 0.1},
    "rbs": {"n_bins": 3},
    "hts": {"protocol": "paper"},
}
CASES = [(name, {}) for name in NAMES] + list(VARIANTS.items())
MODERATE = ("plain", "sharp", "tied", "constant")
pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning", "ignore:Sparse")


def fitted(task, name, parameters=None):
    return task.fit(gnncal.get_calibrator(name, **(parameters or {})))


def tensors(task, dtype=np.float64):
    return torch.from_numpy(task.logits.astype(dtype)), torch.from_numpy(task.edges)


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
@given(task=tasks(kinds=MODERATE))
def test_a_module_gives_the_numbers_of_its_calibrator(task, name, parameters):
    calibrator = fitted(task, name, parameters)
    expected = calibrator.predict_proba(task.logits, task.graph)
    module, (logits, edges) = calibrator.to_torch(), tensors(task)
    found = module(logits, task.graph)
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
    along_edges = module(logits, edges)
    np.testing.assert_allclose(along_edges, expected, atol=1e-6, rtol=0)
    if calibrator.preserves_predictions:
        for probs in (found, along_edges):
            assert (probs.argmax(1).numpy() == task.logits.argmax(1)).all()


@pytest.mark.parametrize("name", NAMES)
@given(task=tasks(kinds=("plain",), fewest=6))
def test_float32_logits_give_the_calibrators_numbers_to_four_digits(name, task):
    calibrator = fitted(task, name)
    single = task.logits.astype(np.float32)
    expected = calibrator.predict_proba(single, task.graph)
    logits, edges = tensors(task, np.float32)
    found = calibrator.to_torch()(logits, edges)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_by_the_logits_are_those_of_finite_differences(name):
    task = small_task(12)
    module, (logits, edges) = fitted(task, name).to_torch(), tensors(task)
    logits.requires_grad_()
    for listed in (edges, gnncal.Graph(edges, len(logits))):
        assert torch.autograd.gradcheck(lambda z, e=listed: module(z, e), (logits,), atol=1e-5)
    with torch.no_grad():
        assert not module(logits, edges).requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_where_all_logits_of_a_node_are_equal(name):
    task = small_task(60)
    module, (logits, edges) = fitted(task, name).to_torch(), tensors(task)
    logits[7], logits[8] = 0.0, 1.5
    logits.requires_grad_()
    for listed in (edges, task.graph):
        (gradient,) = torch.autograd.grad((module(logits, listed) ** 2).sum(), logits)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["hots", "homophily-only", "structural-temperature", "structural"])
def test_second_derivatives_are_those_of_finite_differences(name):
    task = small_task(60)
    module, (logits, edges) = fitted(task, name).to_torch(), tensors(task)
    generator = torch.Generator().manual_seed(0)
    weights, direction = torch.randn(2, *logits.shape, generator=generator, dtype=torch.float64)

    def gradient(z, given_edges, **options):
        return torch.autograd.grad((module(z, given_edges) * weights).sum(), z, **options)[0]

    for given_edges in (edges, task.graph):
        z = logits.clone().requires_grad_()
        slope = (gradient(z, given_edges, create_graph=True) * direction).sum()
        (found,) = torch.autograd.grad(slope, z)
        ahead, behind = (
            gradient((logits + step * direction).requires_grad_(), given_edges)
            for step in (1e-5, -1e-5)
        )
        assert torch.allclose(found, (ahead - behind) / 2e-5, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_dict_holds_everything_that_was_learned(name):
    task, other = small_task(60), small_task(60, noise=0.5)
    module, (logits, edges) = fitted(task, name).to_torch(), tensors(task)
    blank = fitted(other, name).to_torch()
    if {k: v.shape for k, v in blank.state_dict().items()} != {
        k: v.shape for k, v in module.state_dict().items()
    }:
        pytest.skip("the two fits chose different forms")
    blank.load_state_dict(module.state_dict())
    assert torch.equal(blank(logits, edges), module(logits, edges))
    assert not list(module.parameters())


def test_a_module_can_be_copied_and_pickled_after_use(tmp_path):
    task = small_task()
    module, (logits, edges) = fitted(task, "structural").to_torch(), tensors(task)
    expected = module(logits, edges)
    assert torch.equal(copy.deepcopy(module)(logits, edges), expected)
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    assert torch.equal(loaded(logits, edges), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_follows_its_device_and_precision(name):
    task = small_task()
    module, (logits, edges) = fitted(task, name).to_torch(), tensors(task)
    expected = module(logits, edges)
    elsewhere = copy.deepcopy(module).to("meta")
    assert elsewhere(logits.to("meta"), edges.to("meta")).shape == expected.shape
    np.testing.assert_allclose(module.float()(logits, edges), expected, atol=1e-4, rtol=0)
    half = module(logits.to(torch.bfloat16), edges)
    assert half.dtype == torch.float32
    np.testing.assert_allclose(half.sum(1), 1.0, atol=1e-5)


def test_auto_becomes_the_module_of_its_choice():
    task = small_task(120)
    auto = task.fit(gnncal.calibrators.Auto(candidates=("hts", "structural")))
    chosen = fitted(task, auto.chosen_).to_torch()
    assert auto.to_torch().state_dict().keys() == chosen.state_dict().keys()


@pytest.mark.parametrize(
    "name", [name for name in CALIBRATORS if name not in (*NAMES, "auto", "hots-paper")]
)
def test_a_method_without_a_module_says_so_and_what_to_do(name):
    kind = CALIBRATORS[name]
    calibrator = kind()
    calibrator.classes_ = np.arange(3)
    message = f"{kind.__name__} cannot become a torch module.* predict_proba"
    with pytest.raises(gnncal.InputError, match=message):
        calibrator.to_torch()


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"homophily": "predictor"}, "needs more than logits and edges"),
        ({"homophily": np.full(60, 0.5)}, "needs more than logits and edges"),
        ({"homophily": "clamped-support"}, "needs more than logits and edges"),
    ],
)
def test_hots_with_other_inputs_says_why_it_has_no_module(parameters, reason):
    with pytest.raises(gnncal.InputError, match=reason):
        fitted(small_task(), "hots", parameters).to_torch()


def test_rbs_without_duplicates_says_why_it_has_no_module():
    calibrator = fitted(small_task(), "rbs", {"merge_duplicate_edges": True})
    with pytest.raises(gnncal.InputError, match="remove duplicates"):
        calibrator.to_torch()


def test_an_unfitted_calibrator_has_no_module():
    with pytest.raises(ValueError, match="not fitted"):
        gnncal.calibrators.TemperatureScaling().to_torch()


def test_bad_arguments_are_told_in_a_sentence():
    task = small_task()
    module, (logits, edges) = fitted(task, "structural").to_torch(), tensors(task)
    with pytest.raises(gnncal.InputError, match=r"expected \(n_nodes, 3\)"):
        module(logits[:, :2], edges)
    with pytest.raises(gnncal.InputError, match="pass module"):
        module(logits)
    with pytest.raises(gnncal.InputError, match="cannot read as edges"):
        module(logits, edges.float())
    with pytest.raises(gnncal.InputError, match="the graph has 60 nodes but logits has 50"):
        module(logits[:50], task.graph)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_transposed_adjacency_says_what_its_edges_say(layout):
    task = small_task()
    module, (logits, edges) = fitted(task, "hots").to_torch(), tensors(task)
    edges = torch.unique(edges, dim=1)
    size, ones = (60, 60), torch.ones(edges.shape[1])
    adj_t = torch.sparse_coo_tensor(edges.flip(0), ones, size)
    adj_t = adj_t if layout == "coo" else adj_t.to_sparse(layout=getattr(torch, f"sparse_{layout}"))
    assert torch.allclose(module(logits, adj_t), module(logits, edges))


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
def test_a_module_can_be_pickled(name, parameters):
    task = small_task()
    module = fitted(task, name, parameters).to_torch()
    again = pickle.loads(pickle.dumps(module))
    inputs = tensors(task)
    torch.testing.assert_close(again(*inputs), module(*inputs), rtol=0, atol=0)


def test_tracing_refuses_to_keep_the_edges_of_a_graph():
    task = small_task()
    module = fitted(task, "structural").to_torch()
    with pytest.raises(gnncal.InputError, match=r"torch\.jit\.trace would keep the edges"):
        torch.jit.trace(module, tensors(task))
    traced = torch.jit.trace(fitted(task, "ts").to_torch(), tensors(task)[:1])
    assert traced(tensors(task)[0]).shape == task.logits.shape


@pytest.mark.parametrize("name", ["hots", "structural", "structural-free"])
def test_no_node_has_no_probabilities(name):
    task = small_task()
    module = fitted(task, name).to_torch()
    n_classes = task.logits.shape[1]
    found = module(torch.zeros((0, n_classes)), torch.zeros((2, 0), dtype=torch.long))
    assert found.shape == (0, n_classes)
