"""The notebooks run from top to bottom, and are stored with their output."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("torch_geometric")
pytest.importorskip("matplotlib")

import run_notebooks  # noqa: E402
from tests.documentation.outputs import differences  # noqa: E402

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    return [
        cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"
    ]


def texts(notebook):
    """What each cell prints and returns; figures differ between machines."""
    return "\n".join(
        f"cell {number}, {output['output_type']}\n"
        + "".join(output.get("text", output.get("data", {}).get("text/plain", [])))
        for number, cell in enumerate(notebook["cells"])
        for output in cell.get("outputs", [])
        if output["output_type"] != "display_data"
    )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_the_text_that_its_cells_print(notebook):
    stored = json.loads(notebook.read_text())
    again = run_notebooks.run(json.loads(notebook.read_text()), figures=False)
    assert differences(texts(stored), texts(again)) == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_figures(notebook):
    kinds = {o["output_type"] for cell in code_cells(notebook) for o in cell["outputs"]}
    assert "display_data" in kinds


def test_there_are_three_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "from_logits_to_decisions",
        "hots_step_by_step",
        "is_my_models_confidence_honest",
    ]
