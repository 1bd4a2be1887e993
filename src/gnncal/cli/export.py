"""``gnncal export``: write a saved calibrator as a file that runs without gnncal."""

from __future__ import annotations

from typing import Annotated

from gnncal.cli import params
from gnncal.cli.params import File, Text, option
from gnncal.cli.terminal import err, print_result
from gnncal.data.errors import InputError, require
from gnncal.files.output import check_file
from gnncal.files.saved_calibrators import load

require("torch", extra="neural", purpose="gnncal export")
from gnncal.torch import export as write  # noqa: E402  (the line above says what is missing)
from gnncal.torch.export import SUFFIXES, format_of  # noqa: E402


def export(
    calibrator: params.CalibratorFile,
    to: Annotated[
        Text,
        option(
            "Format of the file. Default: by the ending of --out, .onnx or .pt2.",
            metavar="onnx|torch",
        ),
    ] = None,
    file: Annotated[
        File, option("File to write. Default: CALIBRATOR with another ending.", "--out")
    ] = None,
    overwrite: params.OverwriteFile = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Export a calibrator.

    The inputs are float32 logits and, for methods that use the graph, an int64 edge_index. The
    output is the probabilities. Any number of nodes and edges will do.
    """
    if to is not None and to not in SUFFIXES:
        raise InputError(f"--to is {to!r}; expected {' or '.join(SUFFIXES)}.")
    if file is None:
        if to is None:
            raise InputError("say what to write: --to onnx, --to torch or --out FILE.onnx or .pt2.")
        file = calibrator.with_suffix(SUFFIXES[to])
    target = file
    check_file(target, inputs=[calibrator], overwrite=overwrite)
    if to is not None and target.suffix.lower() != SUFFIXES[to]:
        right = target.with_suffix(SUFFIXES[to]).name
        raise InputError(f"{target.name} ends unlike a file of --to {to}; write to {right}.")
    format_of(target)
    module = load(calibrator).to_torch()
    metadata = module.metadata
    with err.status(f"exporting {calibrator.name}"):
        written = write(module, target, overwrite=overwrite)
    inputs, name = ", ".join(written.inputs), metadata["calibrator"]
    text = f"{name}: ({inputs}) -> probabilities, {metadata['n_classes']} classes"
    if written.difference is not None:
        text += f"\nchecked on other graphs: differs by at most {written.difference:.1e}"
    document = {**metadata, "file": str(target), "inputs": written.inputs}
    print_result(text, document, as_json=json, page=target)
