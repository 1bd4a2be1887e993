"""The examples run, and do what they say."""

import csv
import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import gnncal

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("torchmetrics")

EXAMPLES = Path(__file__).parent.parent / "examples"
# Warnings are those of Lightning and its friends.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def example(name):
    """An example as a module."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (EXAMPLES, EXAMPLES / "serving"):
            patch.syspath_prepend(folder)
        return import_module(name)


def run_example(name, *arguments):
    """Run an example in this process, on the small generated graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GNNCAL_DATA", raising=False)
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        example(name).main()


def test_the_plain_loop_calibrates_and_saves_model_and_calibrator(capsys, tmp_path):
    run_example("train_torch", "--out", tmp_path / "run")
    out = capsys.readouterr().out
    before, after = (
        [float(word) for word in line.split()[1:]] for line in out.splitlines() if "." in line[:20]
    )
    assert after[0] < before[0] / 2  # ECE
    assert after[2] < before[2]  # NLL
    names = {file.name for file in (tmp_path / "run").iterdir()}
    assert names == {"model.safetensors", "calibrator.safetensors"}
    assert isinstance(
        gnncal.load(tmp_path / "run" / "calibrator.safetensors"), gnncal.calibrators.Structural
    )


def test_lightning_logs_ece_with_floor_and_nll_before_and_after(tmp_path):
    pytest.importorskip("lightning")
    run_example("train_lightning", "--out", tmp_path)
    with (tmp_path / "metrics.csv").open() as file:
        logged = {k: float(v) for row in csv.DictReader(file) for k, v in row.items() if v}
    assert logged["after_ece"] < logged["before_ece"]
    assert logged["after_nll"] < logged["before_nll"]
    assert 0 < logged["after_ece_floor"] < 0.1
    assert (tmp_path / "calibrator.safetensors").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("uvicorn")
    place = tmp_path_factory.mktemp("serving")
    run_example("prepare", "--out", place)
    return place


@pytest.fixture(scope="module")
def address(folder):
    """The address of a service that runs in a process of its own."""
    command = [sys.executable, "-W", "ignore", EXAMPLES / "serving" / "service.py", folder]
    with running([*command, "--port", "0"]) as place:
        yield place


@contextmanager
def running(command):
    """Start a service and give its address."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait(timeout=30)
        server.stdout.close()


def ask(url, content=None):
    body = None if content is None else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_service_answers_with_class_confidence_and_abstention(address, folder):
    assert ask(f"{address}/health") == (200, {"status": "ok", "n_nodes": 3000})
    nodes = [5, 0, 1234, 17, 2999]
    status, reply = ask(f"{address}/predict", {"nodes": nodes})
    assert status == 200
    service = example("service").Service(folder)
    probs = service.model.predict(
        import_module("torch_geometric.data").Data(x=service.x, edge_index=service.edge_index)
    )[nodes].numpy()
    assert [answer["node"] for answer in reply["answers"]] == nodes
    assert [answer["class"] for answer in reply["answers"]] == probs.argmax(1).tolist()
    confidence = np.array([answer["confidence"] for answer in reply["answers"]])
    np.testing.assert_allclose(confidence, probs.max(1), atol=1e-6)
    abstains = [answer["abstain"] for answer in reply["answers"]]
    assert abstains == (confidence < service.threshold).tolist()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"nodes": [3000]}, "unknown node 3000; nodes are 0 to 2999"),
        ({"nodes": [True]}, "unknown node True"),
        ({"nodes": []}, "list of 1 to 10000"),
        ({"node": 1}, "expected JSON such as"),
        ([1, 2], "expected JSON such as"),
    ],
)
def test_the_service_says_what_is_wrong_with_a_question(address, content, reason):
    status, reply = ask(f"{address}/predict", content)
    assert status == 400
    assert reason in reply["error"]


HOSTILE = {
    "open brackets": b"[" * 200_000,
    "deep lists": b'{"nodes": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"nodes": [' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"]}",
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
    "infinity": b'{"nodes": [1e999]}',
    "a long number": b'{"nodes": [' + b"9" * 4000 + b"]}",
    "a longer number": b'{"nodes": [' + b"9" * 5000 + b"]}",
    "long text": b'{"nodes": ["' + b"<script>" * 10_000 + b'"]}',
    "too much": b"x" * (1 << 21),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_question_gets_400_and_is_not_repeated(address, what):
    status, answer = talk(address, HOSTILE[what])
    assert status == 400
    assert len(answer) < 400
    assert len(json.loads(answer)["error"]) < 150
    assert ask(f"{address}/health")[0] == 200


def connect(address):
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def talk(address, body):
    """Status and body of the answer, over a plain socket."""
    with connect(address) as line:
        head = f"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        with suppress(ConnectionError):  # a long question is answered before it has all come
            line.sendall(head.encode() + body)
        received = b""
        with suppress(ConnectionError):
            while part := line.recv(1 << 16):
                received += part
    head, _, answer = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), answer


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"POST /pre", b""),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: ", b""),
        (b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n", b"200"),  # and then silence
        (b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{", b"408"),
    ],
    ids=["nothing", "half a line", "half a head", "no second question", "half a body"],
)
def test_a_silent_connection_is_closed(impatient, sent, answer):
    with connect(impatient) as line:
        line.sendall(sent)
        received = b""
        while part := line.recv(1 << 16):  # ends when the service closes, else after 30 seconds
            received += part
    assert answer in received
    assert bool(answer) == bool(received)


@pytest.fixture(scope="module")
def impatient(folder):
    """The address of a service that waits half a second only."""
    script = f"import sys; sys.path.insert(0, {str(EXAMPLES / 'serving')!r}); import service; "
    script += "service.PATIENCE = 0.5; service.main()"
    command = [sys.executable, "-W", "ignore", "-c", script, folder, "--port", "0"]
    with running(command) as place:
        yield place


@pytest.mark.parametrize(
    "threshold", ["NaN", '"0.8"', "true", "[0.8]", "1.5", "-0.1", "Infinity", "1e999", '"' * 2]
)
def test_a_bad_threshold_fails_at_the_start_with_a_sentence(folder, tmp_path, threshold, capsys):
    place = shutil.copytree(folder, tmp_path / "run")
    settings = json.loads((place / "settings.json").read_text())
    text = json.dumps(settings | {"threshold": "here"}).replace('"here"', threshold)
    (place / "settings.json").write_text(text)
    with pytest.raises(SystemExit) as ended:
        run_example("service", place)
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "the threshold is " in said
    assert "expected a confidence from 0 to 1" in said


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_bad_settings_fail_at_the_start_with_a_sentence(folder, tmp_path, content, capsys):
    place = shutil.copytree(folder, tmp_path / "run")
    (place / "settings.json").unlink()
    if content is not None:
        (place / "settings.json").write_bytes(content)
    with pytest.raises(SystemExit):
        run_example("service", place)
    assert "settings.json cannot be used" in capsys.readouterr().err.splitlines()[-1]


N_CACHED = 600


def cached_edges(*, directed):
    """Random edges, some listed twice; with their reverses where the graph is undirected."""
    rng = np.random.default_rng(4)
    edges = rng.integers(N_CACHED - 5, size=(2, 900))  # the last nodes are isolated
    edges = np.concatenate([edges, edges[:, :60]], axis=1)
    return edges if directed else np.concatenate([edges, edges[::-1]], axis=1)


def cached_folder(place, edges):
    """What the cached service loads, and the probabilities in the whole graph."""
    rng = np.random.default_rng(5)
    labels = rng.integers(2, size=N_CACHED)
    logits = np.column_stack([np.zeros(N_CACHED), 2 * labels + 3 * rng.normal(size=N_CACHED)])
    graph = gnncal.Graph(edges, N_CACHED)
    calibrator = gnncal.get_calibrator("structural-free")
    calibrator.fit(logits, labels, graph, calibration_nodes=range(300))
    calibrator.save(place / "calibrator.safetensors")
    np.savez(place / "graph.npz", logits=logits, edge_index=edges)
    settings = {"n_features": 1, "n_classes": 2, "threshold": 0.7}
    (place / "settings.json").write_text(json.dumps(settings))
    return calibrator.predict_proba(logits, graph)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_the_service_on_cached_logits_answers_as_the_whole_graph(tmp_path, directed):
    pytest.importorskip("uvicorn")
    probs = cached_folder(tmp_path, cached_edges(directed=directed))
    command = [sys.executable, "-W", "error::UserWarning", EXAMPLES / "serving" / "cached.py"]
    rng = np.random.default_rng(6)
    questions = [[node] for node in range(0, N_CACHED, 2)]
    questions += [rng.choice(N_CACHED, 5).tolist() for _ in range(50)]
    with running([*command, tmp_path, "--port", "0"]) as address:
        assert ask(f"{address}/health") == (200, {"status": "ok", "n_nodes": N_CACHED})
        replies = [ask(f"{address}/predict", {"nodes": nodes}) for nodes in questions]
    assert {status for status, _ in replies} == {200}
    answers = [answer for _, reply in replies for answer in reply["answers"]]
    asked = [answer["node"] for answer in answers]
    assert asked == [node for nodes in questions for node in nodes]
    confidence = np.array([answer["confidence"] for answer in answers])
    np.testing.assert_allclose(confidence, probs[asked].max(axis=1), atol=1e-6)
    assert [answer["class"] for answer in answers] == probs[asked].argmax(axis=1).tolist()
    assert [answer["abstain"] for answer in answers] == (confidence < 0.7).tolist()
    # These questions tell such a service from one that loads in-edges only.
    module = gnncal.load(tmp_path / "calibrator.safetensors").to_torch()
    hops = {"of module.hops": module.hops, "of one hop more": len(module.num_neighbors)}
    off = {
        name: max(
            np.abs(from_in_edges(tmp_path, module, node, n) - probs[node]).max()
            for (node,) in questions[:100]
        )
        for name, n in hops.items()
    }
    assert off["of module.hops"] > 0.01
    assert (off["of one hop more"] < 1e-6) == (not directed)


def from_in_edges(folder, module, node, hops):
    """What a service answers that loads in-edges of some hops, as NeighborLoader does."""
    with np.load(folder / "graph.npz") as arrays:
        logits, edges = arrays["logits"], arrays["edge_index"]
    around, is_loaded = np.array([node]), np.zeros(edges.shape[1], dtype=bool)
    for _ in range(hops):
        is_loaded |= np.isin(edges[1], around)
        around = np.union1d(around, edges[0][is_loaded])
    places = np.searchsorted(around, edges[:, is_loaded])
    probs = module(torch.from_numpy(logits[around]), torch.from_numpy(places))
    return probs[np.searchsorted(around, node)].numpy()


def test_the_cached_service_answers_as_the_one_that_runs_the_model(folder):
    nodes = [5, 0, 1234, 17, 2999]
    given = [example(name) for name in ("service", "cached")]
    one, other = given[0].Service(folder), given[1].CachedService(folder)
    for each, same in zip(one.answer(nodes), other.answer(nodes), strict=True):
        assert each["confidence"] == pytest.approx(same["confidence"], abs=1e-6)
        assert each["class"] == same["class"]


def test_the_service_knows_two_addresses(address):
    assert ask(f"{address}/")[0] == 404


def test_the_overhead_of_calibration_is_measured_and_printed(capsys, folder):
    run_example("measure", folder, "--rounds", "3")
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[0])
    assert found["calibrated_p50_ms"] > 0
    assert re.search(r"calibration adds -?\d+\.\d+ ms", out)
