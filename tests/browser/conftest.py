"""A real browser. Its tests are skipped where none is installed, and fail for that in CI."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def _missing(reason: str) -> None:
    if os.environ.get("GNNCAL_ENGINES") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is missing: pip install 'gnncal[browser]'")
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        _missing("chromium is missing: install Debian's package of that name")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """An open page, with everything that it complained of and asked for."""

    page: object
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def draw_everything(self) -> None:
        """Unfold and scroll, so that every chart comes into view, and wait until it is drawn."""
        self.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
        charts = self.page.locator(".chart:visible")
        for chart in charts.all():
            chart.scroll_into_view_if_needed()
        self.page.locator(".chart:visible:not([data-drawn])").first.wait_for(state="detached")

    def wait_until(self, condition: str) -> None:
        """Wait until an expression is true; the page forbids eval, which is Playwright's way."""
        for _ in range(600):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(100)
        pytest.fail(f"never true: {condition}")

    def overflow(self) -> int:
        """Pixels by which the page is wider than the screen."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture
def visit(chromium) -> Iterator:
    """Open a file as a user would: ``visit(path, width=390, dark=True)``."""
    contexts = []

    def open_page(path: Path, *, width: int = 1200, dark: bool = False) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        opened = Visit(page)
        page.on(
            "console",
            lambda message: (
                opened.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(path.as_uri())
        return opened

    yield open_page
    for context in contexts:
        context.close()


def violations(page) -> list[str]:
    """What axe-core finds serious or critical, as text."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{entry['id']}: {entry['nodes'][0]['html'][:200]}"
        for entry in found
        if entry["impact"] in ("serious", "critical")
    ]
