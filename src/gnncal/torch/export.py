"""Calibrator modules as files that run without gnncal: ``torch.export`` programs and ONNX."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnncal.data.errors import InputError, require
from gnncal.files.output import check_file, write_file
from gnncal.graph.checks import ENTITIES
from gnncal.torch.module import CalibratorModule

Format = Literal["onnx", "torch"]
Run = Callable[[tuple[Tensor, ...]], Any]  # an exported program: inputs in, an array out
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
VARYING = {  # the inputs of a program, and which of their sizes may vary
    "logits": {0: torch.export.Dim("n_nodes")},
    "edge_index": {1: torch.export.Dim("n_edges")},
}
METADATA = "gnncal.json"  # the extra file of a torch program, and the key in an ONNX model
LARGEST_DIFFERENCE = 1e-5  # between a module and its file, on graphs it was not traced with
# Graphs to check a file on, and how often. Sums that race between threads differ where many edges
# lead to few nodes; below a few hundred thousand edges, and in single runs, a race may not show.
CHECKS = ((31, 97, 1), (1_000, 1_000_000, 4))


class Export(NamedTuple):
    """An exported file and its inputs."""

    path: Path
    inputs: tuple[str, ...]  # their names, in order
    difference: float | None  # the largest one from the module on other graphs, if the file was run


def export(module: CalibratorModule, path: str | Path, *, overwrite: bool = False) -> Export:
    """Export a calibrator module to ONNX or to a ``torch.export`` program.

    The numbers of nodes and edges may vary. Before the file is written, the program is run on two
    graphs; a difference above 1e-5 from the module is an error. For ONNX, this check needs
    onnxruntime. A calibrator that was fitted on shared entities (``EntityGraph``) is refused,
    because the file takes edges.

    Parameters
    ----------
    module : CalibratorModule
        The result of ``calibrator.to_torch()``.
    path : str or Path
        The file to write, with the extension ``.onnx``, or ``.pt2`` for ``torch.export.load``.
    overwrite : bool, default=False
        Replace an existing file.

    Returns
    -------
    Export
        The ``path``, names of the ``inputs``, and the largest ``difference``, None if unchecked.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.torch import export
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> calibrator = gnncal.calibrators.TemperatureScaling().fit(logits, labels)
    >>> export(calibrator.to_torch(), "ts.pt2").inputs
    ('logits',)

    """
    if not isinstance(module, CalibratorModule):
        raise InputError(
            f"module is a {type(module).__name__}; pass the module of a fitted calibrator, "
            "calibrator.to_torch() (of a CalibratedModel, its calibrator)."
        )
    if module.hops and module.graph_kind == ENTITIES:
        raise InputError(
            f"{module.name} was fitted on shared entities and an exported file takes edges between "
            "nodes; call the module with the EntityGraph, or fit on edges to export it."
        )
    place = Path(path)
    check_file(place, overwrite=overwrite)
    write = _onnx_model if format_of(place) == "onnx" else _torch_program
    varying = {name: VARYING[name] for name in VARYING if module.hops or name == "logits"}
    content, difference = write(module, varying, json.dumps(module.metadata))
    write_file(place, content, overwrite=overwrite)
    return Export(place, tuple(varying), difference)


def format_of(path: Path) -> Format:
    """Return the format that the ending of a file says."""
    found = {suffix: format for format, suffix in SUFFIXES.items()}.get(path.suffix.lower())
    if found is None:
        raise InputError(
            f"the extension of {path.name} is not a format; use .onnx or .pt2, as in "
            f"{path.name}.onnx."
        )
    return found


def _example(module: CalibratorModule, n_nodes: int = 24, n_edges: int = 60) -> tuple[Tensor, ...]:
    """Return logits in float32 and, where the module looks at neighbours, edges."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(n_nodes, module.n_classes, generator=generator)
    edge_index = torch.randint(n_nodes, (2, n_edges), generator=generator)
    return (logits, edge_index) if module.hops else (logits,)


def _torch_program(
    module: CalibratorModule, varying: dict[str, Any], metadata: str
) -> tuple[bytes, float | None]:
    program = torch.export.export(module, _example(module), dynamic_shapes=varying)
    run = program.module()
    difference = _largest_difference(module, lambda inputs: run(*inputs).numpy())
    content = BytesIO()
    torch.export.save(program, content, extra_files={METADATA: metadata})
    return content.getvalue(), difference


def _onnx_model(
    module: CalibratorModule, varying: dict[str, Any], metadata: str
) -> tuple[bytes, float | None]:
    for package in ("onnx", "onnxscript"):
        require(package, extra="onnx", purpose="an ONNX file")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # messages about packages that are not needed
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                module,
                _example(module),
                dynamo=True,
                dynamic_shapes=varying,
                input_names=list(varying),
                output_names=["probabilities"],
                verbose=False,
            )
    finally:
        logging.disable(before)
    program.model.metadata_props["gnncal"] = metadata
    with TemporaryDirectory(prefix="gnncal-") as place:
        temporary = Path(place) / "model.onnx"
        program.save(temporary)
        run = _onnxruntime(temporary, list(varying))
        difference = None if run is None else _largest_difference(module, run)
        return temporary.read_bytes(), difference


def _onnxruntime(path: Path, names: list[str]) -> Run | None:
    """Return what runs a file, with as many threads as by default; None without onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: tuple[Tensor, ...]) -> Any:
        return session.run(None, dict(zip(names, map(Tensor.numpy, inputs), strict=True)))[0]

    return run


def _largest_difference(module: CalibratorModule, run: Run) -> float:
    """Return the largest difference from the module; raise an error if it is not rounding."""
    differences = []
    for n_nodes, n_edges, times in CHECKS:
        inputs = _example(module, n_nodes, n_edges)
        with torch.no_grad():
            expected = module(*inputs).numpy()
        differences += [np.abs(run(inputs) - expected).max() for _ in range(times)]
        worst = float(np.max(differences))  # NaN if one of them is
        if not worst <= LARGEST_DIFFERENCE:
            raise InputError(
                f"the exported program differs from the module by {worst:.2g} on a graph of "
                f"{n_nodes:,} nodes and {n_edges:,} edges, so it was not written; try another "
                "version of torch or onnxruntime."
            )
    return worst
