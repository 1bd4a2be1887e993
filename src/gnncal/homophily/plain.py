"""Estimators as plain values, for records and saved files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gnncal.core.errors import InputError
from gnncal.homophily import find_estimator, make_estimator, name_of
from gnncal.homophily.base import HomophilyEstimator
from gnncal.homophily.given import Given


def to_plain(homophily: Any) -> dict[str, Any]:
    """Return an estimator as a dictionary: its name under ``"estimator"``, and all parameters."""
    estimator = make_estimator(homophily).saved_as
    name = name_of(estimator)
    if _kind(name) is not type(estimator):
        raise InputError(
            f"homophily is a {name}, which gnncal does not know by name; declare it as an entry "
            "point of the group gnncal.homophily (docs/plugins.md)."
        )
    parameters = {each.name: getattr(estimator, each.name) for each in fields(estimator)}  # type: ignore[arg-type]
    return {"estimator": name, **parameters}


def from_plain(plain: dict[str, Any]) -> HomophilyEstimator:
    """Return the estimator of a value that :func:`to_plain` made."""
    parameters = dict(plain)
    name = parameters.pop("estimator")
    kind = _kind(name)
    if kind is None:
        raise InputError(f"there is no homophily estimator {name!r}; upgrade gnncal to read it.")
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise InputError(f"the homophily estimator {name!r} has no parameter {unknown[0]!r}.")
    return kind(**parameters)


def _kind(name: Any) -> type[HomophilyEstimator] | None:
    """Return the class that a name in a file stands for."""
    return Given if name == "given" else find_estimator(name) if isinstance(name, str) else None
