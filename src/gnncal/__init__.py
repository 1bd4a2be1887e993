"""Calibrated confidence for graph neural networks.

A trained network gives logits; a calibrator turns them into probabilities that can be trusted.

Examples
--------
>>> import numpy as np
>>> import gnncal
>>> sample = gnncal.lab.simulation.CSBM(n_classes=3, separation=1).sample(np.full(400, 0.5))
>>> logits, labels, graph = 3 * sample.graph.features[:, :3], sample.labels, sample.graph
>>> calibrator = gnncal.Structural().fit(logits, labels, graph, nodes=range(200))
>>> calibrator.predict_proba(logits, graph).shape
(400, 3)

"""

import lazy_loader

__version__ = "0.1.0"

# The stub beside this file lists the names. They are loaded on first use: scikit-learn and SciPy
# take a second or two, which `import gnncal` should not cost.
__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
