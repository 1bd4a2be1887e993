"""A constructor parameter that cannot be used is named before any work is done."""

from __future__ import annotations

from sklearn.base import clone

from gnncal.calibrators.base import Calibrator
from gnncal.core.errors import InputError
from gnncal.testing.law import law, refused
from gnncal.testing.tasks import small_task

WRONG = (object(), {"a": 1}, 1j, b"x", "no such word", float("nan"))  # wrong for every parameter


@law()
def a_parameter_of_the_wrong_type_is_refused_by_its_name(calibrator: Calibrator) -> None:
    """An InputError of ``fit`` names it; the class lists ``constraints`` for that."""
    task = small_task()
    for parameter in calibrator.get_params(deep=False):
        for wrong in WRONG:
            changed = clone(calibrator).set_params(**{parameter: wrong})
            try:
                with refused(InputError, rf"\b{parameter}\b"):
                    task.fit(changed)
            except AssertionError as error:
                raise AssertionError(f"{parameter}={wrong!r}: {error}") from error


PARAMETERS = (a_parameter_of_the_wrong_type_is_refused_by_its_name,)
