"""Arguments that several verbs have: files, and the calibrator as it is asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gnncal.calibration import choose_calibrator
from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError

INPUT_HELP = ".npz file, or folder of Parquet files."
Input = Annotated[Path, typer.Argument(metavar="INPUT", help=INPUT_HELP)]
NewInput = Annotated[Path, typer.Argument(metavar="NEW", help=INPUT_HELP)]
CalibratorFile = Annotated[
    Path, typer.Argument(metavar="CALIBRATOR", help="File written by calibrate or save().")
]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder for the results.")]
Page = Annotated[Path | None, typer.Option(help="HTML file to write, for a person on call.")]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace the result of another command of gnncal."),
]
OverwriteFile = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file, whoever wrote it.")
]
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Method = Annotated[
    str | None,
    typer.Option(
        help="Another calibrator; `gnncal methods` lists them.", show_default="structural"
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="Parameter of the method, such as epsilon=0.1. May be given several times.",
    ),
]
KeepPredictions = Annotated[
    bool | None,
    typer.Option(
        "--keep-predictions/--free",
        help="Keep the predicted class of every node, or let the calibrator correct the model.",
        show_default="keep-predictions",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="The class that matters, by name or number: judge its probability too.",
        show_default=False,
    ),
]
PYTHON_WORDS = {"True": True, "False": False, "None": None}


def chosen_calibrator(
    method: str | None,
    keep_predictions: bool | None,
    given: Sequence[str] | None,
    *,
    one_class: bool = False,
) -> Calibrator:
    """Return the calibrator that is asked for; the default is free with ``one_class`` in view."""
    params = parse_params(given or [])
    if keep_predictions is not None and "keep_predictions" in params:
        raise InputError(
            "--keep-predictions and --free say what --param keep_predictions says; give one of "
            "the two."
        )
    answer = {"keep_predictions": keep_predictions}
    return choose_calibrator(method or None, positive=one_class, **(answer | params))


def parse_params(given: Sequence[str]) -> dict[str, Any]:
    """Return parameters by name; a value is JSON, True, False, None, or else text."""
    params: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise InputError(f"--param is {entry!r}; expected name=value, such as epsilon=0.1.")
        if name in params:
            raise InputError(f"--param {name} is given twice; give it once.")
        params[name] = _parse_value(value.strip())
    return params


def _parse_value(text: str) -> Any:
    if text in PYTHON_WORDS:
        return PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
