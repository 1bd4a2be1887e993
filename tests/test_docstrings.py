"""What is public is documented: every parameter, what comes back, and an example that runs."""

import ast
import contextlib
import dataclasses
import doctest
import importlib
import inspect
import re
import textwrap
import typing
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import gnncal
import gnncal_lab

ClassDoc = pytest.importorskip("numpydoc.docscrape").ClassDoc
from numpydoc.docscrape import FunctionDoc  # noqa: E402
from numpydoc.validate import validate  # noqa: E402

pytestmark = pytest.mark.slow

SOURCE = Path(gnncal.__file__).parent
PACKAGES = (
    "gnncal",
    "gnncal_lab",
    *(f"gnncal.{name}" for name in gnncal.__all__ if find_spec(f"gnncal.{name}")),
    *(f"gnncal_lab.{name}" for name in gnncal_lab.__all__ if find_spec(f"gnncal_lab.{name}")),
)
# Checks of numpydoc that do not apply. House style opens a docstring on the first line and ends
# it with a blank one, needs no "See Also", and lets the summary say enough.
IGNORED = {"GL01", "GL02", "GL03", "SA01", "ES01", "SS05", "SS06", "EX01", "YD01"}
OF_SIGNATURES = {"PR01", "PR02", "PR03"}
REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
# Arguments that the glossary explains once need no entry of their own.
GLOSSARY = {
    name
    for row in re.findall(r"^\| (`.*?) \|", REFERENCE.read_text(encoding="utf-8"), flags=re.M)
    for name in re.findall(r"`(\w+)`", row)
}
NOT_RUN = {
    "gnncal_lab.datasets.loading.load": "it downloads",
}


def _public_names():
    for package in PACKAGES:
        try:
            module = importlib.import_module(package)
        except gnncal.MissingExtraError:
            continue
        for name in module.__all__:
            try:
                value = getattr(module, name)
            except gnncal.MissingExtraError:  # of a package that is not installed here
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                yield value


def _path(value):
    return f"{value.__module__}.{value.__qualname__}"


PUBLIC = {_path(value): value for value in _public_names()}
CLASSES = {path: value for path, value in PUBLIC.items() if inspect.isclass(value)}
FUNCTIONS = {path: value for path, value in PUBLIC.items() if not inspect.isclass(value)}


def _public_methods():
    """Public methods by path, each with its definitions from the class up to its parents."""
    for kind in CLASSES.values():
        ours = [parent for parent in kind.__mro__ if parent.__module__.startswith("gnncal")]
        for name in dict.fromkeys(name for parent in ours for name in vars(parent)):
            found = [vars(parent)[name] for parent in ours if name in vars(parent)]
            plain = [each.__func__ if isinstance(each, classmethod) else each for each in found]
            if not name.startswith("_") and inspect.isfunction(plain[0]):
                yield _path(plain[0]), plain


METHODS = dict(_public_methods())


def _faults(path, *, ignored=frozenset()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpydoc warns of what it then reports
        found = validate(path)
    summary = (found["docstring"] or "").strip()
    # "Return the mean." says what comes back.
    said = {"RT01"} if re.match(r"(Return|Give|Make)\b", summary) else set()
    return [
        f"{code}: {text}"
        for code, text in found["errors"]
        if code not in IGNORED | ignored | said
        and not (code == "PR01" and set(re.findall(r"'(\w+)'", text)) <= GLOSSARY)
    ]


def _is_record(kind):
    """Whether a class holds results; nobody constructs it, so it documents attributes."""
    return hasattr(kind, "_fields") or (
        dataclasses.is_dataclass(kind) and not ClassDoc(kind)["Parameters"]
    )


def _fields(kind):
    if hasattr(kind, "_fields"):
        return set(kind._fields)
    return {field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")}


@pytest.mark.parametrize("path", [*FUNCTIONS, *CLASSES])
def test_a_public_name_has_a_complete_docstring(path):
    is_record = path in CLASSES and _is_record(CLASSES[path])
    faults = _faults(path, ignored=OF_SIGNATURES if is_record else frozenset())
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", METHODS)
def test_a_public_method_is_documented_where_it_is_defined_or_in_a_parent(path):
    found = [(_path(function), _faults(_path(function))) for function in METHODS[path]]
    assert not all(faults for _, faults in found), found[0][1]


@pytest.mark.parametrize("path", [*FUNCTIONS, *CLASSES, *METHODS])
def test_documented_defaults_are_those_of_the_signature(path):
    value = METHODS[path][0] if path in METHODS else PUBLIC[path]
    entries = (ClassDoc if path in CLASSES else FunctionDoc)(value)["Parameters"]
    signature = inspect.signature(value).parameters if entries else {}
    defaults = {name: parameter.default for name, parameter in signature.items()}
    for entry in entries:
        for name in entry.name.replace("*", "").split(", "):
            said, default = entry.type.partition("default=")[2], defaults[name]
            if default is inspect.Parameter.empty:
                assert not said, name
                assert "optional" not in entry.type, name
            elif isinstance(default, str | bool | int | float | tuple) and said:
                assert ast.literal_eval(said) == default, name


def _records():
    """Public records, and those that public functions and methods return."""
    for function in [*FUNCTIONS.values(), *(found[0] for found in METHODS.values())]:
        with contextlib.suppress(NameError):  # of a class that is imported for type checkers only
            returned = typing.get_type_hints(function).get("return")
            if dataclasses.is_dataclass(returned):
                yield returned
    yield from CLASSES.values()


RECORDS = {_path(kind): kind for kind in _records() if _is_record(kind)}


@pytest.mark.parametrize("path", RECORDS)
def test_a_record_describes_each_of_its_fields(path):
    kind = RECORDS[path]
    described = [
        name
        for entry in ClassDoc(kind)["Attributes"]
        for name in entry.name.split(", ")
        if entry.desc
    ]
    assert len(described) == len(set(described))
    assert _fields(kind) <= set(described)


@pytest.mark.parametrize("path", [*FUNCTIONS, *METHODS])
def test_a_function_that_raises_says_so(path):
    functions = METHODS.get(path) or [FUNCTIONS[path]]
    tree = ast.parse(textwrap.dedent(inspect.getsource(functions[0])))
    raised = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    names = {getattr(getattr(exc, "func", exc), "id", "") for exc in raised if exc is not None}
    if names - {"InputError"}:  # the glossary says when that one is raised
        assert any(FunctionDoc(function)["Raises"] for function in functions)


@pytest.mark.parametrize("path", [*FUNCTIONS, *CLASSES])
def test_a_public_name_has_an_example(path):
    value = PUBLIC[path]
    (found,) = doctest.DocTestFinder(recurse=False).find(value, value.__name__)
    assert found.examples, "an Examples section with lines that start with >>>"
    skipped = all(each.options.get(doctest.SKIP) for each in found.examples[-1:])
    assert skipped == (path in NOT_RUN), "its last line runs, or NOT_RUN says why not"
    if path not in CLASSES or not _is_record(value):
        assert value.__name__ in "".join(each.source for each in found.examples)


def _modules_with_examples():
    for path in sorted(SOURCE.rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("module", _modules_with_examples())
def test_examples_show_what_they_say(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    runner = doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    try:
        examples = doctest.DocTestFinder().find(importlib.import_module(module))
    except gnncal.MissingExtraError as error:
        pytest.skip(str(error))
    missing = [reason for example in examples if (reason := _run(runner, example))]
    if missing:
        pytest.skip(missing[0])


def _run(runner, example):
    """Run the lines of one docstring; return the reason if they need what is not installed."""
    try:
        runner.run(example)
    except doctest.DocTestFailure as failure:
        where = f"{example.name}: {failure.example.source}"
        pytest.fail(f"{where}expected {failure.example.want}got {failure.got}")
    except doctest.UnexpectedException as failure:
        if issubclass(failure.exc_info[0], ImportError):
            return str(failure.exc_info[1])
        raise failure.exc_info[1] from failure
    return None
