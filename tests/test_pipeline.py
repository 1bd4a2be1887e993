"""One call from logits to judged probabilities."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import gnncal
from gnncal import calibration as pipeline
from gnncal.calibration import DEFAULT_METHOD
from gnncal.calibrators.registry import name_of
from tests.fraud import fraud_task

N, K = 240, 3


def task(seed=0):
    generator = np.random.default_rng(seed)
    logits = 6 * generator.normal(size=(N, K))
    chances = gnncal.calibrators.softmax(logits / 4)  # the logits are four times too large
    labels = (generator.random((N, 1)) >= chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    graph = gnncal.Graph(generator.integers(0, N, size=(2, 900)), N)
    parts = np.split(generator.permutation(N), [20, 120])
    return (
        logits,
        labels,
        graph,
        dict(zip(("train_nodes", "calibration_nodes", "test_nodes"), parts, strict=True)),
    )


def test_the_result_is_what_the_parts_give_one_by_one():
    logits, labels, graph, split = task()
    result = gnncal.calibrate(logits, labels, graph, **split, method="ts")
    by_hand = gnncal.calibrators.TemperatureScaling().fit(
        logits,
        labels,
        graph,
        calibration_nodes=split["calibration_nodes"],
        train_nodes=split["train_nodes"],
    )
    probs = by_hand.predict_proba(logits, graph)
    np.testing.assert_array_equal(result.probabilities, probs)
    test = np.sort(split["test_nodes"])
    raw = gnncal.calibrators.softmax(logits[test])
    degree = graph.in_degree[test]
    assert result.before == gnncal.evaluate(labels[test], raw, in_degree=degree)
    assert result.after == gnncal.evaluate(labels[test], probs[test], in_degree=degree)
    assert result.comparison == gnncal.compare(labels[test], raw, probs[test])
    assert result.comparison.nll.high < 0  # a temperature of four was planted


def test_masks_and_indices_in_any_order_give_the_same():
    logits, labels, graph, split = task()
    masks = {name: np.isin(np.arange(N), nodes) for name, nodes in split.items()}
    by_index = gnncal.calibrate(logits, labels, graph, **split)
    by_mask = gnncal.calibrate(logits, labels, graph, **masks)
    np.testing.assert_array_equal(by_index.probabilities, by_mask.probabilities)
    assert by_index.after == by_mask.after


def test_without_test_nodes_nothing_is_judged():
    logits, labels, graph, split = task()
    hidden = labels.copy()
    hidden[split.pop("test_nodes")] = -1
    result = gnncal.calibrate(logits, hidden, graph, **split, method="ts")
    assert result.before is result.after is result.comparison is None
    assert "TemperatureScaling: fit on 100 calibration nodes" in str(result)


def test_labels_of_test_nodes_cannot_change_probabilities():
    logits, labels, graph, split = task()
    changed = labels.copy()
    changed[split["test_nodes"]] = 0
    first, second = (gnncal.calibrate(logits, y, graph, **split) for y in (labels, changed))
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    assert first.after != second.after


def test_the_default_method_is_named_once():
    logits, labels, graph, split = task()
    result = gnncal.calibrate(logits, labels, graph, **split)
    assert type(result.calibrator) is type(gnncal.get_calibrator(DEFAULT_METHOD))


def test_parameters_reach_the_constructor():
    logits, labels, graph, split = task()
    result = gnncal.calibrate(logits, labels, graph, **split, method="HOTS", epsilon=0.25)
    assert result.calibrator.epsilon == 0.25


def test_a_calibrator_is_copied_and_not_changed():
    logits, labels, graph, split = task()
    given = gnncal.HoTS(epsilon=0.25)
    result = gnncal.calibrate(logits, labels, graph, **split, method=given)
    assert result.calibrator is not given
    assert result.calibrator.epsilon == 0.25
    assert not hasattr(given, "classes_")


def test_a_graph_of_pytorch_geometric_is_converted():
    logits, labels, graph, split = task()
    data = SimpleNamespace(edge_index=graph.edge_index, num_nodes=N)
    ours, theirs = (gnncal.calibrate(logits, labels, g, **split) for g in (graph, data))
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def test_a_saved_calibrator_serves_another_graph_and_is_judged_there(tmp_path):
    logits, labels, graph, split = task()
    gnncal.calibrate(logits, labels, graph, **split).calibrator.save(tmp_path / "saved")
    loaded = gnncal.load(tmp_path / "saved")
    new_logits, new_labels, new_graph, _ = task(seed=1)
    unjudged = pipeline.apply(loaded, new_logits, new_graph)
    np.testing.assert_array_equal(
        unjudged.probabilities, loaded.predict_proba(new_logits, new_graph)
    )
    assert unjudged.before is None
    judged = pipeline.apply(
        loaded, new_logits, new_graph, labels=new_labels, test_nodes=np.arange(N)
    )
    assert judged.after.nll < judged.before.nll


def test_the_result_shows_every_part_within_80_columns():
    logits, labels, graph, split = task()
    result = gnncal.calibrate(logits, labels, graph, **split)
    text = str(result)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("120 test nodes", "before", "after", "ECE %", "NLL", "calibration nodes"):
        assert part in text


def test_the_frame_of_a_result_has_both_sides():
    pytest.importorskip("pandas")
    logits, labels, graph, split = task()
    result = gnncal.calibrate(logits, labels, graph, **split)
    frame = result.to_frame()
    assert frame.loc["nll", "before"] == result.before.nll
    assert frame.loc["ece", "after"] == result.after.ece.value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "hotz"}, r"did you mean 'hots'\?"),
        ({"method": gnncal.HoTS}, "expected a calibrator's name or a calibrator"),
        ({"method": gnncal.HoTS(), "epsilon": 1.0}, r"pass HoTS\(epsilon=...\) as method"),
        (
            {"test_nodes": [0, 1, 2], "calibration_nodes": [2, 3]},
            "test_nodes and calibration_nodes share 1 nodes",
        ),
        ({"train_nodes": [5], "test_nodes": [5]}, "test_nodes and train_nodes share 1 nodes"),
        ({"graph": 3}, "graph is a int"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(changes, message):
    logits, labels, graph, split = task()
    arguments = {"graph": graph, **split, **changes}
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.calibrate(logits, labels, **arguments)


def test_logits_of_some_nodes_only_are_told_by_the_graph():
    logits, labels, graph, split = task()
    for arguments in (split, {"calibration_nodes": split["calibration_nodes"]}):
        with pytest.raises(gnncal.InputError, match="pass the logits of every node of this"):
            gnncal.calibrate(logits[:50], labels, graph, **arguments)


def test_one_logit_for_each_node_is_told_how_to_become_two_columns():
    logits, labels, graph, split = task()
    with pytest.raises(gnncal.InputError, match=r"sigmoid model .* stack \[0, z\]"):
        gnncal.calibrate(logits[:, 0], labels, graph, **split)


def test_classes_that_are_numbered_from_one_are_told_so():
    logits, labels, graph, split = task()
    with pytest.raises(gnncal.InputError, match="numbered from 1, subtract 1"):
        gnncal.calibrate(logits, labels + 1, graph, **split)


def test_unlabelled_test_nodes_are_named():
    logits, labels, graph, split = task()
    labels[split["test_nodes"][0]] = -1
    with pytest.raises(gnncal.InputError, match="labels of test_nodes"):
        gnncal.calibrate(logits, labels, graph, **split)


def overconfident():
    """Logits of 300 nodes and 3 classes, three times as sure as they should be, and labels."""
    logits, noise = 3 * np.random.default_rng(0).normal(size=(2, 300, 3))
    return logits, (logits + noise).argmax(axis=1)


def test_class_names_go_from_the_call_to_the_result_its_print_and_the_file(tmp_path):
    (logits, labels), names = overconfident(), ["cat", "dog", "eel"]
    result = gnncal.calibrate(
        logits, labels, calibration_nodes=range(150), method="ts", class_names=names
    )
    assert result.class_names == names
    assert "cat: " in repr(result)
    result.calibrator.save(tmp_path / "c")
    assert gnncal.load(tmp_path / "c").class_names_ == names
    with pytest.raises(gnncal.InputError, match="class_names has 2 names for 3 classes"):
        gnncal.calibrate(
            logits, labels, calibration_nodes=range(150), method="ts", class_names=["a", "b"]
        )
    assert (
        gnncal.calibrate(logits, labels, calibration_nodes=range(150), method="ts").class_names
        is None
    )


def test_class_names_of_pytorch_geometric_data_are_used():
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    logits, labels = overconfident()
    edges = torch.as_tensor(np.random.default_rng(0).integers(300, size=(2, 900)))
    data = pyg.Data(edge_index=edges, num_nodes=300, class_names=["cat", "dog", "eel"])
    assert (
        gnncal.calibrate(logits, labels, data, calibration_nodes=range(150)).class_names[2] == "eel"
    )
    splits = {"calibration_nodes": range(150), "test_nodes": range(150, 300)}
    made = gnncal.report(logits, labels, data, **splits, methods=["ts"])
    assert made.findings.class_names == ["cat", "dog", "eel"]


@pytest.mark.parametrize("method", ["ts", "hots", "structural", "auto", "isotonic"])
def test_probabilities_passed_as_logits_are_remarked_on_once(method):
    logits, labels = overconfident()
    graph = gnncal.Graph(np.random.default_rng(0).integers(300, size=(2, 900)), 300)
    probs = gnncal.calibrators.softmax(logits)
    splits = {"calibration_nodes": range(150), "test_nodes": range(150, 300)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = gnncal.calibrate(probs, labels, graph, **splits, method=method)
        result.calibrator.predict_proba(probs, graph)
    assert sum("look like probabilities" in str(w.message) for w in caught) == 1


def test_a_calibrator_of_logits_remarks_on_probabilities():
    logits, labels = overconfident()
    calibrator = gnncal.calibrators.TemperatureScaling().fit(logits, labels)
    with pytest.warns(gnncal.GnncalWarning, match="look like probabilities"):
        calibrator.predict_proba(gnncal.calibrators.softmax(logits))


def test_heads_with_several_labels_are_told_what_works_and_it_works():
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(300, 4))
    labels = (generator.random((300, 4)) < 1 / (1 + np.exp(-logits / 3))).astype(int)
    graph = gnncal.Graph(generator.integers(300, size=(2, 900)), 300)
    splits = {"calibration_nodes": range(150), "test_nodes": range(150, 300)}
    with pytest.raises(gnncal.InputError, match=r"gnncal.calibrate_multilabel\(logits"):
        gnncal.calibrate(logits, labels, graph, **splits)
    for given in (None, graph):
        made = gnncal.calibrate_multilabel(logits, labels, given, **splits)
        assert made.probabilities.shape == (300, 4)
        assert all(each.comparison.nll.mean < 0 for each in made.columns)
    by_hand = gnncal.calibrate(
        np.column_stack([0 * logits[:, 2], logits[:, 2]]),
        labels[:, 2],
        graph,
        positive=1,
        method="structural-free",
        **splits,
    )
    np.testing.assert_array_equal(made.probabilities[:, 2], by_hand.probabilities[:, 1])
    assert made.to_frame().loc["mean"].size == 4


def test_unknown_labels_of_a_column_are_left_out_of_that_column():
    generator = np.random.default_rng(1)
    logits = 3 * generator.normal(size=(300, 2))
    labels = (generator.random((300, 2)) < 1 / (1 + np.exp(-logits / 3))).astype(float)
    labels[:40, 0] = np.nan
    made = gnncal.calibrate_multilabel(logits, labels, calibration_nodes=range(200))
    assert [sum(each.calibrator.fit_report_.nodes_per_class) for each in made.columns] == [160, 200]
    with pytest.raises(gnncal.InputError, match="are 0 or 1"):
        gnncal.calibrate_multilabel(logits, labels + 1, calibration_nodes=range(200))


def test_one_column_of_probabilities_is_told_how_to_be_judged():
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(300, 4))
    labels = (generator.random((300, 4)) < 1 / (1 + np.exp(-logits / 3))).astype(int)
    probs = 1 / (1 + np.exp(-logits))
    with pytest.raises(gnncal.InputError, match=r"one column p at a time as two, \[1 - p, p\]"):
        gnncal.evaluate(labels.argmax(axis=1), probs)
    halves = np.full((300, 2), 0.5)
    for unknown in (labels, np.where(labels < 1, -1, labels), np.where(labels < 1, np.nan, labels)):
        with pytest.raises(gnncal.InputError, match=r"are judged as np.column_stack\(\[1 - p, p\]"):
            gnncal.evaluate(unknown, halves)
    for one in (probs[:, 0], probs[:, :1]):
        with pytest.raises(gnncal.InputError, match=r"\[1 - p, p\] as two columns"):
            gnncal.evaluate(labels[:, 0], one)
    column = np.column_stack([1 - probs[:, 0], probs[:, 0]])
    assert gnncal.evaluate(labels[:, 0], column, positive=1).positive_ece < 0.3


def test_heads_that_predict_links_are_told_what_works_and_it_works():
    generator = np.random.default_rng(0)
    graph = gnncal.Graph(generator.integers(60, size=(2, 400)), 60)
    z = 4 * generator.normal(size=400)
    labels = (generator.random(400) < 1 / (1 + np.exp(-z / 4))).astype(int)
    logits = np.column_stack([0 * z, z])
    splits = {"calibration_nodes": range(200), "test_nodes": range(200, 400)}
    with pytest.raises(gnncal.InputError, match=r"link prediction.*leave graph out.*method='svs'"):
        gnncal.calibrate(logits, labels, graph, **splits)
    with pytest.raises(gnncal.InputError, match="choose a method that needs none, such as 'hts'"):
        gnncal.calibrate(logits, labels, **splits)
    with pytest.raises(gnncal.InputError, match="choose a method that needs none, such as 'svs'"):
        gnncal.calibrate(logits, labels, **splits, positive=1)
    assert gnncal.calibrate(logits, labels, **splits, method="svs").comparison.nll.mean < 0


# --- one class in view


def weighted_task(n_nodes=900, seed=0):
    """A model of two classes, 8% of them fraud, that gives fraud three nats too much."""
    generator = np.random.default_rng(seed)
    score = 2.0 * generator.normal(size=n_nodes) - 4.0
    labels = (generator.random(n_nodes) < 1 / (1 + np.exp(-score))).astype(int)
    logits = np.column_stack([np.zeros(n_nodes), score + 3.0])
    edges = generator.integers(0, n_nodes, size=(2, 2 * n_nodes))
    graph = gnncal.Graph(np.hstack([edges, edges[::-1]]), n_nodes)
    third = n_nodes // 3
    return (
        logits,
        labels,
        graph,
        {"calibration_nodes": range(third), "test_nodes": range(third, n_nodes)},
    )


def test_with_a_class_in_view_the_default_is_free_and_its_probability_honest():
    logits, labels, graph, split = weighted_task()
    result = gnncal.calibrate(
        logits, labels, graph, **split, positive="fraud", class_names=["fine", "fraud"]
    )
    assert name_of(result.calibrator) == "structural-free"
    assert result.positive == result.before.positive == result.after.positive == 1
    assert result.before.positive_ece > 0.2
    assert result.after.positive_ece < result.after.floors["positive_ece"] + 0.02
    test = np.arange(300, 900)
    expected = gnncal.evaluate(
        labels[test],
        result.probabilities[test],
        in_degree=graph.in_degree[test],
        positive=1,
        class_names=["fine", "fraud"],
    )
    assert result.after == expected
    assert result.comparison.positive_brier.high < 0
    shown = str(result)
    assert f"\nfraud: {labels[test].sum()} of 600 test nodes\nmean P %" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_class_in_view_changes_neither_a_method_that_is_passed_nor_an_answer():
    logits, labels, graph, split = weighted_task()
    plain = gnncal.calibrate(logits, labels, graph, **split)
    for asked in ({"method": "structural"}, {"keep_predictions": True}):
        result = gnncal.calibrate(logits, labels, graph, **split, positive=1, **asked)
        assert name_of(result.calibrator) == "structural"
        np.testing.assert_array_equal(result.probabilities, plain.probabilities)
        assert result.after.values.items() >= plain.after.values.items()
    free = gnncal.calibrate(logits, labels, graph, **split, keep_predictions=False)
    default = gnncal.calibrate(logits, labels, graph, **split, positive=1)
    np.testing.assert_array_equal(default.probabilities, free.probabilities)


def test_a_class_that_is_not_there_is_said_before_the_fit():
    logits, labels, graph, split = weighted_task()
    with pytest.raises(gnncal.InputError, match=r"unknown class 'fruad'.*did you mean 'fraud'"):
        gnncal.calibrate(
            logits, labels, graph, **split, positive="fruad", class_names=["fine", "fraud"]
        )
    with pytest.raises(gnncal.InputError, match="positive is 2; expected the name of a class"):
        gnncal.calibrate(logits, labels, graph, **split, positive=2)


def test_a_saved_calibrator_knows_the_class_by_name(tmp_path):
    logits, labels, graph, split = weighted_task()
    fitted = gnncal.calibrate(
        logits, labels, graph, **split, class_names=["fine", "fraud"], method="svs"
    )
    fitted.calibrator.save(tmp_path / "c.safetensors")
    loaded = gnncal.load(tmp_path / "c.safetensors")
    result = pipeline.apply(
        loaded, logits, graph, labels=labels, test_nodes=split["test_nodes"], positive="fraud"
    )
    assert result.positive == 1
    assert "fraud: " in str(result)


def test_what_keeping_predictions_costs_is_printed_first():
    arrays, splits = fraud_task(is_weighted=True)
    names = ["honest", "fraud"]
    result = gnncal.calibrate(
        *arrays, calibration_nodes=splits["calibration_nodes"], class_names=names
    )
    said = f"Do not use these probabilities. {result.advice}"
    assert " ".join(repr(result).partition("\n\n")[0].split()) == said
    plain, splits = fraud_task(is_weighted=False)
    quiet = gnncal.calibrate(*plain, calibration_nodes=splits["calibration_nodes"])
    assert "Keeping predictions" not in repr(quiet)
    assert quiet.verdict is None  # nothing to judge by


@pytest.mark.parametrize("is_weighted", [True, False])
def test_the_verdict_is_that_of_the_report_and_is_printed_first(is_weighted):
    arrays, splits = fraud_task(is_weighted=is_weighted)
    result = gnncal.calibrate(*arrays, **splits)
    report = gnncal.report(*arrays, **splits, methods=["structural"])
    assert result.verdict == report.findings.verdict
    first = " ".join(repr(result).partition("\n\n")[0].split())
    assert first == f"{result.verdict.label}. {result.verdict.text}"
    assert (result.verdict.label == "Do not use these probabilities") == is_weighted


@pytest.mark.parametrize("text", [["yes", "no"], np.array(["1", "no"], dtype=object)])
def test_labels_of_text_are_refused_where_a_node_has_several(text):
    labels = np.array([text] * 40)
    with pytest.raises(gnncal.InputError, match=r"labels has dtype .* are 0 or 1"):
        gnncal.calibrate_multilabel(np.zeros((40, 2)), labels, calibration_nodes=range(20))


def test_a_forgotten_graph_is_asked_for_by_its_name_whatever_was_called():
    task, asked = gnncal.example(), "needs a graph; pass the graph of these nodes as graph"
    with pytest.raises(gnncal.InputError, match=asked):
        gnncal.calibrate(task.logits, task.labels, calibration_nodes=task.calibration_nodes)
    fitted = gnncal.HoTS().fit(
        task.logits, task.labels, task.graph, calibration_nodes=task.calibration_nodes
    )
    with pytest.raises(gnncal.InputError, match=asked):
        fitted.predict_proba(task.logits)
    with pytest.raises(gnncal.InputError, match=asked):
        fitted.update(task.logits, task.labels, calibration_nodes=task.test_nodes)
