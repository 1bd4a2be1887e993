"""``gnncal.save`` and ``gnncal.load``: write a fitted object to a file, and read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnncal.calibrators.base import Calibrator
from gnncal.data.errors import InputError
from gnncal.decisions import Policy
from gnncal.decisions import base as decisions
from gnncal.files import saved_calibrators as calibrators
from gnncal.files.format import read_saved


def save(fitted: Any, path: str | Path, *, class_names: Sequence[str] | None = None) -> None:
    """Write a fitted object to one safetensors file, atomically and without pickle.

    Parameters
    ----------
    fitted : Calibrator, Policy or ConformalClassifier
        The fitted object; ``fitted.save(path)`` does the same. :func:`gnncal.load` reads the file.
    class_names : sequence of str, optional
        A name for each class; can only be saved with a calibrator.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.calibrators import TemperatureScaling
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> gnncal.save(TemperatureScaling().fit(logits, labels), "ts.safetensors")

    """
    if isinstance(fitted, Calibrator):
        calibrators.save(fitted, path, class_names=class_names)
    elif class_names is None:
        fitted.save(path)
    else:
        raise InputError("class_names are for a calibrator; any other object has those of its fit.")


def load(path: str | Path) -> Any:
    """Return the calibrator, policy or conformal classifier that is saved in a file.

    Untrusted files are safe to read: nothing is unpickled, and every value is checked. Attributes
    that describe the fitted graph, such as ``temperature_``, are not saved.

    Examples
    --------
    >>> from gnncal import load
    >>> from gnncal.calibrators import TemperatureScaling
    >>> logits, labels = [[2.0, 0.0], [0.0, 2.0]] * 50, [0, 1, 1, 1] * 25
    >>> TemperatureScaling().fit(logits, labels).save("ts.safetensors")
    >>> round(load("ts.safetensors").base_temperature_, 2)
    1.82

    """
    return read_saved(
        path,
        lambda header, tensor: (decisions if "decision" in header else calibrators).rebuild(
            header, tensor
        ),
    )


def load_policy(path: str | Path) -> Policy:
    """Load a policy; raise an InputError if the file holds another object."""
    loaded = load(path)
    if not isinstance(loaded, Policy):
        raise InputError(
            f"{path} holds a {type(loaded).__name__}; --policy expects policy.safetensors, as "
            "`gnncal decide` writes it."
        )
    return loaded
