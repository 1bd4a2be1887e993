"""``check_calibrator``: every law on one calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.registry import class_fault, every_calibrator, temporarily_registered
from gnncal.data.checks import suggestion
from gnncal.data.errors import InputError, short_repr
from gnncal.testing.laws import LAWS, N_EXAMPLES


def check_calibrator(
    calibrator: Calibrator | type[Calibrator],
    *,
    expected_failures: Mapping[str, str] | None = None,
    n_examples: int = N_EXAMPLES,
) -> None:
    """Check that a calibrator keeps the laws that gnncal's own calibrators keep.

    It returns nothing if all is well. The examples are the same each time; NumPy is all it needs.

    Parameters
    ----------
    calibrator : Calibrator or type
        The calibrator, or its class, which is then made with its defaults.
    expected_failures : dict of str to str, or None
        Laws that cannot hold for this method, each with the reason. They are not checked.
    n_examples : int
        Random tasks for each law; more find rarer mistakes.

    Raises
    ------
    AssertionError
        If a law is broken. The message names every broken law with the reason.
    InputError
        If this is not a calibrator, or a law is unknown.

    Examples
    --------
    >>> import gnncal
    >>> gnncal.testing.check_calibrator(gnncal.calibrators.TemperatureScaling())

    """
    kind: Any = calibrator if isinstance(calibrator, type) else type(calibrator)
    reason = class_fault(kind)
    if reason is not None:
        raise InputError(f"{kind.__name__} cannot be used as a calibrator: {reason}.")
    checked: Any = calibrator() if isinstance(calibrator, type) else calibrator
    excused, known = expected_failures or {}, [law.name for law in LAWS]
    for name in excused:
        if name not in known:
            raise InputError(
                f"unknown law {short_repr(name)}{suggestion(name, known)}; gnncal.testing.LAWS "
                "lists them."
            )
    is_known = kind in every_calibrator().values()
    broken: list[str] = []
    with nullcontext() if is_known else temporarily_registered(kind):
        for law in LAWS:
            if law.name in excused or not law.applies(checked):
                continue
            try:
                law.check(checked, n_examples=n_examples)
            except AssertionError as error:
                broken.append(str(error))
    if broken:
        count = "a law" if len(broken) == 1 else f"{len(broken)} laws"
        raise AssertionError("\n- ".join([f"{kind.__name__} breaks {count}:", *broken]))
