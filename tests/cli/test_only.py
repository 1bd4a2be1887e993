"""`--only`: rows in question are judged, decided and written; others lend their neighbourhood."""

import json
import re

import numpy as np
import pytest

import gnncal
from tests.cli.terminal import run
from tests.fraud import fraud_task
from tests.test_bundles import N, example, write_npz, write_parquet

ASKED = np.arange(N) % 4 == 3


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    place = tmp_path_factory.mktemp("fit")
    source = write_npz(place / "in.npz")
    given = ("--positive", "cat", "--budget", "10", "--out", place / "out")
    assert run("decide", source, *given).exit_code in (0, 3)
    return place / "out"


def test_the_rows_in_question_have_the_probabilities_that_they_have_among_all(fitted, tmp_path):
    calibrator = fitted / "calibrator.safetensors"
    source = write_npz(tmp_path / "in.npz", new=ASKED)
    for name, given in (("all", ()), ("some", ("--only", "new"))):
        assert run("apply", calibrator, source, *given, "--out", tmp_path / name).exit_code == 0
    every, some = (np.load(tmp_path / n / "probabilities.npz") for n in ("all", "some"))
    for array in ("probs", "node_ids", "prediction", "confidence"):
        np.testing.assert_array_equal(some[array], every[array][ASKED])
    summary = json.loads((tmp_path / "some" / "summary.json").read_text())
    assert (summary["n_nodes"], summary["n_context"]) == (N // 4, N - N // 4)
    assert summary["test"]["after"]["n_nodes"] == N // 4
    p, found = every["probs"][ASKED, 0], summary["statistics"]  # of the cat, as in the fit
    assert found["mean_probability"] == p.mean()
    assert found["quantiles"]["0.5"] == np.median(p)
    assert found["share_isolated"] == pytest.approx(1 / (N // 4))  # of the last three nodes one


@pytest.mark.parametrize("by", ["column", "ids"])
def test_a_policy_decides_about_the_rows_in_question(fitted, tmp_path, by):
    pq = pytest.importorskip("pyarrow.parquet")
    source = write_parquet(tmp_path / "in", new=ASKED, split=None, label=None)
    ids = example()["node_ids"][ASKED]
    (tmp_path / "ids.txt").write_text("\n".join(ids) + "\n")
    only = "new" if by == "column" else tmp_path / "ids.txt"
    policy = ("--policy", fitted / "policy.safetensors", "--only", only)
    run("apply", fitted / "calibrator.safetensors", source, *policy, "--out", tmp_path / "out")
    decided = pq.read_table(tmp_path / "out" / "decisions.parquet")
    assert set(decided["id"].to_pylist()) == set(ids)
    assert set(decided["action"].to_pylist()) == {"review", "clear"}


def test_statistics_of_probabilities_are_gates_without_labels(fitted, tmp_path):
    source = write_npz(tmp_path / "in.npz", labels=None, val_mask=None, test_mask=None)
    call = ("apply", fitted / "calibrator.safetensors", source, "--positive", "cat")
    failed = run(*call, "--fail-if", "mean_probability>0.1", "--out", tmp_path / "out")
    assert failed.exit_code == 4
    assert "mean_probability is 0." in failed.stderr


def test_context_rows_raise_no_alarm(tmp_path):
    (logits, labels, graph), splits = fraud_task(is_weighted=False)
    fit = gnncal.calibrate(logits, labels, graph, **splits).calibrator
    fit.save(tmp_path / "c")
    asked = np.arange(len(labels)) >= 1500
    # All neighbours of the rows in question are there; of the context most are missing.
    edges = graph.edge_index[:, asked[graph.edge_index].any(axis=0)]
    np.savez(tmp_path / "new.npz", logits=logits, edge_index=edges, mine=asked)
    assert run("check", tmp_path / "c", tmp_path / "new.npz").exit_code == 5
    found = run("check", tmp_path / "c", tmp_path / "new.npz", "--only", "mine", "--json")
    assert json.loads(found.stdout)["n_new"] == 500
    assert found.exit_code == 0


def test_ids_in_a_file_are_whole_numbers_or_whole_lines(tmp_path):
    large = np.arange(N) + 10**15
    for ids in (large, np.array([f"a node, no. {i}" for i in range(N)]), None):
        path = write_npz(tmp_path / "in.npz", node_ids=ids)
        names = np.arange(N) if ids is None else ids
        (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in names[ASKED]))
        read = gnncal.read_bundle(path, only=tmp_path / "ids.txt")
        np.testing.assert_array_equal(read.only, ASKED)
        np.testing.assert_array_equal(read.cut().node_ids, names[ASKED])


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("labels", "expected true or false for each of 120 nodes"),
        ("nothing", "has no array 'nothing'"),
        ("none", "no row of"),
        ("text.txt", "is not the id of a node"),
        ("ids.txt", "'nobody' is not the id of a node"),
    ],
)
def test_what_names_no_rows_is_refused(tmp_path, only, message):
    path = write_npz(tmp_path / "in.npz", none=np.zeros(N, bool))
    (tmp_path / "ids.txt").write_text("nobody\n")
    (tmp_path / "text.txt").write_bytes(b"\xff")
    given = tmp_path / only if only.endswith(".txt") else only
    with pytest.raises(gnncal.InputError, match=re.escape(message)):
        gnncal.read_bundle(path, only=given)


def test_apply_says_what_it_found_and_not_how_the_fit_went(fitted, tmp_path):
    source = write_npz(tmp_path / "in.npz", labels=None, val_mask=None, test_mask=None)
    call = ("apply", fitted / "calibrator.safetensors", source, "--out", tmp_path / "out")
    told = run(*call).stdout
    assert told.startswith("P(cat) of 120 nodes: mean ")
    assert "calibration nodes" not in told


def test_rows_whose_neighbours_lack_the_reverse_edges_of_the_fit_are_noticed(tmp_path):
    (logits, labels, graph), splits = fraud_task(is_weighted=False)
    graph = graph.to_undirected()
    fit = gnncal.calibrate(logits, labels, graph, **splits).calibrator
    fit.save(tmp_path / "c")
    asked = np.arange(len(labels)) >= 1990
    around = asked.copy()
    around[graph.edge_index[0][asked[graph.edge_index[1]]]] = True
    loaded = graph.edge_index[:, around[graph.edge_index[1]]]  # in-edges of two hops
    for name, edges, is_noticed in (("in", loaded, True), ("all", graph.edge_index, False)):
        np.savez(tmp_path / f"{name}.npz", logits=logits, edge_index=edges, mine=asked)
        source, out = tmp_path / f"{name}.npz", tmp_path / name
        assert run("apply", tmp_path / "c", source, "--only", "mine", "--out", out).exit_code == 0
        notes = " ".join(json.loads((out / "summary.json").read_text())["notes"])
        assert ("depend on an edge without its reverse" in notes) == is_noticed
