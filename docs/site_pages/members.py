"""What the reference shows: methods of a class, parents by public names, a line for a value."""

from __future__ import annotations

import re
from typing import Any

import gnncal

# scikit-learn adds these to every estimator; they say which arguments a pipeline passes on.
ROUTING = re.compile(r"set_\w+_request$")

VALUES = {  # values have no docstring, and Python would show that of their type
    "gnncal.metrics.METRICS": "Every metric by its name.",
    "gnncal.testing.LAWS": "Every law that ``check_calibrator`` checks.",
    "gnncal_lab.datasets.FACTS": "Source and expected statistics of the paper's graphs, by name.",
}


def skip_routing(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to every class."""
    return True if ROUTING.match(name) else None


def public_parent(kind: type) -> str | None:
    """Return the nearest parent that users can import from gnncal, as a reference to its page."""
    for parent in getattr(kind, "__mro__", ()):  # a NamedTuple names a function as its base
        for module in (gnncal, gnncal.calibrators):
            if getattr(module, parent.__name__, None) is parent:
                return f":py:class:`{module.__name__}.{parent.__name__}`"
    return None


def name_bases(app: Any, name: str, obj: Any, options: Any, bases: list[Any]) -> None:
    """Refer to parents by the names that users import."""
    found = [public_parent(base) or f":py:class:`{base.__name__}`" for base in bases]
    bases[:] = list(dict.fromkeys(found))


def describe_value(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Describe a public value."""
    if name in VALUES:
        lines[:] = [VALUES[name], ""]


def link_pages(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn paths of pages, as a docstring has them, into links."""
    lines[:] = [re.sub(r"\bdocs/(\w+)\.md\b", r":doc:`/\1`", line) for line in lines]


def leave_out_what_a_page_of_a_method_says(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Cut summary and advice, which stand at the top of a method's page, from its docstring."""
    if what == "class" and app.env.docname.startswith("methods/"):
        _, _, text = "\n".join(lines).partition("\n\n")
        text = re.sub(r"(?m)^Notes\n-----\n.+(\n.+)*\n", "Notes\n-----\n", text)
        lines[:] = re.sub(r"Notes\n-----\n\s*(?=\Z|\w+\n---)", "", text).splitlines()


def setup(app: Any) -> dict[str, bool]:
    """Connect them to autodoc."""
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("autodoc-process-bases", name_bases)
    app.connect("autodoc-process-docstring", describe_value)
    # Before numpydoc turns sections into markup.
    app.connect("autodoc-process-docstring", leave_out_what_a_page_of_a_method_says, priority=100)
    app.connect("autodoc-process-docstring", link_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
