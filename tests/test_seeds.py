"""What a test draws depends on its name and on the seed of the run, not on the tests before it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import json, random, sys, types
from pathlib import Path
import numpy as np
import pytest

seeds = []
sys.modules["torch"] = types.SimpleNamespace(manual_seed=seeds.append)  # quicker than the true one

@pytest.mark.parametrize("name", ["first", "second"])
def test_draws(name):
    drawn = [random.random(), np.random.random(), seeds[-1]]
    Path(__file__).with_name(name).write_text(json.dumps(drawn))
"""


def drawn(folder, *chosen, seed=""):
    """Run the tests, or some, and return what each drew."""
    for name in ("first", "second"):
        (folder / name).unlink(missing_ok=True)
    chosen = [f"{folder / 'test_them.py'}{name}" for name in chosen or [""]]
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"GNNCAL_TEST_SEED": seed},
        check=True,
        timeout=300,
    )
    return [json.loads((folder / name).read_text()) for name in ("first", "second")]


@pytest.mark.slow
def test_a_test_draws_the_same_after_whichever_test_it_runs(tmp_path):
    (tmp_path / "test_them.py").write_text(TESTS)
    first, second = drawn(tmp_path)
    assert drawn(tmp_path, "::test_draws[second]", "::test_draws[first]") == [first, second]
    for other in (second, *drawn(tmp_path, seed="1")):
        assert all(number != another for number, another in zip(first, other, strict=True))
