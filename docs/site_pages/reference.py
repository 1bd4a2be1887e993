"""Parts of the reference that are made from the code: API by task, commands, extras, tables."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main

import gnncal
import gnncal_lab
from gnncal.calibrators.homophily import Predictor, Support
from gnncal.decisions.scores import SCORES
from gnncal.metrics import METRICS, Metric
from site_pages.methods import PACKAGES

ROOT = Path(__file__).parents[2]

HEADING = """\
API reference
=============

Every public name, by task. What is not listed here may change without notice.

"""
TABLES = """\
---
html_theme.sidebar_secondary.remove: true
---

# All tables

Every table of our run with the paper's values, as `gnncal bench tables` writes it.

```{include} ../../results/tables/README.md
:start-after: "# Tables of a benchmark"
```
"""
TASKS = {  # of the names of gnncal and gnncal.calibrators; modules are tasks of their own
    "Calibrate": (
        "calibrate",
        "calibrate_multilabel",
        "Calibration",
        "HoTS",
        "get_calibrator",
        "list_calibrators",
        "load",
        "save",
    ),
    "Data": ("Graph", "EntityGraph", "Nodes", "example", "read_bundle"),
    "Evaluate and report": ("evaluate", "compare", "report", "Report"),
    "Monitor": ("check", "Watch"),
}
TITLES = {
    "gnncal": "Base class and errors",
    "gnncal.calibrators": "Calibrators, and parts to build them",
    "gnncal.decisions": "Decisions and prediction sets",
    "gnncal.metrics": "Metrics",
    "gnncal.plotting": "Plots",
    "gnncal.scale": "Graphs larger than memory",
    "gnncal.testing": "Test a calibrator",
    "gnncal.torch": "PyTorch and ONNX",
    "gnncal_lab": "Comparison methods (gnncal_lab)",
    "gnncal_lab.classifiers": "Classifiers of the paper",
    "gnncal_lab.datasets": "Datasets of the paper",
    "gnncal_lab.homophily": "Homophily estimates",
    "gnncal_lab.simulation": "Contextual stochastic block model",
}


def public_names(module: ModuleType) -> list[str]:
    """Return the public functions, classes and values of a module, without its submodules."""
    names = [
        name
        for name in module.__all__
        if not name.startswith("__") and not isinstance(getattr(module, name), ModuleType)
    ]
    if module is not gnncal.calibrators:
        return names
    return [name for name in names if name not in gnncal.__all__]  # those are described there


def public_modules() -> list[ModuleType]:
    """Return gnncal, its public submodules, and those of the laboratory."""
    return [gnncal, *_submodules(gnncal), gnncal_lab, *_submodules(gnncal_lab)]


def _submodules(module: ModuleType) -> list[ModuleType]:
    names = [name for name in module.__all__ if isinstance(getattr(module, name), ModuleType)]
    found = [import_module(f"{module.__name__}.{name}") for name in sorted(names)]
    return [each for each in found if each.__all__]


def section(module: ModuleType) -> str:
    """Return one module's part of the index, in reStructuredText; gnncal's own names by task."""
    names, parts = public_names(module), {}
    if module is gnncal:
        parts = {title: [n for n in names if n in task] for title, task in TASKS.items()}
        names = [n for n in names if not any(n in part for part in parts.values())]
    parts[TITLES.get(module.__name__, module.__name__)] = names
    first = (module.__doc__ or "").strip().partition("\n\n")[0]
    return "".join(_part(title, module.__name__, listed, first) for title, listed in parts.items())


def _part(title: str, module: str, names: Iterable[str], first: str) -> str:
    listed = "\n".join(f"   {name}" for name in sorted(names, key=str.lower))
    about = "" if module == "gnncal" else f"``{module}``: {first}\n\n"
    return (
        f"{title}\n{'-' * len(title)}\n\n{about}.. currentmodule:: {module}\n\n"
        f".. autosummary::\n   :toctree:\n   :nosignatures:\n\n{listed}\n\n"
    )


def estimators() -> dict[str, type]:
    """Return our homophily estimators that have a name, the laboratory's too."""
    found = sorted(entry_points(group="gnncal.homophily"), key=lambda each: each.name)
    declared = [each for each in found if each.module.partition(".")[0] in PACKAGES]
    kinds = [Support, Predictor, *(each.load() for each in declared)]
    return {kind.name: kind for kind in kinds}


def metrics_table() -> str:
    """Return the table of metrics, in Markdown."""
    head = (
        "| name | heading | better | noise floor | in `compare` | needs |\n"
        "|---|---|---|---|---|---|"
    )
    rows = [
        f"| `{name}` | {metric.heading} | {metric.better} | {'yes' if metric.floor else 'no'} "
        f"| {'yes' if metric.per_node else 'no'} | {_needs(metric)} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join([head, *rows, ""])


def table_of_names(kinds: Mapping[str, Any]) -> str:
    """Return a table of classes or functions that have a short name, in Markdown."""
    first = {name: (kind.__doc__ or "").splitlines()[0] for name, kind in kinds.items()}
    rows = [f'| `"{name}"` | `{kind.__name__}()` | {first[name]} |' for name, kind in kinds.items()]
    return "\n".join(["| name | class | meaning |\n|---|---|---|", *rows, ""])


def _needs(metric: Metric) -> str:
    """Return what a metric needs in addition to labels and probabilities."""
    if metric.needs_positive:
        return "`positive`"
    return "in-degrees" if metric.needs_degree else ""


EXTRAS = {  # those that users install; what developers install is in CONTRIBUTING.md
    "all": "everything below up to `scale`",
    "neural": "neural calibrators (`cagcn`, `gats`, `gets`, `wats`), `to_torch()`",
    "pyg": "PyTorch Geometric: `Data` as a graph, `CalibratedModel`, classifiers",
    "parquet": "folders of Parquet tables",
    "plot": "`gnncal.plotting` (matplotlib)",
    "report": "`gnncal.report`, `gnncal report`, pandas frames",
    "scale": "`gnncal scale` on DuckDB",
    "fast": "compiled loops for graphs of 8 million edges and more (numba)",
    "onnx": "export to ONNX",
    "torchmetrics": "`gnncal.torch.Metric`",
    "datasets": "download of the paper's datasets, ogbn-arxiv included",
    "s3": "`s3://` paths of `gnncal scale`",
    "spark": "`gnncal scale` on Spark",
    "dask": "`gnncal bench run --engine dask`",
    "ray": "`gnncal bench run --engine ray`",
}


def extras_table() -> str:
    """Return the table of extras, in Markdown."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    rows = [
        f"| `{name}` | {use} | {', '.join(re.split('[>=]', one)[0] for one in extras[name])} |"
        for name, use in EXTRAS.items()
    ]
    return "\n".join(["| extra | for | installs |\n|---|---|---|", *rows, ""])


def cli_page() -> str:
    """Return every command with its options, in Markdown."""
    from gnncal.__main__ import app

    return "\n".join(_command("gnncal", typer.main.get_command(app), level=3))


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    if hasattr(command, "commands"):
        for each in command.list_commands(None):
            _, found, _ = command.resolve_command(None, [each])
            yield from _command(f"{name} {each}", found, level)
        return
    given = [_argument(p) for p in command.params if p.param_type_name == "argument"]
    about = _as_code((command.help or "").replace("\f", "").strip())
    yield f"{'#' * level} {name}\n\n{about}\n\n    {' '.join([name, *given, '[OPTIONS]'])}\n"
    rows = [
        f"| {_option(p)} | {_as_code(p.help or '').replace('|', '&#124;')} |"
        for p in command.params
        if p.name != "help" and not getattr(p, "hidden", False)
    ]
    yield "\n".join(["| argument | meaning |\n|---|---|", *rows, ""])


def _as_code(text: str) -> str:
    """Mark options in a text, where two hyphens would become a dash."""
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)(?![^`]*`[^`]*$)", r"`\1`", text)


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).strip("[]")


def _option(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_argument(parameter)}`"
    is_flag = getattr(parameter, "is_flag", False)
    value = "" if is_flag else f" {parameter.metavar or parameter.name.upper()}"
    default = parameter.default
    shown = f" (default `{default}`)" if isinstance(default, str | int | float) and value else ""
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{name}{value}`" for name in names).replace("|", "&#124;") + shown


def write_index(folder: Path) -> None:
    """Write ``index.rst``, from which Sphinx makes a page for each name, and tables of names."""
    folder.mkdir(exist_ok=True)
    names = {f"{each.__name__}.{name}" for each in public_modules() for name in public_names(each)}
    for old in folder.glob("gnncal*.rst"):  # of an earlier build; conf.py maps some to name-kind
        if old.stem.partition("-")[0] not in names:
            old.unlink()
    index = HEADING + "".join(section(module) for module in public_modules())
    made = {
        "index.rst": index,
        "metrics_table.txt": metrics_table(),
        "scores_table.txt": table_of_names(SCORES),
        "homophily_table.txt": table_of_names(estimators()),
        "cli_table.txt": cli_page(),
        "tables.md": TABLES,
    }
    for name, text in made.items():
        target = folder / name
        if (
            not target.exists() or target.read_text() != text
        ):  # what is unchanged is not built again
            target.write_text(text)
