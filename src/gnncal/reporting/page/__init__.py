"""One self-contained HTML page: a template, a stylesheet, a script, the data, and Plotly.

A page opens from disk and asks the network for nothing. Its data is JSON that the script reads;
all text goes through escaping or becomes text nodes, so names from a stranger's file stay names.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gnncal import __version__
from gnncal.data.errors import require, to_jsonable

DIGITS = 6  # significant digits of a number in the page


def render_page(
    template: str,
    *,
    title: str,
    sections: Sequence[tuple[str, str]],
    data: Mapping[str, Any],
    scripts: Sequence[str],
    package: str = __name__,
    **context: Any,
) -> str:
    """Fill a template that extends ``base.html`` and return the page; a package holds its files."""
    jinja2 = require("jinja2", extra="report", purpose="making a report")
    markup = require("markupsafe", extra="report", purpose="making a report").Markup
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(p, ".") for p in (package, __name__)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"

    def asset(name: str) -> Any:
        return markup(environment.loader.get_source(environment, name)[0])

    return environment.get_template(template).render(
        title=title,
        version=__version__,
        sections=sections,
        data=markup(to_json(data)),
        plotly=markup(_packed_plotly()),
        asset=asset,
        scripts=[asset(name) for name in scripts],
        **context,
    )


def capital(heading: str) -> str:
    """Return a heading with a capital first letter and the rest as it is."""
    return heading[:1].upper() + heading[1:]


def to_json(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(to_jsonable(value, digits=DIGITS), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _packed_plotly() -> str:
    """Plotly's script, compressed, as text."""
    offline = require("plotly.offline", extra="report", purpose="making a report")
    return b64encode(gzip.compress(offline.get_plotlyjs().encode(), 9, mtime=0)).decode()
