"""engine: manifests, their lists and metadata decoded: small ones here, larger ones in a child.

Decoding thousands of entries holds the interpreter for a tenth of a second, even in a thread, and
stalls every other request; a child process does not. A file is small by its decompressed size: 2
KiB may hold 400,000 entries. For a metadata file the child returns the offsets of its parts, which
are decoded here one by one. The child, `decoding_child`, is started at first use, has a bound of
memory and of time, and ends when its socket closes. It gets no index and no path.

A child may be killed for reasons that have nothing to do with the file, so the first end of it
raises DecodingInterrupted: the caller may try again. A file in whose decoding it ends twice is
refused for `DEATHS_KEPT_SECONDS`, so that one file cannot end child after child.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import msgspec

from catalog import avro, decoding_child, errors, manifests
from catalog.decoding_child import Frame, Work
from catalog.metadata import contents, model
from catalog.metadata import errors as metadata_errors
from server import children

INLINE_BYTES_MAX: Final = 64 * 1024
"""Files up to this size are first tried on the event loop; larger ones go to the child."""

SECONDS_MAX: Final = 60.0

WRITTEN_AT_ONCE: Final = 1024 * 1024
"""Bytes that are written to the child between two turns of the event loop."""

DEATHS_MAX: Final = 2
"""A file is refused after so many ends of the child while it decodes the file."""
DEATHS_KEPT_SECONDS: Final = 600.0
DEATHS_KEPT_MAX: Final = 256
"""Files whose ends of the child are remembered."""

READ_AHEAD_BYTES: Final = 1024 * 1024


class ManifestDecoder(Protocol):
    """Decodes manifests and manifest lists."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        """Return a manifest's live entries as `manifests.live_entries` does."""
        ...

    async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
        """Return a snapshot's manifests as `manifests.decode_manifest_list` does."""
        ...


class ChildDecoder:
    """Decodes larger files in one child process, one at a time."""

    def __init__(self, *, inline_bytes_max: int = INLINE_BYTES_MAX) -> None:
        self._inline_bytes_max = inline_bytes_max
        self._child: children.Child | None = None
        self._turn = asyncio.Lock()
        self._deaths = _Deaths()

    @property
    def process_id(self) -> int | None:
        """The child's process id, None while there is no child."""
        return None if self._child is None else self._child.process.pid

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        """Return live entries. Raises InvalidManifest, DecoderDied, DecodingInterrupted."""
        if len(data) <= self._inline_bytes_max:
            try:
                return manifests.live_entries(data, manifest, bounds=_inline_bounds())
            except manifests.BeyondBounds:
                pass  # the child takes more
        described = msgspec.msgpack.encode(manifest)
        return await self._decoded(Work.MANIFEST, described, data, manifests.unpack_entries)

    async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
        """Return manifests. Raises InvalidManifest, DecoderDied, DecodingInterrupted."""
        if len(data) <= self._inline_bytes_max:
            try:
                return manifests.decode_manifest_list(data, bounds=_inline_bounds())
            except manifests.BeyondBounds:
                pass  # the child takes more
        return await self._decoded(Work.MANIFEST_LIST, b"", data, manifests.unpack_manifests)

    async def decode_metadata(self, data: bytes, *, is_foreign: bool) -> model.TableMetadata:
        """Return large table metadata, decoded in steps. is_foreign: a client's, checked whole.

        Raises InvalidMetadata, Undecoded, DecodingInterrupted.
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
            await self._deaths.check(work, described, data)
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    async for frame, content in self._ask(work, described, data):
                        if frame is Frame.COMPLAINT:
                            raise manifests.InvalidManifest(content.decode(errors="replace"))
                        decoded += unpack(content)
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
                await self._end()
                await self._deaths.add(work, described, data)
                raise errors.DecodingInterrupted(
                    "The process that decodes large files ended before it was done; try again"
                ) from error
            except manifests.InvalidManifest:
                raise
            except BaseException:
                await self._end()  # the rest of its answer would be read as the next one
                raise
        return decoded

    async def _ask(
        self, work: Work, described: bytes, data: bytes
    ) -> AsyncIterator[tuple[Frame, bytes]]:
        if self._child is None or self._child.process.returncode is not None:
            self._child = await children.start(
                "catalog.decoding_child", buffer_bytes=READ_AHEAD_BYTES
            )
        reader, writer = self._child.reader, self._child.writer
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
            child.writer.close()
            if child.process.returncode is None:
                child.process.kill()
            await child.process.wait()


def _inline_bounds() -> avro.Bounds:
    """Return the bounds of what is decoded here: nothing that imports pyarrow for it."""
    spec = getattr(sys.modules.get("pyarrow"), "__spec__", None)
    # A module is there before its import by another thread ends, for which this one would wait.
    is_imported = spec is not None and not getattr(spec, "_initializing", False)
    return avro.INLINE_SNAPPY if is_imported else avro.INLINE


class _Deaths:
    """The files in whose decoding the child ended, and how often, for a while. Mutable."""

    def __init__(self) -> None:
        self._rows: collections.OrderedDict[bytes, tuple[int, float]] = collections.OrderedDict()

    async def check(self, work: Work, described: bytes, data: bytes) -> None:
        """Raise DecoderDied for a file that is refused. Costs nothing while none is remembered."""
        now = asyncio.get_running_loop().time()
        while self._rows and next(iter(self._rows.values()))[1] <= now:
            self._rows.popitem(last=False)
        if self._rows and self._times(await _digest(work, described, data)) >= DEATHS_MAX:
            raise _died()

    async def add(self, work: Work, described: bytes, data: bytes) -> None:
        """Remember an end of the child. Raises DecoderDied if the file is refused from now on."""
        digest = await _digest(work, described, data)
        times = self._times(digest) + 1
        self._rows[digest] = (times, asyncio.get_running_loop().time() + DEATHS_KEPT_SECONDS)
        self._rows.move_to_end(digest)
        if len(self._rows) > DEATHS_KEPT_MAX:
            self._rows.popitem(last=False)
        if times >= DEATHS_MAX:
            raise _died()

    def _times(self, digest: bytes) -> int:
        return self._rows.get(digest, (0, 0.0))[0]


async def _digest(work: Work, described: bytes, data: bytes) -> bytes:
    def digest() -> bytes:
        whole = hashlib.blake2b(b"%d %d " % (work, len(described)) + described, digest_size=16)
        whole.update(data)
        return whole.digest()

    return await asyncio.to_thread(digest)


def _died() -> manifests.DecoderDied:
    return manifests.DecoderDied(
        f"decoding the file has ended the decoding process {DEATHS_MAX} times"
    )


def _assemble(data: bytes, packed: list[bytes]) -> model.TableMetadata:
    decoded = msgspec.msgpack.decode(b"".join(packed), type=contents.Contents)
    return contents.assemble(data, decoded)
