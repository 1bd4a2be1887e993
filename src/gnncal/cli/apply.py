"""``gnncal apply``: use a saved calibrator on another graph, or on new logits of the same one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnncal.cli.results import collected_notes, print_results, write_results
from gnncal.cli.terminal import err, staged_folder
from gnncal.core.errors import InputError

if TYPE_CHECKING:
    from gnncal.calibrators.base import Calibrator
    from gnncal.files import Bundle


def apply(
    calibrator: Annotated[
        Path, typer.Argument(metavar="CALIBRATOR", help="File written by calibrate or save().")
    ],
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help=".npz file, or folder of Parquet files.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")],
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Calibrate INPUT with a saved calibrator; nothing is fitted.

    INPUT needs logits and edges only. If it has labelled test nodes, the result is judged on
    them. The folder gets probabilities.npz (or .parquet when INPUT is a folder) and summary.json.
    """
    from gnncal.files import DECISION_FILES, PROBABILITY_FILES, read_bundle
    from gnncal.files.saved_calibrators import load
    from gnncal.nodes import Nodes
    from gnncal.pipeline import apply as run

    fitted = load(calibrator)
    with (
        staged_folder(
            folder,
            writes=("summary.json",),
            removes=(*PROBABILITY_FILES, *DECISION_FILES),
            inputs=[source],
        ) as staging,
        err.status(f"applying {calibrator.name}"),
    ):
        bundle = with_class_names(read_bundle(source, labels_required=False), fitted)
        with collected_notes() as notes:
            nodes = Nodes(bundle.logits, bundle.graph)
            result = run(fitted, nodes, labels=bundle.labels, test_nodes=bundle.test_nodes)
        summary = write_results(
            staging, bundle, result, notes, as_parquet=source.is_dir(), applied_to=nodes
        )
    print_results(folder, result, summary, as_json=json)


def with_class_names(bundle: Bundle, fitted: Calibrator) -> Bundle:
    """Return the bundle with the calibrator's class names, which must not contradict its own."""
    names = getattr(fitted, "class_names_", None)
    if names is None or bundle.class_names == names:
        return bundle
    if bundle.class_names is not None:
        raise InputError(
            f"the calibrator was fitted for the classes {', '.join(names)} but the input has "
            f"{', '.join(bundle.class_names)}; put the columns of logits in the same order."
        )
    if len(names) != bundle.logits.shape[1]:
        return bundle  # predict_proba says what is wrong
    return replace(bundle, class_names=names)
