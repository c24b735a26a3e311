"""engine: memory of chunks, used again when its chunk is gone.

A process pays for new memory: the system fills it with zeros, and where it is a guest of another
system, that one may have to find the memory first, which has taken longer than all else that a
fetch takes. So what a chunk has left serves the next one. Large pages are asked for: for each small
page the system is entered once, several times what it takes to fill the page.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
import weakref

import pyarrow as pa

LARGE_BYTES_MIN = 1 << 20
"""Less than this comes from the allocator: the system's list of maps of a process is not long."""
STEP_BYTES = 256 << 10
"""Sizes of maps, so that a chunk fits into the memory of one that was a bit smaller."""


class Pool:
    """Memory that no chunk has; at most free_bytes_max of it. Used by several threads. Mutable.

    A collection of garbage may end the last view of some memory at any call, in the thread that has
    the lock: memory then comes back within another step. So no step depends on what an earlier one
    has seen of the list.
    """

    def __init__(self, *, free_bytes_max: int) -> None:
        self._free_bytes_max = free_bytes_max
        self._lock = threading.RLock()
        self._free: list[mmap.mmap] = []
        self._keeps = False

    @property
    def free_bytes(self) -> int:
        """The size of all free memory."""
        return sum(map(len, self._free))

    def take(self, size_bytes: int) -> memoryview:
        """Return memory, with bytes of an earlier chunk in it, that is free when no view is left.

        Views of it may be shared as views alone: a buffer of Arrow's would not keep it.
        """
        if size_bytes < LARGE_BYTES_MIN:
            return memoryview(bytearray(size_bytes))
        mapped = self._fitting(size_bytes) or _mapped(-(-size_bytes // STEP_BYTES) * STEP_BYTES)
        buffer = pa.py_buffer(mapped)
        weakref.finalize(buffer, self._give_back, mapped).atexit = False
        return memoryview(buffer).cast("B")[:size_bytes]

    def clear(self) -> None:
        """Give all free memory to the system, and what becomes free until the next `take`."""
        with self._lock:
            self._keeps = False
            self._free.clear()

    def _fitting(self, size_bytes: int) -> mmap.mmap | None:
        with self._lock:
            self._keeps = True
            for mapped in reversed(self._free.copy()):
                if size_bytes <= len(mapped) <= size_bytes + size_bytes // 4:
                    with contextlib.suppress(ValueError):  # it has gone to the system meanwhile
                        self._free.remove(mapped)
                        return mapped
        return None

    def _give_back(self, mapped: mmap.mmap) -> None:
        with self._lock:
            if not self._keeps:
                return
            self._free.append(mapped)
            while self.free_bytes > self._free_bytes_max:
                del self._free[:1]


def owner_of(data: bytes | memoryview) -> pa.Buffer | None:
    """Return what holds the memory of data, while a view of it is left; None if no `Pool` does.

    The size of the owner is that of the memory, which begins with a page.
    """
    owner = data.obj if isinstance(data, memoryview) else None
    return owner if isinstance(owner, pa.Buffer) else None


def _mapped(size_bytes: int) -> mmap.mmap:
    mapped = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without them
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped
