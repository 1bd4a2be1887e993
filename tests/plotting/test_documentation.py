"""The page on charts and the examples in docstrings run as they are printed."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from gnncal.bundles.npz import write_bundle
from tests.bench.graphs import frozen_bundle

pytest.importorskip("matplotlib")
PAGE = Path(__file__).parents[2] / "docs" / "plotting.md"
MODULES = (
    "gnncal.inspection.homophily",
    "gnncal.inspection.temperature",
    "gnncal.metrics.proportions",
    "gnncal.plotting.homophily_split",
    "gnncal.plotting.reliability",
    "gnncal.plotting.risk_coverage",
    "gnncal.plotting.temperature",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_show_what_really_comes(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo-output").mkdir()
    write_bundle(Path("demo-output/bundle.npz"), frozen_bundle(0))
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, names)
    assert Path("reliability.pdf").read_bytes().startswith(b"%PDF")
    assert len(names["ax"].lines) == 4  # two curves, two references


def test_every_picture_of_the_page_is_there():
    for picture in re.findall(r"\]\((images/[^)]+)\)", PAGE.read_text()):
        assert (PAGE.parent / picture).is_file()
