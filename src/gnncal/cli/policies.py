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
from gnncal.files.bundle import Bundle, read_column, refuse_labels

COSTS = ("missed", "false_alarm", "review")


def unsplit_nodes(bundle: Bundle) -> BoolArray:
    """Return which nodes lie outside training and validation."""
    others = np.ones(len(bundle.logits), dtype=np.bool_)
    others[bundle.train_nodes] = others[bundle.calibration_nodes] = False
    return others


def decision_nodes(bundle: Bundle) -> BoolArray:
    """Return the nodes in question, else those outside the splits, or all if none is."""
    if bundle.only is not None:
        return bundle.only
    others = unsplit_nodes(bundle)
    return others if others.any() else ~others


def decide_nodes(
    policies: Mapping[Any, Policy],
    bundle: Bundle,
    probs: FloatArray,
    groups: Any = None,
    *,
    is_foreign: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return columns of decisions, and what the policy of each group says, as plain data."""
    in_question, columns, said = decision_nodes(bundle), dict[str, Any](), dict[str, Any]()
    actions = np.where(in_question, "review", "").astype("<U6")  # where a group has no policy
    predictions = bundle.logits.argmax(axis=1)
    for value, policy in policies.items():
        inside = np.full(len(probs), True) if groups is None else groups.astype(str) == str(value)
        others = np.flatnonzero(in_question & inside)
        test = bundle.test_nodes[inside[bundle.test_nodes]]
        if policy.positive_ is not None:
            columns["probability"] = probs[:, policy.positive_]
        if not others.size:
            continue
        here, there = (policy.costs and policy.costs._of(nodes) for nodes in (others, test))
        actions[others] = policy.decide(probs[others], costs=here)
        prices = policy._prices(here, others.size)
        forecast = policy._forecast(probs[others], prices, predictions[others])
        report = policy.report_
        said[str(value)] = {
            **asdict(report),
            "positive": policy.positive_,
            "calibrator": policy.calibrator_,
            "made": policy.made_,
            "is_foreign": is_foreign,
            # On the probabilities of another calibrator a policy guarantees nothing.
            "n_uncertified": len(report.guarantees) if is_foreign else report.n_uncertified,
            "sentence": " ".join([*([] if is_foreign else [report.sentence]), forecast.sentence]),
            "assumption": None if is_foreign else report.assumption,
            "forecast": asdict(forecast),
        }
        if test.size:
            judged = bundle.labels[test], probs[test]
            outcome = policy.judge(*judged, costs=there, predictions=predictions[test])
            checks = [{**asdict(each), "is_kept": each.is_kept} for each in outcome.checks]
            found = {**asdict(outcome), "checks": checks, "sentence": outcome.sentence}
            said[str(value)]["test"] = found
    return {**columns, "action": actions}, said


def joined_later(policy: Policy, bundle: Bundle, is_refreshed: bool) -> list[str]:
    """Return a note if a guarantee holds and nodes to decide were not in the graph of the fit."""
    in_question = decision_nodes(bundle)
    n = int(policy._joined(bundle.node_ids, in_question.size)[in_question].sum())
    if n == 0 or policy.report_.assumption is None:
        return []
    limit = (
        "a guarantee covers them only if the calibration nodes are a random sample of all nodes of "
        "today."
        if is_refreshed
        else "no guarantee covers them; certify again on the whole graph, with decide or --refresh."
    )
    return [
        f"{n:,} of {in_question.sum():,} nodes to decide joined the graph after the fit: {limit}"
    ]


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
            refuse_labels(source, value)
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


def lines(summary: dict[str, Any]) -> list[str]:
    """Return the paragraphs that say it in a terminal."""
    parts = {"": summary["policy"]} if "policy" in summary else {}
    parts |= {f"{summary['by']} {name}: ": each for name, each in summary.get("groups", {}).items()}
    assumptions = sorted({each["assumption"] for each in parts.values()} - {None})
    found = [name + each["test"]["sentence"] for name, each in parts.items() if "test" in each]
    return [*(name + each["sentence"] for name, each in parts.items()), *assumptions, *found]
