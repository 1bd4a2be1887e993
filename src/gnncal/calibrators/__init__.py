"""Calibrators: one file for each method, all behind ``fit`` and ``predict_proba``."""
