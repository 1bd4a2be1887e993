"""``gnncal label``: which nodes to label next, so that acting can be certified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnncal.cli.params import Input
from gnncal.cli.policies import outside, read_probabilities
from gnncal.cli.terminal import out, print_json
from gnncal.data.errors import InputError


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
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Draw nodes of INPUT to label, at random from the region in which a threshold must lie.

    Prints the ids of the nodes. Label them, make them the validation nodes of INPUT, and certify
    with the same probabilities: gnncal decide INPUT --probabilities ... --positive ... --act ...
    --region ....
    """
    from gnncal.data.nodes import Nodes
    from gnncal.decisions import nodes_to_label
    from gnncal.files.bundle import read_bundle
    from gnncal.files.saved_calibrators import load

    if (calibrator is None) == (probabilities is None):
        raise InputError("pass --calibrator or --probabilities, one of the two.")
    bundle = read_bundle(source, labels_required=False)
    if probabilities is not None:
        probs = read_probabilities(probabilities, bundle)
    else:
        assert calibrator is not None
        probs = load(calibrator).predict_proba(Nodes(bundle.logits, bundle.graph))
    plan = nodes_to_label(
        *(probs, positive),
        act=act,
        n=n,
        among=outside(bundle),
        class_names=bundle.class_names,
        random_state=seed,
    )
    ids = plan.nodes if bundle.node_ids is None else bundle.node_ids[plan.nodes]
    if json:
        print_json({"nodes": ids.tolist(), "region": plan.region, "n_region": plan.n_region})
        return
    out.print("\n".join(map(str, ids.tolist())), markup=False, highlight=False, soft_wrap=True)
    from gnncal.cli.terminal import note

    note(
        f"{n:,} of the {plan.n_region:,} nodes with a probability of at least {plan.region:.6g}; "
        f"certify with --region {plan.region:.9g}."
    )
