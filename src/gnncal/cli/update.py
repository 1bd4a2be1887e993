"""``gnncal update``: a saved calibrator learns from new labels, or follows new base rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gnncal.calibration import apply
from gnncal.cli.apply import with_class_names
from gnncal.cli.params import CalibratorFile, NewInput, OutFolder, Overwrite, SummaryAsJson
from gnncal.cli.results import collected_notes, print_results, write_results
from gnncal.cli.terminal import err
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.files.bundle import Bundle, read_bundle
from gnncal.files.output import result_folder
from gnncal.files.saved_calibrators import load
from gnncal.metrics.evaluation import evaluation_table


def update(
    calibrator: CalibratorFile,
    source: NewInput,
    folder: OutFolder,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=RATE",
            help="New base rate of a class, such as fraud=0.06. May be given several times.",
        ),
    ] = None,
    estimate_rates: Annotated[
        bool,
        typer.Option(
            "--estimate-rates",
            help="Estimate the new base rates without labels; refused where more has changed.",
        ),
    ] = False,
    date: Annotated[
        str | None,
        typer.Option(help="Date to record in the update history.", show_default="today"),
    ] = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Update a calibrator.

    The labels are those of NEW's validation nodes. What the calibrator knows is kept as far as
    they allow. NEW may be another graph. If it has labelled test nodes, the calibrator is judged
    on them before and after the update. The folder gets calibrator.safetensors, probabilities.npz
    (or .parquet when NEW is a folder) and summary.json.
    """
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
            judged: dict[str, Any] = {
                "labels": bundle.labels,
                "test_nodes": bundle.test_nodes,
                "class_names": bundle.class_names,
            }
            was, result = (apply(each, nodes, **judged) for each in (fitted, updated))
        summary = write_results(staging, bundle, result, notes, as_parquet=source.is_dir())
    lines = ["updates since the fit", *(f"  {each}" for each in updated.history_)]
    if was.after is not None and result.after is not None:
        sides = {"as it was": was.after, "updated": result.after}
        lines = [evaluation_table(sides).as_text(), "", *lines]
    print_results(folder, "\n".join(lines), summary, as_json=json)


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
        splits = {"nodes": bundle.nodes, "train_nodes": bundle.train_nodes}
        return {"labels": bundle.labels, **splits}
    if rates is None:
        raise InputError(
            "the input has no validation nodes to learn from; give it a val_mask and their labels, "
            "or pass --rate or --estimate-rates."
        )
    return {}
