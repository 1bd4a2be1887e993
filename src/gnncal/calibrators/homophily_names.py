"""Estimators by name, and as plain values for records and saved files."""

from __future__ import annotations

from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

from gnncal.calibrators.homophily import Given, HomophilyEstimator, Support
from gnncal.calibrators.homophily_predictor import Predictor
from gnncal.data.errors import InputError

GROUP = "gnncal.homophily"  # of entry points, by which the laboratory adds its own
ESTIMATORS: dict[str, type[HomophilyEstimator]] = {"support": Support, "predictor": Predictor}


def make_estimator(homophily: Any) -> HomophilyEstimator:
    """Return the estimator that a value of ``homophily`` stands for; ``Given`` for an array."""
    if isinstance(homophily, HomophilyEstimator):
        return homophily
    if not isinstance(homophily, str):
        return Given(homophily)
    kind = find_estimator(homophily)
    if kind is None:
        names = ", ".join([*ESTIMATORS, *sorted(entry_points(group=GROUP).names)])
        raise InputError(f"homophily is {homophily!r}; expected one of {names}, or an array.")
    return kind()


def find_estimator(name: str) -> type[HomophilyEstimator] | None:
    """Return the class of an estimator by its name; only the package that has it is imported."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    return None if found is None else found.load()


def name_of(estimator: HomophilyEstimator) -> str:
    """Return the name of an estimator's kind; that of the class where nobody declares one."""
    kind = type(estimator.saved_as)
    for name, known in {**ESTIMATORS, "given": Given}.items():
        if kind is known:
            return name
    place = f"{kind.__module__}:{kind.__qualname__}"
    declared = (each.name for each in entry_points(group=GROUP) if each.value == place)
    return next(declared, kind.__name__)


def to_plain(homophily: Any) -> dict[str, Any]:
    """Return an estimator as a dictionary: its name under ``"estimator"``, and all parameters."""
    estimator = make_estimator(homophily).saved_as
    name = name_of(estimator)
    if _kind(name) is not type(estimator):
        raise InputError(
            f"homophily is a {name}, which gnncal does not know by name; declare it as an entry "
            "point of the group gnncal.homophily."
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
