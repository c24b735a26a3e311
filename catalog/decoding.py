"""engine: manifests, their lists and metadata decoded: small ones here, larger ones in a child.

Decoding thousands of entries holds the interpreter for a tenth of a second; in a thread that stalls
every other request, in a process of its own it does not. What is small is decided by what a file
decompresses to, not by its own size: 2 KiB may hold 400,000 entries. Of a metadata file the child
says what lies where, and its parts are decoded here one by one. The child, `decoding_child`,
is started at first use, gets bytes and gives bytes, has a bound of memory and time, and ends when
its pipe does. Knows no index and no path.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from catalog import avro, decoding_child, manifests
from catalog.decoding_child import Frame, Work
from catalog.metadata import contents, model
from catalog.metadata import errors as metadata_errors
from server import children

INLINE_BYTES_MAX: Final = 64 * 1024
"""What is tried here first; a larger file goes to the child at once."""

SECONDS_MAX: Final = 60.0

WRITTEN_AT_ONCE: Final = 1024 * 1024
"""What of a file is handed to the child before other requests get their turn."""

_PROGRAM_ROOT: Final = Path(__file__).resolve().parent.parent


class Decoder(Protocol):
    """Decodes manifests and their lists off the event loop, or on it."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        """Return a manifest's live entries as `manifests.live_entries` does."""
        ...

    async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
        """Return a snapshot's manifests as `manifests.decode_manifest_list` does."""
        ...


class InlineDecoder:
    """Decodes in the caller's own process."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        return manifests.live_entries(data, manifest)

    async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
        return manifests.decode_manifest_list(data)


class ChildDecoder:
    """Decodes larger files in one child process, one at a time."""

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
            try:
                return manifests.live_entries(data, manifest, bounds=avro.INLINE)
            except manifests.BeyondBounds:
                pass  # the child takes more
        described = msgspec.msgpack.encode(manifest)
        return await self._decoded(Work.MANIFEST, described, data, manifests.unpack_entries)

    async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
        """Return manifests. Raises InvalidManifest, also if the child dies of the list."""
        if len(data) <= self._inline_bytes_max:
            try:
                return manifests.decode_manifest_list(data, bounds=avro.INLINE)
            except manifests.BeyondBounds:
                pass  # the child takes more
        return await self._decoded(Work.MANIFEST_LIST, b"", data, manifests.unpack_manifests)

    async def decode_metadata(self, data: bytes, *, is_foreign: bool) -> model.TableMetadata:
        """Return large table metadata, decoded in steps; that of a client is checked wholly.

        Raises InvalidMetadata, and Undecoded if the child dies of the file.
        """
        work = Work.FOREIGN_METADATA if is_foreign else Work.METADATA
        try:
            packed = await self._decoded(work, b"", data, lambda frame: [frame])
        except manifests.DecoderDied as error:
            raise metadata_errors.Undecoded(str(error)) from error
        except manifests.InvalidManifest as error:
            raise metadata_errors.InvalidMetadata(str(error)) from error
        return await asyncio.to_thread(_assemble, data, packed)

    async def close(self) -> None:
        """End the child."""
        async with self._turn:
            await self._end()

    async def _decoded(
        self, work: Work, described: bytes, data: bytes, unpack: Callable[[bytes], list[Any]]
    ) -> list[Any]:
        decoded: list[Any] = []
        async with self._turn:
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    async for frame, content in self._ask(work, described, data):
                        if frame is Frame.COMPLAINT:
                            raise manifests.InvalidManifest(content.decode(errors="replace"))
                        decoded += unpack(content)
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
                await self._end()
                raise manifests.DecoderDied("the decoder died of the file") from error
            except manifests.InvalidManifest:
                raise
            except BaseException:
                await self._end()  # an answer that is not read would be taken for the next one
                raise
        return decoded

    async def _ask(
        self, work: Work, described: bytes, data: bytes
    ) -> AsyncIterator[tuple[Frame, bytes]]:
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "catalog.decoding_child",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=_PROGRAM_ROOT,
                env=children.environment(os.environ),
                start_new_session=True,  # Ctrl-C ends the server, which ends its child
            )
        writer, reader = self._child.stdin, self._child.stdout
        assert writer is not None
        assert reader is not None
        head = decoding_child.REQUEST.pack(work, len(described), len(data))
        writer.writelines((head, described))
        for start in range(0, len(data), WRITTEN_AT_ONCE):
            writer.write(memoryview(data)[start : start + WRITTEN_AT_ONCE])
            await writer.drain()
        frame = Frame.MORE
        while frame is Frame.MORE:
            frame_code, size_bytes = decoding_child.ANSWER.unpack(
                await reader.readexactly(decoding_child.ANSWER.size)
            )
            frame = Frame(frame_code)
            yield frame, await reader.readexactly(size_bytes)

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            if child.returncode is None:
                child.kill()
            await child.wait()


def _assemble(data: bytes, packed: list[bytes]) -> model.TableMetadata:
    decoded = msgspec.msgpack.decode(b"".join(packed), type=contents.Contents)
    return contents.assemble(data, decoded)
