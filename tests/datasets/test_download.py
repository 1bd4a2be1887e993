"""Missing raw files are fetched by the library that knows their address, and by nothing else."""

import sys
from pathlib import Path

import pytest

import gnncal
from gnncal.datasets import FACTS, load
from gnncal.datasets.download import download

FROM_PYG = [name for name in FACTS if "torch_geometric" in FACTS[name].family.source]


def source_class(name):
    module, _, class_name = FACTS[name].family.source.rpartition(".")
    return getattr(pytest.importorskip(module), class_name)


@pytest.mark.parametrize("name", FROM_PYG)
def test_the_source_puts_the_files_where_the_loader_looks_and_processes_nothing(
    name, tmp_path, monkeypatch
):
    source = source_class(name)

    def write_placeholders(self):
        for path in self.raw_paths:
            Path(path).write_text(f"raw file of {name}")

    monkeypatch.setattr(source, "download", write_placeholders)
    monkeypatch.setattr(source, "process", lambda self: pytest.fail("was processed"))
    download(name, FACTS[name], tmp_path)
    for file in FACTS[name].files:
        assert (tmp_path / FACTS[name].folder / file).read_text() == f"raw file of {name}"
    assert not list(tmp_path.glob(".download-*"))


def test_a_broken_download_is_one_clear_sentence_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(self):
        Path(self.raw_paths[0]).write_text("half a file")
        raise OSError("no route to host")

    monkeypatch.setattr(source_class("Photo"), "download", fail)
    root = tmp_path / "data"
    with pytest.raises(gnncal.InputError, match=r"Photo are not in .*Photo/raw and could not be"):
        load("Photo", root)
    assert list(root.iterdir()) == []


def test_without_the_library_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.datasets", None)
    with pytest.raises(gnncal.MissingExtraError, match=r"gnncal\[pyg\]"):
        load("Photo", tmp_path)
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(gnncal.MissingExtraError, match=r"gnncal\[datasets\]"):
        load("ogbn-arxiv", tmp_path)
