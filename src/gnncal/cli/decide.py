"""``gnncal decide``, ``sets`` and ``label``: decisions with a guarantee, and labels for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gnncal import __version__
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import name_of
from gnncal.cli import gates as gating
from gnncal.cli.params import (
    Input,
    KeepPredictions,
    Method,
    OutFolder,
    Overwrite,
    Parameters,
    SummaryAsJson,
    chosen_calibrator,
)
from gnncal.cli.policies import (
    decision_columns,
    decision_nodes,
    policy_lines,
    policy_summary,
    unsplit_nodes,
)
from gnncal.cli.results import collected_notes
from gnncal.cli.terminal import err, note, print_result, to_json
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import integer, number, one_of
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.decisions import ConformalClassifier, Costs, Policy, cross_fit, hold_out, nodes_to_label
from gnncal.decisions.scores import SCORES
from gnncal.decisions.sets import judge_sets
from gnncal.files import bundle as files
from gnncal.files.output import result_folder
from gnncal.files.saved_calibrators import load
from gnncal.keeping_cost import cost_of_keeping_predictions
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.table import METRICS

DEFAULT_ACCURACY = 0.95
OWN_GATES = ("uncertified", "review")  # what --fail-if may name next to metrics
COSTS = ("missed", "false_alarm", "review")
FOREIGN = (
    "the guarantee needs probabilities that were not fitted on the validation nodes of the input, "
    "as those of `gnncal calibrate` are. Without --probabilities, decide fits a calibrator itself "
    "and keeps nodes for the thresholds."
)


def _of_one_class(help_: str, **shown: Any) -> Any:
    return typer.Option(help=help_, rich_help_panel="One positive class", **shown)


Share = float | None
HeldOut = Annotated[
    float, typer.Option("--hold-out", help="Share of the validation nodes kept to certify.")
]
Seed = Annotated[int, typer.Option(help="Seed of the nodes held out, or drawn.")]
Probabilities = Annotated[
    Path | None,
    typer.Option(help="Probabilities made elsewhere, not fitted on the validation nodes."),
]


@dataclass
class Fitted:
    """What a verb has fitted before it decides, and what it will write and say."""

    staging: Path
    kind: str  # of the file of decisions
    bundle: files.Bundle
    calibrator: Calibrator | None  # None if the probabilities come from a file
    probs: FloatArray
    nodes: IntArray  # that certify
    cross_fitted: FloatArray | None
    notes: list[str]
    advice: str

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Note what the block warns of, and what the probabilities call for."""
        with collected_notes() as notes:
            yield
        self.notes += [*notes, *([self.advice] if self.advice else [])]

    def write(
        self, decision: Any, name: str, columns: dict[str, Any], members: Any, **said: Any
    ) -> dict[str, Any]:
        """Write decisions, what made them and the summary; return the summary."""
        bundle, calibrator, staging = self.bundle, self.calibrator, self.staging
        place = staging / f"decisions.{self.kind}"
        written = [files.write_nodes(place, bundle, self.probs, {**columns, "sets": members})]
        n_fitted = 0
        made: dict[str, Any] = {"method": None, "params": None}
        if calibrator is not None:
            calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
            written.append("calibrator.safetensors")
            n_fitted = sum(calibrator.fit_report_.nodes_per_class)
            made = {"method": name_of(calibrator), "params": calibrator.get_params(deep=False)}
        decision.save(staging / name)
        summary = {
            "gnncal": __version__,
            **made,
            "n_nodes": len(self.probs),
            "n_calibrator_nodes": n_fitted,
            "n_threshold_nodes": self.nodes.size,
            "n_others": int(decision_nodes(bundle).sum()),
            "class_names": bundle.class_names,
            "notes": self.notes,
            **said,
            "files": [*written, name, "summary.json"],
        }
        (staging / "summary.json").write_text(to_json(summary) + "\n")
        return summary


@contextmanager
def fitting(
    verb: str,
    source: Path,
    folder: Path,
    probabilities: Path | None,
    calibrator: Calibrator | None,
    gates: Sequence[gating.Gate] = (),
    *,
    certify: str = "split",
    held_out: float,
    seed: int,
    overwrite: bool,
) -> Iterator[Fitted]:
    """Fit for a verb inside the folder of its results; warnings of the block become notes."""
    number(above=0, below=1).check("--hold-out", held_out)
    integer(at_least=0).check("--seed", seed)
    inputs = [path for path in (source, probabilities) if path is not None]
    with (
        result_folder(folder, verb, inputs=inputs, overwrite=overwrite) as staging,
        err.status(f"{verb}: fitting"),
    ):
        bundle = files.read_bundle(source)
        gating.check_measurable(gates, bundle, others=OWN_GATES)
        kind, nodes, advice = "parquet" if source.is_dir() else "npz", bundle.nodes, FOREIGN
        notes, cross_fitted = list[str](), None
        if calibrator is None:
            assert probabilities is not None
            probs = files.read_probabilities(probabilities, bundle)
        else:
            known: dict[str, Any] = {"train_nodes": bundle.train_nodes}
            every, fit_nodes = Nodes(bundle.logits, bundle.graph), nodes
            if certify == "split":
                fit_nodes, nodes = hold_out(
                    nodes, labels=bundle.labels, share=held_out, random_state=seed
                )
            record = every.with_labels(bundle.labels, nodes=fit_nodes, **known)
            with collected_notes() as notes:
                if certify == "split":
                    probs = calibrator.fit(record).predict_proba(every)
                else:
                    known |= {"nodes": nodes, "random_state": seed}
                    probs, cross_fitted = cross_fit(calibrator, every, bundle.labels, **known)
                price = cost_of_keeping_predictions(calibrator, record, probs)
            advice = "" if price is None else price.advice(bundle.class_names)
        yield Fitted(staging, kind, bundle, calibrator, probs, nodes, cross_fitted, notes, advice)


def decide(
    source: Input,
    folder: OutFolder = Path("decided"),
    accuracy: Annotated[
        Share, typer.Option(help="Share of all automatic decisions that must be right.")
    ] = None,
    confidence_level: Annotated[
        float, typer.Option(help="Probability with which the guarantees hold together.")
    ] = 0.9,
    keep_predictions: KeepPredictions = None,
    method: Method = None,
    param: Parameters = None,
    certify: Annotated[
        str, typer.Option(help="split (proven), or cross-fit: all nodes fit and certify (measured)")
    ] = "split",
    held_out: HeldOut = 0.5,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    positive: Annotated[
        str | None,
        _of_one_class("Decide about this class; the calibrator is then free.", metavar="CLASS"),
    ] = None,
    act: Annotated[
        Share, _of_one_class("Share of those acted on that must have the class.")
    ] = None,
    clear: Annotated[Share, _of_one_class("Share of those cleared that must not have it.")] = None,
    recall: Annotated[Share, _of_one_class("Share of those that have it, not cleared.")] = None,
    false_positive_rate: Annotated[
        Share, _of_one_class("Share of those that do not have it, acted on at most.")
    ] = None,
    costs: Annotated[
        str | None,
        _of_one_class("missed=500,false_alarm=20,review=3: numbers, or names of columns of INPUT."),
    ] = None,
    budget: Annotated[
        Share, _of_one_class("How many of the nodes to decide are reviewed, or which share.")
    ] = None,
    region: Annotated[
        Share, typer.Option(help="Region of `gnncal label`, from which the labels were drawn.")
    ] = None,
    fail_if: gating.FailIf = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Find the nodes of INPUT that can be decided automatically at a guaranteed accuracy.

    With --positive, decide about one class instead: act, clear or review, as --act, --clear,
    --recall, --false-positive-rate, --costs or --budget ask for.

    The calibrator is fitted on one part of the validation nodes and the thresholds on the rest,
    because a calibrator looks better than it is on the nodes it was fitted on. The folder gets
    decisions.npz (or .parquet when INPUT is a folder), calibrator.safetensors, policy.safetensors
    (for gnncal apply and gnncal.load) and summary.json.

    The exit code is 3 if a guarantee was asked for and nothing can be certified, 4 if a --fail-if
    holds. It may name uncertified (how many guarantees are not certified) and review (the share of
    nodes to review) next to metrics.
    """
    one_of("split", "cross-fit").check("--certify", certify)
    targets = {"accuracy": accuracy, "act": act, "clear": clear, "recall": recall}
    wishes: dict[str, Any] = {**targets, "false_positive_rate": false_positive_rate}
    if positive is None and all(each is None for each in (*wishes.values(), costs, budget)):
        wishes["accuracy"] = DEFAULT_ACCURACY
    policy = Policy(
        **wishes,
        positive=positive,
        costs=None if costs is None else read_costs(costs, source),
        budget=int(budget) if budget is not None and budget.is_integer() else budget,
        confidence_level=confidence_level,
    )
    policy._check_params()
    gates = gating.read_gates(fail_if, others=OWN_GATES)
    one_class = positive is not None
    calibrator = asked_calibrator(probabilities, method, keep_predictions, param, one_class)
    split: dict[str, Any] = {"certify": certify, "held_out": held_out, "seed": seed}
    with fitting(
        *("decide", source, folder, probabilities, calibrator, gates), **split, overwrite=overwrite
    ) as fitted:
        bundle, probs, others = fitted.bundle, fitted.probs, decision_nodes(fitted.bundle)
        with fitted.deciding():
            policy.fit(
                *(probs, bundle.labels),
                nodes=fitted.nodes,
                class_names=bundle.class_names,
                decision_nodes=others,
                predictions=bundle.logits.argmax(axis=1),
                ids=bundle.node_ids,  # so that `apply --refresh` finds these nodes again
                calibrator=calibrator,
                cross_fitted=fitted.cross_fitted,
                region=region,
            )
        columns = decision_columns(policy, bundle, probs)
        values = gate_values(gates, bundle, policy, probs)
        values["review"] = float((columns["action"][others] == "review").mean())
        failures = gating.failures_of(gates, values)
        said = policy_summary(policy, bundle, probs)
        summary = fitted.write(policy, "policy.safetensors", columns, None, **said)
    print_summary(folder, summary, policy_lines(summary), summary["policy"]["sentence"], json=json)
    if policy.report_.certifies_nothing:
        raise typer.Exit(gating.NOTHING_CERTIFIED)
    gating.end_if_failed(failures)


def sets(
    source: Input,
    folder: OutFolder = Path("sets"),
    coverage: Annotated[
        float, typer.Option(help="Share of the sets that must have the true class.")
    ] = 0.9,
    score: Annotated[str, typer.Option(help=f"How sets are made: {', '.join(SCORES)}.")] = "aps",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Guarantee that share for the nodes of each class.")
    ] = False,
    keep_predictions: KeepPredictions = None,
    method: Method = None,
    param: Parameters = None,
    held_out: HeldOut = 0.5,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Give each node of INPUT a set of classes that contains the true one as often as asked.

    The calibrator is fitted on one part of the validation nodes and the sets on the rest. The
    folder gets decisions.npz (or .parquet when INPUT is a folder) with the sets,
    calibrator.safetensors, conformal.safetensors (for gnncal.load) and summary.json.
    """
    conformal = ConformalClassifier(coverage, score=score, by_class=by_class, random_state=seed)
    conformal._check_params()
    calibrator = asked_calibrator(probabilities, method, keep_predictions, param)
    split: dict[str, Any] = {"held_out": held_out, "seed": seed, "overwrite": overwrite}
    with fitting("sets", source, folder, probabilities, calibrator, **split) as fitted:
        bundle, probs, names = fitted.bundle, fitted.probs, fitted.bundle.class_names
        ids = bundle.node_ids  # a node has the same set whenever it is asked for by its id
        known: dict[str, Any] = {"ids": ids, "class_names": names, "calibrator": calibrator}
        with fitted.deciding():
            conformal.fit(probs, bundle.labels, bundle.graph, nodes=fitted.nodes, **known)
            members = conformal.predict_set(probs, bundle.graph, ids=ids)
        report, size = conformal.report_, float(members[decision_nodes(bundle)].sum(axis=1).mean())
        said = {"score": score, **asdict(report), "sentence": report.sentence}
        said |= {"assumption": report.assumption, "mean_size": size}
        lines = [f"{report.sentence} They have {size:.2f} classes on average.", report.assumption]
        test = bundle.test_nodes
        if test.size:
            outcome = judge_sets(bundle.labels[test], members[test], class_names=names)
            said["test"] = {**asdict(outcome), "sentence": outcome.sentence}
            lines.append(outcome.sentence)
        summary = fitted.write(conformal, "conformal.safetensors", {}, members, sets=said)
    print_summary(folder, summary, lines, report.sentence, json=json)


def label(
    source: Input,
    positive: Annotated[str, typer.Option(metavar="CLASS", help="The class to act on.")],
    act: Annotated[float, typer.Option(help="Precision that is to be certified.")],
    n: Annotated[int, typer.Option("-n", help="How many nodes to label.")],
    calibrator: Annotated[
        Path | None, typer.Option(help="File written by calibrate; it makes the probabilities.")
    ] = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="Probabilities of `gnncal calibrate`, or made elsewhere.")
    ] = None,
    seed: Seed = 0,
    json: SummaryAsJson = False,
) -> None:
    """Draw nodes of INPUT to label, at random from the region in which a threshold must lie.

    Prints the ids of the nodes. Label them, make them the validation nodes of INPUT, and certify
    with the same probabilities: gnncal decide INPUT --probabilities ... --positive ... --act ...
    --region ....
    """
    if (calibrator is None) == (probabilities is None):
        raise InputError("pass --calibrator or --probabilities, one of the two.")
    bundle = files.read_bundle(source, labels_required=False)
    if probabilities is not None:
        probs = files.read_probabilities(probabilities, bundle)
    else:
        assert calibrator is not None
        probs = load(calibrator).predict_proba(Nodes(bundle.logits, bundle.graph))
    given: dict[str, Any] = {"among": unsplit_nodes(bundle), "class_names": bundle.class_names}
    nodes, region = nodes_to_label(probs, positive, act=act, n=n, **given, random_state=seed)
    ids = nodes if bundle.node_ids is None else bundle.node_ids[nodes]
    document = {"nodes": ids.tolist(), "region": region}
    print_result("\n".join(map(str, ids.tolist())), document, as_json=json)
    if not json:
        note(
            f"{n:,} nodes with a probability of at least {region:.6g}; certify with --region "
            f"{region:.9g}."
        )


def asked_calibrator(
    probabilities: Path | None,
    method: str | None,
    keep_predictions: bool | None,
    param: Sequence[str] | None,
    one_class: bool = False,
) -> Calibrator | None:
    """Return the calibrator to fit; None if probabilities come from a file."""
    if probabilities is None:
        return chosen_calibrator(method, keep_predictions, param, one_class=one_class)
    if method or param or keep_predictions is not None:
        raise InputError(
            "--probabilities are calibrated already; leave --method, --param and --free out."
        )
    return None


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
            parts[name] = files.read_column(source, value)
    if not {"missed", "false_alarm"} <= set(parts):
        raise InputError(f"--costs is {text!r}; {expected}.")
    costs = Costs(**parts)
    if costs._is_same_for_all:
        costs._checked(0)
    return costs


def gate_values(
    gates: Sequence[gating.Gate], bundle: files.Bundle, policy: Policy, probs: FloatArray
) -> dict[str, float | None]:
    """Return what gates may ask for: metrics of the test nodes, and how much is not certified."""
    test, names = bundle.test_nodes, {gate.name for gate in gates} - set(OWN_GATES)
    own: dict[str, float | None] = {"uncertified": policy.report_.n_uncertified}
    if not names:
        return own
    degree, positive = bundle.graph.in_degree[test], policy.positive_
    outcomes = Outcomes(bundle.labels[test], probs[test], degree, positive=positive)
    return own | {name: METRICS[name].of(outcomes) for name in names}


def print_summary(
    folder: Path, summary: dict[str, Any], lines: list[str], said: str, *, json: bool
) -> None:
    """Print the notes that the result does not say itself, the result, and where the files are."""
    n = f"{summary['n_threshold_nodes']:,} validation nodes"
    fitted = f"Certified on {n}."
    if summary["method"] is not None:
        fitted = (
            f"The calibrator ({summary['method']}) was fitted on {summary['n_calibrator_nodes']:,} "
            f"validation nodes, and certified on {n}."
        )
    print_result(
        "\n\n".join([*lines, fitted]),
        summary,
        as_json=json,
        notes=[message for message in summary["notes"] if message not in said],
        written=f"{folder}: {', '.join(summary['files'])}",
    )
