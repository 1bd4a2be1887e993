"""What the scripts of benchmarks/ have measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import mean
from typing import Any

from scipy.stats import beta, binom

from filled.common import fill, record, signed, table

NETWORKS = {"gcn": "GCN", "sage-batches": "GraphSAGE"}


@fill("speed")
def speed() -> str:
    """Seconds of every step at Reddit's size."""
    seconds = {each["name"]: each["seconds"] for each in record("speed")["rows"]}
    steps = {
        "build the graph": "build",
        "`hots`, fit and predict": "hots, fit and predict",
        "`structural`, fit and predict": "default, separate calls",
        "`gnncal.calibrate` with evaluation": "calibrate with evaluation",
    }
    rows = [
        [title, *(f"{seconds[f'{name}, {how}']:.1f}" for how in ("plain", "compiled"))]
        for title, name in steps.items()
    ]
    product = f"{seconds['product, SciPy']:.1f}"
    rows.append(["baseline: one sparse matrix product (SciPy)", product, "–"])
    return table(["step", "without the extra `fast`", "with the extra `fast`"], rows)


@fill("report-speed")
def report_speed() -> str:
    """What a report on a million nodes costs."""
    found = record("report")
    return (
        f"For {found['nodes']:,} nodes and {found['edges']:,} edges, the HTML report adds "
        f"{found['seconds_beyond']:.1f} s to the calibration. The file size is "
        f"{found['megabytes']:.1f} MB."
    )


@fill("rare-classes")
def rare_classes() -> str:
    """Error of P(positive) and its floor, by graph and model."""
    methods = ("uncalibrated", "isotonic", "platt", "svs", "structural", "structural-free")
    rows = []
    for row in record("rare_classes"):
        rate = row["methods"]["platt"]["positive_rate"]
        cells = [
            f"{100 * of['positive_ece']:.1f} ({100 * of['positive_ece_floor']:.1f})"
            for of in (row["methods"][method] for method in methods)
        ]
        rows.append([_model(row), f"{rate:.1%}", *cells])
    return table(["graph, network", "positives", *(f"`{m}`" for m in methods)], rows)


def _model(row: Any) -> str:
    return f"{row['graph'].partition('@')[0]}, {NETWORKS[row['backbone']]}"


@fill("rare-ranking")
def rare_ranking() -> str:
    """What the graph adds to the ranking of a rare class."""
    rows = []
    for row in record("rare_classes"):
        (gain,) = (value for name, value in row.items() if " minus " in name)
        cells = [
            signed(
                *(gain[measure][end] for end in ("mean", "low", "high")),
                scale=scale,
                decimals=decimals,
            )
            for measure, scale, decimals in (
                ("average_precision", 1, 3),
                ("precision_among_top", 100, 1),
            )
        ]
        rows.append([_model(row), *cells])
    heads = ["graph, network", "average precision", "precision among the top 100, points"]
    return table(heads, rows)


@fill("rare-summary")
def rare_summary() -> str:
    """The range of the error of P(positive) above its floor, for three ways to calibrate."""
    kinds = {
        "`structural` (keeps predictions)": ("structural",),
        "`structural-free`": ("structural-free",),
        "`platt`, `svs`, `isotonic` (do not read the graph)": ("platt", "svs", "isotonic"),
    }
    rows = []
    for title, methods in kinds.items():
        above = [
            100 * (row["methods"][m]["positive_ece"] - row["methods"][m]["positive_ece_floor"])
            for row in record("rare_classes")
            for m in methods
        ]
        rows.append([title, f"{min(above):.1f} to {max(above):.1f}"])
    return table(["method", "ECE of P(positive) minus its noise floor, points (range)"], rows)


@fill("shift")
def shift() -> str:
    """Log loss after a shift, without and with labels."""
    import shift as benchmark

    found = benchmark.Results(record("shift"))
    names = {
        "twitch": "countries, 42 pairs",
        "libraries": "libraries, 6 pairs",
        "tolokers": "base rate, 3 changes",
    }
    rows = []
    for family in found.pairs:
        for method in ("structural", "structural-free", "hots", "ts"):
            source = found.mean(family, method, "source", 0)
            updated, again = (found.mean(family, method, w, 50) for w in ("updated", "afresh"))
            every = found.mean(family, method, "afresh", -1)
            values = [f"{value:.3f}" for value in (source, updated, again, every)]
            repaired = (source - updated) / (source - every)
            rows.append([names.get(family, family), f"`{method}`", *values, f"{repaired:.0%}"])
    heads = ["no labels", "50 labels, update", "50 labels, refit", "all labels, refit"]
    heads.append("excess removed")
    return table(["shift", "method", *heads], rows, texts=2)


@fill("check")
def check() -> str:
    """How often `gnncal check` reports a shift."""

    def kind(row: dict[str, str]) -> str:
        if row["source"] == row["target"] or row["target"] == "rate x1":
            return "other nodes of the same graph"
        if row["family"] in ("countries", "libraries"):
            return "another country or library"
        if row["family"] == "growth":
            return "the same graph after it has grown"
        if row["family"] == "years":
            return "papers of the year of the fit, or of a later year"
        mild = row["target"] in ("rate x1.5", "rate x1/2")
        return "base rate × 0.5 or × 1.5" if mild else "base rate × 2, × 3, or set to 3%"

    found: dict[str, list[bool]] = {}
    for row in record("check"):
        found.setdefault(kind(row), []).append(row["verdict"] != "same")
    rows = [[name, f"{sum(shifts)} of {len(shifts)}"] for name, shifts in found.items()]
    return table(["new nodes", "checks that report a shift"], rows)


@fill("verdict")
def verdict() -> str:
    """How often the verdict is good, by true error and number of test nodes."""
    rows = [
        [
            world,
            "1 point" if error == "1 points" else error,
            *(f"{share:.0%}" for share in shares.values()),
        ]
        for world, found in record("verdict")["worlds"].items()
        for error, shares in found["shares"].items()
    ]
    heads = ["100 test nodes", "300", "1,000", "3,000"]
    return table(["confidence", "true ECE", *heads], rows, texts=2)


@fill("verdict-number")
def verdict_number() -> str:
    """How often the number of test nodes that a verdict names is enough."""
    worlds = record("verdict")["worlds"].values()
    shares = [found["share at the number"] for found in worlds]
    numbers = [found["median number"] for found in worlds]
    return (
        "On 300 test nodes and at a true ECE of 0, the verdicts that are not good name a median of "
        f"{min(numbers):,.0f} to {max(numbers):,.0f} test nodes. On so many new nodes, "
        f"{min(shares):.0%} to {max(shares):.0%} of the verdicts are good."
    )


@fill("watch")
def watch() -> str:
    """Labels until an alarm."""
    rows = []
    for name, found in record("watch")["labels_needed"].items():
        gap, when = name.removeprefix("gap ").split(", ", 1)
        when = "after 2,000 labels without a gap" if when.startswith("after") else "first label"
        counts = [f"{found[of]['half']:,}" for of in ("gnncal", "mapie")]
        rows.append([f"{100 * float(gap):.0f} points", when, *counts])
    return table(["gap", "start of the gap", "gnncal", "MAPIE"], rows, texts=2)


@fill("watch-unchanged")
def watch_unchanged() -> str:
    """Alarms about fits on nodes of their own graph."""
    worlds = record("watch")["fits_that_never_change"]
    layers = [[f for name, f in worlds.items() if name.startswith(n)] for n in ("two", "one")]
    rows = []
    for kind in layers[0][0]:
        shares = [
            f"{100 * sum(found[kind][f'by {n}'] for found in some) / len(some):.0f}%"
            for some in layers
            for n in ("1,000", "20,000")
        ]
        method, labels, *tolerance = kind.split(", ")
        given = "0" if tolerance else "default"
        rows.append([f"`{method}`", labels.removesuffix(" labels"), given, *shares])
    heads = [f"{n} layer, {by} labels" for n in ("two", "one") for by in ("1,000", "20,000")]
    heads = [head.replace("two layer", "two layers") for head in heads]
    return table(["method", "labels of the fit", "tolerance", *heads], rows)


@fill("watch-sentence")
def watch_sentence() -> str:
    """How often the default tolerance of a watch is not enough."""
    worlds = record("watch")["fits_that_never_change"]
    rates = []
    for model in ("two", "one"):
        some = [found for name, found in worlds.items() if name.startswith(model)]
        for n in ("1,000", "20,000"):
            shares = [
                100 * sum(found[kind][f"by {n}"] for found in some) / len(some)
                for kind in some[0]
                if "tolerance 0" not in kind
            ]
            rates.append(f"{min(shares):.0f}–{max(shares):.0f}%")
    return (
        "The default tolerance covers the typical error of a fit on few labels. A long watch "
        "detects a larger error even without a shift. In simulations without a shift, the share of "
        f"watches with an alarm was {rates[0]} within 1,000 labels and {rates[1]} within 20,000 "
        f"labels of a two-layer model, and {rates[2]} and {rates[3]} of a one-layer model, whose "
        "errors a method that keeps predictions cannot repair. The share depends on the method and "
        "on the number of labels of the fit ([results](results.md#labels-until-an-alarm))."
    )


@fill("policies-violations")
def policies_violations() -> str:
    """How often a guarantee of a policy was violated in simulations."""
    found = record("policies")["violations"]
    most = max(row["missed"] for row in found["rows"])
    return (
        f"Each of the {len(found['rows'])} settings has {found['draws']:,} draws. At level 90%, "
        f"{found['draws'] // 10} draws may violate a guarantee. In the worst setting, {most} did."
    )


@fill("policies-power")
def policies_power() -> str:
    """The share of nodes decided, of those that pass the same test in hindsight."""
    found = record("policies")["power"]["rows"]
    sizes = sorted({row["n"] for row in found})
    kinds = {
        "gnncal, correct": ("certified", lambda kind: kind == "right"),
        "gnncal, wrong slope or offset": ("certified", lambda kind: kind != "right"),
        "best start in hindsight, all": ("best start", lambda kind: True),
    }
    rows = []
    for title, (rule, belongs) in kinds.items():
        cells = []
        for n in sizes:
            shares = [row[rule] for row in found if row["n"] == n and belongs(row["kind"])]
            cells.append(f"{sum(shares) / len(shares):.2f} ({min(shares):.2f})")
        rows.append([title, *cells])
    return table(["start, probabilities", *(f"{n:,} labels" for n in sizes)], rows)


@fill("policies-mapie")
def policies_mapie() -> str:
    """The share of nodes acted on, gnncal's and MAPIE's."""
    rows = []
    for row in record("policies")["mapie"]["rows"]:
        shares = [value for name, value in row.items() if name.startswith("mapie")]
        cells = [f"{share:.1%}" for share in (row["gnncal"], min(shares), max(shares))]
        rows.append([f"{row['rate']:.0%}", row["apart"], f"{row['n']:,}", *cells])
    heads = ["positives", "separation", "labels", "gnncal", "MAPIE, lowest", "MAPIE, highest"]
    return table(heads, rows)


WAYS = ("split", "cross-fit")
NAMES = {"cross-fit": "cross-fitting", "split": "half to fit, half to certify"}


def _certified(of_rare: bool) -> list[Any]:
    """Return the rows on graphs with a rare class, or those on the fourteen benchmark graphs."""
    rare = {row["graph"] for row in record("certified")["rows"] if row["model"] != "gcn"}
    return [row for row in record("certified")["rows"] if (row["graph"] in rare) == of_rare]


def _missed(rows: list[Any], way: str) -> tuple[str, int]:
    """Return the share of all draws that miss, and how many settings miss too often.

    The share has a 95% interval; too often is above 10% beyond binomial error (5%, one-sided).
    """
    counts = [(round(row[way]["missed"] * row["draws"]), row["draws"]) for row in rows]
    n, draws = map(sum, zip(*counts, strict=True))
    low, high = beta.ppf(0.025, n, draws - n + 1), beta.ppf(0.975, n + 1, draws - n)
    share = f"{n / draws:.1%} [{100 * low:.1f}, {100 * high:.1f}]"
    return share, sum(binom.sf(each - 1, of, 0.1) < 0.05 for each, of in counts)


@fill("cross-fit")
def cross_fit() -> str:
    """What cross-fitting decides and misses on all graphs, against the split."""
    lines = []
    for title, rare in (("14 benchmark graphs", False), ("graphs with a rare class", True)):
        rows = _certified(of_rare=rare)
        for way in ("cross-fit", "split"):
            decided, missed = ([row[way][what] for row in rows] for what in ("decided", "missed"))
            often = f"{_missed(rows, way)[1]} of {len(rows)}"
            shares = [f"{mean(decided):.0%}", f"{mean(missed):.1%}", f"{max(missed):.0%}"]
            lines.append([title, NAMES[way], *shares, often])
    heads = ["graphs", "use of labels", "nodes decided", "draws that miss", "worst setting"]
    return (
        table([*heads, "settings significantly above 10%"], lines, texts=2)
        + "\n\nA setting is a graph, model, method, number of labels and target. Shares are means "
        "over settings. In each setting, 10% of the draws may miss the guarantee."
    )


@fill("cross-fit-graphs")
def cross_fit_graphs() -> str:
    """The same on the fourteen graphs, by method and number of labels."""
    rows, cells = _certified(of_rare=False), []
    for method in dict.fromkeys(row["method"] for row in rows):
        for few in (True, False):
            mine = [row for row in rows if row["method"] == method]
            mine = [row for row in mine if (row["labels"] <= 200) == few]
            decided = [f"{mean(row[way]['decided'] for row in mine):.0%}" for way in WAYS]
            missed = [f"{mean(row[way]['missed'] for row in mine):.1%}" for way in WAYS]
            line = [f"`{method}`", "200" if few else "500", len(mine)]
            cells.append([*line, *decided, *missed])
    heads = ["method", "labels", "graphs", *(f"decided, {way}" for way in WAYS)]
    least, most = (f([row["draws"] for row in rows]) for f in (min, max))
    (once, _), (twice, _) = (_missed(rows, way) for way in WAYS)
    return (
        table([*heads, *(f"missed, {way}" for way in WAYS)], cells, texts=2)
        + f"\n\nEach setting has {least} to {most} draws. Over all draws, the guarantee is missed "
        f"in {once} with the split and in {twice} with cross-fitting."
    )


THROUGH = {
    "edges": "edges of the graph",
    "citations": "citations (edges)",
    "friends": "friendships (edges)",
}


def _by_entities(rows: list[Any]) -> Iterator[tuple[Any, list[str]]]:
    """Give items and what they share once, with the differences of both methods."""
    pairs: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        through = re.sub("^ends", "endpoints", row["method"].split(", ", 1)[1])
        pairs.setdefault((row["setting"], through), []).append(row)
    for (setting, through), each in pairs.items():
        found = [signed(row["difference"], row["low"], row["high"]) for row in each]
        items = setting.replace(", by ", ", split by ").replace("of libraries", "(libraries)")
        items = items.replace("pairs,", "pairs of reviewers,").replace("of acm", "(acm)")
        yield each[0] | {"items": items, "through": THROUGH.get(through, through)}, found


@fill("shared-entities")
def shared_entities() -> str:
    """What neighbours through shared entities add to a model without a graph."""
    rows = [
        [
            *(row["items"], row["through"], f"{row['units']} {row['unit']}s"),
            *(f"`{row['base']}`", *found),
        ]
        for row, found in _by_entities(record("shared_entities")["summary"])
    ]
    heads = ["items", "neighbours through", "interval over", "baseline"]
    return table([*heads, "`structural`", "`structural-free`"], rows, texts=4)


@fill("coverage")
def coverage() -> str:
    """How often intervals of P(class) hold where the truth is known."""
    rows = record("known_truth")["intervals"]
    said = []
    for title, blocks in (("GCN on four real graphs", False), ("block models", True)):
        mine = [row for row in rows if row["world"].startswith("block") == blocks]
        for n in sorted({row["nodes"] for row in mine}):
            found = [row["mean"] for row in mine if row["nodes"] == n]
            least = min(row["least"] for row in mine if row["nodes"] == n)
            share = f"{min(found):.0%} to {max(found):.0%}"
            said.append([title, f"{n:,}", share, f"{least:.0%}"])
    heads = ["true model fitted to", "calibration nodes", "mean coverage, range over graphs"]
    heads.append("lowest coverage of a fit")
    return table(heads, said)


@fill("homophily-warning")
def homophily_warning() -> str:
    """How often an update says that homophily has changed."""
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in record("known_truth")["homophily"]:
        key = row["classes"], row["before"], row["after"]
        cells.setdefault(key, {})[row["model"]] = f"{row['warned']:.0%}"
    heads = ["classes", "homophily of the fit", "homophily of the update"]
    heads += ["warnings, strong model", "warnings, weak model"]
    return table(heads, [[*key, found["strong"], found["weak"]] for key, found in cells.items()])


WAYS_TO_SERVE = {
    "two hops": "nodes within two hops",
    "one hop": "nodes within one hop",
    "the node alone": "the node alone",
    "the whole graph, grouped once": "the whole graph, edges sorted in advance",
}


@fill("serve")
def serve() -> str:
    """Latency of one probability from cached logits."""
    rows = [
        [
            WAYS_TO_SERVE[row["way"]],
            f"{row['nodes']:,}",
            *(f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms")),
            f"{row['largest_difference']:.1g}",
        ]
        for row in record("serve")["rows"]
    ]
    heads = ["nodes, median", "ms, median", "ms, 95th percentile", "largest error"]
    return (
        "The table shows the CPU time, in milliseconds on one thread, for the probabilities of "
        "one node with `structural-free` on `amazon_fraud`. The error is the difference in "
        "probability from `predict_proba` on the whole graph "
        "([serve.json](../benchmarks/results/serve.json)).\n\n"
        + table(["input to the module", *heads], rows)
    )


@fill("advice")
def advice() -> str:
    """How often the advice on keeping predictions is given, and how often rightly."""
    kinds = {
        "ordinary": "GCN and GAT, 14 benchmark graphs",
        "plain": "GCN without class weights, 13 graphs",
        "weighted": "GCN with class weights, the same 13 graphs",
        "strong": "GraphSAGE in mini-batches with class weights, 7 graphs with a rare class",
    }
    rows = []
    for kind, title in kinds.items():
        models = [
            row
            for row in record("keeping_predictions")["models"]
            if row["kind"] == kind and row["method"] == "structural"
        ]
        given = [row for row in models if row["said"] is not None]
        right = sum(row["test_nats"] > 0 for row in given)
        rows.append([title, f"{len(given)} of {len(models)}", f"{right} of {len(given)}"])
    heads = ["models", "models with a warning", "of these, correct warnings"]
    return table(heads, rows)


@fill("mailbox-leak")
def mailbox_leak() -> str:
    """What the leak of the released loss of Simi-Mailbox is worth."""
    found = {
        (row["groups"], row["metric"]): row
        for row in record("mailbox_leak")["comparisons"]
        if row["graphs"] == "all"
    }
    ece, nll = found["sixteen", "ece"], found["sixteen", "nll"]
    shown = signed(ece["mean_difference"], ece["low"], ece["high"], decimals=2)
    return (
        f"With 16 groups, the leak changes the ECE by {shown} points and the log loss by "
        f"{nll['mean_difference']:+.2f} nats."
    )


def _scale_runs() -> dict[tuple[str, str, int, int, int], Any]:
    names = ("contender", "method", "nodes", "edges", "classes")
    runs = [each for each in record("scale")["records"] if each["exit_code"] == 0]
    return {tuple(each[name] for name in names): each for each in runs}  # type: ignore[misc]


@fill("scale-cost")
def scale_cost() -> str:
    """What runs at scale took, on DuckDB and on Spark."""
    names = ("seconds", "cpu_seconds", "peak_mib", "temporary_mib")
    rows = []
    for (engine, method, *size), run in sorted(
        _scale_runs().items(), key=lambda each: (each[0][0], each[0][4], *each[0][2:4], each[0][1])
    ):
        if engine != "before":
            where = ", Spark" if engine == "spark" else ""
            sizes = [f"{number:,}" for number in (size[2], size[0], size[1])]
            cells = [f"{run[name]:,.0f}" for name in names]
            rows.append([f"`{method}`{where}", *sizes, *cells])
    heads = ["method", "classes", "nodes", "edges", "seconds", "CPU seconds"]
    return table([*heads, "peak memory, MiB", "peak disk, MiB"], rows)


@fill("scale-papers")
def scale_papers() -> str:
    """What ogbn-papers100M would take, from the arrays and from the largest run."""
    nodes, edges, classes, threads, memory = 111e6, 1.6e9, 172, 8, 64 * 2**30
    by_node, values = nodes * (45 + 8 * (threads + 2)), nodes * 4 * (classes + 2)
    room = 0.5 * (memory - by_node) / values
    blocks = [int(-(-1 // room)), int(-(-2 // room))]
    size = 5 * 10**6, 80 * 10**6, 172
    runs = [_scale_runs().get(("duckdb", method, *size)) for method in ("hots", "structural")]
    seconds = [f"{22 * run['cpu_seconds']:,.0f}" if run else "–" for run in runs]
    logits, both = nodes * 4 * (2 * classes + 2), f"{8 * edges / 1e9:.0f} GB"
    reads = [values, (blocks[1] + 1) * values]
    rows = [
        ["memory for degrees, labels and sums: (61 + 8 · 8) N bytes", *[_gb(by_node)] * 2],
        [
            "disk for logits and values to be averaged: 4 (2 K + 2) N bytes",
            *[_gb(logits)] * 2,
        ],
        ["disk for neighbour means: 4 (K + 2) N bytes", "none", _gb(values)],
        ["disk for edges: 8 E bytes", both, both],
        ["blocks of nodes", *blocks],
        ["reads of the values to be averaged, over all blocks", *map(_gb, reads)],
        ["CPU seconds: 22 times those of 5 million nodes and 80 million edges", *seconds],
    ]
    return table(["resource", "`hots`", "`structural`"], rows)


def _gb(size: float) -> str:
    return f"{size / 1e9:,.0f} GB"
