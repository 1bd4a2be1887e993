"""The published records are still what the code would compute: nothing is run again."""

from pathlib import Path

import pytest

from gnncal.bench.plan import VARIANTS, is_current
from gnncal.bench.records import read_records

RESULTS = Path(__file__).parents[2] / "results"
WITH_HOMOPHILY = ("hots", "homophily-only", "hots-alpha1", *VARIANTS)


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the records come with the repository")
def test_records_of_homophily_methods_from_before_estimators_were_objects_are_current():
    records = [r for r in read_records(RESULTS).values() if r.method in WITH_HOMOPHILY]
    assert {record.method for record in records} == set(WITH_HOMOPHILY)
    for record in records:
        assert record.error is not None or is_current(record.parameters, record.cell), record.cell
        changed = {**record.parameters, "epsilon": 0.5}
        assert not is_current(changed, record.cell)
