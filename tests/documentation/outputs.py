"""Stored outputs: what a new run may change in them, and what must not stand in them."""

import re
from itertools import zip_longest

# With the spaces before it, because numbers are aligned on the right. Not a part of a word.
NUMBER = re.compile(r" *((?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?)(%?)")
COUNTS = {"24678", "90174"}  # edges of the notebooks' graphs
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
UNSTABLE = {
    "date": rf"\b\d{{4}}-\d\d-\d\d\b|\b\d{{1,2}}\.? {MONTH}\b|\b{MONTH} \d",
    "time": r"\b\d{1,2}:\d\d\b",
    "path": r"(?<![\w./])(?:~|[A-Z]:\\|/\w)[\w.-]*[/\\]",
    "version": r"\b\d+\.\d+\.\d+\b",
    "duration": r"\b\d[\d.,]* ?(?:[nmµu]?s|sec|seconds?|min|minutes?|h|hours?)\b",
}


def differences(stored, new):
    """Lines that differ in more than one unit of the last digit of a measured number.

    Another processor or NumPy rounds some numbers the other way. Counts, which have neither a
    decimal point nor a percent sign, must be the same.
    """
    pairs = zip_longest(stored.splitlines(), new.splitlines())
    return [f"{one!r} is now {two!r}" for one, two in pairs if not same_line(one, two)]


def same_line(one, two):
    if one is None or two is None or one == two:
        return one == two
    if NUMBER.sub("0", one) != NUMBER.sub("0", two):
        return False
    return all(
        first[0] == second[0] or close(first, second)
        for first, second in zip(NUMBER.finditer(one), NUMBER.finditer(two), strict=True)
    )


def close(one, two):
    """Whether two measured numbers differ by at most one unit of the last digit."""
    texts = [match[1].replace(",", "").replace("−", "-") for match in (one, two)]
    decimals = max(len(text.partition(".")[2]) for text in texts)
    if one[2] != two[2] or "e" in "".join(texts).lower() or not (decimals or one[2]):
        return False
    first, second = map(float, texts)
    return round(abs(first - second) * 10**decimals) <= 1


def unstable(text):
    """What another day, machine or version changes, and numbers of more than four digits."""
    for name, pattern in UNSTABLE.items():
        yield from (f"{name}: {match[0]}" for match in re.finditer(pattern, text))
    for match in NUMBER.finditer(text):
        digits = re.sub(r"[eE].*|\D", "", match[1]).lstrip("0").rstrip("0")
        if len(digits) > 4 and match[1] not in COUNTS:
            yield f"number: {match[1]}"
