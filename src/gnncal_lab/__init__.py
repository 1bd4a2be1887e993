"""Comparison methods, data sets, classifiers, benchmark and block model of the paper.

Researchers use this package to compare calibrators and to reproduce the paper. ``gnncal`` never
imports it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
