"""The pages on decisions: their Python runs as it stands, their numbers of nodes are right."""

import re
from pathlib import Path

import pytest

import gnncal
from gnncal.decisions.certificate import fewest_nodes
from gnncal.decisions.sets import fewest_calibration
from tests.test_bundles import write_npz

DOCS = Path(__file__).parents[2] / "docs"
PAGE, RARE = ((DOCS / name).read_text() for name in ("decisions.md", "rare_classes.md"))
DECISIONS, _, SETS = PAGE.partition("## Prediction sets")


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    write_npz(tmp_path / "demo" / "bundle.npz")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DECISIONS, flags=re.S)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["decide"].shape == (len(names["probs"]),)
    assert (names["again"].decide(names["probs"]) == names["decide"]).all()


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_prediction_sets_of_the_page_run():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", SETS, flags=re.S):
        exec(block, names)
    assert (names["sets_of_today"] == names["sets"]).all()
    assert (names["sets_of_some"] == names["aps"].predict_set(names["probs"])[[3, 14, 15]]).all()


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_policies_of_the_page_on_rare_classes_run():
    task = gnncal.example()
    names = {"gnncal": gnncal, "splits": task.splits}
    names |= {name: getattr(task, name) for name in ("logits", "labels", "graph")}
    _, policies = re.findall(r"```python\n(.*?)```", RARE, flags=re.S)
    exec(policies, names)
    assert set(names["actions"]) <= {"act", "clear", "review"}


def test_the_fewest_nodes_that_the_pages_name_are_right():
    assert f"at least {fewest_nodes(0.95, 0.1)} of them must be above" in PAGE
    assert f"for 99% it takes {fewest_nodes(0.99, 0.1)}" in " ".join(PAGE.split())
    assert f"at least {fewest_nodes(0.9, 0.1)} labelled positives" in RARE
    assert f"calibration nodes ({fewest_calibration(0.9)} for 90%)" in SETS


def test_a_selection_is_promised_a_false_discovery_rate_and_a_region_nothing():
    selection = " ".join(gnncal.decisions.Policy.select.__doc__.split())
    for text in (" ".join(RARE.split()), selection):
        assert "false discovery rate" in text
        assert "their precision can be far below `" in text
    assert "with precision" not in selection
    assert "the threshold should lie" in RARE


def test_the_pages_exclude_ties_from_what_is_proven():
    assert "The proof does not cover equal scores (ties)" in " ".join(PAGE.split())
