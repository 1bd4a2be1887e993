"""Train a GCN on Cora, report on its calibration, and take two pictures of the report.

    python docs/screenshots.py docs/images

`report.png` is the top of the page, `gain.png` (for the README) its verdict and charts alone.

Needs the extras ``neural``, ``datasets``, ``report`` and ``browser``, and Debian's chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import gnncal
from gnncal_lab.classifiers import train_classifier
from gnncal_lab.datasets import load, random_split

WIDTH = 1080
TOP = "section:not(#verdict, #reliability) { display: none }"
CHARTS_ALONE = """
header, nav, #verdict > :not(.verdict), #reliability > :not(.panels) { display: none }
section { border: none !important; padding: 0 !important; margin: 16px 0 !important }
"""
PICTURES = {"report.png": (TOP, 1130), "gain.png": (TOP + CHARTS_ALONE, 620)}  # style, height


def make_report(path: Path) -> Path:
    """Report on a GCN with the paper's settings and its first split."""
    cora = load("Cora")
    split = random_split(cora.graph.n_nodes, seed=0)
    classifier = train_classifier("gcn", cora, split, seed=0)
    report = gnncal.report(
        classifier.logits(),
        cora.labels,
        cora.graph,
        nodes=split.validation,
        train_nodes=split.train,
        test_nodes=split.test,
        title="A GCN on Cora",
    )
    print(report)
    return report.save(path)


def take_pictures(page_file: Path, folder: Path) -> None:
    """Open a report and save each picture of it."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is missing; install Debian's package of that name.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (style, height) in PICTURES.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": height})
            page.goto(page_file.resolve().as_uri())
            page.add_style_tag(content=style)
            page.locator(".chart:visible:not([data-drawn])").first.wait_for(state="detached")
            page.screenshot(path=folder / name)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        take_pictures(make_report(Path(temporary) / "report.html"), Path(sys.argv[1]))
