"""Graphs that do not fit in memory: from Parquet to Parquet with DuckDB or Spark."""

from gnncal.scale.run import calibrate
from gnncal.scale.summary import read_summary

__all__ = ["calibrate", "read_summary"]
