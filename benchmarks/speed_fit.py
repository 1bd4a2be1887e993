"""The converged HoTS fit against 1,000 epochs of the paper's Adam loop, on the same covariates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import gnncal
from gnncal.data.arrays import IntArray
from gnncal.data.nodes import Nodes
from gnncal.math.losses import TemperatureLoss
from gnncal.math.solvers import PAPER_EPOCHS, adam
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task
from speed_data import Floats, make_problem
from speed_report import Record, Report, seconds_of


def bench_fit(report: Report, run: Path | None) -> None:
    print("  the parameter fit alone; Adam: 1,000 epochs in NumPy, and in torch as released (the")
    print("  faster of one thread and all); loss: the fit's minus the lowest of all Adam's epochs")
    print(
        f"  {'data':18}{'nodes':>7}{'K':>4}{'fit s':>9}{'Adam s':>9}{'torch s':>9}"
        f"{'Adam/fit':>10}{'torch/fit':>10}{'loss':>10}"
    )
    for name, problem in fit_problems(run):
        record = race_fits(problem)
        report.add(
            f"{name:18}{problem.calibration_nodes.size:7}{problem.n_classes:4}{record['fit_seconds']:9.4f}"
            f"{record['adam_seconds']:9.3f}{record['torch_seconds']:9.3f}{record['ratio']:10.1f}"
            f"{record['ratio_torch']:10.1f}{record['loss_gap']:10.1e}",
            name=name,
            nodes=problem.calibration_nodes.size,
            n_classes=problem.n_classes,
            **record,
        )
    # The paper's loop is the one in torch; ours in NumPy is there to see what torch costs.
    smallest = min(figure["ratio_torch"] for figure in report.figures)
    report.target("fit: Adam in torch / fit, smallest", smallest, at_least=50)
    worst = max(figure["loss_gap"] for figure in report.figures)
    report.target("fit: loss above Adam's lowest", worst, at_most=1e-9)


def fit_problems(run: Path | None) -> Iterator[tuple[str, Nodes]]:
    """Generated problems with as many training as calibration nodes, then real ones.

    Those are the logits of two seeds of GCN and GAT that a ``gnncal bench run --out RUN`` cached.
    """
    for n, n_classes in ((500, 7), (2_000, 5), (17_000, 40)):
        made = make_problem(10 * n, 100 * n, n_classes)
        graph = gnncal.Graph(made.edge_index, 10 * n)
        nodes, train_nodes = made.split(0.1, 0.1)
        every = Nodes(made.logits, graph)
        problem = every.with_labels(made.labels, nodes=nodes, train_nodes=train_nodes)
        yield f"generated-{n}", problem
    if run is None:
        return
    source = TrainedLogits(run / "logits")
    for path in sorted((run / "logits").glob("*-g[ca][nt]-[01].npz")):
        dataset, backbone, seed = path.stem.rsplit("-", 2)
        b = source.load(Task(dataset, backbone, int(seed)))
        every = Nodes(b.logits, b.graph)
        yield path.stem, every.with_labels(b.labels, nodes=b.nodes, train_nodes=b.train_nodes)


def race_fits(problem: Nodes) -> Record:
    """The parameter fit alone, each way, on the same covariates."""
    calibrator = gnncal.HoTS()
    covariates = calibrator._fit_covariates(problem)
    on_nodes, on_train = covariates[problem.calibration_nodes], covariates[problem.train_nodes]
    loss = TemperatureLoss(problem.calibration_logits, problem.labels)
    train_loss = TemperatureLoss(problem.logits[problem.train_nodes], problem.train_labels)
    values: list[float] = []

    def objective(raw: Floats) -> tuple[float, Floats]:
        theta, link = calibrator._paper_link(raw)
        value, gradient = calibrator._value_and_gradient(theta, on_nodes, loss)
        values.append(value)
        return value, gradient @ link

    def monitor(raw: Floats) -> float:
        theta, _ = calibrator._paper_link(raw)
        return train_loss.value(calibrator._formula(theta, on_train)[0])

    def adam_in_numpy() -> None:
        start = calibrator._paper_start()
        adam(objective, start, max_epochs=PAPER_EPOCHS, patience=None, monitor=monitor)

    def fit() -> None:
        calibrator._fit_to_convergence(on_nodes, loss)

    # The fit before, between and after the slow ones: a busy neighbour hits all alike.
    fits = [seconds_of(fit) for _ in range(5)]
    in_numpy = seconds_of(adam_in_numpy)
    fits += [seconds_of(fit) for _ in range(5)]
    in_torch = seconds_in_torch(problem, covariates)
    fits += [seconds_of(fit) for _ in range(5)]
    final = loss.value(calibrator._formula(calibrator._theta(), on_nodes)[0])
    return {
        "fit_seconds": median(fits),
        "adam_seconds": in_numpy,
        "torch_seconds": in_torch,
        "ratio": in_numpy / median(fits),
        "ratio_torch": in_torch / median(fits),
        "loss": final,
        "adam_lowest_loss": min(values),
        "loss_gap": final - min(values),
        "iterations": calibrator.n_iter_,
        "parameters": calibrator._theta().tolist(),
    }


def seconds_in_torch(problem: Nodes, covariates: Floats) -> float:
    """The paper's loop as its release has it: autograd, float32, best on the training loss."""
    import torch
    from torch.nn.functional import cross_entropy, softplus

    def rows(nodes: IntArray) -> tuple[Any, Any, Any]:
        chosen = torch.from_numpy(covariates[nodes].astype(np.float32))
        return (
            torch.from_numpy(problem.logits[nodes].astype(np.float32)),
            chosen[:, 0],
            chosen[:, 1],
        )

    raw = [torch.nn.Parameter(torch.tensor(value)) for value in (0.5, 0.5, 0.0)]
    optimiser = torch.optim.Adam(raw, lr=1e-2)
    fitted, watched = rows(problem.calibration_nodes), rows(problem.train_nodes)
    labels, train_labels = torch.from_numpy(problem.labels), torch.from_numpy(problem.train_labels)

    def scaled(logits: Any, numerator: Any, log_signal: Any) -> Any:
        base, beta, alpha = (softplus(value) for value in raw)
        ratio = numerator * torch.exp(-(alpha + 0.01) * log_signal)
        return logits / (base + 0.1 + (beta + 0.01) * ratio)[:, None]

    def loop(n_epochs: int) -> None:
        best, best_loss = raw, np.inf
        for _ in range(n_epochs):
            optimiser.zero_grad()
            cross_entropy(scaled(*fitted), labels).backward()
            optimiser.step()
            with torch.no_grad():
                current = float(cross_entropy(scaled(*watched), train_labels))
            if current <= best_loss:
                best, best_loss = [value.detach().clone() for value in raw], current
        assert best is not raw

    def trial(n_threads: int) -> float:
        torch.set_num_threads(n_threads)
        loop(5)  # warms up
        return seconds_of(lambda: loop(20))

    default = torch.get_num_threads()
    torch.set_num_threads(min((1, default), key=trial))
    seconds = seconds_of(lambda: loop(PAPER_EPOCHS))
    torch.set_num_threads(default)
    return seconds
