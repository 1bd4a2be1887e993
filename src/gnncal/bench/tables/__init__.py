"""Tables of a benchmark as data, filled from records; ``report/bench`` writes them out."""
