"""Pages: safe JSON, one file, nothing from outside."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st
from plotly.offline import get_plotlyjs

from gnncal.reporting.page import _parsed_at_once, to_json


@given(st.text())
def test_text_survives_and_cannot_end_the_script_element(text):
    written = to_json({"name": text})
    assert json.loads(written) == {"name": text}
    assert not re.search("[<>&]", written)


def test_plotly_is_read_once_and_nothing_of_it_is_lost():
    released, script = get_plotlyjs().rstrip(), _parsed_at_once(get_plotlyjs())
    without = str.maketrans("", "", "()")
    assert len(script) == len(released) + 2
    assert script.translate(without) == released.translate(without)


def test_a_plotly_that_begins_otherwise_is_left_as_it_is():
    assert _parsed_at_once("window.Plotly = {};\n") == "window.Plotly = {};"
