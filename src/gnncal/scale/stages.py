"""The stages of a run: read and check, describe, fit, scale, write, measure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from gnncal.calibrators.fit_report import learned_values
from gnncal.calibrators.price import FREE_WITH_GRAPH, price_of_keeping
from gnncal.calibrators.registry import name_of
from gnncal.data.checks import check_names_are_no_numbers
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes
from gnncal.scale import bad_rows
from gnncal.scale.bad_rows import BadRows
from gnncal.scale.columns import (
    LIST_COLUMN,
    Layout,
    check_edges,
    check_nodes,
    check_number_of_classes,
)
from gnncal.scale.engines import Engine, TableFiles
from gnncal.scale.measures import measure, scaled
from gnncal.scale.methods.base import OUTCOME, Rows, ScaleMethod
from gnncal.scale.nodes import canonical, described, names
from gnncal.scale.progress import Progress
from gnncal.scale.summary import ScaleSummary

NO_ROWS = "the table of the nodes has columns but no rows; check what was written there."


class Run:
    """The tables of one run, stage by stage."""

    def __init__(
        self, engine: Engine, method: ScaleMethod[Any], progress: Progress, skip_bad: bool
    ) -> None:
        self.engine, self.method, self.progress, self.skip_bad = engine, method, progress, skip_bad
        self.bad: list[BadRows] = []
        self.notes: list[str] = []
        self.is_undirected: bool | None = None

    def read(self, nodes: TableFiles, edges: TableFiles, *, fits: bool) -> None:
        """Read both tables, refuse or drop bad rows of the nodes, and keep the good ones."""
        with self.progress.stage("checking the nodes", self.engine):
            raw = self.engine.read(nodes)
            names = None if isinstance(nodes, str) else nodes.class_names
            self.layout = _layout(self.engine, raw, names, fits=fits)
            self.n_classes = self.layout.n_classes
            self._check_classes()
            flagged = canonical(raw, self.layout, fits=fits)
            self._count(flagged)
            duplicates = bad_rows.duplicate_ids(flagged)
            self.bad += bad_rows.bad_duplicates(self.engine, duplicates)
            if not self.skip_bad:
                bad_rows.refuse(self.bad)
            if not self.has_good:
                bad_rows.refuse_all(self.bad)
            clean = flagged.filter(flagged["reason"].isnull()).drop("reason")
            if self.bad:
                clean = clean.anti_join(duplicates, "id")
            self.nodes = self.engine.keep("nodes", described(clean, self.n_classes))
        self.edges = check_edges(self.engine.read(edges), self.nodes)

    def describe(self) -> None:
        """Pass over the edges, and refuse or report edges whose end is not a node."""
        with self.progress.stage("joining the edges", self.engine):
            self.n_nodes = int(self._one(self.nodes, n=self.nodes.count())["n"])
            described = self.engine.keep("described", self.method.describe(self))
            # Logits are kept once; what a pass found stands in a table beside them.
            self.table = self.nodes.join(described, "id")
            self.n_edges = int(self._one(described, n=described["in_degree"].sum())["n"] or 0)
            bad = bad_rows.bad_edges(
                self.engine, self.edges, self.nodes, self.n_listed - self.n_edges
            )
            if not self.skip_bad:
                bad_rows.refuse(bad)
            self.bad += bad

    def fit(self) -> None:
        """Fetch the calibration rows and fit as in memory."""
        with self.progress.stage("fitting", self.engine):
            zs = names("z", self.n_classes)
            rows = self.method.calibration_rows(self.table.filter(self.table["split"] == "val"))
            columns = dict.fromkeys(["id", "label", *zs, *self.method.covariates])
            fetched = self.engine.fetch(rows.select(*columns).order_by("id"))
            if fetched.num_rows == 0:
                raise InputError(
                    "no node has the split val; calibration needs labelled validation nodes."
                )
            values: Rows = {
                name: np.asarray(fetched[name].to_pandas(), dtype=np.float64)
                for name in fetched.column_names
                if name != "id"
            }
            logits = np.stack([values[z] for z in zs], axis=1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                labels = values["label"].astype(np.int64)
                nodes = Nodes(logits).with_labels(labels, nodes=np.arange(len(labels)))
                labelled = self.method.with_neighbourhoods(nodes, values)
                self.method.calibrator.fit(labelled)
            self.notes += dict.fromkeys(str(warning.message) for warning in caught)
            self._advise(labelled)

    def _advise(self, labelled: Nodes) -> None:
        """Say what keeping predictions costs, where it costs something."""
        fitted = self.method.calibrator
        if fitted.preserves_predictions:
            probs = fitted.predict_proba(labelled.with_known_labels())
            price = price_of_keeping(fitted, labelled, probs)
            if price is not None:
                method = replace(price, instead=FREE_WITH_GRAPH, has_free_variant=False)
                self.notes.append(method.advice(self.layout.class_names))

    def scale(self) -> None:
        """Calibrate every node; the same pass gives the terms of the metrics."""
        with self.progress.stage("scaling the logits", self.engine):
            temperatures = self.method.temperatures(self.table)
            table = self.table.mutate(**temperatures)
            averaged = self.method.averaged
            further = tuple(T for T in temperatures if T not in ("temperature", *averaged))
            outcome = scaled(table, self.n_classes, self._is_test(table), further, averaged)
            self.finished = self.method.finished(self, self.engine.keep("scaled", outcome))

    def write(self, folder: Path, *, all_probabilities: bool) -> None:
        """Write id, prediction, confidence, temperature and perhaps every probability."""
        with self.progress.stage("writing the probabilities", self.engine):
            table, columns = self.finished, list(OUTCOME)
            if all_probabilities:
                table = self.method.class_probabilities(self, self.finished)
                columns += names("p", self.n_classes)
            few = table.select(*columns).rename(confidence="confidence_after")
            self.engine.write(few, folder)

    def summary(self) -> ScaleSummary:
        """Judge on the test nodes, and collect everything worth keeping."""
        with self.progress.stage("measuring", self.engine):
            rows = self.finished.filter(self.finished["is_test"])
            sides, differences, changed = measure(self.engine, rows)
            after = sides.get("after")
        fitted = self.method.calibrator
        return ScaleSummary(
            method=name_of(fitted),
            engine=self.engine.name,
            n_nodes=self.n_nodes,
            n_edges=self.n_edges,
            n_classes=self.n_classes,
            n_calibration_nodes=sum(fitted.fit_report_.nodes_per_class),
            n_test_nodes=0 if after is None else after.n_nodes,
            is_undirected=self.is_undirected,
            class_names=self.layout.class_names,
            before=sides.get("before"),
            after=after,
            differences=differences,
            learned=learned_values(fitted),
            skipped=[asdict(bad) for bad in self.bad],
            notes=self.notes,
            seconds=dict(self.progress.seconds),
            prediction_change_rate=changed,
        )

    @property
    def memory(self) -> int | None:
        """Bytes that the engine's tables may take; None if it knows best."""
        return self.engine.memory

    def keep(self, name: str, expression: Any) -> Any:
        """Compute a table and keep it until the run ends."""
        return self.engine.keep(name, expression)

    def keep_computed(
        self, name: str, expression: Any, compute: Callable[[Rows], Rows], results: list[str]
    ) -> Any:
        """Keep what a function makes of the columns of some rows, beside their ids."""
        return self.engine.keep_computed(name, expression, compute, results)

    def drop(self, name: str) -> None:
        """Give back the disk of a kept table."""
        self.engine.drop(name)

    def count(self, neighbours: Any) -> None:
        """Remember how many edges are listed and, if the pass asked, whether they are symmetric."""
        sums = {
            name: neighbours[name].sum()
            for name in ("listed", "turned")
            if name in neighbours.columns
        }
        totals = self._one(neighbours, **sums)
        self.n_listed = int(totals["listed"] or 0)
        if "turned" in totals:
            self.is_undirected = int(totals["turned"] or 0) == 0

    def _check_classes(self) -> None:
        fitted = getattr(self.method.calibrator, "classes_", None)
        if fitted is not None and len(fitted) != self.n_classes:
            raise InputError(
                f"the calibrator was fitted for {len(fitted)} classes but the nodes have logits "
                f"of {self.n_classes}."
            )

    def _count(self, flagged: Any) -> None:
        """Count good and bad rows by split; remember whether there is a test split."""
        counted = flagged.group_by("reason", "split").aggregate(n=flagged.count())
        by_reason: dict[str, int] = {}
        self.has_test = self.has_good = False
        rows = self.engine.fetch(counted).to_pylist()
        if not rows:
            raise InputError(NO_ROWS)
        for row in rows:
            self.has_test |= row["reason"] is None and row["split"] == "test"
            self.has_good |= row["reason"] is None
            if row["reason"] is not None:
                by_reason[row["reason"]] = by_reason.get(row["reason"], 0) + row["n"]
        self.bad += bad_rows.bad_nodes(self.engine, flagged, by_reason)

    def _is_test(self, table: Any) -> Any:
        """Labelled nodes of the test split; without one, labelled nodes of no split."""
        labelled = table["label"] >= 0
        if self.has_test:
            return labelled & (table["split"] == "test")
        return labelled & table["split"].isnull()

    def _one(self, table: Any, **aggregates: Any) -> dict[str, Any]:
        return self.engine.fetch(table.aggregate(**aggregates)).to_pylist()[0]


def _layout(engine: Engine, raw: Any, class_names: list[str] | None, *, fits: bool) -> Layout:
    """Find out how the nodes' table is laid out; most rows decide the length of a list column."""
    kinds = raw.schema()
    logits = check_nodes(raw, fits=fits)
    n_classes = len(logits) or _usual_length(engine, raw)
    check_number_of_classes(kinds, n_classes)
    if class_names is not None and not len(set(class_names)) == len(class_names) == n_classes:
        raise InputError(
            f"class_names has {len(class_names)} names but there are {n_classes} classes; name "
            "each class once."
        )
    if "label" in kinds and kinds["label"].is_string() and class_names is None:
        raise InputError(
            "labels are names but the file does not say which logit each class has; add schema "
            "metadata class_names, a JSON list in the order of the logits."
        )
    if "label" in kinds and not kinds["label"].is_string():
        check_names_are_no_numbers(class_names or [], "class_names")
    return Layout(n_classes, tuple(logits), "label" in kinds, "split" in kinds, class_names)


def _usual_length(engine: Engine, raw: Any) -> int:
    """Return how many logits most lists have; lists of another length are bad rows."""
    sized = raw.select(size=raw[LIST_COLUMN].length())
    counted = sized.group_by("size").aggregate(n=sized.count())
    rows = engine.fetch(counted).to_pylist()
    if not rows:
        raise InputError(NO_ROWS)
    # Spark says -1 for the length of a list that is null.
    usable = [row for row in rows if (row["size"] or 0) > 0]
    if not usable:
        raise InputError(
            f"the lists of {LIST_COLUMN} are empty or null in all rows; expected one logit for "
            "each class."
        )
    return int(min(usable, key=lambda row: (-row["n"], row["size"]))["size"])
