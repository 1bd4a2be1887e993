"""ARCHITECTURE.md describes the package as it is.

The tree has an entry for each folder, two spaces deeper than the folder around it, and one for each
file that lies in no folder. The files of a folder are the folder's to list, not the page's.
"""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import gnncal

PACKAGE = Path(gnncal.__file__).parent
TEXT = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text()
FOLDERS = {
    file.parent.relative_to(PACKAGE).as_posix()
    for file in PACKAGE.rglob("*.py")
    if file.parent != PACKAGE
}
FILES = {file.name for file in PACKAGE.glob("*.py") if file.stem[:2] != "__"}


def described():
    """The folders and single files that the tree has entries for, as paths in the package."""
    found, place = set(), []
    tree = TEXT.split("```")[1].partition("src/gnncal/\n")[2].partition("\nsrc/gnncal_lab/")[0]
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for part in re.split(r" {4,}", line.strip()):  # a line may have room for two
            heading = re.match(r"(\w+)(/|\.py)(?= |$)", part)
            if heading:
                name, kind = heading.groups()
                place = [*place[: depth - 1], name]
                found.add("/".join(place) + ("" if kind == "/" else kind))
    return found


@pytest.mark.parametrize("name", sorted(FILES | {name for name in FOLDERS if "/" not in name}))
def test_the_tree_has_an_entry_for_each_folder_and_each_file_outside_of_them(name):
    assert name in described()


def test_the_tree_names_nothing_that_is_not_there():
    assert described() <= FOLDERS | FILES


def everyday_changes():
    section = TEXT.partition("## Everyday changes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|(?: (\d) \|)?$", section, re.M)
    return [row for row in rows if row[0] != "change"]


@pytest.mark.parametrize(
    ("change", "files", "counted"), everyday_changes(), ids=lambda text: text[:40]
)
def test_an_everyday_change_touches_at_most_three_files_all_of_them_there(change, files, counted):
    named = re.findall(r"`([\w/]+(?:\.pyi?|\.toml|\.md|/))`", files)
    assert len(named) <= 3, change
    assert counted in ("", str(len(named))), change
    for name in named:
        root = PACKAGE.parent.parent if name.endswith((".toml", ".md")) else PACKAGE
        root = PACKAGE.parent if name.startswith("gnncal_lab/") else root
        assert (root / name.removeprefix("gnncal/")).exists(), name


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py")))
def test_a_benchmark_imports_only_what_the_packages_have(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gnncal"):
            try:
                module = import_module(node.module)
            except ModuleNotFoundError as error:  # of a package that is not installed here
                if (error.name or "").startswith("gnncal"):
                    raise
                continue
            for name in (each.name for each in node.names):
                assert hasattr(module, name) or find_spec(f"{node.module}.{name}"), name
