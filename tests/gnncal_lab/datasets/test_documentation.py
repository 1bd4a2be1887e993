"""docs/datasets.md shows the table of facts and nothing else."""

from pathlib import Path

import pytest

from gnncal_lab.datasets import FACTS

PAGE = Path(__file__).parents[3] / "docs" / "datasets.md"
REVERSE = {"listed": "as listed", "merged": "merged", "appended": "appended"}


@pytest.mark.parametrize("name", FACTS)
def test_the_page_has_the_facts_of_each_graph(name):
    facts = FACTS[name]
    counts = (f"{n:,}" for n in (facts.n_nodes, facts.n_edges, facts.n_classes, facts.n_features))
    homophily = f"{facts.homophily:.3f} ± {facts.homophily_std:.3f}"
    loops = "yes" if facts.self_loops else "no"
    row = [name, *counts, homophily, REVERSE[facts.family.reverse], loops]
    assert f"| {' | '.join(row)} |" in PAGE.read_text()
