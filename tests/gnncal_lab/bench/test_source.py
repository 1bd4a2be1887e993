"""Digests tell code apart that may give other numbers, and only that."""

import subprocess
import sys
from importlib.resources import files
from shutil import copytree, ignore_patterns

import pytest

from gnncal_lab.bench import source
from gnncal_lab.classifiers import list_classifiers
from gnncal_lab.classifiers.treatments import TREATED, parts_of
from tests.methods import slow_unless


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the real package whose files can be changed."""
    for name in source.PACKAGES:
        copytree(files(name), tmp_path / name, ignore=ignore_patterns("__pycache__"))
    monkeypatch.setattr(source, "files", lambda name: tmp_path / name)
    forget()
    yield tmp_path / "gnncal_lab"
    forget()


def forget():
    source.package_source.cache_clear()
    source.training_source.cache_clear()


def digests(package, file, old, new):
    """The digest of GCN's training before and after a change."""
    before = source.training_source("gcn")
    path = package / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    forget()
    return before, source.training_source("gcn")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("classifiers/gcn.py", ".relu()", ".tanh()"),
        ("classifiers/training.py", "epoch += 1", "epoch += 2"),
        ("classifiers/backbones.py", "manual_seed(seed)", "manual_seed(seed + 1)"),
        ("datasets/splits.py", "0.2 * n_nodes", "0.3 * n_nodes"),
    ],
)
def test_another_training_is_another_digest(package, file, old, new):
    before, after = digests(package, file, old, new)
    assert before != after


def test_code_that_the_networks_import_counts_too(package):
    (sparse,) = (name for name in source.training_modules("gcn") if name.endswith(".sparse"))
    file = f"{sparse.replace('.', '/')}.py"
    before, after = digests(package, file, "import annotations", "import annotations\n\nX = 1\n")
    assert before != after


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("classifiers/gat.py", "import torch\n", "import torch\n\nX = 1\n"),
        ("classifiers/training.py", '"""', '"""Another sentence. '),
        ("classifiers/gcn.py", "\n\n\n", "\n\n\n# a remark\n"),
        ("classifiers/backbones.py", '"gat": "GAT"', '"gat": "GAT", "mlp": "MLP"'),
        ("../gnncal/metrics/calibration.py", '"""', '"""Another sentence. '),
        ("bench/plan.py", "import annotations", "import annotations\n\nX = 1\n"),
    ],
)
def test_what_cannot_change_logits_does_not_change_the_digest(package, file, old, new):
    before, after = digests(package, file, old, new)
    assert before == after


def test_a_treatment_counts_for_the_backbones_that_have_it(package):
    names = ("gcn", "gcn+gcl", "gcn+dcgc", "gat+dcgc")
    before = [source.training_source(name) for name in names]
    path = package / "classifiers" / "dcgc.py"
    path.write_text(path.read_text().replace("OFFSET = 10.0, 0.5", "OFFSET = 10.0, 0.6", 1))
    forget()
    after = [source.training_source(name) for name in names]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, False]


def test_any_changed_file_is_another_package(package):
    before = source.package_source()
    (package.parent / "gnncal" / "metrics" / "calibration.py").write_text("# nothing\n")
    forget()
    after = source.package_source()
    assert before["digest"] != after["digest"]
    assert before["version"] == after["version"]


@pytest.mark.parametrize(
    "backbone",
    [
        pytest.param(name, marks=slow_unless(name == "gcn"))
        for name in (*list_classifiers(), *TREATED)
    ],
)
def test_every_module_that_a_training_imports_counts(backbone):
    """Found here by running the import; there by reading the code."""
    pytest.importorskip("torch", reason="classifiers need the extra neural")
    modules = [f"gnncal_lab.classifiers.{name}" for name in ("training", *parts_of(backbone))]
    code = f"import sys, {', '.join(modules)}\n"
    code += "print(*(m for m in sys.modules if m.startswith('gnncal_lab.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("gnncal_lab.") for name in done.stdout.split()}
    followed = {name for name in loaded if name.startswith(source.FOLLOWED)}
    by_settings = {"classifiers.settings", "classifiers.backbones"}
    assert set(source.training_modules(backbone)) == followed - by_settings
