"""Calibrated confidence for graph neural networks.

A trained network gives logits; a calibrator turns them into probabilities that can be trusted.

Examples
--------
>>> import gnncal
>>> task = gnncal.example()  # logits, labels, graph and splits of a small real task
>>> result = gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)
>>> result.probabilities.shape
(1797, 10)

"""

import lazy_loader

__version__ = "0.1.0"

# The stub next to this file lists the names. They are loaded on first use: scikit-learn and SciPy
# take a second or two, which `import gnncal` should not cost.
__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
