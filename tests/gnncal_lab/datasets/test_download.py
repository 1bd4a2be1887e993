"""Missing raw files are fetched by the library that knows their address, and by nothing else."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

import gnncal
from gnncal_lab.datasets import FACTS, load
from gnncal_lab.datasets.download import download

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


class PygNodePropPredDataset:
    """OGB's class as far as a download goes: an archive with more in it than is wanted."""

    contents = ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz", "split/README")

    def __init__(self, name, root):
        self.root = Path(root) / "_".join(name.split("-"))
        self.download()
        self._process()

    def download(self):
        for path in map(self.root.joinpath, self.contents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"from the archive: {path.name}")

    def _process(self):
        pytest.fail("was processed")


@pytest.fixture
def ogb(monkeypatch):
    class OwnClass(PygNodePropPredDataset):
        pass

    module = ModuleType("ogb.nodeproppred")
    module.PygNodePropPredDataset = OwnClass
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    return OwnClass


@pytest.mark.usefixtures("ogb")
def test_ogb_puts_the_files_where_the_loader_looks_and_processes_nothing(tmp_path):
    download("ogbn-arxiv", FACTS["ogbn-arxiv"], tmp_path)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.gz")}
    assert found == {f"ogbn_arxiv/raw/{file}" for file in FACTS["ogbn-arxiv"].files}
    for path in tmp_path.rglob("*.gz"):
        assert path.read_text() == f"from the archive: {path.name}"
    assert not list(tmp_path.glob(".download-*"))


@pytest.mark.parametrize("problem", ["network", "archive"])
def test_a_broken_download_from_ogb_leaves_nothing_that_would_be_read(tmp_path, ogb, problem):
    if problem == "archive":
        ogb.contents = ogb.contents[:2]  # without labels
    else:
        ogb.download = lambda self: (_ for _ in ()).throw(OSError("no route to host"))
    with pytest.raises(
        gnncal.InputError, match=r"ogbn-arxiv are not in .* could not be downloaded"
    ):
        load("ogbn-arxiv", tmp_path)
    assert not list(tmp_path.rglob("*.gz"))


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
