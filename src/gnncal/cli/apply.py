"""``gnncal apply``: use a saved calibrator on another graph, or on new logits of the same one."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from gnncal.calibration import apply as run
from gnncal.calibrators.base import Calibrator
from gnncal.cli import gates, params, policies
from gnncal.cli.params import option
from gnncal.cli.results import collected_notes, print_results, write_results
from gnncal.cli.terminal import err
from gnncal.data.checks import class_label, same_class_names
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.decisions import Policy
from gnncal.files.bundle import Bundle, read_bundle
from gnncal.files.output import result_folder
from gnncal.files.saved_calibrators import FOREIGN, is_of_another, load
from gnncal.graph.checks import missing_reverse_edges
from gnncal.graph.neighbours import GraphNeighbours
from gnncal.loading import load_policy
from gnncal.math.node_summary import missing_neighbours
from gnncal.metrics.evaluation import evaluation_table

POLICY = "policy.safetensors"
STATISTICS = ("mean_probability", "share_above_half", "share_isolated")  # need no labels


def apply(
    calibrator: params.CalibratorFile,
    source: params.Input,
    folder: params.OutFolder,
    positive: params.PositiveOfFit = None,
    policy: params.PolicyFile = None,
    refresh: Annotated[
        bool,
        option(
            "Certify the policy again, without new labels. INPUT must be the whole graph of the "
            "policy, which may have grown; calibration nodes are found by their ids.",
            "--refresh",
        ),
    ] = False,
    costs: Annotated[
        str | None, option("Costs for the nodes of INPUT, in the format of decide --costs.")
    ] = None,
    only: params.Only = None,
    fail_if: gates.FailIf = None,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Calibrate INPUT with a saved calibrator; nothing is fitted.

    INPUT needs logits and edges only. If it has labelled test nodes, the result is evaluated
    on them. With --only, only the selected rows are evaluated, decided and written.

    The folder gets probabilities.npz (or .parquet if INPUT is a folder) and summary.json. With
    --policy it also gets decisions.npz (or .parquet), with --refresh the new policy.safetensors.

    The exit code is 3 if none of the policy's guarantees is certified, 4 if a --fail-if condition
    holds. --fail-if also accepts uncertified (number of guarantees that are not certified) and
    three names that need no labels: mean_probability, share_above_half and share_isolated.
    """
    own = (*STATISTICS, *(() if policy is None else ("uncertified",)))
    asked = gates.read_gates(fail_if, others=own)
    if policy is None and (refresh or costs is not None):
        option_used = "--refresh" if refresh else "--costs"
        raise InputError(f"{option_used} needs a policy; pass --policy policy.safetensors too.")
    fitted, decided = load(calibrator), None if policy is None else load_policy(policy)
    is_foreign = decided is not None and is_of_another(decided.calibrator_, fitted)
    if refresh and is_foreign:
        raise InputError(f"--refresh needs the calibrator of the policy. {FOREIGN}")
    inputs = [source, calibrator, *([] if policy is None else [policy])]
    with (
        result_folder(folder, "apply", inputs=inputs, overwrite=overwrite) as staging,
        err.status("applying the calibrator"),
    ):
        bundle = read_bundle(source, labels_required=False, only=only)
        bundle = with_class_names(bundle, fitted, decided)
        with collected_notes() as notes:
            nodes = Nodes(bundle.logits, bundle.graph)
            result = run(
                fitted,
                nodes,
                labels=bundle.labels,
                test_nodes=bundle.test_nodes,
                positive=decided.positive_ if positive is None and decided else positive,
                class_names=bundle.class_names,
            )
            if refresh and decided is not None:
                decided = decided.refresh(result.probabilities, ids=bundle.node_ids)
                decided.save(staging / POLICY)
        if decided is not None:
            notes += [] if is_foreign else policies.joined_later(decided, bundle, refresh)
            decided = policies.with_costs(decided, costs, source, bundle)
        notes += [FOREIGN] if is_foreign else []
        if fitted.needs_graph:
            graph, rows = bundle.graph, ... if bundle.only is None else bundle.only
            counts = graph.neighbour_counts(side=graph.all_sides)[rows]
            # Rows that only lend their neighbourhood may lack senders.
            degree = None if bundle.only is None else graph.in_degree[rows]
            missing = missing_neighbours(fitted.fitted_on_, counts, degree)
            notes += [] if missing is None else [missing]
            if bundle.only is not None:
                given = fitted.graph_kind_, GraphNeighbours(graph), fitted._reach(), bundle.only
                missing = missing_reverse_edges(*given)
                notes += [] if missing is None else [missing]
        summary = write_results(
            staging,
            bundle,
            result,
            notes,
            as_parquet=source.is_dir(),
            applied_to=nodes,
            policy=decided,
            policy_file=staging / POLICY if refresh else policy,
            is_foreign=is_foreign,
        )
        found, said = summary["statistics"], summary.get("policy", {})
        values = {**found, "uncertified": said.get("n_uncertified")}
        values |= {} if result.after is None else result.after.values
        failures = gates.failures_of(asked, values)
    of = "Confidence"
    if result.positive is not None:
        of = f"P({class_label(result.positive, bundle.class_names)})"
    paragraphs: list[object] = [
        f"{of} of {summary['n_nodes']:,} nodes: mean {found['mean_probability']:.1%}, "
        f"{found['share_above_half']:.1%} above one half. {found['share_isolated']:.1%} of the "
        "nodes have no neighbours."
    ]
    if result.before is not None and result.after is not None:
        sides = {"before": result.before, "after": result.after}
        paragraphs += [evaluation_table(sides).as_text(), result.comparison]
    paragraphs += policies.lines(summary)
    print_results(folder, paragraphs, summary, as_json=json)
    if said and 0 < said["n_uncertified"] == len(said["guarantees"]):
        raise typer.Exit(gates.NOTHING_CERTIFIED)
    gates.end_if_failed(failures)


def with_class_names(bundle: Bundle, *fitted: Calibrator | Policy | None) -> Bundle:
    """Return the bundle with the class names of fitted objects, which must not contradict it."""
    for each in fitted:
        names = same_class_names(bundle.class_names, getattr(each, "class_names_", None))
        if names is not None and len(names) == bundle.logits.shape[1]:  # else predict_proba refuses
            bundle = replace(bundle, class_names=names)
    return bundle
