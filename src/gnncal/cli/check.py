"""``gnncal check``: test new nodes for distribution shift, without labels."""

from __future__ import annotations

import numpy as np
import typer

from gnncal.cli import params
from gnncal.cli.apply import with_class_names
from gnncal.cli.terminal import err, print_result
from gnncal.files.bundle import read_bundle
from gnncal.files.output import check_file, seal, write_file
from gnncal.files.saved_calibrators import load
from gnncal.reporting.shift import check_page
from gnncal.shift.check import check as compare

SHIFTED = 5  # the exit code that a scheduler can act on


def check(
    calibrator: params.CalibratorFile,
    source: params.NewInput,
    only: params.Only = None,
    page: params.Page = None,
    overwrite: params.OverwriteFile = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Compare the nodes of NEW with the calibration nodes of a calibrator.

    NEW needs logits and edges only. Training nodes of NEW are not compared; with --only, only the
    selected rows are compared. Exit code 5 means distribution shift.
    """
    fitted = load(calibrator)
    if page is not None:
        check_file(page, inputs=[calibrator, source], overwrite=overwrite)
    with err.status("reading the nodes"):
        bundle = with_class_names(read_bundle(source, labels_required=False, only=only), fitted)
        new = np.setdiff1d(np.arange(len(bundle.logits)), bundle.train_nodes)
        if bundle.only is not None:
            new = np.flatnonzero(bundle.only)
        result = compare(fitted, bundle.logits, bundle.graph, nodes=new)
    if page is not None:
        html = check_page(result, title=f"Check of {source.name}")
        write_file(page, seal(html), overwrite=overwrite)
    print_result(result, result, as_json=json)
    if result.verdict != "same":
        raise typer.Exit(SHIFTED)
