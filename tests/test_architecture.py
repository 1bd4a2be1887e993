"""ARCHITECTURE.md describes the package as it is."""

import re
from pathlib import Path

import pytest

import gnncal

PACKAGE = Path(gnncal.__file__).parent
TEXT = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text()
FILES = [
    file.relative_to(PACKAGE) for file in sorted(PACKAGE.rglob("*.py")) if file.stem[:2] != "__"
]


def described():
    """The tree's text for each folder of the package; that of single files under "."."""
    sections, place = {}, []
    tree = TEXT.split("```")[1].partition("src/gnncal/\n")[2].partition("\ntests/")[0]
    for line in tree.splitlines():
        heading = re.match(r"( +)(\w+)(/|\.py) ", line)
        if heading and len(heading[1]) <= 4:
            depth = len(heading[1]) // 2
            place = [*place[: depth - 1], heading[2]] if heading[3] == "/" else []
        folder = "/".join(place) or "."
        sections[folder] = sections.get(folder, "") + line + "\n"
    return sections


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_tree_names_every_file_under_its_folder(file):
    assert re.search(rf"(?<!\w){file.name}\b", described()[file.parent.as_posix()])


def test_the_tree_names_no_file_that_is_not_there():
    for folder, text in described().items():
        there = {file.name for file in (PACKAGE / folder).glob("*.py")}
        assert set(re.findall(r"\w+\.py", text)) <= there


def everyday_changes():
    table = TEXT.partition("## Everyday changes")[2].split("|---|---|\n")[1].split("\n\n")[0]
    return [row.strip("| ").split(" | ") for row in table.splitlines()]


@pytest.mark.parametrize(("change", "files"), everyday_changes(), ids=lambda text: text[:40])
def test_an_everyday_change_touches_at_most_three_files_all_of_them_there(change, files):
    named = re.findall(r"`([\w/]+(?:\.py|\.toml|/))`", files)
    assert len(named) <= 3, change
    for name in named:
        root = PACKAGE.parent.parent if name == "pyproject.toml" else PACKAGE
        assert (root / name.removeprefix("gnncal/")).exists(), name
