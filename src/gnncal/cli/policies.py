"""A policy on the command line: what is asked for, fitted, written and said."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.data.errors import InputError

if TYPE_CHECKING:
    from gnncal.calibrators.base import Calibrator
    from gnncal.data.arrays import BoolArray, FloatArray, IntArray
    from gnncal.decisions import Costs, Policy
    from gnncal.files.bundle import Bundle

PANEL = "One class in view"
N_MOST_PROBABLE = 5  # nodes that are named
COSTS = ("missed", "false_alarm", "review")
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="Decide about this class, by its name or number; the calibrator is then free.",
        rich_help_panel=PANEL,
    ),
]
Act = Annotated[
    float | None,
    typer.Option(
        help="Precision: share of the nodes acted on that must have the class.",
        rich_help_panel=PANEL,
    ),
]
Clear = Annotated[
    float | None,
    typer.Option(
        help="Share of the cleared nodes that must not have the class.", rich_help_panel=PANEL
    ),
]
Recall = Annotated[
    float | None,
    typer.Option(
        help="Share of the nodes with the class that must not be cleared.", rich_help_panel=PANEL
    ),
]
FalsePositiveRate = Annotated[
    float | None,
    typer.Option(
        help="Share of the nodes without the class that may be acted on.", rich_help_panel=PANEL
    ),
]
CostsOption = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="NAME=NUMBER,...",
        help="What mistakes cost, such as missed=500,false_alarm=20,review=3; in place of a "
        "number the name of a column of INPUT, such as missed=amount.",
        rich_help_panel=PANEL,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        help="How many of the nodes to decide are reviewed, or which share of them (below 1).",
        rich_help_panel=PANEL,
    ),
]


def asked_policy(
    source: Path,
    wishes: dict[str, float | None],
    positive: str | None,
    costs: str | None,
    budget: float | None,
    confidence_level: float,
) -> Policy:
    """Return the policy that the options ask for."""
    from gnncal.decisions import Policy

    of_one_class = {**wishes, "accuracy": None, "costs": costs, "budget": budget}
    given = [name for name, value in of_one_class.items() if value is not None]
    if positive is None and given:
        option = given[0].replace("_", "-")
        raise InputError(f"--{option} is about one class; name it with --positive CLASS.")
    if positive is not None and not given:
        raise InputError(
            "--positive names a class but not what to decide about it; add --act 0.95, "
            "--clear 0.995, --recall 0.9, --costs missed=500,false_alarm=20,review=3 or --budget "
            "200."
        )
    if budget is not None and budget >= 1:
        if budget != int(budget):
            raise InputError(f"--budget is {budget:g}; expected a whole number, or a share.")
        budget = int(budget)
    policy = Policy(
        **wishes,  # type: ignore[arg-type]
        positive=positive,
        costs=None if costs is None else read_costs(costs, source),
        budget=budget,
        confidence_level=confidence_level,
    )
    policy.check_params()
    return policy


def read_costs(text: str, source: Path) -> Costs:
    """Return costs from ``missed=500,false_alarm=20,review=3``; a word names a column."""
    from gnncal.decisions import Costs

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
            parts[name] = _column(source, value)
    if not {"missed", "false_alarm"} <= set(parts):
        raise InputError(f"--costs is {text!r}; {expected}.")
    costs = Costs(**parts)
    if costs._is_same_for_all:
        costs._checked(0)
    return costs


def _column(source: Path, name: str) -> Any:
    """Return a column of nodes.parquet, or an array of a .npz file, one number for each node."""
    from gnncal.files.bundle import read_column

    return read_column(source, name)


def outside(bundle: Bundle) -> BoolArray:
    """Return which nodes lie outside training and validation."""
    import numpy as np

    others = np.ones(len(bundle.logits), dtype=np.bool_)
    others[bundle.train_nodes] = others[bundle.nodes] = False
    return others


def to_decide(bundle: Bundle) -> BoolArray:
    """Return the nodes that a policy decides about: those outside, or all if none is."""
    others = outside(bundle)
    return others if others.any() else ~others


def held_out_probabilities(
    calibrator: Calibrator, bundle: Bundle, share: float, seed: int
) -> tuple[FloatArray, IntArray, str | None]:
    """Fit on a part of the validation nodes.

    Returns the probabilities, the nodes of the rest, and what keeping predictions costs, in words.
    """
    from gnncal.calibrators.price import price_of_keeping
    from gnncal.data.nodes import Nodes
    from gnncal.decisions import hold_out

    fit_nodes, nodes = hold_out(bundle.nodes, labels=bundle.labels, share=share, random_state=seed)
    every = Nodes(bundle.logits, bundle.graph)
    labelled = every.with_labels(bundle.labels, nodes=fit_nodes, train_nodes=bundle.train_nodes)
    probs = calibrator.fit(labelled).predict_proba(every)
    price = price_of_keeping(calibrator, labelled, probs)
    return probs, nodes, None if price is None else price.advice(bundle.class_names)


def cross_fitted_probabilities(
    calibrator: Calibrator, bundle: Bundle, seed: int
) -> tuple[FloatArray, FloatArray, str | None]:
    """Fit on all validation nodes, and score each by a fit that has not seen it."""
    from gnncal.calibrators.price import price_of_keeping
    from gnncal.data.nodes import Nodes
    from gnncal.decisions.labelled import cross_fit_nodes

    every = Nodes(bundle.logits, bundle.graph)
    record = every.with_labels(bundle.labels, nodes=bundle.nodes, train_nodes=bundle.train_nodes)
    probs, cross_fitted = cross_fit_nodes(
        calibrator, every, bundle.labels, record, random_state=seed
    )
    price = price_of_keeping(calibrator, record, probs)
    return probs, cross_fitted, None if price is None else price.advice(bundle.class_names)


def read_probabilities(path: Path, bundle: Bundle) -> FloatArray:
    """Return probabilities made elsewhere, of as many classes as the logits."""
    from gnncal.files.bundle import read_probabilities

    probs = read_probabilities(path, bundle)
    n_classes = bundle.logits.shape[1]
    if probs.shape[1] != n_classes:
        raise InputError(f"{path} has {probs.shape[1]} classes but the logits have {n_classes}.")
    return probs


def verdict_of(policy: Policy, bundle: Bundle, probs: FloatArray) -> dict[str, Any]:
    """Return the columns that say what a policy decides; no text where it does not decide."""
    import numpy as np

    nodes = to_decide(bundle)
    actions = np.full(len(probs), "", dtype="<U6")
    actions[nodes] = policy.decide(probs[nodes], costs=costs_of(policy, nodes))
    if policy.positive_ is None:
        return {"action": actions}
    return {"probability": probs[:, policy.positive_], "action": actions}


def costs_of(policy: Policy, nodes: Any) -> Costs | None:
    """Return the policy's costs of these nodes, if they differ from node to node."""
    import numpy as np

    if policy.costs is None or policy.costs._is_same_for_all:
        return None
    return policy.costs._checked(len(nodes))._of(np.flatnonzero(nodes))


def fit_policy(
    policy: Policy, bundle: Bundle, probs: FloatArray, nodes: IntArray, **given: Any
) -> None:
    """Fit a policy on some of the validation nodes, for the nodes outside training and them."""
    policy.fit(
        probs,
        bundle.labels,
        nodes=nodes,
        class_names=bundle.class_names,
        decision_nodes=to_decide(bundle),
        predictions=bundle.logits.argmax(axis=1),
        ids=bundle.node_ids,  # so that `apply --refresh` finds these nodes again
        **given,
    )


def policy_summary(
    policy: Policy, bundle: Bundle, probs: FloatArray, *, is_foreign: bool = False
) -> dict[str, Any]:
    """Return what a policy says about the nodes of a bundle, as plain data.

    With the probabilities of another calibrator, ``is_foreign``, it guarantees nothing.
    """
    predictions, others = bundle.logits.argmax(axis=1), to_decide(bundle)
    outlook = policy.outlook(
        probs[others], costs=costs_of(policy, others), predictions=predictions[others]
    )
    report = policy.report_
    summary: dict[str, Any] = {
        **asdict(report),
        "positive": policy.positive_,
        "calibrator": policy.calibrator_,
        "is_foreign": is_foreign,
        "n_uncertified": len(report.guarantees) if is_foreign else report.n_uncertified,
        "sentence": outlook.sentence if is_foreign else policy.in_words(outlook),
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
    import numpy as np

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
            f"{node['id']} ({100 * node['probability']:.0f} %, {node['action']})"
            for node in policy["most_probable"]
        )
        lines.append(f"Most probable: {listed}. The file of decisions has every node.")
    if "test" in policy:
        lines.append(policy["test"]["sentence"])
    return lines
