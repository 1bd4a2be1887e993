"""What everything else builds on: arrays and their checks, graphs, probabilities, errors."""
