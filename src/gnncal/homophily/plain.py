"""Estimators as plain values, for records and saved files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gnncal.core.errors import InputError
from gnncal.homophily import ESTIMATORS, make_estimator, name_of
from gnncal.homophily.base import HomophilyEstimator
from gnncal.homophily.given import Given
from gnncal.homophily.shared import Shared

KINDS: dict[str, type[HomophilyEstimator]] = {**ESTIMATORS, "given": Given}


def to_plain(homophily: Any) -> dict[str, Any]:
    """Return an estimator as a dictionary: its name under ``"estimator"``, and all parameters."""
    estimator = make_estimator(homophily)
    if isinstance(estimator, Shared):
        return to_plain(estimator.estimator)
    name = name_of(estimator)
    if name not in KINDS:
        raise InputError(
            f"homophily is a {name}, which gnncal does not know by name; those that it can write "
            f"down are {', '.join(KINDS)}."
        )
    parameters = {field.name: getattr(estimator, field.name) for field in fields(KINDS[name])}  # type: ignore[arg-type]
    return {"estimator": name, **parameters}


def from_plain(plain: dict[str, Any]) -> HomophilyEstimator:
    """Return the estimator of a value that :func:`to_plain` made."""
    parameters = dict(plain)
    name = parameters.pop("estimator")
    if name not in KINDS:
        raise InputError(f"there is no homophily estimator {name!r}; upgrade gnncal to read it.")
    known = {field.name for field in fields(KINDS[name])}  # type: ignore[arg-type]
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise InputError(f"the homophily estimator {name!r} has no parameter {unknown[0]!r}.")
    return KINDS[name](**parameters)
