"""Count what one calibration and one report call: how often one file of the package calls another.

    python benchmarks/calls.py

The task is small, so that iterations weigh little. Everything is loaded before the count. Formulas
and backends are counted apart: a fit asks them in every iteration, as it asks NumPy. Counts depend
on the machine only where a solver needs another iteration.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import gnncal

ROOT = str(Path(gnncal.__file__).parent)
MATHEMATICS = ("math", "data")
NAMED = ("check_labels", "check_logits", "describe_neighbourhoods", "_fit")


def task(n=240):
    """Return arrays and splits of a random graph with four classes."""
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=n)
    logits = 2 * np.eye(4)[labels] + 1.5 * generator.normal(size=(n, 4))
    graph = gnncal.Graph(generator.integers(n, size=(2, 5 * n)), n)
    splits = {"nodes": range(80), "train_nodes": range(80, 100), "test_nodes": range(100, n)}
    return (logits, labels, graph), splits


def count(work):
    """Return the calls from file to file by the folder they enter, the files, and some names."""
    work()
    entered, files, names = Counter(), set(), Counter()

    def see(frame, event, _):
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(ROOT):
            return
        files.add(path)
        names[frame.f_code.co_name] += 1
        caller = frame.f_back.f_code.co_filename
        if caller.startswith(ROOT) and caller != path:
            entered[Path(path).relative_to(ROOT).parts[0]] += 1

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered, files, names


def main():
    """Print the counts of both functions."""
    warnings.simplefilter("ignore")
    (arrays, splits), works = task(), {"calibrate": gnncal.calibrate, "report": gnncal.report}
    for name, function in works.items():
        entered, files, names = count(lambda function=function: function(*arrays, **splits))
        mathematics = sum(entered[folder] for folder in MATHEMATICS)
        print(
            f"{name}: {entered.total():,} calls from file to file in {len(files)} files, "
            f"{entered.total() - mathematics:,} of them outside formulas and backends"
        )
        print("  " + ", ".join(f"{each} {names[each]}" for each in NAMED))


if __name__ == "__main__":
    main()
