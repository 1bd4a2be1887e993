"""What the columns of the tables may be, and what is said about those that cannot be used."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gnncal import InputError, read_bundle
from gnncal.scale import calibrate
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EXAMPLE = make_example(n_nodes=200)
Z = ("z0", "z1", "z2", "z3")
LISTS = [list(map(float, row)) for row in EXAMPLE.logits]
WITHOUT_Z = dict.fromkeys(Z)


def write(folder, *, n_rows=None, **changes):
    """The example's files with other columns in the nodes; None leaves a column out."""
    columns = {k: v for k, v in (EXAMPLE.node_columns() | changes).items() if v is not None}
    pq.write_table(pa.table(columns).slice(0, n_rows), folder / "nodes.parquet")
    pq.write_table(pa.table(EXAMPLE.edge_columns()), folder / "edges.parquet")
    return folder / "nodes.parquet", folder / "edges.parquet"


def refusal(folder, *, method="ts", skip_bad=False, **changes):
    """The sentence with which a run refuses the example with these changes."""
    files = write(folder, **changes)
    with pytest.raises(InputError) as raised:
        calibrate(*files, folder / "out", method=method, skip_bad=skip_bad)
    assert sorted(file.name for file in folder.iterdir()) == ["edges.parquet", "nodes.parquet"]
    return str(raised.value)


REFUSED = {
    "no split": ({"split": None}, "no column split, so nothing can be fitted.*--calibrator"),
    "no label": ({"label": None}, "no column label, so nothing can be fitted"),
    "neither": ({"label": None, "split": None}, "no column label and no column split"),
    "one class": ({"z1": None, "z2": None, "z3": None}, "one logit each.*write 0 as z0"),
    "one class in lists": (WITHOUT_Z | {"logits": [[1.0]] * 200}, "one logit each, so one"),
    "lists of lists": (
        WITHOUT_Z | {"logits": [[row] for row in LISTS]},
        "logits of the nodes is of type list<.*: list<.*double>>; expected lists of numbers",
    ),
    "lists of text": (
        WITHOUT_Z | {"logits": [list(map(str, row)) for row in LISTS]},
        "logits of the nodes is of type list<.*string>; expected lists of numbers",
    ),
    "lists of booleans": (
        WITHOUT_Z | {"logits": [[x > 0 for x in row] for row in LISTS]},
        "logits of the nodes is of type list<.*bool>; expected lists of numbers",
    ),
    "empty lists": (
        WITHOUT_Z | {"logits": pa.array([[]] * 199 + [None], pa.list_(pa.float64()))},
        "no rows, or the lists of logits are empty in all",
    ),
    "a text logit": (
        {"z1": ["abc"] * 200},
        "column z1 of the nodes is of type string; expected numbers",
    ),
    "a numeric text": ({"z1": ["1.5"] * 200}, "column z1 of the nodes is of type string"),
    "a boolean logit": (
        {"z1": EXAMPLE.logits[:, 1] > 0},
        "z1 of the nodes is of type bool; expected numbers",
    ),
    "a date": ({"z1": pa.array([0] * 200, pa.date32())}, "z1 of the nodes is of type date"),
    "boolean labels": ({"label": EXAMPLE.labels > 1}, "boolean but there are 4 classes"),
    "lists as labels": (
        {"label": [[0]] * 200},
        "label of the nodes is of type list<.*int64>; expected whole",
    ),
    "numbers as split": (
        {"split": np.zeros(200, int)},
        "split of the nodes is of type int64; expected the text train, val, test",
    ),
    "z0 and z00": ({"z00": EXAMPLE.logits[:, 0]}, "z0 and z00 are both column 0"),
    "z² for z2": ({"z2": None, "z²": EXAMPLE.logits[:, 2]}, "z2 is missing although.* z3"),
    "no rows": ({"n_rows": 0}, "table of the nodes has columns but no rows"),
    "no rows of lists": (WITHOUT_Z | {"logits": LISTS, "n_rows": 0}, "the nodes have no rows"),
    "skipping all": ({"z1": np.full(200, np.nan), "skip_bad": True}, "no row of the nodes is"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_each_column_that_cannot_be_used_has_its_own_sentence(case, tmp_path):
    changes, message = REFUSED[case]
    said = refusal(tmp_path, **changes)
    assert re.search(message, said), said
    assert "\n" not in said


@pytest.mark.parametrize("known", [{}, {"label": None}, {"label": None, "split": None}])
def test_a_fitted_calibrator_needs_neither_labels_nor_a_split(known, tmp_path):
    fitted = EXAMPLE.in_memory("hots")
    files = write(tmp_path, **known)
    summary = calibrate(*files, tmp_path / "out", calibrator=fitted, all_probabilities=True)
    assert_same(result(tmp_path / "out"), fitted, EXAMPLE)
    assert (summary.after is None) == bool(known)


def test_without_a_split_a_fitted_calibrator_is_judged_on_all_labelled_nodes(tmp_path):
    files = write(tmp_path, split=None)
    summary = calibrate(*files, tmp_path / "out", calibrator=EXAMPLE.in_memory("ts"))
    assert summary.after.n_nodes == 200


def test_nan_is_an_unknown_label(tmp_path):
    known = EXAMPLE.labels.astype(float)
    known[EXAMPLE.split == "train"] = np.nan
    known[EXAMPLE.nodes_of("test")[:10]] = np.nan
    files = write(tmp_path, label=known)
    summary = calibrate(*files, tmp_path / "out", method="ts", all_probabilities=True)
    assert_same(result(tmp_path / "out"), EXAMPLE.in_memory("ts"), EXAMPLE)
    assert summary.after.n_nodes == len(EXAMPLE.nodes_of("test")) - 10
    assert np.array_equal(read_bundle(tmp_path).labels, np.nan_to_num(known, nan=-1))


def test_nan_labels_of_calibration_nodes_and_infinite_ones_are_counted(tmp_path):
    label = EXAMPLE.labels.astype(float)
    label[EXAMPLE.nodes_of("val")[:3]] = np.nan
    label[EXAMPLE.nodes_of("test")[:2]] = np.inf
    said = refusal(tmp_path, label=label)
    assert "3 rows of the nodes: the split is val but the label is missing" in said
    assert "2 rows of the nodes: the label is not a class" in said


def test_zero_padded_logits_are_taken_in_the_order_of_their_numbers(tmp_path):
    padded = {f"z{k:02d}": EXAMPLE.logits[:, k] for k in (2, 0, 3, 1)}
    files = write(tmp_path, **WITHOUT_Z, **padded, **{"z²": EXAMPLE.logits[:, 0]})
    calibrate(*files, tmp_path / "out", method="ts", all_probabilities=True)
    assert_same(result(tmp_path / "out"), EXAMPLE.in_memory("ts"), EXAMPLE)
    assert np.array_equal(read_bundle(tmp_path).logits, EXAMPLE.logits)
