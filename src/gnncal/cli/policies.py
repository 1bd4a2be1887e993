"""What a policy says about the nodes of a bundle, for ``decide`` and ``apply --policy``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from gnncal.data.arrays import BoolArray, FloatArray
from gnncal.decisions import Costs, Policy
from gnncal.files.bundle import Bundle

N_MOST_PROBABLE = 5  # nodes that are named


def outside(bundle: Bundle) -> BoolArray:
    """Return which nodes lie outside training and validation."""
    others = np.ones(len(bundle.logits), dtype=np.bool_)
    others[bundle.train_nodes] = others[bundle.nodes] = False
    return others


def to_decide(bundle: Bundle) -> BoolArray:
    """Return the nodes that a policy decides about: those outside, or all if none is."""
    others = outside(bundle)
    return others if others.any() else ~others


def verdict_of(policy: Policy, bundle: Bundle, probs: FloatArray) -> dict[str, Any]:
    """Return the columns that say what a policy decides; no text where it does not decide."""
    nodes = to_decide(bundle)
    actions = np.full(len(probs), "", dtype="<U6")
    actions[nodes] = policy.decide(probs[nodes], costs=costs_of(policy, nodes))
    if policy.positive_ is None:
        return {"action": actions}
    return {"probability": probs[:, policy.positive_], "action": actions}


def costs_of(policy: Policy, nodes: Any) -> Costs | None:
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
    predictions, others = bundle.logits.argmax(axis=1), to_decide(bundle)
    outlook = policy._outlook_of(probs[others], costs_of(policy, others), predictions[others])
    report = policy.report_
    summary: dict[str, Any] = {
        **asdict(report),
        "positive": policy.positive_,
        "calibrator": policy.calibrator_,
        "is_foreign": is_foreign,
        "n_uncertified": len(report.guarantees) if is_foreign else report.n_uncertified,
        "sentence": outlook.sentence if is_foreign else policy._in_words(outlook),
        "assumption": None if is_foreign else report.assumption,
        "outlook": asdict(outlook),
    }
    if policy.positive_ is not None:
        summary["most_probable"] = _most_probable(policy, bundle, probs)
    test = bundle.test_nodes
    if test.size:
        is_test = outside(bundle)
        is_test[:] = False
        is_test[test] = True
        outcome = policy.judge(
            bundle.labels[is_test],
            probs[is_test],
            costs=costs_of(policy, is_test),
            predictions=predictions[is_test],
        )
        kept = [{**asdict(each), "is_kept": each.is_kept} for each in outcome.kept]
        summary["test"] = {**asdict(outcome), "kept": kept, "sentence": outcome.sentence}
    return {"policy": summary}


def _most_probable(policy: Policy, bundle: Bundle, probs: FloatArray) -> list[dict[str, Any]]:
    """Return the nodes to decide about that most probably have the class, with their actions."""
    columns, nodes = verdict_of(policy, bundle, probs), np.flatnonzero(to_decide(bundle))
    first = nodes[np.argsort(-columns["probability"][nodes], kind="stable")[:N_MOST_PROBABLE]]
    ids = np.arange(len(probs)) if bundle.node_ids is None else bundle.node_ids
    return [
        {
            "id": ids[node].item(),
            "probability": float(columns["probability"][node]),
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
