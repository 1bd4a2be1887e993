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
from gnncal.cli import params, policies
from gnncal.cli.params import option
from gnncal.cli.results import collected_notes
from gnncal.cli.terminal import err, note, print_result, to_json
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.constraints import integer, number, one_of
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.decisions import ConformalClassifier, Policy, cross_fit, fit_by_group, hold_out
from gnncal.decisions import nodes_to_label as draw
from gnncal.decisions.reports import POOL
from gnncal.decisions.scores import SCORES
from gnncal.decisions.sets import judge_sets
from gnncal.files import bundle as files
from gnncal.files.output import result_folder
from gnncal.files.saved_calibrators import provenance
from gnncal.keeping_cost import cost_of_keeping_predictions
from gnncal.metrics.outcomes import Outcomes
from gnncal.metrics.table import METRICS

DEFAULT_ACCURACY = 0.95
OWN_GATES = ("uncertified", "review")  # what --fail-if may name next to metrics
FOREIGN = (
    "the guarantee needs probabilities that were not fitted on the validation nodes of the input, "
    "as those of `gnncal calibrate` are. Without --probabilities, decide fits a calibrator itself "
    "and keeps nodes for the thresholds."
)


Share = float | None
HeldOut = Annotated[float, option("Share of the validation nodes kept to certify.", "--hold-out")]
Seed = Annotated[int, option("Random seed for the nodes held out or chosen.")]
Probabilities = Annotated[
    Path | None, option("Probabilities from elsewhere, not fitted on the validation nodes.")
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
    def deciding(self) -> Iterator[dict[str, Any]]:
        """Note what the block warns of; yield what every fit of a decision is given."""
        with collected_notes() as notes:
            yield {
                "nodes": self.nodes,
                "ids": self.bundle.node_ids,  # so that `apply --refresh` finds these nodes again
                "class_names": self.bundle.class_names,
                "calibrator": self.calibrator,
            }
        self.notes += [*notes, *([self.advice] if self.advice else [])]

    def write(
        self, decisions: dict[str, Any], columns: dict[str, Any], **said: Any
    ) -> dict[str, Any]:
        """Write decisions, what made them and the summary; return the summary."""
        bundle, calibrator, staging = self.bundle, self.calibrator, self.staging
        rows, n_fitted = ... if bundle.only is None else bundle.only, 0
        place, kept = staging / f"decisions.{self.kind}", {n: c[rows] for n, c in columns.items()}
        written, made = [place.name], dict[str, Any](method=None, params=None)
        if calibrator is not None:
            calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
            written.append("calibrator.safetensors")
            n_fitted = sum(calibrator.fit_report_.nodes_per_class)
            made = {"method": name_of(calibrator), "params": calibrator.get_params(deep=False)}
        for name, decision in decisions.items():
            decision.save(staging / name)
        by = provenance(calibrator, **{Path(name).stem: staging / name for name in decisions})
        files.write_nodes(place, bundle.cut(), self.probs[rows], kept, by)
        summary = {
            "gnncal": __version__,
            "provenance": by,
            **made,
            "n_nodes": len(self.probs),
            "n_calibrator_nodes": n_fitted,
            "n_threshold_nodes": self.nodes.size,
            "n_others": int(policies.decision_nodes(bundle).sum()),
            "class_names": bundle.class_names,
            "notes": self.notes,
            **said,
            "files": [*written, *decisions, "summary.json"],
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
    *,
    certify: str = "split",
    held_out: float,
    seed: int,
    only: str | None,
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
        bundle = files.read_bundle(source, only=only)
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
    source: params.Input,
    folder: params.OutFolder = Path("decided"),
    accuracy: Annotated[
        Share,
        option("Minimum share of correct automatic decisions.", default="0.95"),
    ] = None,
    confidence_level: Annotated[
        float, option("Probability with which the guarantees hold together.")
    ] = 0.9,
    by: Annotated[
        str | None,
        option("Column of INPUT: fit one policy for each of its values.", metavar="COLUMN"),
    ] = None,
    only: params.Only = None,
    keep_predictions: params.KeepPredictions = None,
    method: params.Method = None,
    param: params.Parameters = None,
    certify: Annotated[
        str, option("split (proven), or cross-fit: all nodes fit and certify (measured).")
    ] = "split",
    held_out: HeldOut = 0.5,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    positive: Annotated[
        str | None, option("Decide about this class; predictions may then change.", metavar="CLASS")
    ] = None,
    act: Annotated[
        Share, option("Minimum share of positives among nodes acted on (precision).")
    ] = None,
    clear: Annotated[Share, option("Minimum share of negatives among nodes cleared.")] = None,
    recall: Annotated[Share, option("Minimum share of positives that are not cleared.")] = None,
    false_positive_rate: Annotated[
        Share, option("Maximum share of negatives that are acted on.")
    ] = None,
    costs: Annotated[
        str | None,
        option("missed=500,false_alarm=20,review=3, for example: numbers, or columns of INPUT."),
    ] = None,
    budget: Annotated[Share, option("Number or share of the nodes that can be reviewed.")] = None,
    region: Annotated[
        Share, option("Region of `gnncal label`, from which the validation nodes were drawn.")
    ] = None,
    fail_if: gating.FailIf = None,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Find the nodes of INPUT that can be decided automatically at a guaranteed accuracy.

    With --positive, decide about one class instead: act, clear or review, as --act, --clear,
    --recall, --false-positive-rate, --costs or --budget ask for.

    The calibrator is fitted on one part of the validation nodes and the thresholds on the rest,
    because a calibrator looks better than it is on the nodes it was fitted on. The folder gets
    decisions.npz (or .parquet when INPUT is a folder), calibrator.safetensors, policy.safetensors
    (for gnncal apply and gnncal.load; with --by one for each value) and summary.json.

    The exit code is 3 if a guarantee was asked for and nothing can be certified, 4 if a --fail-if
    holds. Besides metrics, --fail-if accepts uncertified (number of guarantees that are not
    certified) and review (share of nodes to review).
    """
    one_of("split", "cross-fit").check("--certify", certify)
    targets = {"accuracy": accuracy, "act": act, "clear": clear, "recall": recall}
    wishes: dict[str, Any] = {**targets, "false_positive_rate": false_positive_rate}
    if positive is None and all(each is None for each in (*wishes.values(), costs, budget)):
        wishes["accuracy"] = DEFAULT_ACCURACY
    policy = Policy(
        **wishes,
        positive=positive,
        costs=None if costs is None else policies.read_costs(costs, source),
        budget=int(budget) if budget is not None and budget.is_integer() else budget,
        confidence_level=confidence_level,
    )
    policy._check_params()
    gates = gating.read_gates(fail_if, others=OWN_GATES)
    groups = None if by is None else files.read_column(source, by)
    calibrator = asked_calibrator(probabilities, method, keep_predictions, param, bool(positive))
    split: dict[str, Any] = {"certify": certify, "held_out": held_out, "seed": seed, "only": only}
    with fitting(
        "decide", source, folder, probabilities, calibrator, **split, overwrite=overwrite
    ) as fitted:
        bundle, probs = fitted.bundle, fitted.probs
        others, predictions = policies.decision_nodes(bundle), bundle.logits.argmax(axis=1)
        with fitted.deciding() as given:
            given |= {"decision_nodes": others, "predictions": predictions, "region": region}
            given |= {"cross_fitted": fitted.cross_fitted}
            if groups is None:
                made = {"": policy.fit(probs, bundle.labels, **given)}
            else:
                fits = fit_by_group(policy, probs, bundle.labels, groups=groups, **given)
                made = {str(value): each for value, each in fits.items()}
        columns = policies.decision_columns(made, bundle, probs, groups)
        n_uncertified = sum(each.report_.n_uncertified for each in made.values())
        first = next(iter(made.values()))
        values = {"uncertified": n_uncertified, **gate_values(gates, bundle, first, probs)}
        values["review"] = float((columns["action"][others] == "review").mean())
        failures = gating.failures_of(gates, values)
        said = policies.summary(made, bundle, probs, groups)
        names = ["policy.safetensors"]
        if groups is not None:
            names = [f"policy-{i}.safetensors" for i in range(len(made))]
            said["by"], said["policies"] = by, dict(zip(names, made, strict=True))
        summary = fitted.write(dict(zip(names, made.values(), strict=True)), columns, **said)
    lines = policies.lines(summary)
    certifies = bool(first.guarantees_)
    print_summary(folder, summary, lines, certifies=certifies, json=json)
    if certifies and not any(each.report_.assumption for each in made.values()):
        raise typer.Exit(gating.NOTHING_CERTIFIED)
    gating.end_if_failed(failures)


def sets(
    source: params.Input,
    folder: params.OutFolder = Path("sets"),
    coverage: Annotated[float, option("Share of sets that must contain the true class.")] = 0.9,
    score: Annotated[str, option(f"Conformal score: {', '.join(SCORES)}.")] = "lac",
    by_class: Annotated[
        bool, option("Guarantee the coverage for each class.", "--by-class")
    ] = False,
    only: params.Only = None,
    keep_predictions: params.KeepPredictions = None,
    method: params.Method = None,
    param: params.Parameters = None,
    held_out: HeldOut = 0.5,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Give each node of INPUT a set of classes that contains the true one as often as asked.

    The calibrator is fitted on one part of the validation nodes and the sets on the rest. The
    folder gets decisions.npz (or .parquet when INPUT is a folder) with the sets,
    calibrator.safetensors, conformal.safetensors (for gnncal.load) and summary.json.
    """
    conformal = ConformalClassifier(coverage, score=score, by_class=by_class, random_state=seed)
    conformal._check_params()
    calibrator = asked_calibrator(probabilities, method, keep_predictions, param)
    split: dict[str, Any] = {"held_out": held_out, "seed": seed, "only": only}
    with fitting(
        "sets", source, folder, probabilities, calibrator, **split, overwrite=overwrite
    ) as fitted:
        bundle, probs, test = fitted.bundle, fitted.probs, fitted.bundle.test_nodes
        with fitted.deciding() as given:
            conformal.fit(probs, bundle.labels, bundle.graph, **given)
            members = conformal.predict_set(probs, bundle.graph, ids=bundle.node_ids)
        report = conformal.report_
        size = float(members[policies.decision_nodes(bundle)].sum(axis=1).mean())
        said = {"score": score, **asdict(report), "sentence": report.sentence}
        said |= {"assumption": POOL, "mean_size": size}
        lines = [f"{report.sentence} They have {size:.2f} classes on average.", POOL]
        if test.size:
            names = bundle.class_names
            outcome = judge_sets(bundle.labels[test], members[test], class_names=names)
            said["test"] = {**asdict(outcome), "sentence": outcome.sentence}
            lines.append(outcome.sentence)
        made = {"conformal.safetensors": conformal}
        summary = fitted.write(made, {"sets": members}, sets=said)
    print_summary(folder, summary, lines, json=json)


def label(
    source: params.Input,
    positive: Annotated[str, option("The class to act on.", metavar="CLASS")],
    act: Annotated[float, option("Precision to certify.")],
    n: Annotated[int, option("How many nodes to label.", "-n")],
    probabilities: Annotated[Path, option("Probabilities that will be certified.")],
    seed: Seed = 0,
    json: params.SummaryAsJson = False,
) -> None:
    """Draw nodes of INPUT to label, at random from the region in which a threshold must lie.

    Prints the ids of the nodes. Label them, make them the validation nodes of INPUT, and certify
    with the same probabilities: gnncal decide INPUT --probabilities ... --positive ... --act ...
    --region ....
    """
    bundle = files.read_bundle(source, labels_required=False)
    probs = files.read_probabilities(probabilities, bundle)
    among, names = policies.unsplit_nodes(bundle), bundle.class_names
    given: dict[str, Any] = {"among": among, "class_names": names, "random_state": seed}
    nodes, region = draw(probs, positive, act=act, n=n, **given)
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
        return params.chosen_calibrator(method, keep_predictions, param, one_class=one_class)
    if method or param or keep_predictions is not None:
        raise InputError(
            "--probabilities are calibrated already; leave --method, --param and --free out."
        )
    return None


def gate_values(
    gates: gating.Gates, bundle: files.Bundle, policy: Policy, probs: FloatArray
) -> dict[str, float | None]:
    """Return the metrics of the test nodes that gates ask for."""
    test, names = bundle.test_nodes, set(gates) - set(OWN_GATES)
    if not names or not test.size:
        return {}
    degree, positive = bundle.graph.in_degree[test], policy.positive_
    outcomes = Outcomes(bundle.labels[test], probs[test], degree, positive=positive)
    return {name: METRICS[name].of(outcomes) for name in names}


def print_summary(
    folder: Path, summary: dict[str, Any], lines: list[str], *, certifies: bool = True, json: bool
) -> None:
    """Print the notes that the result does not say itself, the result, and where the files are."""
    n = f"{summary['n_threshold_nodes']:,} validation nodes"
    fitted = f"Certified on {n}." if certifies else f"The forecast rests on {n}."
    if summary["method"] is not None:
        rest = f", and certified on {n}." if certifies else f"; the forecast rests on {n}."
        fitted = (
            f"The calibrator ({summary['method']}) was fitted on {summary['n_calibrator_nodes']:,} "
            f"validation nodes{rest}"
        )
    print_result(
        "\n\n".join([*lines, fitted]),
        summary,
        as_json=json,
        notes=[message for message in summary["notes"] if message not in " ".join(lines)],
        written=f"{folder}: {', '.join(summary['files'])}",
    )
