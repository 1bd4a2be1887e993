"""The ground floor: arrays and their checks, graphs, probabilities, errors."""
