"""engine: checks a data folder that no server holds: every body, every name, every count.

First the names: each blob's references are counted in the records and compared with its count, its
file or its row in the index. This is done for a part of the blobs at a time, so that memory is
bounded whatever their number. Then the bytes: each body that a record names is read, and its length
and CRC64NVME are compared with the record's.

A repair changes only what no record depends on: it removes files, rows and parts of uploads that
nothing names, and corrects counts. A body that is lost or changed cannot be repaired: its name
stays, so that the owner can replace it. Nothing is repaired while a record cannot be read, because
it may name a blob, and no file is removed if the index may be older than the files.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from storage import bodies, checksums, errors, keys, records, repair, sweep
from storage.batch import Batch, Delete, Put, Store, Write
from storage.blobs import BATCH_BYTES, FOLDERS
from storage.disk import Disk
from storage.index import Index, ReadView
from storage.model import Segment

Damage: TypeAlias = Literal[
    "unreadable-record",
    "missing-blob",
    "truncated-blob",
    "unreadable-blob",
    "changed-bytes",
    "longer-blob",
    "unnamed-file",
    "unnamed-row",
    "wrong-count",
    "released-but-named",
    "part-without-upload",
    "unreachable-rows",
]
REPAIRABLE: Final[frozenset[Damage]] = frozenset(
    {"unnamed-file", "unnamed-row", "wrong-count", "released-but-named", "part-without-upload"}
)
BLOBS_AT_ONCE: Final = 250_000
"""Blobs whose references are counted in one walk over all records: some 50 MB of memory."""
PARTS_MAX: Final = 256
CHANGES_AT_ONCE: Final = 500
DIGESTS_REMEMBERED: Final = 50_000
"""Segments whose CRC is kept: copies of an object name the same ones."""

LONG_KEYS_NAMED: Final = 100
"""Damaged keys of more than 400 bytes that are named in full: each takes a walk over all nodes."""

_ROW: Final = "in the index"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One damage. where: the object, upload or blob. detail: what is wrong with it."""

    damage: Damage
    where: str
    detail: str


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far a check is. Mutable: it counts up."""

    phase: Literal["names", "bytes"] = "names"
    bodies: int = 0
    bodies_all: int = 0
    read_bytes: int = 0


@dataclass(kw_only=True, slots=True)
class CheckResult:
    """What a check found. Mutable: it counts up. repaired: of the findings."""

    bodies: int = 0
    files: int = 0
    read_bytes: int = 0
    findings: Counter[Damage] = field(default_factory=Counter)
    repaired: Counter[Damage] = field(default_factory=Counter)
    why_not_repaired: str | None = None

    @property
    def repairable(self) -> frozenset[Damage]:
        """The damages that a repair can mend."""
        return REPAIRABLE

    @property
    def is_sound(self) -> bool:
        """Return whether no damage is left."""
        return self.findings == self.repaired


Report: TypeAlias = Callable[[Finding], None]
Tell: TypeAlias = Callable[[Progress], None]


def check(path: Path, *, disk: Disk, mend: bool, report: Report, tell: Tell) -> CheckResult:
    """Check the data folder at path, and repair it if mend is set. Blocks for as long as it takes.

    report: called with each finding; tell: with the progress, often. Raises FolderInUse,
    NewerFormat, CorruptIndex, and CorruptFolder for a folder without an index of its own.
    """
    result = CheckResult()
    with repair.examining(path, disk=disk, also=(Store.BODIES,)) as view:
        checker = _Checker(view, path / "blobs", disk, result, report, tell)
        checker.check_names()
        checker.check_bytes()
    if mend and result.findings.total():
        _mend(path, disk, result)
    return result


class _Checker:
    """One check over one view."""

    def __init__(
        self,
        view: ReadView,
        folder: Path,
        disk: Disk,
        result: CheckResult,
        report: Report,
        tell: Tell,
    ) -> None:
        self._view = view
        self._folder = folder
        self._disk = disk
        self._result = result
        self._report = report
        self._tell = tell
        self._progress = Progress()
        self._long_keys = 0
        self._names = {
            records.bucket_id(value): key.decode() for key, value in view.scan(Store.BUCKETS, b"")
        }
        self._digest_of = functools.lru_cache(DIGESTS_REMEMBERED)(self._digest)

    # Names and counts.

    def check_names(self) -> None:
        for row, record in _bodies(self._view):
            if isinstance(record, errors.CorruptRecord):
                self._find("unreadable-record", self._where(row), str(record))
            else:
                self._progress.bodies_all += 1
        for where in unreachable(self._view, self._names):
            self._find("unreachable-rows", where, "rows that no listing reaches")
        for key in parts_without_upload(self._view):
            where = f"part {int.from_bytes(key[16:], 'big')} of the upload {key[:16].hex()}"
            self._find("part-without-upload", where, "its upload does not exist")
        for division in _divisions(self._view):
            self._tell(self._progress)
            self._check_division(division)

    def _check_division(self, division: _Division) -> None:
        """Compare the counts, files and rows of a part of the blobs with their names."""
        compared = _compare(self._view, division)
        for where in compared.unreadable:
            self._find("unreadable-record", where, "the row cannot be read")
        for key, (counted, named) in compared.wrong_counts.items():
            self._find("wrong-count", _blob(key), f"counted {counted}, named {named} times")
        for row in compared.unnamed_rows:
            self._find("unnamed-row", _blob(b"i" + row), "no record names it")
        for blob in compared.released_but_named:
            self._find("released-but-named", blob, "the next start would remove it")
        for blob, size_bytes in self._files(division):
            self._result.files += 1
            key = b"f" + bytes.fromhex(blob) if _NAME.fullmatch(blob) else b""
            stored_bytes = compared.sizes.get(key)
            if stored_bytes is None:
                if blob not in compared.released:
                    detail = f"no record names its {size_bytes} bytes"
                    self._find("unnamed-file", f"blob {blob}", detail)
            elif key not in compared.uncounted and size_bytes > stored_bytes:
                detail = f"it has {size_bytes} bytes instead of {stored_bytes}"
                self._find("longer-blob", f"blob {blob}", detail)

    def _files(self, division: _Division) -> Iterator[tuple[str, int]]:
        for folder in FOLDERS:
            place = self._folder / folder
            if not self._disk.exists(place):
                continue
            for blob in self._disk.names(place):
                if division.holds(blob):
                    yield blob, self._disk.size_bytes(place / blob)

    # Bytes.

    def check_bytes(self) -> None:
        self._progress.phase = "bytes"
        for row, record in _bodies(self._view):
            if isinstance(record, errors.CorruptRecord):
                continue
            self._progress.bodies += 1
            self._result.bodies += 1
            finding = self._judge(record)
            if finding is not None:
                self._find(finding[0], self._where(row), finding[1])
            self._tell(self._progress)
        self._result.read_bytes = self._progress.read_bytes

    def _judge(self, record: _Body) -> tuple[Damage, str] | None:
        """Return what is wrong with the bytes of a body, or None."""
        pieces: list[tuple[int, int]] = []
        for segment in record.segments:
            crc = self._digest_of(segment.blob, segment.offset, segment.length, segment.indexed)
            if isinstance(crc, str):
                return _DAMAGE_OF.get(crc, "unreadable-blob"), f"blob {segment.blob} {crc}"
            pieces.append((crc, segment.length))
        size_bytes = sum(length for _, length in pieces)
        if size_bytes != record.size_bytes:
            return "truncated-blob", f"{size_bytes} bytes instead of {record.size_bytes}"
        if checksums.combine(checksums.CRC64NVME, pieces) != record.crc64nvme:
            blobs = ", ".join(sorted({segment.blob for segment in record.segments})[:3])
            return "changed-bytes", f"its CRC64NVME differs from the stored one (blob {blobs})"
        return None

    def _digest(self, blob: str, offset: int, length: int, indexed: bool) -> int | str:
        """Return the CRC64NVME of a segment, or what is wrong with its blob."""
        if indexed:
            data = self._view.get(Store.BODIES, bytes.fromhex(blob))
            if data is None:
                return _MISSING
            self._progress.read_bytes += length
            piece = memoryview(data)[offset : offset + length]
            return checksums.crc64nvme(piece) if len(piece) == length else _TRUNCATED
        try:
            descriptor = self._disk.open(self._folder / blob[:2] / blob)
        except FileNotFoundError:
            return _MISSING
        digester = checksums.Digester(())
        try:
            done = 0
            while done < length:
                data = self._disk.read_at(
                    descriptor, offset + done, min(BATCH_BYTES, length - done)
                )
                if not data:
                    return _TRUNCATED
                digester.update(data)
                done += len(data)
                self._progress.read_bytes += len(data)
                self._tell(self._progress)
        except OSError as error:
            return f"cannot be read: {error.strerror or error}"
        finally:
            self._disk.close(descriptor)
        return int.from_bytes(digester.digests()[checksums.CRC64NVME], "big")

    # Reports.

    def _find(self, damage: Damage, where: str, detail: str) -> None:
        self._result.findings[damage] += 1
        self._report(Finding(damage=damage, where=where, detail=detail))

    def _where(self, row: _Row) -> str:
        """Return the words for a record: its bucket, key and version or part."""
        if row.store is Store.PARTS:
            number = int.from_bytes(row.key[16:], "big")
            return f"part {number} of the upload {row.key[:16].hex()}"
        bucket_id = int.from_bytes(row.key[:4], "big")
        bucket = self._names.get(bucket_id, f"(deleted bucket {bucket_id})")
        key = self._key_of(row.key)
        version = "" if row.version_id in ("", "null") else f" version {row.version_id}"
        return f"{bucket}/{key.decode(errors='replace')}{version}"

    def _key_of(self, row: bytes) -> bytes:
        """Return the S3 key of a row; only the end of a long one after LONG_KEYS_NAMED of them."""
        is_long = row[4:8] != bytes(4)
        self._long_keys += is_long
        if is_long and self._long_keys > LONG_KEYS_NAMED:
            return b"... " + keys.decode_chunk(row[8 : row.find(keys.END, 8)])
        return key_of_row(self._view, row)


_MISSING: Final = "does not exist"
_TRUNCATED: Final = "is truncated"
_DAMAGE_OF: Final[dict[str, Damage]] = {_MISSING: "missing-blob", _TRUNCATED: "truncated-blob"}
_NAME: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """The row of a record that names a body."""

    store: Store
    key: bytes
    version_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Body:
    """The body that a record names."""

    size_bytes: int
    crc64nvme: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Division:
    """A part of all blobs, by the last two digits of their names, which are random."""

    number: int
    divisions: int

    def holds(self, blob: str) -> bool:
        try:
            return int(blob[-2:], 16) % self.divisions == self.number
        except ValueError:  # not a name of a blob
            return self.number == 0


def _bodies(view: ReadView) -> Iterator[tuple[_Row, _Body | errors.CorruptRecord]]:
    """Yield every record that names a body; the error of one that cannot be read."""
    for store in (Store.OBJECTS, Store.VERSIONS, Store.PARTS):
        for key, value in view.scan(store, b""):
            row = _Row(store=store, key=key)
            record: records.ObjectRecord | records.PartRecord
            try:
                if store is Store.PARTS:
                    record = records.decode_part(value)
                elif keys.suffix_of(key) is None:
                    continue
                else:
                    record = records.decode_object(value)
                    row = _Row(store=store, key=key, version_id=record.version_id)
            except errors.CorruptRecord as error:
                yield row, error
                continue
            body = _Body(
                size_bytes=record.size_bytes,
                crc64nvme=record.crc64nvme,
                segments=record.segments,
            )
            yield row, body


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A part of the blobs: what the records name, beside what is counted, stored and released.

    wrong_counts: by the key in Store.BLOBS, the count there and the names. sizes: the length of
    each counted or named blob; of one that is named and not counted, what its names need.
    released: files that wait for their removal. unreadable: rows that cannot be read.
    """

    wrong_counts: dict[bytes, tuple[int, int]]
    sizes: dict[bytes, int]
    uncounted: frozenset[bytes]
    unnamed_rows: list[bytes]
    released_but_named: dict[str, bytes]
    released: frozenset[str]
    unreadable: list[str]


def _compare(
    view: ReadView, division: _Division, skipped: frozenset[bytes] = frozenset()
) -> Compared:
    """Count the names of a part of the blobs, and compare. skipped: rows of parts to leave out."""
    named: Counter[bytes] = Counter()
    for segment in _segments(view, skipped):
        if division.holds(segment.blob):
            named[bodies.blob_key(segment)] += 1
    unreadable: list[str] = []
    released: dict[bytes, bytes] = {}
    for row, value in view.scan(Store.RELEASED, b""):
        try:
            item = records.decode_released(value)
        except errors.CorruptRecord:
            unreadable.append(f"row {row.hex()} of released blobs")
            continue
        if item.what != "bucket" and division.holds(item.name):
            released[(b"f" if item.what == "file" else b"i") + bytes.fromhex(item.name)] = row
    wrong: dict[bytes, tuple[int, int]] = {}
    sizes: dict[bytes, int] = {}
    for key, value in view.scan(Store.BLOBS, b""):
        if not division.holds(key[1:].hex()):
            continue
        try:
            blob = records.decode_blob(value)
        except errors.CorruptRecord:
            unreadable.append(f"the count of {_blob(key)}")
            continue
        sizes[key] = blob.size_bytes
        if named[key] != blob.references or (key[:1] == b"i" and named[key] < 2):
            wrong[key] = blob.references, named[key]
    uncounted = frozenset(
        key for key, names in named.items() if key not in sizes and (key[:1] == b"f" or names > 1)
    )
    if uncounted:
        for segment in _segments(view, skipped):
            key = bodies.blob_key(segment)
            if key in uncounted:
                sizes[key] = max(sizes.get(key, 0), segment.offset + segment.length)
    for key in uncounted:
        wrong[key] = (0 if key[:1] == b"f" else 1), named[key]
    return Compared(
        wrong_counts=wrong,
        sizes=sizes,
        uncounted=uncounted,
        unnamed_rows=[
            row
            for row in view.keys(Store.BODIES, b"")
            if division.holds(row.hex()) and not named[b"i" + row] and b"i" + row not in released
        ],
        released_but_named={_blob(key): row for key, row in released.items() if named[key]},
        released=frozenset(key[1:].hex() for key in released if key[:1] == b"f"),
        unreadable=unreadable,
    )


def _segments(view: ReadView, skipped: frozenset[bytes]) -> Iterator[Segment]:
    for row, record in _bodies(view):
        if not isinstance(record, errors.CorruptRecord) and row.key not in skipped:
            yield from record.segments


def _divisions(view: ReadView) -> Iterator[_Division]:
    count = view.count(Store.BLOBS) + view.count(Store.BODIES)
    divisions = min(PARTS_MAX, 1 + count // BLOBS_AT_ONCE)
    return (_Division(number=number, divisions=divisions) for number in range(divisions))


def parts_without_upload(view: ReadView) -> Iterator[bytes]:
    """Yield the rows of parts whose upload does not exist."""
    uploads = {keys.suffix_of(key) for key in view.keys(Store.UPLOADS, b"")}
    return (key for key in view.keys(Store.PARTS, b"") if key[:16] not in uploads)


def unreachable(view: ReadView, names: dict[int, str]) -> Iterator[str]:
    """Yield the buckets in which rows exist that a walk does not reach, with the store's name."""
    for bucket_id, name in names.items():
        start, stop = keys.bucket_range(bucket_id)
        for store in (Store.OBJECTS, Store.VERSIONS, Store.UPLOADS):
            rows = sum(
                1 for key in view.keys(store, start, stop) if keys.suffix_of(key) is not None
            )
            if rows != sum(1 for _ in keys.walk(view, store, bucket_id)):
                yield f"{name} ({store.value})"


def key_of_row(view: ReadView, row: bytes) -> bytes:
    """Return the S3 key of a row of a keyed store, as far as its nodes lead to it."""
    bucket, node = row[:4], row[4:8]
    end = row.find(keys.END, 8)
    key = keys.decode_chunk(row[8:end])
    while node != bytes(4):
        marker = next(
            (
                each
                for each, value in view.scan(Store.PREFIXES, bucket, keys.successor(bucket))
                if value == node
            ),
            None,
        )
        if marker is None:
            return b"(unreachable) " + key
        key = keys.decode_chunk(marker[8:-1]) + key
        node = marker[4:8]
    return key


# Repair.


def _mend(path: Path, disk: Disk, result: CheckResult) -> None:
    """Repair what no record depends on. Raises FolderInUse, DiskFull."""
    if result.findings["unreadable-record"]:
        result.why_not_repaired = "a record cannot be read, and may name what looks unnamed"
        return
    lock = disk.lock(path / "lock")
    try:
        index = Index(path=path / "index", disk=disk)
        try:
            _mend_index(index, result)
            _remove_files(index, path / "blobs", disk, result)
        finally:
            index.close()
    finally:
        disk.close(lock)


def _mend_index(index: Index, result: CheckResult) -> None:
    with index.view() as view:
        lost_parts = frozenset(parts_without_upload(view))
        _commit(index, [Delete(store=Store.PARTS, key=key) for key in lost_parts])
        for division in _divisions(view):
            compared = _compare(view, division, lost_parts)
            writes: list[Write] = [
                Delete(store=Store.RELEASED, key=row)
                for row in compared.released_but_named.values()
            ]
            writes += [Delete(store=Store.BODIES, key=row) for row in compared.unnamed_rows]
            for key, (_, names) in compared.wrong_counts.items():
                writes += _counted(key, names, compared.sizes[key])
            _commit(index, writes)
    for damage in REPAIRABLE - {"unnamed-file"}:
        result.repaired[damage] = result.findings[damage]


def _counted(key: bytes, names: int, size_bytes: int) -> tuple[Write, ...]:
    """Return the writes that correct a blob's count. A file without names is released."""
    if names == 0 and key[:1] == b"f":
        return Delete(store=Store.BLOBS, key=key), bodies.released("file", key[1:].hex(), 0)
    if names == 0 or (names == 1 and key[:1] == b"i"):
        return (Delete(store=Store.BLOBS, key=key),)
    record = records.BlobRecord(references=names, size_bytes=size_bytes)
    return (Put(store=Store.BLOBS, key=key, value=records.encode(record)),)


def _commit(index: Index, writes: Sequence[Write]) -> None:
    for start in range(0, len(writes), CHANGES_AT_ONCE):
        some = tuple(writes[start : start + CHANGES_AT_ONCE])
        index.commit_now(Batch(writes=some, makes_room=True))


def _remove_files(index: Index, folder: Path, disk: Disk, result: CheckResult) -> None:
    """Remove the files that no row names, unless the index may be older than they are."""
    with index.view() as view:
        compared = sweep.survey(view, folder, disk)
    unnamed = (*compared.arriving, *compared.settled)
    if not unnamed:
        return
    if compared.is_older_index:
        result.why_not_repaired = (
            f"{len(compared.settled)} of {compared.files_count} blobs were named before, so the "
            "index is older: put the newest index/ back, or use `mini.py recover --yes`"
        )
        return
    if compared.has_lost_modes:
        result.why_not_repaired = (
            f"{len(compared.arriving)} of {compared.files_count} blobs are unnamed and writable, "
            "more than unfinished uploads leave; a copy that lost the modes of its files looks "
            "so, and the index may be older: put the newest index/ back, or use "
            "`mini.py recover --yes`"
        )
        return
    for blob in unnamed:
        disk.unlink(folder / blob[:2] / blob)
    for name in sorted({blob[:2] for blob in unnamed}):
        disk.fsync_folder(folder / name)
    result.repaired["unnamed-file"] = result.findings["unnamed-file"]


def _blob(key: bytes) -> str:
    return f"blob {key[1:].hex()}" + (f" {_ROW}" if key[:1] == b"i" else "")
