"""Graphs that do not fit in memory: from Parquet to Parquet with DuckDB or Spark."""

from gnncal.scale.run import calibrate

__all__ = ["calibrate"]
