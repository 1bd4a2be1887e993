"""Whatever was done to metrics.json, `gnncal report` refuses it in one sentence."""

import json

import numpy as np
import pytest

import gnncal
from gnncal.files.output import seal
from gnncal.metrics.evaluation import Difference
from gnncal.reporting import summary as rendering
from gnncal.scale.summary import FILE, FORMAT, read_summary, write_summary
from tests.fuzz.documents import changes_of
from tests.reporting.test_summary import made_up_summary

pytest.importorskip("jinja2", reason="pages need the extra report")


@pytest.fixture
def content(tmp_path):
    write_summary(made_up_summary(), tmp_path)
    return (tmp_path / FILE).read_bytes()


def refusal(folder):
    with pytest.raises(gnncal.InputError) as raised:
        read_summary(folder)
    said = str(raised.value)
    assert FILE in said
    assert "is not a summary of gnncal scale, or was changed" in said
    assert "\n" not in said
    assert len(said) < 500


@pytest.mark.slow
def test_every_change_is_refused(content, tmp_path):
    for _, _, changed in changes_of(json.loads(content)):
        (tmp_path / FILE).write_text(json.dumps(changed))
        refusal(tmp_path)


def test_one_byte_less_or_another_one_is_refused(content, tmp_path):
    for place in range(0, len(content), 97):
        for damaged in (content[:place], content[:place] + b"~" + content[place + 1 :]):
            (tmp_path / FILE).write_bytes(damaged)
            refusal(tmp_path)


@pytest.mark.parametrize(
    "document",
    [[], 3, None, {}, {"format": 0}, {"format": FORMAT}, {"format": FORMAT, "before": 3}],
)
def test_another_document_with_a_checksum_is_refused(document, tmp_path):
    (tmp_path / FILE).write_bytes(seal(json.dumps(document).encode(), "json"))
    refusal(tmp_path)


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[" * 100_000, b'{"format": 1'])
def test_what_is_no_summary_at_all_is_one_sentence(text, tmp_path):
    (tmp_path / FILE).write_bytes(text)
    refusal(tmp_path)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path):
    with (tmp_path / FILE).open("wb") as file:
        file.truncate(10**12)  # takes no room on the disk
    refusal(tmp_path)


def test_what_is_written_is_read_again_infinite_intervals_included(tmp_path):
    """A single test node has no interval."""
    summary = made_up_summary()
    summary.differences["nll"] = Difference(-0.4, -np.inf, np.inf)
    write_summary(summary, tmp_path)
    assert json.loads((tmp_path / FILE).read_text())["format"] == FORMAT
    again = read_summary(tmp_path)
    assert again.differences == summary.differences
    assert "[-inf, +inf]" in rendering.summary_page(again, title="t")
