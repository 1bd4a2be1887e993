"""What a policy says about the nodes of a bundle, for ``decide`` and ``apply --policy``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.decisions import Costs, Policy
from gnncal.files.bundle import Bundle

N_MOST_PROBABLE = 5  # nodes that are named


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


def decision_columns(policy: Policy, bundle: Bundle, probs: FloatArray) -> dict[str, Any]:
    """Return the columns that say what a policy decides; no text where it does not decide."""
    nodes = decision_nodes(bundle)
    actions = np.full(len(probs), "", dtype="<U6")
    actions[nodes] = policy.decide(probs[nodes], costs=_costs_of(policy, nodes))
    if policy.positive_ is None:
        return {"action": actions}
    return {"probability": probs[:, policy.positive_], "action": actions}


def _costs_of(policy: Policy, nodes: BoolArray) -> Costs | None:
    """Return the policy's costs of these nodes, if they differ from node to node."""
    if policy.costs is None or policy.costs._is_same_for_all:
        return None
    return policy.costs._checked(len(nodes))._of(np.flatnonzero(nodes))


def policy_summary(
    policy: Policy, bundle: Bundle, probs: FloatArray, *, is_foreign: bool = False
) -> dict[str, Any]:
    """Return what a policy says about the nodes of a bundle, as plain data.

    With the probabilities of another calibrator, ``is_foreign``, it guarantees nothing.
    """
    predictions, others = bundle.logits.argmax(axis=1), decision_nodes(bundle)
    forecast = policy._forecast_of(probs[others], _costs_of(policy, others), predictions[others])
    report = policy.report_
    summary: dict[str, Any] = {
        **asdict(report),
        "positive": policy.positive_,
        "calibrator": policy.calibrator_,
        "is_foreign": is_foreign,
        "n_uncertified": len(report.guarantees) if is_foreign else report.n_uncertified,
        "sentence": forecast.sentence if is_foreign else policy._summary(forecast),
        "assumption": None if is_foreign else report.assumption,
        "forecast": asdict(forecast),
    }
    if policy.positive_ is not None:
        summary["most_probable"] = _most_probable(policy, bundle, probs)
    if bundle.test_nodes.size:
        is_test = np.zeros_like(others)
        is_test[bundle.test_nodes] = True
        outcome = policy.judge(
            bundle.labels[is_test],
            probs[is_test],
            costs=_costs_of(policy, is_test),
            predictions=predictions[is_test],
        )
        checks = [{**asdict(each), "is_kept": each.is_kept} for each in outcome.checks]
        summary["test"] = {**asdict(outcome), "checks": checks, "sentence": outcome.sentence}
    return {"policy": summary}


def _most_probable(policy: Policy, bundle: Bundle, probs: FloatArray) -> list[dict[str, Any]]:
    """Return the nodes to decide about that most probably have the class, with their actions."""
    columns, nodes = decision_columns(policy, bundle, probs), decision_nodes(bundle)
    p = np.where(nodes, columns["probability"], -1.0)
    first = np.argsort(-p, kind="stable")[: min(N_MOST_PROBABLE, int(nodes.sum()))]
    ids = np.arange(len(probs)) if bundle.node_ids is None else bundle.node_ids
    return [
        {
            "id": ids[node].item(),
            "probability": float(p[node]),
            "action": str(columns["action"][node]),
        }
        for node in first
    ]


def policy_lines(summary: dict[str, Any]) -> list[str]:
    """Return the paragraphs that say it in a terminal."""
    policy = summary["policy"]
    lines = [policy["sentence"]]
    if policy["assumption"] is not None:
        lines.append(policy["assumption"])
    if "most_probable" in policy:
        listed = ", ".join(
            f"{node['id']} ({_below_one(node['probability'])}, {node['action']})"
            for node in policy["most_probable"]
        )
        lines.append(f"Most probable: {listed}. The file of decisions has every node.")
    if "test" in policy:
        lines.append(policy["test"]["sentence"])
    return lines


def _below_one(probability: float) -> str:
    """Return a probability in percent; none but 1 itself is shown as 100%."""
    text = f"{100 * probability:.1f}%"
    return ">99.9%" if text == "100.0%" and probability < 1 else text
