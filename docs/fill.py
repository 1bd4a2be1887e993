"""Fill the marked parts of README and docs from records and captured runs.

    python docs/fill.py             # all of them
    python docs/fill.py PAGE ...    # of some pages, such as results.md

A part stands between `<!-- fill: NAME -->` and `<!-- end -->`, and NAME is a function of
`docs/filled/`. A test fails when a page differs from its source.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs")]

from filled import FILLS  # noqa: E402

PART = re.compile(r"(<!-- fill: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str, *, only: set[str] | None = None) -> str:
    """Return a page with its parts, or some of them, made again."""

    def made(part: re.Match[str]) -> str:
        if only is not None and part[2] not in only:
            return part[0]
        return f"{part[1]}{FILLS[part[2]]()}\n{part[3]}"

    return PART.sub(made, text)


def llms() -> str:
    """Return llms.txt: every page with its title and headings, for language models."""
    lines = [
        "# gnncal",
        "",
        "> Post-hoc calibration for graph neural networks: HoTS (NeurIPS 2026), other calibrators,",
        "> decisions with guarantees, monitoring, deployment.",
        "",
        "- [README](README.md): quick start, the HoTS paper, tasks, results",
        "- [AGENTS.md](AGENTS.md): commands and rules for coding agents",
        "",
        "## Documentation",
        "",
    ]
    for page in PAGES[1:]:
        text = re.sub(r"^---.*?---\n", "", page.read_text(), flags=re.S)
        title = re.search(r"^# (.+)$", text, flags=re.M)
        if title is None:  # a page that includes a file
            continue
        parts = re.findall(r"^## (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
        about = f": {' · '.join(parts)}" if parts else ""
        lines.append(f"- [{title[1]}](docs/{page.name}){about}")
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> None:
    """Write the pages again whose parts have changed."""
    (ROOT / "llms.txt").write_text(llms())
    for page in [page for page in PAGES if page.name in names or not names]:
        text = page.read_text()
        new = filled(text)
        if new != text:
            page.write_text(new)
            print(f"filled {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
