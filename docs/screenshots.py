"""Train a GCN on Cora, report on its calibration, and take the picture that the README shows.

    python docs/screenshots.py docs/images/report.png

Needs the extras ``neural``, ``datasets``, ``report`` and ``browser``, and Debian's chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import gnncal
from gnncal.classifiers import train_classifier
from gnncal.datasets import load, random_split

WIDTH, HEIGHT = 1080, 1130
SHOWN = ("verdict", "reliability")  # the sections in the picture


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


def take_picture(page_file: Path, picture: Path) -> None:
    """Open a report and save a picture of some of its sections."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is missing; install Debian's package of that name.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(page_file.resolve().as_uri())
        hidden = ", ".join(f"section:not(#{SHOWN[0]}, #{name})" for name in SHOWN[1:])
        page.add_style_tag(content=f"{hidden} {{ display: none }}")
        page.locator(".chart:visible:not([data-drawn])").first.wait_for(state="detached")
        page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        take_picture(make_report(Path(folder) / "report.html"), Path(sys.argv[1]))
