"""``gnncal decide``: say which nodes may be decided automatically, and give sets of classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnncal.cli.decision_results import Decisions, gate_values, print_decisions, write_files
from gnncal.cli.gates import (
    NOTHING_CERTIFIED,
    FailIf,
    check_measurable,
    end_if_failed,
    failures_of,
    read_gates,
)
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
    Act,
    Budget,
    Catch,
    Clear,
    CostsOption,
    Positive,
    asked_policy,
    fit_policy,
)
from gnncal.cli.results import collected_notes
from gnncal.cli.terminal import err
from gnncal.core.constraints import Constraint, choice, number, whole_number
from gnncal.core.errors import InputError
from gnncal.files.output import result_folder

if TYPE_CHECKING:
    from gnncal.calibrators.base import Calibrator
    from gnncal.core.arrays import FloatArray, IntArray
    from gnncal.files import Bundle

DEFAULT_TARGET = 0.95
OWN_GATES = ("uncertified", "review")  # what --fail-if may name beside metrics
FOREIGN = (
    "the guarantee needs probabilities that were not fitted on the validation nodes of the input, "
    "as those of `gnncal calibrate` are. Without --probabilities, decide fits a calibrator itself "
    "and keeps nodes for the threshold."
)


def decide(
    source: Input,
    folder: OutFolder = Path("decided"),
    target: Annotated[
        float | None,
        typer.Option(
            help="Share of the automatic decisions that must be right.",
            show_default=str(DEFAULT_TARGET),
        ),
    ] = None,
    confidence_level: Annotated[
        float, typer.Option(help="Probability with which the guarantee holds.")
    ] = 0.9,
    sets: Annotated[
        str | None,
        typer.Option(
            help="Also give each node a set of classes, by a score: lac, aps, raps, daps, snaps."
        ),
    ] = None,
    coverage: Annotated[
        float, typer.Option(help="Share of the sets that must have the true class.")
    ] = 0.9,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Promise that share for the nodes of each class.")
    ] = False,
    keep_predictions: KeepPredictions = None,
    method: Method = None,
    param: Parameters = None,
    held_out: Annotated[
        float,
        typer.Option(
            "--hold-out", help="Share of the validation nodes kept for the threshold and the sets."
        ),
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed for the nodes held out and for the sets.")] = 0,
    probabilities: Annotated[
        Path | None,
        typer.Option(help="Probabilities made elsewhere, not fitted on the validation nodes."),
    ] = None,
    positive: Positive = None,
    act: Act = None,
    clear: Clear = None,
    catch: Catch = None,
    costs: CostsOption = None,
    budget: Budget = None,
    fail_if: FailIf = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Say which nodes of INPUT may be decided automatically, with a guaranteed accuracy.

    With --positive, decide about one class instead: act, clear, or leave the node to a person, as
    --act, --clear, --catch, --costs or --budget ask for.

    The calibrator is fitted on one part of the validation nodes, the confidence threshold on the
    rest, because a calibrator looks better than it is on the nodes it was fitted on. The folder
    gets decisions.npz (or .parquet when INPUT is a folder), calibrator.safetensors,
    selective.safetensors or policy.safetensors (the threshold or the policy, for gnncal.load),
    conformal.safetensors (the sets, if any) and summary.json.

    The exit code is 3 if a promise was asked for and nothing can be certified, 4 if a --fail-if
    holds. It may name uncertified (how many promises are not certified) and review (the share of
    nodes that goes to people) beside metrics.
    """
    from gnncal.decisions import ConformalClassifier, SelectiveClassifier
    from gnncal.files import read_bundle

    _check_options(target, confidence_level, sets, coverage, held_out, seed)
    if by_class and sets is None:
        raise InputError(
            "--by-class is about sets of classes; pass --sets too, such as --sets lac."
        )
    policy = asked_policy(positive, act, clear, catch, costs, budget, confidence_level)
    if policy is not None and target is not None:
        raise InputError("--target is about all classes; with --positive say --act or --clear.")
    gates = read_gates(fail_if, others=OWN_GATES)
    if probabilities is not None and (method or param or keep_predictions is not None):
        raise InputError(
            "--probabilities are calibrated already; leave --method and --param out, and "
            "--keep-predictions and --free."
        )
    calibrator = advice = None
    if probabilities is None:
        calibrator = chosen_calibrator(
            method, keep_predictions, param, one_class=policy is not None
        )
    with (
        result_folder(
            folder,
            "decide",
            inputs=[source, *([] if probabilities is None else [probabilities])],
            overwrite=overwrite,
        ) as staging,
        err.status("deciding"),
    ):
        bundle = read_bundle(source)
        check_measurable(gates, bundle, others=OWN_GATES)
        with collected_notes() as notes:
            if probabilities is not None:
                probs, nodes = _read(probabilities, bundle), bundle.nodes
            elif calibrator is not None:
                probs, nodes, advice = _calibrate(calibrator, bundle, held_out, seed)
            selective = conformal = members = None
            if policy is not None:
                fit_policy(policy, bundle, probs, nodes)
            else:
                selective = SelectiveClassifier(
                    DEFAULT_TARGET if target is None else target, confidence_level=confidence_level
                ).fit(probs, bundle.labels, nodes=nodes)
            if sets is not None:
                conformal = ConformalClassifier(
                    coverage, score=sets, by_class=by_class, random_state=seed
                )
                ids = bundle.node_ids  # a node has the same set whenever it is asked for by its id
                conformal.fit(
                    *(probs, bundle.labels, bundle.graph),
                    nodes=nodes,
                    ids=ids,
                    class_names=bundle.class_names,
                )
                members = conformal.predict_set(probs, bundle.graph, ids=ids)
        if probabilities is not None:
            notes.append(FOREIGN)
        if advice is not None:
            notes.append(advice)
        decisions = Decisions(calibrator, probs, nodes, selective, policy, conformal, members)
        failures = failures_of(gates, gate_values(gates, bundle, decisions))
        summary = write_files(staging, bundle, decisions, notes, as_parquet=source.is_dir())
    print_decisions(folder, summary, as_json=json)
    if decisions.certifies_nothing:
        raise typer.Exit(NOTHING_CERTIFIED)
    end_if_failed(failures)


def _check_options(
    target: float | None,
    confidence_level: float,
    sets: str | None,
    coverage: float,
    held_out: float,
    seed: int,
) -> None:
    share = number(above=0, below=1)
    if target is not None:
        share.check("--target", target)
    share.check("--confidence-level", confidence_level)
    share.check("--coverage", coverage)
    share.check("--hold-out", held_out)
    whole_number(at_least=0).check("--seed", seed)
    if sets is not None:
        _known_score().check("--sets", sets)


def _known_score() -> Constraint:
    from gnncal.decisions.conformal import SCORES

    return choice(*SCORES)


def _calibrate(
    calibrator: Calibrator, bundle: Bundle, share: float, seed: int
) -> tuple[FloatArray, IntArray, str | None]:
    """Fit on a part of the validation nodes.

    Returns the probabilities, the nodes of the rest, and what keeping predictions costs, in words.
    """
    from gnncal.calibrators.price import price_of_keeping
    from gnncal.decisions import hold_out
    from gnncal.nodes import Nodes

    fit_nodes, nodes = hold_out(bundle.nodes, labels=bundle.labels, share=share, random_state=seed)
    every = Nodes(bundle.logits, bundle.graph)
    labelled = every.with_labels(bundle.labels, nodes=fit_nodes, train_nodes=bundle.train_nodes)
    probs = calibrator.fit(labelled).predict_proba(every)
    price = price_of_keeping(calibrator, labelled, probs)
    return probs, nodes, None if price is None else price.advice(bundle.class_names)


def _read(path: Path, bundle: Bundle) -> FloatArray:
    from gnncal.files import read_probabilities

    probs = read_probabilities(path, bundle)
    n_classes = bundle.logits.shape[1]
    if probs.shape[1] != n_classes:
        raise InputError(f"{path} has {probs.shape[1]} classes but the logits have {n_classes}.")
    return probs
