"""engine: stores chunks of results until they are dropped, in memory and in files.

Chunks that were fetched are stored for a while, since they may be fetched again, which is rare.
Large ones are moved to files, in the order in which they were fetched, while chunks take more than
half of the memory, so that new ones have it. New ones are written to files when there is none.
Memory from which a moved or dropped chunk is still being sent counts as taken.

A file is written without a sync, because a result does not outlive the process; the folder is
emptied at start. A chunk without references frees its room, so results that share chunks need no
counter.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sql import chunk_memory, limits
from storage import disk as disks
from storage import errors, model


class ShelvedBytes:
    """Bytes on the shelf, or in a file. Dropping the last reference frees them."""

    __slots__ = ("__weakref__", "piece", "size_bytes")

    def __init__(self, piece: bytes | memoryview | model.FileSlice, size_bytes: int) -> None:
        self.piece = piece
        self.size_bytes = size_bytes


class Shelf:
    """Keeps chunks. folder is this shelf's alone, and is emptied when the first file is written."""

    def __init__(
        self,
        *,
        folder: Path,
        disk: disks.Disk,
        new_id: model.NewId,
        memory_bytes_max: int = limits.RESULTS_MEMORY_BYTES_MAX,
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._new_id = new_id
        self._memory_bytes_max = memory_bytes_max
        self._folder_is_ready = False
        self._fetched: weakref.WeakKeyDictionary[ShelvedBytes, None] = weakref.WeakKeyDictionary()
        self._moving: asyncio.Task[None] | None = None
        self._lock = threading.RLock()
        self.memory_bytes = 0

    async def keep(self, data: bytes | memoryview) -> ShelvedBytes:
        """Return data, kept; no one may write into its memory. Raises DiskFull."""
        kept = ShelvedBytes(data, len(data))
        owner = chunk_memory.owner_of(data)
        size_bytes = len(data) if owner is None else owner.size
        if self.memory_bytes + size_bytes <= self._memory_bytes_max:
            self._count(size_bytes)
            weakref.finalize(kept if owner is None else owner, self._count, -size_bytes)
        else:
            await self._write(kept, self._disk.write)
        return kept

    def note_fetched(self, kept: ShelvedBytes) -> None:
        """Let a chunk that a client fetches give its memory to others, after those before it."""
        if isinstance(kept.piece, model.FileSlice) or chunk_memory.owner_of(kept.piece) is None:
            return
        self._fetched.pop(kept, None)
        self._fetched[kept] = None
        if self._moving is None and self._is_half_full():
            self._moving = asyncio.get_running_loop().create_task(self._move())

    def _is_half_full(self) -> bool:
        return self.memory_bytes > self._memory_bytes_max // 2

    async def _move(self) -> None:
        try:
            while self._is_half_full() and (kept := next(iter(self._fetched), None)) is not None:
                del self._fetched[kept]
                await self._write(kept, self._disk.write_past_cache)
        except (OSError, errors.StorageError):
            pass  # without room on the disk it stays in memory, as before
        finally:
            self._moving = None

    async def _write(self, kept: ShelvedBytes, write: Callable[[int, Any], None]) -> None:
        """Write a chunk to a file, which is its place from then on."""
        assert not isinstance(kept.piece, model.FileSlice)
        if not self._folder_is_ready:
            self._disk.remove_tree(self._folder)
            self._disk.make_folder(self._folder)
            self._folder_is_ready = True
        path = self._folder / self._new_id()
        remove = weakref.finalize(kept, self._disk.unlink, path)
        try:
            await asyncio.to_thread(self._write_file, path, [kept], write)
        except (OSError, errors.StorageError):
            remove()
            raise
        kept.piece = model.FileSlice(path=path, offset=0, length=kept.size_bytes)

    def _count(self, size_bytes: int) -> None:
        # Memory is freed by the thread that has its last reference, also while it counts other
        # memory: by a collection of garbage.
        with self._lock:
            self.memory_bytes += size_bytes

    def _write_file(
        self, path: Path, chunk: list[ShelvedBytes], write: Callable[[int, Any], None]
    ) -> None:
        # This thread has a reference while it writes, so that the file is not removed before it is
        # there; none afterwards, for which its pool would keep the memory until its next task.
        kept = chunk.pop()
        descriptor = self._disk.create(path)
        try:
            write(descriptor, kept.piece)
        finally:
            self._disk.close(descriptor)
