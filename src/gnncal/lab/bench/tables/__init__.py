"""Tables of a benchmark as data, filled from records; ``rendering/bench`` writes them out."""
