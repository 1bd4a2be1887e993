"""``gnncal export``: write a saved calibrator as a file that runs without gnncal."""

from __future__ import annotations

from typing import Annotated

from gnncal.cli import params
from gnncal.cli.params import File, Text, option
from gnncal.cli.terminal import err, print_result
from gnncal.data.constraints import one_of
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
            "Format of the file. Default: that of --out's extension; onnx if --out is not given.",
            metavar="onnx|torch",
        ),
    ] = None,
    file: Annotated[
        File, option("File to write, .onnx or .pt2. Default: next to CALIBRATOR.", "--out")
    ] = None,
    overwrite: params.OverwriteFile = False,
    json: params.SummaryAsJson = False,
) -> None:
    """Export a calibrator.

    The inputs are float32 logits and, for methods that use the graph, an int64 edge_index. The
    output is the probabilities. The numbers of nodes and edges may vary.
    """
    one_of(*SUFFIXES).check("--to", to or "onnx")
    target = file or calibrator.with_suffix(".pt2" if to == "torch" else ".onnx")
    check_file(target, inputs=[calibrator], overwrite=overwrite)
    if to not in (None, format_of(target)):
        raise InputError(f"{target.name} is not a file of --to {to}; leave one of the two out.")
    module = load(calibrator).to_torch()
    metadata = module.metadata
    with err.status("exporting the calibrator"):
        written = write(module, target, overwrite=overwrite)
    inputs, name = ", ".join(written.inputs), metadata["calibrator"]
    text = f"{name}: ({inputs}) -> probabilities, {metadata['n_classes']} classes"
    if written.difference is not None:
        text += f"\nchecked on other graphs: differs by at most {written.difference:.1e}"
    document = {**metadata, "file": str(target), "inputs": written.inputs}
    print_result(text, document, as_json=json, written=target)
