"""engine: what this machine, or the container that the process is in, has for Spark."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline import resources

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of a container's memory, by the kernel's second and first interface."""


def this() -> resources.Machine:
    """Return what this process may use."""
    limits = [*_limits(), *_physical()]
    return resources.Machine(memory_bytes=min(limits, default=None), cores=_cores())


def _physical() -> list[int]:
    try:
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (OSError, ValueError):
        return []


def _limits() -> list[int]:
    limits = []
    for path in CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal():  # else it is "max"
            limits.append(int(text))
    return limits


def _cores() -> int:
    # Linux knows which cores the process may use; elsewhere it may use all.
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity is not None else os.cpu_count()) or 1
