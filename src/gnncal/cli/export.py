"""``gnncal export``: write a saved calibrator as a file that runs without gnncal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnncal.cli.params import CalibratorFile, OverwriteFile
from gnncal.cli.terminal import console_beside, err, print_json
from gnncal.data.errors import InputError, require
from gnncal.files.output import check_file


def export(
    calibrator: CalibratorFile,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="onnx|torch",
            help="Format of the file. Default: what the ending of --out says, .onnx or .pt2.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", help="File to write. Default: CALIBRATOR with another ending."),
    ] = None,
    overwrite: OverwriteFile = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write a saved calibrator as an ONNX model or a torch.export program.

    The inputs are float32 logits and, for methods that use the graph, an int64 edge_index. The
    output is the probabilities. Any number of nodes and edges will do.
    """
    require("torch", extra="neural", purpose="gnncal export")
    from gnncal.files.saved_calibrators import load
    from gnncal.torch import export as write
    from gnncal.torch.export import SUFFIXES, format_of

    if to is not None and to not in SUFFIXES:
        raise InputError(f"--to is {to!r}; expected {' or '.join(SUFFIXES)}.")
    if file is not None:
        target = file
    elif to is not None:
        target = calibrator.with_suffix(SUFFIXES[to])
    else:
        raise InputError("say what to write: --to onnx, --to torch or --out FILE.onnx or FILE.pt2.")
    format = format_of(target, to)
    fitted = load(calibrator)
    module = fitted.to_torch()
    metadata = module.metadata
    check_file(target, inputs=[calibrator], overwrite=overwrite)
    with err.status(f"exporting {calibrator.name}"):
        written = write(module, target, format=format, overwrite=overwrite)
    if json:
        print_json({**metadata, "file": str(target), "inputs": written.inputs})
        return
    inputs, name = ", ".join(written.inputs), metadata["calibrator"]
    say = console_beside(target)
    say.print(f"{name}: ({inputs}) -> probabilities, {metadata['n_classes']} classes")
    if written.difference is not None:
        say.print(f"checked on other graphs: differs by at most {written.difference:.1e}")
    say.print(f"written to {target}", soft_wrap=True)
