"""``gnncal calibrate``: fit a calibrator on the labels of a file and write its probabilities."""

from __future__ import annotations

from typing import Annotated

from gnncal.calibration import calibrate as run
from gnncal.calibrators.registry import name_of
from gnncal.cli import gates, params
from gnncal.cli.results import collected_notes, print_results, write_results
from gnncal.cli.terminal import err
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.files.bundle import read_bundle
from gnncal.files.output import result_folder

RESERVED = ("checksum", "date", "gnncal", "method")  # what provenance records itself
CONTROL = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # what a tag lacks
TAG = f"([^={CONTROL}]+)=([^{CONTROL}]*)"


def calibrate(
    source: params.Input,
    folder: params.OutFolder,
    keep_predictions: params.KeepPredictions = None,
    method: params.Method = None,
    param: params.Parameters = None,
    positive: params.Positive = None,
    tolerance: params.Tolerance = None,
    tag: Annotated[
        params.Texts, params.several("Tag to save with the results: model=gcn-7.", "NAME=TEXT")
    ] = None,
    fail_if: gates.FailIf = None,
    overwrite: params.Overwrite = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Fit a calibrator.

    The folder gets probabilities.npz (or .parquet if INPUT is a folder), calibrator.safetensors
    and summary.json. With --positive, the default method is structural-free, which may change
    predictions. The exit code is 4 if a --fail-if condition holds after calibration.
    """
    asked = gates.read_gates(fail_if)
    expected = "name=text on one line without control characters, such as model=gcn-7"
    tags = params.read_pairs(tag, "--tag", TAG, expected, str)
    if taken := sorted({*tags} & {*RESERVED}):
        raise InputError(
            f"--tag {taken[0]} would replace what gnncal records itself; use another name."
        )
    calibrator = params.chosen_calibrator(
        method, keep_predictions, param, one_class=positive is not None
    )
    with (
        result_folder(folder, "calibrate", inputs=[source], overwrite=overwrite) as staging,
        err.status(f"calibrating with {name_of(calibrator)}"),
    ):
        bundle = read_bundle(source)
        with collected_notes() as notes:
            result = run(
                Nodes(bundle.logits, bundle.graph, node_ids=bundle.node_ids),
                bundle.labels,
                **bundle.splits,
                method=calibrator,
                positive=positive,
                class_names=bundle.class_names,
                tolerance=tolerance,
            )
        result.calibrator.provenance_ |= tags
        failures = gates.failures_of(asked, {} if result.after is None else result.after.values)
        summary = write_results(staging, bundle, result, notes, as_parquet=source.is_dir())
    print_results(folder, [result], summary, as_json=json)
    gates.end_if_failed(failures)
