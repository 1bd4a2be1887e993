"""Tables from records made up so that every number can be checked by hand."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from gnncal.data.errors import InputError
from gnncal_lab.bench import published
from gnncal_lab.bench.records import Record, append_records, read_records
from gnncal_lab.bench.results import Selection, read_results
from gnncal_lab.bench.summary import mean_ranks
from gnncal_lab.bench.tables import comparisons
from gnncal_lab.bench.tables import paper as tables
from gnncal_lab.bench.tables.collection import all_tables
from gnncal_lab.bench.tables.model import Entry, ResultTable, Row, marked
from gnncal_lab.bench.tables.treatments import treatments
from gnncal_lab.pages.bench.tables import to_csv, to_latex, to_markdown

ECE = {  # dataset -> backbone -> method -> seeds
    "Cora": {
        "gcn": {"uncalibrated": (0.20, 0.22), "ts": (0.03, 0.05), "hots": (0.02, 0.02)},
        "gat": {"uncalibrated": (0.10, 0.12), "ts": (0.06, 0.06), "hots": (0.03, 0.05)},
    },
    "Texas": {
        "gcn": {"uncalibrated": (0.30, 0.30), "ts": (0.20, 0.20), "hots": (0.22, 0.20)},
        "gat": {"uncalibrated": (0.30, 0.30), "ts": (0.16, 0.20)},
    },
}


def record(dataset, backbone, seed, method, ece, protocol="paper"):
    protocol = "converged" if method == "uncalibrated" else protocol
    metrics = {
        "n_nodes": 10,
        "accuracy": 0.8,
        "ece": ece,
        "ece_floor": 0.01,
        "ece_floor_spread": 0.001,
        "nll": 2 * ece,
        "brier": ece,
        "degree_ece": ece + 0.01,
        "degree_ece_floor": 0.01,
        "classwise_ece": ece,
        "smooth_ece": ece,
        "aurc": 0.1,
        "selective_accuracy": [0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92 + seed / 100],
        "prediction_changes": seed if method == "ts" else 0,
        "reliability": {
            "count": [0] * 9 + [10],
            "confidence": [0.0] * 9 + [9.0],
            "correct": [0] * 9 + [8],
        },
    }
    return Record(dataset, backbone, seed, method, protocol, {}, "r", 0.5, 1.0, metrics=metrics)


@pytest.fixture
def folder(tmp_path):
    append_records(
        tmp_path,
        [
            record(dataset, backbone, seed, method, ece)
            for dataset, backbones in ECE.items()
            for backbone, methods in backbones.items()
            for method, seeds in methods.items()
            for seed, ece in enumerate(seeds)
        ],
    )
    return tmp_path


@pytest.fixture
def results(folder):
    return read_results(folder)["paper"]


def entries(table):
    return {row.name: dict(zip(table.columns, row.entries, strict=True)) for row in table.rows}


def test_main_table_by_hand(results):
    table = tables.main_ece(results)
    assert table.columns == ("uncalibrated", "ts", "hots")
    cells = entries(table)
    cora = cells["Cora"]["ts"]
    assert cora.value == pytest.approx(5.0)  # (4 + 6) / 2
    assert cora.spread == pytest.approx(np.std([3, 5, 6, 6]))  # all runs of both backbones
    assert (cora.floor, cora.published, cora.published_spread) == (pytest.approx(1.0), 3.14, 0.82)
    assert cells["Texas"]["hots"].value == pytest.approx(21.0)  # GCN alone is there
    assert [row.group for row in table.rows[:2]] == ["Homophilic", "Heterophilic"]
    assert cells["average"]["ts"].value == pytest.approx((5 + 19) / 2)
    assert cells["average"]["ts"].published == pytest.approx((3.14 + 21.64) / 2)
    assert cells["average rank"]["ts"].value == pytest.approx(1.5)
    assert np.isnan(cells["average rank"]["uncalibrated"].value)
    marks = {m: (cells["Cora"][m].mark, cells["Texas"][m].mark) for m in table.columns}
    assert marks == {"uncalibrated": (0, 0), "ts": (2, 1), "hots": (1, 2)}


def test_the_papers_averages_are_over_what_we_have(folder):
    append_records(folder, [record("Cora", "gcn", 0, "gets", 0.04)])
    results = read_results(folder)["paper"]
    table = tables.main_ece(results)
    cells = entries(table)
    assert cells["average"]["gets"].published == cells["Cora"]["gets"].published
    assert "Datasets with records: 2; fewer for gets 1." in table.note
    pooled = entries(tables.nll_and_degree_ece(results))["NLL"]["gets"]
    assert pooled.published == published.per_backbone("nll")["Cora", "gcn", "gets"].mean


def test_every_calibration_error_stands_beside_its_floor(results):
    for metric in ("ece", "degree_ece"):
        for row in tables.per_backbone(results, metric).rows:
            for entry in row.entries:
                assert np.isnan(entry.floor) == np.isnan(entry.value)
    degree = entries(tables.nll_and_degree_ece(results))["degree-stratified ECE %"]
    assert degree["ts"].floor == pytest.approx(1.0)


def test_too_few_rows_tell_no_ranks_apart(folder):
    one = read_results(folder, Selection(datasets=("Cora",), backbones=("gcn",)))["paper"]
    for row in comparisons.ranks(one, "ece").rows:
        assert np.isnan(row.entries[2].value)


def test_per_backbone_rows_have_the_papers_figures(results):
    cells = entries(tables.per_backbone(results, "nll"))
    assert list(cells) == ["Cora, GCN", "Cora, GAT", "Texas, GCN", "Texas, GAT"]
    cora = cells["Cora, GCN"]["ts"]
    assert (cora.value, cora.published, cora.published_spread) == (
        pytest.approx(0.08),
        0.518,
        0.031,
    )
    assert np.isnan(cells["Texas, GAT"]["hots"].value)


def test_smaller_tables_by_hand(results):
    average = entries(tables.nll_and_degree_ece(results))
    assert average["NLL"]["ts"].value == pytest.approx(2 * (0.05 + 0.19) / 2)
    theirs = published.per_backbone("nll")
    pairs = [(d, b) for d in ("Cora", "Texas") for b in ("gcn", "gat")]
    expected = np.mean([theirs[d, b, "ts"].mean for d, b in pairs])
    assert average["NLL"]["ts"].published == pytest.approx(expected)
    crossed = entries(tables.cross_backbone(results))
    assert crossed["GCN (2 datasets)"]["ts"].value == pytest.approx((4 + 20) / 2)
    kept = entries(tables.selective(results))
    assert kept["70%"]["ts"].value == pytest.approx(92.5)
    assert (kept["70%"]["ts"].published, kept["100%"]["ts"].mark) == (73.73, 0)  # all equal
    changed = entries(tables.prediction_changes(results))["ts"]
    assert changed["% of classifiers"].value == pytest.approx(50)
    assert changed["% of test nodes"].value == pytest.approx(5)
    parts = entries(tables.ablation(results))
    assert parts["ECE %"]["hots"].value == pytest.approx((3 + 21) / 2)
    assert parts["ECE %"]["hots"].published == 4.79


def test_comparison_with_a_reference_by_hand(results):
    cells = entries(comparisons.against_reference(results, "ece", "hots"))
    ts = cells["ts"]  # Cora: GCN 4 - 2 and GAT 6 - 4, on average 2; Texas: GCN 20 - 21
    assert ts["graphs"].value == 2
    assert ts["difference"].value == pytest.approx((2 - 1) / 2)
    assert (ts["low"].value, ts["high"].value) == pytest.approx((-1, 2))
    assert ts["wins %"].value == pytest.approx(50)
    assert ts["p (Holm)"].value >= ts["p"].value


def test_reproduction_counts_figures_within_the_papers_spread(results):
    rows = {(row.group, row.name): row.entries for row in comparisons.reproduction(results).rows}
    within = [entry.value for entry in rows["ECE %", "hots"]]
    figures = published.per_backbone("ece")
    ours = {("Cora", "gcn"): 2.0, ("Cora", "gat"): 4.0, ("Texas", "gcn"): 21.0}
    off = [abs(v - (f := figures[d, b, "hots"]).mean) / f.spread for (d, b), v in ours.items()]
    assert within[:4] == [sum(x <= k for x in off) for k in (1, 2, 3)] + [3]
    assert within[4] == pytest.approx(np.median(off))


def test_what_the_protocol_changes(folder):
    append_records(folder, [record("Cora", "gcn", 0, "ts", 0.01, "converged")])
    found = read_results(folder)
    assert list(found) == ["paper", "converged"]
    cells = entries(comparisons.protocols(found, "ece"))
    assert list(cells) == ["ts"]
    assert cells["ts"]["paper"].value == pytest.approx(3.0)  # of the seed that both have
    assert cells["ts"]["converged"].value == pytest.approx(1.0)
    append_records(folder, [record("Cora", "gcn", 1, "hots-predictor", 0.05, "converged")])
    alike = entries(comparisons.protocols(read_results(folder), "ece"))["hots-predictor"]
    assert (alike["paper"].value, alike["converged"].value) == pytest.approx((2.0, 5.0))


def test_one_backbone_stands_beside_the_papers_figures_of_it(folder):
    alone = read_results(folder, Selection(backbones=("gat",)))["paper"]
    table = tables.main_ece(alone)
    assert "seeds of GAT" in table.title
    expected = published.per_backbone("ece")["Cora", "gat", "ts"].mean
    assert entries(table)["Cora"]["ts"].published == expected


def test_ranks_leave_out_methods_that_miss_a_row_and_name_them(results):
    table = comparisons.ranks(results, "ece")  # hots has no run on Texas with GAT
    assert [row.name for row in table.rows] == ["ts", "critical difference", "p of equal ranks"]
    assert table.note.startswith("Ranks over 2 graphs (GCN, GAT averaged; Texas and Cornell count")
    assert "Left out for missing records: hots." in table.note


def test_methods_without_protocols_belong_to_both_and_make_none(folder, tmp_path):
    assert list(read_results(folder)) == ["paper"]
    assert "uncalibrated" in read_results(folder)["paper"].methods
    alone = tmp_path / "alone"
    append_records(alone, [record("Cora", "gcn", 0, "uncalibrated", 0.2)])
    assert list(read_results(alone)) == ["converged"]


def test_equal_as_printed_is_equal():
    columns = ["uncalibrated", "a", "b", "c", "d", "e"]
    values = [0.1, 2.471, 1.96, 2.469, 2.37, 9.0]
    marks = [entry.mark for entry in marked([Entry(v) for v in values], columns)]
    assert marks == [0, 3, 1, 3, 2, 0]
    best = marked([Entry(v) for v in values], columns, highest=True)
    assert [entry.mark for entry in best] == [0, 2, 0, 2, 3, 1]


def test_every_table_of_a_folder_is_printable_in_three_forms(folder):
    found = list(all_tables(folder, "hots"))
    names = {table.name for _, table in found}
    assert {"main_ece", "per_backbone_degree_ece", "selective", "ranks_nll"} <= names
    for _, table in found:
        lines = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
        assert {line.count("|") for line in lines} == {len(table.columns) + 2}
        assert to_latex(table).count("\\begin{tabular}") == 1
        rows = list(csv.DictReader(io.StringIO(to_csv(table))))
        assert len(rows) == len(table.rows) * len(table.columns)
        assert len({(r["group"], r["row"], r["column"]) for r in rows}) == len(rows)
        for row in rows:
            for name in ("value", "spread", "floor", "paper", "paper_spread"):
                float(row[name] or "nan")


def test_tables_of_degree_stratified_ece_say_if_records_take_one_order_of_tied_nodes(
    folder, tmp_path
):
    def shown(where):
        printed = {t.name: to_markdown(t) for _, t in all_tables(where, "hots")}
        return {name: text for name, text in printed.items() if "degree-stratified" in text}

    older, averaged = shown(folder), tmp_path / "averaged"
    assert {"overview", "reproduction", "per_backbone_degree_ece"} <= older.keys()
    for each in read_records(folder).values():
        metrics = each.metrics | {"degree_ties": "averaged"}
        append_records(averaged, [replace(each, metrics=metrics)])
    newer = shown(averaged)
    for name, text in older.items():
        assert "some records take one order of the nodes of equal degree" in text, name
        assert "some records take one order" not in newer[name], name


def test_an_unknown_reference_is_refused(folder):
    with pytest.raises(InputError, match="'gets' has no records; choose among uncalibrated, ts"):
        list(all_tables(folder, "gets"))


def test_markdown_csv_and_latex_by_hand():
    first = Entry(1.234, 0.1, 0.5, 1.5, 0.25, mark=1)
    table = ResultTable("t", "Title", ("a_b", "c"), (Row("x", (first, Entry()), "Group"),))
    assert to_markdown(table).splitlines()[2:7] == [
        "| dataset | a_b | c |",
        "|---|---:|---:|",
        "| *Group* |  |  |",
        "| x | ***1.23*** ± 0.10 [0.50] | – |",
        "| paper | 1.50 ± 0.25 |  |",
    ]
    assert to_csv(table).splitlines()[1:] == [
        "Group,x,a_b,1.234,0.1,0.5,1.5,0.25,1",
        "Group,x,c,,,,,,",
    ]
    signs = ResultTable("t", "Title", ("a", "b"), (Row("x", (Entry(-0.02), Entry(1.9e-6))),))
    assert r"x & $-0.02$ & $1.9 \cdot 10^{-6}$ \\" in to_latex(signs)
    latex = to_latex(table)
    assert r"dataset & a\_b & c \\" in latex
    assert r"x & \textcolor{red}{1.23} $\pm$ 0.10 [0.50] & -- \\" in latex


def test_the_papers_spread_is_divided_by_n():
    by_backbone = published.per_backbone("ece")
    for (dataset, method), pooled in published.main_ece().items():
        runs = [by_backbone.get((dataset, backbone, method)) for backbone in ("gcn", "gat")]
        if None in runs:
            continue
        mean, spread = np.array([(run.mean, run.spread) for run in runs]).T
        assert np.sqrt((spread**2).mean() + mean.var()) == pytest.approx(pooled.spread, abs=0.01)


def test_the_papers_averages_follow_from_its_rows():
    means = published.main_ece()
    for (row, method), value in published.summary("main_ece").items():
        if row == "average":
            column = [figure.mean for (_, m), figure in means.items() if m == method]
            assert np.mean(column) == pytest.approx(value, abs=0.011), method


def test_the_papers_average_ranks_follow_from_its_rows():
    means, ranks = published.main_ece(), published.summary("main_ece")
    methods = [method for row, method in ranks if row == "average rank"]
    datasets = list(dict.fromkeys(dataset for dataset, _ in means))
    missing = published.Value(np.nan, np.nan)
    table = np.array([[means.get((d, m), missing).mean for m in methods] for d in datasets])
    expected = [ranks["average rank", method] for method in methods]
    np.testing.assert_allclose(mean_ranks(table), expected, atol=0.006)


def test_a_folder_without_records_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="gnncal bench run"):
        read_results(tmp_path)


def test_tables_of_some_datasets_hold_no_others(folder):
    cora = all_tables(folder, "hots", Selection(datasets=("Cora",)))
    names = {row.name for _, table in cora for row in table.rows}
    assert "Cora" in names
    assert not any("Texas" in name for name in names)
    with pytest.raises(InputError, match="no records of Photo"):
        list(all_tables(folder, "hots", Selection(datasets=("Cora", "Photo"))))
    with pytest.raises(InputError, match="no records of gin"):
        list(all_tables(folder, "hots", Selection(backbones=("gin",))))


def test_tables_of_some_methods_correct_for_these_alone(folder):
    found = read_results(folder, Selection(methods=("ts", "hots", "gets")))["paper"]
    assert found.methods == ["ts", "hots"]
    ts = entries(comparisons.against_reference(found, "ece", "hots"))["ts"]
    assert ts["p (Holm)"].value == ts["p"].value


def test_tables_of_some_seeds_hold_no_others(folder):
    second = read_results(folder, Selection(seeds=(1,)))["paper"]
    np.testing.assert_allclose(second.values("ece", "Cora", "gcn", "ts"), [0.05])


def test_averages_are_over_gcn_and_gat_where_there_are_others_too(folder):
    before = to_csv(comparisons.overview(read_results(folder)["paper"]))
    append_records(folder, [record("Cora", "gin", seed, "ts", 0.9) for seed in range(3)])
    results = read_results(folder)["paper"]
    assert to_csv(comparisons.overview(results)) == before
    assert entries(tables.cross_backbone(results))["GIN (1 dataset)"]["ts"].value == 90
    alone = read_results(folder, Selection(backbones=("gin",)))["paper"]
    assert entries(comparisons.overview(alone))["ts"]["ECE %"].value == pytest.approx(90)


def test_pairs_are_over_the_seeds_that_both_methods_have(folder):
    append_records(folder, [record("Cora", "gcn", 7, "ts", 0.99)])
    ts, hots = read_results(folder)["paper"].matched("ece", "ts", "hots")
    np.testing.assert_allclose(ts, [0.04, 0.06, 0.20, np.nan])
    np.testing.assert_allclose(hots, [0.02, 0.04, 0.21, np.nan])


# --- treatments of the classifier

TREATED_ECE = {  # backbone -> method -> ECE on Cora and on Texas
    "gcn": {"uncalibrated": (0.20, 0.30), "ts": (0.06, 0.20), "structural": (0.04, 0.10)},
    "gcn+gcl": {"uncalibrated": (0.10, 0.20), "ts": (0.08, 0.10), "structural": (0.06, 0.14)},
}


def treated_records():
    return [
        record(dataset, backbone, seed, method, methods[method][i] + seed / 100, "converged")
        for backbone, methods in TREATED_ECE.items()
        for method in methods
        for i, dataset in enumerate(("Cora", "Texas"))
        for seed in (0, 1)
    ]


def test_treatments_are_compared_with_the_calibrator_of_the_untreated_network(tmp_path):
    whole = treated_records()
    lonely = record("Cora", "gcn", 2, "structural", 0.9, "converged")  # no other row has seed 2
    append_records(tmp_path, [*whole, lonely])
    table = treatments(read_results(tmp_path)["converged"])
    assert [(row.group, row.name) for row in table.rows] == [
        (group, name)
        for group in ("standard", "GCL")
        for name in ("uncalibrated", "ts", "structural")
    ]
    values = [[entry.value for entry in row.entries] for row in table.rows]
    nll, ece = 0, 4  # columns; the made-up NLL is twice the ECE
    assert values[2][ece] == pytest.approx(100 * (0.045 + 0.105) / 2)
    assert np.isnan(values[2][ece + 1])  # the reference itself
    assert values[5][ece] == pytest.approx(100 * (0.065 + 0.145) / 2)
    assert values[5][ece + 1 : ece + 4] == pytest.approx([3.0, 2.0, 4.0])  # of 2 and 4 points
    assert values[5][nll + 1] == pytest.approx(0.06)
    assert "2 graphs (Cora, Texas;" in table.note
    assert "classifiers: 4 GCNs" in table.note


def test_a_graph_that_lacks_a_row_takes_no_part_in_any(tmp_path):
    missing = ("Texas", "gcn+gcl", "ts")
    kept = [r for r in treated_records() if (r.dataset, r.backbone, r.method) != missing]
    append_records(tmp_path, kept)
    table = treatments(read_results(tmp_path)["converged"])
    assert "1 graphs (Cora;" in table.note
    assert table.rows[0].entries[4].value == pytest.approx(20.5)


def test_treated_networks_stand_in_their_own_table_and_change_no_other(tmp_path):
    def others(folder):
        return [
            (protocol, to_csv(table))
            for protocol, table in all_tables(folder, "ts")
            if table.name != "treatments"
        ]

    plain, both = tmp_path / "plain", tmp_path / "both"
    append_records(plain, [r for r in treated_records() if r.backbone == "gcn"])
    append_records(both, treated_records())
    assert others(plain) == others(both)
    assert "treatments" not in {table.name for _, table in all_tables(plain, "ts")}
    assert "treatments" in {table.name for _, table in all_tables(both, "ts")}
