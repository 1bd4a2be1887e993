"""Bundles: everything one calibration run needs, read from a file or a folder."""

from gnncal.files.bundle import (
    Bundle,
    read_bundle,
    read_probabilities,
    write_decisions,
    write_probabilities,
)

__all__ = [
    "Bundle",
    "read_bundle",
    "read_probabilities",
    "write_decisions",
    "write_probabilities",
]
