"""How long a report on a million nodes takes, how large it is, and how quickly it opens.

    python benchmarks/report.py --out benchmarks/results/report.json

The graph is random, with 1 million nodes, 10 million edges and 10 classes; 100,000 calibration
and 500,000 test nodes. Opening is timed in chromium, from the request to the first chart.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import gnncal

N_CLASSES = 10
SAME_CLASS = 0.6  # share of edges that are made within a class
OPENINGS = 5


def make_task(n_nodes: int, n_edges: int, generator: np.random.Generator) -> dict[str, object]:
    labels = generator.integers(0, N_CLASSES, n_nodes)
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels, minlength=N_CLASSES)
    start = np.cumsum(size) - size
    source = generator.integers(0, n_nodes, n_edges // 2)
    own = labels[source]
    inside = order[start[own] + (generator.random(len(source)) * size[own]).astype(np.int64)]
    anywhere = generator.integers(0, n_nodes, len(source))
    target = np.where(generator.random(len(source)) < SAME_CLASS, inside, anywhere)
    edges = np.stack([np.r_[source, target], np.r_[target, source]])
    logits = 2 * generator.normal(size=(n_nodes, N_CLASSES)).astype(np.float32)
    logits[np.arange(n_nodes), labels] += 4
    cuts = [n_nodes // 20, 3 * n_nodes // 20, 13 * n_nodes // 20]
    train, val, test, _ = np.split(generator.permutation(n_nodes), cuts)
    known = np.full(n_nodes, -1)
    for nodes in (train, val, test):
        known[nodes] = labels[nodes]
    return {
        "logits": logits,
        "labels": known,
        "graph": gnncal.Graph(edges, n_nodes),
        "nodes": val,
        "train_nodes": train,
        "test_nodes": test,
    }


def opening_seconds(page_file: Path) -> list[float]:
    from playwright.sync_api import sync_playwright

    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(OPENINGS):
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            start = time.perf_counter()
            page.goto(page_file.as_uri())
            page.wait_for_selector("#homophily-chart[data-drawn]")
            seconds.append(time.perf_counter() - start)
            page.close()
        browser.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    options = parser.parse_args()
    task = make_task(options.nodes, options.edges, np.random.default_rng(0))
    start = time.perf_counter()
    made = gnncal.report(**task)
    total = time.perf_counter() - start
    # Each method is fitted twice: once for everything, once without the nodes held out.
    calibration = 2 * sum(found.seconds for found in made.inspection.methods.values())
    with tempfile.TemporaryDirectory() as folder:
        page_file = made.save(Path(folder) / "report.html")
        result = {
            "nodes": options.nodes,
            "edges": options.edges,
            "calibration_seconds": round(calibration, 2),
            "seconds_beyond": round(total - calibration, 2),
            "megabytes": round(page_file.stat().st_size / 1e6, 2),
            "opening_seconds": [round(value, 2) for value in opening_seconds(page_file)],
            "peak_gigabytes": round(
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2, 2
            ),
        }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
