"""Calibrators to compare with: other publications' methods and the ablations of ours."""
