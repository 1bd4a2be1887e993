"""How long a report on a million nodes takes, how large it is, and how quickly it opens.

    python benchmarks/report.py --out benchmarks/results/report.json

The graph is random, with 1 million nodes, 10 million edges and 10 classes; 100,000 calibration
and 500,000 test nodes. Opening is timed in chromium, from the request to the first chart; the
verdict does not wait for it and is there at the first paint. A machine that has other work to do
makes the clock say little, so CPU seconds stand beside it: those of the process by step, and those
of the browser's main thread.
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
        "calibration_nodes": val,
        "train_nodes": train,
        "test_nodes": test,
    }


def openings(page_file: Path) -> dict[str, list[float]]:
    """Open a page several times: seconds to the first paint, to the first chart, and of CPU."""
    from playwright.sync_api import sync_playwright

    found: dict[str, list[float]] = {"painting": [], "opening": [], "opening_cpu": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(OPENINGS):
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            start = time.perf_counter()
            page.goto(page_file.as_uri())
            page.wait_for_selector("#homophily-chart[data-drawn]")
            found["opening"].append(time.perf_counter() - start)
            numbers = session.send("Performance.getMetrics")["metrics"]
            found["opening_cpu"] += [n["value"] for n in numbers if n["name"] == "TaskDuration"]
            paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            found["painting"].append(page.evaluate(paint) / 1000)
            page.close()
        browser.close()
    return found


class Steps:
    """CPU seconds of each step of a report, by what it says of itself."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []

    def __call__(self, step: str) -> None:
        self.begun.append((step, time.process_time()))

    def seconds(self) -> dict[str, float]:
        ends = [begin for _, begin in self.begun[1:]]
        steps = zip(self.begun, ends, strict=False)
        return {step: round(end - begin, 2) for (step, begin), end in steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    options = parser.parse_args()
    task = make_task(options.nodes, options.edges, np.random.default_rng(0))
    steps = Steps()
    start = time.perf_counter()
    steps("loading and checking")
    made = gnncal.report(**task, progress=steps)
    steps("end")
    total = time.perf_counter() - start
    cpu = steps.seconds()
    calibrating = sum(seconds for step, seconds in cpu.items() if step.startswith("calibrating"))
    # Each method is fitted twice: once for everything, once without the nodes held out.
    calibration = 2 * sum(found.seconds for found in made.findings.methods.values())
    with tempfile.TemporaryDirectory() as folder:
        page_file = made.save(Path(folder) / "report.html")
        result = {
            "nodes": options.nodes,
            "edges": options.edges,
            "calibration_seconds": round(calibration, 2),
            "seconds_beyond": round(total - calibration, 2),
            "cpu_seconds": {
                "calibrating": round(calibrating, 2),
                "beyond": round(sum(cpu.values()) - calibrating, 2),
            },
            "cpu_seconds_by_step": cpu,
            "megabytes": round(page_file.stat().st_size / 1e6, 2),
            **{
                f"{name}_seconds": [round(value, 2) for value in values]
                for name, values in openings(page_file).items()
            },
            "peak_gigabytes": round(
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2, 2
            ),
        }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
