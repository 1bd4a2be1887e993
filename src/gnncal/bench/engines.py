"""Where work is done: this process, several on this machine, or a cluster, through joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

import joblib

from gnncal.core.errors import InputError, require

Engine = Literal["dask", "ray"]
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
    with _backend(engine, jobs), joblib.Parallel(jobs, return_as="generator_unordered") as pool:

        def each(work: Callable[[S], R], items: Sequence[S]) -> Iterable[R]:
            return pool(joblib.delayed(work)(item) for item in items) if items else []

        yield each


@contextmanager
def _backend(engine: Engine | None, jobs: int) -> Iterator[None]:
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
