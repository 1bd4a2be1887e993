"""``gnncal.report``: a calibration as one interactive page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.calibrators.base import Calibrator
from gnncal.data.checks import (
    check_class_names,
    check_labels,
    check_positive,
    same_class_names,
)
from gnncal.data.nodes import as_nodes, check_node_ids
from gnncal.files.output import as_path, seal, write_file
from gnncal.graph.graph import class_names_of
from gnncal.metrics.verdict import TOLERANCE
from gnncal.reporting.contents import render
from gnncal.reporting.findings import Findings, Progress, find
from gnncal.reporting.input import (
    DEFAULT_METHODS,
    Methods,
    ReportInput,
    check_new_nodes,
    check_splits,
    choose_methods,
    rows_of,
    shortened,
)
from gnncal.shift.check import check_comparable

NOTEBOOK_HEIGHT = 720  # pixels


@dataclass(frozen=True, repr=False)
class Report:
    """An HTML report. A notebook shows it; ``save`` writes it to a file.

    Attributes
    ----------
    findings, html : Findings and str
        The results as data, and the page, which needs no other files.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> page = gnncal.report(task.logits, task.labels, task.graph, **task.splits, methods="ts")
    >>> page.save("report.html").name
    'report.html'

    """

    findings: Findings
    html: str

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the page to a file, atomically.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced if it is a page of gnncal.
        overwrite : bool, default=False
            Replace any existing file.

        Returns
        -------
        Path
            The path of the file.

        """
        place = as_path(path)
        write_file(place, seal(self.html), overwrite=overwrite)
        return place

    def __repr__(self) -> str:
        return f"Report: {self.findings.verdict.sentence}"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="gnncal report" '
            f'style="width:100%;height:{NOTEBOOK_HEIGHT}px;border:0"></iframe>'
        )


def report(
    logits: Any,
    labels: Any,
    graph: Any = None,
    *,
    calibration_nodes: Any,
    test_nodes: Any,
    train_nodes: Any = None,
    methods: Methods = DEFAULT_METHODS,
    class_names: Sequence[str] | None = None,
    node_ids: Any = None,
    focus: Sequence[Any] = (),
    positive: Any = None,
    new: Any = None,
    calibrator: Calibrator | None = None,
    tolerance: float | None = None,
    title: str = "Calibration report",
    command: str = "",
    progress: Progress = lambda step: None,
) -> Report:
    """Calibrate with several methods and show the result as one interactive page.

    The page is a single HTML file that needs no network. It shows the reliability before and after,
    groups of nodes with wrong confidence, temperatures, the number of nodes that can be decided
    automatically, and single nodes with their neighbours. Metrics are those of ``test_nodes``.
    Without a graph, parts about neighbours are left out.

    Parameters
    ----------
    methods : str or Calibrator, or list of them, optional
        The page opens with ``structural`` if it is among them, else with the last. Default: ``ts``,
        ``hots`` and ``structural``; without a graph ``ts``, ``svs`` and ``hts``. If all methods
        keep predictions, one that may change them is added.
    focus : sequence, optional
        Ids of nodes to list first.
    positive : str or int, optional
        The class of interest, by name or number. The verdict is then about its probability, a
        section shows thresholds, a review list, costs and guarantees, and the page opens with a
        method that may change predictions. Default: the class that ``calibrator`` was made for.
    new : (logits, graph), Nodes or Bundle, optional
        New nodes, without labels. Adds a section on distribution shift and on whether guarantees
        hold for these nodes. Training nodes of a bundle are left out.
    calibrator : Calibrator, optional
        A fitted calibrator to report on instead of ``methods``. Only for the certified thresholds,
        its method is fitted again, without the nodes that certify.
    tolerance : float, optional
        The largest calibration error to act on, as in ``calibrate``.
    title, command : str
        Heading of the page, and the command that made it, shown at its end.
    progress : callable, optional
        Called with the name of each step before it begins.

    Returns
    -------
    Report
        The page; ``save`` writes it to a file, and a notebook displays it.

    Examples
    --------
    >>> import gnncal
    >>> task = gnncal.example()
    >>> gnncal.report(task.logits, task.labels, task.graph, **task.splits, methods="ts")
    Report: You can act on this confidence. ...

    """
    TOLERANCE.check("tolerance", tolerance)
    record = as_nodes(logits, graph)
    n_nodes, n_classes, has_graph = record.n_nodes, record.n_classes, record.graph is not None
    known = check_labels(labels, n_nodes)
    asked = {
        "calibration_nodes": calibration_nodes,
        "train_nodes": train_nodes,
        "test_nodes": test_nodes,
    }
    splits = check_splits(record, known, **asked)
    if positive is None and calibrator is not None:
        positive = getattr(calibrator, "positive_", None)
    chosen, opened = choose_methods(methods, calibrator, positive is not None, has_graph)
    fitted_names = getattr(calibrator, "class_names_", None)
    if class_names is None:
        class_names = fitted_names or class_names_of(graph)
    same_class_names(check_class_names(class_names, n_classes), fitted_names)
    if new is not None:
        new = check_new_nodes(new, class_names, opened, chosen[opened])
        check_comparable(*new, n_classes=n_classes, n_fitted_on=splits["calibration_nodes"].size)
    names = check_class_names(class_names, n_classes) or [f"class {c}" for c in range(n_classes)]
    ids = check_node_ids(node_ids, n_nodes)
    ids = np.arange(n_nodes) if ids is None else ids
    given = ReportInput(
        record,
        known,
        **splits,
        methods=chosen,
        shown=opened,
        class_names=[shortened(name) for name in names],
        node_ids=ids,
        focus=rows_of(focus, ids),
        positive=None if positive is None else check_positive(positive, n_classes, class_names),
        new=new,
        fitted=calibrator,
        tolerance=tolerance,
    )
    findings = find(given, progress=progress)
    progress("writing the page")
    return Report(findings, render(findings, given, title=title, command=command))
