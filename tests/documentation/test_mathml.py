"""Formulas become MathML that a browser draws by itself."""

import pytest

pytest.importorskip("latex2mathml")
pytest.importorskip("docutils")

from site_pages.mathml import mathml


def test_a_word_is_one_symbol():
    assert "<mi>softmax</mi>" in mathml(r"\mathrm{softmax}(z)", display="block")


def test_the_formula_is_kept_as_text_for_those_who_cannot_see_it():
    formula = mathml('a < b "c"', display="inline")
    assert 'alttext="a &lt; b &quot;c&quot;"' in formula
    assert 'display="inline"' in formula
