"""Exported files give the module's probabilities for any number of nodes and edges."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from tests.strategies import small_task

torch = pytest.importorskip("torch")

from gnncal.torch import export  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning", "ignore::FutureWarning")


def fitted(method):
    return small_task().fit(gnncal.get_calibrator(method))


def other_inputs(module, n_nodes=45, n_edges=130):
    generator = np.random.default_rng(5)
    logits = 2 * generator.normal(size=(n_nodes, 3)).astype(np.float32)
    edges = generator.integers(n_nodes - 3, size=(2, n_edges))  # the last nodes are isolated
    return (logits, edges) if module.hops else (logits,)


def expected_of(method, inputs):
    graph = gnncal.Graph(inputs[1], len(inputs[0])) if len(inputs) == 2 else None
    return fitted(method).predict_proba(inputs[0], graph)


@pytest.mark.parametrize("method", ["sms", "hots", "structural-remainder"])
def test_onnxruntime_gives_the_calibrators_numbers_on_another_graph(method, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module, path = fitted(method).to_torch(), tmp_path / "calibrator.onnx"
    written = export(module, path, metadata={"note": 1})
    assert written.difference < 1e-5
    assert [file.name for file in tmp_path.iterdir()] == ["calibrator.onnx"]
    session = onnxruntime.InferenceSession(path)
    inputs = other_inputs(module)
    names = [each.name for each in session.get_inputs()]
    assert names == list(written.inputs) == ["logits", "edge_index"][: len(inputs)]
    (found,) = session.run(["probabilities"], dict(zip(names, inputs, strict=True)))
    np.testing.assert_allclose(found, expected_of(method, inputs), atol=1e-5, rtol=0)
    assert json.loads(session.get_modelmeta().custom_metadata_map["gnncal"]) == {"note": 1}


@pytest.mark.parametrize("method", ["hts-log", "ets", "rbs", "structural"])
def test_a_torch_program_gives_the_calibrators_numbers_on_another_graph(method, tmp_path):
    module, path = fitted(method).to_torch(), tmp_path / "calibrator.pt2"
    export(module, path, format="torch")
    program = torch.export.load(path).module()
    inputs = other_inputs(module)
    found = program(*map(torch.from_numpy, inputs))
    np.testing.assert_allclose(found, expected_of(method, inputs), atol=1e-5, rtol=0)


def test_a_bad_format_and_a_folder_are_told(tmp_path):
    module = fitted("ts").to_torch()
    with pytest.raises(gnncal.InputError, match="format"):
        export(module, tmp_path / "a", format="tflite")
    with pytest.raises(gnncal.InputError, match="is a folder"):
        export(module, tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_the_command_writes_a_program_beside_the_calibrator(tmp_path):
    saved = tmp_path / "calibrator.safetensors"
    fitted("hots").save(saved, class_names=["a", "b", "c"])
    done = run(saved, "--to", "torch")
    assert done.exit_code == 0, done.output
    assert "hots: (logits, edge_index) -> probabilities, 3 classes" in done.output
    kept = {"gnncal.json": ""}
    program = torch.export.load(tmp_path / "calibrator.pt2", extra_files=kept)
    assert json.loads(kept["gnncal.json"])["class_names"] == ["a", "b", "c"]
    assert program.module()(torch.zeros(4, 3), torch.zeros(2, 2, dtype=int)).shape == (4, 3)


def test_the_command_tells_what_it_cannot_do(tmp_path):
    saved = tmp_path / "calibrator.safetensors"
    fitted("isotonic").save(saved)
    refused = run(saved, "--to", "onnx")
    assert refused.exit_code == 2
    assert "IsotonicCalibration cannot become a torch module" in refused.stderr
    unknown = run(saved, "--to", "coreml")
    assert unknown.exit_code == 2
    assert "--to is 'coreml'; expected onnx or torch" in unknown.stderr
