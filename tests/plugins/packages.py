"""Packages with calibrators, laid out as an installer does, without running one."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import copytree, ignore_patterns

import gnncal

TEMPLATE = Path(__file__).parents[2] / "templates" / "plugin"
SOURCE = Path(gnncal.__file__).parents[1]
GROUP = "gnncal.calibrators"


def install_template(site):
    """The template's package in a folder, as `pip install --target` leaves it."""
    about = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    for package in (TEMPLATE / "src").iterdir():
        copytree(package, site / package.name, ignore=ignore_patterns("__pycache__"))
    declare(site, about["name"], about["entry-points"][GROUP], version=about["version"])


def install(site, package, entries, code=""):
    """A package of one module, which has the package's name."""
    site.mkdir(exist_ok=True)
    (site / f"{package}.py").write_text(code)
    declare(site, package, entries)


def declare(site, package, entries, version="1.2"):
    """The metadata of an installed package with these entry points."""
    folder = site / f"{package.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    (folder / "METADATA").write_text(about)
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (folder / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))


def python(site, script, *arguments, cwd=None):
    """What a script prints in an interpreter of its own that finds gnncal and the packages."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(site)])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
