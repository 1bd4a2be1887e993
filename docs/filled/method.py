"""How good the structural methods are, and why they look as they do."""

from __future__ import annotations

import csv
from typing import Any

from filled.common import (
    RESULTS,
    ROOT,
    fill,
    record,
    results,
    results_of,
    signed,
    some_graphs,
    table,
    thousandths,
)

SHOWN = ("structural", "structural-free", "hots")
KINDS = ("paper's models", "GraphSAGE, class weights", "GraphSAGE, no class weights")
ABOVE = "thousandths of a nat above the package's, mean and each family"


def _numbers_right(text: str) -> str:
    """Return a table of benchmarks/ with numbers to the right."""
    head, rule, *rows = text.splitlines()
    return "\n".join([head, "|---" + "|---:" * (rule.count("---") - 1) + "|", *rows])


@fill("evidence-structural", "structural")
@fill("evidence-free", "structural-free")
def against(method: str) -> str:
    """A structural method against the others that may or may not change predictions."""
    import evidence

    found = some_graphs("many", results("converged"))
    rivals = ["ts", *evidence.FREE] if method == "structural-free" else evidence.KEEPING
    return _numbers_right(
        evidence.against(found, method, [m for m in rivals if m in found.methods])
    )


@fill("evidence-ece")
def against_in_ece() -> str:
    """The ECE of `structural` against no calibration and temperature scaling."""
    import evidence

    found = some_graphs("many", results("converged"))
    return _numbers_right(evidence.against(found, "structural", ["uncalibrated", "ts"], "ece"))


@fill("evidence-many", "many")
@fill("evidence-few", "few")
def overview(part: str) -> str:
    """All metrics of all methods, or of those that do best with few nodes."""
    import evidence

    found = some_graphs(part, results("converged"))
    order = ["uncalibrated", *evidence.KEEPING, *evidence.FREE, *evidence.OURS]
    if part == "few":
        order = ["uncalibrated", "ts", "entropy-only", "hts", "hots", "svs", "platt"]
        order += evidence.OURS
    return _numbers_right(evidence.overview(found, [m for m in order if m in found.methods]))


@fill("evidence-graphs")
def by_graph() -> str:
    """`structural` against temperature scaling, graph by graph."""
    import evidence

    return _numbers_right(evidence.by_graph(results("converged"), "structural", "ts"))


@fill("evidence-external")
def external_graphs() -> str:
    """The graphs that took no part in any choice."""
    import external

    return _numbers_right(external.table(record("external")["rows"]))


@fill("evidence-external-pairs")
def external_pairs() -> str:
    """Pairs of methods on the same graphs."""
    import external

    return _numbers_right(external.pairs_of_methods(record("external")["rows"]))


@fill("evidence-sage")
def other_network() -> str:
    """`structural` on GraphSAGE."""
    from gnncal_lab.bench.summary import compare_paired

    found = some_graphs("many", results_of(("sage",), "converged"))
    texts = []
    for other in ("ts", "hots"):
        c = compare_paired(*found.matched("nll", "structural", other), found.graphs)
        wins = f"{c.win_rate * c.n_graphs:g} of {c.n_graphs}"
        texts.append([f"`{other}`", thousandths(c), wins])
    heads = ["`structural` minus", "difference, 10⁻³ nats", "graphs where lower"]
    return table(heads, texts)


@fill("evidence-years")
def later_years() -> str:
    """The larger graph with a split by years."""
    import arxiv_years

    shown = (
        "uncalibrated",
        "ts",
        "hts",
        "hots",
        "wats",
        "cagcn",
        "gats",
        "svs",
        "sms",
        "dirichlet",
    )
    shown += ("structural-temperature", "structural", "structural-vector", "structural-free")
    _, _, *rows = arxiv_years.table(RESULTS / "arxiv-years").splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:5]] for row in rows]
    kept = [row for row in cells if row[0].strip("`") in shown]
    return table(["method", "NLL", "ECE %", "accuracy %"], kept)


@fill("calibration-nodes")
def calibration_nodes() -> str:
    """On how many graphs methods are below temperature scaling, by the number of nodes."""
    loss: dict[tuple[str, str, int], float] = {}
    with (ROOT / "benchmarks/results/calibration_nodes.csv").open() as lines:
        for row in csv.DictReader(lines):
            loss[row["graph"], row["method"], int(row["nodes"])] = float(row["nll"])
    sizes = [n for n in sorted({n for _, _, n in loss}) if 10 <= n <= 500]
    rows = []
    for method in ("structural", "structural-free", "hots", "entropy-only", "hts", "svs"):
        cells = []
        for n in sizes:
            gaps = [
                loss[graph, method, n] - loss[graph, "ts", n]
                for graph, name, size in loss
                if name == method and size == n
            ]
            cells.append(f"{sum(gap < 0 for gap in gaps)} of {len(gaps)}" if gaps else "–")
        rows.append([f"`{method}`", *cells])
    return table(["method", *(f"{n} nodes" for n in sizes)], rows)


@fill("model-selection")
def model_selection() -> str:
    """What other families of graphs would have chosen."""
    found = record("choose_structural")["left out"]
    same = [of for of in found.values() if of["chosen"] == record("choose_structural")["package"]]
    costs = [
        1e3 * (of["loss on the family"] - of["loss with the package's"])
        for of in found.values()
        if of not in same
    ]
    return (
        f"For {len(same)} of {len(found)} families, the chosen prior is that of gnncal. For the "
        f"other {len(costs)}, the log loss of the chosen prior on the left-out family is "
        f"{min(costs):.1f}–{max(costs):.1f} × 10⁻³ nats above that of gnncal's prior."
    )


@fill("ablation")
def ablation() -> str:
    """What the log loss rises by without a part of the law."""
    found = record("choose_structural")[ABOVE]
    names = {
        "hardly any prior": "nearly flat prior",
        "no weights": "no neighbourhood (w = 0)",
        "ratio around 1 (centre 0)": "prior centred at T_certain = T_uncertain",
        "without degrees": "no degrees",
        "fixed precision of weights, 8": "fixed precision of the weights",
        "without support": "no support",
        "no offsets for classes": "no class offsets",
        "without neighbour_entropy": "no entropy of the neighbours",
        "without relative_confidence": "no relative confidence",
        "without two_hop_support": "no two-hop support",
    }
    rows = []
    for name, title in names.items():
        mean, *families = found[name]
        rows.append([title, f"{mean:+.1f}", f"{min(families):+.1f} to {max(families):+.1f}"])
    return table(["change", "mean increase", "range over families"], rows)


@fill("averaging")
def averaging() -> str:
    """How the mean over temperatures was chosen."""
    found = record("choose_prediction")
    half = "mean over half of the variance"
    ranks, chosen = found["mean rank"], list(found["left out"].values())
    return (
        f"Each of {len(chosen)} families of graphs was left out in turn; in "
        f"{chosen.count(half)} cases, the other families select half of the variance. Among "
        f"{len(ranks)} candidates (none, half and all of the variance, each alone or mixed with "
        f"temperature scaling), the mean rank without mixing is {ranks[half]:.1f} for half of the "
        f"variance, {ranks['mean']:.1f} for all and {ranks['most probable']:.1f} for none."
    )


@fill("floor-study")
def floor_study() -> str:
    """What variants of `structural-free` cost, on three kinds of models."""
    names = {
        "the package's prior, Beta(1, √n), shares": "the package's choice",
        "ratio up to 50, Beta(1, √n), shares": "no limit on the ratio",
        "ratio up to 1.2, Beta(1, √n), shares": "ratio of at most 3.3",
        "normal, 0.1, Beta(1, √n), shares": "normal prior of w and γ, scale 0.1",
        "normal, 1, Beta(1, √n), shares": "normal prior of w and γ, scale 1",
        "the package's prior, none, shares": "no floor",
        "the package's prior, 1/(n + 1), shares": "ε = 1/(n + 1)",
        "the package's prior, uniform, shares": "uniform prior of ε",
        "the package's prior, Beta(1, √n), uniform background": "uniform background",
    }
    kinds = record("choose_free")
    rows = []
    for name, title in names.items():
        cells = [f"{part[ABOVE][name][0]:+.1f}" for part in kinds.values()]
        top = [
            100 * part["ranking"][f"{name}: precision_among_top less that of platt"]["mean"]
            for part in kinds.values()
            if "ranking" in part
        ]
        rows.append([title, *cells, *(f"{value:+.1f}" for value in top)])
    heads = [f"log loss: {kind}" for kind in KINDS]
    return table(["variant", *heads, *(f"top 100: {kind}" for kind in KINDS[1:])], rows)


@fill("floor-published")
def floor_published() -> str:
    """What the same floor would do for published methods."""
    rows = []
    for method in ("ts", "hots"):
        cells = []
        for part in record("choose_free").values():
            found = dict(part["floor of published methods"][method])
            mean, worst = found.pop("mean"), found.pop("worst model")
            cells += [signed(mean, min(found.values()), max(found.values())), f"{worst:+.1f}"]
        rows.append([f"`{method}`", *cells])
    heads = [head for kind in KINDS for head in (kind, f"worst model, {kind}")]
    return table(["method", *heads], rows)


@fill("readme-results")
def readme_results() -> str:
    """The change in log loss of three methods, on eleven graphs and on eight others."""
    import external
    from gnncal_lab.bench.summary import compare_paired

    many = some_graphs("many", results("converged"))
    kept = {"structural": "kept (default)", "structural-free": "may change", "hots": "kept"}
    rows = []
    for method in SHOWN:
        ours = compare_paired(*many.matched("nll", method, "ts"), many.graphs)
        others = external.compare(record("external")["rows"], method, "ts", "nll")
        rows.append([f"`{method}`", kept[method], thousandths(ours), thousandths(others)])
    heads = ["method", "predicted class", "11 benchmark graphs", "8 held-out graphs"]
    return table(heads, rows, texts=2)


@fill("strong-model")
def strong_model() -> str:
    """The gain on class-weighted GraphSAGE, against a method without the graph."""
    from gnncal_lab.bench.summary import compare_paired

    rows = [row for row in record("rare_classes") if row["backbone"] == "sage-batches"]
    graphs = [row["graph"] for row in rows]

    def gain(measure: str) -> Any:
        values = [[r["methods"][m][measure] for r in rows] for m in ("structural-free", "platt")]
        return compare_paired(*values, graphs)

    precision = gain("average_precision")
    return (
        f"On a stronger network the graph adds little. For class-weighted GraphSAGE on "
        f"{len(graphs)} graphs with a rare class,\n`structural-free` minus `platt` (which does "
        "not read the graph) is "
        f"{thousandths(gain('nll'))} × 10⁻³ nats in log loss and "
        f"{signed(precision.mean_difference, precision.low, precision.high, decimals=3)} "
        "in average precision."
    )
