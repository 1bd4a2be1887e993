"""A page for each calibrator and their table, of docstrings and results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import gnncal
from gnncal.calibrators.registry import (
    MethodDescription,
    describe,
    every_calibrator,
    resolve,
)
from gnncal.metrics.table import METRICS
from gnncal.scale.batches import Reach
from site_pages.results import (
    REFERENCE,
    Line,
    MethodResults,
    better_on,
    difference,
    read_method_results,
)

# Every method that reads the graph, alone in its process on two busy cores: `make bench-large`.
DOCS = Path(__file__).parents[1]
LARGE = DOCS.parent / "benchmarks" / "results" / "large.json"
PACKAGES = ("gnncal", "gnncal_lab")  # whose methods the site documents
PAGE = """\
# {name}

{summary}

| property | `{name}` |
|---|---|
| class | {{py:class}}`{package}.{class_name}` |
| keeps predictions | {keeps} |
| reads the graph | {graph} |
| needs torch | {torch} |
| has [`protocol="paper"`](../methods.md#two-protocols) | {protocol} |
| accepts `sample_weight` | {weights} |
| works with [`gnncal scale`](../scale.md) | {scale} |
| cost with 115 million edges | {large} |

## When to use it

{advice}

```python
result = gnncal.calibrate({arrays}, calibration_nodes=val, train_nodes=train, method="{name}")
```

## Benchmark results

{results}

## Formula and parameters

```{{eval-rst}}
.. autoclass:: {package}.{class_name}
   :no-index:
```

The page [Methods](../methods.md) explains the protocols, and what happens if the labels do not
determine a fit.
"""
NO_ADVICE = "The docstring of this method does not say when to use it."
NO_RESULTS = "The benchmark of converged fits does not include this method."
NOTES = """\
Means of this method and of `ts` over {n} graphs with at least 100 calibration nodes, for GCN and
GAT, with converged fits and the same seeds. The difference is this method minus `ts`, with a 95%
interval over graphs; lower log loss and ECE are better. See also [all results](../evidence.md) and
<a href="../leaderboard.html">every graph and method</a>.
"""


def write_pages(folder: Path, results_folder: Path) -> None:
    """Write a page for every calibrator and ``table.txt``; unchanged files are left alone."""
    folder.mkdir(exist_ok=True)
    results = read_method_results(results_folder)
    methods = [describe(name) for name in own_methods()]
    pages = {
        f"{method.name}.md": method_page(method, results.get(method.name)) for method in methods
    }
    pages["table.txt"] = table_of_methods(methods, results)
    for old in set(folder.glob("*.md")) - {folder / name for name in pages}:
        old.unlink()
    for name, text in pages.items():
        target = folder / name
        if not target.exists() or target.read_text() != text:  # else it would be built again
            target.write_text(text)


def own_methods() -> list[str]:
    """Return the names of this project's methods; installed plug-ins may declare others."""
    kinds = every_calibrator().items()
    return [name for name, kind in kinds if kind.__module__.partition(".")[0] in PACKAGES]


def method_page(method: MethodDescription, results: MethodResults | None) -> str:
    """Return one method's page, in Markdown."""
    kind = resolve(method.name)[1].kind
    return PAGE.format(
        name=method.name,
        package=_home(kind),
        class_name=method.class_name,
        summary=method.summary,
        keeps="yes" if method.preserves_predictions else "no",
        graph="yes" if method.needs_graph else "no",
        arrays=f"logits, labels{', graph' * method.needs_graph}",
        torch="yes" if method.needs_torch else "no",
        protocol="yes" if "protocol" in kind().get_params() else "no",
        weights="yes" if kind.uses_sample_weight else "no",
        scale="yes" if works_at_scale(method.name) else "no",
        large=large_line(method),
        advice=linked(method.advice),
        results=results_section(method, results),
    )


def works_at_scale(name: str) -> bool:
    """Return whether ``gnncal scale`` takes a method."""
    preset = resolve(name)[1]
    try:
        Reach.of(preset.kind(**preset.params))
    except gnncal.InputError:
        return False
    return True


def large_line(method: MethodDescription) -> str:
    """Return what a graph of Reddit's size costs, from a file of `make bench-large`."""
    if not method.needs_graph:
        return "does not read the graph"
    found = {each["name"]: each for each in json.loads(LARGE.read_text())["figures"]}
    if method.name == "hots" or method.name.startswith("structural"):
        return "[Performance](../results.md#performance)"
    if method.name not in found:
        return "not measured"
    figures = found[method.name]
    epoch = figures["epoch_seconds"]
    each = "" if epoch is None else f" plus {epoch:.2g} s per epoch"
    return (
        f"fit {figures['once_seconds']:.3g} s{each}, predict {figures['predict_seconds']:.2g} s, "
        f"memory {figures['peak_bytes'] / 2**30:.1f} GiB"
    )


def linked(advice: str) -> str:
    """Return advice with links from the names of other methods and pages."""
    names = sorted(own_methods(), key=len, reverse=True)
    marked = re.sub(r"docs/(\w+)\.md", _page, advice)
    pattern = rf"(?<![\w/\[(-])({'|'.join(map(re.escape, names))})(?![\w-])(?!\.md)"
    return re.sub(pattern, r"[`\1`](\1.md)", marked) if advice else NO_ADVICE


def _page(found: re.Match[str]) -> str:
    """Return the link to a page, by its title."""
    title = (DOCS / f"{found[1]}.md").read_text().partition("\n")[0].removeprefix("# ")
    return f"[{title}](../{found[1]}.md)"


def results_section(method: MethodDescription, results: MethodResults | None) -> str:
    """Return the method's lines in our results, as tables."""
    if method.name == REFERENCE:
        return f"`{REFERENCE}` is the baseline on the pages of the other methods."
    if results is None:
        return NO_RESULTS
    many = [line for line in results.many if _is_shown(line, method)]
    rows = [
        f"| {_heading(line)} | {_shown(line.method, line)} | {_shown(line.reference, line)} "
        f"| {difference(line)} | {better_on(line)} |"
        for line in many
    ]
    table = [
        f"| metric | `{method.name}` | `{REFERENCE}` | difference | better on (graphs) |",
        "|---|---:|---:|---:|---:|",
        *rows,
    ]
    few = ", ".join(
        f"{_heading(line)} {_shown(line.method, line)} against {_shown(line.reference, line)}"
        for line in results.few
        if _is_shown(line, method)
    )
    with_few = (
        f"`{method.name}` against `{REFERENCE}` on Texas, Cornell and Wisconsin, with 18 to 25 "
        f"calibration nodes: {few}. Three graphs are too few for an interval."
    )
    notes = NOTES.format(n=many[0].comparison.n_graphs)
    return f"{notes}\n" + "\n".join(table) + f"\n\n{with_few}"


def table_of_methods(methods: list[MethodDescription], results: dict[str, MethodResults]) -> str:
    """Return the table of all methods, in Markdown; its links are those of a file in the root."""
    head = "| name | description | keeps predictions | log loss vs `ts` |\n|---|---|---|---:|"
    rows = [
        f"| [`{m.name}`](docs/methods/{m.name}.md) | {m.summary} | "
        f"{'yes' if m.preserves_predictions else 'no'} | {_log_loss(m, results)} |"
        for m in methods
    ]
    return "\n".join([head, *rows, ""])


def _log_loss(method: MethodDescription, results: dict[str, MethodResults]) -> str:
    if method.name == REFERENCE or method.name not in results:
        return "–"
    return difference(results[method.name].many[0])


def _is_shown(line: Line, method: MethodDescription) -> bool:
    """Accuracy says nothing of a method that keeps predictions."""
    return line.metric != "accuracy" or not method.preserves_predictions


def _heading(line: Line) -> str:
    return "log loss" if line.metric == "nll" else METRICS[line.metric].heading


def _shown(value: float, line: Line) -> str:
    return METRICS[line.metric].shown(value)


def _home(kind: type) -> str:
    """Return the module in which the reference describes a calibrator's class."""
    package = kind.__module__.partition(".")[0]
    if package != "gnncal":
        return package
    return package if kind.__name__ in gnncal.__all__ else "gnncal.calibrators"
