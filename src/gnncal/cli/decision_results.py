"""What ``decide`` writes and prints of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnncal.cli.gates import Gate
from gnncal.cli.policies import outside, policy_lines, policy_summary, to_decide, verdict_of
from gnncal.cli.terminal import note, out, print_json, print_written, to_json

if TYPE_CHECKING:
    from gnncal.calibrators.base import Calibrator
    from gnncal.core.arrays import BoolArray, FloatArray, IntArray
    from gnncal.decisions import ClassPolicy, ConformalClassifier, SelectiveClassifier
    from gnncal.files.bundle import Bundle

ASSUMPTION = (
    "This holds for nodes of the same pool as the validation nodes, if those were drawn from it at "
    "random. It does not hold for nodes that join the graph later, if the graph drifts with time, "
    "or if only special nodes were labelled. It is about all decided nodes together, not about "
    "each class: where a class is rare, most decisions are for the others."
)
MOST_CLASSES = 10  # that are listed one by one


@dataclass(frozen=True)
class Decisions:
    """Everything that was fitted, on which nodes, and what it says."""

    calibrator: Calibrator | None  # None if the probabilities came from a file
    probs: FloatArray  # (n_nodes, n_classes)
    nodes: IntArray  # nodes of the threshold and of the sets
    selective: SelectiveClassifier | None  # None if a policy decides
    policy: ClassPolicy | None
    conformal: ConformalClassifier | None
    sets: BoolArray | None  # (n_nodes, n_classes)

    @property
    def n_uncertified(self) -> int:
        """Number of promises that were asked for and cannot be certified."""
        if self.policy is not None:
            return self.policy.report_.n_uncertified
        return int(self.selective is not None and self.selective.n_decided_ == 0)

    @property
    def certifies_nothing(self) -> bool:
        """Whether promises were asked for and none of them is certified."""
        if self.policy is not None:
            return self.policy.report_.certifies_nothing
        return self.n_uncertified > 0

    def verdict(self, bundle: Bundle) -> dict[str, Any]:
        """Return the columns that say what is decided about each node."""
        if self.selective is not None:
            return {"decide": self.selective.decide(self.probs)}
        assert self.policy is not None
        return verdict_of(self.policy, bundle, self.probs)


def write_files(
    staging: Path, bundle: Bundle, decisions: Decisions, notes: list[str], *, as_parquet: bool
) -> dict[str, Any]:
    """Write decisions, what made them, and the summary; return the summary."""
    from gnncal.files.bundle import write_decisions

    written = write_decisions(
        staging,
        bundle,
        decisions.probs,
        decisions.verdict(bundle),
        decisions.sets,
        as_parquet=as_parquet,
    )
    files = [written.name]
    if decisions.calibrator is not None:
        decisions.calibrator.save(
            staging / "calibrator.safetensors", class_names=bundle.class_names
        )
        files.append("calibrator.safetensors")
    for name in ("selective", "policy", "conformal"):
        fitted = getattr(decisions, name)
        if fitted is not None:
            fitted.save(staging / f"{name}.safetensors", class_names=bundle.class_names)
            files.append(f"{name}.safetensors")
    summary = {**_summarise(bundle, decisions, notes), "files": [*files, "summary.json"]}
    (staging / "summary.json").write_text(to_json(summary) + "\n")
    return summary


def print_decisions(folder: Path, summary: dict[str, Any], *, as_json: bool) -> None:
    """Print the notes to stderr, and the result in plain words or as JSON to stdout."""
    parts = [summary.get(name) or {} for name in ("selective", "policy", "sets")]
    said = " ".join(part.get("sentence", "") for part in parts)
    for message in summary["notes"]:
        if message not in said:
            note(message)
    if as_json:
        print_json(summary)
        return
    lines = policy_lines(summary) if "policy" in summary else _decision_lines(summary)
    lines = [*lines, _node_line(summary), *_set_lines(summary), *_test_lines(summary)]
    out.print("\n\n".join(lines), soft_wrap=True)
    out.print()
    print_written(folder, summary["files"])


def _summarise(bundle: Bundle, decisions: Decisions, notes: list[str]) -> dict[str, Any]:
    """Return the result as plain data."""
    from gnncal import __version__
    from gnncal.calibrators.catalogue import name_of

    calibrator = decisions.calibrator
    others = outside(bundle)
    summary: dict[str, Any] = {
        "gnncal": __version__,
        "method": None if calibrator is None else name_of(calibrator),
        "params": None if calibrator is None else calibrator.get_params(deep=False),
        "n_nodes": len(decisions.probs),
        "n_calibrator_nodes": bundle.nodes.size - decisions.nodes.size,
        "n_threshold_nodes": decisions.nodes.size,
        "n_others": int(others.sum()),
        "class_names": bundle.class_names,
        "notes": notes,
    }
    if decisions.selective is not None:
        report = decisions.selective.report_
        decided = decisions.selective.decide(decisions.probs)
        summary["n_others_decided"] = int(decided[others].sum())
        summary["selective"] = {**asdict(report), "sentence": report.sentence}
        summary["assumption"] = ASSUMPTION
    if decisions.policy is not None:
        summary |= policy_summary(decisions.policy, bundle, decisions.probs)
    if decisions.conformal is not None and decisions.sets is not None:
        sizes = decisions.sets[others].sum(axis=1)
        summary["sets"] = {
            "score": decisions.conformal.score,
            **asdict(decisions.conformal.report_),
            "sentence": decisions.conformal.report_.sentence,
            "mean_size": float(sizes.mean()) if sizes.size else None,
        }
    return {**summary, **_judge(bundle, decisions)}


def _judge(bundle: Bundle, decisions: Decisions) -> dict[str, Any]:
    """Return how decisions and sets do on the labelled test nodes, if there are any."""
    from gnncal.decisions import judge_decisions, judge_sets

    test = bundle.test_nodes
    if test.size == 0:
        return {}
    labels, judged = bundle.labels[test], {}
    if decisions.selective is not None:
        probs = decisions.probs[test]
        outcome = judge_decisions(labels, probs, decisions.selective.decide(probs))
        judged["decisions"] = asdict(outcome)
    if decisions.sets is not None:
        judged["sets"] = asdict(
            judge_sets(labels, decisions.sets[test], class_names=bundle.class_names)
        )
    return {"test": judged} if judged else {}


def gate_values(
    gates: Sequence[Gate], bundle: Bundle, decisions: Decisions
) -> dict[str, float | None]:
    """Return what gates may ask for: metrics of the test nodes, and what is said of decisions."""
    from gnncal.metrics.outcomes import Outcomes
    from gnncal.metrics.table import METRICS

    test, others = bundle.test_nodes, to_decide(bundle)
    verdict = decisions.verdict(bundle)
    people = verdict["action"] == "review" if "action" in verdict else ~verdict["decide"]
    own: dict[str, float | None] = {
        "uncertified": decisions.n_uncertified,
        "review": float(people[others].mean()),
    }
    names = {gate.name for gate in gates} - set(own)
    if not names:
        return own
    outcomes = Outcomes(
        bundle.labels[test],
        decisions.probs[test],
        bundle.graph.in_degree[test],
        positive=None if decisions.policy is None else decisions.policy.positive_,
    )
    return own | {name: METRICS[name].of(outcomes) for name in names}


def _node_line(summary: dict[str, Any]) -> str:
    """Say on which nodes what was fitted."""
    what = "policy" if "policy" in summary else "threshold"
    if summary["method"] is None:
        return f"The {what} was fitted on {summary['n_threshold_nodes']:,} validation nodes."
    return (
        f"The calibrator ({summary['method']}) was fitted on "
        f"{summary['n_calibrator_nodes']:,} validation nodes, the {what} on "
        f"{summary['n_threshold_nodes']:,} others."
    )


def _decision_lines(summary: dict[str, Any]) -> list[str]:
    report = summary["selective"]
    if report["n_decided"] == 0:
        return [report["sentence"]]
    n, decided = summary["n_others"], summary["n_others_decided"]
    share = f" ({100 * decided / n:.1f} %)" if n else ""
    return [
        f"{decided:,} of {n:,} nodes{share} outside training and validation can be decided "
        f"automatically: those with a confidence of at least {report['threshold']:.4f}.",
        f"With probability at least {100 * report['confidence_level']:g} % over the draw of the "
        f"validation nodes, at least {100 * report['target_accuracy']:g} % of such decisions are "
        f"right. {ASSUMPTION}",
    ]


def _set_lines(summary: dict[str, Any]) -> list[str]:
    if "sets" not in summary:
        return []
    sets = summary["sets"]
    mean = (
        ""
        if sets["mean_size"] is None
        else f" They have {sets['mean_size']:.2f} classes on average."
    )
    said = "selective" in summary and summary["selective"]["n_decided"] > 0
    assumption = "" if said else f" {ASSUMPTION}"
    return [f"Sets of classes ({sets['score']}): {sets['sentence']}{mean}{assumption}"]


def _test_lines(summary: dict[str, Any]) -> list[str]:
    if "test" not in summary:
        return []
    test = summary["test"]
    lines = []
    if "decisions" in test:
        decisions = test["decisions"]
        right = ""
        if decisions["n_decided"]:
            right = (
                f", of which {100 * decisions['accuracy']:.2f} % are right (95 % interval "
                f"{100 * decisions['accuracy_low']:.2f} to "
                f"{100 * decisions['accuracy_high']:.2f} %)"
            )
        lines.append(
            f"On the {decisions['n_nodes']:,} labelled test nodes: {decisions['n_decided']:,} "
            f"({100 * decisions['coverage']:.1f} %) are decided{right}."
        )
    if "sets" in test:
        sets = test["sets"]
        text = (
            f"The sets have the true class of {100 * sets['coverage']:.2f} % (95 % interval "
            f"{100 * sets['coverage_low']:.2f} to {100 * sets['coverage_high']:.2f} %) and "
            f"{sets['mean_size']:.2f} classes on average; {100 * sets['single']:.1f} % have one."
        )
        lines = [" ".join([*lines, text])]
    if "decisions" in test:
        lines.append(_class_line(test["decisions"], summary["class_names"]))
    lines.append(_class_line_of_sets(test.get("sets")))
    return [line for line in lines if line]


def _class_line(decisions: dict[str, Any], class_names: Sequence[str] | None) -> str:
    """What was decided for each predicted class, where there are few of them."""
    counts = list(zip(decisions["decided_by_class"], decisions["correct_by_class"], strict=True))
    if decisions["n_decided"] == 0 or len(counts) > MOST_CLASSES:
        return ""
    names = class_names or [f"class {c}" for c in range(len(counts))]
    parts = [
        f"{name}: {decided:,}" + (f" ({100 * right / decided:.1f} % right)" if decided else "")
        for name, (decided, right) in zip(names, counts, strict=True)
    ]
    return f"Decided, by predicted class: {', '.join(parts)}."


def _class_line_of_sets(sets: dict[str, Any] | None) -> str:
    """How often the sets have each class where it is the true one, where there are few classes."""
    if sets is None or len(sets["class_names"]) > MOST_CLASSES:
        return ""
    values = zip(sets["class_names"], sets["nodes_by_class"], sets["covered_by_class"], strict=True)
    parts = [
        f"{name}: " + (f"{100 * covered / n:.1f} % of {n:,}" if n else "no node")
        for name, n, covered in values
    ]
    return f"Sets with the true class, by true class: {', '.join(parts)}."
