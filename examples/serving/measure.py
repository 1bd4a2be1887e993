"""Measure how much longer an answer takes with calibration: medians of calls in turn.

python examples/serving/measure.py run
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from service import Service


def milliseconds(run: object) -> float:
    """Return how long a call takes."""
    start = perf_counter()
    run()
    return 1000 * (perf_counter() - start)


def main() -> None:
    """Ask for the whole graph with and without the calibrator, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="written by prepare.py")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    service = Service(options.folder)
    model, inputs = service.model, (service.x, service.edge_index)

    bare, calibrated = [], []
    with torch.inference_mode():
        model(*inputs)  # groups the edges, once for the life of the service
        for _ in range(options.rounds):
            bare.append(milliseconds(lambda: model.model(*inputs).softmax(dim=1)))
            calibrated.append(milliseconds(lambda: model(*inputs)))
    more = [b - a for a, b in zip(bare, calibrated, strict=True)]
    found = {
        "n_nodes": len(service.x),
        "n_edges": service.edge_index.shape[1],
        "bare_p50_ms": median(bare),
        "calibrated_p50_ms": median(calibrated),
        "overhead_p50_ms": median(more),
    }
    print(json.dumps({k: round(v, 3) for k, v in found.items()}))
    print(
        f"p50 of the bare model {found['bare_p50_ms']:.2f} ms, calibrated "
        f"{found['calibrated_p50_ms']:.2f} ms: calibration adds {found['overhead_p50_ms']:.2f} ms"
    )


if __name__ == "__main__":
    main()
