"""The log of a watch: a CSV line for each node whose label has come, only ever appended to.

The columns are those of the files that ``gnncal apply`` and ``gnncal decide`` write, and the label:

* ``label``: the class, by name or number; by name alone where names are numbers, such as ratings.
  Lines without one are skipped.
* ``p0``, ``p1``, ...: the probabilities that were predicted; or ``prediction``, a number, and
  ``confidence``, and ``probability``, that of the positive class, if it is watched.
* ``action`` (act, clear, decide, review), where guarantees are watched.

Other columns are ignored. An entry ends with its line. A last line that is still being written is
left for the next time.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from scipy.stats import binom

from gnncal.data.checks import ROW_SUM_TOLERANCE, class_label
from gnncal.data.errors import InputError, require, short_repr, warn
from gnncal.shift.watch import ACTIONS, Watch, add_checked

LISTED = 10  # classes that a message lists
LOGGED = re.compile(r"p\d+|prediction|confidence|probability|action")  # next to id and label
DATE = "date"  # the column of the scores' dates, unless another is named
AGE = re.compile(r"(\d+)([dh])")
FIRST_LABELS = 50  # of a watch, whose classes are compared with what was predicted
NEARLY_ALL, FEWEST = 0.9, 3  # share and number of labels of one class
UNLIKELY = 1e-4  # a chance, over all classes, of so many labels of one class


@dataclass(frozen=True)
class LogReading:
    """What was read of a log: how many labels were taken in, and where the next reading begins."""

    n_new: int
    n_without_label: int
    position: Mapping[str, Any]


def read_log(path: Path, watch: Watch, position: Mapping[str, Any] | None = None) -> LogReading:
    """Let a watch take in the lines that were appended since; a line is never counted twice."""
    rows, reached = _new_rows(path, position or {}, watch)
    classes = _labels(watch)
    taken = [_outcome(place, row, watch, classes) for place, row in rows if row["label"]]
    if taken:
        columns = [np.array(column) for column in zip(*taken, strict=True)]
        confidence, predictions, labels, probability, actions = columns
        positive = None if watch.positive is None else probability
        n_before = watch.claims["confidence"].n_labels
        _warn_of_early_class(path, watch, taken[: max(FIRST_LABELS - n_before, 0)])
        add_checked(watch, confidence, predictions, labels, positive, actions)
    return LogReading(len(taken), len(rows) - len(taken), reached)


class Appended(NamedTuple):
    """How many lines a log got, and how many labels wait: without a score, or with a young one."""

    n_new: int
    n_unscored: int
    n_young: int


def append_labels(
    log: Path,
    scores: Path,
    labels: Path,
    *,
    mature_after: timedelta | None = None,
    date: str = DATE,
) -> Appended:
    """Append scored nodes whose label has come, each once, in the order of the scores.

    The order of the labels would tell their classes where one class is known earlier. For the same
    reason a row may have to reach an age first, whatever its label. Its age is measured from the
    newest date of the scores, so that the same files always give the same log.
    """
    check_log(log)
    came = {row["id"]: row["label"] for row in _rows_by_id(labels, "label") if row["label"]}
    every = list(_rows_by_id(scores, *([] if mature_after is None else [date]), keeps=date))
    scored = {row["id"]: row for row in every if row["id"] in came}
    young = set() if mature_after is None else _young(scores, every, date, mature_after)
    columns = [name for name in next(iter(scored.values()), {}) if LOGGED.fullmatch(name)]
    columns, known, is_new = ["id", *columns, "label"], set(), not log.exists()
    if not is_new:
        written = log.read_text(encoding="utf-8-sig")
        if not written.endswith("\n"):
            raise InputError(f"{log} ends within a line; let its writer finish, then try again.")
        columns = next(csv.reader([written.partition("\n")[0]]))
        known = {row["id"] for row in _rows_by_id(log, "label")}
    waiting = [name for name in scored if name not in known]
    new = [name for name in waiting if name not in young]
    if new:
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(scored[name] | {"label": came[name]} for name in new)
        _append(log, text.getvalue().encode())
    unscored = sum(name not in scored for name in came)
    return Appended(len(new), unscored, len(waiting) - len(new))


def check_log(path: Path) -> None:
    """Refuse a folder, or a pipe from which lines could be read only once."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{path} is {what}; pass the log as a CSV file.")


def age_of(text: str) -> timedelta:
    """Return the age that a text such as 30d or 12h means."""
    match = AGE.fullmatch(text.strip())
    unit = {"d": "days", "h": "hours"}
    try:
        return timedelta(**{unit[match[2]]: int(match[1])})  # type: ignore[index]
    except (TypeError, OverflowError):
        raise InputError(
            f"--mature-after is {short_repr(text)}; expected days or hours, such as 30d or 12h."
        ) from None


def _young(
    scores: Path, rows: Sequence[Mapping[str, str]], date: str, mature_after: timedelta
) -> set[str]:
    """Return the ids of rows that have not reached an age; a date in the future counts as young."""
    dates = {row["id"]: _date_of(scores, row, date) for row in rows}
    now = min(max(dates.values(), default=datetime.min.replace(tzinfo=UTC)), datetime.now(UTC))
    return {name for name, each in dates.items() if now - each < mature_after}


def _date_of(scores: Path, row: Mapping[str, str], name: str) -> datetime:
    try:
        date = datetime.fromisoformat(row[name])
    except ValueError:
        raise InputError(
            f"{scores}: {name} of id {short_repr(row['id'])} is {short_repr(row[name])}; expected "
            "a date, such as 2024-05-31 or 2024-05-31T02:30:00Z."
        ) from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _append(path: Path, content: bytes) -> None:
    """Append lines to a file; if the disk is full, it keeps what it had."""
    is_new = not path.exists()
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
        except BaseException as error:
            os.truncate(path, size)
            if is_new:
                path.unlink()
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise


def _rows_by_id(path: Path, *needed: str, keeps: str = "") -> Iterator[dict[str, str]]:
    """Return the rows of a table, their entries as text; ``keeps`` names a column of arrays."""
    if not path.is_file():
        raise InputError(f"file not found: {path}; pass a table in CSV, Parquet or .npz.")
    try:
        if path.suffix == ".parquet":
            parquet = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
            rows = parquet.read_table(path).to_pylist()
        elif path.suffix == ".npz":
            rows = _rows_of_npz(path, keeps)
        else:
            rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, ValueError, KeyError, BadZipFile, csv.Error) as error:
        raise InputError(f"{path} is not a table in CSV, Parquet or .npz ({error}).") from error
    for row in rows:
        if not {"id", *needed} <= set(row):
            wanted = " and ".join(["id", *needed])
            raise InputError(f"{path} has the columns {short_repr(list(row))}; expected {wanted}.")
        yield {name: "" if value is None else str(value) for name, value in row.items()}


def _rows_of_npz(path: Path, keeps: str) -> list[dict[str, Any]]:
    """Return the rows of a file of probabilities or decisions."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    n_nodes = len(arrays["prediction"])
    columns = {"id": arrays.get("node_ids", np.arange(n_nodes))}
    kept = [name for name in arrays if LOGGED.fullmatch(name) or name == keeps]
    columns |= {name: arrays[name] for name in kept}
    if keeps in arrays and arrays[keeps].dtype.kind == "M":
        columns[keeps] = np.datetime_as_string(arrays[keeps], unit="s")
    columns |= {f"p{k}": each for k, each in enumerate(arrays.get("probs", np.empty((0, 0))).T)}
    rows = zip(*(each.tolist() for each in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _new_rows(
    path: Path, before: Mapping[str, Any], watch: Watch
) -> tuple[list[tuple[str, dict[str, str]]], dict[str, Any]]:
    """Return the rows of whole lines that are new, with their places, and how far they reach."""
    if not path.exists() and not before:  # the first night: no label has come yet
        return [], {}
    check_log(path)
    if not path.exists():
        raise InputError(f"file not found: {path}, which was read before; pass its new path.")
    content = path.read_bytes()
    content = content[: content.rfind(b"\n") + 1]
    read = content[: before.get("bytes", 0)]
    if before and sha256(read).hexdigest() != before["digest"]:
        raise InputError(
            f"the first lines of {path} are not those that were read before; only append lines to "
            "a log. If it is another log, pass another --state."
        )
    try:
        lines = content.decode("utf-8-sig").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; write it as CSV.") from error
    reached = {"bytes": len(content), "digest": sha256(content).hexdigest()}
    names = _entries(f"{path}, line 1", lines[0]) if lines else []
    if lines:
        _check_columns(path, names, watch)
    rows, first = [], max(read.count(b"\n"), 1)
    for number, line in enumerate(lines[first:], first + 1):
        place = f"{path}, line {number}"
        values = _entries(place, line)
        if values and len(values) != len(names):
            raise InputError(f"{place} has {len(values)} entries for {len(names)} columns.")
        if values:
            rows.append((place, dict(zip(names, values, strict=True))))
    return rows, reached


def _check_columns(path: Path, names: list[str], watch: Watch) -> None:
    """Refuse a log without the columns that a watch reads."""
    needed = ["prediction", "confidence", *([] if watch.positive is None else ["probability"])]
    if "p0" in names:
        needed = [f"p{c}" for c in range(watch.n_classes)]
    needed += ["label", *(["action"] if watch.guarantees else [])]
    if missing := [name for name in needed if name not in names]:
        raise InputError(
            f"{path} has the columns {short_repr(names)} but not {', '.join(missing[:LISTED])}; "
            "write them, or name the columns in the first line."
        )


def _entries(place: str, line: str) -> list[str]:
    """Return the entries of one line: no quote reaches beyond it, or it would swallow labels."""
    try:
        return [entry.strip() for entry in next(csv.reader([line.rstrip("\r")], strict=True), [])]
    except csv.Error as error:
        raise InputError(
            f"{place} is not CSV ({error}); close each quote in its line, and keep entries "
            f"below {csv.field_size_limit():,} characters."
        ) from error


def _outcome(
    place: str, row: Mapping[str, str], watch: Watch, classes: Mapping[str, int]
) -> tuple[Any, ...]:
    """Return confidence, prediction, label, probability of the positive class, and action."""
    label = _class_of(place, "label", row, classes)
    if "p0" in row:
        probs = [_probability(place, f"p{c}", row) for c in range(watch.n_classes)]
        if abs(sum(probs) - 1.0) > ROW_SUM_TOLERANCE:
            raise InputError(f"{place}: p0, p1, ... sum to {sum(probs):.4g}; expected one.")
        prediction = int(np.argmax(probs))
        confidence = probs[prediction]
        positive = None if watch.positive is None else probs[watch.positive]
    else:
        prediction = _class_of(place, "prediction", row, _numbers(watch))
        confidence = _probability(place, "confidence", row)
        positive = None if watch.positive is None else _probability(place, "probability", row)
    action = row.get("action")
    if watch.guarantees and action not in (*ACTIONS, ""):
        raise InputError(f"{place}: action is {short_repr(action)}; expected {', '.join(ACTIONS)}.")
    return confidence, prediction, label, positive, action


def _warn_of_early_class(path: Path, watch: Watch, first: Sequence[tuple[Any, ...]]) -> None:
    """Say where the first labels are nearly all of one class although others were predicted."""
    if not first:
        return
    confidence, predictions, labels, probability, _ = zip(*first, strict=True)
    counts = np.bincount(labels, minlength=watch.n_classes)
    c, n = int(counts.argmax()), len(first)
    rest = 1.0 - np.array(confidence)  # at most this much is left for a class not predicted
    p = np.where(np.array(predictions) == c, confidence, np.minimum(rest, confidence))
    if watch.positive == c:
        p = np.array(probability)
    chance = watch.n_classes * binom.sf(counts[c] - 1, n, p.mean())
    if counts[c] >= max(NEARLY_ALL * n, FEWEST) and chance < UNLIKELY:
        name = class_label(c, watch.class_names)
        warn(
            f"of the first {n:,} new labels of {path}, {counts[c]:,} are {name}, but at most about "
            f"{p.sum():.2g} were predicted; if labels of {name} arrive before others, begin again "
            "with a new LOG and --mature-after."
        )


def _probability(place: str, name: str, row: Mapping[str, str]) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = float("nan")
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{place}: {name} is {short_repr(row[name])}; expected a probability.")
    return value


def _numbers(watch: Watch) -> dict[str, int]:
    return {str(c): c for c in range(watch.n_classes)}


def _labels(watch: Watch) -> dict[str, int]:
    """Return the class of each text that may be a label; a name wins over a number."""
    names = {name: c for c, name in enumerate(watch.class_names or [])}
    return names if any(name.isdecimal() for name in names) else {**names, **_numbers(watch)}


def _class_of(place: str, column: str, row: Mapping[str, str], known: Mapping[str, int]) -> int:
    """Return the number of a class; 1.0 is 1, which is what a column with gaps makes of it."""
    value = row[column]
    for text in (value, value.removesuffix(".0")):
        if text in known:
            return known[text]
    expected = ", ".join([*list(known)[:LISTED], *(["..."] if len(known) > LISTED else [])])
    raise InputError(f"{place}: {column} is {short_repr(value)}; expected {expected}.")
