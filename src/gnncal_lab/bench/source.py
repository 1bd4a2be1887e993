"""Digests of the package's source code: which code made a record or trained a classifier."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable

from gnncal_lab.classifiers.treatments import parts_of

DISTRIBUTION = "gnncal"
PACKAGES = ("gnncal", "gnncal_lab")
PACKAGE = "gnncal_lab"  # where networks are trained
SUFFIXES = (".py", ".csv")  # code, and the paper's values
# Functions besides the networks and their training loop that logits depend on.
FUNCTIONS = {
    "classifiers.backbones": ("train_classifier", "_make"),
    "datasets.splits": ("random_split",),
}
# Modules whose imports are followed: the networks, and the sparse products they share.
FOLLOWED = ("classifiers.", "methods.neural.sparse", "methods.neural.features")
# A training's settings are in the key of cached logits; of the table of networks only the functions
# above count.
NOT_FOLLOWED = {"classifiers.settings", "classifiers.backbones"}


@cache
def package_source() -> dict[str, str | None]:
    """Return the version of the distribution and a digest of all files of its packages."""
    digest = hashlib.blake2b(digest_size=8)
    found = [each for package in PACKAGES for each in _files(files(package), f"{package}/")]
    for name, file in sorted(found, key=lambda each: each[0]):
        digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    try:
        number = version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a folder that was never installed
        number = None
    return {"version": number, "digest": digest.hexdigest()}


@cache
def training_source(backbone: str) -> str:
    """Return a digest of the code that splits the nodes and trains a backbone."""
    code = [
        node
        for module, names in FUNCTIONS.items()
        for node in _parse(module).body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    parts = [*code, *map(_parse, training_modules(backbone))]
    text = "\n".join(ast.dump(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def training_modules(backbone: str) -> list[str]:
    """Return the modules that train a backbone: its own ones, the loop, and what these import."""
    found: set[str] = set()
    names = ("training", *parts_of(backbone))
    waiting = {f"classifiers.{name}" for name in names}
    while waiting:
        found |= waiting
        waiting = {name for module in waiting for name in _imports(module)} - found - NOT_FOLLOWED
    return sorted(found)


def _imports(module: str) -> set[str]:
    """Return the modules of the followed packages that a module imports from."""
    nodes = [node for node in ast.walk(_parse(module)) if isinstance(node, ast.ImportFrom)]
    names = {(node.module or "").removeprefix(f"{PACKAGE}.") for node in nodes}
    return {name for name in names if name.startswith(FOLLOWED)}


def _parse(module: str) -> ast.Module:
    """Return the code of a module without docstrings."""
    *folders, name = module.split(".")
    tree = ast.parse(files(PACKAGE).joinpath(*folders, f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return tree


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, f"{prefix}{item.name}/")
        elif item.name.endswith(SUFFIXES):
            yield prefix + item.name, item
