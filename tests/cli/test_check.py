"""`gnncal check` and `gnncal watch`: what they print, write and return to a scheduler."""

import json
import re

import numpy as np
import pytest

import gnncal
from tests.cli.terminal import run

N = 600
NAMES = ["fine", "fraud"]


@pytest.fixture
def place(tmp_path):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(N, 2)) * 2
    edges = generator.integers(N, size=(2, 6 * N))
    graph = gnncal.Graph(edges, N).to_undirected()
    labels = (generator.random(N) < gnncal.calibrators.softmax(logits)[:, 1]).astype(int)
    fitted = gnncal.HoTS().fit(logits, labels, graph, calibration_nodes=range(300))
    fitted.save(tmp_path / "c.safetensors", class_names=NAMES)
    for name, scale in (("same", 1), ("moved", 4)):
        np.savez(tmp_path / f"{name}.npz", logits=scale * logits, edge_index=graph.edge_index)
    return tmp_path


def lines(n, gap, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.uniform(0.5, 1, n)
    labels = generator.random(n) < p - gap
    rows = zip(p.tolist(), labels, strict=True)
    return "".join(f"{1 - a:.6f},{a:.6f},{NAMES[int(b)]}\n" for a, b in rows)


def test_check_answers_in_a_sentence_and_in_its_exit_code(place):
    same = run("check", place / "c.safetensors", place / "same.npz")
    assert same.exit_code == 0
    assert same.stdout.startswith("No distribution shift")
    moved = run("check", place / "c.safetensors", place / "moved.npz", "--json")
    assert moved.exit_code == 5
    found = json.loads(moved.stdout)
    assert found["verdict"] in ("moved", "far")
    assert {m["name"] for m in found["moves"]} >= {"confidence", "support", "degree"}


def test_check_leaves_training_nodes_out(place):
    with np.load(place / "same.npz") as file:
        logits = file["logits"]
        edges = file["edge_index"]
    train = np.arange(N) >= 450
    logits[train] *= 20  # the model is sure of what it was trained on
    np.savez(place / "trained.npz", logits=logits, edge_index=edges, train_mask=train)
    found = json.loads(
        run("check", place / "c.safetensors", place / "trained.npz", "--json").stdout
    )
    assert found["n_new"] == 450
    assert not {m["name"]: m["is_moved"] for m in found["moves"]}["confidence"]


def test_check_refuses_other_classes(place):
    with np.load(place / "same.npz") as file:
        np.savez(place / "other.npz", **file, class_names=["fraud", "fine"])
    other = run("check", place / "c.safetensors", place / "other.npz")
    assert other.exit_code == 2
    assert "same order" in other.stderr


def test_watch_counts_each_line_once_and_alarms_with_an_exit_code(place):
    log, call = place / "log.csv", ("watch", place / "c.safetensors", place / "log.csv")
    log.write_text("p0,p1,label\n" + lines(400, 0))
    first = run(*call, "--positive", "fraud")
    assert first.exit_code == 0
    assert "400 new labels" in first.stdout
    again = run(*call)
    assert "0 new labels" in again.stdout
    with log.open("a") as file:
        file.write(lines(400, 0.25, seed=1))
    alarm = run(*call, "--json")
    assert alarm.exit_code == 6
    found = json.loads(alarm.stdout)
    assert found["is_alarm"]
    assert [claim["n_labels"] for claim in found["claims"]] == [800, 800]
    assert run(*call).exit_code == 6  # an alarm stays


def test_a_first_night_without_a_log_is_no_error(place):
    found = run("watch", place / "c.safetensors", place / "log.csv", "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["n_new"] == 0


def test_a_log_is_made_of_scores_and_labels_by_id(place):
    scores, labels, log = place / "p.csv", place / "labels.csv", place / "log.csv"
    scores.write_text("id,p0,p1\n" + "".join(f"a{i},0.3,0.7\n" for i in range(100)))
    call = ("watch", place / "c.safetensors", log, "--scores", scores, "--labels", labels, "--json")
    for n, n_new in ((30, 30), (60, 30), (60, 0)):
        rows = (f"a{i},{'fine' if i % 3 else 'fraud'}\n" for i in range(n))
        labels.write_text("id,label\nb7,fine\n" + "".join(rows))
        found = json.loads(run(*call).stdout)
        assert (found["n_new"], found["n_unscored"]) == (n_new, 1)
    assert len(log.read_text().splitlines()) == 1 + 60
    assert "go together" in run(*call[:5]).stderr


def test_a_watch_that_was_killed_goes_on_where_it_was(place, monkeypatch):
    log, call = place / "log.csv", ("watch", place / "c.safetensors", place / "log.csv", "--json")
    log.write_text("p0,p1,label\n" + lines(200, 0))
    assert run(*call).exit_code == 0
    state = (place / "log.csv.watch.json").read_bytes()
    with log.open("a") as file:
        file.write(lines(200, 0, seed=1))

    def killed(*_):
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("gnncal.files.output.os.replace", killed)
        assert run(*call).exit_code != 0
    assert (place / "log.csv.watch.json").read_bytes() == state
    assert sorted(p.name for p in place.iterdir() if p.name.startswith(".gnncal")) == []
    found = json.loads(run(*call).stdout)
    assert found["n_new"] == 200
    assert found["claims"][0]["n_labels"] == 400


def test_a_state_belongs_to_its_calibrator_and_its_options(place):
    log, call = place / "log.csv", ("watch", place / "c.safetensors", place / "log.csv")
    log.write_text("p0,p1,label\n" + lines(60, 0))
    assert run(*call).exit_code == 0
    changed = run(*call, "--tolerance", "0.05")
    assert changed.exit_code == 2
    assert re.search(r"--tolerance is 0\.05, but .* was begun with 0\.0\d+", changed.stderr)
    assert "--decide is 0.9, but" in run(*call, "--decide", "0.9").stderr
    other = gnncal.calibrators.TemperatureScaling().fit(
        [[2.0, 0.0], [0.0, 2.0]] * 9, [0, 1, 1, 1, 0, 1] * 3
    )
    other.save(place / "other.safetensors")
    refused = run("watch", place / "other.safetensors", log)
    assert "belongs to another calibrator" in refused.stderr
    assert run("watch", place / "c.safetensors").exit_code == 2


def test_the_pages_say_it_for_a_person_on_call(place):
    pytest.importorskip("plotly", reason="pip install 'gnncal[report]' to test pages")
    page = place / "check.html"
    run("check", place / "c.safetensors", place / "moved.npz", "--page", page)
    text = page.read_text()
    assert "confidence is higher" in text
    assert "Limits of this check" in text
    (place / "log.csv").write_text("p0,p1,label\n" + lines(300, 0.3))
    run("watch", place / "c.safetensors", place / "log.csv", "--page", place / "watch.html")
    text = (place / "watch.html").read_text()
    assert "Labels disagree" in text
    assert "Confidence is too high" in text
