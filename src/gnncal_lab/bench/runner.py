"""Run a plan: cells with a record are left alone, a cell that fails does not stop the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

from gnncal_lab.bench.costs import Costs, Step, chunks
from gnncal_lab.bench.engines import Engine, Workers, workers
from gnncal_lab.bench.logits import LogitProvider
from gnncal_lab.bench.measure import Predictors, run_cell
from gnncal_lab.bench.plan import Cell, Plan, Task, is_current, predictor_of
from gnncal_lab.bench.provenance import note_run
from gnncal_lab.bench.records import (
    Record,
    append_records,
    check_records_file,
    read_records,
    record_file,
)

SECONDS_AT_ONCE = 20.0  # at most this much work is lost when a run is killed
UNKNOWN_SECONDS = 2.0  # of a cell that is unlike any measured one, when work is dealt out
DIED = "its process died, perhaps because memory ran out"


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    done: int  # cells
    total: int
    failed: int
    seconds_left: float | None  # None until all remaining work was timed on a similar graph
    doing: str


Watch = Callable[[Progress], None]
Work = Callable[[list[Cell]], list[Record]]


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    run: str  # its name in `runs.jsonl`; empty if there was nothing to do
    computed: int
    failed: int
    recorded_before: int
    first_failure: str | None = None  # the cell and the reason


def run_plan(
    plan: Plan,
    provider: LogitProvider,
    folder: Path,
    *,
    jobs: int | None = None,
    engine: Engine | None = None,
    again: bool = False,
    command: str = "",
    watch: Watch = lambda progress: None,
) -> Outcome:
    """Compute every cell of the plan that has no record yet, and append the records."""
    cells = list(plan.cells())
    records = read_records(folder)
    pending = cells if again else _without_record(cells, records)
    recorded = len(cells) - len(pending)
    for path in {record_file(folder, cell.dataset, cell.backbone) for cell in pending}:
        check_records_file(path)
    if not pending:
        return Outcome("", 0, 0, recorded)
    with workers(jobs, engine) as each:
        progress = _Ledger(pending, provider, each.count, watch)
        progress.learn(records.values())
        run = note_run(folder, command)
        with closing(_records(pending, provider, run, each, progress)) as blocks:
            for made in blocks:
                append_records(folder, made)
                progress.finished(made)
    return Outcome(run, len(pending), progress.failed, recorded, progress.first_failure)


def _records(
    pending: list[Cell], provider: LogitProvider, run: str, each: Workers, progress: _Ledger
) -> Generator[list[Record], None, None]:
    """Yield the records dataset by dataset, each fetched once and by this process alone."""
    for dataset, group in groupby(pending, key=lambda cell: cell.dataset):
        cells = list(group)
        progress.say(f"{dataset}: loading")
        try:
            provider.fetch(dataset)
        except Exception as error:
            yield [_without_logits(cell, run, reason(error)) for cell in cells]
            continue
        for _, block in groupby(cells, key=lambda cell: cell.backbone):
            yield from _records_of_block(list(block), provider, run, each, progress)


def _records_of_block(
    cells: list[Cell], provider: LogitProvider, run: str, each: Workers, progress: _Ledger
) -> Iterator[list[Record]]:
    """Records of one dataset and backbone: classifiers are trained first, then calibrated."""
    failures = _train(cells, provider, each, progress)
    yield [_without_logits(c, run, failures[c.task]) for c in cells if c.task in failures]
    progress.say(f"{cells[0].dataset} {cells[0].backbone}: calibrating")
    units = progress.units([cell for cell in cells if cell.task not in failures])
    work = partial(_run_cells, provider, run)
    yield from each(work, units, partial(_run_apart, work, run, each))


def _train(
    cells: list[Cell], provider: LogitProvider, each: Workers, progress: _Ledger
) -> dict[Task, str]:
    """Train what is not trained yet; the reason for each task where that failed."""
    tasks = dict.fromkeys(cell.task for cell in cells)
    waiting = [task for task in tasks if not provider.is_ready(task)]
    progress.ready(set(tasks) - set(waiting))
    if waiting:
        progress.say(f"{waiting[0].dataset} {waiting[0].backbone}: training")
    failures = {}
    trained = each(partial(_prepare, provider), waiting, lambda task: (task, 0.0, DIED))
    for task, seconds, failure in trained:
        if failure is None:
            progress.learn_training(task, seconds)
        else:
            failures[task] = failure
        progress.ready([task])
    return failures


class _Ledger:
    """The cells that are left to do, and how long they will take."""

    def __init__(
        self, pending: list[Cell], provider: LogitProvider, n_workers: int, watch: Watch
    ) -> None:
        self.costs = Costs(lru_cache(None)(provider.size))
        self.failed = 0
        self.first_failure: str | None = None
        self._datasets = {cell.dataset for cell in pending}
        self._left = dict.fromkeys(pending)
        tasks = dict.fromkeys(cell.task for cell in pending)
        self._untrained = {task for task in tasks if not provider.seems_ready(task)}
        self._total, self._workers, self._watch = len(pending), n_workers, watch
        self._doing = ""

    def learn(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.error is None and record.dataset in self._datasets:
                self.costs.add(_step(record.cell), record.cell_seconds)

    def say(self, doing: str) -> None:
        self._doing = doing
        self._tell()

    def units(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """Return the cells of one task that are run together, without holding much work back."""
        # Cells with the same homophily predictor stay together, so that it is trained once.
        units = []
        for _, group in groupby(cells, key=lambda cell: cell.task):
            blocks: dict[Any, list[Cell]] = {}
            for cell in group:
                blocks.setdefault(predictor_of(cell) or cell, []).append(cell)
            parts = chunks([*blocks.values()], self._block_seconds, SECONDS_AT_ONCE)
            units += [[cell for block in part for cell in block] for part in parts]
        return units

    def ready(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self._untrained.discard(task)
        self._tell()

    def learn_training(self, task: Task, seconds: float) -> None:
        self.costs.add(_training(task), seconds)

    def finished(self, records: Sequence[Record]) -> None:
        self.learn(records)
        for record in records:
            if record.error is not None:
                self.failed += 1
                of = " ".join(map(str, record.cell))
                self.first_failure = self.first_failure or f"{of}: {record.error}"
            self._left.pop(record.cell, None)
        self.ready(record.cell.task for record in records)

    def _block_seconds(self, cells: list[Cell]) -> float:
        seconds = [self.costs.predict(_step(cell)) for cell in cells]
        return sum(UNKNOWN_SECONDS if known is None else known for known in seconds)

    def _tell(self) -> None:
        done = self._total - len(self._left)
        left = self._seconds_left()
        self._watch(Progress(done, self._total, self.failed, left, self._doing))

    def _seconds_left(self) -> float | None:
        steps = [*map(_step, self._left), *map(_training, self._untrained)]
        total = 0.0
        for step, count in Counter(steps).items():
            seconds = self.costs.predict(step)
            if seconds is None:
                return None
            total += count * seconds
        return total / self._workers


def _prepare(provider: LogitProvider, task: Task) -> tuple[Task, float, str | None]:
    started, failure = perf_counter(), None
    try:
        provider.prepare(task)
    except Exception as error:  # one classifier must not end the run of all
        failure = reason(error)
    return task, perf_counter() - started, failure


def _run_cells(provider: LogitProvider, run: str, cells: list[Cell]) -> list[Record]:
    try:
        bundle = provider.load(cells[0].task)
    except Exception as error:
        return [_without_logits(cell, run, reason(error)) for cell in cells]
    predictors: Predictors = {}
    return [run_cell(cell, bundle, predictors, run=run) for cell in cells]


def _run_apart(work: Work, run: str, each: Workers, cells: list[Cell]) -> list[Record]:
    """Run cells whose process died one by one, because only one of them may be to blame."""
    if len(cells) == 1:
        return [_failed(cells[0], run, DIED)]
    lost = partial(_run_apart, work, run, each)
    return [record for cell in cells for record in each.alone(work, [cell], lost)]


def _without_logits(cell: Cell, run: str, reason: str) -> Record:
    return _failed(cell, run, f"no logits: {reason}")


def _failed(cell: Cell, run: str, reason: str) -> Record:
    return Record(*cell, {}, run, 0.0, 0.0, error=reason)


def reason(error: Exception) -> str:
    """Return what went wrong, in the words of a record."""
    return f"{type(error).__name__}: {error}"


def _without_record(cells: list[Cell], records: Mapping[Cell, Record]) -> list[Cell]:
    def is_done(cell: Cell) -> bool:
        record = records.get(cell)
        if record is None or record.error is not None:
            return False
        return is_current(record.parameters, cell)

    return [cell for cell in cells if not is_done(cell)]


def _step(cell: Cell) -> Step:
    return Step((cell.method, cell.protocol), cell.dataset)


def _training(task: Task) -> Step:
    return Step(("training", task.backbone), task.dataset)
