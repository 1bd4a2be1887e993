"""Exported files give the module's probabilities for any number of nodes and edges."""

import json
import sys
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
from gnncal.__main__ import app
from tests.strategies import small_task

torch = pytest.importorskip("torch")

from gnncal.torch import export  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning", "ignore::FutureWarning"),
]


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


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    """A function that exports a method once for all tests: the file, and what is said of it."""
    pytest.importorskip("onnxscript")

    @cache
    def exported(method):
        path = tmp_path_factory.mktemp(method) / "calibrator.onnx"
        return path, export(fitted(method).to_torch(), path)

    return exported


@pytest.mark.parametrize("method", ["sms", "beta", "hots", "structural"])
def test_onnxruntime_gives_the_calibrators_numbers_on_another_graph(method, onnx_file):
    onnxruntime = pytest.importorskip("onnxruntime")
    path, written = onnx_file(method)
    assert written.difference < 1e-5
    assert [file.name for file in path.parent.iterdir()] == ["calibrator.onnx"]
    session = onnxruntime.InferenceSession(path)
    inputs = other_inputs(fitted(method).to_torch())
    names = [each.name for each in session.get_inputs()]
    assert names == list(written.inputs) == ["logits", "edge_index"][: len(inputs)]
    (found,) = session.run(["probabilities"], dict(zip(names, inputs, strict=True)))
    np.testing.assert_allclose(found, expected_of(method, inputs), atol=1e-5, rtol=0)
    assert json.loads(session.get_modelmeta().custom_metadata_map["gnncal"])["n_classes"] == 3


@pytest.mark.parametrize("method", ["hts-log", "ets", "platt", "rbs", "structural"])
def test_a_torch_program_gives_the_calibrators_numbers_on_another_graph(method, tmp_path):
    module, path = fitted(method).to_torch(), tmp_path / "calibrator.pt2"
    export(module, path)
    program = torch.export.load(path).module()
    inputs = other_inputs(module)
    found = program(*map(torch.from_numpy, inputs))
    np.testing.assert_allclose(found, expected_of(method, inputs), atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def hots_session(onnx_file):
    """HoTS in onnxruntime, with as many threads as by default."""
    onnxruntime = pytest.importorskip("onnxruntime")
    path, _ = onnx_file("hots")
    return onnxruntime.InferenceSession(path)


def run_onnx(session, logits, edges):
    return session.run(None, {"logits": logits, "edge_index": edges})[0]


def test_onnxruntime_gives_the_same_numbers_every_time_on_a_million_edges(hots_session):
    module = fitted("hots").to_torch()
    logits, edges = other_inputs(module, n_nodes=1_000, n_edges=1_000_000)
    expected = module(torch.from_numpy(logits), torch.from_numpy(edges)).numpy()
    found = [run_onnx(hots_session, logits, edges) for _ in range(8)]
    assert max(np.abs(each - expected).max() for each in found) < 1e-5
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.parametrize("method", ["hots", "structural"])
def test_no_exported_sum_races(method, onnx_file):
    onnx = pytest.importorskip("onnx")
    path, _ = onnx_file(method)
    nodes = onnx.load(path).graph.node
    assert "ScatterND" not in {node.op_type for node in nodes}  # in onnxruntime its sums do


def test_a_file_that_differs_now_and_then_on_a_large_graph_is_not_written(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    module, runs = fitted("hots").to_torch(), []

    def run(inputs):
        runs.append(inputs[1].shape[1])
        wrong = 1e-3 if runs.count(1_000_000) == 3 else 0.0
        return module(*inputs).numpy() + wrong

    monkeypatch.setattr(sys.modules["gnncal.torch.export"], "_onnxruntime", lambda *_: run)
    with pytest.raises(gnncal.InputError, match=r"0\.001 on .* 1,000,000 edges, so it was not"):
        export(module, tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def nodes_that_changed(one, other):
    return np.flatnonzero(~(np.abs(one - other).max(axis=1) < 1e-6))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_node_without_finite_logits_is_left_out_with_its_edges(hots_session, value):
    logits, edges = other_inputs(fitted("hots").to_torch(), n_nodes=300, n_edges=1200)
    edges = edges[:, (edges != 7).all(axis=0)]
    expected = run_onnx(hots_session, logits, edges)
    logits[7, 1] = value
    linked = np.concatenate([edges, [[7, 7, 3, 7], [1, 2, 7, 7]]], axis=1)
    found = run_onnx(hots_session, logits, linked)
    assert np.isnan(found[7]).all()
    assert nodes_that_changed(found, expected).tolist() == [7]
    program = torch.export.export(fitted("hots").to_torch(), tensors(logits, linked)).module()
    assert nodes_that_changed(program(*tensors(logits, linked)).numpy(), expected).tolist() == [7]


def tensors(*arrays):
    return tuple(map(torch.from_numpy, arrays))


@pytest.mark.parametrize("node", [-1, -45, 45])
def test_an_edge_to_a_node_that_is_not_there_is_an_error_in_onnxruntime(hots_session, node):
    logits, edges = other_inputs(fitted("hots").to_torch())
    for row in (0, 1):
        wrong = edges.copy()
        wrong[row, 3] = node
        with pytest.raises(Exception, match=r"(?i)out of .*bounds|within .* bounds|invalid ind"):
            run_onnx(hots_session, logits, wrong)


@pytest.mark.parametrize("given", ["calibrator", "none"])
def test_what_is_no_module_is_told_to_call_to_torch(given, tmp_path):
    what = fitted("hots") if given == "calibrator" else None
    with pytest.raises(gnncal.InputError, match=r"module is a (HoTS|NoneType); .*to_torch\(\)"):
        export(what, tmp_path / "c.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_says_how_many_hops_and_which_kind_of_graph(onnx_file, tmp_path):
    import onnx

    path, _ = onnx_file("structural")
    said = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["gnncal"])
    assert (said["hops"], said["graph"]) == (2, "edges")
    export(fitted("ts").to_torch(), tmp_path / "ts.pt2")
    kept = {"gnncal.json": ""}
    torch.export.load(tmp_path / "ts.pt2", extra_files=kept)
    said = json.loads(kept["gnncal.json"])
    assert (said["hops"], said["graph"]) == (0, None)


def test_the_ending_of_a_file_says_its_format(tmp_path):
    module = fitted("ts").to_torch()
    assert export(module, tmp_path / "c.pt2").path == tmp_path / "c.pt2"
    assert torch.export.load(tmp_path / "c.pt2").module()(torch.zeros(4, 3)).shape == (4, 3)
    with pytest.raises(gnncal.InputError, match="is not a format"):
        export(module, tmp_path / "calibrator")
    assert [each.name for each in tmp_path.iterdir()] == ["c.pt2"]
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
    assert unknown.stderr == "error: --to is 'coreml'; expected 'onnx' or 'torch'.\n"


def test_the_command_reads_the_format_from_the_ending(tmp_path):
    saved = tmp_path / "calibrator.safetensors"
    fitted("ts").save(saved)
    assert run(saved, "--out", tmp_path / "a.pt2").exit_code == 0
    assert torch.export.load(tmp_path / "a.pt2")
    refused = run(saved, "--to", "onnx", "--out", tmp_path / "b.pt2")
    assert refused.exit_code == 2
    assert "b.pt2 is not a file of --to onnx" in refused.stderr
    assert not (tmp_path / "b.pt2").exists()


def test_a_file_from_python_says_what_the_command_line_says(tmp_path, onnx_file):
    import onnx

    calibrator = fitted("ts")
    calibrator.save(tmp_path / "ts.safetensors")
    arguments = ["export", str(tmp_path / "ts.safetensors"), "--out", str(tmp_path / "ts.onnx")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    said = [
        json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["gnncal"])
        for path in (onnx_file("ts")[0], tmp_path / "ts.onnx")
    ]
    assert said[0] == said[1]
    assert said[1]["calibrator"] == "ts"
    assert said[1]["n_classes"] == 3
