"""engine: manifests decoded where it hurts nobody: small ones here, larger ones in a child.

Decoding thousands of entries holds the interpreter for a tenth of a second; in a thread that
stalls every other request, in a process of its own it does not. The child is started at first
use, gets bytes and gives bytes, and ends with its parent. Knows no index and no path.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool
from typing import Final, Protocol

from catalog import manifests

INLINE_BYTES_MAX: Final = 16 * 1024
"""A manifest this small, compressed, holds a few hundred entries: some milliseconds."""

SECONDS_MAX: Final = 120.0


class Decoder(Protocol):
    """Decodes manifests off the event loop, or on it."""

    async def decode(self, data: bytes, *, spec_id: int) -> list[manifests.ManifestEntry]:
        """Return a manifest's entries as `manifests.decode_manifest` does."""
        ...


class InlineDecoder:
    """Decodes in the caller's own process."""

    async def decode(self, data: bytes, *, spec_id: int) -> list[manifests.ManifestEntry]:
        return manifests.decode_manifest(data, spec_id=spec_id)


class ChildDecoder:
    """Decodes larger manifests in one child process."""

    def __init__(self, *, inline_bytes_max: int = INLINE_BYTES_MAX) -> None:
        self._inline_bytes_max = inline_bytes_max
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None

    async def decode(self, data: bytes, *, spec_id: int) -> list[manifests.ManifestEntry]:
        """Return a manifest's entries. Raises InvalidManifest, also if the child dies of it."""
        if len(data) <= self._inline_bytes_max:
            return manifests.decode_manifest(data, spec_id=spec_id)
        if self._pool is None:
            self._pool = concurrent.futures.ProcessPoolExecutor(
                max_workers=1,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_live_with_parent,
            )
        pool = self._pool
        try:
            work = asyncio.wrap_future(pool.submit(_decode, data, spec_id))
            packed = await asyncio.wait_for(work, SECONDS_MAX)
        except (BrokenProcessPool, TimeoutError) as error:
            self._drop(pool)
            raise manifests.InvalidManifest("the manifest could not be decoded") from error
        return manifests.unpack_entries(packed)

    def close(self) -> None:
        """End the child."""
        if self._pool is not None:
            self._drop(self._pool)

    def _drop(self, pool: concurrent.futures.ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self._pool = None
        for child in list((pool._processes or {}).values()):  # noqa: SLF001 - no public way to kill
            child.kill()
        pool.shutdown(wait=True, cancel_futures=True)


def _decode(data: bytes, spec_id: int) -> bytes:
    return manifests.pack_entries(manifests.decode_manifest(data, spec_id=spec_id))


def _live_with_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone, however it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
