"""Formulas as MathML: every current browser draws it, without a script and without the network."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

LETTERS = re.compile(r'<mrow>((?:<mi mathvariant="normal">\w</mi>)+)</mrow>')


def mathml(latex: str, *, display: str) -> str:
    """Return a formula as a MathML element; a word such as ``\\mathrm{softmax}`` is one symbol."""
    markup = LETTERS.sub(lambda word: f"<mi>{re.sub('<.*?>', '', word[1])}</mi>", convert(latex))
    return markup.replace(
        'display="inline"', f'display="{display}" alttext="{escape(latex, quote=True)}"'
    )


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), display="inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that stands alone; it scrolls where it is wider than the page."""
    formula = mathml(node.astext(), display="block")
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Give Sphinx the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
