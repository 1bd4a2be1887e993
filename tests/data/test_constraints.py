"""A constraint accepts what it names and refuses the rest with one sentence."""

from typing import ClassVar

import numpy as np
import pytest

import gnncal
from gnncal.calibrators.hots import LOW_AND_HIGH
from gnncal.data.constraints import FLAG, NONE, SEED, integer, number, one_of
from gnncal.data.errors import short_repr

NO_NUMBERS = ("x", None, True, np.True_, [1], np.ones(1), 1j, float("nan"), float("inf"))


@pytest.mark.parametrize(
    ("constraint", "accepted", "refused", "expected"),
    [
        (integer(at_least=1), (1, np.int64(5)), (0, 1.0, 2.5), "a whole number of at least 1"),
        (integer(at_least=1, at_most=7), (1, 7), (0, 8), "a whole number from 1 to 7"),
        (number(), (-2.0, 3, np.float32(1)), (), "a finite number"),
        (number(above=0), (1e-9, 3), (0, -1), "a positive number"),
        (number(above=1), (1.1,), (1,), "a number above 1"),
        (number(at_least=0), (0, 2.5), (-0.1,), "a number of at least 0"),
        (number(at_most=3), (3, -9), (3.1,), "a number of at most 3"),
        (number(below=3), (2.9,), (3,), "a number below 3"),
        (number(at_least=0, below=1), (0, 0.9), (1, -1), r"a number in [0, 1)"),
        (number(above=0, at_most=1), (1, 0.1), (0, 1.1), r"a number in (0, 1]"),
    ],
)
def test_numbers(constraint, accepted, refused, expected):
    assert constraint.expected == expected
    for value in accepted:
        constraint.check("size", value)
    for value in (*refused, *NO_NUMBERS):
        with pytest.raises(gnncal.InputError) as caught:
            constraint.check("size", value)
        assert str(caught.value) == f"size is {short_repr(value)}; expected {expected}."


@pytest.mark.parametrize(
    ("constraint", "accepted", "refused", "expected"),
    [
        (one_of("in", "out"), ("in",), ("IN", None, 1, ["in"], np.ones(3)), "'in' or 'out'"),
        (one_of("in") | NONE, ("in", None), ("out",), "'in' or None"),
        (FLAG, (True, np.False_), (0, 1, "True", None), "True or False"),
        (SEED, (0, None), (-1, 2**32, 0.5, "x"), SEED.expected),
        (
            LOW_AND_HIGH,
            ((0.5, 2), [1, 1], np.array([0.5, 2.0])),
            ((2, 1), (0, 1), (1,), 3, "ab", None, ("a", "b"), np.ones((2, 2))),
            "two numbers (low, high) with 0 < low <= high",
        ),
    ],
)
def test_words_flags_seeds_and_ranges(constraint, accepted, refused, expected):
    assert constraint.expected == expected
    for value in accepted:
        constraint.check("side", value)
    for value in refused:
        with pytest.raises(gnncal.InputError, match="side is "):
            constraint.check("side", value)


class Sized(gnncal.calibrators.TemperatureScaling):
    constraints: ClassVar = {"size": number(above=0)}

    def __init__(self, *, size=1.0, protocol="converged"):
        self.size = size
        self.protocol = protocol


def test_a_fit_checks_the_parameters_before_anything_else():
    with pytest.raises(gnncal.InputError, match=r"^size is 'x'; expected a positive number\.$"):
        Sized(size="x").fit("no logits at all")


def test_values_in_messages_are_plain_and_short():
    assert short_repr(np.int64(9999)) == "9999"
    assert short_repr(np.float32(0.5)) == "0.5"
    assert short_repr(np.str_("id")) == "'id'"
    assert short_repr(np.array(3)) == "3"
    assert len(short_repr(np.arange(100.0))) == 60
    assert "\n" not in short_repr(np.ones((3, 3)))
