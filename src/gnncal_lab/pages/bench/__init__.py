"""Tables and figures of a benchmark, written out."""
