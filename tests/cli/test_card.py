"""Who made this number: model cards, and what results say of their calibrator and policy."""

import json
import re
from hashlib import sha256

import numpy as np
import pytest

import gnncal
from gnncal.files.saved_calibrators import checksum
from tests.cli.terminal import run
from tests.test_bundles import NAMES, write_npz, write_parquet


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    assert run("calibrate", write_npz(folder / "in.npz"), "--out", folder / "out").exit_code == 0
    return folder / "out"


def test_a_card_says_what_when_on_which_data_with_which_evidence(place):
    file = place / "calibrator.safetensors"
    told, fitted = run("card", file).stdout, gnncal.load(file)
    for heading in ("Method", "Provenance", "Data", "Evidence", "Limits"):
        assert f"\n## {heading}\n- " in told
    assert f"- method: structural\n- checksum: {checksum(fitted)}" in told
    assert "30 calibration nodes" in told
    assert all(name in told for name in NAMES)
    summary = json.loads((place / "summary.json").read_text())["test"]
    assert f"Mean log loss on the test nodes: {summary['before']['nll']:.4f} before" in told


def test_tags_stay_with_the_calibrator_and_its_results(tmp_path):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    tags = ("--tag", "model=gcn-7", "--tag", "owner=risk=team")
    assert run("calibrate", source, *tags, "--out", out).exit_code == 0
    run("apply", out / "calibrator.safetensors", source, "--out", tmp_path / "new")
    made = read_made(tmp_path / "new" / "probabilities.npz")["calibrator"]
    assert (made["model"], made["owner"]) == ("gcn-7", "risk=team")
    assert made["gnncal"] == gnncal.__version__
    told = run("card", out / "calibrator.safetensors").stdout
    assert "- model: gcn-7\n" in told
    assert f"- date: {made['date']}\n" in told
    assert "expected name=text" in run("calibrate", source, "--tag", "x", "--out", out).stderr
    for name in ("date", "gnncal", "method", "checksum"):
        refused = run("calibrate", source, "--tag", f"{name}=9", "--out", tmp_path / "refused")
        assert refused.exit_code == 2
        assert f"--tag {name} would replace what gnncal records" in refused.stderr
        assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize("tag", ["a=b\nc", "a\n## Limits=b", "a=\x1b[2J", "a=b\u2028c", "\ra=b"])
def test_a_tag_is_one_line_without_control_characters(tmp_path, tag):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    done = run("calibrate", source, "--tag", f"x{tag}", "--out", out)
    assert done.exit_code == 2
    assert "expected name=text on one line without control characters" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not out.exists()


def test_what_tags_and_names_hold_becomes_neither_html_nor_a_line_of_the_card(place, tmp_path):
    fitted = gnncal.load(place / "calibrator.safetensors")
    fitted.provenance_["owner"] = "<script>alert(1)</script>\n\n## Limits\n- none"
    fitted.provenance_["<img src=x>\n# Title"] = "b"
    fitted.save(tmp_path / "c", class_names=["<b>", "\n# c", "d"])
    told = run("card", tmp_path / "c").stdout
    assert "&lt;script>alert(1)&lt;/script> ## Limits - none" in told
    assert "<" not in told
    headings = [line for line in told.splitlines() if line.startswith("#")]
    assert headings == [
        *("# Calibrator c", "## Method", "## Provenance", "## Data", "## Evidence", "## Limits")
    ]
    document = json.loads(run("card", tmp_path / "c", "--json").stdout)
    assert any("<script>" in line for line in document["Provenance"])


def test_a_card_without_a_summary_has_the_evidence_of_the_fit(place, tmp_path):
    gnncal.load(place / "calibrator.safetensors").save(tmp_path / "c")
    evidence = json.loads(run("card", tmp_path / "c", "--json").stdout)["Evidence"]
    assert [line.split(" on ")[0] for line in evidence][:1] == ["Mean log loss"]
    assert not any("test nodes" in line for line in evidence)
    (tmp_path / "summary.json").write_text("[]")
    assert "is not a summary of gnncal" in run("card", tmp_path / "c").stderr


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_every_result_says_which_calibrator_and_policy_made_it(tmp_path, kind):
    source = write_npz(tmp_path / "in.npz") if kind == "npz" else write_parquet(tmp_path / "in")
    out, again = tmp_path / "out", tmp_path / "again"
    wishes = ("--positive", "cat", "--budget", "9", "--out", out)
    assert run("decide", source, *wishes).exit_code == 0
    policy = ("--policy", out / "policy.safetensors", "--out", again)
    assert run("apply", out / "calibrator.safetensors", source, *policy).exit_code == 0
    expected = checksum(gnncal.load(out / "calibrator.safetensors"))
    certified = sha256((out / "policy.safetensors").read_bytes()).hexdigest()
    for place, name in ((out, "decisions"), (again, "decisions"), (again, "probabilities")):
        made = read_made(place / f"{name}.{kind}")
        assert made["calibrator"]["checksum"] == expected
        assert made["policy"]["checksum"] == certified
        assert place == out or made["policy"]["date"] <= made["date"]
        assert json.loads((place / "summary.json").read_text())["provenance"] == made
        assert made["gnncal"] == gnncal.__version__
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["date"])


def read_made(path):
    if path.suffix == ".npz":
        return json.loads(str(np.load(path)["gnncal"]))
    pq = pytest.importorskip("pyarrow.parquet")
    return json.loads(pq.read_schema(path).metadata[b"gnncal"])


def test_a_module_says_which_calibrator_it_was(place):
    pytest.importorskip("torch")
    fitted = gnncal.load(place / "calibrator.safetensors")
    assert fitted.to_torch().metadata["checksum"] == checksum(fitted)


@pytest.mark.parametrize("method", ["structural-free", "structural", "hots", "svs", "irm"])
def test_an_explanation_adds_up_to_the_probabilities_of_the_node(tmp_path, method):
    source, out = write_npz(tmp_path / "in.npz"), tmp_path / "out"
    assert run("calibrate", source, "--method", method, "--out", out).exit_code == 0
    call = ("explain", out / "calibrator.safetensors", source, "--node")
    found = json.loads(run(*call, "node-7", "--json").stdout)
    arrays = np.load(out / "probabilities.npz")
    expected = arrays["probs"][arrays["node_ids"] == "node-7"][0]
    np.testing.assert_allclose(np.sum(list(found["changes"].values()), axis=0), expected)
    assert found["calibrator"]["method"] == method
    assert "calibrated" in run(*call, "node-7").stdout
    assert run(*call, "node-7").stdout.startswith("node-7: node ")
    assert "'nobody' is not the id of a node" in run(*call, "nobody").stderr
