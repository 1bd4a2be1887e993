"""What is published is complete, and what is declared is what is tested."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import gnncal

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
# What `make test-lowest` installs beside the dependencies and PyTorch: extras, and tools.
EXTRAS = ("parquet", "plot", "report", "scale")
TOOLS = {"hypothesis", "networkx", "numpydoc", "pytest", "pytest-xdist"}


def lower_bounds(requirements):
    found = (re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", line) for line in requirements)
    return {match[1]: match[2] for match in found if match}


def is_requirement(entry):
    return isinstance(entry, str)


def test_the_lowest_versions_are_the_declared_ones():
    extras = PROJECT["optional-dependencies"]
    declared = lower_bounds(PROJECT["dependencies"])
    for extra in EXTRAS:
        declared |= lower_bounds(extras[extra])
    declared |= {
        name: version
        for group in ("test", "dev")
        for name, version in lower_bounds(filter(is_requirement, GROUPS[group])).items()
        if name in TOOLS
    }
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pinned == declared


def test_the_version_is_the_same_everywhere():
    assert PROJECT["version"] == gnncal.__version__
    for name in ("CITATION.cff", "conda/meta.yaml"):
        assert f"version: {gnncal.__version__}" in (ROOT / name).read_text().replace('"', "")


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "conda/meta.yaml").read_text()
    lines = re.findall(r"^    - ([\w-]+ >=[\d.]+)$", recipe.partition("  run:\n")[2], flags=re.M)
    given = lower_bounds(line.replace(" ", "") for line in lines)
    assert given == {"python": "3.11", **lower_bounds(PROJECT["dependencies"])}


def test_actions_are_pinned_by_their_commit():
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        for action in re.findall(r"uses: (.*)", workflow.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[\d.]+", action)


def test_the_local_script_runs_every_make_target_of_the_workflow():
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    asked = re.findall(r"^ +- run: (make [\w-]+)$", workflow, flags=re.M)
    run = re.findall(r"^ *step (make [\w-]+)", (ROOT / ".ci/run").read_text(), flags=re.M)
    assert "make test-lowest" in asked
    assert set(asked) <= set(run)
    assert run[-1] == "make test-all"  # the last line is a summary of pytest


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The content of the wheel, as an installer unpacks it."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_has_every_file_of_the_package(installed):
    source = ROOT / "src"
    wanted = {
        file.relative_to(source)
        for package in ("gnncal", "gnncal_lab")
        for file in (source / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    there = {file.relative_to(installed) for file in installed.rglob("*")}
    assert wanted <= there
    assert {path.suffix for path in wanted} > {".csv", ".html", ".css", ".js", ".typed"}


def test_the_wheel_runs_the_quick_start(installed, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "packaging" / "quick_start.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    assert done.returncode == 0, done.stderr
    assert f"of {installed / 'gnncal'} works" in done.stdout
