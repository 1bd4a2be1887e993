"""Calibrator modules as files that run without gnncal: ``torch.export`` programs and ONNX."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from gnncal.core.constraints import choice
from gnncal.core.errors import InputError, require
from gnncal.files.atomic import write_atomically
from gnncal.torch.module import CalibratorModule

Format = Literal["onnx", "torch"]
FORMATS = choice("onnx", "torch")
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
METADATA = "gnncal.json"  # the extra file of a torch program, and the key in an ONNX model
LARGEST_DIFFERENCE = 1e-5  # between a module and its file, on a graph it was not traced with


@dataclass(frozen=True)
class Export:
    """A file that was written, and what it takes.

    Attributes
    ----------
    path : Path
        The file.
    format : {"onnx", "torch"}
        Its format.
    inputs : tuple of str
        Names of the inputs, in order.
    difference : float or None
        Largest difference to the module on another graph; None if the file was not run.

    """

    path: Path
    format: Format
    inputs: tuple[str, ...]
    difference: float | None


def export(
    module: CalibratorModule,
    path: str | Path,
    *,
    format: Format = "onnx",
    metadata: dict[str, Any] | None = None,
) -> Export:
    """Write a calibrator module to a file for any number of nodes and edges.

    Parameters
    ----------
    module : CalibratorModule
        What ``calibrator.to_torch()`` gives.
    path : str or Path
        The file to write, usually ``.onnx`` or ``.pt2``. It appears whole or not at all.
    format : {"onnx", "torch"}, default="onnx"
        ``"torch"`` is a program that ``torch.export.load`` reads.
    metadata : dict, optional
        Plain values that are kept in the file.

    Returns
    -------
    Export
        What was written: the file, the format and the names of the inputs.

    Raises
    ------
    InputError
        If there is no such format, or the module cannot be exported.
    MissingExtraError
        If the packages for ONNX are not installed.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.torch import export
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> calibrator = gnncal.TemperatureScaling().fit(logits, labels)
    >>> export(calibrator.to_torch(), "ts.pt2", format="torch").inputs
    ('logits',)

    """
    FORMATS.check("format", format)
    place = Path(path)
    if place.is_dir():
        raise InputError(
            f"{place} is a folder; pass the file to write, such as {place}/model.onnx."
        )
    write = _write_onnx if format == "onnx" else _write_torch
    example = Example.of(module, n_nodes=24, n_edges=60)
    difference = write(module, example, place, json.dumps(metadata or {}))
    return Export(place, format, tuple(example.names), difference)


@dataclass(frozen=True)
class Example:
    """Inputs to trace a module with, and which of their sizes may vary."""

    inputs: tuple[Tensor, ...]
    names: list[str]
    dynamic: tuple[dict[int, Any], ...]

    @classmethod
    def of(cls, module: CalibratorModule, *, n_nodes: int, n_edges: int) -> Example:
        """Logits in float32 and, where the module looks at neighbours, edges."""
        generator = torch.Generator().manual_seed(0)
        logits = 3 * torch.randn(n_nodes, module.n_classes, generator=generator)
        nodes, edges = torch.export.Dim("n_nodes"), torch.export.Dim("n_edges")
        if module.hops == 0:
            return cls((logits,), ["logits"], ({0: nodes},))
        edge_index = torch.randint(n_nodes, (2, n_edges), generator=generator)
        return cls((logits, edge_index), ["logits", "edge_index"], ({0: nodes}, {1: edges}))


def _write_torch(
    module: CalibratorModule, example: Example, path: Path, metadata: str
) -> float | None:
    program = torch.export.export(module, example.inputs, dynamic_shapes=example.dynamic)
    other = Example.of(module, n_nodes=31, n_edges=97)
    difference = _difference(module, other, program.module()(*other.inputs).numpy())
    content = BytesIO()
    torch.export.save(program, content, extra_files={METADATA: metadata})
    write_atomically(path, content.getvalue())
    return difference


def _write_onnx(
    module: CalibratorModule, example: Example, path: Path, metadata: str
) -> float | None:
    for package in ("onnx", "onnxscript"):
        require(package, extra="onnx", purpose="an ONNX file")
    with _quiet():
        program = torch.onnx.export(
            module,
            example.inputs,
            dynamo=True,
            dynamic_shapes=example.dynamic,
            input_names=example.names,
            output_names=["probabilities"],
            verbose=False,
        )
    program.model.metadata_props["gnncal"] = metadata
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid4().hex}.onnx")
    try:
        program.save(temporary)
        other = Example.of(module, n_nodes=31, n_edges=97)
        found = _run_onnx(temporary, other)
        difference = None if found is None else _difference(module, other, found)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return difference


def _run_onnx(path: Path, example: Example) -> Any:
    """Return what onnxruntime makes of an example; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    values = (tensor.numpy() for tensor in example.inputs)
    return session.run(None, dict(zip(example.names, values, strict=True)))[0]


def _difference(module: CalibratorModule, example: Example, found: Any) -> float:
    """Return the largest difference from the module; raise an error if it is not rounding."""
    with torch.no_grad():
        expected = module(*example.inputs).numpy()
    difference = float(np.abs(found - expected).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise InputError(
            f"the exported program differs from the module by {difference:.2g}, so it was not "
            "written; try another version of torch or onnxruntime."
        )
    return difference


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's messages about packages that are not needed."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
