"""What the pages name is there: commands with their options, methods, files."""

import importlib
import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest
import typer.main

import gnncal
from gnncal.__main__ import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))
YOURS = {"src/gnncal/calibrators/your_method.py"}  # a file that a contributor writes
FOLDERS = ("benchmarks/", "docs/", "examples/", "notebooks/", "src/", "templates/", "tests/")
# What begins with the program's name in backticks or in code, which is indented or fenced.
COMMAND = re.compile(r"(?:^ {4}|`)(gnncal [a-z][^`\n#]*)", flags=re.M)
FENCED = re.compile(r"^```(?:bash|console)?\n(.*?)^```", flags=re.M | re.S)


def commands(text):
    whole = text.replace("\\\n", " ")
    fenced = [
        line
        for block in FENCED.findall(whole)
        for line in re.findall(r"^gnncal [^\n#]*", block, flags=re.M)
    ]
    for found in [*COMMAND.findall(whole), *fenced]:
        try:
            yield shlex.split(found)[1:]
        except ValueError:  # a sentence with an apostrophe
            yield found.split()[1:]


def unknown(words):
    """What of a command the program does not know: a verb or an option."""
    command = typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        name, *words = words
        if name in ("VERB", "--help", "--version") or not re.fullmatch(r"[a-z-]+", name):
            return
        if name not in command.list_commands(None):
            yield name
            return
        _, command, _ = command.resolve_command(None, [name])
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
    for word in words:
        if re.match(r"--[a-z]", word) and word.partition("=")[0].rstrip(".,;:)") not in options:
            yield word


@pytest.mark.parametrize("page", [*PAGES, *GALLERY], ids=lambda path: path.name)
def test_commands_on_a_page_are_those_of_the_program(page):
    text = page.read_text().replace("``", "`").replace("\n# ", " ")
    wrong = {f"{' '.join(words)}: {name}" for words in commands(text) for name in unknown(words)}
    assert not wrong


def test_the_test_above_sees_a_verb_and_an_option_that_are_not_there():
    assert list(unknown(["calibrat", "in.npz"])) == ["calibrat"]
    assert list(unknown(["bench", "run", "--outt", "x"])) == ["--outt"]
    assert list(unknown(["decide", "in.npz", "--act", "0.9", "--free"])) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_methods_of_our_own_on_a_page_are_there(page):
    families = r"`((?:structural|hots|hts|entropy|homophily)-[a-z0-9-]+)`"
    benchmark = set(re.findall(families, (ROOT / "docs" / "benchmark.md").read_text()))
    known = {*gnncal.list_calibrators(), *(name for name in benchmark if name.startswith("hots-"))}
    assert set(re.findall(families, page.read_text())) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_files_of_this_repository_on_a_page_are_there(page):
    path = r"(?<![\w/.-])((?:[\w.-]+/)+[\w.-]+\.(?:py|md|json|csv|ipynb))\b"
    named = re.findall(path, page.read_text())
    missing = {
        name for name in named if name.startswith(FOLDERS) and not (ROOT / name).exists()
    } - YOURS
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_names_of_the_library_on_a_page_are_there(page):
    for dotted in set(re.findall(r"`gnncal((?:\.\w+)+)[(`]", page.read_text())):
        found = gnncal
        with suppress(gnncal.MissingExtraError):  # of a package that is not installed here
            for name in dotted.split(".")[1:]:
                if not hasattr(found, name):
                    found = importlib.import_module(f"{found.__name__}.{name}")
                else:
                    found = getattr(found, name)


def test_what_a_newcomer_copies_from_the_first_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("plotly")
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "get_started.md").read_text(), flags=re.S
    )
    own = [block for block in blocks if "data." not in block]  # others need the reader's model
    assert len(own) >= 5
    exec(compile("\n".join(own), "get_started.md", "exec"), {})
    assert (tmp_path / "report.html").exists()
    assert "after - before" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_python_of_the_page_on_evaluation_runs(tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    text = (ROOT / "docs" / "evaluate.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        if '"fraud"' not in block:  # needs the reader's data
            exec(compile(block, "evaluate.md", "exec"), names)
    plt.close("all")


def test_the_table_of_graphs_is_calibrated_as_the_page_says():
    pytest.importorskip("plotly")
    task = gnncal.example()
    names = {"gnncal": gnncal, "logits": task.logits, "labels": task.labels}
    names |= {"val": task.calibration_nodes, "train": task.train_nodes, "test": task.test_nodes}
    text = (
        (ROOT / "docs" / "typed_nodes.md")
        .read_text()
        .partition("## Calibrate a classifier of whole graphs")[2]
    )
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    exec(code, names)
    assert names["result"].comparison.nll.high < 0
