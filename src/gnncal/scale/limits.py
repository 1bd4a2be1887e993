"""How much memory a run may take: limits of the process, and what is free on the machine."""

from __future__ import annotations

import re
from pathlib import Path

from gnncal.data.errors import InputError

LEAST = 2 << 30  # bytes of address space that the libraries of a run reserve, with one thread
PER_THREAD = 256 << 20  # for its stack and the reserves of the allocators
STATM, MEMINFO = Path("/proc/self/statm"), Path("/proc/meminfo")


def spare_address_space() -> int | None:
    """Return the bytes that are left beyond what the libraries need; None without a limit.

    Libraries that run out of address space in the middle of a run crash or wait forever.
    """
    try:
        import resource  # of Unix

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(STATM.read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return None
    if limit == resource.RLIM_INFINITY:
        return None
    spare = limit - used - LEAST
    if spare < 0:
        raise InputError(
            f"there is not enough memory for this: the process may take {limit / 2**30:.1f} GiB of "
            f"address space (ulimit -v) and needs {(used + LEAST) / 2**30:.1f} GiB; allow more."
        )
    return spare


def available_memory() -> int | None:
    """Return the bytes of memory that other programs leave free; None where nobody tells."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) << 10 if found else None
