"""Columns with a number each: z0, z1, ..., which a file may also call z00, z01, ..."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gnncal.core.errors import InputError

NUMBER = re.compile("0*([0-9]{1,9})")  # str.isdigit would take ² and the digits of other scripts


def number_of(name: str, prefix: str) -> int | None:
    """Return 7 for z7 and z07, None for a name of another form."""
    match = NUMBER.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return None if match is None else int(match[1])


def numbered_columns(names: Iterable[str], prefix: str, where: str) -> list[str]:
    """Return the names with a number in the order of the numbers, which must be 0, 1, ..., K-1."""
    by_number: dict[int, str] = {}
    for name in names:
        number = number_of(name, prefix)
        if number is None:
            continue
        if number in by_number:
            raise InputError(
                f"{by_number[number]} and {name} in {where} are both column {number} of "
                f"{prefix}0, {prefix}1, ...; keep one of them."
            )
        by_number[number] = name
    for expected, number in enumerate(sorted(by_number)):
        if number != expected:
            raise InputError(
                f"expected the columns {prefix}0, {prefix}1, ... without gaps in {where}; "
                f"{prefix}{expected} is missing although there is {by_number[number]}."
            )
    return [by_number[number] for number in sorted(by_number)]
