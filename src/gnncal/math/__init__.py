"""Formulas of the publications for arrays and tensors, and how their numbers are fitted."""
