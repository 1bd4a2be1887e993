"""``gnncal update``: update a saved calibrator with new labels or new base rates."""

from __future__ import annotations

from typing import Annotated, Any

from gnncal.calibration import apply
from gnncal.cli import params
from gnncal.cli.apply import with_class_names
from gnncal.cli.results import collected_notes, print_results, write_results
from gnncal.cli.terminal import err
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.files.bundle import read_bundle
from gnncal.files.output import result_folder
from gnncal.files.saved_calibrators import load
from gnncal.metrics.evaluation import evaluation_table


def update(
    calibrator: params.CalibratorFile,
    source: params.NewInput,
    folder: params.OutFolder,
    rate: Annotated[
        params.Texts, params.several("New base rate of a class: fraud=0.06.", "CLASS=RATE")
    ] = None,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Update a calibrator.

    The new labels are those of NEW's validation nodes; the earlier fit is the prior. NEW may be
    another graph. If NEW has labelled test nodes, the calibrator is evaluated on them before and
    after the update. The folder gets calibrator.safetensors, probabilities.npz (or .parquet if NEW
    is a folder) and summary.json.
    """
    expected = "class=rate, such as fraud=0.06"
    rates = params.read_pairs(rate, "--rate", "(.+)=([^=]*)", expected, float)
    fitted = load(calibrator)
    inputs = [source, calibrator]
    with (
        result_folder(folder, "update", inputs=inputs, overwrite=overwrite) as staging,
        err.status("updating the calibrator"),
    ):
        bundle = with_class_names(read_bundle(source, labels_required=False), fitted)
        splits = {"calibration_nodes": bundle.calibration_nodes, "train_nodes": bundle.train_nodes}
        labelled = {"labels": bundle.labels, **splits} if bundle.calibration_nodes.size else {}
        if not labelled and not rates:
            raise InputError(
                "the input has no validation nodes to learn from; give it a val_mask and their "
                "labels, or pass --rate."
            )
        with collected_notes() as notes:
            nodes = Nodes(bundle.logits, bundle.graph, node_ids=bundle.node_ids)
            updated = fitted.update(nodes, **labelled, rates=rates or None)
            judged: dict[str, Any] = {"labels": bundle.labels, "test_nodes": bundle.test_nodes}
            judged["class_names"] = bundle.class_names
            was, result = (apply(each, nodes, **judged) for each in (fitted, updated))
        summary = write_results(staging, bundle, result, notes, as_parquet=source.is_dir())
    paragraphs = ["\n  ".join(["updates since the fit", *map(str, updated.history_)])]
    if was.after is not None and result.after is not None:
        sides = {"before": was.after, "updated": result.after}
        paragraphs.insert(0, evaluation_table(sides).as_text())
    print_results(folder, paragraphs, summary, as_json=json)
