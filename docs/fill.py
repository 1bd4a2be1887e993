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
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
sys.path.insert(0, str(ROOT / "benchmarks"))
PART = re.compile(r"(<!-- fill: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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
        name = {"gcn": "GCN", "sage": "GraphSAGE"}.get(row["backbone"], row["backbone"])
        lines.append(f"| {row['graph']}, {name}, {rate:.1%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shift() -> str:
    """Log loss after a shift, without and with labels."""
    import shift as benchmark

    found = benchmark.Results(_record("shift"))
    lines = [
        "| shift | method | no labels | 50 labels, updated | 50 labels, refitted | all labels | repaired |",
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
            lines.append(f"| {names.get(family, family)} | `{method}` | {numbers} | {repaired:.0%} |")
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
        f"{one / total:.0%} of the {total} published values that we re-ran ({one}) lie within one reported standard "
        f"deviation of ours, and {two} within two."
    )


def readme_results() -> str:
    """The change in log loss of three methods, on eleven graphs and on eight others."""
    import external

    from gnncal_lab.bench.summary import compare_paired

    sys.path.insert(0, str(ROOT / "docs"))
    from site_pages.results import FEW_NODES, Results

    every = _results("converged")
    many = Results(every.protocol, {k: v for k, v in every.records.items() if k[0] not in FEW_NODES})
    rows = _record("external")["rows"]
    lines = ["| method | predicted class | 11 benchmark graphs | 8 held-out graphs |", "|---|---|---:|---:|"]
    kept = {"structural": "kept (default)", "structural-free": "may change", "hots": "kept"}
    for method in SHOWN:
        ours = compare_paired(*many.matched("nll", method, "ts"), many.graphs)
        cells = [_interval(c) for c in (ours, external.compare(rows, method, "ts", "nll"))]
        lines.append(f"| `{method}` | {kept[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(found: Any) -> str:
    return f"{1e3 * found.mean_difference:+.1f} [{1e3 * found.low:+.1f}, {1e3 * found.high:+.1f}]"


FILLS = {
    "agreement": agreement,
    "demo": demo,
    "evaluation": evaluation,
    "full-output": full_output,
    "paper-row": paper_row,
    "rare-classes": rare_classes,
    "readme-output": readme_output,
    "readme-results": readme_results,
    "report": report,
    "shift": shift,
    "speed": speed,
    "watch": watch,
}


def main() -> None:
    """Write every page again whose parts have changed."""
    for page in PAGES:
        text = page.read_text()
        new = filled(text)
        if new != text:
            page.write_text(new)
            print(f"filled {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
