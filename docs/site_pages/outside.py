"""Links from pages to files outside of docs/, which on the site are pages or downloads.

The same pages are read in the repository, where such links lead to the files themselves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[\w./-]+)(#[\w-]+)?\)")
DOCS = Path(__file__).parents[1]
PAGES = {
    "../README.md": "index.md",
    "../CHANGELOG.md": "changelog.md",
    "../ARCHITECTURE.md": "architecture.md",
    "../CONTRIBUTING.md": "contributing.md",
}


def redirect(link: re.Match[str]) -> str:
    """Return the link to a page of the site or to a copy of the file; a folder is only named."""
    text, path, anchor = link.groups()
    if path in PAGES:
        return f"[{text}]({PAGES[path]}{anchor or ''})"
    if (DOCS / path).is_dir():
        return text if text.startswith("`") else f"`{text}`"
    return f"{{download}}`{text} <{path}>`"


def read_source(app: Any, name: str, source: list[str]) -> None:
    """Rewrite such links in a page before it is parsed; pages in folders are made for the site."""
    if "/" not in name:
        source[0] = LINK.sub(redirect, source[0])


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
