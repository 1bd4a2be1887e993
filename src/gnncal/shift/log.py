"""The log of a watch: a line for each node whose label has come, only ever appended to.

CSV with a header, or JSON objects, one a line (``.jsonl``). The columns are those of the files that
``gnncal apply`` and ``gnncal decide`` write, and the label:

* ``label``: the class, by name or number; by name alone where names are numbers, such as ratings.
  Lines without one are skipped.
* ``p0``, ``p1``, ...: the probabilities that were predicted; or ``prediction`` and ``confidence``,
  and ``probability``, that of the positive class, if it is watched.
* ``action`` (act, clear, review) and ``decide`` (true, false), where these guarantees are watched.

Other columns are ignored. An entry ends with its line. A last line that is still being written is
left for the next time.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gnncal.data.checks import ROW_SUM_TOLERANCE
from gnncal.data.constraints import TEXT, check_learned, integer
from gnncal.data.errors import InputError, require, short_repr
from gnncal.shift.watch import ACTIONS, Watch, add_checked

CHUNK = 1 << 20
JSON_LINES = (".jsonl", ".ndjson")
LISTED = 10  # names of classes that a message lists
FLAGS = {"true": True, "1": True, "false": False, "0": False}
LOGGED = re.compile(r"p\d+|prediction|confidence|probability|action|decide")  # beside id and label
POSITION = {"bytes": integer(at_least=0), "lines": integer(at_least=0), "digest": TEXT}
START_OF_LOG = {"bytes": 0, "lines": 0, "digest": sha256().hexdigest()}


@dataclass(frozen=True)
class LogReading:
    """What was read of a log: how many labels were taken in, and where the next reading begins."""

    n_new: int
    n_without_label: int
    position: dict[str, Any]


def read_log(path: Path, watch: Watch, position: Mapping[str, Any] | None = None) -> LogReading:
    """Let a watch take in the lines that were appended since; a line is never counted twice."""
    begun: Mapping[str, Any] = START_OF_LOG if position is None else position
    check_learned(POSITION, begun, {}, where="the position in the log")
    lines, reached = _new_lines(path, begun)
    read = _json_rows if path.suffix in JSON_LINES else _csv_rows
    taken, without = [], 0
    for place, row in read(path, lines, begun["lines"]):
        if row.get("label") in (None, ""):
            without += 1
        else:
            taken.append(_outcome(place, row, watch))
    if taken:
        confidence, predictions, labels, positive, actions, decided = zip(*taken, strict=True)
        add_checked(
            watch,
            np.array(confidence, dtype=np.float64),
            np.array(predictions),
            np.array(labels),
            None if watch.positive is None else np.array(positive, dtype=np.float64),
            np.array(actions) if {"act", "clear"} & set(watch.guarantees) else None,
            np.array(decided, dtype=bool) if "decide" in watch.guarantees else None,
        )
    return LogReading(len(taken), without, reached)


def append_labels(log: Path, scores: Path, labels: Path) -> tuple[int, int]:
    """Append to a CSV log the scored nodes whose label has come, each once; a new log is made.

    The tables are CSV or Parquet with a column ``id``: the scores as ``gnncal apply`` and ``gnncal
    decide`` write them, or their ``.npz``, and the labels with ``label``. Return the number of new
    lines, and of labels without a score.
    """
    if log.suffix in JSON_LINES:
        raise InputError(f"{log} has the ending of JSON lines; labels are appended to a CSV log.")
    came = {row["id"]: row["label"] for row in _rows_by_id(labels, "label") if row["label"]}
    scored = {row["id"]: row for row in _rows_by_id(scores) if row["id"] in came}
    columns = [name for name in next(iter(scored.values()), {}) if LOGGED.fullmatch(name)]
    columns, known, is_new = ["id", *columns, "label"], set(), not log.exists()
    if not is_new:
        written = log.read_text(encoding="utf-8-sig")
        if not written.endswith("\n"):
            raise InputError(f"{log} ends within a line; let its writer finish, then try again.")
        rows = csv.DictReader(written.splitlines())
        columns = list(rows.fieldnames or columns)
        if not {"id", "label"} <= set(columns):
            raise InputError(f"{log} has the columns {short_repr(columns)}; expected id and label.")
        known = {row["id"] for row in rows}
    new = [name for name in came if name in scored and name not in known]
    if new:
        with log.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerows(scored[name] | {"label": came[name]} for name in new)
    return len(new), sum(name not in scored for name in came)


def _rows_by_id(path: Path, *needed: str) -> Iterator[dict[str, Any]]:
    """Return the rows of a table, their entries as text."""
    if not path.is_file():
        raise InputError(f"there is no file {path}; pass a table in CSV, Parquet or .npz.")
    try:
        if path.suffix == ".parquet":
            parquet = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
            rows = parquet.read_table(path).to_pylist()
        elif path.suffix == ".npz":
            rows = _rows_of_npz(path)
        else:
            rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (ValueError, KeyError, BadZipFile, csv.Error) as error:
        raise InputError(f"{path} is not a table in CSV, Parquet or .npz ({error}).") from error
    for row in rows:
        if not {"id", *needed} <= set(row):
            wanted = " and ".join(["id", *needed])
            raise InputError(f"{path} has the columns {short_repr(list(row))}; expected {wanted}.")
        yield {name: "" if value is None else str(value) for name, value in row.items()}


def _rows_of_npz(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of probabilities or decisions."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    n_nodes = len(arrays["prediction"])
    columns = {"id": arrays.get("node_ids", np.arange(n_nodes))}
    columns |= {name: each for name, each in arrays.items() if LOGGED.fullmatch(name)}
    columns |= {f"p{k}": each for k, each in enumerate(arrays.get("probs", np.empty((0, 0))).T)}
    rows = zip(*(each.tolist() for each in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _new_lines(path: Path, begun: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the header and the whole lines that are new, and how far they reach."""
    if not path.exists() and not begun["bytes"]:  # the first night: no label has come yet
        return [], dict(begun)
    if not path.is_file():
        raise InputError(f"there is no file {path}, which was read before; pass the log.")
    digest, left, n_lines, last = sha256(), begun["bytes"], 0, b"\n"
    with path.open("rb") as file:
        header = file.readline() if left else b""
        file.seek(0)
        while left and (chunk := file.read(min(CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
            n_lines, last = n_lines + chunk.count(b"\n"), chunk[-1:]
        read_before = (digest.hexdigest(), n_lines, b"\n")
        if left or read_before != (begun["digest"], begun["lines"], last):
            raise InputError(
                f"the first lines of {path} are not those that were read before; a log is only "
                "appended to. If it is another log, pass another --state."
            )
        rest = file.read()
    whole = rest[: rest.rfind(b"\n") + 1]
    digest.update(whole)
    try:
        text = (header + whole).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; write it as CSV or JSON lines.") from error
    reached = {
        "bytes": begun["bytes"] + len(whole),
        "lines": begun["lines"] + whole.count(b"\n"),
        "digest": digest.hexdigest(),
    }
    return [line.rstrip("\r") for line in text.split("\n")[:-1]], reached


def _csv_rows(path: Path, lines: list[str], before: int) -> Iterator[tuple[str, dict[str, Any]]]:
    if not lines:
        return
    names = [name.strip() for name in _entries(f"{path}, line 1", lines[0])]
    if "label" not in names:
        raise InputError(
            f"{path} has the columns {short_repr(names)} but no label; its first line names the "
            "columns, and label is one of them."
        )
    for number, line in enumerate(lines[1:], max(before, 1) + 1):
        place = f"{path}, line {number}"
        values = [value.strip() for value in _entries(place, line)]
        if values and len(values) != len(names):
            raise InputError(f"{place} has {len(values)} entries for {len(names)} columns.")
        if values:
            yield place, dict(zip(names, values, strict=True))


def _entries(place: str, line: str) -> list[str]:
    """Return the entries of one line: no quote reaches beyond it, or it would swallow labels."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise InputError(
            f"{place} is not CSV ({error}); close each quote in its line, and keep entries "
            f"below {csv.field_size_limit():,} characters."
        ) from error


def _json_rows(path: Path, lines: list[str], before: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(lines[1:] if before else lines, before + 1):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{place} is not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise InputError(f"{place} is {short_repr(row)}; expected an object with a label.")
        yield place, row


def _outcome(place: str, row: dict[str, Any], watch: Watch) -> tuple[Any, ...]:
    """Return confidence, prediction, label, probability of the positive class, action, decided."""
    label = _class_of(place, "label", row, watch)
    if "p0" in row:
        probs = [_probability(place, f"p{c}", row) for c in range(watch.n_classes)]
        if abs(sum(probs) - 1.0) > ROW_SUM_TOLERANCE:
            raise InputError(f"{place}: p0, p1, ... sum to {sum(probs):.4g}; expected one.")
        prediction = int(np.argmax(probs))
        confidence = probs[prediction]
        positive = None if watch.positive is None else probs[watch.positive]
    else:
        prediction = _class_of(place, "prediction", row, watch)
        confidence, positive = _probability(place, "confidence", row), None
        if watch.positive is not None and "probability" in row:
            positive = _probability(place, "probability", row)
        elif watch.positive is not None and watch.n_classes == 2:
            positive = confidence if prediction == watch.positive else 1.0 - confidence
        elif watch.positive is not None:
            raise InputError(
                f"{place} has neither p0, p1, ... nor probability, so that of the positive class "
                "is not known; write one of them too."
            )
    action = decided = None
    if {"act", "clear"} & set(watch.guarantees):
        action = row.get("action")
        if action not in (*ACTIONS, ""):
            raise InputError(
                f"{place}: action is {short_repr(action)}; expected {', '.join(ACTIONS)}."
            )
    if "decide" in watch.guarantees:
        word = str(row.get("decide")).lower()
        if word not in FLAGS:
            raise InputError(f"{place}: decide is {short_repr(word)}; expected true or false.")
        decided = FLAGS[word]
    return confidence, prediction, label, positive, action, decided


def _probability(place: str, name: str, row: dict[str, Any]) -> float:
    try:
        value = float(row[name])
    except (KeyError, OverflowError, TypeError, ValueError):
        value = float("nan")
    if not 0.0 <= value <= 1.0:
        came = f"{name} is {short_repr(row[name])}" if name in row else f"there is no {name}"
        raise InputError(f"{place}: {came}; expected a probability.")
    return value


def _class_of(place: str, column: str, row: dict[str, Any], watch: Watch) -> int:
    """Return the number of a class that a line names, or numbers."""
    value, names = row.get(column), watch.class_names or []
    number = _whole_number(value)
    name = value if number is None or value in names else str(number)
    named = names.index(name) if name in names else None
    numbered = number if number in range(watch.n_classes) else None
    are_numbers = any(known.isdecimal() for known in names)
    if column == "label" and are_numbers:
        numbered = None
    if column != "label" and named is not None and numbered not in (None, named):
        raise InputError(
            f"{place}: {column} is {short_repr(value)}, the name of class {named} and the number "
            "of another; write the probabilities p0, p1, ... instead."
        )
    found = numbered if named is None else named
    if found is None:
        known = ", ".join([*names[:LISTED], *(["..."] if len(names) > LISTED else [])])
        numbers = [] if are_numbers else [f"a number 0..{watch.n_classes - 1}"]
        expected = ", or ".join([*([known] if names else []), *numbers])
        raise InputError(f"{place}: {column} is {short_repr(value)}; expected {expected}.")
    return found


def _whole_number(value: Any) -> int | None:
    """Return the whole number that a value is or spells, such as 1, "1" or "1.0"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        number = float(value) if isinstance(value, str | float) else float("nan")
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
