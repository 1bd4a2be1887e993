"""GCL, the graph calibration loss (Wang et al., ACM MM 2022), its factor chosen by validation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gnncal_lab.classifiers.backbones import train_classifier, training_settings
from gnncal_lab.classifiers.settings import TrainingSettings
from gnncal_lab.datasets import Dataset, Split

if TYPE_CHECKING:
    from gnncal_lab.classifiers.training import TrainedClassifier

# The publication's factors by data set are not to be found; these cover the range it is used in.
GAMMAS = (0.1, 0.5, 1.0, 2.0, 5.0)


def train_with_gcl(
    backbone: str,
    dataset: Dataset,
    split: Split,
    *,
    seed: int,
    settings: TrainingSettings | None = None,
) -> TrainedClassifier:
    r"""Train with the loss :math:`-(1 + \gamma p_y) \ln p_y`, once for each of :data:`GAMMAS`."""
    settings = settings or training_settings(backbone, dataset.name)
    trained = (
        train_classifier(
            backbone,
            dataset,
            split,
            seed=seed,
            settings=replace(settings, loss="gcl", gamma=gamma),
        )
        for gamma in GAMMAS
    )
    return min(trained, key=lambda classifier: classifier.validation_loss)
