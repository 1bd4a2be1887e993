"""New nodes in a report: what moved, and what that does to the guarantees."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import gnncal
from gnncal import InputError, Nodes
from gnncal.decisions.guarantees import Certified
from gnncal.files.bundle import Bundle
from gnncal.reporting.decisions import (
    CERTIFIED_TARGETS,
    HeldOut,
    measure_new_nodes,
)
from gnncal.reporting.findings import find

from .tasks import subject_of, task


def logits_of(p):
    """Logits of two classes, the second with probability p."""
    return np.column_stack([np.zeros(len(p)), np.log(p) - np.log1p(-np.asarray(p))])


def certified(name, target, threshold, is_certified=True):
    action = {"accuracy": "decide", "act": "act"}.get(name, "clear")
    of = "class" if name == "recall" else "action"
    return Certified(name, target, action, (1,), of, 0.9, is_certified, threshold)


def test_counts_of_old_and_new_nodes_by_hand():
    old = np.array([0.05, 0.3, 0.6, 0.97] * 5)
    new = np.array([0.02, 0.05, 0.97, 0.98] * 6)
    fitted = gnncal.calibrators.Uncalibrated().fit(logits_of(old), np.arange(20) % 2)
    subject = SimpleNamespace(
        new=(Nodes(logits_of(new)), np.arange(23)),  # the last, 0.98, is left out
        others=np.arange(4),
        positive=1,
    )
    asked = [
        certified("accuracy", 0.7, 0.5),  # not among the targets that are counted
        certified("accuracy", 0.8, 0.65),
        certified("accuracy", 0.9, 0.96),
        certified("accuracy", 0.99, np.inf, is_certified=False),
        certified("act", 0.9, 0.96),
        certified("clear", 0.95, 0.06),
        certified("clear", 0.98, 0.5),
        certified("recall", 0.8, 0.2),
        certified("recall", 0.99, 0.1, is_certified=False),
    ]
    held = HeldOut(np.arange(20), fitted, fitted.predict_proba(logits_of(old)))
    found = measure_new_nodes(subject, fitted, held, asked)
    assert (found.n_before, found.n_new) == (4, 23)
    assert [(g["name"], g["target"], g["n_before"], g["n_new"]) for g in found.guarantees] == [
        ("accuracy", 0.8, 3, 23),  # of the old ones, 0.05, 0.3 and 0.97 are sure enough
        ("accuracy", 0.9, 1, 17),  # of the new ones, six times 0.02 and 0.97, five times 0.98
        ("act", 0.9, 1, 11),
        ("clear", 0.95, 1, 12),
        ("recall", 0.8, 1, 12),
    ]


@pytest.fixture(scope="module")
def pages():
    (logits, labels, graph), splits = task()
    chosen = {"methods": ["ts"], "positive": 2}
    moved = gnncal.report(logits, labels, graph, **splits, **chosen, new=(logits / 5, graph))
    same = gnncal.report(logits, labels, graph, **splits, **chosen, new=Nodes(logits, graph))
    return {
        "moved": moved,
        "same": same,
        "none": gnncal.report(logits, labels, graph, **splits, methods=["ts"]),
    }


def test_the_page_has_the_section_only_when_asked(pages):
    assert 'id="new-nodes"' not in pages["none"].html
    assert "moves-chart" not in pages["none"].html
    assert pages["none"].findings.new_nodes is None
    for name in ("moved", "same"):
        assert pages[name].html.count('id="new-nodes"') == 1
        assert 'href="#new-nodes"' in pages[name].html


def test_guarantees_stand_only_for_the_same_kind_of_nodes(pages):
    same, moved = (pages[name].findings.new_nodes for name in ("same", "moved"))
    assert same.check.verdict == "same"
    assert same.is_standing
    assert same.sentence.startswith("The guarantees still hold if the new nodes come from the same")
    assert moved.check.verdict != "same"
    assert not moved.is_standing
    assert moved.sentence.startswith("The guarantees do not hold for the new nodes")
    assert f"Label about {moved.check.n_labels} nodes" in moved.sentence
    assert "update" in moved.sentence
    assert "refresh" in moved.sentence
    assert "The guarantees do not hold" in pages["moved"].html
    assert "No evidence against the guarantees" in pages["same"].html


def test_no_accuracy_of_new_nodes_is_stated(pages):
    for name in ("moved", "same"):
        found = pages[name].findings.new_nodes
        assert "accuracy" not in found.sentence + found.check.sentence
        start = pages[name].html.index('<section id="new-nodes"')
        section = pages[name].html[start : pages[name].html.index("</section>", start)]
        assert "accuracy" not in section
        assert "Only labels show how many" in section


def test_the_record_agrees_with_the_check_and_the_decisions_of_the_report():
    (logits, labels, graph), splits = task()
    new = (logits[::-1].copy() / 2, graph)
    subject = subject_of(logits, labels, graph, **splits, methods=["structural"], new=new)
    found = find(subject)
    shown = found.methods["structural"]
    direct = gnncal.check(shown.calibrator, *new)
    assert repr(found.new_nodes.check) == repr(direct)
    assert found.new_nodes.n_before == shown.selective.n_nodes
    selective = {
        target: n
        for target, n in zip(shown.selective.target, shown.selective.n_decided, strict=True)
        if target in CERTIFIED_TARGETS
    }
    decided = {each["target"]: each["n_before"] for each in found.new_nodes.guarantees}
    assert decided
    assert decided == {target: selective[target] for target in decided}


def test_training_nodes_of_a_bundle_are_left_out():
    (logits, labels, graph), splits = task()
    bundle = Bundle(
        logits,
        labels,
        graph,
        splits["train_nodes"],
        splits["calibration_nodes"],
        splits["test_nodes"],
    )
    subject = subject_of(logits, labels, graph, **splits, methods=["ts"], new=bundle)
    expected = np.sort(np.concatenate([splits["calibration_nodes"], splits["test_nodes"]]))
    assert np.array_equal(subject.new[1], expected)


def test_where_nothing_is_guaranteed_the_page_says_so():
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(200, 2)), generator.integers(2, size=200)
    splits = {"calibration_nodes": range(100), "test_nodes": range(100, 200)}
    page = gnncal.report(logits, labels, **splits, methods=["ts"], new=(logits, None))
    assert page.findings.new_nodes.guarantees == []
    assert "so nothing is guaranteed" in page.findings.new_nodes.sentence
    assert "Nothing is guaranteed" in page.html
    assert "new-guarantee-table" not in page.html


def test_new_nodes_that_do_not_fit_are_refused_before_any_work():
    (logits, labels, graph), splits = task()
    empty = np.empty(0, dtype=np.int64)
    other = Bundle(logits, labels, graph, empty, empty, empty, class_names=list("dcba"))

    def refused(new, match, **options):
        def never(step):
            raise AssertionError(step)

        with pytest.raises(InputError, match=match):
            gnncal.report(logits, labels, graph, **splits, new=new, progress=never, **options)

    refused(logits, "structural needs a graph and new has none")
    refused((logits[:, :3], graph), "3 columns")
    refused((logits[:10], None), "there are 10 new nodes", methods=["ts"])
    refused((logits, None), "structural needs a graph and new has none")
    refused(other, "put the columns of logits in the same order", class_names=list("abcd"))
