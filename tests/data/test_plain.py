"""Values as JSON can say them."""

import math
from dataclasses import dataclass

import numpy as np

from gnncal.data.errors import to_jsonable


def test_what_json_cannot_say_is_null():
    assert to_jsonable([math.nan, math.inf, np.float32(-np.inf), 1.5]) == [None, None, None, 1.5]


def test_records_and_arrays_become_plain_data():
    @dataclass(frozen=True)
    class Record:
        values: np.ndarray
        name: bytes
        inner: dict

    record = Record(np.array([[1, 2], [3, 4]]), b"caf\xc3\xa9", {3: (np.int64(4), None, True)})
    assert to_jsonable(record) == {
        "values": [[1, 2], [3, 4]],
        "name": "café",
        "inner": {"3": [4, None, True]},
    }


def test_digits_round_fractions_and_leave_whole_numbers():
    assert to_jsonable(0.123456789, digits=6) == 0.123457
    assert to_jsonable(123456789.0, digits=6) == 123457000.0
    assert to_jsonable(123456789, digits=6) == 123456789
