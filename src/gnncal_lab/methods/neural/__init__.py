"""Calibrators that learn a small network; they need the extra ``neural``.

The classes import torch only when they work, so that listing them costs nothing.
"""
