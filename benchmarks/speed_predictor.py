"""An epoch of the paper's homophily predictor, in gnncal and with PyG's GCNConv(edge_index)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gnncal
from gnncal.calibrators.homophily import Network, Predictor, Propagation
from gnncal.math.solvers import adam
from speed_data import Floats, make_problem
from speed_report import Report

Epochs = tuple[list[float], list[float]]  # the loss before each step, and its seconds


def bench_predictor(report: Report) -> None:
    import torch

    problem = make_problem(170_000, 2_500_000, 40)
    features = np.random.default_rng(1).standard_normal((170_000, 128), dtype=np.float32)
    graph = gnncal.Graph(problem.edge_index, 170_000, features)
    known = np.full(graph.n_nodes, -1)
    observed = problem.order[: 3 * graph.n_nodes // 10]
    known[observed] = problem.labels[observed]
    targets = Predictor(side="out")._targets(graph, known)
    supervised = np.flatnonzero(~np.isnan(targets))

    start = perf_counter()
    settings = Predictor()
    network = Network(Propagation(graph, add_self_loops=True), settings.hidden)
    once = perf_counter() - start
    initial = network.initial(np.random.default_rng(0))
    loss = network.loss(supervised, targets[supervised])

    def ours(n_epochs: int) -> Epochs:
        losses, starts = [], []

        def timed(theta: Floats) -> tuple[float, Floats]:
            starts.append(perf_counter())
            value, gradient = loss(theta)
            losses.append(value)
            return value, gradient

        adam(
            timed,
            initial,
            max_epochs=n_epochs,
            patience=None,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )
        starts.append(perf_counter())
        return losses, np.diff(starts).tolist()

    x, edges = torch.from_numpy(features), torch.from_numpy(problem.edge_index)
    rows = torch.from_numpy(supervised)
    wanted = torch.from_numpy(targets[supervised].astype(np.float32))
    threads = torch.get_num_threads()

    def theirs(n_epochs: int, *, cached: bool, n_threads: int) -> Epochs:
        torch.set_num_threads(n_threads)
        model = pyg_predictor(network.named(initial), cached=cached)
        optimiser = torch.optim.Adam(
            model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        losses, starts = [], []
        for _ in range(n_epochs):
            starts.append(perf_counter())
            optimiser.zero_grad()
            value = torch.nn.functional.mse_loss(model(x, edges)[rows], wanted)
            value.backward()
            optimiser.step()
            losses.append(float(value.detach()))
        starts.append(perf_counter())
        torch.set_num_threads(threads)
        return losses, np.diff(starts).tolist()

    contestants: dict[str, Callable[[int], Epochs]] = {
        "gnncal": ours,
        "PyG": lambda n: theirs(n, cached=False, n_threads=threads),
        "PyG, cached=True": lambda n: theirs(n, cached=True, n_threads=threads),
        "PyG, one thread": lambda n: theirs(n, cached=False, n_threads=1),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    losses: dict[str, list[float]] = {}
    for n_epochs in (5, 10):
        for name, run in contestants.items():
            losses[name], times = run(n_epochs)
            seconds[name] += times[1:]  # the first epoch warms up
    epoch = {name: median(values) for name, values in seconds.items()}
    print(f"  torch uses {threads} threads; gnncal prepares once in {once:.2f} s")
    for name, value in epoch.items():
        ratio = value / epoch["gnncal"]
        gap = float(np.max(np.abs(np.array(losses[name]) / losses["gnncal"] - 1)))
        report.add(
            f"{name:17}{value:7.3f} s an epoch, {ratio:5.1f} times gnncal's; "
            f"losses of 10 epochs differ by at most {gap:.1e}, relatively",
            name=name,
            epoch_seconds=value,
            ratio=ratio,
            losses=losses[name],
            largest_relative_difference=gap,
            preparation_seconds=once,
            torch_threads=threads,
            supervised_nodes=int(supervised.size),
        )
    _, pyg, *_ = report.figures
    report.target("predictor: PyG epoch / gnncal epoch", pyg["ratio"], at_least=12)
    gap = max(figure["largest_relative_difference"] for figure in report.figures)
    report.target("predictor: relative difference of losses", gap, at_most=1e-3)
    assert gap <= 1e-3, "the two predictors are not the same"


def pyg_predictor(weights: dict[str, Floats], *, cached: bool) -> Any:
    """The same two-layer GCN with the same initial weights, in PyTorch Geometric."""
    import torch
    from torch_geometric.nn import GCNConv

    class TwoLayers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            n_features, hidden = weights["input_weight"].shape
            self.first = GCNConv(n_features, hidden, cached=cached)
            self.second = GCNConv(hidden, 1, cached=cached)

        def forward(self, x: Any, edge_index: Any) -> Any:
            hidden = self.first(x, edge_index).relu()
            return self.second(hidden, edge_index).squeeze(1).sigmoid()

    model = TwoLayers()
    with torch.no_grad():
        model.first.lin.weight.copy_(torch.from_numpy(weights["input_weight"].T))
        model.first.bias.copy_(torch.from_numpy(weights["input_bias"]))
        model.second.lin.weight.copy_(torch.from_numpy(weights["output_weight"][None]))
        model.second.bias.copy_(torch.from_numpy(weights["output_bias"]))
    return model
