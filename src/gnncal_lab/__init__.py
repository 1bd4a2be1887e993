"""The laboratory: data sets, classifiers, the benchmark, the block model and its experiments.

What researchers need to compare calibrators and to reproduce the paper. Calibration itself lies in
the other folders and never imports this one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
