"""engine: the child that decodes manifests and metadata: frames in, frames out, over a socket.

Started as `python -m server.starting catalog.decoding_child FD`. A request has the type of the
file, the manifest's entry in its manifest list, and the file's bytes. The answer is one or more
frames, each with a few hundred entries, or one frame with a complaint. The answer for a metadata
file is one value in several frames: the offsets of its parts. The child ends when its socket
closes, so it does not outlive the server. It refuses a file that takes more than MEMORY_BYTES_MAX,
and opens no file.
"""

from __future__ import annotations

import contextlib
import enum
import resource
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from catalog import manifests
from catalog.metadata import contents
from catalog.metadata import errors as metadata_errors

REQUEST = struct.Struct(">BIQ")
"""The type of the file, the length of its manifest list entry, and its own length."""
ANSWER = struct.Struct(">BQ")
"""The type of the frame, and its length."""
ENTRIES_PER_FRAME: Final = 500
"""Entries that the server unpacks in one call: some milliseconds."""
METADATA_FRAME_BYTES: Final = 8 * 1024
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 128 * 1024 * 1024
"""Largest packed answer for one file."""
MEMORY_BYTES_MAX: Final = 3 * 1024 * 1024 * 1024
"""Address space of the child: enough for any file within `avro.ISOLATED`, and the libraries."""


class Work(enum.IntEnum):
    """The type of a request's file."""

    MANIFEST = 0
    MANIFEST_LIST = 1
    METADATA = 2
    FOREIGN_METADATA = 3


class Frame(enum.IntEnum):
    """The type of a frame of the answer."""

    COMPLAINT = 0
    MORE = 1
    LAST = 2


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        work, described_bytes, data_bytes = REQUEST.unpack(head)
        described = requests.read(described_bytes)
        data = requests.read(data_bytes)
        try:
            decoded, pack = _decode(Work(work), described, data)
        except (
            manifests.InvalidManifest,
            metadata_errors.InvalidMetadata,
            MemoryError,
            RecursionError,
        ) as error:
            _answer(answers, Frame.COMPLAINT, (str(error) or "the file takes too much").encode())
            continue
        frame, size_bytes = Frame.MORE, 0
        while frame is Frame.MORE:
            frame, content, decoded = _next_frame(decoded, pack)
            size_bytes += len(content)
            if size_bytes > ANSWER_BYTES_MAX:
                frame, content = Frame.COMPLAINT, b"its entries take too much memory"
            _answer(answers, frame, content)


def _decode(
    work: Work, described: bytes, data: bytes
) -> tuple[Sequence[Any], Callable[[Sequence[Any]], bytes]]:
    if work in (Work.METADATA, Work.FOREIGN_METADATA):
        examined = contents.examine(data, is_foreign=work is Work.FOREIGN_METADATA)
        packed = msgspec.msgpack.encode(examined)
        steps = range(0, len(packed), METADATA_FRAME_BYTES)
        return [packed[at : at + METADATA_FRAME_BYTES] for at in steps], b"".join
    if work is Work.MANIFEST_LIST:
        return manifests.decode_manifest_list(data, isolated=True), manifests.pack_manifests
    manifest = msgspec.msgpack.decode(described, type=manifests.ManifestFile)
    return manifests.live_entries(data, manifest, isolated=True), manifests.pack_entries


def _next_frame(
    entries: Sequence[Any], pack: Callable[[Sequence[Any]], bytes]
) -> tuple[Frame, bytes, Sequence[Any]]:
    """Return the next frame, and the entries that come after it."""
    count = ENTRIES_PER_FRAME
    while len(content := pack(entries[:count])) > FRAME_BYTES_MAX:
        if count == 1:
            return Frame.COMPLAINT, b"an entry is larger than a frame", ()
        count = max(1, min(count, len(entries)) // 2)
    rest = entries[count:]
    return (Frame.MORE if rest else Frame.LAST), content, rest


def _answer(answers: BinaryIO, frame: Frame, content: bytes) -> None:
    answers.write(ANSWER.pack(frame, len(content)))
    answers.write(content)
    answers.flush()


def limit_memory() -> None:
    """Let allocations fail beyond MEMORY_BYTES_MAX, where the system supports it."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    bytes_max = MEMORY_BYTES_MAX if hard == resource.RLIM_INFINITY else min(hard, MEMORY_BYTES_MAX)
    with contextlib.suppress(OSError, ValueError):  # macOS does not bound address space
        resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))


def main(arguments: list[str]) -> None:
    """Serve the socket whose descriptor is the argument."""
    (descriptor,) = arguments
    limit_memory()
    connection = socket.socket(fileno=int(descriptor))
    with connection.makefile("rb") as requests, connection.makefile("wb") as answers:
        serve(requests, answers)
