"""scikit-learn's protocol of an estimator, without its import, which takes a second or more.

Parameters live in the constructor: ``get_params``, ``set_params``, ``clone`` and ``repr`` follow.
"""

from __future__ import annotations

from copy import deepcopy
from inspect import Parameter, signature
from typing import Any, Self

from gnncal.data.errors import InputError


class Estimator:
    """Base of objects that have constructor parameters and ``fit``."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the parameters of the constructor with their defaults, sorted by name."""
        if cls.__init__ is object.__init__:
            return {}
        of_init = signature(cls.__init__).parameters
        return {name: of_init[name].default for name in sorted(of_init) if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name."""
        params = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            for name, value in list(params.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    params |= {f"{name}__{key}": part for key, part in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Return the estimator after changing parameters in place; ``fit`` checks their values."""
        known = self._defaults()
        for name, value in params.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; it has "
                    f"{', '.join(known) or 'none'}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        changed = (
            f"{name}={shown[name]}"
            for name, default in self._defaults().items()
            if default is Parameter.empty or shown[name] != repr(default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def clone(estimator: Any) -> Any:
    """Return an unfitted copy, as scikit-learn's ``clone`` does: the same parameters, copied."""
    if hasattr(estimator, "__sklearn_clone__"):
        return estimator.__sklearn_clone__()
    if isinstance(estimator, list | tuple | set | frozenset):
        return type(estimator)(clone(part) for part in estimator)
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return deepcopy(estimator)
    params = estimator.get_params(deep=False)
    return type(estimator)(**{name: clone(value) for name, value in params.items()})


def check_is_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's ``NotFittedError`` if ``fit`` has not set this attribute."""
    if not hasattr(estimator, attribute):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )
