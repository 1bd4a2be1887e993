"""Each formula gives the number worked out by hand, on arrays, tensors and table columns."""

from math import exp, log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gnncal.data import probability
from gnncal.data.arrays import backend_of
from gnncal.math import formulas
from gnncal_lab.methods.dirichlet import log_probabilities
from gnncal_lab.methods.ensemble import mixture
from gnncal_lab.methods.log_entropy import log_entropy, log_entropy_temperature
from gnncal_lab.methods.ratio_binned import ratio_bin

N, K = 60, 4


@pytest.fixture(scope="module")
def inputs():
    """Logits of every size, temperatures, and what neighbours may say."""
    generator = np.random.default_rng(0)
    z = 4.0 * generator.normal(size=(N, K))
    z[0], z[1] = 0.0, 300.0 * np.arange(K)
    return {
        "z": z,
        "T": generator.uniform(0.1, 4.0, N),
        "e": np.append(generator.random(N - 2), [0.0, 1.0]),
        "h": np.append(generator.random(N - 2), [0.25, 1.0]),
        "s": generator.normal(size=(N, 6)),
        "y": generator.integers(K, size=N),
        "p": generator.dirichlet(np.ones(K), N),
        "c": generator.uniform(1.0 / K, 1.0, N),
    }


def like(values, constant):
    """A constant as a tensor where the values are tensors."""
    return values.new_tensor(constant) if hasattr(values, "new_tensor") else constant


def softmax_by_hand(z, T=1.0):
    weights = [exp((value - max(z)) / T) for value in z]
    return [weight / sum(weights) for weight in weights]


def entropy_by_hand(z):
    return -sum(p * log(p) for p in softmax_by_hand(z) if p > 0) / log(len(z))


def law_by_hand(e, s, y):
    base = log(2.0 * (1 - e) + 0.7 * e)
    return base + sum(w * x for w, x in zip(WEIGHTS, s, strict=True)) + OFFSETS[y]


def rest_by_hand(p, y, c):
    """Fill the classes in proportion, the largest first, none of them above c."""
    shares, left, open_classes = [0.0] * len(p), 1 - c, [k for k in range(len(p)) if k != y]
    while open_classes:
        weight = sum(p[k] for k in open_classes)
        full = [k for k in open_classes if left * p[k] / weight > c]
        for k in full or open_classes:
            shares[k] = c if full else left * p[k] / weight
        if not full:
            break
        left -= c * len(full)
        open_classes = [k for k in open_classes if k not in full]
    shares[y] = c
    return shares


WEIGHTS = np.array([0.3, -0.2, 0.5, 0.1, -0.4, 0.05])
OFFSETS = np.array([0.1, -0.1, 0.2, 0.0])
BIAS = np.array([0.5, 0.0, -0.5, 0.2])
MIXTURE = np.array([0.6, 0.3, 0.1])

# name: the formula on arrays, its arguments, and the same of one node by hand
VECTORS = {
    "normalised_entropy": (probability.normalised_entropy, "z", entropy_by_hand),
    "concentration": (
        lambda e: probability.concentration(e, K),
        "e",
        lambda e: sqrt(2 * K * log(K) * (1 - e)),
    ),
    "normalised_homophily": (
        lambda h: probability.normalised_homophily(h, K),
        "h",
        lambda h: (K * h - 1) / (K - 1),
    ),
    "homophily_of": (
        lambda h: probability.homophily_of(probability.normalised_homophily(h, K), K),
        "h",
        lambda h: h,
    ),
    "hts": (
        lambda e: formulas.entropy_temperature(e, 2.0, 0.5),
        "e",
        lambda e: (1 - e) * 2.0 + e * 0.5,
    ),
    "hts of the release": (
        lambda e: formulas.entropy_temperature(e, 2.0, -3.0, 0.1),
        "e",
        lambda e: max((1 - e) * 2.0 - e * 3.0, 0.1),
    ),
    "hts-log": (
        lambda e: log_entropy_temperature(log_entropy(e), -0.4, 0.3),
        "e",
        lambda e: log(1 + exp(-0.4 * log(max(e, 1e-8)) + 0.3)),
    ),
    "hots": (
        lambda e, h: formulas.power_law(
            formulas.power_ratio(
                probability.concentration(e, K), formulas.log_signal(h, K, 0.02), 0.7
            ),
            0.4,
            0.3,
        ),
        "eh",
        lambda e, h: (
            0.4 + 0.3 * sqrt(2 * K * log(K) * (1 - e)) / (abs((K * h - 1) / (K - 1)) + 0.02) ** 0.7
        ),
    ),
    "rbs": (
        lambda h: ratio_bin(h, 5) + 0.0,
        "h",
        lambda h: max(int(np.ceil(round(5 * h, 9))) - 1, 0),
    ),
    "the law": (
        lambda e, s, y: formulas.clip_log_temperature(
            formulas.log_temperature(e, s, y, 2.0, 0.7, like(e, WEIGHTS), like(e, OFFSETS))
        ),
        "esy",
        lambda e, s, y: min(max(law_by_hand(e, s, y), -5.0), 5.0),
    ),
}
MATRICES = {
    "softmax": (probability.softmax, "z", softmax_by_hand),
    "softmax at a temperature": (probability.softmax, "zT", softmax_by_hand),
    "dirichlet": (
        log_probabilities,
        "z",
        lambda z: [log(max(p, 2.0**-126)) for p in softmax_by_hand(z)],
    ),
    "svs and sms": (
        lambda z: formulas.mixed_log_probabilities(z, 1.5, 0.01),
        "z",
        lambda z: [log(0.99 * p + 0.01 / K) for p in softmax_by_hand(z, 1.5)],
    ),
    "ets": (
        lambda z: mixture(z, 2.0, MIXTURE),
        "z",
        lambda z: [
            0.6 * a + 0.3 * b + 0.1 / K
            for a, b in zip(softmax_by_hand(z, 2.0), softmax_by_hand(z), strict=True)
        ],
    ),
    "bias and neighbours": (
        lambda z, T, p: probability.softmax(formulas.scores(z, T, like(z, BIAS), 0.8, p)),
        "zTp",
        lambda z, T, p: softmax_by_hand(
            [z[k] / T + BIAS[k] + 0.8 * log(p[k] + 0.02) for k in range(K)]
        ),
    ),
    "remainder": (formulas.redistribute_rest, "pyc", rest_by_hand),
}
FORMULAS = VECTORS | MATRICES


def by_hand(name, inputs):
    _, arguments, one = FORMULAS[name]
    return np.array([one(*row) for row in zip(*(inputs[a] for a in arguments), strict=True)])


@pytest.mark.parametrize("name", FORMULAS)
def test_arrays_give_the_value_worked_out_by_hand(name, inputs):
    formula, arguments, _ = FORMULAS[name]
    given = {a: inputs[a].copy() for a in arguments}
    assert_allclose(formula(*given.values()), by_hand(name, inputs), rtol=1e-12, atol=1e-13)
    for argument, value in given.items():
        assert (value == inputs[argument]).all()  # a formula leaves its arguments alone


@pytest.mark.parametrize("name", FORMULAS)
def test_tensors_give_the_same(name, inputs):
    torch = pytest.importorskip("torch")
    formula, arguments, _ = FORMULAS[name]
    result = formula(*(torch.from_numpy(inputs[a]) for a in arguments))
    assert_allclose(result.numpy(), by_hand(name, inputs), rtol=1e-12, atol=1e-13)


SMOOTH = sorted(set(FORMULAS) - {"rbs", "remainder", "hts of the release"})


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_the_formula(name, inputs):
    torch = pytest.importorskip("torch")
    formula, arguments, _ = FORMULAS[name]
    inner = slice(2, 12)  # away from ties, e = 0 and e = 1
    tensors = [torch.from_numpy(inputs[a][inner].copy()) for a in arguments]
    for tensor in tensors:
        tensor.requires_grad_(tensor.is_floating_point())
    assert torch.autograd.gradcheck(formula, tensors)


@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_probabilities_of_float32_are_float32_and_all_is_finite(scale, inputs):
    z = (scale * inputs["z"]).astype(np.float32)
    assert probability.softmax(z).dtype == np.float32
    for values in (probability.softmax(z), probability.normalised_entropy(z)):
        assert np.isfinite(values).all()


def test_every_backend_has_the_same_operations():
    pytest.importorskip("torch")
    from gnncal.data import arrays, torch_backend

    of_numpy = set(vars(arrays.NUMPY))
    assert of_numpy == set(vars(torch_backend.TORCH))
    assert backend_of(np.zeros(1)) is arrays.NUMPY
