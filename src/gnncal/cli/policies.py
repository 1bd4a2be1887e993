"""What policies say about the nodes of a bundle, for ``decide`` and ``apply --policy``."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.data.errors import InputError
from gnncal.decisions import Costs, Policy
from gnncal.files.bundle import Bundle, read_column

COSTS = ("missed", "false_alarm", "review")
Policies = Mapping[str, Policy]  # by the value of a column, or one by the empty name


def unsplit_nodes(bundle: Bundle) -> BoolArray:
    """Return which nodes lie outside training and validation."""
    others = np.ones(len(bundle.logits), dtype=np.bool_)
    others[bundle.train_nodes] = others[bundle.nodes] = False
    return others


def decision_nodes(bundle: Bundle) -> BoolArray:
    """Return the nodes in question, else those outside the splits, or all if none is."""
    if bundle.only is not None:
        return bundle.only
    others = unsplit_nodes(bundle)
    return others if others.any() else ~others


def decision_columns(
    policies: Policies, bundle: Bundle, probs: FloatArray, groups: Any = None
) -> dict[str, Any]:
    """Return the columns that say what is decided; no text where nothing is to be decided."""
    nodes, columns = decision_nodes(bundle), dict[str, Any]()
    actions = np.where(nodes, "review", "").astype("<U6")  # where a group has no policy
    for name, policy in policies.items():
        inside = nodes if groups is None else nodes & (groups.astype(str) == name)
        if inside.any():
            actions[inside] = policy.decide(probs[inside], costs=_costs_of(policy, inside))
        if policy.positive_ is not None:
            columns["probability"] = probs[:, policy.positive_]
    return {**columns, "action": actions}


def _costs_of(policy: Policy, nodes: BoolArray) -> Costs | None:
    """Return the policy's costs of these nodes, if they differ from node to node."""
    if policy.costs is None or policy.costs._is_same_for_all:
        return None
    return policy.costs._checked(len(nodes))._of(np.flatnonzero(nodes))


def read_costs(text: str, source: Path) -> Costs:
    """Return costs from ``missed=500,false_alarm=20,review=3``; a word names a column."""
    expected = "expected missed=500,false_alarm=20 and perhaps review=3"
    parts: dict[str, Any] = {}
    for entry in text.split(","):
        name, _, value = (part.strip() for part in entry.partition("="))
        name = name.replace("-", "_")
        if name not in COSTS or name in parts or not value:
            raise InputError(f"--costs has {entry.strip()!r}; {expected}, each once.")
        try:
            parts[name] = float(value)
        except ValueError:
            parts[name] = read_column(source, value)
    if not {"missed", "false_alarm"} <= set(parts):
        raise InputError(f"--costs is {text!r}; {expected}.")
    costs = Costs(**parts)
    if costs._is_same_for_all:
        costs._checked(0)
    return costs


def with_costs(policy: Policy, costs: str | None, source: Path, bundle: Bundle) -> Policy:
    """Return a policy with the costs of a bundle's nodes; those of its fit are of other nodes."""
    if costs is None and (policy.costs is None or policy.costs._is_same_for_all):
        return policy
    if costs is None or policy.costs is None:
        raise InputError(
            "the policy has costs that differ from node to node; pass those of INPUT, such as "
            "--costs missed=amount,false_alarm=20."
            if costs is None
            else "--costs are for a policy that decides by costs, and this one does not."
        )
    prices, priced = read_costs(costs, source)._checked(len(bundle.logits)), copy(policy)
    priced.costs = prices if bundle.only is None else prices._of(np.flatnonzero(bundle.only))
    return priced


def summary(
    policies: Policies,
    bundle: Bundle,
    probs: FloatArray,
    groups: Any = None,
    *,
    is_foreign: bool = False,
) -> dict[str, Any]:
    """Return what policies say about the nodes of a bundle, as plain data.

    With the probabilities of another calibrator, ``is_foreign``, they guarantee nothing.
    """
    names, parts = np.full(len(probs), "") if groups is None else groups.astype(str), {}
    for name, policy in policies.items():
        if (decision_nodes(bundle) & (names == name)).any():
            parts[name] = _summary_of(policy, bundle, probs, names == name, is_foreign)
    return {"policy": parts[""]} if groups is None else {"groups": parts}


def _summary_of(
    policy: Policy, bundle: Bundle, probs: FloatArray, inside: BoolArray, is_foreign: bool
) -> dict[str, Any]:
    predictions, others = bundle.logits.argmax(axis=1), decision_nodes(bundle) & inside
    prices = policy._prices(_costs_of(policy, others), int(others.sum()))
    forecast = policy._forecast(probs[others], prices, predictions[others])
    report = policy.report_
    said: dict[str, Any] = {
        **asdict(report),
        "positive": policy.positive_,
        "calibrator": policy.calibrator_,
        "made": policy.made_,
        "is_foreign": is_foreign,
        "n_uncertified": len(report.guarantees) if is_foreign else report.n_uncertified,
        "sentence": " ".join([*([] if is_foreign else [report.sentence]), forecast.sentence]),
        "assumption": None if is_foreign else report.assumption,
        "forecast": asdict(forecast),
    }
    is_test = np.zeros_like(others)
    is_test[bundle.test_nodes] = True
    is_test &= inside
    if is_test.any():
        outcome = policy.judge(
            *(bundle.labels[is_test], probs[is_test]),
            costs=_costs_of(policy, is_test),
            predictions=predictions[is_test],
        )
        checks = [{**asdict(each), "is_kept": each.is_kept} for each in outcome.checks]
        said["test"] = {**asdict(outcome), "checks": checks, "sentence": outcome.sentence}
    return said


def lines(summary: dict[str, Any]) -> list[str]:
    """Return the paragraphs that say it in a terminal."""
    groups = summary.get("groups", {})
    parts = {f"{summary['by']} {name}: ": each for name, each in groups.items()}
    parts = parts or {"": summary["policy"]}
    assumptions = sorted({each["assumption"] for each in parts.values()} - {None})
    found = [name + each["test"]["sentence"] for name, each in parts.items() if "test" in each]
    return [*(name + each["sentence"] for name, each in parts.items()), *assumptions, *found]
