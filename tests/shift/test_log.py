"""A log is read line by line, and no line is counted twice."""

import numpy as np
import pytest

import gnncal
from gnncal.shift.log import append_labels, read_log

NAMES = ["fine", "fraud"]


def new_watch(**given):
    return gnncal.Watch(n_classes=2, class_names=NAMES, **given)


def n_labels(watch):
    return watch.claims["confidence"].n_labels


def test_only_whole_lines_are_read_and_each_once(tmp_path):
    path, watch = tmp_path / "log.csv", new_watch()
    path.write_text("id,p0,p1,label\n1,0.2,0.8,fraud\n2,0.4,0.6,0\n3,0.1,0.")
    first = read_log(path, watch)
    assert first.n_new == 2
    with path.open("a") as file:
        file.write("9,fine\n4,0.3,0.7,\n")
    second = read_log(path, watch, first.position)
    assert (second.n_new, second.n_without_label) == (1, 1)
    assert read_log(path, watch, second.position).n_new == 0
    assert n_labels(watch) == 3


def test_predictions_and_confidences_say_what_probabilities_say(tmp_path):
    (tmp_path / "a.csv").write_text(
        "prediction,confidence,probability,label\r\n1,0.8,0.8,fine\r\n0,0.9,0.1,0\r\n"
    )
    (tmp_path / "b.csv").write_text("p0,p1,label\n0.2,0.8,fine\n0.9,0.1,0.0\n\n")
    reports = []
    for name in ("a.csv", "b.csv"):
        watch = new_watch(positive="fraud")
        assert read_log(tmp_path / name, watch).n_new == 2
        reports.append(repr(watch.report()))
    assert reports[0] == reports[1]


def test_the_log_gives_what_the_arrays_give(tmp_path):
    generator = np.random.default_rng(0)
    p = np.round(generator.uniform(0.5, 1, 400), 4)
    labels = (generator.random(400) < p).astype(int)
    actions = np.select([p > 0.9, p > 0.7], ["decide", "act"], "clear")
    probs = np.column_stack([1 - p, p])
    arrays, read = (new_watch(positive=1, act=0.9, clear=0.2, decide=0.7) for _ in range(2))
    arrays.add(probs, labels, actions=actions)
    rows = zip(1 - p, p, labels, actions, strict=True)
    text = "".join(f"{a!r},{b!r},{y},{act}\n" for a, b, y, act in map(_plain, rows))
    (tmp_path / "log.csv").write_text("p0,p1,label,action\n" + text)
    read_log(tmp_path / "log.csv", read)
    for mine, theirs in zip(arrays.report().claims, read.report().claims, strict=True):
        assert mine.n_labels == theirs.n_labels
        assert mine.evidence == pytest.approx(theirs.evidence, rel=1e-9)


def _plain(row):
    return [value.item() for value in row]


def test_a_log_that_was_rewritten_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("p0,p1,label\n0.2,0.8,1\n")
    position = read_log(path, new_watch()).position
    for text in ("p0,p1,label\n0.2,0.8,0\n0.5,0.5,1\n", "p0,p1,label\n"):
        path.write_text(text)
        watch = new_watch()
        with pytest.raises(gnncal.InputError, match="not those that were read before"):
            read_log(path, watch, position)
        assert n_labels(watch) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p0,p1\n0.2,0.8\n", "but not label;"),
        ("p0,label\n0.2,1\n", "but not p1;"),
        ("p0,p1,label\n0.2,0.8,1\n0.2,0.9,1\n", "line 3: p0, p1, ... sum to 1.1"),
        ("p0,p1,label\n0.2,x,1\n", "line 2: p1 is 'x'; expected a probability"),
        ("p0,p1,label\n0.2,0.8,theft\n", "line 2: label is 'theft'; expected fine, fraud"),
        ("p0,p1,label\n0.2,0.8\n", "line 2 has 2 entries for 3 columns"),
        ("label\n1\n", "but not prediction, confidence;"),
        ("prediction,label\n", "but not confidence;"),
        ("prediction,confidence,label\n,0.5,1\n", "line 2: prediction is ''"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_nothing_is_taken_in(tmp_path, text, message):
    path, watch = tmp_path / "log.csv", new_watch()
    path.write_text(text)
    with pytest.raises(gnncal.InputError, match=message):
        read_log(path, watch)
    assert n_labels(watch) == 0


def test_other_files_are_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"label\n\xff\xfe\n")
    with pytest.raises(gnncal.InputError, match="is not UTF-8 text"):
        read_log(tmp_path / "log.csv", new_watch())
    (tmp_path / "empty.csv").write_text("")
    assert read_log(tmp_path / "empty.csv", new_watch()).n_new == 0


def test_an_unfinished_quote_is_refused_with_its_line_and_swallows_no_other(tmp_path):
    path, watch = tmp_path / "log.csv", new_watch()
    path.write_text('id,p0,p1,label\n1,0.2,0.8,fraud\n"2,0.4,0.6,fine\n' + "3,0.1,0.9,fine\n" * 50)
    with pytest.raises(gnncal.InputError, match=r"line 3 .* quote"):
        read_log(path, watch)
    assert n_labels(watch) == 0


def test_a_quoted_comma_is_part_of_its_entry(tmp_path):
    path, watch = tmp_path / "log.csv", new_watch()
    path.write_text('id,p0,p1,label\n"a, ""b""",0.2,0.8,fraud\n')
    assert read_log(path, watch).n_new == 1


@pytest.mark.parametrize("value", ["x" * 200_000, "1" + "0" * 400])
@pytest.mark.parametrize("column", ["label", "p1"])
def test_a_value_beyond_all_measure_is_refused_in_one_sentence(tmp_path, column, value):
    row = {"p0": 0.2, "p1": 0.8, "label": 1, column: value}
    (tmp_path / "log.csv").write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    with pytest.raises(gnncal.InputError, match=r"line \d") as refused:
        read_log(tmp_path / "log.csv", new_watch(positive=1))
    assert len(str(refused.value)) < 400


def test_a_label_is_a_name_where_names_are_numbers(tmp_path):
    path, watch = tmp_path / "log.csv", gnncal.Watch(n_classes=2, class_names=["1", "0"])
    path.write_text("p0,p1,label\n0.9,0.1,1\n0.9,0.1,1.0\n")
    assert read_log(path, watch).n_new == 2
    assert watch.report().claims[0].observed == 1.0  # "1" is the name of the first column
    path.write_text("p0,p1,label\n0.9,0.1,0\n")
    with pytest.raises(gnncal.InputError, match="label is '0'; expected 1, 2"):
        read_log(path, gnncal.Watch(n_classes=2, class_names=["1", "2"]))


def test_a_first_night_without_a_log_is_no_error_and_a_log_that_vanished_is(tmp_path):
    path, watch = tmp_path / "log.csv", new_watch()
    first = read_log(path, watch)
    assert first.n_new == 0
    path.write_text("p0,p1,label\n0.2,0.8,1\n")
    position = read_log(path, watch, first.position).position
    path.unlink()
    with pytest.raises(gnncal.InputError, match="which was read before"):
        read_log(path, watch, position)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_log_is_built_from_scores_and_labels_by_id_and_each_counts_once(tmp_path, kind):
    rows = [{"id": i, "p0": 1 - p, "p1": p, "other": "x"} for i, p in ((7, 0.75), (8, 0.5), (9, 1))]
    scores = tmp_path / f"probabilities.{kind}"
    if kind == "csv":
        lines = [",".join(map(str, row.values())) for row in rows]
        scores.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        columns = {n: list(map(float, v)) if n in ("p0", "p1") else v for n, v in columns.items()}
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), scores)
    log, labels = tmp_path / "log.csv", tmp_path / "labels.csv"
    labels.write_text("id,label\n12,fraud\n")
    assert append_labels(log, scores, labels) == (0, 1, 0)
    assert not log.exists()  # its columns come with the first score
    labels.write_text("id,label\n8,fine\n7,\n12,fraud\n")
    assert append_labels(log, scores, labels) == (1, 1, 0)
    labels.write_text("id,label\n8,fine\n7,fraud\n")
    assert append_labels(log, scores, labels) == (1, 0, 0)
    assert append_labels(log, scores, labels) == (0, 0, 0)
    assert log.read_text() == "id,p0,p1,label\n8,0.5,0.5,fine\n7,0.25,0.75,fraud\n"
    watch = new_watch()
    assert read_log(log, watch).n_new == 2


def test_scores_in_npz_go_into_the_log_by_id_or_row(tmp_path):
    log, scores, labels = (tmp_path / name for name in ("log.csv", "scores.npz", "labels.csv"))
    probs = np.array([[0.25, 0.75], [0.5, 0.5]])
    labels.write_text("id,label\n1,fraud\n")
    np.savez(scores, prediction=[1, 0], probs=probs, class_names=["fine", "fraud"])
    assert append_labels(log, scores, labels) == (1, 0, 0)
    assert log.read_text() == "id,prediction,p0,p1,label\n1,0,0.5,0.5,fraud\n"
    labels.write_text("id,label\na,fraud\n")
    np.savez(scores, prediction=[1, 0], probs=probs, node_ids=["a", "b"])
    assert append_labels(log, scores, labels) == (1, 0, 0)
    log.unlink()
    action = ["decide", "review"]
    np.savez(scores, prediction=[1, 0], confidence=[0.9, 0.6], action=action, node_ids=["a", "b"])
    assert append_labels(log, scores, labels) == (1, 0, 0)
    watch = new_watch(decide=0.8)  # as after gnncal decide --accuracy
    read_log(log, watch)
    assert [claim.n_labels for claim in watch.report().claims] == [1, 1]
    scores.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(gnncal.InputError, match="not a table in CSV, Parquet"):
        append_labels(log, scores, labels)


def test_a_log_that_ends_within_a_line_is_not_appended_to(tmp_path):
    log, table = tmp_path / "log.csv", tmp_path / "t.csv"
    log.write_text("id,p0,p1,label\n8,0.5")
    table.write_text("id,label,p0,p1\n8,1,0.5,0.5\n")
    with pytest.raises(gnncal.InputError, match="ends within a line"):
        append_labels(log, table, table)
    table.write_text("name,label\n8,1\n")
    with pytest.raises(gnncal.InputError, match="expected id and label"):
        append_labels(log, table, table)
    table.write_bytes(b"id,label\n\xff,1\n")
    with pytest.raises(gnncal.InputError, match="not a table in CSV, Parquet"):
        append_labels(log, table, table)
