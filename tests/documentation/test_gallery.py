"""The examples of the gallery run from top to bottom."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("torch_geometric")
pytest.importorskip("duckdb")
plt = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "gallery").glob("*.py"))


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_download(example, monkeypatch, capsys):
    monkeypatch.delenv("GNNCAL_DATA", raising=False)
    plt.switch_backend("Agg")
    runpy.run_path(str(example))
    drawn = len(plt.get_fignums())
    plt.close("all")
    assert capsys.readouterr().out or drawn
