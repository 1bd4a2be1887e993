"""Names that people type: forgiving of case and of underscores, helpful when misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LIKENESS = 0.7  # of two names, from 0 to 1; 'magic' must not suggest 'cagcn'


def plain_name(name: str) -> str:
    """Return a name in lower case with hyphens: ``Entropy_Only`` becomes ``entropy-only``."""
    return name.strip().lower().replace("_", "-")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'hots'?)" with the known name most like this one, if any is."""
    close = get_close_matches(name, list(known), n=1, cutoff=LIKENESS)
    return f" (did you mean {close[0]!r}?)" if close else ""
