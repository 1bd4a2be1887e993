"""Pages: safe JSON, one file, nothing from outside."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from gnncal.reporting.page import to_json


@given(st.text())
def test_text_survives_and_cannot_end_the_script_element(text):
    written = to_json({"name": text})
    assert json.loads(written) == {"name": text}
    assert not re.search("[<>&]", written)
