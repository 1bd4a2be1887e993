"""The paper's own figures, as data."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Metric = Literal["ece", "nll", "degree_ece"]

METHODS = {  # the paper's names of methods and ours
    "Uncal": "uncalibrated",
    "TS": "ts",
    "VS": "vs",
    "ETS": "ets",
    "HTS": "hts",
    "CaGCN": "cagcn",
    "GATS": "gats",
    "GETS": "gets",
    "WATS": "wats",
    "HoTS": "hots",
    "Entropy-only": "entropy-only",
    "Homophily-only": "homophily-only",
    "HoTS (alpha=1)": "hots-alpha1",
}
BACKBONES = {
    "gcn": "GCN",
    "gat": "GAT",
    "gcnii": "GCNII",
    "gprgnn": "GPR-GNN",
    "gin": "GIN",
    "sage": "GraphSAGE",
}


class Figure(NamedTuple):
    """A mean over runs with its standard deviation."""

    mean: float
    spread: float


@cache
def main_ece() -> dict[tuple[str, str], Figure]:
    """(dataset, method) -> ECE in percent over both backbones."""
    return {
        (row["dataset"], METHODS[row["method"]]): Figure(float(row["mean"]), float(row["std"]))
        for row in _rows("main_ece")
        if row["mean"]
    }


@cache
def per_backbone(metric: Metric) -> dict[tuple[str, str, str], Figure]:
    """(dataset, backbone, method) -> the metric; calibration errors in percent."""
    ours = {theirs: name for name, theirs in BACKBONES.items()}
    return {
        (row["dataset"], ours[row["backbone"]], METHODS[row["method"]]): Figure(
            float(row["mean"]), float(row["std"])
        )
        for row in _rows(f"per_backbone_{metric}")
        if row["mean"]
    }


@cache
def summary(table: str) -> dict[tuple[str, str], float]:
    """(row, column) -> figure of one of the paper's smaller tables; methods by our names."""
    return {
        (row["row"], METHODS.get(row["column"], row["column"])): float(row["value"])
        for row in _rows("summaries")
        if row["table"] == table
    }


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (files("gnncal.bench") / "paper_tables" / f"{name}.csv").open() as file:
        yield from csv.DictReader(file)
