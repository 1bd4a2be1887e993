"""Links between pages and files outside of docs/, which on the site are pages or downloads.

The same pages are read in the repository, where such links lead to the files themselves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[\w./-]+)(#[\w-]+)?\)")
LINK_AT_ROOT = re.compile(r"\]\((?!\w+:|#)")  # of a file in the root, which a page includes
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
DOCS = Path(__file__).parents[1]
PAGES = {
    "../README.md": "index.md",
    "../CHANGELOG.md": "development.md",
    "../CONTRIBUTING.md": "development.md",
    "../results/tables/README.md": "api/tables.md",
}


def redirect(link: re.Match[str]) -> str:
    """Return the link to a page of the site or to a copy of the file; a folder is only named."""
    text, path, anchor = link.groups()
    if path in PAGES:
        return f"[{text}]({PAGES[path]}{anchor or ''})"
    if (DOCS / path).is_dir():
        return text if text.startswith("`") else f"`{text}`"
    return f"{{download}}`{text} <{path}>`"


def redirected(text: str) -> str:
    """Return a page of docs/ with its links to files outside as the site has them."""
    return LINK.sub(redirect, text)


def moved_to_docs(text: str) -> str:
    """Return a file of the root as a page in docs/ would have it."""
    moved = LINK_AT_ROOT.sub("](../", text).replace("](../docs/", "](")
    return redirected(ANCHOR.sub(r"(\1)=", moved))


def read_page(app: Any, name: str, source: list[str]) -> None:
    """Redirect the links of a page; pages in folders are made for the site."""
    if "/" not in name:
        source[0] = redirected(source[0])


def read_included(app: Any, path: Path, parent: str, content: list[str]) -> None:
    """Redirect the links of a file of the root that a page includes."""
    content[0] = moved_to_docs(content[0])


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("source-read", read_page)
    app.connect("include-read", read_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
