"""The report on a calibration: one interactive page."""
