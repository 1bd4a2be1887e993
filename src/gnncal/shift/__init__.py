"""After a fit: distribution shift of new nodes, and calibration as labels arrive."""
