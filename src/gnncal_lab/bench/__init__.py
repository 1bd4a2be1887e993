"""The paper's experiments: cells to run, records of them, statistics over the records."""
