"""The contract of a calibrator: public methods check their input, private ones compute."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import date as day
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

import gnncal  # its names are loaded on first use: what saves or exports lies above this file
from gnncal.calibrators.explanation import RAW, Explanation, Parts
from gnncal.calibrators.fit_report import (
    FitReport,
    Update,
    underdetermined_reasons,
    warn_of_weak_evidence,
)
from gnncal.calibrators.threads import one_thread_if_small
from gnncal.data.arrays import FloatArray, IntArray, as_numpy
from gnncal.data.checks import check_nodes
from gnncal.data.constraints import Constraint, LearnedTable
from gnncal.data.errors import GnncalWarning, InputError, require, warn
from gnncal.data.estimator import Estimator, check_is_fitted, clone
from gnncal.data.nodes import Nodes, as_nodes, labelled_nodes
from gnncal.data.probability import keep_predictions, normalised_entropy, softmax
from gnncal.graph.checks import EDGES, ENTITIES, UNDIRECTED, check_kind, warn_about_graph
from gnncal.graph.entities import EntityGraph
from gnncal.graph.graph import Side
from gnncal.math.formulas import Formula
from gnncal.math.losses import Memory, ParameterBlock, standard_error
from gnncal.math.node_summary import LearnedNodes, NodeSummary

DIGITS = 9  # of an entropy: nodes that differ by rounding are dealt out alike
AnyCalibrator = TypeVar("AnyCalibrator", bound="Calibrator")


class Calibrator(Estimator, ABC):
    """Base of every calibrator: logits, labels and a graph in, probabilities out.

    A subclass implements ``_fit`` and ``_predict``, which get checked input. Its class attributes
    declare what it does and needs. Parameters of the constructor are keyword arguments.

    Attributes
    ----------
    preserves_predictions, needs_graph, needs_torch, uses_sample_weight : bool
        Whether predictions stay, and what ``fit`` needs and can use.
    constraints, learned : dict
        Allowed values of each parameter, and of each attribute of the fitted model.
    transductive_attributes : tuple of str
        Attributes that describe the fitted graph and are not saved.
    classes_ : ndarray of shape (n_classes,)
        Classes 0..K-1, after ``fit``.
    fit_report_, history_ : FitReport and tuple of Update
        Report of the fit, and every :meth:`update` since then.
    class_names_ : list of str
        A name for each class, if :func:`gnncal.calibrate` or a file provided them.
    positive_ : int or None
        Number of the positive class, if :func:`gnncal.calibrate` or a file provided it.
    provenance_ : dict of str to str
        Date of the fit and version of gnncal. Entries that you add are saved too.

    Examples
    --------
    A calibrator of your own, which mixes in a tenth of the uniform distribution:

    >>> import gnncal
    >>> class Softer(gnncal.Calibrator):
    ...     preserves_predictions = True
    ...     def _fit(self, nodes):
    ...         self.fit_report_ = gnncal.calibrators.FitReport.of(nodes, loss_after=float("nan"))
    ...     def _predict(self, nodes):
    ...         return 0.9 * gnncal.calibrators.softmax(nodes.logits) + 0.1 / nodes.n_classes
    >>> Softer().fit([[9.0, 0.0], [0.0, 9.0]], [0, 1]).predict_proba([[9.0, 0.0]]).round(2)
    array([[0.95, 0.05]])

    """

    needs_torch: ClassVar[bool] = False
    constraints: ClassVar[dict[str, Constraint]] = {}
    uses_sample_weight: ClassVar[bool] = False
    transductive_attributes: ClassVar[tuple[str, ...]] = ()
    # Whether a class without calibration nodes gets next to no probability.
    zeroes_unseen_classes: ClassVar[bool] = False

    # What may depend on parameters is a property; most classes put a plain value in its place.
    @property
    @abstractmethod
    def preserves_predictions(self) -> bool:
        """Whether the predicted class of every node stays."""

    @property
    def needs_graph(self) -> bool:
        """Whether ``fit`` and ``predict_proba`` must be given a graph."""
        return False

    @property
    def learned(self) -> LearnedTable:
        """What each attribute that makes up the fitted model may be."""
        return {}

    classes_: IntArray
    fit_report_: FitReport
    class_names_: list[str]
    positive_: int | None = None
    provenance_: dict[str, str]
    # What other uses of a fitted calibrator need: check, update and their files.
    fitted_on_: NodeSummary
    graph_kind_: str | None = None  # a kind of gnncal.graph.checks; None if no graph was used
    learned_nodes_: LearnedNodes
    history_: tuple[Update, ...] = ()
    posterior_: Mapping[str, FloatArray] = MappingProxyType({})  # covariances, by block
    memories_: Mapping[str, Memory] = MappingProxyType({})  # what updates start from, by block
    # Of a probability, because the labels are few; None where no posterior tells.
    standard_error_: float | None = None
    base_rates_: FloatArray  # (n_classes,) that the probabilities stand for

    if not TYPE_CHECKING:  # or every misspelt attribute would pass the type checker

        def __getattr__(self, name: str) -> Any:
            if "classes_" in vars(self) and name in self.transductive_attributes:
                raise AttributeError(
                    f"{name} describes the graph of the fit and is not saved with "
                    f"{type(self).__name__}; fit again to have it"
                    + (", or call predict_temperature()." if name == "temperature_" else ".")
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def fit(
        self,
        logits: Any,
        labels: Any = None,
        graph: Any = None,
        *,
        calibration_nodes: Any = None,
        train_nodes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn from the labels of the calibration nodes.

        Without ``calibration_nodes``, all labelled nodes outside ``train_nodes`` are used; if every
        node has a label and a graph is given, they are required. If the labels do not determine
        the fit, ``fit`` warns and ``fit_report_`` has the reason.

        Returns
        -------
        Calibrator
            The calibrator itself, fitted.

        """
        self.check_params()
        if self.needs_torch:
            require("torch", extra="neural", purpose=type(self).__name__)
        record = labelled_nodes(
            logits,
            labels,
            graph,
            calibration_nodes=calibration_nodes,
            train_nodes=train_nodes,
            sample_weight=sample_weight,
        )
        if record.weights is not None and not self.uses_sample_weight:
            raise InputError(
                f"{type(self).__name__} cannot give calibration nodes different weights; leave "
                "sample_weight out, or choose a method that can, such as 'structural' or 'svs'."
            )
        if getattr(self, "protocol", None) == "paper" and record.train_nodes.size == 0:
            raise InputError(
                "the paper's protocol stops on the training nodes' loss; pass train_nodes."
            )
        if self.needs_graph and not record.has_neighbourhoods:
            other = "hts" if self.preserves_predictions else "svs"
            raise InputError(
                f"{type(self).__name__} needs a graph; pass the graph of these nodes as graph, or "
                f"choose a method that needs none, such as {other!r}."
            )
        if self.needs_graph and record.graph is not None:
            warn_about_graph(record.graph, record.predictions)
        self.posterior_, self.memories_ = {}, {}
        try:
            with one_thread_if_small(record):
                self._fit(self._protect_logits(record))
                self._finish_fit(record)
        except MemoryError:
            raise InputError(
                f"{type(self).__name__} ran out of memory on {record.n_classes:,} classes and "
                f"{record.calibration_nodes.size:,} calibration nodes; allow the process more "
                "memory, or choose a method with fewer parameters, such as 'ts'."
            ) from None
        # Whoever fits and predicts with the same kind of scores is told once.
        self._fitted_to_probabilities = record.are_probabilities
        return self

    def _protect_logits(self, nodes: Nodes) -> Nodes:
        """Return nodes whose logits torch may write into."""
        if not self.needs_torch:
            return nodes
        record = copy(nodes)
        record.logits = nodes.logits.copy()
        return record

    def _finish_fit(self, nodes: Nodes) -> None:
        """Set what every fitted calibrator has, and warn of what the labels left open."""
        name = type(self).__name__
        for needed in ("fit_report_", *self.transductive_attributes):
            if needed not in vars(self):
                raise NotImplementedError(f"{name}._fit does not set {needed}.")
        self.classes_ = np.arange(nodes.n_classes)
        self.n_features_in_ = nodes.n_classes
        self.history_ = ()
        self.provenance_ = {"date": f"{day.today()}", "gnncal": gnncal.__version__}
        counts = np.bincount(nodes.labels, nodes.weights, minlength=nodes.n_classes)
        self.base_rates_ = counts / counts.sum()
        self.fitted_on_ = NodeSummary.of(nodes, nodes.calibration_nodes)
        self.graph_kind_ = self._kind_of_graph(nodes)
        self.learned_nodes_ = LearnedNodes.of(nodes)
        self.calibration_rows_ = (nodes.n_nodes, nodes.calibration_nodes)
        self._measure_error(nodes)
        if getattr(self, "protocol", "converged") == "converged":  # another may stop anywhere
            self._warn_unless_converged()
        if self.learned:
            reasons = underdetermined_reasons(nodes, self.fit_report_.undetermined)
            self.fit_report_ = replace(self.fit_report_, undetermined=reasons)
        zeroes = self.zeroes_unseen_classes
        warn_of_weak_evidence(name, self.fit_report_, zeroes_unseen=zeroes)

    def _kind_of_graph(self, nodes: Nodes) -> str | None:
        """Return the kind of graph that the fit used; None if it used none."""
        if not self.needs_graph or not nodes.knows_degrees:
            return None
        if nodes.graph is None or isinstance(nodes.graph, EntityGraph):
            return EDGES if nodes.graph is None else ENTITIES
        _, side = self._reach() or (0, "in")
        return UNDIRECTED if side == "both" and nodes.graph.is_undirected else EDGES

    def _measure_error(self, nodes: Nodes) -> None:
        """Set how far a probability is off on average, as the posterior has it."""
        self.standard_error_ = None
        if nodes.weights is None:
            with suppress(InputError):  # of methods without a posterior
                self.standard_error_ = standard_error(self._posterior_blocks(nodes)[0])

    def _warn_unless_converged(self) -> None:
        for name in self.learned:
            if name.endswith("converged_") and not getattr(self, name):
                n_iter = getattr(self, name.replace("converged_", "n_iter_"))
                warn(
                    f"{type(self).__name__}: the fit stopped before convergence after {n_iter} "
                    "iterations; check the logits' scale, or use a method with fewer parameters."
                )

    def check_params(self) -> None:
        """Check the parameters of the constructor, which ``fit`` does first."""
        for name, value in self.get_params(deep=False).items():
            if name in self.constraints:
                self.constraints[name].check(name, value)

    def update(
        self,
        logits: Any = None,
        labels: Any = None,
        graph: Any = None,
        *,
        calibration_nodes: Any = None,
        train_nodes: Any = None,
        sample_weight: Any = None,
        rates: Any = None,
    ) -> Self:
        """Return a new calibrator, updated with new labels or new rates of classes.

        The ``calibration_nodes`` must be a random sample of the nodes that the calibrator will be
        used on, in this graph or another. Nodes that the calibrator has learned from before are
        left out with a warning. ``history_`` records each update.

        Parameters
        ----------
        rates : dict, optional
            New base rates of classes, for example ``{"fraud": 0.06}``; the other classes share the
            rest in their previous proportions. This is exact if only the rates have changed.

        Examples
        --------
        >>> import gnncal
        >>> task = gnncal.example()
        >>> given = (task.logits, task.labels, task.graph)
        >>> fitted = gnncal.get_calibrator("structural-free").fit(
        ...     *given, calibration_nodes=task.calibration_nodes
        ... )
        >>> fitted.update(*given, calibration_nodes=task.test_nodes[:50]).history_[0].n_labels
        50
        >>> fitted.update(rates={0: 0.1}).history_[0].rates[0]
        0.1

        """
        check_is_fitted(self, "classes_")
        given = None if logits is None else as_nodes(logits, graph)
        record = None if given is None else self._check_prediction(given)
        splits = {
            "calibration_nodes": calibration_nodes,
            "train_nodes": train_nodes,
            "sample_weight": sample_weight,
        }
        new: Self = gnncal.shift.updated(self, given, record, labels, **splits, rates=rates)
        return new

    def predict_proba(self, logits: Any, graph: Any = None) -> FloatArray:
        """Return the calibrated probabilities of every node, (n_nodes, n_classes).

        The graph may differ from that of ``fit``.
        """
        return self._predict(self._check_prediction(logits, graph))

    def predict(self, logits: Any, graph: Any = None) -> IntArray:
        """Return the most probable class of each node, from what :meth:`predict_proba` takes."""
        probs = self.predict_proba(logits, graph)
        return self.classes_[probs.argmax(axis=1)]

    def explain(self, logits: Any, graph: Any = None, *, node: int) -> Explanation:
        """Return how each part of the method changes the probabilities of one node, as a table.

        Parameters
        ----------
        node : int
            The row of the logits.

        """
        nodes = self._check_prediction(logits, graph)
        (row,) = check_nodes([node], nodes.n_nodes)
        parts = self._explain(nodes, row)
        names = getattr(self, "class_names_", None) or map(str, self.classes_)
        steps = {RAW: softmax(nodes.logits[[row]])[0], **parts.steps}
        last = list(steps)[-1]
        steps[last] = self._predict_rows(nodes, np.array([row]))[0]
        steps = {name: probs.astype(np.float64) for name, probs in steps.items()}
        return Explanation(int(row), steps, parts.terms, parts.temperature, tuple(names))

    def _explain(self, nodes: Nodes, row: int) -> Parts:
        """Return the probabilities of a node after each part of the method; a hook."""
        return Parts({"calibrator": np.empty(0)})

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.required = True
        return tags

    def save(self, path: str | Path, *, class_names: list[str] | None = None) -> None:
        """Write the fitted calibrator to one file, without pickle; :func:`gnncal.load` reads it."""
        gnncal.save(self, path, class_names=class_names)

    def to_torch(self) -> Any:
        """Return the fitted calibrator as a PyTorch module (docs/torch.md).

        ``module(logits, edge_index)`` gives the probabilities, with gradients.
        """
        check_is_fitted(self, "classes_")
        require("torch", extra="neural", purpose="to_torch()")
        return gnncal.torch.CalibratorModule(self)

    def as_formula(self) -> Formula:
        """Return this fitted calibrator as a formula that other backends can run."""
        check_is_fitted(self, "classes_")
        return self._as_formula()

    def _as_formula(self) -> Formula:
        raise InputError(
            f"{type(self).__name__} cannot become a torch module of logits and edges; call its "
            "predict_proba, or fit another method, such as 'structural'."
        )

    def _numbers(self, *names: str) -> dict[str, Any]:
        """Return learned attributes by their names without the underscore."""
        return {name: getattr(self, f"{name}_") for name in names}

    def _reach(self) -> tuple[int, Side] | None:
        """Return how many hops a node depends on, and on which side; None for the whole graph."""
        return None if self.needs_graph else (0, "in")

    def _posterior_blocks(self, nodes: Nodes) -> list[ParameterBlock]:
        """Return what new labels, those of the calibration nodes, can teach this fitted method."""
        raise InputError(
            f"{type(self).__name__} cannot be updated with labels; fit it again on the new labels, "
            "or fit a method that can be updated, such as 'structural'."
        )

    def _set_block(self, name: str, theta: FloatArray, covariance: FloatArray) -> None:
        """Take over what a block became; the counterpart of ``_posterior_blocks``."""
        raise NotImplementedError

    def _finish_update(self, nodes: Nodes) -> None:
        """Learn from the new labels what is in no block, once all blocks are set."""

    def _covariance_of(self, block: str) -> FloatArray:
        """Return the covariance that the fit remembers of a block."""
        if block not in self.posterior_:
            raise InputError(
                f"this {type(self).__name__} cannot be updated with labels: it was stopped early "
                "(protocol='paper'), or it has too many parameters; fit it again on the new labels."
            )
        return self.posterior_[block]

    def _shift_class_bias(self, shifts: FloatArray) -> None:
        """Add a number (n_classes,) to the scores of each class, before the softmax."""
        reason = "it has no bias for each class"
        if self.preserves_predictions:
            reason = "it keeps the predicted class of every node, which new rates would change"
        raise InputError(
            f"{type(self).__name__} cannot be updated with rates, because {reason}; fit a method "
            "that can, such as 'structural-free' or 'vs'."
        )

    def _describe_fitted_graph(self, nodes: Nodes) -> None:
        """Set the ``transductive_attributes`` to those of other nodes; a hook."""

    @abstractmethod
    def _fit(self, nodes: Nodes) -> None: ...

    @abstractmethod
    def _predict(self, nodes: Nodes) -> FloatArray: ...

    def _predict_rows(self, nodes: Nodes, rows: IntArray | slice) -> FloatArray:
        """Return the probabilities of some nodes; a hook for methods that need not see all."""
        return self._predict(nodes)[rows]

    def _check_prediction(self, logits: Any, graph: Any = None) -> Nodes:
        """Return the record of what is handed to a prediction."""
        check_is_fitted(self, "classes_")
        shape = (logits.logits if isinstance(logits, Nodes) else as_numpy(logits)).shape
        if len(shape) == 2 and shape[1] != (n_classes := len(self.classes_)):
            raise InputError(  # begins as scikit-learn's checks expect it
                f"X has {shape[1]} features, but {type(self).__name__} is expecting {n_classes} "
                f"features as input: it was fitted to {n_classes} classes, and logits have one "
                "column for each."
            )
        was_told = getattr(self, "_fitted_to_probabilities", False)
        record = as_nodes(logits, graph, may_be_probabilities=was_told).unlabelled
        if self.needs_graph and not record.has_neighbourhoods:
            raise InputError(
                f"{type(self).__name__} needs a graph; pass the graph of these nodes as graph."
            )
        if self.needs_graph and record.knows_degrees:
            are_entities = isinstance(record.graph, EntityGraph)
            check_kind(type(self).__name__, self.graph_kind_, are_entities=are_entities)
        return self._protect_logits(record)


class TemperatureMixin:
    """What calibrators have in common that give each node a temperature."""

    transductive_attributes: ClassVar[tuple[str, ...]] = ("temperature_",)
    temperature_: FloatArray  # (n_nodes,) of the fitted graph

    def predict_temperature(self, logits: Any, graph: Any = None) -> FloatArray:
        """Return the temperature of each node, from what ``predict_proba`` takes."""
        calibrator: Any = self  # a Calibrator too
        return self._checked_temperature(calibrator._check_prediction(logits, graph))

    def temperature_at(self, entropy: Any, homophily: Any) -> FloatArray | None:
        """Return T (n,) at given entropies and homophilies; None for methods without a formula.

        Parameters
        ----------
        entropy, homophily : float or array_like of shape (n,)
            In [0, 1]; the entropy is that of the uncalibrated prediction, divided by ln K. Other
            covariates have typical values.

        """
        check_is_fitted(self, "classes_")
        values = (np.atleast_1d(np.asarray(v, dtype=np.float64)) for v in (entropy, homophily))
        return self._temperature_at(*np.broadcast_arrays(*values))

    def _temperature_at(self, entropy: FloatArray, homophily: FloatArray) -> FloatArray | None:
        """A hook for methods whose temperature is a formula of the two."""
        return None

    def _describe_fitted_graph(self, nodes: Nodes) -> None:
        self.temperature_ = self._temperature(nodes)

    def _explain(self, nodes: Nodes, row: int) -> Parts:
        temperature = float(self._checked_temperature(nodes)[row])
        scaled = (nodes.logits[row] - nodes.logits[row].max()) / temperature
        return Parts({"temperature": np.empty(0)}, {"logit / T": scaled}, temperature)

    def _checked_temperature(self, nodes: Nodes) -> FloatArray:
        temperature = self._temperature(nodes)
        if temperature.shape != (nodes.n_nodes,):
            raise ValueError(
                f"{type(self).__name__}._temperature gives the shape {temperature.shape}; expected "
                f"({nodes.n_nodes},), one number for each node."
            )
        return temperature

    @abstractmethod
    def _temperature(self, nodes: Nodes) -> FloatArray: ...


class TemperatureCalibrator(TemperatureMixin, Calibrator):
    """Base of calibrators that divide each node's logits by a positive number, its temperature.

    The order of a node's classes stays, so predictions cannot change. A subclass implements
    ``_fit`` and ``_temperature``.

    Examples
    --------
    A fixed temperature of 2:

    >>> import numpy as np
    >>> import gnncal
    >>> from gnncal.calibrators import FitReport
    >>> class Halved(gnncal.calibrators.TemperatureCalibrator):
    ...     def _fit(self, nodes):
    ...         self.temperature_ = np.full(nodes.n_nodes, 2.0)
    ...         self.fit_report_ = FitReport.of(nodes, loss_after=float("nan"))
    ...     def _temperature(self, nodes):
    ...         return np.full(nodes.n_nodes, 2.0)
    >>> Halved().fit([[2.0, 0.0], [0.0, 2.0]], [0, 1]).predict_proba([[2.0, 0.0]]).round(2)
    array([[0.73, 0.27]])

    """

    preserves_predictions = True

    def _predict(self, nodes: Nodes) -> FloatArray:
        return self._predict_rows(nodes, slice(None))

    def _predict_rows(self, nodes: Nodes, rows: IntArray | slice) -> FloatArray:
        logits, T = nodes.logits[rows], self._checked_temperature(nodes)[rows]
        return keep_predictions(softmax(logits, T.astype(logits.dtype)), nodes.predictions[rows])


class PointwiseCalibrator(Calibrator):
    """Base of calibrators whose probabilities are a function of a node's own logits.

    A subclass implements ``_fit`` and ``_probabilities``, which works on any rows of logits.

    Examples
    --------
    >>> import gnncal
    >>> from gnncal.calibrators import PointwiseCalibrator
    >>> class Softer(PointwiseCalibrator):
    ...     preserves_predictions = True
    ...     def _fit(self, nodes):
    ...         self.fit_report_ = gnncal.calibrators.FitReport.of(nodes, loss_after=float("nan"))
    ...     def _probabilities(self, logits):
    ...         return 0.9 * gnncal.calibrators.softmax(logits) + 0.1 / logits.shape[1]
    >>> Softer().fit([[9.0, 0.0], [0.0, 9.0]], [0, 1]).predict_proba([[9.0, 0.0]]).round(2)
    array([[0.95, 0.05]])

    """

    def _predict(self, nodes: Nodes) -> FloatArray:
        return self._probabilities(nodes.logits)

    def _predict_rows(self, nodes: Nodes, rows: IntArray | slice) -> FloatArray:
        return self._probabilities(nodes.logits[rows])

    @abstractmethod
    def _probabilities(self, logits: FloatArray) -> FloatArray:
        """(n, n_classes) of logits (n, n_classes), in their precision."""


def trial_fit(calibrator: AnyCalibrator, nodes: Nodes) -> AnyCalibrator:
    """Return a copy fitted to a record, for a loss on other nodes: it can predict, and no more."""
    trial: AnyCalibrator = clone(calibrator)
    with warnings.catch_warnings():  # what matters here shows in the loss
        warnings.simplefilter("ignore", GnncalWarning)
        trial._fit(nodes)
    trial.classes_ = np.arange(nodes.n_classes)
    return trial


def folds_of(nodes: Nodes, n_folds: int) -> IntArray:
    """Return the fold of each calibration node; every fold has certain and uncertain ones.

    Margins order nodes of one entropy, as where it is 0: their numbers must not matter.
    """
    entropy = np.round(normalised_entropy(nodes.calibration_logits), DIGITS)
    halves = nodes.calibration_logits / 2  # their differences never overflow
    below, top = np.partition(halves, -2, axis=1)[:, -2:].T
    of_label = halves[np.arange(len(halves)), nodes.labels]
    margins = (top - of_label, top - below)
    folds = np.empty(nodes.calibration_nodes.size, dtype=np.int64)
    folds[np.lexsort([*margins, entropy])] = np.arange(nodes.calibration_nodes.size) % n_folds
    return folds
