"""Code that people start from uses public names only."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import gnncal
from site_pages.reference import public_modules

ROOT = Path(__file__).parents[2]
SCRIPTS = [*ROOT.glob("templates/**/*.py"), *ROOT.glob("examples/**/*.py")]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob("docs/*.md")]
PUBLIC = {module.__name__ for module in public_modules()}


def imports(code):
    """Every ``from gnncal... import name`` and ``import gnncal...`` of some code."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gnncal":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "gnncal":
                    yield alias.name, None


def private(code):
    for module, name in imports(code):
        if module not in PUBLIC:
            yield module
        elif name is not None and name not in importlib.import_module(module).__all__:
            yield f"{module}.{name}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_template_or_an_example_imports_public_names_only(script):
    assert not list(private(script.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_imports_public_names_only(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
    lines = re.findall(r"^ *(from gnncal[\w.]* import [\w, ]+)$", page.read_text(), flags=re.M)
    assert not {name for code in [*blocks, *lines] for name in private(code)}


def test_the_test_above_sees_a_private_import():
    assert list(private("from gnncal.data.constraints import TEXT")) == ["gnncal.data.constraints"]
    assert list(private("from gnncal.calibrators import os")) == ["gnncal.calibrators.os"]
    assert list(private("import gnncal\nfrom gnncal.calibrators import Array")) == []


def test_what_a_plugin_needs_is_the_same_object_wherever_it_is_public():
    for name in set(gnncal.calibrators.__all__) & set(gnncal.__all__):
        assert getattr(gnncal.calibrators, name) is getattr(gnncal, name)
