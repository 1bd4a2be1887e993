"""Whatever the files of a results folder hold, checksums right, a verb works or says a sentence."""

import gzip
import json
import tracemalloc
import zlib
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from gnncal.__main__ import app
from gnncal.data.errors import InputError
from gnncal_lab.bench.diagnosis import FILE as DIAGNOSIS
from gnncal_lab.bench.diagnosis import read_diagnosis
from gnncal_lab.bench.leaderboard import make_leaderboard
from gnncal_lab.bench.perturbation import FILE as PERTURBATION
from gnncal_lab.bench.perturbation import read_perturbation
from gnncal_lab.bench.plan import PROTOCOLS, VARIANTS, Plan
from gnncal_lab.bench.provenance import FILE as RUNS
from gnncal_lab.bench.provenance import read_runs
from gnncal_lab.bench.records import ALWAYS_UNPACKED, LONGEST_LINE, read_lines, read_records
from gnncal_lab.bench.runner import _without_record
from gnncal_lab.bench.structure import STATISTICS
from gnncal_lab.bench.tables.collection import all_tables
from gnncal_lab.pages.bench.tables import to_page
from tests.fuzz.documents import DEEP, changed, changes_of
from tests.gnncal_lab.bench.graphs import write_bundles
from tests.gnncal_lab.bench.test_tables import record

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # as on the command line
METHODS = ("uncalibrated", "ts")
RECORDS = "records/Cora-gcn.jsonl"


def entries_of_records():
    found = [record("Cora", "gcn", seed, m, 0.1) for seed in (0, 1) for m in METHODS]
    return [
        {**asdict(one), "parameters": {"protocol": "paper", "x": [1.5]}, "learned": {"t": 1.5}}
        for one in found
    ]


def diagnosis_entry():
    moments = {"n_nodes": 10, "statistic": 2.0, "correctness": 1.0, "product": 0.5}
    split = {"confidence": [0.1, 0.3, 0.5, 0.7, 0.9], "gap": 0.1}
    return {
        "run": "r",
        "schema": 2,
        "dataset": "Cora",
        "backbone": "gcn",
        "seeds": [0, 1],
        "moments": [dict.fromkeys(STATISTICS, moments)] * 2,
        "splits": {str(n): {**split, "accuracy": [[0.5] * n] * 5} for n in (2, 3)},
        "nodes": {n: [0.1, 0.5] for n in ("correction", "gap", "homophily", "certainty")},
    }


def perturbation_entry():
    return {
        "run": "r",
        "schema": 2,
        "dataset": "Cora",
        "backbone": "gcn",
        "seed": 0,
        "operation": "add",
        "rate": 0.0,
        "method": "ts",
        "protocol": "paper",
        "metrics": {"accuracy": 0.8, "ece": 0.1, "ece_floor": 0.01, "nll": 0.5},
    }


def run_entry():
    about = {"date": "d", "command": "gnncal", "machine": "m"}
    return {"run": "r", "source": {"version": "1"}, "versions": {"numpy": "2"}, **about}


FILES = {
    RECORDS: entries_of_records(),
    RUNS: [run_entry()],
    DIAGNOSIS: [diagnosis_entry()],
    PERTURBATION: [perturbation_entry()],
}


def line_of(entry):
    """A line with the right checksum, whatever the entry is."""
    body = json.dumps(entry, separators=(",", ":"))[:-1].encode()
    return body + b',"checksum":"%08x"}\n' % zlib.crc32(body)


def write(path, entries):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(line_of, entries)))


@pytest.fixture
def folder(tmp_path):
    for name, entries in FILES.items():
        write(tmp_path / name, entries)
    return tmp_path


def use(folder):
    """Read the folder as `run`, `tables` and `report` do."""
    plan = Plan(["Cora"], ["gcn"], [0, 1], [*METHODS, *VARIANTS], PROTOCOLS)
    _without_record(list(plan.cells()), read_records(folder))
    to_page([*all_tables(folder, "ts")])
    make_leaderboard(folder)


ACCEPTED = {  # whether the first line of a file counts
    RECORDS: lambda folder: len(read_records(folder)) == len(FILES[RECORDS]),
    RUNS: lambda folder: "r" in read_runs(folder),
    DIAGNOSIS: read_diagnosis,
    PERTURBATION: read_perturbation,
}


@pytest.mark.parametrize("name", FILES)
def test_a_changed_line_counts_as_absent_or_can_be_used(folder, name, monkeypatch):
    monkeypatch.setattr("gnncal_lab.bench.leaderboard.nemenyi_quantile", lambda n: 2.0)
    first, *others = FILES[name]
    used, absent, failures = 0, 0, []
    for what, place, entry in changes_of(first):
        write(folder / name, [entry, *others])
        try:
            if ACCEPTED[name](folder):
                used += 1
                use(folder)
            else:
                absent += 1
        except InputError:
            absent += 1
        except Exception as error:
            failures.append((what, place, repr(error)))
    assert failures == []
    assert used > 0
    assert absent > 0


# --- the verbs, as they are typed

CRAFTED = [
    (("protocol",), "x"),
    (("metrics",), []),
    (("seed",), []),
    (("seed",), "1"),
    (("dataset",), "../../outside"),
    (("backbone",), ["gcn"]),
    (("parameters",), {"homophily": DEEP}),
    (("metrics", "ece"), "0.1"),
    (("metrics", "n_nodes"), 10**400),
    (("metrics", "reliability", "count"), [1]),
    (("fit_cpu_seconds",), None),
]


def bench(*arguments):
    found = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


@pytest.fixture
def crafted(tmp_path):
    """A folder with records of a bundle, and among them lines that no run writes."""
    good = [{**entry, "dataset": "A"} for entry in entries_of_records()]
    wrong = [changed(good[-1], place, value) for place, value in CRAFTED]
    write(tmp_path / RECORDS, [*wrong, *good])
    nested = b'{"dataset":' + b"[" * 10**5 + b"]" * 10**5
    with (tmp_path / RECORDS).open("ab") as file:  # lines that are no JSON are passed over
        file.write(nested + b',"checksum":"%08x"}\n' % zlib.crc32(nested))
        file.write(line_of(changed(good[-1], ("metrics", "ece"), float("nan"))))
    write_bundles(tmp_path / "bundles", datasets=("A",), seeds=(0, 1))
    return tmp_path


VERBS = {
    "run": ("--out", "{}", "--bundles", "{}/bundles", "--methods", "ts"),
    "tables": ("{}", "--reference", "ts"),
    "report": ("{}", "--out", "{}/page.html"),
    "figures": ("{}",),
    "diagnose": ("{}", "--bundles", "{}/bundles"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_crafted_lines_are_one_note_and_the_others_are_used(crafted, verb):
    if verb == "figures":
        pytest.importorskip("matplotlib", reason="figures need the extra plot")
    found = bench(verb, *(word.format(crafted) for word in VERBS[verb]))
    assert found.exit_code == 0, found.stderr
    notes = [line for line in found.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert f"has {len(CRAFTED)} lines that no run of gnncal writes" in notes[0]
    assert "(line 1: protocol is 'x'; expected 'paper' or 'converged'.)" in notes[0]
    assert not (crafted.parent / "outside").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_records_without_any_metric_are_one_sentence_or_dashes(crafted, verb):
    if verb == "figures":
        pytest.importorskip("matplotlib", reason="figures need the extra plot")
    write(crafted / RECORDS, [{**e, "dataset": "A", "metrics": {}} for e in entries_of_records()])
    found = bench(verb, *(word.format(crafted) for word in VERBS[verb]))
    assert found.exit_code in (0, 2)
    assert "Traceback" not in found.stderr


# --- files that unpack to far more than they are


def test_a_gzip_bomb_is_refused_after_a_bounded_part_of_it(folder):
    size = 2 * ALWAYS_UNPACKED
    (folder / "records" / "Bomb-gcn.jsonl.gz").write_bytes(gzip.compress(bytes(size), 9))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"Bomb-gcn.jsonl.gz unpacks to more than 67,108,864"):
            read_records(folder)
        assert tracemalloc.get_traced_memory()[1] < 4 * LONGEST_LINE
    finally:
        tracemalloc.stop()
    for verb in ("tables", "report", "figures", "diagnose"):
        assert bench(verb, folder).exit_code == 2


def test_a_line_without_end_hides_only_itself(folder):
    path = folder / RECORDS
    path.write_bytes(b"x" * (LONGEST_LINE + 10) + b"\n" + path.read_bytes())
    assert len(list(read_lines(path))) == len(FILES[RECORDS])


# --- seeds


@pytest.mark.parametrize("seeds", ["0:10000000000", "10000000000", "9999999999:10000000000"])
@pytest.mark.parametrize("verb", ["run", "tables", "report", "perturb"])
def test_absurd_seeds_are_one_sentence_before_any_work(verb, seeds, tmp_path):
    where = ("--out", tmp_path / "x") if verb in ("run", "perturb") else (tmp_path,)
    found = bench(verb, *where, "--seeds", seeds)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: --seeds is '{seeds}'; expected at most 1,000 seeds")
    assert len(found.stderr.splitlines()) == 1
