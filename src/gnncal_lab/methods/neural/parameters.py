"""The training parameters that every neural calibrator has."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from gnncal.calibrators import integer, number, one_of
from gnncal_lab.fitting.parts import SEED, Protocol

StopOn = Literal["held-out", "train", "none"]


class TrainingParameters:
    """How a network is trained; the constructor of a subclass has these parameters too.

    Parameters
    ----------
    protocol : {"converged", "paper"}, default="converged"
        ``"converged"`` trains as ``stop_on``, ``max_epochs`` and ``patience`` say. ``"paper"`` is
        the common protocol of the GETS, WATS and HoTS papers: at most 1,000 epochs and a patience
        of 50 on the loss of the training nodes; it needs ``train_nodes``.
    stop_on : {"held-out", "train", "none"}, default="held-out"
        Whose cross-entropy decides which epoch is kept. ``"held-out"`` keeps a fifth of the
        calibration nodes out of the training for it: the network can overfit the nodes it is
        trained on, and the classifier has overfitted its training nodes. ``"train"`` watches those
        nevertheless, as most releases do, and is the fallback with fewer than ten calibration nodes
        where there are training nodes. ``"none"`` trains on every calibration node for
        ``max_epochs``.
    max_epochs : int, default=1000
        Largest number of epochs.
    patience : int, default=50
        Epochs without a lower loss after which training ends.
    learning_rate : float, default=0.01
        Step size of Adam. :func:`gnncal_lab.settings_for` has what publications used.
    weight_decay : float, default=0.0
        Multiple of the weights that is added to their gradient.
    random_state : int or numpy.random.Generator, default=0
        Seed of the initial weights, of dropout and of the held-out part. A generator works, but
        cannot be saved.

    """

    training_constraints: ClassVar = {
        "protocol": one_of("converged", "paper"),
        "stop_on": one_of("held-out", "train", "none"),
        "max_epochs": integer(at_least=1),
        "patience": integer(at_least=1),
        "learning_rate": number(above=0),
        "weight_decay": number(at_least=0),
        "random_state": SEED,
    }

    def __init__(
        self,
        *,
        protocol: Protocol = "converged",
        stop_on: StopOn = "held-out",
        max_epochs: int = 1000,
        patience: int = 50,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.protocol = protocol
        self.stop_on = stop_on
        self.max_epochs = max_epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
