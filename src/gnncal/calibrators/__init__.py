"""Calibrators: one file a method, all behind ``fit`` and ``predict_proba``."""
