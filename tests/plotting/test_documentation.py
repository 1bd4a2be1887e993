"""The code of the page on charts runs as it is printed."""

import re
from pathlib import Path

import pytest

from gnncal.files.bundle import write_bundle
from tests.gnncal_lab.bench.graphs import frozen_bundle

pytest.importorskip("matplotlib")
PAGE = Path(__file__).parents[2] / "docs" / "plotting.md"


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
