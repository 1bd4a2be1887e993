"""No test reads or writes the user's own cache."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.getbasetemp() / "xdg"  # shared, so that a graph is parsed once
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
