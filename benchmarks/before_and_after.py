"""Is this version as quick and as small as an earlier one? The same work in both, in turn.

    git worktree add /tmp/earlier COMMIT
    python benchmarks/before_and_after.py /tmp/earlier \
        --out build/before_and_after.json

Every measurement is a process of its own that imports one of the two trees. It does the work once
to load what it needs, and then several times: the smallest CPU time counts, so a busy machine
disturbs little. Peak memory is that of the whole process. Rounds alternate between the trees, and
the ratio of each pair of neighbours is what is reported: median, smallest and largest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

PIECES = ("calibrate", "report", "hots", "structural-temperature")
HERE = Path(__file__).resolve().parents[1]
WORK = """
import json, resource, sys, time, warnings
import numpy as np
import gnncal

warnings.simplefilter("ignore")
piece, n, n_classes, degree = sys.argv[1], 20_000, 10, 10
generator = np.random.default_rng(0)
labels = generator.integers(n_classes, size=n)
logits = (generator.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[labels]).astype("float32")
ends = generator.integers(n, size=(2, degree * n))
splits = {"nodes": range(2000), "train_nodes": range(2000, 3000)}
test = {"test_nodes": range(3000, n)}

def work():
    graph = gnncal.Graph(ends, n)
    if piece == "report":
        gnncal.report(logits, labels, graph, **splits, **test, methods=["ts", "hots", "structural"])
    elif piece == "calibrate":
        gnncal.calibrate(logits, labels, graph, **splits, **test)
    else:
        fitted = gnncal.get_calibrator(piece).fit(logits, labels, graph, **splits)
        fitted.predict_proba(logits, graph)

def cpu_seconds():
    started = time.process_time()
    work()
    return time.process_time() - started

work()
seconds = [cpu_seconds() for _ in range(3)]
while sum(seconds) < 1:
    seconds.append(cpu_seconds())
print(json.dumps([min(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def measure(tree: Path, piece: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of a piece of work in a process that imports this tree."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", WORK, piece],
        env=os.environ | one_thread | {"PYTHONPATH": str(tree / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, mebibytes = json.loads(done.stdout)
    return seconds, mebibytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("earlier", type=Path, help="a checkout of the earlier version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {}
    for piece in PIECES:
        pairs = [
            (measure(options.earlier, piece), measure(HERE, piece)) for _ in range(options.rounds)
        ]
        results[piece] = {}
        for place, what in enumerate(("cpu_seconds", "peak_mebibytes")):
            ratios = [after[place] / before[place] for before, after in pairs]
            results[piece][what] = {
                "before": round(median(before[place] for before, _ in pairs), 3),
                "after": round(median(after[place] for _, after in pairs), 3),
                "ratio": [round(r, 3) for r in (median(ratios), min(ratios), max(ratios))],
            }
        print(piece, json.dumps(results[piece]), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
