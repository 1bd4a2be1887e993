"""The benchmark as data for its page: the same numbers as its tables."""

import numpy as np
import pytest

from gnncal.data.errors import InputError
from gnncal_lab.bench import published
from gnncal_lab.bench.leaderboard import make_leaderboard
from gnncal_lab.bench.provenance import FILE as RUNS_FILE
from gnncal_lab.bench.records import append_lines, append_records
from gnncal_lab.bench.results import Selection, read_results
from gnncal_lab.bench.summary import critical_difference, nemenyi_quantile
from gnncal_lab.bench.tables import comparisons
from tests.gnncal_lab.bench.test_tables import record

METHODS = ("uncalibrated", "ts", "hts", "hots", "structural")


def write_results(folder, graphs=("Cora", "CiteSeer", "Texas", "Cornell"), seeds=3):
    """Random records under both protocols; structural and uncalibrated know none."""
    generator = np.random.default_rng(0)
    append_records(
        folder,
        [
            record(graph, backbone, seed, method, generator.uniform(0.01, 0.3), protocol)
            for graph in graphs
            for backbone in ("gcn", "gat", "gin")
            for method in METHODS
            for protocol in ("paper", "converged")
            if protocol == "converged" or method not in ("uncalibrated", "structural")
            for seed in range(seeds)
        ],
    )
    about = {"date": "2026-01-02T03:04:05+00:00", "command": "gnncal bench run --out <here>"}
    append_lines(folder / RUNS_FILE, [{"run": "r", "versions": {"numpy": "2.0"}, **about}])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def board(folder):
    return make_leaderboard(folder)


def test_every_group_of_records_is_one_cell_with_its_mean_spread_floor_and_seeds(folder, board):
    results = read_results(folder)
    for protocol, found in results.items():
        cells = {(c.graph, c.backbone, c.method): c for c in board.cells if protocol in c.protocols}
        assert cells.keys() == found.records.keys()
        for (graph, backbone, method), cell in cells.items():
            summary = cell.metrics["ece"]
            assert summary.mean == found.mean("ece", graph, [backbone], method)
            assert summary.spread == found.spread("ece", graph, [backbone], method)
            assert summary.floor == pytest.approx(0.01)
            values = found.values("ece", graph, backbone, method)
            np.testing.assert_array_equal(summary.values, values)
            assert cell.seeds == (0, 1, 2)
            assert np.isnan(cell.metrics["nll"].floor)


def test_a_method_that_knows_no_protocol_is_kept_once_and_belongs_to_both(board):
    of = {method: [c for c in board.cells if c.method == method] for method in METHODS}
    assert {len(of[m]) for m in ("uncalibrated", "structural")} == {4 * 3}
    assert {c.protocols for c in of["structural"]} == {("paper", "converged")}
    assert len(of["hots"]) == 2 * 4 * 3


def test_the_opening_lines_are_those_of_the_tables(folder, board):
    results = read_results(folder)["paper"]
    overview = comparisons.overview(results)
    ranks = {row.name: row.entries[0].value for row in comparisons.ranks(results, "ece").rows}
    for line in board.opening:
        (row,) = (row for row in overview.rows if row.name == line.method)
        values = dict(zip(overview.columns, (e.value for e in row.entries), strict=True))
        assert 100 * line.values["ece"] == pytest.approx(values["ECE %"])
        assert 100 * line.floors["ece"] == pytest.approx(values["ECE floor %"])
        assert line.values["nll"] == pytest.approx(values["NLL"])
        assert (line.n_pairs, line.n_records) == (values["pairs"], values["records"])
        assert line.mean_rank == ranks.get(line.method) or line.method == "uncalibrated"
    order = [line.mean_rank for line in board.opening]
    assert np.isnan(order[-1])
    assert order[:-1] == sorted(order[:-1])


def test_the_papers_values_have_the_unit_of_records_and_the_release_stands_beside_hots(tmp_path):
    append_records(
        tmp_path,
        [record("Cora", "gcn", seed, m, 0.1) for seed in (0, 1) for m in ("hots", "hots-release")],
    )
    cells = make_leaderboard(tmp_path).cells
    ece = published.per_backbone("ece")["Cora", "gcn", "hots"]
    nll = published.per_backbone("nll")["Cora", "gcn", "hots"]
    for cell in cells:
        assert cell.metrics["ece"].paper == pytest.approx((ece.mean / 100, ece.spread / 100))
        assert cell.metrics["nll"].paper == pytest.approx(nll)
        assert cell.metrics["brier"].paper is None


def test_graphs_that_share_labels_are_one_unit(board):
    units = {graph.name: graph.unit for graph in board.graphs}
    assert units["Texas"] == units["Cornell"]
    assert len(set(units.values())) == 3


def test_quantiles_are_those_of_the_critical_difference(board):
    matrix = np.random.default_rng(1).random((7, 4))
    expected = critical_difference(matrix).difference
    assert board.nemenyi[4] * np.sqrt(4 * 5 / (6 * 7)) == pytest.approx(expected)
    assert nemenyi_quantile(2) == pytest.approx(1.959964, abs=1e-6)  # Demsar 2006, table 5
    assert nemenyi_quantile(10) == pytest.approx(3.164, abs=1e-3)


def test_every_record_is_counted_in_the_run_that_made_it(board):
    (run,) = board.runs
    assert (run.name, run.n_records) == ("r", sum(len(cell.seeds) for cell in board.cells))
    assert run.command == "gnncal bench run --out <here>"
    assert (run.versions, run.source) == ("numpy 2.0", "")


def test_a_selection_leaves_the_rest_out(folder):
    wanted = Selection(datasets=("Cora",), methods=("ts", "hots"), seeds=(1,))
    board = make_leaderboard(folder, wanted)
    assert board.methods == ("ts", "hots")
    assert {(cell.graph, cell.seeds) for cell in board.cells} == {("Cora", (1,))}


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no records"):
        make_leaderboard(tmp_path)
