"""A policy about one class on the command line: what is asked for, written and said."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.core.errors import InputError

if TYPE_CHECKING:
    from gnncal.core.arrays import BoolArray, FloatArray, IntArray
    from gnncal.decisions import ClassPolicy, Costs
    from gnncal.files.bundle import Bundle

PANEL = "One class in view"
N_MOST_PROBABLE = 5  # nodes that are named
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
        help="Act automatically: share of the nodes acted on that must have the class.",
        rich_help_panel=PANEL,
    ),
]
Clear = Annotated[
    float | None,
    typer.Option(
        help="Clear automatically: share of the cleared nodes that must not have it.",
        rich_help_panel=PANEL,
    ),
]
Catch = Annotated[
    float | None,
    typer.Option(
        help="Share of the nodes with the class that must not be cleared.", rich_help_panel=PANEL
    ),
]
CostsOption = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="NAME=NUMBER,...",
        help="What mistakes cost, such as missed=500,false_alarm=20,review=3.",
        rich_help_panel=PANEL,
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(help="How many nodes people can look at.", rich_help_panel=PANEL),
]
POLICY_ASSUMPTION = (
    "This holds for nodes of the same pool as the validation nodes, if those were drawn from it at "
    "random. It does not hold for nodes that join the graph later, if the graph or the rate of the "
    "class drifts with time, or if only special nodes were labelled."
)


def asked_policy(
    positive: str | None,
    act: float | None,
    clear: float | None,
    catch: float | None,
    costs: str | None,
    budget: int | None,
    confidence_level: float,
) -> ClassPolicy | None:
    """Return the policy that the options ask for; None if they are about no class."""
    from gnncal.decisions import ClassPolicy

    wishes = {"act": act, "clear": clear, "catch": catch, "budget": budget}
    given = [name for name, value in {**wishes, "costs": costs}.items() if value is not None]
    if positive is None:
        if given:
            raise InputError(f"--{given[0]} is about one class; name it with --positive CLASS.")
        return None
    if not given:
        raise InputError(
            "--positive names a class but not what to decide about it; add --act 0.95, "
            "--clear 0.995, --catch 0.9, --costs missed=500,false_alarm=20,review=3 or --budget "
            "200."
        )
    priced = None if costs is None else read_costs(costs)
    policy = ClassPolicy(positive, **wishes, costs=priced, confidence_level=confidence_level)  # type: ignore[arg-type]
    policy.check_params()
    return policy


def read_costs(text: str) -> Costs:
    """Return costs from ``missed=500,false_alarm=20,review=3``."""
    from gnncal.decisions import Costs

    expected = "expected missed=500,false_alarm=20 and perhaps review=3"
    parts: dict[str, float] = {}
    for entry in text.split(","):
        name, _, value = (part.strip() for part in entry.partition("="))
        name = name.replace("-", "_")
        if name not in ("missed", "false_alarm", "review") or name in parts:
            raise InputError(f"--costs has {entry.strip()!r}; {expected}, each once.")
        try:
            parts[name] = float(value)
        except ValueError:
            raise InputError(f"--costs has {entry.strip()!r}; {expected}, as numbers.") from None
    if not {"missed", "false_alarm"} <= set(parts):
        raise InputError(f"--costs is {text!r}; {expected}.")
    costs = Costs(**parts)
    costs.checked(0)
    return costs


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


def verdict_of(policy: ClassPolicy, bundle: Bundle, probs: FloatArray) -> dict[str, Any]:
    """Return the columns that say what a policy decides; no text where it does not decide."""
    import numpy as np

    nodes = to_decide(bundle)
    actions = np.full(len(probs), "", dtype="<U6")
    actions[nodes] = policy.decide(probs[nodes])
    return {"probability": probs[:, policy.positive_], "action": actions}


def fit_policy(policy: ClassPolicy, bundle: Bundle, probs: FloatArray, nodes: IntArray) -> None:
    """Fit a policy on some of the validation nodes, for the nodes outside training and them."""
    policy.fit(
        probs,
        bundle.labels,
        nodes=nodes,
        class_names=bundle.class_names,
        decision_nodes=to_decide(bundle),
        predictions=bundle.logits.argmax(axis=1),
        ids=bundle.node_ids,  # so that `apply --refresh` finds these nodes again
    )


def policy_summary(policy: ClassPolicy, bundle: Bundle, probs: FloatArray) -> dict[str, Any]:
    """Return what a policy says about the nodes of a bundle, as plain data."""
    from gnncal.decisions import judge_policy

    predictions, others = bundle.logits.argmax(axis=1), to_decide(bundle)
    outlook = policy.outlook(probs[others], predictions=predictions[others])
    certified = len(policy.promises_) > policy.report_.n_uncertified
    summary: dict[str, Any] = {
        "policy": {
            **asdict(policy.report_),
            "positive": policy.positive_,
            "n_uncertified": policy.report_.n_uncertified,
            "sentence": policy.in_words(outlook),
            "outlook": asdict(outlook),
            "assumption": POLICY_ASSUMPTION if certified else None,
            "most_probable": _most_probable(policy, bundle, probs),
        }
    }
    test = bundle.test_nodes
    if test.size:
        outcome = judge_policy(
            bundle.labels[test], probs[test], policy, predictions=predictions[test]
        )
        kept = [{**asdict(each), "is_kept": each.is_kept} for each in outcome.kept]
        summary["policy"]["test"] = {**asdict(outcome), "kept": kept}
    return summary


def _most_probable(policy: ClassPolicy, bundle: Bundle, probs: FloatArray) -> list[dict[str, Any]]:
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
    listed = ", ".join(
        f"{node['id']} ({100 * node['probability']:.0f} %, {node['action']})"
        for node in policy["most_probable"]
    )
    lines.append(f"Most suspicious: {listed}. The file of decisions has every node.")
    test = policy.get("test")
    if test is None:
        return lines
    parts = [
        f"{test[f'n_{name}']:,} {done}, {test[f'n_{name}_positive']:,} of them positive"
        for name, done in (("act", "acted on"), ("clear", "cleared"), ("review", "for people"))
        if test[f"n_{name}"]
    ]
    found = [_found(each) for each in test["kept"]]
    lines.append(
        f"On the {test['n_nodes']:,} labelled test nodes, {test['n_positive']:,} of them positive: "
        f"{'; '.join(parts)}.{' Promised and found: ' if found else ''}{'; '.join(found)}"
        f"{'.' if found else ''}"
    )
    return lines


def _found(kept: dict[str, Any]) -> str:
    if kept["what"] == "cost":
        found = f"{kept['found']:,.0f} (expected {kept['low']:,.0f} to {kept['high']:,.0f})"
    elif kept["what"] in ("precision", "recall"):
        found = (
            f"{100 * kept['found']:.1f} % (expected {100 * kept['low']:.1f} to "
            f"{100 * kept['high']:.1f} %)"
        )
    else:
        found = f"{100 * kept['found']:.1f} % (promised {100 * kept['promised']:g} %)"
    return f"{kept['what']} {found}"
