"""Run a plan: what is recorded already is left alone, what fails does not stop the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, groupby
from pathlib import Path
from time import perf_counter

from gnncal.bench.costs import Costs, Step, chunks
from gnncal.bench.engines import Each, Engine, workers
from gnncal.bench.logits import Source
from gnncal.bench.measure import run_cell
from gnncal.bench.plan import Cell, Plan, Task, constructor_parameters, make_calibrator
from gnncal.bench.records import Record, append_records, read_records
from gnncal.bench.runs import note_run

SECONDS_AT_ONCE = 20.0  # at most this much work is lost when a run is killed


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int  # cells
    total: int
    failed: int
    seconds_left: float | None  # from the cost of each method on each dataset, once measured
    doing: str


Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    run: str  # its name in `runs.jsonl`; empty when there was nothing to do
    computed: int
    failed: int
    recorded_before: int


def run_plan(
    plan: Plan,
    source: Source,
    folder: Path,
    *,
    jobs: int = 1,
    engine: Engine | None = None,
    again: bool = False,
    command: str = "",
    watch: Watch = lambda progress: None,
) -> Outcome:
    """Compute every cell of the plan that has no record yet, and append the records.

    A record counts if it is whole, did not fail, and was made with the parameters that the cell
    has today; ``again`` computes all cells anew. Only this process writes records; the others
    send them here.
    """
    cells = list(plan.cells())
    pending = cells if again else _without_record(cells, folder)
    recorded = len(cells) - len(pending)
    if not pending:
        return Outcome("", 0, 0, recorded)
    progress = _Ledger(pending, source, jobs, watch)
    progress.learn(read_records(folder).values())
    with workers(jobs, engine) as each:
        run = note_run(folder, command)
        for (dataset, backbone), block in groupby(pending, key=lambda cell: cell[:2]):
            todo = list(block)
            progress.say(f"{dataset} {backbone}: training")
            failures = _train(todo, source, each, progress)
            lost = [
                _failed(cell, run, failures[cell.task]) for cell in todo if cell.task in failures
            ]
            progress.say(f"{dataset} {backbone}: calibrating")
            units = progress.units([cell for cell in todo if cell.task not in failures])
            for records in chain([lost], each(partial(_run_cells, source, run), units)):
                append_records(folder, records)
                progress.finished(records)
    return Outcome(run, len(pending), progress.failed, recorded)


def _train(todo: list[Cell], source: Source, each: Each, progress: _Ledger) -> dict[Task, str]:
    """Have the logits of every task ready; why it failed for those where it did."""
    tasks = dict.fromkeys(cell.task for cell in todo)
    waiting = [task for task in tasks if not source.is_ready(task)]
    progress.ready(set(tasks) - set(waiting))
    failures = {}
    for task, seconds, failure in each(partial(_prepare, source), waiting):
        progress.trained(task, seconds)
        if failure is not None:
            failures[task] = failure
    return failures


class _Ledger:
    """What is left to do and how long it will take."""

    def __init__(self, pending: list[Cell], source: Source, jobs: int, watch: Watch) -> None:
        self.costs = Costs(lru_cache(None)(source.size))
        self.failed = 0
        self._datasets = {cell.dataset for cell in pending}
        self._left = dict.fromkeys(pending)
        self._untrained = dict.fromkeys(cell.task for cell in pending)
        self._total, self._jobs, self._watch = len(pending), jobs, watch
        self._doing = ""

    def learn(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.error is None and record.dataset in self._datasets:
                self.costs.add(_step(record.cell), record.cell_seconds)

    def say(self, doing: str) -> None:
        self._doing = doing
        self._tell()

    def units(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        """Cells of one task that are run together, without holding much work back."""
        return [
            chunk
            for _, group in groupby(cells, key=lambda cell: cell.task)
            for chunk in chunks(list(group), self._seconds, SECONDS_AT_ONCE)
        ]

    def ready(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self._untrained.pop(task, None)

    def trained(self, task: Task, seconds: float) -> None:
        self.costs.add(_training(task), seconds)
        self.ready([task])
        self._tell()

    def finished(self, records: Sequence[Record]) -> None:
        self.learn(records)
        for record in records:
            self.failed += record.error is not None
            self._left.pop(record.cell, None)
        self._tell()

    def _seconds(self, cell: Cell) -> float:
        return self.costs.predict(_step(cell))

    def _tell(self) -> None:
        work = sum(map(self._seconds, self._left))
        work += sum(self.costs.predict(_training(task)) for task in self._untrained)
        left = work / self._jobs if self.costs.measured else None
        done = self._total - len(self._left)
        self._watch(Progress(done, self._total, self.failed, left, self._doing))


def _prepare(source: Source, task: Task) -> tuple[Task, float, str | None]:
    started, failure = perf_counter(), None
    try:
        source.prepare(task)
    except Exception as error:  # one classifier must not end the run of all
        failure = f"{type(error).__name__}: {error}"
    return task, perf_counter() - started, failure


def _run_cells(source: Source, run: str, cells: list[Cell]) -> list[Record]:
    try:
        frozen = source.load(cells[0].task)
    except Exception as error:
        return [_failed(cell, run, f"{type(error).__name__}: {error}") for cell in cells]
    return [run_cell(cell, frozen, run=run) for cell in cells]


def _failed(cell: Cell, run: str, reason: str) -> Record:
    return Record(*cell, {}, run, 0.0, 0.0, error=f"no logits: {reason}")


def _without_record(cells: list[Cell], folder: Path) -> list[Cell]:
    records = read_records(folder)

    def is_done(cell: Cell) -> bool:
        record = records.get(cell)
        if record is None or record.error is not None:
            return False
        return record.parameters == constructor_parameters(make_calibrator(cell))

    return [cell for cell in cells if not is_done(cell)]


def _step(cell: Cell) -> Step:
    return Step((cell.method, cell.protocol), cell.dataset)


def _training(task: Task) -> Step:
    return Step(("training", task.backbone), task.dataset)
