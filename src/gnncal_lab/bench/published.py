"""The values that the paper published, as data."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Metric = Literal["ece", "nll", "degree_ece"]

METHODS = {  # the paper's name of a method -> ours
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
BACKBONES = {  # our name of a backbone -> the paper's
    "gcn": "GCN",
    "gat": "GAT",
    "gcnii": "GCNII",
    "gprgnn": "GPR-GNN",
    "gin": "GIN",
    "sage": "GraphSAGE",
}


class Value(NamedTuple):
    """A published mean over seeds with its standard deviation."""

    mean: float
    spread: float


@cache
def main_ece() -> dict[tuple[str, str], Value]:
    """ECE in percent over both backbones, by dataset and method."""
    return {
        (row["dataset"], METHODS[row["method"]]): Value(float(row["mean"]), float(row["std"]))
        for row in _rows("main_ece")
        if row["mean"]
    }


@cache
def per_backbone(metric: Metric) -> dict[tuple[str, str, str], Value]:
    """Return a metric by dataset, backbone and method; calibration errors are in percent."""
    ours = {theirs: name for name, theirs in BACKBONES.items()}
    return {
        (row["dataset"], ours[row["backbone"]], METHODS[row["method"]]): Value(
            float(row["mean"]), float(row["std"])
        )
        for row in _rows(f"per_backbone_{metric}")
        if row["mean"]
    }


@cache
def summary(table: str) -> dict[tuple[str, str], float]:
    """One of the paper's smaller tables by row and column; methods have our names."""
    return {
        (row["row"], METHODS.get(row["column"], row["column"])): float(row["value"])
        for row in _rows("summaries")
        if row["table"] == table
    }


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (files("gnncal_lab.bench") / "published_values" / f"{name}.csv").open() as file:
        yield from csv.DictReader(file)
