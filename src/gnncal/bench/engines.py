"""Where work is done: this process, several on this machine, or a cluster, through joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

import joblib

from gnncal.core.errors import InputError, require

Engine = Literal["dask", "ray"]
ITEMS_AT_ONCE = 4  # a worker, where results come back all together
S = TypeVar("S")
R = TypeVar("R")
Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


@contextmanager
def workers(jobs: int, engine: Engine | None = None) -> Iterator[Each]:
    """A function ``each(work, items)`` that yields results as they come, in any order.

    ``engine="dask"`` joins the cluster that ``DASK_SCHEDULER_ADDRESS`` names, ``"ray"`` that of
    ``RAY_ADDRESS``; without one, a local cluster is started. Its machines need gnncal and must
    see the same folders.
    """
    if jobs < 1:
        raise InputError(f"jobs is {jobs}; expected at least 1.")
    as_they_come = "list" if engine == "ray" else "generator_unordered"
    with _backend(engine), joblib.Parallel(jobs, return_as=as_they_come) as pool:

        def each(work: Callable[[S], R], items: Sequence[S]) -> Iterator[R]:
            # Ray's backend returns a list when all is done: hand it a few items at a time.
            step = ITEMS_AT_ONCE * jobs if engine == "ray" else max(len(items), 1)
            for start in range(0, len(items), step):
                yield from pool(joblib.delayed(work)(item) for item in items[start : start + step])

        yield each


@contextmanager
def _backend(engine: Engine | None) -> Iterator[None]:
    if engine is None:
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            yield
    elif engine == "dask":
        distributed = require("distributed", extra="dask", purpose="--engine dask")
        with distributed.Client(), joblib.parallel_config("dask"):
            yield
    elif engine == "ray":
        ray = require("ray", extra="ray", purpose="--engine ray")
        require("ray.util.joblib", extra="ray", purpose="--engine ray").register_ray()
        ray.init(ignore_reinit_error=True)
        with joblib.parallel_config("ray"):
            yield
    else:
        raise InputError(f"engine is {engine!r}; expected {' or '.join(get_args(Engine))}.")
