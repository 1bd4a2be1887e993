"""The paper's six graph neural networks, trained as in the paper. Needs ``gnncal[neural]``."""

from gnncal_lab.classifiers.backbones import list_classifiers, train_classifier, training_settings
from gnncal_lab.classifiers.settings import TrainingSettings

__all__ = ["TrainingSettings", "list_classifiers", "train_classifier", "training_settings"]
