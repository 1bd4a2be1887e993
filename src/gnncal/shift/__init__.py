"""After a fit: distribution shift of new nodes, and calibration as labels arrive."""

from gnncal.shift.updates import updated as updated

__all__: list[str] = []  # check, Watch and Calibrator.update are its doors
