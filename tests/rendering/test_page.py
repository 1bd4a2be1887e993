"""Pages: safe JSON, one file, nothing from outside."""

import json
import math
import re
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnncal.rendering.page import plain, to_json


@given(st.text())
def test_text_survives_and_cannot_end_the_script_element(text):
    written = to_json({"name": text})
    assert json.loads(written) == {"name": text}
    assert not re.search("[<>&]", written)


def test_what_json_cannot_say_is_null():
    assert plain([math.nan, math.inf, np.float32(-np.inf), 1.5]) == [None, None, None, 1.5]


def test_records_and_arrays_become_plain_data():
    @dataclass(frozen=True)
    class Record:
        values: np.ndarray
        name: bytes
        inner: dict

    record = Record(np.array([[1, 2], [3, 4]]), b"caf\xc3\xa9", {3: (np.int64(4), None, True)})
    assert plain(record) == {
        "values": [[1, 2], [3, 4]],
        "name": "café",
        "inner": {"3": [4, None, True]},
    }


def test_numbers_keep_six_digits():
    assert plain(0.123456789) == 0.123457
    assert plain(123456789.0) == 123457000.0
    assert plain(123456789) == 123456789
