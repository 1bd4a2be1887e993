"""`import gnncal` is light: heavy packages are loaded by those who use them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gnncal
import gnncal_lab

TINY_FIT = """
import numpy as np, gnncal
generator = np.random.default_rng(0)
logits, labels = generator.normal(size=(30, 3)), generator.integers(3, size=30)
graph = gnncal.Graph(generator.integers(30, size=(2, 90)), 30)
gnncal.HoTS().fit(logits, labels, graph, calibration_nodes=range(30)).predict_proba(logits, graph)
"""

CALIBRATE = """
import numpy as np, gnncal
generator = np.random.default_rng(0)
logits, labels = generator.normal(size=(60, 3)), generator.integers(3, size=60)
graph = gnncal.Graph(generator.integers(60, size=(2, 300)), 60)
gnncal.calibrate(logits, labels, graph, calibration_nodes=range(30), test_nodes=range(30, 60))
"""
RUN = "import io; from contextlib import redirect_stdout\nwith redirect_stdout(io.StringIO()): "
RUN += "from gnncal.__main__ import app; app({}, standalone_mode=False)"
# scikit-learn imports pandas, pyarrow, narwhals and scipy.stats where they are installed.
SLOW_TO_LOAD = ("sklearn", "scipy.stats", "pandas", "pyarrow", "matplotlib", "torch")


def loaded_by(script, *packages):
    """Which of the packages a script loads, in an interpreter of its own."""
    question = f"\nimport sys\nprint(*(name for name in {packages} if name in sys.modules))"
    command = [sys.executable, "-W", "ignore", "-c", script + question]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_gnncal_loads_nothing_heavy():
    heavy = ("torch", "matplotlib", "sklearn", "scipy", "pyarrow", "networkx")
    assert loaded_by("import gnncal", *heavy) == set()


@pytest.mark.parametrize(
    "script",
    [TINY_FIT, CALIBRATE, RUN.format(["methods"]), RUN.format(["calibrate", "--help"])],
    ids=["hots", "calibrate", "gnncal methods", "gnncal calibrate --help"],
)
def test_calibrating_loads_nothing_that_takes_long(script):
    assert loaded_by(script, *SLOW_TO_LOAD) == set()


UNIX_ALONE = """
import importlib, pkgutil, signal, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("SIGPIPE", "SIGHUP", "SIGALRM", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
import gnncal
for room in ("cli", "data", "files", "metrics", "shift"):
    package = importlib.import_module(f"gnncal.{room}")
    for module in pkgutil.iter_modules(package.__path__, f"gnncal.{room}."):
        importlib.import_module(module.name)
from pathlib import Path
from gnncal.files.output import result_folder
with result_folder(Path("out"), "calibrate") as folder:
    (folder / "summary.json").write_text("{}")
print(*sorted(path.name for path in Path("out").iterdir()))
"""


def test_commands_and_files_need_nothing_that_only_unix_has(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", UNIX_ALONE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.split() == [".gnncal.json", "summary.json"], done.stderr


def test_the_tables_of_datasets_and_classifiers_load_no_torch():
    script = "import gnncal_lab; gnncal_lab.datasets.load, gnncal_lab.classifiers.training_settings"
    assert loaded_by(script, "torch", "torch_geometric") == set()


def test_the_three_tests_above_can_fail():
    pytest.importorskip("matplotlib")
    loaded = loaded_by("import gnncal, matplotlib", "torch", "matplotlib")
    assert loaded == {"matplotlib"}


@pytest.mark.parametrize("package", [gnncal, gnncal_lab], ids=lambda package: package.__name__)
def test_type_checkers_see_every_public_name_as_a_re_export(package):
    tree = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    for alias in (alias for node in imports for alias in node.names):
        assert alias.asname == alias.name  # `X as X` is how a type checker sees one


@pytest.mark.parametrize("name", gnncal.__all__)
def test_every_public_name_resolves(name):
    assert getattr(gnncal, name) is not None
    assert name in dir(gnncal)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No gnncal attribute HotTS"):
        gnncal.HotTS  # noqa: B018
