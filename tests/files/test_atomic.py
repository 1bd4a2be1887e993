"""Single files appear whole, follow links, and never take the place of what is not ours."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import gnncal
from gnncal.files import write_probabilities
from gnncal.files.atomic import SIGN, write_atomically
from tests.gnncal_lab.bench.graphs import frozen_bundle

OURS = SIGN.encode()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def fitted():
    bundle = frozen_bundle(0)
    return gnncal.TemperatureScaling().fit(bundle.logits, bundle.labels)


def test_a_saved_calibrator_replaces_a_calibrator_and_no_weights(tmp_path, fitted):
    path = tmp_path / "model.pt"
    fitted.save(path)
    fitted.save(path)
    path.write_bytes(b"weights of a model")
    with pytest.raises(gnncal.InputError, match="is no file of gnncal, so it is not replaced"):
        fitted.save(path)
    assert path.read_bytes() == b"weights of a model"
    assert names(tmp_path) == ["model.pt"]


def test_an_empty_file_may_be_filled(tmp_path, fitted):
    (tmp_path / "c.safetensors").touch()
    fitted.save(tmp_path / "c.safetensors")
    assert gnncal.load(tmp_path / "c.safetensors")


@pytest.mark.parametrize("as_parquet", [False, True])
def test_probabilities_are_known_again(tmp_path, as_parquet):
    bundle = frozen_bundle(0)
    probs = gnncal.softmax(bundle.logits)
    for _ in range(2):
        path = write_probabilities(tmp_path, bundle, probs, None, as_parquet=as_parquet)
    if not as_parquet:
        with np.load(path) as arrays:
            assert arrays["probs"].shape == probs.shape
    path.write_bytes(b"mine")
    with pytest.raises(gnncal.InputError, match="is no file of gnncal"):
        write_probabilities(tmp_path, bundle, probs, None, as_parquet=as_parquet)


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_diagram_is_known_again(tmp_path, ending):
    pytest.importorskip("matplotlib")
    from gnncal.metrics import reliability_bins
    from gnncal.plotting import save_reliability

    bins = reliability_bins([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    for _ in range(2):
        save_reliability({"all nodes": {"raw": bins}}, tmp_path / f"one.{ending}")


def test_the_weights_of_a_model_of_ours_are_known_again(tmp_path, fitted):
    torch = pytest.importorskip("torch")
    from gnncal.torch import CalibratedModel

    model = CalibratedModel(torch.nn.Linear(3, 3), fitted)
    for _ in range(2):
        model.save(tmp_path / "run")
    for file in (tmp_path / "run").iterdir():
        content = file.read_bytes()
        file.write_bytes(b"of another model")
        with pytest.raises(gnncal.InputError, match="is no file of gnncal"):
            model.save(tmp_path / "run")
        file.write_bytes(content)


def test_a_program_of_onnx_is_known_again(tmp_path, fitted):
    for package in ("torch", "onnx", "onnxscript"):
        pytest.importorskip(package)
    from gnncal.torch import export

    export(fitted.to_torch(), tmp_path / "c.onnx")
    export(fitted.to_torch(), tmp_path / "c.onnx")
    assert names(tmp_path) == ["c.onnx"]


def test_a_link_is_written_through_and_a_device_stays(tmp_path):
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", OURS)
    assert (tmp_path / "real").read_bytes() == OURS
    assert (tmp_path / "link").is_symlink()
    write_atomically(Path(os.devnull), OURS)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_the_number_of_an_open_file_is_written_to_where_it_stands(tmp_path):
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"before ")
        file.flush()
        write_atomically(Path(f"/dev/fd/{file.fileno()}"), OURS)
        file.seek(0, os.SEEK_END)
        file.write(b" after")
    assert (tmp_path / "file").read_bytes() == b"before " + OURS + b" after"


def test_modes_of_new_and_of_replaced_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", OURS)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(tmp_path / "new", OURS)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_tilde_does_not_become_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gnncal.InputError, match="begins with a tilde"):
        write_atomically(Path("~/report.html"), OURS)
    assert names(tmp_path) == []
