"""rule: the files that metadata references, and a set of files of fixed size in memory.

`Reached` is a Bloom filter: it may contain a file that was not added, which is then kept; it never
misses one that was added. Each sweep has another salt, so that false positives differ.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import unquote

import msgspec

from catalog import properties
from catalog.metadata import errors as metadata_errors
from catalog.metadata import model as metadata_model

FILTER_BYTES: Final = 16 * 1024 * 1024
"""With ten million files one unreachable file of two hundred is kept until the next sweep."""

GC_ENABLED: Final = "gc.enabled"

_REPEATED_SLASHES = re.compile("//+")


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What one metadata file names, as URIs.

    files: to be kept as they are. manifest_lists, manifests: to be kept and read.
    is_collectable: the table lets unreferenced files go (`gc.enabled`).
    """

    files: tuple[str, ...]
    manifest_lists: tuple[str, ...]
    manifests: tuple[str, ...]
    is_collectable: bool


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    manifest_list: str | None = None
    manifests: list[str] | None = None


_decode_snapshots = msgspec.json.Decoder(list[_Snapshot]).decode


def reach_of(table: metadata_model.TableMetadata) -> Reach:
    """Return what a metadata file names. Raises InvalidMetadata.

    Earlier metadata files are kept, what they alone name is not: expiry drops references, and the
    states of the history window are roots of their own.
    """
    try:
        snapshots = [each for part in table.snapshots.parts() for each in _decode_snapshots(part)]
        files = [entry["metadata-file"] for entry in table.metadata_log]
        statistics = (*table.statistics, *table.partition_statistics)
        files += [each["statistics-path"] for each in statistics]
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise metadata_errors.InvalidMetadata(f"Cannot parse the files named: {error}") from error
    if not all(isinstance(path, str) for path in files):
        raise metadata_errors.InvalidMetadata("A file is named by something other than text")
    return Reach(
        files=tuple(files),
        manifest_lists=tuple(
            snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list is not None
        ),
        manifests=tuple(
            path
            for snapshot in snapshots
            if snapshot.manifest_list is None
            for path in snapshot.manifests or ()
        ),
        is_collectable=is_collectable(table.properties),
    )


def is_collectable(table_properties: dict[str, str]) -> bool:
    """Say whether a table's properties let unreferenced files go."""
    return table_properties.get(GC_ENABLED, "true").strip().lower() != "false"


def targets_of(uri: str) -> set[tuple[str, str]]:
    """Return every (bucket, key) that some client may open for a URI: none for one elsewhere.

    Clients differ in how they read escapes, queries and repeated slashes. Each reading counts.
    """
    scheme, separator, path = uri.partition("://")
    if not separator or scheme.lower() not in properties.SCHEMES:
        return set()
    bucket, _, key = path.partition("/")
    spellings = {key}
    if "?" in key or "#" in key:
        spellings.add(re.split("[?#]", key, maxsplit=1)[0])
    if "%" in key:
        spellings |= {unquote(each, errors="surrogateescape") for each in spellings}
    if "//" in key or key.startswith("/"):
        spellings |= {_REPEATED_SLASHES.sub("/", each).lstrip("/") for each in spellings}
    return {(bucket, each) for each in spellings if each}


class Reached:
    """Which files are reached. Mutable: files are added while the sweep marks."""

    def __init__(self, *, salt: bytes, size_bytes: int = FILTER_BYTES) -> None:
        assert size_bytes & (size_bytes - 1) == 0, "positions are cut from a digest by a mask"
        self._salt = salt
        self._bits = bytearray(size_bytes)
        self._mask = size_bytes * 8 - 1
        self.count = 0

    def add(self, bucket: str, key: str) -> None:
        """Note that a file is reached."""
        self.count += 1
        for position in self._positions(bucket, key):
            self._bits[position >> 3] |= 1 << (position & 7)

    def add_uri(self, uri: str) -> None:
        """Note that the file or files that a URI may mean are reached."""
        for bucket, key in targets_of(uri):
            self.add(bucket, key)

    def holds(self, bucket: str, key: str) -> bool:
        """Say whether a file is reached; True for a few that are not."""
        return all(
            self._bits[position >> 3] & (1 << (position & 7))
            for position in self._positions(bucket, key)
        )

    def _positions(self, bucket: str, key: str) -> tuple[int, int, int, int]:
        number = int.from_bytes(digest_of(self._salt, f"{bucket}/{key}"), "big")
        mask = self._mask
        return (
            number & mask,
            (number >> 32) & mask,
            (number >> 64) & mask,
            (number >> 96) & mask,
        )


def digest_of(salt: bytes, text: str) -> bytes:
    """Return 16 bytes that stand for a text within one sweep."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16, key=salt).digest()
