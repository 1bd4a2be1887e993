"""What a benchmark computes: one cell for every dataset, backbone, seed, method and protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import product, starmap
from typing import Any, Literal, NamedTuple, get_args

from gnncal.calibrators.base import Calibrator
from gnncal.calibrators.homophily import (
    HomophilyEstimator,
    Predictor,
    make_estimator,
    to_plain,
)
from gnncal.calibrators.hots import HoTS
from gnncal.calibrators.registry import get_calibrator, list_calibrators, resolve
from gnncal.data.checks import plain_name, suggestion
from gnncal.data.errors import InputError, warn
from gnncal_lab.classifiers.treatments import parts_of
from gnncal_lab.settings import settings_for

Protocol = Literal["paper", "converged"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)  # ways to fit a calibrator


class Task(NamedTuple):
    """One frozen classifier. Every calibrator of a task sees the same logits."""

    dataset: str
    backbone: str
    seed: int


class Cell(NamedTuple):
    """One calibrator on one task."""

    dataset: str
    backbone: str
    seed: int
    method: str
    protocol: Protocol

    @property
    def task(self) -> Task:
        """The frozen classifier of this cell."""
        return Task(*self[:3])


class Variant(NamedTuple):
    """A calibrator with parameters other than the default ones, under a name of its own."""

    method: str
    protocol: Protocol  # the only one it is run in
    parameters: dict[str, Any]


VARIANTS = {
    "hots-release": Variant("hots", "paper", HoTS.paper("release").get_params()),
    "hots-predictor": Variant("hots", "converged", {"homophily": "predictor"}),
    "hots-cross-fitted": Variant("hots", "converged", {"homophily": "cross-fitted"}),
    "hots-agreement": Variant("hots", "converged", {"homophily": "agreement"}),
    "hots-clamped": Variant("hots", "converged", {"homophily": "clamped-support"}),
    "hots-agreement-clamped": Variant("hots", "converged", {"homophily": "clamped-agreement"}),
}
GROUPS = ("all", "paper", "few")  # names that stand for several methods
PAPER_METHODS = ("uncalibrated", "ts", "vs", "ets", "hts", "cagcn", "gats", "gets", "wats", "hots")
ABLATIONS = ("ts", "entropy-only", "homophily-only", "hots-alpha1", "hots")
FEW_PARAMETERS = (*PAPER_METHODS[:5], "hts-log", "hots", *ABLATIONS[1:4], *VARIANTS)


@dataclass(frozen=True)
class Plan:
    """The cells of a run, task by task."""

    datasets: Sequence[str]
    backbones: Sequence[str]
    seeds: Sequence[int]
    methods: Sequence[str]
    protocols: Sequence[Protocol]
    tasks: Collection[Task] | None = None  # those that there are, if not every combination

    def cells(self) -> Iterator[Cell]:
        """Yield every cell once; a method without protocols is run once, as converged."""
        for task in starmap(Task, product(self.datasets, self.backbones, self.seeds)):
            if self.tasks is not None and task not in self.tasks:
                continue
            for method in self.methods:
                for protocol in protocols_of(method, self.protocols):
                    yield Cell(*task, method, protocol)


def list_methods() -> list[str]:
    """Return every calibrator of the catalogue, and the variants that the benchmark adds."""
    known = [name for name in list_calibrators() if name != "hots-paper"]  # a protocol of hots
    taken = [name for name in known if name in (*VARIANTS, *GROUPS)]
    if taken:
        warn(f"the benchmark uses the names {', '.join(taken)} itself; rename these calibrators.")
    return [*(name for name in known if name not in taken), *VARIANTS]


def choose_methods(names: Sequence[str]) -> list[str]:
    """Return the methods that names and groups (``all``, ``paper``, ``few``) stand for."""
    known = list_methods()
    paper = [*PAPER_METHODS, "hots-release", *ABLATIONS[1:4]]
    groups = dict(zip(GROUPS, (known, paper, list(FEW_PARAMETERS)), strict=True))
    chosen: dict[str, None] = {}
    for name in map(plain_name, names):
        if name not in groups and name not in known:
            raise InputError(
                f"unknown method {name!r}{suggestion(name, known)}; choose among "
                f"{', '.join(known)}, or a group: {', '.join(groups)}."
            )
        chosen |= dict.fromkeys(groups.get(name, [name]))
    return list(chosen)


def protocols_of(method: str, wanted: Sequence[Protocol]) -> list[Protocol]:
    """Return the wanted protocols that a method can be run in; always one if it knows none."""
    if method in VARIANTS:
        return [protocol for protocol in wanted if protocol == VARIANTS[method].protocol]
    return list(wanted) if knows_protocols(method) else ["converged"]


def knows_protocols(method: str) -> bool:
    """Return whether the protocol makes a difference to a method."""
    return method in VARIANTS or "protocol" in signature(resolve(method)[1].kind).parameters


def make_calibrator(cell: Cell) -> Calibrator:
    """Return the unfitted calibrator of a cell; the seed of the task seeds its random numbers."""
    method, parameters = _recipe(cell)
    return get_calibrator(method, **parameters)


def is_current(parameters: dict[str, Any], cell: Cell) -> bool:
    """Return whether a record with these parameters is what the cell would compute today."""
    method, wanted = _recipe(cell)
    return parameters == constructor_parameters(resolve(method)[1].kind(**wanted))


def predictor_of(cell: Cell) -> Predictor | None:
    """Return the homophily predictor that a cell trains; equal ones of a task are trained once."""
    estimator = _recipe(cell)[1].get("homophily")
    return estimator if isinstance(estimator, Predictor) else None


def constructor_parameters(calibrator: Calibrator) -> dict[str, Any]:
    """Return all parameters of the constructor, defaults too, as JSON gives them back."""
    return as_json(calibrator.get_params())


def as_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON gives them back; estimators as their name and parameters."""

    def plain(name: str, value: Any) -> Any:
        if name == "homophily" and not isinstance(value, dict):
            return to_plain(value)
        return list(value) if isinstance(value, tuple) else value

    return {name: plain(name, value) for name, value in parameters.items()}


def _recipe(cell: Cell) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a cell's calibrator."""
    variant = VARIANTS.get(cell.method)
    method = cell.method if variant is None else variant.method
    kind = resolve(method)[1].kind
    allowed = signature(kind).parameters
    # What the paper's release uses for this method on this dataset and backbone.
    parameters = settings_for(method, cell.dataset, parts_of(cell.backbone)[0], source="hots")
    if cell.protocol == "paper" and issubclass(kind, HoTS):
        parameters["homophily"] = "predictor"
    parameters = {**resolve(method)[1].params, **parameters}
    parameters |= {} if variant is None else variant.parameters
    fixed = {"protocol": cell.protocol, "random_state": cell.seed}
    parameters |= {name: value for name, value in fixed.items() if name in allowed}
    if "homophily" in parameters:
        parameters["homophily"] = _seeded(parameters["homophily"], cell.seed)
    return method, parameters


def _seeded(homophily: Any, seed: int) -> HomophilyEstimator:
    """Return the estimator with the seed of a task, where it draws anything."""
    estimator = make_estimator(homophily)
    if isinstance(estimator, Predictor):
        return replace(estimator, random_state=seed)
    return estimator
