"""The notebooks run from top to bottom, and are stored without output."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("torch_geometric")
plt = pytest.importorskip("matplotlib.pyplot")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    return [
        cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook):
    plt.switch_backend("Agg")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook)):
        exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
    assert plt.get_fignums()
    plt.close("all")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_output(notebook):
    for cell in code_cells(notebook):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_there_are_two_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "from_logits_to_decisions",
        "is_my_models_confidence_honest",
    ]
