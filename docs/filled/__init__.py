"""Parts of README and docs that are made from records and captured runs, by name."""

from __future__ import annotations

from filled import benchmarks, method, paper, runs  # noqa: F401
from filled.common import FILLS
from site_pages.reference import extras_table

FILLS["extras"] = lambda: extras_table().rstrip()

__all__ = ["FILLS"]
