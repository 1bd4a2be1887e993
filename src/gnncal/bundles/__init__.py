"""Bundles: everything one calibration run needs, read from a file or a folder."""

from gnncal.bundles.bundle import (
    PROBABILITY_FILES,
    Bundle,
    read_bundle,
    read_probabilities,
    write_probabilities,
)

__all__ = [
    "PROBABILITY_FILES",
    "Bundle",
    "read_bundle",
    "read_probabilities",
    "write_probabilities",
]
