"""Bundles: everything one calibration run needs, read from a file or a folder."""
