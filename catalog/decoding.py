"""engine: manifests decoded where it hurts nobody: small ones here, larger ones in a child.

Decoding thousands of entries holds the interpreter for a tenth of a second; in a thread that
stalls every other request, in a process of its own it does not. That child, `decoding_child`, is
started at first use, gets bytes and gives bytes, and ends when its pipe does. Knows no index and no
path.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final, Protocol

import msgspec

from catalog import decoding_child, manifests

INLINE_BYTES_MAX: Final = 16 * 1024
"""A manifest this small, compressed, holds a few hundred entries: some milliseconds."""

SECONDS_MAX: Final = 120.0

_PROGRAM_ROOT: Final = Path(__file__).resolve().parent.parent


class Decoder(Protocol):
    """Decodes manifests off the event loop, or on it."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        """Return a manifest's live entries as `manifests.live_entries` does."""
        ...


class InlineDecoder:
    """Decodes in the caller's own process."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        return manifests.live_entries(data, manifest)


class ChildDecoder:
    """Decodes larger manifests in one child process, one at a time."""

    def __init__(self, *, inline_bytes_max: int = INLINE_BYTES_MAX) -> None:
        self._inline_bytes_max = inline_bytes_max
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    @property
    def process_id(self) -> int | None:
        """The child's, while there is one."""
        return None if self._child is None else self._child.pid

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        """Return live entries. Raises InvalidManifest, also if the child dies of the manifest."""
        if len(data) <= self._inline_bytes_max:
            return manifests.live_entries(data, manifest)
        async with self._turn:
            try:
                sound, answer = await asyncio.wait_for(self._ask(data, manifest), SECONDS_MAX)
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
                await self._end()
                raise manifests.InvalidManifest("the decoder died of the manifest") from error
            except BaseException:
                await self._end()  # an answer nobody waits for would be taken for the next one
                raise
        if not sound:
            raise manifests.InvalidManifest(answer.decode(errors="replace"))
        return manifests.unpack_entries(answer)

    async def close(self) -> None:
        """End the child."""
        async with self._turn:
            await self._end()

    async def _ask(self, data: bytes, manifest: manifests.ManifestFile) -> tuple[bool, bytes]:
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "catalog.decoding_child",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=_PROGRAM_ROOT,
                start_new_session=True,  # Ctrl-C ends the server, which ends its child
            )
        writer, reader = self._child.stdin, self._child.stdout
        assert writer is not None
        assert reader is not None
        described = msgspec.msgpack.encode(manifest)
        head = decoding_child.REQUEST.pack(len(described), len(data))
        writer.writelines((head, described, data))
        await writer.drain()
        size_bytes, sound = decoding_child.ANSWER.unpack(
            await reader.readexactly(decoding_child.ANSWER.size)
        )
        return sound, await reader.readexactly(size_bytes)

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            if child.returncode is None:
                child.kill()
            await child.wait()
