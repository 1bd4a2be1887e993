"""The methods that stand for the others in ``make test``; ``make test-all`` tests every one."""

import pytest

QUICK = ("uncalibrated", "ts", "svs", "irm", "hots", "structural", "structural-free", "cagcn")


def slow_unless(quick):
    return () if quick else (pytest.mark.slow,)


def each_of(names):
    """Parameters of a test: all of the names, and those that others stand for are slow."""
    return [pytest.param(name, marks=slow_unless(name in QUICK)) for name in names]
