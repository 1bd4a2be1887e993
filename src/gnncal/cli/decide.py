"""``gnncal decide``, ``sets`` and ``label``: decisions with a guarantee, and labels for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gnncal.calibrators.base import Calibrator
from gnncal.cli import gates as gating
from gnncal.cli import params, policies
from gnncal.cli.params import File, Number, option
from gnncal.cli.results import collected_notes, print_results, write_summary
from gnncal.cli.terminal import err, note, print_result
from gnncal.data.arrays import FloatArray
from gnncal.data.constraints import integer, number
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
LISTED = 10  # groups that a note lists
OWN_GATES = ("uncertified", "review")  # what --fail-if may name next to metrics
FOREIGN = (
    "the guarantee needs probabilities that were not fitted on the validation nodes of the input; "
    "those of `gnncal calibrate` were. Without --probabilities, the command fits the calibrators "
    "itself and certifies on labels that these fits have not used."
)
HeldOut = Annotated[float, option("Share of the validation nodes for the sets.", "--hold-out")]
Seed = Annotated[int, option("Random seed for splitting or drawing nodes.")]
Probabilities = Annotated[
    File, option("File of your own probabilities, not fitted on the validation nodes.")
]


@dataclass
class Fitted:
    """What a verb has fitted before it decides, and where its result goes."""

    bundle: files.Bundle
    probs: FloatArray
    given: dict[str, Any]  # what every fit of a decision is given
    notes: list[str]
    table: Path  # the file of decisions

    def write(
        self, decisions: dict[str, Any], columns: dict[str, Any], said: dict[str, Any]
    ) -> dict[str, Any]:
        """Write decisions, what made them and the summary; return the summary."""
        bundle, calibrator, staging = self.bundle, self.given["calibrator"], self.table.parent
        for name, decision in decisions.items():
            decision.save(staging / name)
        made = provenance(calibrator, **{Path(name).stem: staging / name for name in decisions})
        rows = ... if bundle.only is None else bundle.only
        kept = {name: column[rows] for name, column in columns.items()}
        files.write_nodes(self.table, bundle.cut(), self.probs[rows], kept, made)
        n_fitted = 0
        if calibrator is not None:
            calibrator.save(staging / "calibrator.safetensors", class_names=bundle.class_names)
            n_fitted = sum(calibrator.fit_report_.nodes_per_class)
        about = {
            "provenance": made,
            "n_nodes": len(self.probs),
            "n_calibrator_nodes": n_fitted,
            "n_threshold_nodes": self.given["calibration_nodes"].size,
            "n_others": int(policies.decision_nodes(bundle).sum()),
            "class_names": bundle.class_names,
            "notes": self.notes,
        }
        return write_summary(staging, calibrator, about | said)


@contextmanager
def fitting(
    verb: str,
    source: Path,
    folder: Path,
    probabilities: Path | None,
    calibrator: Calibrator | None,
    *,
    held_out: float | None,  # None: cross-fitting
    seed: int,
    only: str | None,
    overwrite: bool,
    names: Iterable[str] = (),
) -> Iterator[Fitted]:
    """Fit for a verb inside the folder of its results; warnings become notes."""
    if held_out is not None:
        number(above=0, below=1).check("--hold-out", held_out)
    integer(at_least=0).check("--seed", seed)
    inputs = [path for path in (source, probabilities) if path is not None]
    with (
        result_folder(folder, verb, inputs=inputs, overwrite=overwrite, names=names) as staging,
        err.status(f"{verb}: fitting"),
    ):
        bundle = files.read_bundle(source, only=only)
        table = staging / f"decisions.{'parquet' if source.is_dir() else 'npz'}"
        given: dict[str, Any] = {
            "calibration_nodes": bundle.calibration_nodes,
            "class_names": bundle.class_names,
        }
        # With the ids `apply --refresh` finds these nodes again.
        given |= {"ids": bundle.node_ids, "calibrator": calibrator}
        with collected_notes() as notes:
            if calibrator is None:
                assert probabilities is not None
                probs = files.read_probabilities(probabilities, bundle)
                notes.append(FOREIGN)
            else:
                every, labels = Nodes(bundle.logits, bundle.graph), bundle.labels
                known = {
                    "calibration_nodes": bundle.calibration_nodes,
                    "train_nodes": bundle.train_nodes,
                }
                if held_out is not None:
                    known["calibration_nodes"], given["calibration_nodes"] = hold_out(
                        bundle.calibration_nodes, labels=labels, share=held_out, random_state=seed
                    )
                record = every.with_labels(labels, **known)
                if held_out is not None:
                    probs = calibrator.fit(record).predict_proba(every)
                else:
                    found = cross_fit(calibrator, every, labels, **known, random_state=seed)
                    probs, given["cross_fitted"] = found
                price = cost_of_keeping_predictions(calibrator, record, probs)
                notes += [] if price is None else [price.advice(bundle.class_names)]
            yield Fitted(bundle, probs, given, notes, table)


def decide(
    source: params.Input,
    folder: params.OutFolder = Path("decided"),
    accuracy: Annotated[
        Number, option("Minimum share of correct automatic decisions.", default="0.95")
    ] = None,
    confidence_level: Annotated[
        float, option("Probability with which all guarantees hold jointly.")
    ] = 0.9,
    by: Annotated[
        str | None,
        option("Column of INPUT; fit one policy for each of its values.", metavar="COLUMN"),
    ] = None,
    only: params.Only = None,
    keep_predictions: params.KeepPredictions = None,
    method: params.Method = None,
    param: params.Parameters = None,
    held_out: Annotated[
        Number,
        option(
            "Share of the validation nodes to certify on, not used to fit the calibrator.",
            "--hold-out",
            default="cross-fitting",
        ),
    ] = None,
    seed: Seed = 0,
    probabilities: Probabilities = None,
    positive: Annotated[
        str | None, option("Decide about this class; predictions may then change.", metavar="CLASS")
    ] = None,
    act: Annotated[
        Number, option("Minimum share of positives among nodes acted on (precision).")
    ] = None,
    clear: Annotated[Number, option("Minimum share of negatives among nodes cleared.")] = None,
    recall: Annotated[Number, option("Minimum share of positives that are not cleared.")] = None,
    false_positive_rate: Annotated[
        Number, option("Maximum share of negatives that are acted on.")
    ] = None,
    costs: Annotated[
        str | None,
        option("Costs, such as missed=500,false_alarm=20,review=3: numbers or columns of INPUT."),
    ] = None,
    budget: Annotated[Number, option("Number or share of nodes that can be reviewed.")] = None,
    region: Annotated[
        Number, option("Number that `gnncal label` printed when it chose the validation nodes.")
    ] = None,
    fail_if: gating.FailIf = None,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Find the nodes of INPUT that can be decided automatically at a guaranteed accuracy.

    With --positive, the action for each node is act, clear or review. Choose the targets with
    --act, --clear, --recall and --false-positive-rate, or use --costs or --budget.

    The calibrator is fitted on all validation nodes. For certification, the probabilities of each
    of these nodes come from a fit without its label (cross-fitting). There is no proof, but the
    guarantee has held in experiments. With --hold-out, some validation nodes are used for
    certification only, not for the fit, and the guarantee is proven unless scores are equal (ties).

    The folder gets decisions.npz (or .parquet if INPUT is a folder), calibrator.safetensors,
    policy.safetensors (for gnncal apply and gnncal.load; with --by one file for each value) and
    summary.json.

    The exit code is 3 if guarantees were requested and none is certified, 4 if a --fail-if
    condition holds. --fail-if also accepts uncertified (number of guarantees that are not
    certified) and review (share of nodes to review).
    """
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
    groups, policy_files = None, ["policy.safetensors"]
    if by is not None:
        files.refuse_labels(source, by)
        groups = files.read_column(source, by)
        if groups.ndim != 1 or groups.dtype.kind not in "biufUM":
            raise InputError(
                f"--by {by} has dtype {groups.dtype} and shape {groups.shape}; expected one text, "
                "number or date for each node."
            )
        policy_files = [f"policy-{i}.safetensors" for i in range(len({*groups.tolist()}))]
    calibrator = asked_calibrator(probabilities, method, keep_predictions, param, bool(positive))
    if calibrator is None and held_out is not None:
        raise InputError("--probabilities are calibrated already; leave --hold-out out.")
    if calibrator is not None and region is not None:
        raise InputError(
            "--region needs the probabilities of `gnncal label`; pass --probabilities."
        )
    asked: dict[str, Any] = {"held_out": held_out, "seed": seed, "only": only}
    asked |= {"overwrite": overwrite, "names": policy_files}
    with fitting("decide", source, folder, probabilities, calibrator, **asked) as fitted:
        bundle, probs, test = fitted.bundle, fitted.probs, fitted.bundle.test_nodes
        others = policies.decision_nodes(bundle)
        given = {**fitted.given, "decision_nodes": others, "region": region}
        given["train_nodes"] = bundle.train_nodes
        given["predictions"] = bundle.logits.argmax(axis=1)
        if groups is None:
            made = {"policy": policy.fit(probs, bundle.labels, **given)}
        else:
            made = fit_by_group(policy, probs, bundle.labels, groups=groups, **given)
            if left := [*map(str, {*groups[others].tolist()} - {*made})]:
                fitted.notes.append(
                    f"no calibration nodes with {by} {', '.join(sorted(left)[:LISTED])}"
                    f"{', ...' if len(left) > LISTED else ''}: these nodes go to review."
                )
        if calibrator is not None:
            calibrator.positive_ = next(iter(made.values())).positive_
        columns, said = policies.decide_nodes(made, bundle, probs, groups)
        first, reports = next(iter(made.values())), [each.report_ for each in made.values()]
        values: dict[str, float | None] = {
            "uncertified": sum(each.n_uncertified for each in reports),
            "review": float((columns["action"][others] == "review").mean()),
        }
        if test.size and not gates.keys() <= {*OWN_GATES}:
            degree, view = bundle.graph.in_degree[test], first.positive_
            outcomes = Outcomes(bundle.labels[test], probs[test], degree, positive=view)
            values |= {name: METRICS[name].of(outcomes) for name in gates if name in METRICS}
        failures = gating.failures_of(gates, values)
        if groups is not None:
            said = {
                "groups": said,
                "by": by,
                "policies": dict(zip(policy_files, map(str, made), strict=False)),
            }
        written = dict(zip(policy_files, made.values(), strict=False))  # some groups have none
        summary = fitted.write(written, columns, said)
    certifies = bool(first.guarantees_)
    how = {"certifies": certifies, "cross_fitted": "cross_fitted" in fitted.given}
    print_summary(folder, summary, policies.lines(summary), **how, json=json)
    if certifies and all(each.assumption is None for each in reports):
        raise typer.Exit(gating.NOTHING_CERTIFIED)
    gating.end_if_failed(failures)


def sets(
    source: params.Input,
    folder: params.OutFolder = Path("sets"),
    coverage: Annotated[float, option("Minimum share of sets with the true class.")] = 0.9,
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
    """Give each node of INPUT a prediction set with guaranteed coverage.

    The calibrator is fitted on one part of the validation nodes and the sets on the rest. The
    folder gets decisions.npz (or .parquet if INPUT is a folder) with the sets,
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
        conformal.fit(probs, bundle.labels, bundle.graph, **fitted.given)
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
        summary = fitted.write(made, {"sets": members}, {"sets": said})
    print_summary(folder, summary, lines, json=json)


def label(
    source: params.Input,
    positive: Annotated[str, option("The class to act on.", metavar="CLASS")],
    act: Annotated[float, option("Precision to certify.")],
    n: Annotated[int, option("Number of nodes to label.", "-n")],
    probabilities: Annotated[Path, option("File of the probabilities for decide.")],
    seed: Seed = 0,
    json: params.SummaryAsJson = False,
) -> None:
    """Draw nodes of INPUT to label, at random from the region that should contain the threshold.

    Prints the ids of the nodes and, on stderr, the number for --region: the lowest probability
    among the nodes to choose from. Label the nodes, make them the validation nodes of INPUT, and
    certify with the same probabilities and options: gnncal decide INPUT --probabilities FILE
    --positive CLASS --act ACT --region REGION.
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


def print_summary(
    folder: Path,
    summary: dict[str, Any],
    lines: list[str],
    *,
    certifies: bool = True,
    cross_fitted: bool = False,
    json: bool,
) -> None:
    """Print the notes that the result does not say itself, the result, and where the files are."""
    fitted = f"Calibrator: {summary['method']}, fitted on {summary['n_calibrator_nodes']:,} nodes. "
    used = f"{summary['n_threshold_nodes']:,} nodes"
    if summary["method"] is None:
        fitted = ""
    elif cross_fitted:
        used = "the same nodes, with cross-fitted probabilities"
    notes = [message for message in summary["notes"] if message not in " ".join(lines)]
    rests = f"{fitted}{'Certified' if certifies else 'Forecast'} on {used}."
    print_results(folder, [*lines, rests], summary, as_json=json, notes=notes)
