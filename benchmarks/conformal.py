"""Sizes of our prediction sets beside TorchCP's, on the same calibration nodes.

    pip install --no-deps torchcp
    python benchmarks/conformal.py --cache LOGITS --data RAW --seeds 1 --backbones gcn --draws 100
    python benchmarks/conformal.py ... --scores LAC,SNAPS --graphs Cora,Photo --out FILE

TorchCP asks for torchsort, which must be compiled, and for transformers. Neither is needed for
the scores that are compared, so stand-ins take their place. For each frozen classifier the test
nodes are the pool. As many calibration nodes as the split has validation nodes are drawn from it,
and both libraries give sets to the rest, from the raw logits, at 90% coverage, with empty sets
left empty. The CSV has a line for each graph and score, with the paired difference of mean sizes
over draws and its 95% interval. The random numbers of the two differ: TorchCP draws one for each
class, gnncal one for each node. TorchCP's SNAPS holds the similarities of all pairs of nodes: give
it graphs of at most about 10,000. A node whose features are all zero makes all its scores NaN.
"""

from __future__ import annotations

import csv
import sys
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

from families import for_each_task, options_for
from gnncal.data.arrays import BoolArray, FloatArray, IntArray
from gnncal.data.probability import softmax
from gnncal.decisions import ConformalClassifier
from gnncal.files.bundle import Bundle
from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task

COVERAGE = 0.9
K_REG, LAMBDA_REG, DIFFUSION = 1, 0.1, 0.5
SCORES: dict[str, dict[str, Any]] = {
    "APS": {},
    "RAPS": {"k_reg": K_REG, "lambda_reg": LAMBDA_REG},
    "DAPS": {"diffusion": DIFFUSION},
    "LAC": {},
    "SNAPS": {"k": 20},
}
COLUMNS = ("size", "TorchCP size", "difference", "low", "high", "covered", "TorchCP covered")


def prepare_torchcp() -> None:
    """Put stand-ins where TorchCP imports what the scores do not need."""
    sorting = ModuleType("torchsort")
    sorting.soft_rank = sorting.soft_sort = None  # type: ignore[attr-defined]
    sys.modules.setdefault("torchsort", sorting)
    sys.modules.setdefault("torchcp.llm", ModuleType("torchcp.llm"))


def torchcp_score(name: str, bundle: Bundle) -> Any:
    """The same score in TorchCP."""
    prepare_torchcp()
    import torch
    from torch_geometric.data import Data
    from torchcp.classification import score
    from torchcp.graph import score as graph_score

    edges = torch.from_numpy(bundle.graph.edge_index.astype(np.int64))
    data = Data(edge_index=edges, num_nodes=bundle.graph.n_nodes)
    if name == "SNAPS":
        features = bundle.graph.features
        dense = features.toarray() if sparse.issparse(features) else features
        k = SCORES[name]["k"]
        return graph_score.SNAPS(data, score.APS(), features=torch.from_numpy(dense), k=k)
    if name == "DAPS":
        return graph_score.DAPS(data, score.APS(), neigh_coef=DIFFUSION)
    if name == "RAPS":
        return score.RAPS(penalty=LAMBDA_REG, kreg=K_REG)
    return score.APS() if name == "APS" else score.LAC()


def torchcp_sets(score: Any, bundle: Bundle, nodes: IntArray, rest: IntArray) -> BoolArray:
    """Sets of the rest by TorchCP: its scores and its quantile."""
    import torch
    from torchcp.utils.common import calculate_conformal_value

    logits = torch.from_numpy(bundle.logits)
    calibration = score(logits)[nodes, bundle.labels[nodes]]
    threshold = calculate_conformal_value(calibration, 1 - COVERAGE)
    return (score(logits)[rest] <= threshold).numpy()


def figures(sets: BoolArray, labels: IntArray) -> tuple[float, float]:
    """Mean size and share with the true class."""
    return float(sets.sum(axis=1).mean()), float(sets[np.arange(len(labels)), labels].mean())


def work(n_draws: int, names: list[str]):
    def compare(task: Task, provider: TrainedLogits) -> dict[str, FloatArray]:
        bundle = provider.load(task)
        theirs = {name: torchcp_score(name, bundle) for name in names}
        probs, pool = softmax(bundle.logits), np.sort(bundle.test_nodes)
        generator = np.random.default_rng(task.seed)
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
        for draw in range(n_draws):
            nodes = np.sort(
                generator.choice(pool, size=bundle.calibration_nodes.size, replace=False)
            )
            rest = np.setdiff1d(pool, nodes)
            for name in names:
                conformal = ConformalClassifier(
                    COVERAGE,
                    score=name.lower(),
                    score_params=SCORES[name],
                    nonempty=False,
                    random_state=draw,
                )
                conformal.fit(probs, bundle.labels, bundle.graph, calibration_nodes=nodes)
                ours = conformal.predict_set(probs, bundle.graph)[rest]
                other = torchcp_sets(theirs[name], bundle, nodes, rest)
                labels = bundle.labels[rest]
                found[name].append((*figures(ours, labels), *figures(other, labels)))
        return {name: np.array(rows) for name, rows in found.items()}

    return compare


def main() -> None:
    parser = options_for(__doc__, "benchmarks/results/conformal.csv")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--scores", default="APS,RAPS,DAPS", help=f"of {', '.join(SCORES)}")
    options = parser.parse_args()
    run = work(options.draws, options.scores.split(","))
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["graph", "backbone", "seed", "score", *COLUMNS])
        for task, found in for_each_task(options, run).items():
            for name, rows in found.items():
                size, covered, other_size, other_covered = rows.mean(axis=0)
                gap = rows[:, 0] - rows[:, 2]
                margin = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
                values = (size, other_size, gap.mean(), gap.mean() - margin, gap.mean() + margin)
                texts = [f"{value:.4f}" for value in (*values, covered, other_covered)]
                writer.writerow([task.dataset, task.backbone, task.seed, name, *texts])
                print(task.dataset, name, *texts)


if __name__ == "__main__":
    main()
