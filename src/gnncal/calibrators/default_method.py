"""The calibrator that a user asks for, and whether it may change predictions."""

from __future__ import annotations

from typing import Any

from gnncal.calibrators.auto import OF_BOTH_KINDS, Auto
from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.catalogue import class_of, find_name, get_calibrator, name_of, preset_of
from gnncal.core.constraints import FLAG
from gnncal.core.errors import InputError, shown
from gnncal.core.estimator import clone

DEFAULT_METHOD = "structural"


def choose_calibrator(
    method: str | Calibrator | None,
    *,
    keep_predictions: bool | None = None,
    one_class: bool = False,
    **params: Any,
) -> Calibrator:
    """Return a new calibrator that keeps predictions or may change them, as the user says."""
    if keep_predictions is not None:
        FLAG.check("keep_predictions", keep_predictions)
    if method is None:
        method = DEFAULT_METHOD
        if one_class and keep_predictions is None:
            keep_predictions = False
    if isinstance(method, str):
        calibrator = get_calibrator(method, **_with_answer(method, keep_predictions, params))
    else:
        calibrator = _copied(method, params)
    if keep_predictions is not None:
        check_answer(calibrator, keep_predictions)
    return calibrator


def _with_answer(method: str, keep: bool | None, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with what follows from the answer, for methods of both kinds."""
    kind, is_variant = class_of(method), bool(preset_of(find_name(method)))
    if keep is not None and not is_variant and "keep_predictions" in kind._get_param_names():
        return {**params, "keep_predictions": keep}
    if keep is False and kind is Auto:
        return {"candidates": OF_BOTH_KINDS, **params}
    return params


def _copied(method: Any, params: dict[str, Any]) -> Calibrator:
    if not isinstance(method, Calibrator):
        raise InputError(
            f"method is {shown(method)}; expected a calibrator's name or a calibrator such as "
            "gnncal.HoTS()."
        )
    if params:
        raise InputError(
            f"{', '.join(params)} cannot be set on a calibrator object; pass "
            f"{type(method).__name__}({next(iter(params))}=...) as method."
        )
    return clone(method)


def check_answer(calibrator: Calibrator, keep: bool) -> None:
    """Raise an InputError if a calibrator contradicts what the user says about predictions."""
    if calibrator.preserves_predictions == keep:
        return
    name = shown_name(calibrator)
    if keep:
        raise InputError(
            f"{name} may change predictions, but you ask to keep them (keep_predictions); choose a "
            f"method that keeps them, such as {DEFAULT_METHOD!r}, or do not ask."
        )
    raise InputError(
        f"{name} keeps every prediction, but you ask for predictions that may change "
        "(keep_predictions=False, --free); choose a method that may change them, such as "
        "'structural-free', or do not ask."
    )


def shown_name(calibrator: Calibrator) -> str:
    """Return what messages call a calibrator."""
    try:
        return name_of(calibrator)
    except InputError:  # a class of the user's own, which no catalogue has
        return type(calibrator).__name__
