"""``--param name=value``: parameters of a constructor as they are typed in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gnncal.core.errors import InputError

PYTHON_WORDS = {"True": True, "False": False, "None": None}


def parse_params(given: Sequence[str]) -> dict[str, Any]:
    """Return parameters by name from ``name=value`` texts.

    A value is read as JSON (``0.1``, ``true``, ``null``, ``[0.5, 2]``) or as True, False or None;
    anything else is taken as text. Nothing is evaluated.
    """
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
