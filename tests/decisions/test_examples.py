import doctest
import importlib
import pkgutil

import pytest

from gnncal import decisions

MODULES = [f"gnncal.decisions.{module.name}" for module in pkgutil.iter_modules(decisions.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_show_what_really_comes(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
