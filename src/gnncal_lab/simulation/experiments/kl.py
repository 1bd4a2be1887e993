"""The neighbours' logits are nearly independent: a Gaussian residual KL of order K^2 d^2 / n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnncal.data.arrays import FloatArray
from gnncal.data.errors import InputError
from gnncal.graph.graph import Graph
from gnncal_lab.simulation.csbm import CSBM
from gnncal_lab.simulation.estimate import Estimate, check_seeds, log_slope, over_seeds
from gnncal_lab.simulation.streams import stream

HOMOPHILY = 0.7
N_SWEEP = (4_000, 8_000, 16_000, 32_000, 64_000)
D_SWEEP = (6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
K_SWEEP = (2, 3, 4, 6, 8, 12, 16, 24)
PER_CLASS_SWEEP = (4, 6, 8, 12, 16, 24)
N, D, K, PER_CLASS = 32_000, 10.0, 5, 2_000  # what the other sweeps hold fixed
LARGE_K = 8
Setting = tuple[int, float, int]  # n, d, K
SINGULAR = 1e-10  # a smaller eigenvalue: two neighbours aggregate the very same nodes
PAPER_SLOPES = {"n": -1.01, "d": 2.08, "K": 1.81, "K >= 8": 1.97}


@dataclass(frozen=True)
class Curve:
    """One sweep: the mean KL over sampled centre nodes."""

    values: FloatArray  # (n_values,) what is varied
    bound: FloatArray  # (n_values,) K^2 d^2 / n
    kl: Estimate  # (n_values,) with rank K - 1
    shared: FloatArray  # (n_values,) mean S over pairs of neighbours


@dataclass(frozen=True)
class KlRecord:
    """Sweeps over n, d and K, one more at fixed n/K, and their slopes in log-log scale."""

    homophily: float
    n_centres: int
    n_seeds: int
    by_n: Curve
    by_d: Curve
    by_k: Curve
    per_class: Curve  # K varies at n/K fixed: slope 1 if the law is K^2, 0 if it is K
    slopes: dict[str, Estimate]  # NaN of fewer than two values
    paper_slopes: dict[str, float]
    n_singular: int  # centres left out because two neighbours aggregate the very same nodes


def kl(
    *,
    homophily: float = HOMOPHILY,
    n_sweep: tuple[int, ...] = N_SWEEP,
    d_sweep: tuple[float, ...] = D_SWEEP,
    k_sweep: tuple[int, ...] = K_SWEEP,
    per_class_sweep: tuple[int, ...] = PER_CLASS_SWEEP,
    n_nodes: int = N,
    per_class: int = PER_CLASS,
    n_centres: int = 1000,
    n_seeds: int = 20,
) -> KlRecord:
    """Measure the residual KL on sampled graphs while n, d or K vary."""
    check_seeds(n_seeds)
    smallest = min([*n_sweep, n_nodes, *(per_class * k for k in per_class_sweep)])
    if not 1 <= n_centres <= smallest:
        raise InputError(
            f"n_centres is {n_centres}; expected 1 to {smallest}, the nodes of the smallest graph."
        )

    def measure(settings: list[Setting], *, own: bool = True) -> FloatArray:
        """(n_seeds, n_settings, 3): mean KL, mean S, singular centres."""
        return np.array(
            [
                [_mean_kl(*setting, homophily, n_centres, seed, own=own) for setting in settings]
                for seed in range(n_seeds)
            ]
        )

    sweeps: dict[str, list[Setting]] = {
        "n": [(n, D, K) for n in n_sweep],
        "d": [(n_nodes, d, K) for d in d_sweep],
        "K": [(n_nodes, D, k) for k in k_sweep],
        "per class": [(per_class * k, D, k) for k in per_class_sweep],
    }
    runs = {name: measure(settings) for name, settings in sweeps.items()}
    curves = {name: _curve(name, settings, runs[name]) for name, settings in sweeps.items()}
    slopes = {name: _slope(curves[name].values, run[:, :, 0]) for name, run in runs.items()}
    k = curves["K"].values
    large, full_rank = k >= LARGE_K, runs["K"][:, :, 0] * k / (k - 1.0)
    slopes |= {
        "d, neighbours only": _slope(curves["d"].values, measure(sweeps["d"], own=False)[:, :, 0]),
        f"K >= {LARGE_K}": _slope(k[large], runs["K"][:, large, 0]),
        "K, rank K": _slope(k, full_rank),
        f"K >= {LARGE_K}, rank K": _slope(k[large], full_rank[:, large]),
    }
    return KlRecord(
        homophily=homophily,
        n_centres=n_centres,
        n_seeds=n_seeds,
        by_n=curves["n"],
        by_d=curves["d"],
        by_k=curves["K"],
        per_class=curves["per class"],
        slopes=slopes,
        paper_slopes=PAPER_SLOPES,
        n_singular=int(sum(run[:, :, 2].sum() for run in runs.values())),
    )


def _curve(name: str, settings: list[Setting], runs: FloatArray) -> Curve:
    n, d, k = np.array(settings, dtype=np.float64).T
    values = {"n": n, "d": d, "K": k, "per class": k}[name]
    shared = runs[:, :, 1].mean(axis=0)
    return Curve(values, k**2 * d**2 / n, over_seeds(runs[:, :, 0]), shared)


def _slope(values: FloatArray, kl_by_seed: FloatArray) -> Estimate:
    return over_seeds(np.array([log_slope(values, row) for row in kl_by_seed]))


def _mean_kl(
    n_nodes: int,
    mean_degree: float,
    n_classes: int,
    homophily: float,
    n_centres: int,
    seed: int,
    *,
    own: bool,
) -> tuple[float, float, int]:
    """Mean KL and mean shared inputs over sampled centres; how many centres were singular."""
    model = CSBM(n_classes=n_classes, mean_degree=mean_degree, n_features=n_classes)
    graph = model.sample_undirected(n_nodes, homophily, random_state=seed).graph
    centres = stream("centres", seed).choice(graph.n_nodes, n_centres, replace=False)
    overlaps = [shared_inputs(graph, int(i), own=own) for i in centres if graph.in_degree[i] > 1]
    divergences = np.array([unit_kl(overlap) for overlap in overlaps])
    regular = np.isfinite(divergences)
    n_singular = int((~regular).sum())
    total = divergences[regular].sum()
    if not total > 0:
        raise InputError(
            f"no neighbours share an input around {n_centres} centres of {n_nodes} nodes and "
            f"mean degree {mean_degree:g}; take more centres, fewer nodes or a larger degree."
        )
    mean = (n_classes - 1) * total / (n_centres - n_singular)
    pairs = sum(len(s) * (len(s) - 1) for s in overlaps)
    shared = sum(float(s.sum() - np.trace(s)) for s in overlaps)
    return float(mean), shared / pairs, n_singular


def shared_inputs(graph: Graph, centre: int, *, own: bool = True) -> FloatArray:
    """S_jj' of the centre's neighbours: nodes that both aggregate, the centre left out."""
    neighbours = graph.indices[graph.indptr[centre] : graph.indptr[centre + 1]]
    first, last = graph.indptr[neighbours], graph.indptr[neighbours + 1]
    position = np.arange(len(neighbours))
    inputs = [graph.indices[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    owner = np.repeat(position, last - first)
    if own:
        inputs, owner = [*inputs, neighbours], np.concatenate([owner, position])
    names, column = np.unique(np.concatenate(inputs), return_inverse=True)
    membership = np.zeros((len(neighbours), len(names)))
    membership[owner, column] = 1.0
    membership[:, names == centre] = 0.0
    shared = membership @ membership.T
    filled = np.diag(shared) > 0
    return shared[np.ix_(filled, filled)]


def unit_kl(shared: FloatArray) -> float:
    """-1/2 ln det(I + R) with R_jj' = S_jj' / sqrt(d_j d_j'), for one dimension of the logits."""
    size = np.sqrt(np.diag(shared))
    eigenvalues = np.linalg.eigvalsh(shared / np.outer(size, size))
    if (eigenvalues < SINGULAR).any():
        return float(np.inf)
    return -0.5 * float(np.log(eigenvalues).sum())
