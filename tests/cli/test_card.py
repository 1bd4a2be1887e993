"""`gnncal card`: what a saved calibrator is, in Markdown."""

import json

import pytest

import gnncal
from gnncal.files.saved_calibrators import checksum
from tests.cli.terminal import run
from tests.test_bundles import NAMES, write_npz


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    assert run("calibrate", write_npz(folder / "in.npz"), "--out", folder / "out").exit_code == 0
    return folder / "out"


def test_a_card_says_what_when_on_which_data_with_which_evidence(place):
    file = place / "calibrator.safetensors"
    told, fitted = run("card", file).stdout, gnncal.load(file)
    for heading in ("What", "Provenance", "Data", "Evidence", "Limits"):
        assert f"\n## {heading}\n- " in told
    assert f"- method: structural\n- checksum: {checksum(fitted)}" in told
    assert "30 calibration nodes" in told
    assert all(name in told for name in NAMES)
    summary = json.loads((place / "summary.json").read_text())["test"]
    assert f"nll on the test nodes {summary['before']['nll']:.4f} before" in told


def test_a_card_without_a_summary_has_the_evidence_of_the_fit(place, tmp_path):
    gnncal.load(place / "calibrator.safetensors").save(tmp_path / "c")
    evidence = json.loads(run("card", tmp_path / "c", "--json").stdout)["Evidence"]
    assert [line.split(" on ")[0] for line in evidence][:1] == ["Mean log loss"]
    assert not any("test nodes" in line for line in evidence)
    (tmp_path / "summary.json").write_text("[]")
    assert "is no summary of gnncal" in run("card", tmp_path / "c").stderr
