"""Files of format 2 load under today's names, with the probabilities that they gave then."""

from pathlib import Path

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.catalogue import OLDER_NAMES, name_of

FILES = Path(__file__).parent / "older_files" / "format_2"
NAMES = [file.stem for file in sorted(FILES.glob("*.safetensors"))]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_format_2_gives_the_probabilities_that_it_gave(name):
    expected = np.load(FILES / "expected.npz")
    logits, graph = expected["logits"], gnncal.Graph(expected["edge_index"], 80)
    calibrator = gnncal.load(FILES / f"{name}.safetensors")
    expected_name = "auto" if name.startswith("auto") else OLDER_NAMES.get(name, name)
    assert name_of(calibrator) == expected_name
    assert calibrator.class_names_ == ["a", "b", "c"]
    np.testing.assert_allclose(
        calibrator.predict_proba(logits, graph), expected[name], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", NAMES)
def test_such_a_file_can_be_saved_again(name, tmp_path):
    calibrator = gnncal.load(FILES / f"{name}.safetensors")
    calibrator.save(tmp_path / "again.safetensors")
    assert name_of(gnncal.load(tmp_path / "again.safetensors")) == name_of(calibrator)


def test_every_older_name_has_a_file():
    assert set(OLDER_NAMES) <= set(NAMES)
