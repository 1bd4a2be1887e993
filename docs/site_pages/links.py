"""Check that every link within a built site leads somewhere: files, and anchors in them.

python docs/site_pages/links.py build/docs
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the anchors that others may link to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what an element links to, and its own name."""
        values = {name: value or "" for name, value in attrs}
        self.links += [values[name] for name in ("href", "src") if name in values]
        self.anchors |= {values[name] for name in ("id", "name") if name in values}


def broken_links(site: Path) -> list[str]:
    """Return one line for each link that leads nowhere; other sites are not asked."""
    pages = {
        path.resolve(): Page(path.read_text())
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }
    broken = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = path.relative_to(site.resolve())
            if not target.is_file():
                broken.append(f"{where}: {link} is not there")
            elif where.parts[0] == "_modules":  # listings of code lead back to a name's page
                continue
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{where}: {link} has no such anchor")
    return broken


def main(folder: str) -> int:
    """Print what is broken; the exit code says whether anything is."""
    found = broken_links(Path(folder))
    print("\n".join(found) if found else "every link within the site leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
