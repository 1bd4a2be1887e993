"""What a run costs: text and exponentials by class, scans of the edges, memory."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gnncal.scale.methods import remainder
from ibis.backends.sql.compilers import DuckDBCompiler

import gnncal
from gnncal.calibrators.homophily import Support
from gnncal.scale import calibrate, engines
from gnncal.scale.engines import DuckDB
from tests.scale.graphs import METHODS, make_example
from tests.scale.test_blocks import in_blocks
from tests.scale.test_equals_memory import assert_same, result

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
MIB = 1 << 20
SCAN = re.compile(r'"name": "(READ_PARQUET|PARQUET_SCAN)')  # as a plan says it
PEAK = """
import sys, warnings
from pathlib import Path
from gnncal.scale import calibrate
warnings.simplefilter("ignore")
calibrate(*sys.argv[1:4], method=sys.argv[4], memory_limit="1GiB", threads=2)
# Not getrusage: that starts at the size of the process that started this one.
lines = Path("/proc/self/status").read_text().splitlines()
print(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10)
"""


@pytest.fixture
def compiled(monkeypatch):
    """The SQL of every query that is run, in order; each is compiled once, when it is run."""
    queries, to_sqlglot = [], DuckDBCompiler.to_sqlglot

    def compile_and_note(self, *arguments, **options):
        query = to_sqlglot(self, *arguments, **options)
        queries.append(query.sql(dialect="duckdb"))
        return query

    monkeypatch.setattr(DuckDBCompiler, "to_sqlglot", compile_and_note)
    return queries


@pytest.fixture
def scans(compiled, monkeypatch):
    """What DuckDB did, in order: the name of what is kept, and how often its queries read files."""
    done = []

    def watched(name):
        original = getattr(DuckDB, name)

        def run(engine, *arguments):
            compiled.clear()
            result = original(engine, *arguments)
            plans = [
                engine.connection.raw_sql(f"EXPLAIN (FORMAT json) {sql}").fetchall()[0][1]
                for sql in compiled
            ]
            assert plans
            done.append((arguments[0], sum(len(SCAN.findall(plan)) for plan in plans)))
            return result

        monkeypatch.setattr(DuckDB, name, run)

    for name in ("keep", "keep_computed", "fetch", "write"):
        watched(name)
    return done


def size_for(n_classes, method, compiled, folder):
    """Characters and exponentials of all statements of a run."""
    example = make_example(n_nodes=200, n_classes=n_classes)
    compiled.clear()
    nodes, edges = example.write(folder / str(n_classes))
    calibrate(nodes, edges, folder / "out", method=method, all_probabilities=True)
    text = "".join(compiled)
    return len(text), text.lower().count("exp(")


@pytest.mark.parametrize("method", ["hots", "structural", "structural-free"])
def test_text_and_exponentials_grow_linearly_with_the_classes(method, compiled, tmp_path):
    sizes = [size_for(K, method, compiled, tmp_path) for K in (3, 6, 12)]
    for few, more, most in zip(*sizes, strict=True):
        assert most - more < 2.2 * (more - few)  # quadratic growth would give 4


HOMOPHILY = [Support(), Support(side="both")]


@pytest.mark.parametrize("blocked", [False, True], ids=["whole", "blocks"])
@pytest.mark.parametrize(
    ("method", "most"),
    [*((gnncal.HoTS(homophily=h), 1) for h in HOMOPHILY), ("ts", 1), ("structural", 2)],
)
def test_edges_are_scanned_once_and_for_structural_twice(
    method, most, blocked, scans, monkeypatch, tmp_path
):
    if blocked:
        in_blocks(monkeypatch)
    nodes, edges = make_example(n_nodes=300, n_classes=6).write(tmp_path)
    calibrate(nodes, edges, tmp_path / "out", method=method)
    names = [name if isinstance(name, str) else "" for name, _ in scans]
    after_nodes = scans[names.index("nodes") + 1 :]  # only edges are read from files now
    assert 1 <= sum(n for _, n in after_nodes) <= most


@pytest.mark.parametrize("method", METHODS)
def test_logits_are_kept_once_and_as_narrow_as_they_came(method, monkeypatch, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept, original = {}, DuckDB.keep

    def keep(engine, name, expression):
        kept[name] = expression.schema()
        return original(engine, name, expression)

    monkeypatch.setattr(DuckDB, "keep", keep)
    example = make_example(n_nodes=200)
    _, edges = example.write(tmp_path)
    pq.write_table(pa.table(example.node_columns(dtype=np.float32)), tmp_path / "nodes.parquet")
    calibrate(tmp_path / "nodes.parquet", edges, tmp_path / "out", method=method)
    holders = [name for name, schema in kept.items() if "z0" in schema]
    assert holders == ["nodes"]
    assert kept["nodes"]["z0"].is_float32()


def test_numpy_sorts_a_few_rows_at_a_time(monkeypatch, tmp_path):
    heights, original = [], remainder._sorted

    def watched(columns, *rest):
        heights.append(len(columns["confidence_after"]))
        return original(columns, *rest)

    monkeypatch.setattr(remainder, "_sorted", watched)
    monkeypatch.setattr(engines, "VALUES_AT_ONCE", 300)
    in_blocks(monkeypatch)
    example = make_example(n_nodes=300, n_classes=6)
    nodes, edges = example.write(tmp_path)
    calibrate(nodes, edges, tmp_path / "out", method="structural", all_probabilities=True)
    assert len(heights) > 5
    assert max(heights) <= 300 // 12
    assert_same(result(tmp_path / "out"), example.in_memory("structural"), example)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("method", ["hots", "structural"])
def test_the_process_stays_inside_its_memory_limit_with_many_classes(method, tmp_path):
    nodes, edges = make_example(n_nodes=2000, n_classes=100).write(tmp_path)
    command = [sys.executable, "-c", PEAK, nodes, edges, tmp_path / "out", method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 1024 * MIB
