"""A calibrator for gnncal, in a package of its own."""
