"""The table of published settings."""

import inspect

import pytest

import gnncal
from gnncal.calibrators.catalogue import CALIBRATORS
from gnncal.calibrators.settings import TABLES

DATASETS = (
    "Cora", "CiteSeer", "PubMed", "CoraFull", "Computers", "Photo", "CS", "Physics", "Texas",
    "Cornell", "Wisconsin", "Chameleon", "Squirrel", "Actor", "Roman-Empire", "tolokers",
    "ogbn-arxiv", "Reddit", "unheard of",
)  # fmt: skip


@pytest.mark.parametrize("method", sorted(set(TABLES) & set(CALIBRATORS)))
@pytest.mark.parametrize("source", ["hots", "original"])
def test_every_setting_is_a_parameter_of_the_method(method, source):
    allowed = set(inspect.signature(CALIBRATORS[method]).parameters)
    for dataset in DATASETS:
        for backbone in ("gcn", "gat", "gin"):
            settings = gnncal.settings_for(method, dataset, backbone, source=source)
            assert set(settings) <= allowed


@pytest.mark.parametrize(
    ("method", "dataset", "backbone", "source", "expected"),
    [
        ("cagcn", "Cora", "gcn", "hots", {"weight_decay": 0.0, "dropout": 0.5}),
        ("cagcn", "CoraFull", "gat", "original", {"weight_decay": 0.03, "dropout": 0.6}),
        ("gats", "Cora", "gcn", "hots", {"heads": 2, "weight_decay": 0.0}),
        ("gats", "Texas", "gcn", "hots", {"heads": 8}),
        ("gats", "PubMed", "gat", "original", {"heads": 8, "weight_decay": 0.2}),
        ("gats", "CoraFull", "gcn", "original", {"base_temperature": 1.5, "weight_decay": 0.01}),
        ("gats", "Actor", "gcn", "original", {"weight_decay": 1e-3}),
        ("gets", "Photo", "gcn", "hots", {"hidden": 32, "balance_weight": 0.1}),
        ("gets", "Cora", "gat", "hots", {"learning_rate": 1e-3, "experts_per_node": 2}),
        ("gets", "Texas", "gcn", "hots", {"learning_rate": 0.01, "degree_width": 16}),
        ("gets", "tolokers", "gcn", "original", {"hidden": 32, "experts_per_node": 1}),
        ("wats", "Cora", "gcn", "hots", {"order": 2, "scale": 1.2, "hidden": 16, "dropout": 0.95}),
        ("wats", "Texas", "gcn", "hots", {"hidden": 16, "dropout": 0.4}),
        ("wats", "CoraFull", "gcn", "original", {"order": 4, "hidden": 128, "dropout": 0.3}),
        ("dirichlet", "CoraFull", "gat", "original", {"penalty": 1e5}),
        ("order-invariant", "CS", "gcn", "hots", {"weight_decay": 5e-3}),
        ("rbs", "PubMed", "gat", "original", {"n_bins": 4}),
    ],
)
def test_values_of_the_publications(method, dataset, backbone, source, expected):
    settings = gnncal.settings_for(method, dataset, backbone, source=source)
    assert expected.items() <= settings.items()


def test_methods_without_settings_have_none_and_unknown_ones_are_refused():
    assert gnncal.settings_for("ts", "Cora", "gcn") == {}
    assert gnncal.settings_for("rbs", "Texas", "gcn") == {}
    with pytest.raises(gnncal.InputError, match="no calibrator 'magic'"):
        gnncal.settings_for("magic", "Cora", "gcn")
    with pytest.raises(gnncal.InputError, match="source is 'mine'; expected 'hots' or 'original'"):
        gnncal.settings_for("gats", "Cora", "gcn", source="mine")


def test_published_settings_are_found_in_any_case_and_left_to_the_default_elsewhere():
    assert gnncal.settings_for("gets", "cora", "gcn") == gnncal.settings_for("gets", "Cora", "gcn")
    upper = gnncal.settings_for("gats", "Cora", "GAT", source="original")
    assert upper["weight_decay"] == 0.01
    # The class knows the rule, which goes by the number of classes.
    for dataset in ("Texas", "Reddit", "my graph"):
        assert gnncal.settings_for("dirichlet", dataset, "gcn") == {}
