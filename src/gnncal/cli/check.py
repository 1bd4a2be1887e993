"""``gnncal check``: are new nodes of the kind that a calibrator was fitted on?"""

from __future__ import annotations

from typing import Annotated

import typer

from gnncal.cli.apply import with_class_names
from gnncal.cli.params import CalibratorFile, NewInput, OverwriteFile, Page
from gnncal.cli.terminal import err, out, page_target, print_json

MOVED = 5  # the exit code that a scheduler can act on


def check(
    calibrator: CalibratorFile,
    source: NewInput,
    page: Page = None,
    overwrite: OverwriteFile = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare the nodes of NEW with those that a calibrator was fitted on; no label is needed.

    NEW needs logits and edges only. If it marks training nodes, they are left out. Exit code 5
    means that the nodes have moved.
    """
    import numpy as np

    from gnncal.files.bundle import read_bundle
    from gnncal.files.saved_calibrators import load
    from gnncal.shift.check import check as compare

    fitted = load(calibrator)
    target = (
        None
        if page is None
        else page_target(page, inputs=[calibrator, source], overwrite=overwrite)
    )
    with err.status("reading the nodes"):
        bundle = with_class_names(read_bundle(source, labels_required=False), fitted)
        new = np.ones(len(bundle.logits), dtype=bool)
        new[bundle.train_nodes] = False
        result = compare(fitted, bundle.logits, bundle.graph, nodes=new)
    if target is not None:
        from gnncal.files.output import write_page
        from gnncal.reporting.shift import check_page

        text = check_page(result, title=f"Check of {source.name}")
        write_page(target, text, overwrite=overwrite)
    if json:
        print_json(result)
    else:
        out.print(result, soft_wrap=True)
    if result.verdict != "same":
        raise typer.Exit(MOVED)
