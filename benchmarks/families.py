"""Families of graphs, and what the scripts that fit on frozen classifiers have in common.

Graphs of one family never take part in both the making and the judging of a choice.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from joblib import Parallel, delayed

from gnncal_lab.bench.logits import TrainedLogits
from gnncal_lab.bench.plan import Task

Result = TypeVar("Result")

FAMILIES = {
    "citations": ("Cora", "CiteSeer", "PubMed"),
    "co-purchases": ("Computers", "Photo"),
    "co-authors": ("CS", "Physics"),
    "web pages": ("Texas", "Cornell", "Wisconsin"),
    "wikipedia": ("Chameleon", "Squirrel"),
    "actors": ("Actor",),
    "workers": ("tolokers",),
}
FAMILY_OF = {graph: family for family, graphs in FAMILIES.items() for graph in graphs}


def options_for(description: str, out: str) -> argparse.ArgumentParser:
    """Options that name the frozen classifiers and the file of the results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--cache", type=Path, default=Path("results/logits"), help="logits of gnncal bench run"
    )
    parser.add_argument("--data", type=Path, help="raw data sets")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--backbones", default="gcn,gat")
    parser.add_argument("--graphs", default=",".join(FAMILY_OF), help="some of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def for_each_task(
    options: argparse.Namespace, work: Callable[[Task, TrainedLogits], Result]
) -> dict[Task, Result]:
    """Do the work for every frozen classifier of the options, in several processes."""
    provider = TrainedLogits(options.cache, options.data)
    tasks = [
        Task(dataset, backbone, seed)
        for dataset in options.graphs.split(",")
        for backbone in options.backbones.split(",")
        for seed in range(options.seeds)
    ]
    found = Parallel(n_jobs=options.jobs)(delayed(work)(task, provider) for task in tasks)
    return dict(zip(tasks, found, strict=True))
