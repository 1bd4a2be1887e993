"""The published records are still what the code would compute: nothing is run again."""

from pathlib import Path

import pytest

from gnncal_lab.bench.plan import VARIANTS, is_current
from gnncal_lab.bench.records import read_records

RESULTS = Path(__file__).parents[3] / "results"
WITH_HOMOPHILY = ("hots", "homophily-only", "hots-alpha1", *VARIANTS)
NEURAL = ("cagcn", "gats", "gets", "wats")


@pytest.fixture(scope="module")
def records():
    if not RESULTS.is_dir():
        pytest.skip("the records come with the repository")
    return [record for record in read_records(RESULTS).values() if record.error is None]


def test_records_of_homophily_methods_from_before_estimators_were_objects_are_current(records):
    chosen = [record for record in records if record.method in WITH_HOMOPHILY]
    assert {record.method for record in chosen} == set(WITH_HOMOPHILY)
    for record in chosen:
        assert is_current(record.parameters, record.cell), record.cell
        assert not is_current({**record.parameters, "epsilon": 0.5}, record.cell)


def test_records_of_neural_methods_are_current_but_for_gats_with_eight_heads_on_actor(records):
    chosen = [record for record in records if record.method in NEURAL]
    assert {record.method for record in chosen} == set(NEURAL)
    for record in chosen:
        outdated = record.cell[0] == "Actor" and record.parameters.get("heads") == 8
        assert is_current(record.parameters, record.cell) != outdated, record.cell
