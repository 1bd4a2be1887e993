"""``gnncal update``: a saved calibrator learns from new labels, or follows new rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnncal.cli.apply import with_class_names
from gnncal.cli.params import CalibratorFile, NewInput, OutFolder, Overwrite, SummaryAsJson
from gnncal.cli.results import collected_notes, write_results
from gnncal.cli.terminal import err, note, out, print_json, print_written
from gnncal.data.errors import InputError
from gnncal.files.output import result_folder

if TYPE_CHECKING:
    from gnncal.files.bundle import Bundle


def update(
    calibrator: CalibratorFile,
    source: NewInput,
    folder: OutFolder,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=RATE",
            help="New rate of a class, such as fraud=0.06. May be given several times.",
        ),
    ] = None,
    estimate_rates: Annotated[
        bool,
        typer.Option(
            "--estimate-rates",
            help="Estimate the new rates without labels; refused where more has changed.",
        ),
    ] = False,
    date: Annotated[
        str | None,
        typer.Option(help="When this is, for the history.", show_default="today"),
    ] = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Update a saved calibrator with the labels of NEW's validation nodes.

    What the calibrator knows is kept as far as the new labels allow. NEW may be another graph. If
    it has labelled test nodes, the calibrator is judged on them as it was and updated. The folder
    gets calibrator.safetensors, probabilities.npz (or .parquet when NEW is a folder) and
    summary.json.
    """
    from gnncal.calibration import apply
    from gnncal.data.nodes import Nodes
    from gnncal.files.bundle import read_bundle
    from gnncal.files.saved_calibrators import load

    if estimate_rates and rate:
        raise InputError("--rate gives the rates and --estimate-rates estimates them; use one.")
    rates = parse_rates(rate) if rate else "estimate" if estimate_rates else None
    fitted = load(calibrator)
    with (
        result_folder(
            folder, "update", inputs=[source, calibrator], overwrite=overwrite
        ) as staging,
        err.status(f"updating {calibrator.name}"),
    ):
        bundle = with_class_names(read_bundle(source, labels_required=False), fitted)
        with collected_notes() as notes:
            nodes = Nodes(bundle.logits, bundle.graph, node_ids=bundle.node_ids)
            updated = fitted.update(nodes, **_labels(bundle, rates), rates=rates, date=date)
            was, result = (
                apply(
                    each,
                    nodes,
                    labels=bundle.labels,
                    test_nodes=bundle.test_nodes,
                    class_names=bundle.class_names,
                )
                for each in (fitted, updated)
            )
        summary = write_results(staging, bundle, result, notes, as_parquet=source.is_dir())
    for message in summary["notes"]:
        note(message)
    if json:
        print_json(summary)
        return
    if was.after is not None and result.after is not None:
        from gnncal.metrics.evaluation import evaluation_table

        out.print(evaluation_table({"as it was": was.after, "updated": result.after}).as_text())
        out.print()
    out.print("updates since the fit")
    for update in updated.history_:
        out.print(f"  {update}", soft_wrap=True)
    out.print()
    print_written(folder, summary["files"])


def parse_rates(given: Sequence[str]) -> dict[str, float]:
    """Return rates by class from ``class=rate`` texts."""
    rates: dict[str, float] = {}
    for entry in given:
        name, equals, value = entry.rpartition("=")
        try:
            rate = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"--rate is {entry!r}; expected class=rate, such as fraud=0.06.")
        if name.strip() in rates:
            raise InputError(f"--rate {name.strip()} is given twice; give it once.")
        rates[name.strip()] = rate
    return rates


def _labels(bundle: Bundle, rates: Any) -> dict[str, Any]:
    """Return the labelled validation nodes, of which there may be none if there are rates."""
    if bundle.nodes.size and rates != "estimate":
        return {
            "labels": bundle.labels,
            "nodes": bundle.nodes,
            "train_nodes": bundle.train_nodes,
        }
    if rates is None:
        raise InputError(
            "the input has no validation nodes to learn from; give it a val_mask and their labels, "
            "or pass --rate or --estimate-rates."
        )
    return {}
