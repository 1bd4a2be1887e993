"""The README's Python and commands run as they stand."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import gnncal
import gnncal_lab
from gnncal.__main__ import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


@pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning")
def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    homophily = np.random.default_rng(0).uniform(0.2, 0.95, 600)
    sample = gnncal_lab.simulation.CSBM().sample(homophily)
    position = torch.arange(600)
    data = pyg.Data(
        x=torch.tensor(sample.graph.features),
        edge_index=torch.tensor(sample.graph.edge_index.astype(np.int64)),
        y=torch.tensor(sample.labels),
        train_mask=position < 200,
        val_mask=(position >= 200) & (position < 400),
        test_mask=position >= 400,
    )
    logits = 3 * data.x[:, :5]
    names = {
        "data": data,
        "logits": logits,
        "new_logits": logits[:50],
        "new_graph": gnncal.Graph([[0, 1], [1, 2]], 50),
    }
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, names)
    assert names["result"].probabilities.shape == (600, 5)
    assert names["result"].comparison.prediction_change_rate == 0.0
    assert names["paper"].calibrator.protocol == "paper"
    edges = torch.tensor(names["new_graph"].edge_index.astype(np.int64))
    from_module = names["module"](names["new_logits"], edges)
    assert np.allclose(from_module.detach().numpy(), names["new_probs"], atol=1e-4)


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    lines = re.findall(r"^    (gnncal .*?)(?: #.*)?$", README.read_text(), flags=re.M)
    assert len(lines) >= 6
    for line in sorted(lines, key=lambda line: line != "gnncal demo"):
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, (line, done.output)


def test_the_readme_is_short():
    text = re.sub(r"```.*?```|<!--.*?-->", "", README.read_text(), flags=re.S)
    text = re.sub(r"^(?:\||!\[| {4}).*$", "", text, flags=re.M)  # tables, images, commands
    assert len(text.partition("## Tasks")[0].split()) < 480


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", re.sub(r"`[^`]*`", "", page.read_text())):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), (page.name, target)
