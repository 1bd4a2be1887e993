"""The laboratory comes in through the door that everybody has, and needs no other."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import gnncal
import gnncal_lab
from gnncal.__main__ import app
from gnncal.calibrators.homophily import from_plain, make_estimator, to_plain
from gnncal.calibrators.homophily import name_of as name_of_estimator
from gnncal.calibrators.registry import CALIBRATORS, PRESETS, provider_of, resolve
from gnncal.testing.tasks import small_task
from gnncal_lab.verbs import BENCH

SOURCE = Path(gnncal_lab.__file__).parent
METHODS = [
    *(SOURCE / "methods").rglob("*.py"),
    *(SOURCE / "fitting").rglob("*.py"),
    SOURCE / "reliability.py",
    SOURCE / "verbs.py",
]
COMPARED = (
    "cagcn gats gets wats simi-mailbox order-invariant ets spline histogram matrix dirichlet vs"
)
COMPARED += " beta platt rbs isotonic hts-log"


def imported(file):
    """What a file imports of gnncal, as module and name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gnncal":
            yield from ((node.module, alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("gnncal.") for alias in node.names)


@pytest.mark.parametrize("file", METHODS, ids=lambda file: file.relative_to(SOURCE).as_posix())
def test_methods_need_nothing_private(file):
    private = [
        (module, name)
        for module, name in imported(file)
        if module.count(".") > 1 or name not in import_module(module).__all__
    ]
    assert private == []


def test_the_product_has_its_own_methods_and_the_laboratory_the_others():
    own = {"uncalibrated", "ts", "hts", "svs", "sms", "irm", "hots", "structural", "auto"}
    assert set(CALIBRATORS) == {*own, "structural-temperature"}
    assert set(PRESETS) == {"hots-paper", "structural-free"}
    for name in COMPARED.split():
        assert resolve(name)[1].kind.__module__.startswith("gnncal_lab.")
        assert provider_of(name) == "gnncal"
    ablations = {"entropy-only", "homophily-only", "hots-alpha1", "structural-vector"}
    known = {*own, *PRESETS, *COMPARED.split(), *ablations}
    assert known <= set(gnncal.list_calibrators())


@pytest.mark.parametrize("name", ["vs", "entropy-only", "hots"])
def test_saved_files_of_the_laboratorys_methods_load(name, tmp_path):
    task = small_task()
    params = {"homophily": "agreement"} if name == "hots" else {}
    fitted = task.fit(gnncal.get_calibrator(name, **params))
    fitted.save(tmp_path / "c.safetensors")
    loaded = gnncal.load(tmp_path / "c.safetensors")
    assert type(loaded) is type(fitted)
    expected = fitted.predict_proba(task.logits, task.graph)
    assert (loaded.predict_proba(task.logits, task.graph) == expected).all()


@pytest.mark.parametrize("name", ["agreement", "cross-fitted"])
def test_estimators_of_the_laboratory_have_names(name):
    estimator = make_estimator(name)
    assert name_of_estimator(estimator) == name
    assert from_plain(to_plain(estimator)) == estimator


def test_importing_and_calibrating_never_import_the_laboratory():
    script = (
        "import sys, gnncal; t = gnncal.example(); "
        "gnncal.calibrate(t.logits, t.labels, t.graph, **t.splits); "
        "assert not any(name.startswith('gnncal_lab') for name in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_the_help_imports_no_more_of_the_laboratory_than_its_list_of_verbs():
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom gnncal.__main__ import app\n"
        "assert 'csbm' in CliRunner().invoke(app, ['--help']).stdout\n"
        "print(sorted(name for name in sys.modules if name.startswith('gnncal_lab')), "
        "'sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "['gnncal_lab', 'gnncal_lab.verbs'] False", done.stderr


def test_the_laboratorys_verbs_are_listed_after_the_products():
    listed = CliRunner().invoke(app, ["--help"]).stdout
    places = [listed.index(f"  {verb} ") for verb in ("calibrate", "demo", "bench", "csbm")]
    assert places == sorted(places)
    assert "Usage: gnncal bench run" in CliRunner().invoke(app, ["bench", "run", "--help"]).stdout
    declared = {each.name for each in entry_points(group="gnncal.commands")}
    assert {"bench", "block-model", "csbm"} <= declared


def test_every_command_of_bench_shows_an_example_that_can_be_typed():
    program = typer.main.get_command(app)
    _, bench, _ = program.resolve_command(typer.Context(program), ["bench"])
    assert {example.split()[1] for example in BENCH.examples} == set(bench.commands)
    for example in BENCH.examples:
        verb, name, *words = example.split()
        bench.commands[name].make_context(name, words)  # refuses options that are not there
        shown = CliRunner().invoke(app, [verb, name, "-h"], env={"COLUMNS": "100"}).stdout
        assert f"gnncal {example}" in shown
