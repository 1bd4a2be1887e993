"""What the neural calibrators share: how a fit is split, trained, stopped and reported."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from gnncal.calibrators import protocols
from gnncal.calibrators.base import Calibrator, FitReport, TemperatureCalibrator
from gnncal.calibrators.neural.parameters import StopOn, TrainingParameters
from gnncal.core.arrays import FloatArray, IntArray
from gnncal.core.constraints import whole_number
from gnncal.core.data import FitData
from gnncal.core.errors import GnncalWarning, InputError, require
from gnncal.core.graph import Graph
from gnncal.core.learned import LearnedTable
from gnncal.fitting.losses import TemperatureLoss
from gnncal.fitting.parameters import TEMPERATURE_RANGE

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, FloatArray]
Noise = np.random.Generator
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
    learned: ClassVar[LearnedTable] = {"weights_": {}, "n_iter_": whole_number(at_least=0)}

    weights_: Weights
    n_iter_: int

    @abstractmethod
    def _initial(self, data: FitData, generator: np.random.Generator) -> Weights:
        """Return the initial weights in float64."""

    @abstractmethod
    def _inputs(
        self, logits: FloatArray, graph: Graph, known_labels: IntArray | None, rows: IntArray
    ) -> Any:
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

    def _learned_table(self) -> LearnedTable:
        return {**self.learned, "weights_": self.weight_table}

    def _remember(self, data: FitData) -> None:
        """Keep what predictions on the fitted graph need besides weights; nothing by default."""

    def _is_trained(self, name: str) -> bool:
        """Whether a weight moves in training; all do by default."""
        return True

    def _fit(self, data: FitData) -> None:
        protocols.check_protocol(self.protocol, data)
        require("torch", extra="neural", purpose=type(self).__name__)
        generator = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self._remember(data)
        self.weights_ = {
            name: value.astype(data.logits.dtype)
            for name, value in self._initial(data, generator).items()
        }
        self._train(data, generator)

    def _train(self, data: FitData, generator: np.random.Generator) -> None:
        import torch

        from gnncal.calibrators.neural.training import train

        weights = {
            name: torch.from_numpy(value).requires_grad_(self._is_trained(name))
            for name, value in self.weights_.items()
        }
        fitted, watched = self._split(data, generator)
        paper = self.protocol == "paper"
        run = train(
            weights,
            loss=self._objective(data, *fitted, weights, generator),
            monitor=None if watched is None else self._monitor(data, *watched, weights),
            max_epochs=protocols.PAPER_EPOCHS if paper else self.max_epochs,
            patience=protocols.PAPER_PATIENCE if paper else self.patience,
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
        self, data: FitData, generator: np.random.Generator
    ) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray] | None]:
        """Return the nodes and labels to train on, and those to watch."""
        everything = data.nodes, data.labels
        stop_on = "train" if self.protocol == "paper" else self.stop_on
        n_held_out = int(HELD_OUT_SHARE * data.nodes.size)
        if stop_on == "held-out" and n_held_out < FEWEST_HELD_OUT_NODES:
            stop_on = self._fall_back(data)
        if stop_on == "none":
            return everything, None
        if stop_on == "train":
            if data.train_nodes.size == 0:
                raise InputError(
                    "stop_on='train' watches the training nodes' loss; pass train_nodes."
                )
            return everything, (data.train_nodes, data.train_labels)
        order = generator.permutation(data.nodes.size)
        held, kept = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
        return (data.nodes[kept], data.labels[kept]), (data.nodes[held], data.labels[held])

    def _fall_back(self, data: FitData) -> StopOn:
        """How to stop when there are too few nodes to hold some out."""
        instead: StopOn = "train" if data.train_nodes.size else "none"
        warnings.warn(
            f"{type(self).__name__} has only {data.nodes.size} calibration nodes, too few to hold "
            f"some out; stop_on={instead!r} is used instead. 'ts' usually does better on so few.",
            GnncalWarning,
            stacklevel=7,
        )
        return instead

    def _objective(
        self, data: FitData, rows: IntArray, labels: IntArray, weights: Any, noise: Noise
    ) -> Any:
        inputs, logits, targets = self._constants(data, rows, labels)
        return lambda: self._loss(weights, inputs, logits, targets, noise)

    def _monitor(self, data: FitData, rows: IntArray, labels: IntArray, weights: Any) -> Any:
        from torch.nn.functional import cross_entropy

        inputs, logits, targets = self._constants(data, rows, labels)
        return lambda: float(cross_entropy(self._scores(weights, inputs, logits, None), targets))

    def _constants(
        self, data: FitData, rows: IntArray, labels: IntArray
    ) -> tuple[Any, Tensor, Tensor]:
        import torch

        assert data.graph is not None
        inputs = self._inputs(data.logits, data.graph, None, rows)
        logits = torch.from_numpy(bounded(data.logits[rows]))
        return inputs, logits, torch.from_numpy(labels)

    def _tensors(self, dtype: np.dtype[Any]) -> dict[str, Tensor]:
        import torch

        return {
            name: torch.from_numpy(value.astype(dtype)) for name, value in self.weights_.items()
        }

    def _report(self, data: FitData, scores: FloatArray) -> FitReport:
        """Make the report from the calibrated logits (n, n_classes) of the calibration nodes."""
        ones = np.ones(data.nodes.size)
        return FitReport.of(data, TemperatureLoss(scores, data.labels).value(ones))


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

    def _fit(self, data: FitData) -> None:
        super()._fit(data)
        self.temperature_ = self._temperature(data.logits, data.graph, None)
        scaled = data.logits[data.nodes].astype(np.float64)
        scaled /= self.temperature_[data.nodes, None]
        self.fit_report_ = self._report(data, scaled)

    def _temperature(
        self, logits: FloatArray, graph: Graph | None, known_labels: IntArray | None
    ) -> FloatArray:
        torch = require("torch", extra="neural", purpose=type(self).__name__)
        assert graph is not None
        rows = np.arange(len(logits))
        inputs = self._inputs(logits, graph, known_labels, rows)
        with torch.no_grad():
            output = self._network(self._tensors(logits.dtype), inputs, None)
        found: FloatArray = within_range(output).numpy()
        return found


def within_range(values: Tensor) -> Tensor:
    """Temperatures or multipliers kept within [e^-5, e^5].

    A node at a limit gives no gradient. Published numbers were made so; letting gradients pass
    would change those of CaGCN, GETS and WATS.
    """
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
