"""Saved decisions: a certified threshold, or sets of classes, in a file like a calibrator's.

A class that can be saved derives from :class:`Saved` and is listed in ``kinds()`` by name. It says
in ``_facts`` which numbers make up its fit, and ``_restore`` checks them and sets its attributes.
Everything else, such as its report, is computed from these again, so a file cannot contradict
itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

from gnncal.core.arrays import FloatArray
from gnncal.core.checks import check_class_names, check_probs
from gnncal.core.constraints import Constraint, whole_number
from gnncal.core.errors import InputError, shown
from gnncal.core.estimator import Estimator, check_is_fitted
from gnncal.core.learned import LearnedTable, check_learned
from gnncal.files.format import ReadTensor, Tensors, pack, unknown_kind, unpack, write_saved


class Saved(Estimator, ABC):
    """Base of classifiers for decisions: parameters with constraints, and a fit that can be saved.

    Attributes
    ----------
    constraints : dict
        What each parameter of the constructor may be.
    saved_facts : dict
        What each number of a fit may be.

    """

    constraints: ClassVar[dict[str, Constraint]]
    saved_facts: ClassVar[LearnedTable]

    n_classes_: int
    class_names_: list[str]

    def save(self, path: str | Path, *, class_names: Any = None) -> None:
        """Write the fitted classifier to one safetensors file, atomically and without pickle.

        Parameters
        ----------
        path : str or Path
            The file to write; :func:`gnncal.load` reads it.
        class_names : list of str, optional
            A name for each class, kept in the file.

        Raises
        ------
        InputError
            If the file cannot be named or a value cannot be saved.

        """
        check_is_fitted(self, "n_classes_")
        names = getattr(self, "class_names_", None) if class_names is None else class_names
        tensors: Tensors = {}
        header = {
            "decision": _name_of(self),
            "n_classes": self.n_classes_,
            "class_names": check_class_names(names, self.n_classes_),
            "params": pack(self.get_params(deep=False), "params", tensors, _pack_part),
            "fit": pack(self._facts(), "fit", tensors, _pack_part),
        }
        write_saved(path, header, tensors)

    def check_params(self) -> None:
        """Check the parameters of the constructor, which ``fit`` does first.

        Raises
        ------
        InputError
            If a parameter cannot be used; the message names the first one.

        """
        for name, constraint in self.constraints.items():
            constraint.check(name, getattr(self, name))

    def _checked_probs(self, probs: Any) -> FloatArray:
        """Return probabilities of as many classes as ``fit`` had."""
        checked = check_probs(probs)
        if checked.shape[1] != self.n_classes_:
            raise InputError(
                f"probs has {checked.shape[1]} columns but those of fit had {self.n_classes_}; "
                "pass one column for each class."
            )
        return checked

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return the numbers that make up the fit, those of ``saved_facts``."""

    @abstractmethod
    def _restore(self, facts: dict[str, Any]) -> None:
        """Set what ``fit`` sets; each of the facts fits ``saved_facts``, not yet the others."""


def rebuild(header: dict[str, Any], tensor: ReadTensor) -> Saved:
    """Return the classifier of a header; every value is checked before it is used."""
    name = header["decision"]
    if not isinstance(name, str) or name not in kinds():
        raise InputError(
            f"it holds a {shown(name)} for decisions, which this gnncal does not know; upgrade "
            "gnncal to read it."
        )
    params = unpack(header["params"], tensor, _unpack_part)
    facts = unpack(header["fit"], tensor, _unpack_part)
    return _rebuilt(name, header["n_classes"], params, facts, header["class_names"])


def _rebuilt(name: str, n_classes: Any, params: Any, facts: Any, class_names: Any = None) -> Saved:
    """Return the classifier of these parameters and numbers, each of them checked."""
    kind = kinds()[name]
    whole_number(at_least=2).check("n_classes", n_classes)
    classifier = kind()
    unknown = sorted(set(params) ^ set(classifier.get_params(deep=False)))
    if unknown:
        raise InputError(f"it has other parameters than a {name} has, such as {unknown[0]!r}.")
    classifier.set_params(**params)
    classifier.check_params()
    check_learned(classifier.saved_facts, facts, {"K": n_classes})
    classifier.n_classes_ = n_classes
    names = check_class_names(class_names, n_classes)
    if names is not None:
        classifier.class_names_ = names
    classifier._restore(facts)
    return classifier


def kinds() -> dict[str, type[Saved]]:
    """Return the classes that a file can name."""
    # Here, because these classes are made of what this file has.
    from gnncal.decisions.conformal import ConformalClassifier
    from gnncal.decisions.policy import ClassPolicy
    from gnncal.decisions.selective import SelectiveClassifier

    return {
        "selective": SelectiveClassifier,
        "conformal": ConformalClassifier,
        "policy": ClassPolicy,
    }


def _name_of(classifier: Saved) -> str:
    for name, kind in kinds().items():
        if type(classifier) is kind:
            return name
    raise InputError(
        f"{type(classifier).__name__} is not one of gnncal's own classifiers for decisions, so a "
        "file cannot name it."
    )


def _pack_part(value: Any) -> tuple[str, Any] | None:
    """Return costs as their fields, a score for sets as what makes it up."""
    from gnncal.decisions.costs import Costs

    if type(value) is Costs:
        return "costs", vars(value)
    return _pack_score(value)


def _pack_score(value: Any) -> tuple[str, Any] | None:
    from gnncal.decisions.conformal import SCORES
    from gnncal.decisions.scores import ConformalScore

    if not isinstance(value, ConformalScore):
        return None
    for name, kind in SCORES.items():
        if type(value) is kind:
            parts = {field.name: getattr(value, field.name) for field in fields(kind)}  # type: ignore[arg-type]
            return "score", {"score": name, **parts}
    raise InputError(
        f"{type(value).__name__} is not one of gnncal's scores ({', '.join(SCORES)}), so a file "
        "cannot name it; keep the code that makes it, and fit again."
    )


def _unpack_part(kind: str, plain: Any) -> Any:
    from gnncal.decisions.costs import Costs

    return Costs(**plain) if kind == "costs" else _unpack_score(kind, plain)


def _unpack_score(kind: str, plain: Any) -> Any:
    from gnncal.decisions.conformal import SCORES

    if kind != "score":
        raise unknown_kind(kind)
    parts = dict(plain)
    name = parts.pop("score")
    if name not in SCORES:
        raise InputError(f"there is no score {shown(name)}; upgrade gnncal to read it.")
    return SCORES[name](**parts)
