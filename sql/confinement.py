"""engine: bounds a child process's memory, from inside it.

Where the kernel enforces a limit on address space (Linux), an allocation beyond it fails, and the
process aborts. Address space is larger than memory, because threads and allocators reserve more
than they use, so a thread also compares the resident size with the bound many times a second and
ends the process. On macOS, whose kernel does not enforce RLIMIT_AS, that thread is the only check,
and reads the largest resident size so far. These settings cannot be undone.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Final

from sql import limits

MEMORY_EXIT_CODE: Final = 77
"""The exit code of a process that grew beyond its bound."""

LOOK_SECONDS: Final = 0.05

_STATM: Final = Path("/proc/self/statm")


def confine(growth_bytes: int) -> None:
    """Let this process grow by growth_bytes from its current size; end it if it grows further."""
    address_bytes, begins_at_bytes = _sizes()
    if address_bytes:
        wanted = address_bytes + growth_bytes + limits.ADDRESS_SPACE_SPARE_BYTES
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    watching = threading.Thread(
        target=_watch, args=(begins_at_bytes + growth_bytes,), name="memory", daemon=True
    )
    watching.start()


def resident_bytes() -> int:
    """Return this process's memory; on macOS, its maximum so far."""
    return _sizes()[1]


def yield_to_others() -> None:
    """Give the serving process priority when both need a processor."""
    os.nice(5)


def _watch(resident_bytes_max: int) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        if resident_bytes() > resident_bytes_max:
            os._exit(MEMORY_EXIT_CODE)


def _sizes() -> tuple[int, int]:
    """Return the process's address space (0 where it is not told) and its resident size."""
    try:
        pages = _STATM.read_bytes().split()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return 0, peak if sys.platform == "darwin" else peak * 1024
    page_bytes = resource.getpagesize()
    return int(pages[0]) * page_bytes, int(pages[1]) * page_bytes
