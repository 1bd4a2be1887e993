"""The index of the reference: every public name with its first sentence, by module."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import gnncal
import gnncal_lab
from gnncal.calibrators.homophily import ESTIMATORS
from gnncal.decisions.scores import SCORES
from gnncal.metrics import METRICS, Metric

HEADING = """\
API reference
=============

Every public name. What is not listed here may change without notice.

"""


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
    return [import_module(f"{module.__name__}.{name}") for name in sorted(names)]


def section(module: ModuleType) -> str:
    """Return one module's part of the index, in reStructuredText."""
    title = module.__name__
    first = (module.__doc__ or "").strip().partition("\n\n")[0]
    names = "\n".join(f"   {name}" for name in sorted(public_names(module), key=str.lower))
    return (
        f"{title}\n{'-' * len(title)}\n\n{first}\n\n.. currentmodule:: {title}\n\n"
        f".. autosummary::\n   :toctree:\n   :nosignatures:\n\n{names}\n\n"
    )


def estimators() -> dict[str, type]:
    """Return every homophily estimator that has a name, the laboratory's too."""
    declared = sorted(entry_points(group="gnncal.homophily"), key=lambda each: each.name)
    return {**ESTIMATORS, **{each.name: each.load() for each in declared}}


def metrics_table() -> str:
    """Return the table of metrics, in Markdown."""
    head = (
        "| name | shown as | better | noise floor | compared node by node | needs |\n"
        "|---|---|---|---|---|---|"
    )
    rows = [
        f"| `{name}` | {metric.heading} | {metric.better} | {'yes' if metric.floor else 'no'} "
        f"| {'yes' if metric.per_node else 'no'} | {_needs(metric)} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join([head, *rows, ""])


def table_of_names(kinds: Mapping[str, type]) -> str:
    """Return a table of classes that have a short name, in Markdown."""
    first = {name: (kind.__doc__ or "").splitlines()[0] for name, kind in kinds.items()}
    rows = [f'| `"{name}"` | `{kind.__name__}()` | {first[name]} |' for name, kind in kinds.items()]
    return "\n".join(["| name | stands for | what it is |\n|---|---|---|", *rows, ""])


def _needs(metric: Metric) -> str:
    """Say what a metric needs beside labels and probabilities."""
    if metric.needs_positive:
        return "a class in view"
    return "in-degrees" if metric.needs_degree else ""


def write_index(folder: Path) -> None:
    """Write ``index.rst``, from which Sphinx makes a page for each name, and tables of names."""
    folder.mkdir(exist_ok=True)
    index = HEADING + "".join(section(module) for module in public_modules())
    made = {
        "index.rst": index,
        "metrics_table.txt": metrics_table(),
        "scores_table.txt": table_of_names(SCORES),
        "homophily_table.txt": table_of_names(estimators()),
    }
    for name, text in made.items():
        target = folder / name
        if (
            not target.exists() or target.read_text() != text
        ):  # what is unchanged is not built again
            target.write_text(text)
