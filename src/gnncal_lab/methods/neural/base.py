"""What the neural calibrators share: how a fit is split, trained, stopped and reported."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnncal import Calibrator, GnncalWarning, InputError, Nodes
from gnncal.calibrators import FitReport, TemperatureCalibrator, TemperatureLoss, integer
from gnncal_lab.arrays import FloatArray, IntArray
from gnncal_lab.fitting.parts import TEMPERATURE_RANGE, LearnedTable
from gnncal_lab.methods.neural.parameters import StopOn, TrainingParameters

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, FloatArray]
Noise = np.random.Generator
PAPER_EPOCHS, PAPER_PATIENCE = 1000, 50  # of the GETS, WATS and HoTS papers
HELD_OUT_SHARE = 0.2  # share of the calibration nodes held out for early stopping
FEWEST_HELD_OUT_NODES = 2  # even two keep a network from overfitting a handful of nodes
LARGEST_LOGIT = 1e6  # beyond it a network sees this value: squares must fit a float32


class NeuralCalibrator(TrainingParameters, Calibrator):
    """A small network, trained by full-batch Adam on the calibration cross-entropy.

    A subclass prepares everything constant once (``_inputs``, for the rows where an output is
    wanted and no others), gives its initial weights, and computes scores from both.
    """

    needs_graph = True
    needs_torch = True
    weight_table: ClassVar[LearnedTable]  # names and shapes of the weights
    learned: ClassVar[LearnedTable] = {
        "weights_": lambda fitted: fitted._weight_table(),
        "n_iter_": integer(at_least=0),
    }

    weights_: Weights
    n_iter_: int

    @abstractmethod
    def _initial(self, nodes: Nodes, generator: np.random.Generator) -> Weights:
        """Return the initial weights in float64."""

    @abstractmethod
    def _inputs(self, nodes: Nodes, rows: IntArray) -> Any:
        """Everything constant that the scores of ``rows`` need."""

    @abstractmethod
    def _scores(
        self, weights: dict[str, Tensor], inputs: Any, logits: Tensor, noise: Noise | None
    ) -> Tensor:
        """Calibrated logits (n_rows, n_classes); ``noise`` is given in training only."""

    def _loss(
        self,
        weights: dict[str, Tensor],
        inputs: Any,
        logits: Tensor,
        labels: Tensor,
        noise: Noise,
    ) -> Tensor:
        """Return what training minimises; a hook for methods that regularise."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(self._scores(weights, inputs, logits, noise), labels)

    def _weight_table(self) -> LearnedTable:
        """Return names and shapes of the weights of this very fit."""
        return self.weight_table

    def _remember(self, nodes: Nodes) -> None:
        """Keep what predictions on the fitted graph need besides weights; nothing by default."""

    def _is_trained(self, name: str) -> bool:
        """Whether a weight moves in training; all do by default."""
        return True

    def _fit(self, nodes: Nodes) -> None:
        from sklearn.utils import check_random_state

        generator = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self._remember(nodes)
        self.weights_ = {
            name: value.astype(nodes.logits.dtype)
            for name, value in self._initial(nodes, generator).items()
        }
        self._train(nodes, generator)

    def _train(self, nodes: Nodes, generator: np.random.Generator) -> None:
        import torch

        from gnncal_lab.methods.neural.training import train

        weights = {
            name: torch.from_numpy(value).requires_grad_(self._is_trained(name))
            for name, value in self.weights_.items()
        }
        fitted, watched = self._split(nodes, generator)
        paper = self.protocol == "paper"
        run = train(
            weights,
            loss=self._objective(nodes, *fitted, weights, generator),
            monitor=None if watched is None else self._monitor(nodes, *watched, weights),
            max_epochs=PAPER_EPOCHS if paper else self.max_epochs,
            patience=PAPER_PATIENCE if paper else self.patience,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )
        self.n_iter_ = run.n_epochs
        self.weights_ = {name: value.detach().numpy().copy() for name, value in weights.items()}
        if run.best_epoch == 0 or not all(np.isfinite(w).all() for w in self.weights_.values()):
            raise InputError(
                f"{type(self).__name__}'s training diverged: its loss did not stay finite; lower "
                "learning_rate or check the logits' scale."
            )

    def _split(
        self, nodes: Nodes, generator: np.random.Generator
    ) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray] | None]:
        """Return the nodes and labels to train on, and those to watch."""
        everything = nodes.calibration_nodes, nodes.labels
        stop_on = "train" if self.protocol == "paper" else self.stop_on
        n_held_out = int(HELD_OUT_SHARE * nodes.calibration_nodes.size)
        if stop_on == "held-out" and n_held_out < FEWEST_HELD_OUT_NODES:
            stop_on = self._fall_back(nodes)
        if stop_on == "none":
            return everything, None
        if stop_on == "train":
            if nodes.train_nodes.size == 0:
                raise InputError(
                    "stop_on='train' watches the training nodes' loss; pass train_nodes."
                )
            return everything, (nodes.train_nodes, nodes.train_labels)
        order = generator.permutation(nodes.calibration_nodes.size)
        held_out, kept = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
        return (nodes.calibration_nodes[kept], nodes.labels[kept]), (
            nodes.calibration_nodes[held_out],
            nodes.labels[held_out],
        )

    def _fall_back(self, nodes: Nodes) -> StopOn:
        """How to stop when there are too few nodes to hold some out."""
        instead: StopOn = "train" if nodes.train_nodes.size else "none"
        warnings.warn(
            f"{type(self).__name__} has only {nodes.labels.size} calibration nodes, too few to "
            f"hold some out; stop_on={instead!r} is used instead. 'ts' usually does better on so "
            "few.",
            GnncalWarning,
            stacklevel=2,
        )
        return instead

    def _objective(
        self, nodes: Nodes, rows: IntArray, labels: IntArray, weights: Any, noise: Noise
    ) -> Any:
        inputs, logits, targets = self._constants(nodes, rows, labels)
        return lambda: self._loss(weights, inputs, logits, targets, noise)

    def _monitor(self, nodes: Nodes, rows: IntArray, labels: IntArray, weights: Any) -> Any:
        from torch.nn.functional import cross_entropy

        inputs, logits, targets = self._constants(nodes, rows, labels)
        return lambda: float(cross_entropy(self._scores(weights, inputs, logits, None), targets))

    def _constants(
        self, nodes: Nodes, rows: IntArray, labels: IntArray
    ) -> tuple[Any, Tensor, Tensor]:
        import torch

        inputs = self._inputs(nodes, rows)
        logits = torch.from_numpy(bounded(nodes.logits[rows]))
        return inputs, logits, torch.from_numpy(labels)

    def _tensors(self, dtype: np.dtype[Any]) -> dict[str, Tensor]:
        import torch

        return {
            name: torch.from_numpy(value.astype(dtype)) for name, value in self.weights_.items()
        }

    def _report(self, nodes: Nodes, scores: FloatArray) -> FitReport:
        """Make the report from the calibrated logits (n, n_classes) of the calibration nodes."""
        ones = np.ones(nodes.calibration_nodes.size)
        return FitReport.of(nodes, TemperatureLoss(scores, nodes.labels).value(ones))


class NeuralTemperature(NeuralCalibrator, TemperatureCalibrator):
    """A network whose output is one temperature for each node, kept within [e^-5, e^5]."""

    @abstractmethod
    def _network(self, weights: dict[str, Tensor], inputs: Any, noise: Noise | None) -> Tensor:
        """Return the temperature of each row before it is kept within its range."""

    def _scores(
        self, weights: dict[str, Tensor], inputs: Any, logits: Tensor, noise: Noise | None
    ) -> Tensor:
        temperature = within_range(self._network(weights, inputs, noise))
        return logits / temperature[:, None]

    def _fit(self, nodes: Nodes) -> None:
        super()._fit(nodes)
        self.temperature_ = self._temperature(nodes)
        scaled = nodes.calibration_logits.astype(np.float64)
        scaled /= self.temperature_[nodes.calibration_nodes, None]
        self.fit_report_ = self._report(nodes, scaled)

    def _temperature(self, nodes: Nodes) -> FloatArray:
        import torch

        inputs = self._inputs(nodes, np.arange(nodes.n_nodes))
        with torch.no_grad():
            output = self._network(self._tensors(nodes.logits.dtype), inputs, None)
        temperature: FloatArray = within_range(output).numpy()
        return temperature


def within_range(values: Tensor) -> Tensor:
    """Temperatures or multipliers kept within [e^-5, e^5]."""
    return values.clamp(*TEMPERATURE_RANGE)


def bounded(logits: FloatArray) -> FloatArray:
    """Return a copy whose entries a network can square and sum."""
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)


def dropped_out(values: Tensor, rate: float, noise: Noise | None) -> Tensor:
    """Dropout from a generator of its own; nothing happens without one."""
    import torch

    if noise is None or rate == 0:
        return values
    # Random bytes are an order of magnitude cheaper than torch's Bernoulli draws.
    drawn = np.frombuffer(noise.bytes(2 * values.numel()), dtype=np.uint16)
    kept = torch.from_numpy(drawn >= round(rate * 2**16)).view(values.shape)
    return values * kept * (1 / (1 - rate))


def glorot(generator: np.random.Generator, n_in: int, n_out: int, *shape: int) -> FloatArray:
    """Uniform weights of variance 2 / (n_in + n_out)."""
    bound = np.sqrt(6 / (n_in + n_out))
    return generator.uniform(-bound, bound, shape or (n_in, n_out))


def linear(generator: np.random.Generator, n_in: int, *shape: int) -> FloatArray:
    """Uniform within 1 / sqrt(n_in), torch's initial weights and biases of a linear layer."""
    bound = 1 / np.sqrt(max(n_in, 1))
    return generator.uniform(-bound, bound, shape)
