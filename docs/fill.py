"""Fill the marked parts of README and docs from records and captured runs.

    python docs/fill.py

A part stands between `<!-- fill: NAME -->` and `<!-- end -->`, and NAME is a function below. A test
fails when a page differs from its source.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable
from contextlib import chdir, redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs")]
PART = re.compile(r"(<!-- fill: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAN = float("nan")
HOTS_VARIANTS = (
    "hots-predictor",
    "hots-cross-fitted",
    "hots-agreement",
    "hots-clamped",
    "hots-agreement-clamped",
)
SHOWN = ("structural", "structural-free", "hots")


def filled(text: str, *, only: set[str] | None = None) -> str:
    """Return a page with its parts, or some of them, made again."""

    def made(part: re.Match[str]) -> str:
        if only is not None and part[2] not in only:
            return part[0]
        return f"{part[1]}{FILLS[part[2]]()}\n{part[3]}"

    return PART.sub(made, text)


def _output(text: str) -> str:
    return "```text\n" + "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n```"


def _command(*words: str) -> str:
    """Return what a command prints, 100 characters wide."""
    from typer.testing import CliRunner

    from gnncal.__main__ import app

    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"}, catch_exceptions=False)
    return done.stdout


@cache
def _example() -> Any:
    import gnncal

    task = gnncal.example()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task, gnncal.calibrate(task.logits, task.labels, task.graph, **task.splits)


def readme_output() -> str:
    """The first lines that `print(result)` prints."""
    lines = str(_example()[1]).splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("ECE"))
    return _output("\n".join([*lines[: end + 1], "..."]))


def full_output() -> str:
    """All that `print(result)` prints."""
    return _output(str(_example()[1]))


def evaluation() -> str:
    """What `print(result.before)` prints."""
    return _output(str(_example()[1].before))


def demo() -> str:
    """What `gnncal demo` prints, up to where it says what to do next."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        text = _command("demo", "--out", f"{folder}/demo")
    return _output(re.split(r"\n(?:Next\.|written|saved)", text, flags=re.IGNORECASE)[0])


def report() -> str:
    """What `gnncal report` prints for the example."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _command("demo", "--json")
        return _output(_command("report", "demo-output/bundle.npz", "--out", "report.html"))


def decide(*options: str) -> str:
    """What `gnncal decide` prints for the example, without what it wrote."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _command("demo", "--out", "demo", "--json")
        text = _command("decide", "demo/bundle.npz", *options)
    return _output(re.split(r"\n(?:written|saved)", text, flags=re.IGNORECASE)[0])


def sets() -> str:
    """What the first example of the page on prediction sets prints."""
    return _output(_printed("sets.md"))


def _printed(page: str) -> str:
    """Return what the first block of Python of a page prints."""
    (code, *_) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    out = StringIO()
    with redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, {})
    return out.getvalue()


def _record(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def speed() -> str:
    """Seconds of every step at Reddit's size."""
    seconds = {
        each["name"]: each.get("seconds") for each in _record("speed_edges")["pieces"]["edges"]
    }
    steps = {
        "build the graph": "build",
        "`hots`, fit and predict": "hots, fit and predict",
        "`structural`, fit and predict": "default, separate calls",
        "`gnncal.calibrate` with evaluation": "calibrate with evaluation",
    }
    lines = ["| step | seconds | with the extra `fast` |", "|---|---:|---:|"]
    for title, name in steps.items():
        lines.append(
            f"| {title} | {seconds[f'{name}, plain']:.1f} | {seconds[f'{name}, compiled']:.1f} |"
        )
    lines.append(f"| one sparse product (SciPy), for scale | {seconds['product, SciPy']:.1f} | |")
    return "\n".join(lines)


def rare_classes() -> str:
    """Error of P(positive) and precision among the top 100, by graph and model."""
    methods = ("uncalibrated", "isotonic", "platt", "svs", "structural", "structural-free")
    lines = [
        f"| model, positives | {' | '.join(f'`{m}`' for m in methods)} |",
        "|---" + "|---:" * len(methods) + "|",
    ]
    for row in _record("rare_classes"):
        rate = row["methods"]["platt"]["positive_rate"]
        cells = [
            f"{100 * of['positive_ece']:.1f} ({100 * of['positive_ece_floor']:.1f})"
            for of in (row["methods"][method] for method in methods)
        ]
        name = {"gcn": "GCN", "sage-batches": "GraphSAGE"}.get(row["backbone"], row["backbone"])
        lines.append(f"| {row['graph']}, {name}, {rate:.1%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rare_ranking() -> str:
    """What the graph adds to the ranking of a rare class."""
    lines = [
        "| model | average precision | precision among the top 100, points |",
        "|---|---:|---:|",
    ]
    for row in _record("rare_classes"):
        (gain,) = (value for name, value in row.items() if " minus " in name)
        name = {"gcn": "GCN", "sage-batches": "GraphSAGE"}.get(row["backbone"], row["backbone"])
        cells = []
        for measure, scale, decimals in (
            ("average_precision", 1, 3),
            ("precision_among_top", 100, 1),
        ):
            mean, low, high = (
                f"{scale * gain[measure][end]:+.{decimals}f}" for end in ("mean", "low", "high")
            )
            cells.append(f"{mean} [{low}, {high}]")
        lines.append(f"| {row['graph']}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shift() -> str:
    """Log loss after a shift, without and with labels."""
    import shift as benchmark

    found = benchmark.Results(_record("shift"))
    lines = [
        "| shift | method | no labels | 50, updated | 50, refitted | all labels | repaired |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    names = {
        "twitch": "42 pairs of countries",
        "libraries": "6 pairs of libraries",
        "tolokers": "tolokers, 3 base rates",
    }
    for family in found.pairs:
        for method in ("structural", "structural-free", "hots", "ts"):
            source = found.mean(family, method, "source", 0)
            updated, again = (found.mean(family, method, w, 50) for w in ("updated", "afresh"))
            every = found.mean(family, method, "afresh", -1)
            repaired = (source - updated) / (source - every)
            numbers = " | ".join(f"{value:.3f}" for value in (source, updated, again, every))
            lines.append(
                f"| {names.get(family, family)} | `{method}` | {numbers} | {repaired:.0%} |"
            )
    return "\n".join(lines)


def watch() -> str:
    """Labels until an alarm."""
    lines = ["| gap | gnncal | MAPIE |", "|---|---:|---:|"]
    for name, found in _record("watch")["labels_needed"].items():
        gap, when = name.removeprefix("gap ").split(", ", 1)
        numbers = " | ".join(f"{found[of]['half']:,}" for of in ("gnncal", "mapie"))
        lines.append(f"| {100 * float(gap):.0f} points, {when} | {numbers} |")
    return "\n".join(lines)


def paper_row() -> str:
    """The row of Cora in the paper's first table."""
    return _output(_command("bench", "paper", str(RESULTS), "--datasets", "Cora"))


@cache
def _results(protocol: str) -> Any:
    from gnncal_lab.bench.results import Selection, read_results

    return read_results(RESULTS, Selection(backbones=("gcn", "gat")))[protocol]  # type: ignore[index]


def _agreement() -> tuple[int, int, int]:
    """How many published values lie within one and two standard deviations, of how many."""
    from gnncal_lab.bench import published

    results, distances = _results("paper"), []
    for metric, scale in (("ece", 100), ("degree_ece", 100), ("nll", 1)):
        for (dataset, backbone, method), value in published.per_backbone(metric).items():  # type: ignore[arg-type]
            ours = results.values(metric, dataset, backbone, method)
            if ours.size and value.spread:
                distances.append(abs(scale * ours.mean() - value.mean) / value.spread)
    found = np.array(distances)
    return int((found <= 1).sum()), int((found <= 2).sum()), found.size


def agreement() -> str:
    """How well the paper's values are reproduced."""
    one, two, total = _agreement()
    return (
        f"{one / total:.0%} of the {total} published values that we re-ran ({one}) lie within one "
        f"reported standard deviation of ours, and {two} within two."
    )


def agreement_table() -> str:
    """Agreement with the paper by method, as `bench tables` counts it."""
    from gnncal_lab.bench.tables.comparisons import reproduction

    found: dict[str, dict[str, str]] = {}
    for row in reproduction(_results("paper")).rows:
        one, two, _, total = (f"{entry.value:.0f}" for entry in row.entries[:4])
        found.setdefault(row.name, {})[row.group] = f"{one}, {two} of {total}"
    heads = list(found["ts"])
    lines = [f"| method | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    lines += [f"| `{name}` | {' | '.join(cells.values())} |" for name, cells in found.items()]
    return "\n".join(lines)


def _markdown(table: Any, names: dict[str, str]) -> str:
    """Return a table of results in Markdown, without the published values."""
    columns = [names.get(column, column) for column in table.columns]
    lines = [f"| {table.corner} | {' | '.join(columns)} |", "|---" + "|---:" * len(columns) + "|"]
    for row in table.rows:
        cells = [
            "–" if np.isnan(entry.value) else f"{entry.value:.{decimals}f}"
            for entry, decimals in zip(row.entries, table.decimals_of(row), strict=True)
        ]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main_ece() -> str:
    """Mean ECE and mean ranks of the paper's methods under both protocols."""
    from gnncal_lab.bench.tables.paper import main_ece

    lines: list[str] = []
    for protocol in ("paper", "converged"):
        table = main_ece(_results(protocol))
        if not lines:
            heads = " | ".join(f"`{column}`" for column in table.columns)
            lines = [f"| | {heads} |", "|---" + "|---:" * len(table.columns) + "|"]
        for row in table.rows[-2:]:
            title = row.name.replace("average rank", "mean rank").replace("average", "mean ECE")
            name = "paper's protocol" if protocol == "paper" else "converged"
            lines.append(f"| {title}, {name} | {_numbers(e.value for e in row.entries)} |")
            if protocol == "paper":
                lines.append(f"| published | {_numbers(e.published for e in row.entries)} |")
    return "\n".join(lines)


def _numbers(values: Iterable[float], decimals: int = 2) -> str:
    return " | ".join("–" if np.isnan(value) else f"{value:.{decimals}f}" for value in values)


def ranks() -> str:
    """Which ranks differ."""
    from gnncal_lab.bench.tables.comparisons import ranks

    table = ranks(_results("paper"), "ece")
    methods = [row for row in table.rows if not row.group]
    rank = {row.name: row.entries[0].value for row in methods}
    limit = next(row.entries[0].value for row in table.rows if row.name == "critical difference")
    best = methods[0].name
    worse = sum(value - rank[best] > limit for value in rank.values())
    apart = sum(abs(value - rank["hots"]) > limit for value in rank.values())
    return (
        f"Among all {len(rank)} methods, mean ranks by ECE differ significantly beyond {limit:.1f} "
        f"(Nemenyi, 5%). The best, `{best}` ({rank[best]:.1f}), differs from {worse} others; HoTS "
        f"({rank['hots']:.1f}) differs from {apart or 'none'}."
    )


def protocols() -> str:
    """Every method under both protocols, and its log loss against HoTS."""
    from gnncal_lab.bench.tables.comparisons import against_reference, overview

    means = {
        protocol: {
            row.name: dict(zip(table.columns, row.entries, strict=True)) for row in table.rows
        }
        for protocol in ("paper", "converged")
        for table in [overview(_results(protocol))]
    }
    tests = {row.name: row for row in against_reference(_results("converged"), "nll", "hots").rows}
    heads = ("ECE %", "converged", "floor", "NLL", "converged", "NLL minus `hots`", "p", "p (Holm)")
    lines = [f"| method | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for method in dict.fromkeys([*means["converged"], *means["paper"]]):
        both = [means[protocol].get(method) for protocol in ("paper", "converged")]
        ece = [NAN if found is None else found["ECE %"].value for found in both]
        nll = [NAN if found is None else found["NLL"].value for found in both]
        floor = next(found["ECE floor %"].value for found in both[::-1] if found is not None)
        test = tests.get(method)
        last = [entry.value for entry in test.entries] if test else [NAN] * 7
        cells = (_numbers([*ece, floor]), _numbers(nll, 4))
        compared = "–" if np.isnan(last[0]) else f"{last[0]:+.4f}"
        lines.append(
            f"| `{method}` | {' | '.join(cells)} | {compared} | {_numbers(last[3:5], 4)} |"
        )
    return "\n".join(lines)


def _words(table: str) -> str:
    """Return a table of benchmarks/ with the words of the docs."""
    head, rule, *rows = table.replace(" less ", " minus ").replace("95 %", "95%").splitlines()
    columns = rule.count("---")
    right = "|---" + "|---:" * (columns - 1) + "|"
    rows = [row.replace("| 0.0000 |", "| < 0.0001 |") for row in rows]
    return "\n".join([head.replace("| less |", "| comparison |"), right, *rows])


def evidence_against(method: str) -> str:
    """The log loss of one of our methods against others, on graphs with enough nodes."""
    import evidence

    results = _some_graphs("converged", "many")
    free = ["ts", *evidence.FREE] if method == "structural-free" else evidence.KEEPING
    return _words(evidence.against(results, method, [m for m in free if m in results.methods]))


def evidence_ece() -> str:
    """The ECE of `structural` against no calibration and temperature scaling."""
    import evidence

    results = _some_graphs("converged", "many")
    return _words(evidence.against(results, "structural", ["uncalibrated", "ts"], "ece"))


def evidence_overview(part: str) -> str:
    """All metrics of all methods."""
    import evidence

    results = _some_graphs("converged", part)
    order = ["uncalibrated", *evidence.KEEPING, *evidence.FREE, *evidence.OURS]
    return _words(evidence.overview(results, [m for m in order if m in results.methods]))


def evidence_graphs() -> str:
    """`structural` against temperature scaling, graph by graph."""
    import evidence

    return _words(evidence.by_graph(_results("converged"), "structural", "ts"))


def evidence_external() -> str:
    """The graphs that took no part in any choice."""
    import external

    return _words(external.table(_record("external")["rows"]))


def evidence_external_pairs() -> str:
    """Pairs of methods on the same graphs."""
    import external

    return _words(external.pairs_of_methods(_record("external")["rows"]))


def evidence_years() -> str:
    """The larger graph with a split by years."""
    import arxiv_years

    return arxiv_years.table(RESULTS / "arxiv-years")


def hots_against() -> str:
    """HoTS against TS and entropy-only, on all graphs and on those with enough nodes."""
    from gnncal_lab.bench.summary import compare_paired
    from gnncal_lab.bench.tables.comparisons import against_reference

    lines = [
        "| HoTS minus | protocol | graphs | ECE, points | p | p (Holm) | NLL, 10⁻³ nats | p "
        "| p (Holm) |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for other in ("ts", "entropy-only"):
        for protocol in ("paper", "converged"):
            for title, results in (
                ("all", _results(protocol)),
                ("eleven", _some_graphs(protocol, "many")),
            ):
                cells = []
                for metric, scale, decimals in (("ece", 100, 2), ("nll", 1000, 1)):
                    c = compare_paired(*results.matched(metric, "hots", other), results.graphs)
                    rows = against_reference(results, metric, "hots").rows
                    (p_holm,) = (row.entries[4].value for row in rows if row.name == other)
                    mean, low, high = (
                        f"{scale * v:+.{decimals}f}" for v in (c.mean_difference, c.low, c.high)
                    )
                    cells.append(f"{mean} [{low}, {high}] | {c.p_value:.3f} | {p_holm:.2f}")
                lines.append(f"| `{other}` | {protocol} | {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def homophily_table(part: str) -> str:
    """HoTS with every homophily estimate, on all graphs or on some of them."""
    from gnncal_lab.bench.summary import compare_paired, holm

    results = {name: _some_graphs(name, part) for name in ("converged", "paper")}
    heads = "NLL minus TS | NLL minus entropy-only | lower on | p | p (Holm)"
    lines = [f"| method | ECE % | floor % | {heads} |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for protocol, found in results.items():
        order = ["uncalibrated", "ts", "hots", "entropy-only", *HOTS_VARIANTS]
        methods = [m for m in order if m in found.methods]
        if protocol == "paper":
            methods = ["ts", "hots", "entropy-only", "hots-release"]
            lines.append("| *paper's protocol* | | | | | | | |")
        others = [m for m in methods if m != "entropy-only"]
        tests = {
            m: compare_paired(*found.matched("nll", m, "entropy-only"), found.graphs)
            for m in others
        }
        adjusted = holm(np.array([test.p_value for test in tests.values()]))
        corrected = dict(zip(others, adjusted, strict=True))
        for m in methods:
            means = [
                float(np.nanmean(100 * found.matrix(name, found.pairs, [m])[:, 0]))
                for name in ("ece", "ece_floor")
            ]
            to_ts = compare_paired(
                *found.matched("nll", m, "ts", results["converged"]), found.graphs
            )
            cells = f"| `{m}` | {_numbers(means)} | {1e3 * to_ts.mean_difference:+.1f} |"
            if m == "entropy-only":
                lines.append(f"{cells} – | – | – | – |")
                continue
            c = tests[m]
            lines.append(
                f"{cells} {_interval(c)} | {c.win_rate * c.n_graphs:g} of {c.n_graphs} | "
                f"{c.p_value:.4f} | {corrected[m]:.3f} |"
            )
    return "\n".join(lines)


def _some_graphs(protocol: str, part: str) -> Any:
    """The results on all graphs, or on those with many or few calibration nodes."""
    from site_pages.results import FEW_NODES, Results

    every = _results(protocol)
    wanted = {"all": (True, False), "many": (False,), "few": (True,)}[part]
    kept = {key: v for key, v in every.records.items() if (key[0] in FEW_NODES) in wanted}
    return Results(every.protocol, kept)


def selective() -> str:
    """Accuracy of the most confident nodes."""
    from gnncal_lab.bench.tables.paper import selective

    return _markdown(selective(_results("paper")), {})


def cross_backbone() -> str:
    """Mean ECE by backbone, ours and the paper's."""
    from gnncal_lab.bench.results import read_results
    from gnncal_lab.bench.tables.paper import cross_backbone

    table = cross_backbone(read_results(RESULTS)["paper"])
    heads = " | ".join(f"`{column}`" for column in table.columns)
    lines = [f"| backbone | {heads} |", "|---" + "|---:" * len(table.columns) + "|"]
    for row in table.rows:
        lines.append(f"| {row.name} | {_numbers(entry.value for entry in row.entries)} |")
        theirs = [entry.published for entry in row.entries]
        if not np.isnan(theirs).all():
            lines.append(f"| published | {_numbers(theirs)} |")
    return "\n".join(lines)


def readme_results() -> str:
    """The change in log loss of three methods, on eleven graphs and on eight others."""
    import external
    from gnncal_lab.bench.summary import compare_paired

    many = _some_graphs("converged", "many")
    rows = _record("external")["rows"]
    lines = [
        "| method | predicted class | 11 benchmark graphs | 8 held-out graphs |",
        "|---|---|---:|---:|",
    ]
    kept = {"structural": "kept (default)", "structural-free": "may change", "hots": "kept"}
    for method in SHOWN:
        ours = compare_paired(*many.matched("nll", method, "ts"), many.graphs)
        cells = [_interval(c) for c in (ours, external.compare(rows, method, "ts", "nll"))]
        lines.append(f"| `{method}` | {kept[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def strong_model() -> str:
    """The gain on class-weighted GraphSAGE, against a method without the graph."""
    from gnncal_lab.bench.summary import compare_paired

    rows = [row for row in _record("rare_classes") if row["backbone"] == "sage-batches"]
    graphs = [row["graph"] for row in rows]

    def gain(measure: str) -> Any:
        values = [[r["methods"][m][measure] for r in rows] for m in ("structural-free", "platt")]
        return compare_paired(*values, graphs)

    precision = gain("average_precision")
    return (
        f"On a strong model the graph adds little. Class-weighted GraphSAGE in mini-batches, "
        f"{len(graphs)} graphs with a rare class,\n`structural-free` minus `platt`: "
        f"{_interval(gain('nll'))} in log loss, {precision.mean_difference:+.3f} "
        f"[{precision.low:+.3f}, {precision.high:+.3f}] in average precision."
    )


def _interval(found: Any) -> str:
    return f"{1e3 * found.mean_difference:+.1f} [{1e3 * found.low:+.1f}, {1e3 * found.high:+.1f}]"


def shared_entities() -> str:
    """Return what neighbours through shared entities add to a model without a graph."""
    path = ROOT / "benchmarks/results/shared_entities.json"
    lines = ["| items | method, neighbours through | difference to `svs` | graphs better |"]
    lines.append("|---|---|---:|---:|")
    for row in json.loads(path.read_text())["summary"]:
        shown = f"{row['difference']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]"
        counted = f"{row['better']} of {row['graphs']}"
        lines.append(f"| {row['setting']} | {row['method']} | {shown} | {counted} |")
    return "\n".join(lines)


def advice() -> str:
    """Return how often the advice on keeping predictions is given, and how often rightly."""
    models = json.loads((ROOT / "benchmarks/results/keeping_predictions.json").read_text())[
        "models"
    ]
    kinds = {
        "ordinary": "GCN and GAT, fourteen benchmark graphs",
        "plain": "GCN without class weights, thirteen graphs",
        "weighted": "GCN with class weights, the same graphs",
        "strong": "GraphSAGE in mini-batches with class weights, seven graphs with a rare class",
    }
    lines = ["| models | advice given | `structural-free` better on test nodes where given |"]
    lines.append("|---|---:|---:|")
    for kind, title in kinds.items():
        rows = [row for row in models if row["kind"] == kind and row["method"] == "structural"]
        given = [row for row in rows if row["said"] is not None]
        right = sum(row["test_nats"] > 0 for row in given)
        lines.append(f"| {title} | {len(given)} of {len(rows)} | {right} of {len(given)} |")
    return "\n".join(lines)


FILLS = {
    "advice": advice,
    "agreement": agreement,
    "agreement-table": agreement_table,
    "cross-backbone": cross_backbone,
    "decide": partial(decide, "--accuracy", "0.98"),
    "decide-class": partial(decide, "--positive", "8", "--act", "0.8", "--clear", "0.98"),
    "demo": demo,
    "evaluation": evaluation,
    "evidence-ece": evidence_ece,
    "evidence-external": evidence_external,
    "evidence-external-pairs": evidence_external_pairs,
    "evidence-few": partial(evidence_overview, "few"),
    "evidence-free": partial(evidence_against, "structural-free"),
    "evidence-graphs": evidence_graphs,
    "evidence-many": partial(evidence_overview, "many"),
    "evidence-structural": partial(evidence_against, "structural"),
    "evidence-years": evidence_years,
    "full-output": full_output,
    "homophily-all": partial(homophily_table, "all"),
    "homophily-few": partial(homophily_table, "few"),
    "homophily-many": partial(homophily_table, "many"),
    "hots-against": hots_against,
    "main-ece": main_ece,
    "paper-row": paper_row,
    "protocols": protocols,
    "ranks": ranks,
    "rare-classes": rare_classes,
    "rare-ranking": rare_ranking,
    "readme-output": readme_output,
    "readme-results": readme_results,
    "report": report,
    "selective": selective,
    "sets": sets,
    "shared-entities": shared_entities,
    "shift": shift,
    "speed": speed,
    "strong-model": strong_model,
    "watch": watch,
}


def llms() -> str:
    """Return llms.txt: every page with its title and headings, for language models."""
    lines = [
        "# gnncal",
        "",
        "> Post-hoc calibration for graph neural networks: HoTS (NeurIPS 2026), other calibrators,",
        "> decisions with guarantees, monitoring, deployment.",
        "",
        "- [README](README.md): quick start, the HoTS paper, tasks, results",
        "- [AGENTS.md](AGENTS.md): commands and rules for coding agents",
        "",
        "## Documentation",
        "",
    ]
    for page in PAGES[1:]:
        text = re.sub(r"^---.*?---\n", "", page.read_text(), flags=re.S)
        title = re.search(r"^# (.+)$", text, flags=re.M)
        if title is None:  # a page that includes a file
            continue
        parts = re.findall(r"^## (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
        about = f": {' · '.join(parts)}" if parts else ""
        lines.append(f"- [{title[1]}](docs/{page.name}){about}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every page again whose parts have changed."""
    (ROOT / "llms.txt").write_text(llms())
    for page in PAGES:
        text = page.read_text()
        new = filled(text)
        if new != text:
            page.write_text(new)
            print(f"filled {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
