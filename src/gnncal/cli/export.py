"""``gnncal export``: write a saved calibrator as a file that runs without gnncal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnncal.cli.params import CalibratorFile, OverwriteFile, SummaryAsJson
from gnncal.cli.terminal import console_beside, err, print_result
from gnncal.data.errors import InputError, require
from gnncal.files.output import check_file
from gnncal.files.saved_calibrators import load

require("torch", extra="neural", purpose="gnncal export")
from gnncal.torch import export as write  # noqa: E402  (the line above says what is missing)
from gnncal.torch.export import SUFFIXES, format_of  # noqa: E402


def export(
    calibrator: CalibratorFile,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="onnx|torch",
            help="Format of the file. Default: by the ending of --out, .onnx or .pt2.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", help="File to write. Default: CALIBRATOR with another ending."),
    ] = None,
    overwrite: OverwriteFile = False,
    json: SummaryAsJson = False,
) -> None:
    """Export a calibrator.

    The inputs are float32 logits and, for methods that use the graph, an int64 edge_index. The
    output is the probabilities. Any number of nodes and edges will do.
    """
    if to is not None and to not in SUFFIXES:
        raise InputError(f"--to is {to!r}; expected {' or '.join(SUFFIXES)}.")
    if file is not None:
        target = file
    elif to is not None:
        target = calibrator.with_suffix(SUFFIXES[to])
    else:
        raise InputError("say what to write: --to onnx, --to torch or --out FILE.onnx or FILE.pt2.")
    format = format_of(target, to)
    module = load(calibrator).to_torch()
    metadata = module.metadata
    check_file(target, inputs=[calibrator], overwrite=overwrite)
    with err.status(f"exporting {calibrator.name}"):
        written = write(module, target, format=format, overwrite=overwrite)
    inputs, name = ", ".join(written.inputs), metadata["calibrator"]
    text = f"{name}: ({inputs}) -> probabilities, {metadata['n_classes']} classes"
    if written.difference is not None:
        text += f"\nchecked on other graphs: differs by at most {written.difference:.1e}"
    print_result(
        text,
        {**metadata, "file": str(target), "inputs": written.inputs},
        as_json=json,
        written=str(target),
        to=console_beside(target),
    )
