"""engine: batches of a running query, several of them for each turn of the event loop.

Waiting for one batch on the event loop takes as long as computing some thousand short rows: the
library's thread wakes the loop, which wakes the library. So once batches come quickly, a thread
takes as many as a chunk holds, and the next ones while those are encoded. A wait on the loop can be
cancelled, and one in a thread cannot: batches that come slowly are waited for on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from sql import limits

SLOW_SECONDS = 0.1
"""After such a wait for a batch a stream is slow."""
QUICK_BATCHES = 2
"""So many batches in turn come quickly before a thread takes more. Small results have fewer."""
LARGE_GROUP_BYTES = 2 * limits.CHUNK_BYTES_MAX
"""What is taken at once has less, but for a large batch at its end."""


class LibraryBatch(Protocol):
    """A batch of the library's."""

    def to_pyarrow(self) -> pa.RecordBatch: ...


class Stream(Protocol):
    """The rows of a running query, which are waited for in one of two ways."""

    async def __anext__(self) -> LibraryBatch: ...

    def __next__(self) -> LibraryBatch: ...


async def awaited(stream: Stream) -> AsyncIterator[pa.RecordBatch]:
    """Yield the batches that have rows, each waited for on the event loop."""
    iterator: Any = stream
    async for batch in iterator:
        arrow = batch.to_pyarrow()
        if arrow.num_rows:
            yield arrow


async def taken(stream: Stream) -> AsyncIterator[pa.RecordBatch]:
    """Yield the batches that have rows. At most three chunks and one batch are held here.

    After a cancellation the thread may still wait for one batch; nothing is taken after it.
    """
    while True:
        quick = 0
        while quick < QUICK_BATCHES:
            started = time.monotonic()
            try:
                batch = (await anext(stream)).to_pyarrow()
            except StopAsyncIteration:
                return
            quick = quick + 1 if time.monotonic() - started < SLOW_SECONDS else 0
            if batch.num_rows:
                yield batch
        taking = _Taking(stream)
        async with contextlib.aclosing(taking.batches()) as batches:
            async for batch in batches:
                yield batch
        if taking.is_over:
            return


@dataclass(kw_only=True, slots=True)
class _Group:
    """Batches that are taken at once, and not used yet. fault: what came after them. Mutable.

    size_bytes: of all of them, used or not.
    """

    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    size_bytes: int = 0
    fault: BaseException | None = None


class _Taking:
    """Takes batches in a thread until the stream ends or becomes slow. Mutable."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.is_over = self.is_slow = self._is_stopped = False

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the batches. Those before a fault are yielded before it is raised."""
        group, taking = self._begin()
        try:
            while True:
                ended, _ = await asyncio.wait([taking], timeout=SLOW_SECONDS)
                if not ended:  # what has come need not wait for what has not
                    while group.batches:
                        yield group.batches.popleft()
                    continue
                whole, is_last = group, self.is_over or self.is_slow
                # Beside a group with a large batch, which it ends, no other one is held.
                is_large = whole.size_bytes >= LARGE_GROUP_BYTES
                if not is_last and not is_large:
                    group, taking = self._begin()
                while whole.batches:
                    yield whole.batches.popleft()
                if whole.fault is not None:
                    raise whole.fault
                if is_last:
                    return
                if is_large:
                    group, taking = self._begin()
        finally:
            self._is_stopped = True

    def _begin(self) -> tuple[_Group, asyncio.Future[None]]:
        group = _Group()
        loop = asyncio.get_running_loop()
        return group, loop.run_in_executor(None, self._take, group)

    def _take(self, group: _Group) -> None:
        try:
            while group.size_bytes < limits.CHUNK_BYTES_MAX and not self._is_stopped:
                started = time.monotonic()
                batch = next(self._stream).to_pyarrow()
                if batch.num_rows:
                    group.batches.append(batch)
                    group.size_bytes += batch.nbytes
                if time.monotonic() - started >= SLOW_SECONDS:
                    self.is_slow = True
                    break
        except StopIteration:
            self.is_over = True
        except BaseException as fault:  # noqa: BLE001 - the library's panics are no Exceptions
            self.is_over = True
            group.fault = fault
