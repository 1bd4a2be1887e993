"""Whatever a file holds, it is refused with a reason, or what was read can be used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/statm").exists(), reason="memory is limited by what Linux offers"
    ),
]
ROOT = Path(__file__).parents[2]
COUNT = 1200  # of each kind


KINDS = ["bundles", "calibrators", "decisions"]


@pytest.fixture(scope="module")
def results():
    """What came of the files of each kind; one process reads them all, so that a crash is seen."""
    command = [sys.executable, "-m", "tests.fuzz.use_files", str(COUNT), *KINDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]  # a crash has a negative one
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused_or_of_use(kind, results):
    result = results[kind]
    assert result["failures"] == []
    assert result["refused"] + result["used"] == COUNT
    assert min(result["refused"], result["used"]) > 0.1 * COUNT  # else it tests one half only
