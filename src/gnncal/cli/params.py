"""Arguments that several verbs have: files, and the calibrator as it is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from gnncal.calibration import choose_calibrator
from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError

T = TypeVar("T")
Number = float | None
Text = str | None
Texts = list[str] | None
File = Path | None
INPUT_HELP = ".npz file, or folder of Parquet files."
PYTHON_WORDS = {"True": True, "False": False, "None": None}


def option(help: str, *names: str, default: str = "", **shown: Any) -> Any:
    """Return an option with its help first; ``default`` says what an absent value means."""
    return typer.Option(*names, help=f"{help}  [default: {default}]" if default else help, **shown)


def several(help: str, metavar: str, *names: str) -> Any:
    """Return an option that may be given several times."""
    return typer.Option(*names, help=f"{help} May be given several times.", metavar=metavar)


def argument(metavar: str, help: str) -> Any:
    """Return an argument of the command line."""
    return typer.Argument(metavar=metavar, help=help)


Input = Annotated[Path, argument("INPUT", INPUT_HELP)]
NewInput = Annotated[Path, argument("NEW", INPUT_HELP)]
CalibratorFile = Annotated[Path, argument("CALIBRATOR", "File written by calibrate or save().")]
Only = Annotated[
    Text,
    option(
        "Rows to use: a boolean column of the input, or a file with one id per line. All other "
        "rows serve only as neighbours.",
        metavar="COLUMN|FILE",
        default="all rows",
    ),
]
OutFolder = Annotated[Path, option("Folder for the results.", "--out")]
Page = Annotated[File, option("HTML page to write.")]
Overwrite = Annotated[bool, option("Also replace results of other commands.", "--overwrite")]
OverwriteFile = Annotated[
    bool, option("Replace the file even if gnncal did not write it.", "--overwrite")
]
SummaryAsJson = Annotated[bool, option("Print the result as JSON.", "--json")]
Method = Annotated[
    Text, option("Calibrator to fit; `gnncal methods` lists all.", default="structural")
]
Parameters = Annotated[
    Texts, several("Parameter of the method, such as epsilon=0.1.", "NAME=VALUE", "--param")
]
KeepPredictions = Annotated[
    bool | None,
    option(
        "Keep the predicted class of every node, or let calibration change it.",
        "--keep-predictions/--free",
        default="keep-predictions",
    ),
]
Positive = Annotated[Text, option("The class of interest, by name or number.", metavar="CLASS")]
PositiveOfFit = Annotated[
    Text,
    option(
        "The class of interest, by name or number.",
        metavar="CLASS",
        default="that of the calibrator, if it has one",
    ),
]
Tolerance = Annotated[
    Number,
    option(
        "Largest calibration error to act on, such as 0.05; the verdict says that you can act only "
        "if the whole 95% interval lies below it.",
        default="0.03, or two noise floors up to 0.06",
    ),
]
SavedCalibrator = Annotated[
    File, option("Use this saved calibrator instead of fitting one.", metavar="FILE")
]
PolicyFile = Annotated[
    File, option("Policy file of decide; adds an action for each node.", metavar="FILE")
]


def chosen_calibrator(
    method: str | None,
    keep_predictions: bool | None,
    given: Sequence[str] | None,
    *,
    one_class: bool = False,
) -> Calibrator:
    """Return the calibrator that is asked for; the default is free for ``one_class``."""
    params = parse_params(given)
    if keep_predictions is not None and "keep_predictions" in params:
        raise InputError(
            "--keep-predictions or --free is given, and --param keep_predictions too; pass one."
        )
    params = {"keep_predictions": keep_predictions, **params}
    return choose_calibrator(method, positive=one_class, **params)


def parse_params(given: Sequence[str] | None) -> dict[str, Any]:
    """Return parameters by name; a value is JSON, True, False, None, or else text."""
    pattern, expected = r"([^\W\d][\w-]*)\s*=(.*)", "name=value, such as epsilon=0.1"
    pairs = read_pairs(given, "--param", pattern, expected, _parse_value)
    return {name.replace("-", "_"): value for name, value in pairs.items()}


def read_pairs(
    given: Sequence[str] | None, option: str, pattern: str, expected: str, read: Callable[[str], T]
) -> dict[str, T]:
    """Return values by name from texts of a pattern, such as ``name=value``."""
    pairs: dict[str, T] = {}
    for entry in given or ():
        match = re.fullmatch(pattern, entry.strip(), re.DOTALL)
        try:
            name, value = match[1].strip(), read(match[2].strip())  # type: ignore[index]
        except (TypeError, ValueError):
            raise InputError(f"{option} is {entry!r}; expected {expected}.") from None
        if name in pairs:
            raise InputError(f"{option} {name} is given twice; give it once.")
        pairs[name] = value
    return pairs


def _parse_value(text: str) -> Any:
    if text in PYTHON_WORDS:
        return PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
