"""``gnncal calibrate``: fit a calibrator on the labels of a file and write its probabilities."""

from __future__ import annotations

from gnncal.calibration import calibrate as run
from gnncal.calibrators.registry import name_of
from gnncal.cli.gates import FailIf, check_measurable, end_if_failed, failures_of, read_gates
from gnncal.cli.params import (
    Input,
    KeepPredictions,
    Method,
    OutFolder,
    Overwrite,
    Parameters,
    Positive,
    SummaryAsJson,
    chosen_calibrator,
)
from gnncal.cli.results import collected_notes, print_results, write_results
from gnncal.cli.terminal import err
from gnncal.data.nodes import Nodes
from gnncal.files.bundle import read_bundle
from gnncal.files.output import result_folder


def calibrate(
    source: Input,
    folder: OutFolder,
    keep_predictions: KeepPredictions = None,
    method: Method = None,
    param: Parameters = None,
    positive: Positive = None,
    fail_if: FailIf = None,
    overwrite: Overwrite = False,
    json: SummaryAsJson = False,
) -> None:
    """Fit a calibrator.

    The folder gets probabilities.npz (or .parquet when INPUT is a folder),
    calibrator.safetensors and summary.json. With --positive predictions may change, unless you
    pass --keep-predictions or --method. The exit code is 4 if a --fail-if holds after calibration.
    """
    gates = read_gates(fail_if)
    calibrator = chosen_calibrator(method, keep_predictions, param, one_class=positive is not None)
    with (
        result_folder(folder, "calibrate", inputs=[source], overwrite=overwrite) as staging,
        err.status(f"calibrating with {name_of(calibrator)}"),
    ):
        bundle = read_bundle(source)
        check_measurable(gates, bundle)
        with collected_notes() as notes:
            result = run(
                Nodes(bundle.logits, bundle.graph, node_ids=bundle.node_ids),
                bundle.labels,
                **bundle.splits,
                method=calibrator,
                positive=positive,
                class_names=bundle.class_names,
            )
        failures = failures_of(gates, {} if result.after is None else result.after.values)
        summary = write_results(staging, bundle, result, notes, as_parquet=source.is_dir())
    print_results(folder, result, summary, as_json=json)
    end_if_failed(failures)
