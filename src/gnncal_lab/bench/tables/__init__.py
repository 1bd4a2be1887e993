"""Tables of a benchmark as data, filled from records; ``lab/pages/bench`` writes them out."""
