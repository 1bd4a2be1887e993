"""Batches of nodes with what the passes found of their neighbours, for the code in memory.

A batch is an Arrow table of some nodes, from DuckDB in this process or on an executor of Spark:

- ``id``, ``label`` (-1: unknown), ``split`` (its number, -1: none), ``logits`` (a list);
- ``in_degree``, ``out_degree`` and ``self_loops``;
- ``class_mean``, for methods of one hop the mean probability that the neighbours give to the node's
  predicted class, for those of two hops the mean of the neighbours' ``means`` of it;
- ``means``, for methods of two hops the neighbours' mean probabilities, entropy and confidence;
- ``support``, for some nodes the mean probability that the senders give to the predicted class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gnncal.calibrators.base import Calibrator, TemperatureMixin
from gnncal.calibrators.registry import name_of
from gnncal.data.arrays import FloatArray, IntArray
from gnncal.data.errors import InputError
from gnncal.data.nodes import Nodes, with_neighbours
from gnncal.data.probability import LOWEST_SHIFTED_LOGIT, entropy_of_sums, shifted, softmax
from gnncal.decisions import Policy
from gnncal.files.parquet import TEST
from gnncal.graph.graph import Side
from gnncal.scale.summary import Degrees, Sums, terms_of

T = TypeVar("T")
R = TypeVar("R")
ROWS_PER_FILE = 1 << 24  # of the output
SAMPLE = 20_000  # nodes by which `check` knows the graph of a fit


@dataclass(frozen=True)
class Reach:
    """What a method must know of the neighbours of each node."""

    hops: int
    side: Side

    @classmethod
    def of(cls, calibrator: Calibrator) -> Reach:
        """Return what a calibrator needs, or say that it works in memory only."""
        reach = calibrator._reach()
        if reach is None:
            raise InputError(
                f"{name_of(calibrator)} needs the graph in memory, at least for a fit; at scale "
                "use a method that looks at a node's neighbours alone, such as hots, structural "
                "or structural-free, or at its own logits, such as ts, hts or svs."
            )
        return cls(*reach)


def values_to_average(logits: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return predictions (n,), and what neighbours are averaged over: (n, n_classes + 2).

    These are the probabilities, the entropy and the confidence, in the precision of the logits.
    """
    n_rows, n_classes = logits.shape
    predictions = logits.argmax(axis=1).astype(np.int32)
    values = np.empty((n_rows, n_classes + 2), dtype=logits.dtype)
    probs = values[:, :n_classes]
    # softmax and normalised_entropy at once: exp takes the most time here
    s = np.maximum(shifted(logits), LOWEST_SHIFTED_LOGIT)
    np.exp(s, out=probs)
    mass = probs.sum(axis=1)
    values[:, n_classes] = entropy_of_sums(mass, np.einsum("ik,ik->i", probs, s), n_classes)
    probs /= mass[:, None]
    values[:, n_classes + 1] = probs[np.arange(n_rows), predictions]
    return predictions, values


class BatchNeighbours:
    """The neighbours of a batch's nodes, from columns that passes over the edges have made."""

    def __init__(self, batch: Any) -> None:
        found = {
            name: batch[name].to_numpy(zero_copy_only=False)
            for name in ("in_degree", "out_degree", "self_loops", "class_mean", "support")
            if name in batch.schema.names
        }
        self.in_degree, self.out_degree, self.self_loops = (
            found[name].astype(np.int64) for name in ("in_degree", "out_degree", "self_loops")
        )
        self._class_mean, self.support = found.get("class_mean"), found.get("support")
        self._means = matrix_of(batch["means"]) if "means" in batch.schema.names else None

    def counts(self, side: Side) -> IntArray:
        """Return how many neighbours each node has."""
        senders, receivers = self.in_degree - self.self_loops, self.out_degree - self.self_loops
        return {"in": senders, "out": receivers, "both": senders + receivers}[side]

    def mean(self, values: FloatArray, side: Side) -> FloatArray:
        """Return what a pass found for values of this width: those of two hops."""
        assert self._means is not None
        assert self._means.shape[1] == values.shape[1]
        return self._means.copy()  # formulas may write into it

    def class_mean(self, values: FloatArray, classes: IntArray, side: Side) -> FloatArray:
        """Return what a pass found for the predicted classes."""
        assert self._class_mean is not None
        return np.nan_to_num(self._class_mean, nan=0.0)


def matrix_of(lists: Any) -> FloatArray:
    """Return an Arrow column of lists that are equally long as a matrix."""
    array = lists.combine_chunks() if hasattr(lists, "combine_chunks") else lists
    return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), -1)


def column_of(matrix: FloatArray) -> Any:
    """Return a matrix as an Arrow column of lists."""
    import pyarrow as pa

    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * np.int32(matrix.shape[1])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix.reshape(-1)))


def nodes_of(batch: Any, *, may_be_probabilities: bool = True) -> Nodes:
    """Return the record of a batch's nodes with their neighbours."""
    record = Nodes(matrix_of(batch["logits"]), may_be_probabilities=may_be_probabilities)
    return with_neighbours(record, BatchNeighbours(batch))


@dataclass(frozen=True)
class Work:
    """What is done with each batch; it is sent to the executors of Spark."""

    calibrator: Calibrator
    test_split: int  # of the labelled nodes on which the result is judged
    degrees: Degrees  # of these nodes
    id_type: Any  # Arrow type of the ids
    all_probabilities: bool = False
    positive: int | None = None
    policy: Policy | None = None
    about: Mapping[str, str] | None = None  # metadata of the files

    def __call__(self, batch: Any) -> tuple[dict[str, Any], IntArray, FloatArray]:
        """Return the columns of the result, and the degrees and terms of a batch's test nodes."""
        nodes = nodes_of(batch)
        probs = self.calibrator.predict_proba(nodes)
        predictions = probs.argmax(axis=1)
        columns = {
            "id": batch["id"],
            "prediction": predictions.astype(np.int32),
            "confidence": probs[np.arange(len(probs)), predictions].astype(np.float64),
        }
        if isinstance(self.calibrator, TemperatureMixin):
            columns["temperature"] = self.calibrator.predict_temperature(nodes)
        labels, splits = (batch[name].to_numpy(zero_copy_only=False) for name in ("label", "split"))
        if self.positive is not None:
            columns["probability"] = probs[:, self.positive].astype(np.float64)
        if self.policy is not None:
            actions = columns["action"] = np.full(len(probs), "", dtype=object)
            decided = (splits == TEST) | (splits < 0)  # outside training and calibration
            if decided.any():
                actions[decided] = self.policy.decide(probs[decided])
        if self.all_probabilities:
            columns |= {f"p{k}": probs[:, k] for k in range(probs.shape[1])}
        rows = np.flatnonzero((labels >= 0) & (splits == self.test_split))
        terms = terms_of(labels[rows], [softmax(nodes.logits[rows]), probs[rows]])
        return columns, nodes.neighbours.in_degree[rows], terms

    def write(
        self, batches: Iterable[Any], folder: Path, name: str, threads: int = 1
    ) -> tuple[Sums, list[str]]:
        """Write the results of batches to files; return the sums of the metrics and the names."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        sums, files, n_rows, writer = Sums(self.degrees), list[str](), 0, None
        try:
            for columns, degree, terms in parallel(self, batches, threads):
                columns["id"] = columns["id"].cast(self.id_type)
                table = pa.table(columns, metadata=self.about)
                if n_rows >= len(files) * ROWS_PER_FILE:
                    if writer is not None:
                        writer.close()
                    files.append(f"{name}-{len(files)}.parquet")
                    writer = pq.ParquetWriter(folder / files[-1], table.schema, compression="zstd")
                assert writer is not None
                writer.write_table(table)
                sums.add(degree, terms)
                n_rows += len(table)
        finally:
            if writer is not None:
                writer.close()
        return sums, files


def parallel(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Apply a function on several threads; results come in order, and few items are ahead."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[Future[R]] = []
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()
