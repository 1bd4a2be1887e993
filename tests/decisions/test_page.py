"""The page docs/decisions.md: its Python runs as it stands, its numbers of nodes are right."""

import re
from pathlib import Path

import pytest

from gnncal.decisions.certificate import fewest_nodes
from gnncal.decisions.sets import fewest_calibration
from tests.test_bundles import write_npz

PAGE = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text()


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    write_npz(tmp_path / "demo" / "bundle.npz")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(blocks) == 8
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["decide"].shape == (len(names["probs"]),)
    assert names["sets"].shape == names["probs"].shape
    assert names["today"].report_ == names["conformal"].report_
    assert (names["sets_of_today"] == names["sets"]).all()
    assert set(names["actions"]) <= {"act", "clear", "review"}
    assert (names["again"].decide(names["probs"]) == names["decide"]).all()
    assert (names["sets_of_some"] == names["aps"].predict_set(names["probs"])[names["some"]]).all()


def test_the_fewest_nodes_that_the_page_names_are_right():
    assert f"at least {fewest_nodes(0.95, 0.1)} of them must be above" in PAGE
    assert f"for 99 % it takes {fewest_nodes(0.99, 0.1)}" in PAGE
    assert f"at least {fewest_nodes(0.9, 0.1)} labelled positives" in PAGE
    assert f"calibration nodes ({fewest_calibration(0.9)} for 90 %)" in PAGE
