"""The training parameters that every neural calibrator has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Any, ClassVar, Literal

from gnncal.calibrators import SEED, Constraint, Protocol, number, one_of, whole_number

ENTRY = re.compile(r"^(?=\w+ : )", re.M)  # where the description of a parameter begins
ENTRY_OF_TRAINING = re.compile(r"^\*\*training : .*\n(?: .*\n)+", re.M)
StopOn = Literal["held-out", "train", "none"]


class TrainingParameters:
    """How a network is trained; a subclass takes these as ``**training`` in its constructor.

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

    training_constraints: ClassVar[dict[str, Constraint]] = {
        "protocol": one_of("converged", "paper"),
        "stop_on": one_of("held-out", "train", "none"),
        "max_epochs": whole_number(at_least=1),
        "patience": whole_number(at_least=1),
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            own = dict(inspect.signature(cls.__init__).parameters)
            own.pop("training")
            shared = inspect.signature(TrainingParameters.__init__).parameters
            added = {name: each for name, each in shared.items() if name not in own}
            # scikit-learn reads a constructor's signature to list, show and clone its parameters.
            cls.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [*own.values(), *added.values()], return_annotation=None
            )
            cls.__doc__ = _spelt_out(inspect.cleandoc(cls.__doc__ or ""), added)


def _spelt_out(docstring: str, added: Collection[str]) -> str:
    """Return a docstring with the training parameters in place of ``**training``."""
    described = (inspect.getdoc(TrainingParameters) or "").partition("----------\n")[2]
    entries = [each for each in ENTRY.split(described) if each.partition(" : ")[0] in added]
    return ENTRY_OF_TRAINING.sub(lambda _: "".join(entries).rstrip() + "\n", docstring)
