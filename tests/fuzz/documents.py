"""Every small change to a JSON document: an entry removed, or something else in its place."""

import copy

REMOVED = object()
DEEP = []
for _ in range(400):
    DEEP = [DEEP]
ODD = {
    "removed": REMOVED,
    "null": None,
    "true": True,
    "text": "x",
    "number as text": "0.5",
    "half a surrogate pair": "\ud800",
    "long text": "y" * 5000,
    "empty list": [],
    "list": [1, "x", None],
    "list of lists": [[]],
    "deep": DEEP,
    "object": {"a": 1},
    "negative": -3,
    "fraction": 0.123,
    "nan": float("nan"),
    "infinity": float("inf"),
    "huge": 10**400,
    "larger than 64 bits": 2**64,
    "huge float": 1e308,
}


def places_of(document, at=()):
    """The path of every entry; of a long list only of its first and last."""
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = sorted({0, len(document) - 1}) if document else []
    else:
        keys = []
    for key in keys:
        yield (*at, key)
        yield from places_of(document[key], (*at, key))


def changed(document, place, value):
    """A copy of the document with this value at a place."""
    document = copy.deepcopy(document)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    if value is REMOVED:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return document


def get(document, place):
    for key in place:
        document = document[key]
    return document


def changes_of(document):
    """Yield (what it is, place, document) of every change, wrong lengths of lists included."""
    for place in places_of(document):
        for name, value in ODD.items():
            yield name, place, changed(document, place, value)
        old = get(document, place)
        if isinstance(old, list) and old:
            yield "too long", place, changed(document, place, [*old, old[-1]])
            yield "too short", place, changed(document, place, old[:-1])
