"""The paper's experiments: reproduction, homophily estimates, theory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from filled.common import (
    FILLS,
    NAN,
    RESULTS,
    fill,
    numbers,
    record,
    results,
    results_of,
    signed,
    some_graphs,
    table,
    thousandths,
)

PROTOCOLS = ("paper's protocol", "converged")
CLOSEST = ("hots", "entropy-only", "hts", "cagcn", "ets")  # to HoTS, by mean ECE
FURTHER = {"gcnii": "GCNII", "gprgnn": "GPR-GNN", "gin": "GIN", "sage": "GraphSAGE"}
HOTS_VARIANTS = (
    "hots-predictor",
    "hots-cross-fitted",
    "hots-agreement",
    "hots-clamped",
    "hots-agreement-clamped",
)


@fill("agreement")
def agreement() -> str:
    """How well the paper's values are reproduced."""
    from gnncal_lab.bench import published

    found, distances = results("paper"), []
    for metric, scale in (("ece", 100), ("degree_ece", 100), ("nll", 1)):
        for (dataset, backbone, method), value in published.per_backbone(metric).items():  # type: ignore[arg-type]
            ours = found.values(metric, dataset, backbone, method)
            if ours.size and value.spread:
                distances.append(abs(scale * ours.mean() - value.mean) / value.spread)
    one, two = (sum(distance <= limit for distance in distances) for limit in (1, 2))
    return (
        f"We re-ran the experiments behind {len(distances)} published values: {one} of them "
        f"({one / len(distances):.0%}) differ from our values by at most one published standard "
        f"deviation, and {two} by at most two."
    )


@fill("agreement-table")
def agreement_table() -> str:
    """Agreement with the paper by method, as `bench tables` counts it."""
    from gnncal_lab.bench.tables.comparisons import reproduction

    found: dict[str, dict[str, str]] = {}
    for row in reproduction(results("paper")).rows:
        one, two, _, total = (f"{entry.value:.0f}" for entry in row.entries[:4])
        metric = f"{row.group.removesuffix(' %')} (of {total})"
        found.setdefault(row.name, {})[metric] = f"{one}, {two}"
    rows = [[f"`{name}`", *cells.values()] for name, cells in found.items()]
    return f"{table(['method', *found['ts']], rows)}{ties(results('paper'))}"


def ties(found: Any) -> str:
    """Say below a table of degree-stratified ECE that the rules for tied nodes differ."""
    from gnncal_lab.bench.tables.model import TIES

    return f"\n\n{TIES}" if found.mixes_ties else ""


@fill("exceptions")
def exceptions() -> str:
    """What ETS loses on CS with GAT, the one value that is neither of Cornell nor of Photo."""
    from gnncal_lab.bench import published

    ours = results("paper").values("nll", "CS", "gat", "ets")
    theirs = published.per_backbone("nll")["CS", "gat", "ets"]
    return (
        f"The NLL of `ets` on CS with GAT is {ours.mean():.3f} ± {ours.std():.3f}; the published "
        f"value is {theirs.mean:.3f} ± {theirs.spread:.3f}."
    )


@fill("lead")
def lead() -> str:
    """How much of HoTS's lead rests on the graphs with few calibration nodes."""
    from gnncal_lab.bench import published
    from gnncal_lab.bench.tables.paper import main_ece
    from site_pages.results import FEW_NODES

    paper: dict[str, dict[str, float]] = defaultdict(dict)
    for (graph, method), value in published.main_ece().items():
        paper[graph][method] = value.mean
    found = main_ece(results("paper"))
    own = {
        row.name: {m: entry.value for m, entry in zip(found.columns, row.entries, strict=True)}
        for row in found.rows
        if row.name in paper
    }
    for graph, values in own.items():
        values["entropy-only"] = 100 * results("paper").mean(
            "ece", graph, results("paper").pooled_backbones, "entropy-only"
        )
    rows = []
    for title, values in (("published", paper), ("ours", own)):
        many = {graph: of for graph, of in values.items() if graph not in FEW_NODES}
        for which, part in ((title, values), (f"{title}, without the three", many)):
            means = [np.mean([of.get(m, NAN) for of in part.values()]) for m in CLOSEST]
            named = [{m: v for m, v in of.items() if m in found.columns} for of in part.values()]
            lowest = sum(min(of, key=lambda m: of[m]) == "hots" for of in named)
            rows.append([which, *numbers(means), f"{lowest} of {len(part)}"])
    heads = [*(f"`{method}`" for method in CLOSEST), "graphs where HoTS is lowest"]
    return table(["mean ECE %", *heads], rows)


@fill("components")
def components() -> str:
    """The parts of HoTS, ours and the paper's."""
    from gnncal_lab.bench.tables.paper import ablation

    tables = {protocol: ablation(results(protocol)) for protocol in ("paper", "converged")}
    rows = [
        [f"mean ECE, {title}", *numbers(entry.value for entry in tables[protocol].rows[0].entries)]
        for protocol, title in (("paper", "paper's protocol"), ("converged", "converged"))
    ]
    theirs = numbers(entry.published for entry in tables["paper"].rows[0].entries)
    rows.insert(1, ["mean ECE, published (18 graphs)", *theirs])
    return table(["quantity", *(f"`{m}`" for m in tables["paper"].columns)], rows)


@fill("rivals")
def rivals() -> str:
    """HoTS against the best other method of the paper with each further backbone."""
    from gnncal_lab.bench.summary import compare_paired
    from gnncal_lab.bench.tables.paper import cross_backbone

    rows = []
    for backbone, title in FURTHER.items():
        found = results_of((backbone,), "paper")
        (row,), columns = cross_backbone(found).rows, cross_backbone(found).columns
        means = {m: e.value for m, e in zip(columns, row.entries, strict=True) if m != "hots"}
        best = min(means, key=lambda method: means[method])
        c = compare_paired(*found.matched("ece", "hots", best), found.graphs)
        shown = signed(c.mean_difference, c.low, c.high, scale=100, decimals=2)
        wins = f"{c.win_rate * c.n_graphs:g} of {c.n_graphs}"
        rows.append([title, f"`{best}`", shown, wins, f"{c.p_value:.2f}"])
    heads = ["HoTS minus rival, points", "units where HoTS is lower", "p"]
    return table(["backbone", "best rival", *heads], rows, texts=2)


@fill("hots-first")
def hots_first() -> str:
    """Against which calibrators of the paper HoTS has a significantly lower ECE."""
    from gnncal_lab.bench.summary import compare_paired, holm
    from gnncal_lab.bench.tables.paper import main_ece

    found = results("paper")
    others = [m for m in main_ece(found).columns if m not in ("hots", "uncalibrated")]
    tests = [compare_paired(*found.matched("ece", "hots", m), found.graphs) for m in others]
    adjusted = holm(np.array([test.p_value for test in tests]))
    less = [f"`{m}`" for m, p in zip(others, adjusted, strict=True) if p < 0.05]
    lower = ", ".join(less) or "none"
    return (
        f"Under the paper's protocol, of the paper's {len(others)} other calibrators, only {lower} "
        "has a significantly higher ECE than HoTS (after Holm's correction)."
    )


@fill("main-ece")
def main_ece() -> str:
    """Mean ECE and mean ranks of the paper's methods under both protocols."""
    from gnncal_lab.bench.tables.paper import main_ece

    rows: list[Sequence[str]] = []
    for protocol, title in (("paper", "paper's protocol"), ("converged", "converged")):
        found = main_ece(results(protocol))
        for row in found.rows[-2:]:
            name = row.name.replace("average rank", "mean rank").replace("average", "mean ECE")
            rows.append([f"{name}, {title}", *numbers(entry.value for entry in row.entries)])
            if protocol == "paper":
                theirs = numbers(entry.published for entry in row.entries)
                rows.append([f"{name}, published", *theirs])
    return table(["quantity", *(f"`{column}`" for column in found.columns)], rows)


@fill("ranks")
def ranks() -> str:
    """Which ranks differ."""
    from gnncal_lab.bench.tables.comparisons import ranks

    found = ranks(results("paper"), "ece")
    methods = [row for row in found.rows if not row.group]
    rank = {row.name: row.entries[0].value for row in methods}
    limit = next(row.entries[0].value for row in found.rows if row.name == "critical difference")
    best = methods[0].name
    worse = sum(value - rank[best] > limit for value in rank.values())
    apart = sum(abs(value - rank["hots"]) > limit for value in rank.values())
    return (
        f"The table above has the paper's methods. Among all {len(rank)} methods under the "
        f"paper's protocol, mean ranks by ECE differ significantly if they are more than "
        f"{limit:.1f} apart (Nemenyi's test, 5%). The best method, `{best}` (mean rank "
        f"{rank[best]:.1f}), differs from {worse} others. "
        f"HoTS ({rank['hots']:.1f}) differs from {apart or 'none'}."
    )


@fill("protocols")
def protocols() -> str:
    """Every method under both protocols, and its log loss against HoTS."""
    from gnncal_lab.bench.tables.comparisons import against_reference, overview

    means = {
        protocol: {
            row.name: dict(zip(found.columns, row.entries, strict=True)) for row in found.rows
        }
        for protocol in ("paper", "converged")
        for found in [overview(results(protocol))]
    }
    tests = {row.name: row for row in against_reference(results("converged"), "nll", "hots").rows}
    rows = []
    for method in dict.fromkeys([*means["converged"], *means["paper"]]):
        if method in HOTS_VARIANTS:  # the section on homophily estimates has them
            continue
        both = [means[protocol].get(method) for protocol in ("paper", "converged")]
        ece, nll = (
            [NAN if found is None else found[name].value for found in both]
            for name in ("ECE %", "NLL")
        )
        test = tests.get(method)
        difference, *_, p_holm = [entry.value for entry in test.entries[:5]] if test else [NAN] * 5
        compared = "–" if np.isnan(difference) else f"{1e3 * difference:+.1f}"
        rows.append(
            [f"`{method}`", *numbers(ece), *numbers(nll, 4), compared, *numbers([p_holm], 4)]
        )
    heads = [f"{metric}, {p}" for metric in ("ECE %", "NLL") for p in PROTOCOLS]
    return table(["method", *heads, "NLL minus `hots`, 10⁻³ nats", "p (Holm)"], rows)


@fill("hots-against")
def hots_against() -> str:
    """HoTS against TS and entropy-only, on all graphs and on those with enough nodes."""
    from gnncal_lab.bench.summary import compare_paired
    from gnncal_lab.bench.tables.comparisons import against_reference

    rows = []
    for other in ("ts", "entropy-only"):
        for protocol in ("paper", "converged"):
            for title, part in (("14", "all"), ("11", "many")):
                found = some_graphs(part, results(protocol))
                cells = []
                for metric, scale, decimals in (("ece", 100, 2), ("nll", 1000, 1)):
                    c = compare_paired(*found.matched(metric, "hots", other), found.graphs)
                    tests = against_reference(found, metric, "hots").rows
                    (p_holm,) = (row.entries[4].value for row in tests if row.name == other)
                    values = (c.mean_difference, c.low, c.high)
                    cells += [signed(*values, scale=scale, decimals=decimals), f"{p_holm:.2f}"]
                rows.append([f"`{other}`", protocol, title, *cells])
    heads = ["HoTS minus", "protocol", "graphs", "ECE, points", "p of ECE", "NLL, 10⁻³ nats"]
    return table([*heads, "p of NLL"], rows, texts=3)


@fill("alpha")
def alpha() -> str:
    """What fixing the exponent costs."""
    from gnncal_lab.bench.summary import compare_paired

    texts = []
    titles = {"paper": "under the paper's protocol", "converged": "with converged fits"}
    for protocol, title in titles.items():
        found = results(protocol)
        c = compare_paired(*found.matched("ece", "hots-alpha1", "hots"), found.graphs)
        shown = signed(c.mean_difference, c.low, c.high, scale=100, decimals=2)
        texts.append(f"{shown} points {title} (p = {c.p_value:.3f})")
    return f"In our runs, the mean ECE rises by {' and by '.join(texts)}."


@fill("perturbation")
def perturbation() -> str:
    """ECE when edges change."""
    from gnncal_lab.bench.perturbation import read_perturbation
    from gnncal_lab.bench.tables.graphs import perturbation

    found = perturbation("gcn", read_perturbation(RESULTS)["gcn", "paper"])
    at = {tuple(row.name.split(", ")): row.entries for row in found.rows}
    rows = []
    below = changed = 0
    for graph in dict.fromkeys(name[0] for name in at):
        for method in ("hots", "ts"):
            added, removed = (at[graph, change, method] for change in ("add", "remove"))
            cells = (added[0].value, added[-1].value, removed[-1].value)
            theirs = (added[0].published, added[-1].published)
            rows.append([graph, f"`{method}`", *numbers(cells), *numbers(theirs)])
        for change in ("add", "remove"):
            pairs = zip(at[graph, change, "hots"][1:], at[graph, change, "ts"][1:], strict=True)
            gaps = [ours.value - theirs.value for ours, theirs in pairs]
            below, changed = below + sum(gap < 0 for gap in gaps), changed + len(gaps)
    heads = ["unchanged", "50% added", "50% removed", "published, unchanged", "published, 50%"]
    return (
        f"{table(['graph', 'method', *heads], rows, texts=2)}\n\n"
        f"We changed 5, 10, 20, 30 and 50% of the edges. In {below} of the {changed} means on "
        "changed graphs, the ECE of HoTS is below that of TS."
    )


@fill("treatments")
def treatments() -> str:
    """Treated classifiers, before and after calibration."""
    from gnncal_lab.bench.results import read_results
    from gnncal_lab.bench.tables.treatments import treatments

    found = treatments(read_results(RESULTS / "treatments")["converged"])
    rows = []
    for row in found.rows:
        cells = []
        for start, decimals in ((0, 4), (4, 2), (8, 2)):
            value, *difference = (entry.value for entry in row.entries[start : start + 4])
            shown = "–" if np.isnan(difference[0]) else signed(*difference, decimals=decimals)
            cells += [f"{value:.{decimals}f}", shown]
        rows.append([row.group, f"`{row.name}`", *cells[:4], cells[4]])
    heads = ["training", "calibrator", "NLL", "NLL minus reference", "ECE %"]
    return table([*heads, "ECE minus reference, points", "accuracy %"], rows, texts=2)


@fill("datasets")
def datasets() -> str:
    """The facts of every graph of the paper."""
    from gnncal_lab.datasets import FACTS

    reverse = {"listed": "as listed", "merged": "merged", "appended": "appended"}
    rows = []
    for name, of in FACTS.items():
        counts = [f"{n:,}" for n in (of.n_nodes, of.n_edges, of.n_classes, of.n_features)]
        homophily = f"{of.homophily:.3f} ± {of.homophily_std:.3f}"
        loops = "yes" if of.self_loops else "no"
        rows.append([name, *counts, homophily, reverse[of.family.reverse], loops])
    heads = ["nodes", "edges", "classes", "features", "homophily", "reverse edges", "self-loops"]
    return table(["graph", *heads], rows)


@fill("homophily-many")
def homophily() -> str:
    """HoTS with every homophily estimate, on graphs with enough calibration nodes."""
    from gnncal_lab.bench.summary import compare_paired, holm, unit_means

    rows = []
    for protocol in ("converged", "paper"):
        found = some_graphs("many", results(protocol))
        order = ["uncalibrated", "ts", "hots", "entropy-only", *HOTS_VARIANTS]
        methods = [m for m in order if m in found.methods]
        if protocol == "paper":
            methods = ["ts", "hots", "entropy-only", "hots-release"]
        others = [m for m in methods if m != "entropy-only"]
        tests = {
            m: compare_paired(*found.matched("nll", m, "entropy-only"), found.graphs)
            for m in others
        }
        adjusted = holm(np.array([test.p_value for test in tests.values()]))
        corrected = dict(zip(others, adjusted, strict=True))
        for m in methods:
            ece = unit_means(found.matched("ece", m, "structural")[0], found.graphs)
            cells = ["–", "–", "–"]
            if m in tests:
                c = tests[m]
                wins = f"{c.win_rate * c.n_graphs:g} of {c.n_graphs}"
                cells = [thousandths(c), wins, f"{corrected[m]:.3f}"]
            rows.append([f"`{m}`", protocol, f"{100 * np.nanmean(ece):.2f}", *cells])
    heads = ["method", "protocol", "ECE %", "NLL minus `entropy-only`, 10⁻³ nats"]
    return table([*heads, "graphs where lower", "p (Holm)"], rows, texts=2)


@fill("selective")
def selective() -> str:
    """Accuracy of the most confident nodes."""
    from gnncal_lab.bench.tables.paper import selective

    found = selective(results("paper"))
    rows = [
        [row.name.replace(" %", "%"), *numbers(entry.value for entry in row.entries)]
        for row in found.rows
    ]
    return table(["nodes kept", *(f"`{column}`" for column in found.columns)], rows)


@fill("cross-backbone")
def cross_backbone() -> str:
    """Mean ECE by backbone, ours and the paper's."""
    from gnncal_lab.bench.results import read_results
    from gnncal_lab.bench.tables.paper import cross_backbone

    found = cross_backbone(read_results(RESULTS)["paper"])
    rows = []
    for row in found.rows:
        name = row.name.replace("datasets", "graphs")
        rows.append([name, *numbers(entry.value for entry in row.entries)])
        theirs = [entry.published for entry in row.entries]
        if not np.isnan(theirs).all():
            rows.append([f"{name.partition(' (')[0]}, published", *numbers(theirs)])
    return table(["backbone", *(f"`{column}`" for column in found.columns)], rows)


@fill("correlations")
def correlations() -> str:
    """How structure correlates with correctness at equal confidence and degree."""
    from gnncal_lab.bench.diagnosis import read_diagnosis
    from gnncal_lab.bench.tables.graphs import structure

    found = structure("gcn", read_diagnosis(RESULTS)["gcn"])
    rows = []
    for row in found.rows:
        name = row.name.replace("pagerank", "PageRank")
        name = name.replace("nodes that send to some", "nodes with an outgoing edge")
        rows.append([name, *numbers((entry.value for entry in row.entries), 3)])
        theirs = [entry.published for entry in row.entries]
        if not np.isnan(theirs).all():
            rows.append([f"{name}, published", *numbers(theirs, 3)])
    return table([found.corner, "all nodes pooled", "mean over graphs"], rows)


SHOWN = {  # the rows of an experiment on the page; `gnncal csbm` prints all of them
    "posterior": "",
    "necessity": r"^(?!gap at h = 0.5 ± 0.1)",
    "sweep": "",
    "attenuation": "",
    "entropy": r"^(?!q\(h\)|order of .* K = (3|10|40))",
    "kl": r"slope in (n|d$|K, rank|K at)",
    "hots": "learned",
    "leak": "",
    "limit": r"undirected, .*GCN: (hots, .* and |structural(-temperature|-free)?$|.*whole|log)",
    "sufficiency": r"lost by|gained|exponent",
}


PREFIX = defaultdict(str, hots="learned: ", limit="undirected, trained GCN: ")  # of shown rows


def findings(name: str) -> list[list[str]]:
    """Return what an experiment on the block model found, as the docs show it."""
    rows = []
    for row in record("theory")[name]["findings"]:
        if re.search(SHOWN[name], row[0]):
            row = [cell.replace(" %", "%").replace("|", "\\|") for cell in row]
            rows.append([row[0].removeprefix(PREFIX[name]), *row[1:]])
    return rows


def theory(name: str) -> str:
    """The findings as quantity, our value and the theory's or the paper's."""
    return table(["quantity", "measured", "comparison"], findings(name), texts=3)


def theory_hots() -> str:
    """Shares of the avoidable loss, with the two constants below."""
    rows = []
    for name, share, rest in findings("hots"):
        avoidable, gap, gap_of_ts = re.findall(r"[\d.]+%?", rest)
        rows.append([name, share, gap])
    heads = ["method, estimate of h", "avoidable loss recovered", "miscalibration by h"]
    return (
        f"{table(heads, rows)}\n\nThe avoidable loss is {avoidable} nats. The "
        f"miscalibration of TS is {gap_of_ts}."
    )


def theory_limit() -> str:
    """Log losses, the highest first, and reductions as multiples of the oracle's."""
    *rows, (_, loss, rest) = findings("limit")
    cells = [
        [name, share, *re.findall(r"(?:loss|accuracy) ([\d.]+%?)", r)] for name, share, r in rows
    ]
    heads = ["method or limit", "reduction, % of the oracle's", "log loss", "accuracy"]
    return (
        f"{table(heads, sorted(cells, key=lambda row: -float(row[2])))}\n\nTS has a log loss of "
        f"{loss}. That of the oracle is {re.findall(r'[0-9.]+', rest)[0]} nats lower."
    )


for _name in SHOWN:
    FILLS[f"theory-{_name}"] = partial(theory, _name)
FILLS |= {"theory-hots": theory_hots, "theory-limit": theory_limit}
