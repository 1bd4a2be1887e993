"""Take the pictures of pages that the documentation shows.

    gnncal demo && python docs/screenshots.py demo-output/report.html docs/images/report.png

Needs the extra ``browser`` and Debian's chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1200, 1500
SHOWN = ("#verdict", "#methods", "#reliability", "#groups")  # the others are left out


def main(page_file: Path, picture: Path) -> None:
    """Open a report and save a picture of its main sections."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is missing; install Debian's package of that name.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(page_file.resolve().as_uri())
        page.add_style_tag(
            content="section { display: none } "
            + ", ".join(f"section{name}" for name in SHOWN)
            + " { display: block } nav.bar { position: static }"
        )
        page.select_option("#grouping", "homophily")
        for chart in page.locator(".chart:visible").all():
            chart.scroll_into_view_if_needed()
        page.locator(".chart:visible:not([data-drawn])").first.wait_for(state="detached")
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
