"""What a run costs: how often files are read, what is kept, memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gnncal
from gnncal.calibrators.homophily import Support
from gnncal.files import tables
from gnncal.scale import calibrate
from gnncal.scale.passes import RowFile
from tests.scale.graphs import make_example
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
MIB = 1 << 20
PEAK = """
import sys, warnings
from pathlib import Path
from gnncal.files import tables
from gnncal.scale import calibrate
warnings.simplefilter("ignore")
calibrate(*sys.argv[1:4], method=sys.argv[4], memory_limit="1GiB", threads=2)
# Not getrusage: that starts at the size of the process that started this one.
lines = Path("/proc/self/status").read_text().splitlines()
print(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10)
"""


@pytest.mark.parametrize("ids", ["dense", "text"])
@pytest.mark.parametrize(
    "method", ["ts", gnncal.HoTS(), gnncal.HoTS(homophily=Support(side="both")), "structural"]
)
def test_each_table_is_streamed_once(method, ids, monkeypatch, tmp_path):
    streamed, original = [], tables.read_batches

    def read(table, pieces, n_rows):
        streamed.append(Path(table.given).name)
        yield from original(table, pieces, n_rows)

    monkeypatch.setattr(tables, "read_batches", read)
    nodes, edges = make_example(n_nodes=300, ids=ids).write(tmp_path)
    calibrate(nodes, edges, tmp_path / "out", method=method)
    assert streamed == ["nodes.parquet", "edges.parquet"]


@pytest.mark.parametrize("method", ["ts", "hots", "structural"])
def test_what_is_kept_for_each_class_is_as_narrow_as_the_logits(method, monkeypatch, tmp_path):
    kept, original = {}, RowFile.__init__

    def make(file, path, width, dtype):
        original(file, path, width, dtype)
        kept[path.name] = file

    monkeypatch.setattr(RowFile, "__init__", make)
    example = make_example(n_nodes=200)
    _, edges = example.write(tmp_path)
    pq.write_table(pa.table(example.node_columns(dtype=np.float32)), tmp_path / "nodes.parquet")
    calibrate(tmp_path / "nodes.parquet", edges, tmp_path / "out", method=method)
    assert {file.dtype for file in kept.values()} == {np.dtype(np.float32)}
    filled = {name for name, file in kept.items() if file.n_rows}
    expected = {"ts": {"logits"}, "hots": {"logits", "values"}}
    assert filled == expected.get(method, {"logits", "values", "means"})


def test_a_batch_has_few_rows_where_there_are_many_classes(monkeypatch, tmp_path):
    heights, original = [], gnncal.calibrators.Structural._predict

    def watched(calibrator, nodes):
        heights.append(nodes.n_nodes)
        return original(calibrator, nodes)

    monkeypatch.setattr("gnncal.scale.local.VALUES_AT_ONCE", 6 * 100)
    monkeypatch.setattr("gnncal.scale.local.FEWEST_ROWS", 1)
    example = make_example(n_nodes=300, n_classes=6)
    fitted = example.in_memory("structural")
    monkeypatch.setattr(gnncal.calibrators.Structural, "_predict", watched)
    nodes, edges = example.write(tmp_path)
    calibrate(nodes, edges, tmp_path / "out", calibrator=fitted, all_probabilities=True)
    assert heights == [100, 100, 100]
    assert_same(result(tmp_path / "out"), fitted, example)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("method", ["hots", "structural"])
def test_the_process_stays_inside_its_memory_limit_with_many_classes(method, tmp_path):
    nodes, edges = make_example(n_nodes=2000, n_classes=100).write(tmp_path)
    command = [sys.executable, "-c", PEAK, nodes, edges, tmp_path / "out", method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 1024 * MIB
