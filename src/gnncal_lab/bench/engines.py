"""Where work is done: this process, several on this machine, or a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

import joblib

from gnncal.data.errors import InputError, require

Engine = Literal["dask", "ray"]
ITEMS_AT_ONCE = 4  # for each worker, where all results come back together
SECONDS_OF_SILENCE = 30.0  # then it is checked whether a cluster still has workers
S = TypeVar("S")
R = TypeVar("R")


class Workers(ABC):
    """Processes that may die, because memory runs out for instance."""

    count: int

    @abstractmethod
    def __call__(
        self, work: Callable[[S], R], items: Sequence[S], lost: Callable[[S], R] | None = None
    ) -> Iterator[R]:
        """Yield ``work(item)`` of every item, in any order."""

    @abstractmethod
    def alone(self, work: Callable[[S], R], item: S, lost: Callable[[S], R]) -> R:
        """Do ``work`` on one item in another process, alone."""


@contextmanager
def workers(jobs: int | None = None, engine: Engine | None = None) -> Iterator[Workers]:
    """Workers for as long as the block lasts."""
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs is {jobs}; expected at least 1.")
    if engine is None:
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            yield _Pool(jobs or 1, BrokenProcessPool)
    elif engine == "dask":
        distributed = require("distributed", extra="dask", purpose="--engine dask")
        with _dask_client(distributed, jobs) as client:
            yield _DaskCluster(distributed, client)
    elif engine == "ray":
        ray = require("ray", extra="ray", purpose="--engine ray")
        require("ray.util.joblib", extra="ray", purpose="--engine ray").register_ray()
        ray.init(ignore_reinit_error=True)
        with joblib.parallel_config("ray"):
            yield _Pool(jobs or -1, ray.exceptions.RayError, comes_in_lists=True)  # -1: all
    else:
        raise InputError(f"engine is {engine!r}; expected {' or '.join(get_args(Engine))}.")


class _Pool(Workers):
    """Processes that joblib manages. One that dies takes the whole pool with it."""

    def __init__(self, jobs: int, death: type[Exception], *, comes_in_lists: bool = False) -> None:
        self.count = joblib.effective_n_jobs(jobs)
        self._death, self._comes_in_lists = death, comes_in_lists

    def __call__(
        self, work: Callable[[S], R], items: Sequence[S], lost: Callable[[S], R] | None = None
    ) -> Iterator[R]:
        """Yield results; after a death, run interrupted items alone and the rest in a new pool."""
        left = dict(enumerate(items))
        while left:
            taken: list[int] = []
            try:
                for number, result in self._results(work, dict(left), taken):
                    del left[number]
                    yield result
            except self._death:
                if lost is None or not taken:
                    raise
                for number in [number for number in taken if number in left]:
                    yield self.alone(work, left.pop(number), lost)

    def alone(self, work: Callable[[S], R], item: S, lost: Callable[[S], R]) -> R:
        """Run one item in a pool of two, because joblib would run a pool of one in this process."""
        try:
            (result,) = joblib.Parallel(2)([joblib.delayed(work)(item)])
        except self._death:
            return lost(item)
        return result

    def _results(
        self, work: Callable[[S], R], items: dict[int, S], taken: list[int]
    ) -> Iterator[tuple[int, R]]:
        """Results with the number of their item; ``taken`` notes what the pool has asked for."""

        def calls(numbers: Sequence[int]) -> Iterator[Any]:
            for number in numbers:
                taken.append(number)
                yield joblib.delayed(_numbered)(work, number, items[number])

        # Ray's backend returns a list when all is done: hand it a few items at a time.
        return_as = "list" if self._comes_in_lists else "generator_unordered"
        step = ITEMS_AT_ONCE * self.count if self._comes_in_lists else len(items)
        numbers = list(items)
        with joblib.Parallel(self.count, return_as=return_as, batch_size=1) as pool:
            for start in range(0, len(numbers), step):
                yield from pool(calls(numbers[start : start + step]))


class _DaskCluster(Workers):
    """Workers of a Dask cluster."""

    # Dask tries an item three times if its worker dies, and then suspects every item that waited
    # there. joblib is not used here, because its backend for Dask waits forever for an item that
    # killed its process.

    def __init__(self, distributed: Any, client: Any) -> None:
        self.count = max(sum(client.ncores().values()), 1)
        self._distributed, self._client = distributed, client

    def __call__(
        self, work: Callable[[S], R], items: Sequence[S], lost: Callable[[S], R] | None = None
    ) -> Iterator[R]:
        """Yield results as they come, and in the end those of the suspected items, one by one."""
        futures = {self._client.submit(work, item, pure=False): item for item in items}
        pending, suspects = set(futures), []
        while pending:
            done, pending = self._wait(pending)
            for future in done:
                try:
                    result = future.result()
                except self._distributed.KilledWorker:
                    if lost is None:
                        raise
                    suspects.append(futures[future])
                else:
                    yield result
        if lost is not None:
            yield from (self.alone(work, item, lost) for item in suspects)

    def alone(self, work: Callable[[S], R], item: S, lost: Callable[[S], R]) -> R:
        """Run one item while nothing else is under way."""
        future = self._client.submit(work, item, pure=False)
        self._wait({future})
        try:
            return future.result()
        except self._distributed.KilledWorker:
            return lost(item)

    def _wait(self, pending: set[Any]) -> tuple[set[Any], set[Any]]:
        """Wait until something is done; returns that and the rest."""
        while True:
            try:
                found = self._distributed.wait(
                    pending, timeout=SECONDS_OF_SILENCE, return_when="FIRST_COMPLETED"
                )
            except TimeoutError:
                cluster = self._client.cluster
                if cluster is not None and not self._client.scheduler_info()["workers"]:
                    cluster.scale(self.count)
            else:
                return found.done, found.not_done


def _dask_client(distributed: Any, jobs: int | None) -> Any:
    config = require("dask.config", extra="dask", purpose="--engine dask")
    if config.get("scheduler-address", None) is not None:
        return distributed.Client()
    # Two fits in one process would share its CPU clock and torch's random state.
    return distributed.Client(n_workers=jobs, threads_per_worker=1)


def _numbered(work: Callable[[S], R], number: int, item: S) -> tuple[int, R]:
    return number, work(item)
