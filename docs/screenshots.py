"""Take the picture of the report in docs/report.md.

    python docs/screenshots.py

Needs the extra ``report``, the group ``browser`` and Debian's chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import gnncal

PICTURE = Path(__file__).parent / "images" / "report.png"
SIZE = {"width": 1080, "height": 1130}
TOP = "section:not(#verdict, #reliability) { display: none }"


def main() -> None:
    """Report on the example, open the page and save its top."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is missing; install Debian's package of that name.")
    task = gnncal.example()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = gnncal.report(
            task.logits, task.labels, task.graph, **task.splits, title="Handwritten digits"
        )
        path = report.save(Path(folder) / "report.html")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(Path(path).resolve().as_uri())
        page.add_style_tag(content=TOP)
        page.locator(".chart:visible:not([data-drawn])").first.wait_for(state="detached")
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
