"""The README's Python runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

import gnncal
import gnncal_lab

ROOT = Path(__file__).parents[1]


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
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert names["probs"].shape == (600, 5)
    assert names["result"].comparison.prediction_change_rate == 0.0
    assert set(names["actions"]) <= {"act", "clear", "review"}
    edges = torch.tensor(names["new_graph"].edge_index.astype(np.int64))
    from_module = names["module"](names["new_logits"], edges)
    assert np.allclose(from_module.detach().numpy(), names["new_probs"], atol=1e-4)


def test_the_readme_has_under_120_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_the_readmes_table_of_methods_names_no_method_that_is_not_there():
    section = (ROOT / "README.md").read_text().partition("\n## Methods\n")[2]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert named
    assert named <= set(gnncal.list_calibrators())


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", re.sub(r"`[^`]*`", "", page.read_text())):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), (page.name, target)
