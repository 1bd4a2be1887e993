"""Bundles: everything one calibration run needs, read from a file or a folder."""

from gnncal.files.bundle import (
    DECISION_FILES,
    PROBABILITY_FILES,
    Bundle,
    read_bundle,
    read_column,
    read_probabilities,
    write_decisions,
    write_probabilities,
)

__all__ = [
    "DECISION_FILES",
    "PROBABILITY_FILES",
    "Bundle",
    "read_bundle",
    "read_column",
    "read_probabilities",
    "write_decisions",
    "write_probabilities",
]
