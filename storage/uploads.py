"""engine: multipart uploads: create, put and copy parts, list, complete, abort.

Completing names the parts as the object's segments and copies nothing: the CRC64NVME of the whole
is combined from the parts', the ETag is the MD5 of their MD5s. Other parts are released in the same
transaction. The object stores its upload's id, so that a repeated completion (the client never saw
the response) finds the object and returns it.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import itertools
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import msgspec

from storage import (
    bodies,
    checksums,
    errors,
    etags,
    keys,
    listing,
    locks,
    lookups,
    names,
    objects,
    puts,
    records,
    versions,
)
from storage.batch import (
    Batch,
    Decided,
    Delete,
    Derivation,
    Expect,
    Put,
    Reading,
    Store,
    Write,
)
from storage.blobs import Blobs
from storage.index import Index
from storage.model import (
    ALWAYS,
    ByteRange,
    ChecksumType,
    NewId,
    NowMs,
    ObjectAttributes,
    ObjectInfo,
    PartInfo,
    PartPage,
    Precondition,
    Received,
    Segment,
    SegmentBody,
    UploadInfo,
    UploadPage,
)

PART_NUMBER_MAX = 10_000
PART_BYTES_MIN = 5 << 20
PAGE_ENTRIES_MAX = 1000
COPIED_SEGMENTS_MAX = 4
"""Segments of its source that a copied part shares; the bytes of more are stored again: an object
has 40,000 segments at most, however often its parts are copied from objects made of copies."""

_NUMBER = struct.Struct(">H")


class Uploads:
    """The multipart uploads of a data folder. An upload id is 32 hexadecimal digits."""

    def __init__(
        self,
        *,
        index: Index,
        blobs: Blobs,
        now_ms: NowMs,
        new_id: NewId,
        part_bytes_min: int = PART_BYTES_MIN,
    ) -> None:
        self._index = index
        self._blobs = blobs
        self._now_ms = now_ms
        self._new_id = new_id
        self._part_bytes_min = part_bytes_min

    async def create(
        self,
        bucket: lookups.InBucket,
        key: str,
        *,
        attributes: ObjectAttributes,
        checksum_algorithm: str | None = None,
        checksum_type: ChecksumType = "COMPOSITE",
        expects: tuple[Expect, ...] = (),
    ) -> UploadInfo:
        """Create an upload.

        checksum_algorithm: the algorithm of every part's checksum, if the client named one.
        expects: rows on which the permission was decided. Raises NoSuchBucket, InvalidKey,
        RetentionInPast, ExpectationFailed.
        """
        name = lookups.name_of(bucket)
        bucket_id = lookups.id_of(self._index, bucket)
        encoded = names.check_key(key)
        upload_id, now_ms = self._new_id(), self._now_ms()
        locks.check_new(attributes.headers, now_ms=now_ms)
        record = records.UploadRecord(
            initiated_at_ms=now_ms,
            attributes=attributes,
            checksum_algorithm=checksum_algorithm,
            checksum_type=checksum_type,
        )

        def derive(reading: Reading) -> Sequence[Write]:
            lookups.check_bucket(reading, name, bucket_id)
            address, placing = keys.place(reading, Store.UPLOADS, bucket_id, encoded)
            row = address + bytes.fromhex(upload_id)
            return (
                *placing,
                Put(store=Store.UPLOADS, key=row, value=records.encode(record)),
            )

        await self._index.commit(Batch(expects=expects, derive=(derive,)))
        return _upload_info(name, key, upload_id, record)

    def get(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        """Return an unfinished upload. Raises NoSuchBucket, NoSuchUpload."""
        with self._index.view() as view:
            bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))
            _, record = find(view, bucket_id, key, upload_id)
        return _upload_info(bucket, key, upload_id, record)

    async def put_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        part_number: int,
        received: Received,
        *,
        checksums_text: Mapping[str, str] | None = None,
        expects: tuple[Expect, ...] = (),
    ) -> PartInfo:
        """Store a received body as a part, replacing the one of that number.

        received must hold an MD5. checksums_text: algorithm -> base64 text, stored with the part.
        After ExpectationFailed the body stays, for another attempt; so it does where the outcome is
        unknown. On any other error it is discarded. Raises NoSuchBucket, NoSuchUpload, InvalidPart
        (number), ExpectationFailed, CommitUnknown, IndexClosed.
        """
        now_ms = self._now_ms()
        try:
            _check_number(part_number)
            segments, naming = bodies.name_new(
                received.body, row=bodies.row_name(now_ms, self._new_id())
            )
            record = records.PartRecord(
                etag=etags.of_digest(received.digests[checksums.MD5]),
                size_bytes=received.size_bytes,
                crc64nvme=int.from_bytes(received.digests[checksums.CRC64NVME], "big"),
                modified_at_ms=now_ms,
                segments=segments,
                checksums=dict(checksums_text or {}),
            )

            def derive(reading: Reading) -> Sequence[Write]:
                writes = _plan_part(reading, bucket, key, upload_id, part_number, record, ())
                return (*naming, *writes)

            await self._index.commit(Batch(expects=expects, derive=(derive,)))
        except (errors.CommitUnknown, errors.IndexClosed, errors.ExpectationFailed):
            raise
        except Exception:
            await self._blobs.discard(received)
            raise
        return _part_info(part_number, record)

    async def copy_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        part_number: int,
        source: ObjectInfo,
        byte_range: ByteRange | None = None,
        *,
        expects: tuple[Expect, ...] = (),
    ) -> PartInfo:
        """Make a stored body, or byte_range of it, a part. Its bytes are read.

        They are copied if they lie in more than COPIED_SEGMENTS_MAX segments, or if the source was
        overwritten or removed since it was found. Raises NoSuchBucket, NoSuchUpload, InvalidPart
        (number), SourceGone if that was so long ago that the bytes are freed, BodyDamaged,
        DiskFull, ExpectationFailed.
        """
        _check_number(part_number)
        segments = source.body.segments
        if byte_range is not None:
            segments = bodies.cut(segments, byte_range)
        copy = functools.partial(
            self._copy_part, bucket, key, upload_id, part_number, source, byte_range, expects
        )
        with self._blobs.hold(source.body):
            try:
                if len(segments) <= COPIED_SEGMENTS_MAX:
                    with contextlib.suppress(errors.SourceGone):
                        return await copy(shared=segments)
                return await copy(shared=None)
            except errors.BodyMissing:
                self._check_source(source)
                raise

    def _check_source(self, source: ObjectInfo) -> None:
        """Raise SourceGone unless the source of a copy is still there."""
        with self._index.view() as view:
            lookups.check_source(view, source)

    async def _copy_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        part_number: int,
        source: ObjectInfo,
        byte_range: ByteRange | None,
        expects: tuple[Expect, ...],
        *,
        shared: tuple[Segment, ...] | None,
    ) -> PartInfo:
        """Do what `copy_part` does. shared: what the part shares with the source, which must still
        be there; None if its bytes are stored again."""
        upload = self.get(bucket, key, upload_id)
        algorithm = upload.checksum_algorithm
        wanted = frozenset({checksums.MD5, *(() if algorithm is None else (algorithm,))})
        naming: tuple[Write, ...] = ()
        segments, copied = shared or (), None
        if shared is None:
            copied = await self._blobs.store_again(source.body, byte_range, digests=wanted)
            digests = copied.digests
        else:
            digests = await self._blobs.digest(source.body, byte_range, wanted)
        now_ms = self._now_ms()
        try:
            if byte_range is None:
                checksums.check_stored(digests, source.crc64nvme, source.key)
            if copied is not None:
                row = bodies.row_name(now_ms, self._new_id())
                segments, naming = bodies.name_new(copied.body, row=row)
            record = records.PartRecord(
                etag=etags.of_digest(digests[checksums.MD5]),
                size_bytes=sum(segment.length for segment in segments),
                crc64nvme=int.from_bytes(digests[checksums.CRC64NVME], "big"),
                modified_at_ms=now_ms,
                segments=segments,
                checksums={}
                if algorithm is None
                else {algorithm: checksums.to_text(digests[algorithm])},
            )

            def derive(reading: Reading) -> Sequence[Write]:
                if shared is not None:
                    lookups.check_source(reading, source)
                part = _plan_part(
                    reading, bucket, key, upload_id, part_number, record, shared or ()
                )
                return (*naming, *part)

            await self._index.commit(Batch(expects=expects, derive=(derive,)))
        except (errors.CommitUnknown, errors.IndexClosed):
            raise
        except Exception:
            if copied is not None:
                await self._blobs.discard(copied)
            raise
        return _part_info(part_number, record)

    def list_parts(
        self, bucket: str, key: str, upload_id: str, *, after: int = 0, parts_max: int = 1000
    ) -> PartPage:
        """Return an upload's parts with numbers above after. Raises NoSuchBucket, NoSuchUpload."""
        limit = min(parts_max, PAGE_ENTRIES_MAX)
        parts: list[PartInfo] = []
        with self._index.view() as view:
            bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))
            find(view, bucket_id, key, upload_id)
            if limit <= 0 or after >= PART_NUMBER_MAX:
                return PartPage(parts=(), next_after=None)
            for number, record in _parts_of(view, upload_id, max(after, 0) + 1):
                if len(parts) == limit:
                    return PartPage(parts=tuple(parts), next_after=parts[-1].part_number)
                parts.append(_part_info(number, record))
        return PartPage(parts=tuple(parts), next_after=None)

    async def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[tuple[int, str]],
        *,
        precondition: Precondition = ALWAYS,
        size_bytes: int | None = None,
        part_checksums: Mapping[int, Mapping[str, str]] | None = None,
        keeps_acl: bool = True,
        on_repeat: Callable[[ObjectInfo], Awaitable[None]] | None = None,
        expects: tuple[Expect, ...] = (),
    ) -> ObjectInfo:
        """Make the named parts, (number, bare ETag) each, the object.

        size_bytes: the object's length, if the client sent it. part_checksums: checksums of parts
        that the client sent, number -> algorithm -> base64 text; they must match.
        keeps_acl: whether the object gets the upload's access control list. on_repeat: awaited
        with the object if an earlier completion made it; what it raises is the outcome. Raises
        NoSuchBucket, NoSuchUpload, InvalidPart, PartOutOfOrder, PartTooSmall, PreconditionFailed,
        NoSuchKey, ContentDiffers.
        """
        encoded = names.check_key(key)
        _check_order(parts)
        now_ms, random_id = self._now_ms(), self._new_id()

        def complete(
            reading: Reading, equal: puts.Equal | None
        ) -> Decided[tuple[ObjectInfo, bool]]:
            bucket_row = lookups.find_bucket(reading, bucket)
            bucket_id, versioning = records.bucket_id(bucket_row), records.versioning(bucket_row)
            address = keys.locate(reading, bucket_id, encoded)
            value = None if address is None else reading.get(Store.OBJECTS, address)
            before = None if value is None else records.decode_object(value)
            try:
                row, upload = find(reading, bucket_id, key, upload_id)
            except errors.NoSuchUpload:
                if value is None or not _is_repeat(before, upload_id, parts):
                    raise
                return Decided(result=(records.object_info(bucket, key, value), True))
            stored = dict(_parts_of(reading, upload_id, 1))
            chosen = _choose(parts, stored, self._part_bytes_min, part_checksums or {})
            sequence, version_id = versions.identity(
                before, versioning, now_ms=now_ms, random_id=random_id
            )
            born = _join(upload_id, upload, chosen, sequence, version_id, now_ms)
            attributes = locks.attributes_of_new(bucket_row, born.attributes, now_ms=now_ms)
            if not keeps_acl:
                attributes = msgspec.structs.replace(attributes, acl=None)
            born = records.with_attributes(born, attributes)
            if size_bytes is not None and size_bytes != born.size_bytes:
                raise errors.InvalidPart(
                    f"the parts have {born.size_bytes} bytes, not {size_bytes}",
                    size_bytes=born.size_bytes,
                )
            puts.check_write(precondition, key, before)
            kept = {number for number, _ in parts}
            unnamed = [part for number, part in stored.items() if number not in kept]
            removed = [segment for part in unnamed for segment in part.segments]
            writes: list[Write] = [Delete(store=Store.UPLOADS, key=row)]
            writes += [
                Delete(store=Store.PARTS, key=_part_key(upload_id, number)) for number in stored
            ]
            address, placing = keys.place(reading, Store.OBJECTS, bucket_id, encoded)
            writes += placing
            if before is not None and precondition.write_once:
                assert versioning is None, "only table buckets have write-once keys, no versions"
                removed += born.segments
                born = _rewritten(key, before, born, equal)
            else:
                change = versions.plan_succession(
                    reading, bucket_id, encoded, address, before, versioning
                )
                writes += change.writes
                removed += change.removed
            writes += bodies.recount(reading, added=(), removed=removed, now_ms=now_ms)
            encoded_record = records.encode(born)
            writes.append(Put(store=Store.OBJECTS, key=address, value=encoded_record))
            writes += puts.note_acl(bucket, bucket_row, born.attributes)
            if before is not None and before.tombstoned_at_ms is not None:
                writes.append(Delete(store=Store.TOMBSTONES, key=address))
            return Decided(
                result=(records.object_info(bucket, key, encoded_record), False),
                batch=Batch(
                    expects=expects,
                    writes=tuple(writes),
                    derive=(self._tidy(bucket, encoded),),
                ),
            )

        info, is_repeat = await objects.decide_once(
            self._index,
            self._blobs,
            key,
            lambda equal: lambda reading: complete(reading, equal),
        )
        if is_repeat and on_repeat is not None:
            await on_repeat(info)
        return info

    def joined(
        self, bucket: str, key: str, upload_id: str, parts: Sequence[tuple[int, str]]
    ) -> SegmentBody:
        """Return the body that `complete` would make of the named parts. Nothing changes.

        Raises NoSuchBucket, NoSuchUpload, InvalidPart, PartOutOfOrder, PartTooSmall.
        """
        _check_order(parts)
        with self._index.view() as view:
            bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))
            find(view, bucket_id, key, upload_id)
            stored = dict(_parts_of(view, upload_id, 1))
        chosen = _choose(parts, stored, self._part_bytes_min, {})
        return SegmentBody(segments=tuple(segment for part in chosen for segment in part.segments))

    async def abort(self, bucket: str, key: str, upload_id: str) -> None:
        """Abort an upload and release its parts. Raises NoSuchBucket, NoSuchUpload."""
        now_ms = self._now_ms()
        encoded = key.encode("utf-8", "surrogatepass")

        def derive(reading: Reading) -> Sequence[Write]:
            bucket_id = records.bucket_id(lookups.find_bucket(reading, bucket))
            row, _ = find(reading, bucket_id, key, upload_id)
            return plan_abort(reading, row, upload_id, now_ms=now_ms)

        await self._index.commit(
            Batch(derive=(derive, self._tidy(bucket, encoded)), makes_room=True)
        )

    def list(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        upload_id_marker: str = "",
        uploads_max: int = 1000,
    ) -> UploadPage:
        """Return one page of a bucket's uploads, by key, then by upload id.

        Starts after key_marker; with upload_id_marker, after that upload of that key. Raises
        NoSuchBucket.
        """
        position = _position_of(key_marker, upload_id_marker)
        with self._index.view() as view:
            bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))

            page = listing.page(
                _Rows(view, bucket_id),
                prefix=_entry_of(prefix),
                delimiter=_entry_of(delimiter),
                start_after=position,
                entries_max=min(uploads_max, PAGE_ENTRIES_MAX),
                end_mark=keys.END,
            )
        uploads = []
        for entry, value in page.rows:
            key, upload_id = _read_entry(entry)
            uploads.append(_upload_info(bucket, key, upload_id, records.decode_upload(value)))
        return UploadPage(
            uploads=tuple(uploads),
            common_prefixes=tuple(_read_entry(each)[0] for each in page.common_prefixes),
            next_after=None if page.next_after is None else _read_entry(page.next_after),
        )

    def _tidy(self, bucket: str, encoded: bytes) -> Derivation:
        def tidy(reading: Reading) -> Sequence[Write]:
            if len(encoded) <= keys.CHUNK_BYTES:
                return ()
            bucket_id = records.bucket_id(lookups.find_bucket(reading, bucket))
            return keys.vacate(reading, bucket_id, encoded)

        return tidy


class _Rows:
    """A bucket's uploads for a listing: one entry per key, end mark and upload id."""

    def __init__(self, view: Reading, bucket_id: int) -> None:
        self._view = view
        self._bucket_id = bucket_id

    def walk(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        key_start = keys.decode_chunk(start.partition(keys.END)[0])
        for key, suffix, value in keys.walk(self._view, Store.UPLOADS, self._bucket_id, key_start):
            entry = keys.encode_chunk(key) + keys.END + suffix.hex().encode()
            if entry >= start:
                yield entry, value

    def first(self, start: bytes) -> tuple[bytes, bytes] | None:
        return next(self.walk(start), None)

    def take(self, start: bytes, stop: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        return list(itertools.islice(self.walk(start), count))


def find(
    reading: Reading, bucket_id: int, key: str, upload_id: str
) -> tuple[bytes, records.UploadRecord]:
    """Return an upload's row key and record. Raises NoSuchUpload."""
    encoded = key.encode("utf-8", "surrogatepass")
    suffix = _id_bytes(upload_id)
    if suffix is not None and 1 <= len(encoded) <= keys.KEY_BYTES_MAX:
        address = keys.locate(reading, bucket_id, encoded)
        value = None if address is None else reading.get(Store.UPLOADS, address + suffix)
        if address is not None and value is not None:
            return address + suffix, records.decode_upload(value)
    raise errors.NoSuchUpload(
        f"the upload {upload_id!r} of {key!r} does not exist", key=key, upload_id=upload_id
    )


def plan_abort(reading: Reading, row: bytes, upload_id: str, *, now_ms: int) -> tuple[Write, ...]:
    """Return the writes that remove an upload and release its parts. row: of the upload."""
    stored = dict(_parts_of(reading, upload_id, 1))
    removed = [segment for part in stored.values() for segment in part.segments]
    return (
        Delete(store=Store.UPLOADS, key=row),
        *(Delete(store=Store.PARTS, key=_part_key(upload_id, number)) for number in stored),
        *bodies.recount(reading, added=(), removed=removed, now_ms=now_ms),
    )


def _plan_part(
    reading: Reading,
    bucket: str,
    key: str,
    upload_id: str,
    part_number: int,
    record: records.PartRecord,
    shared: Sequence[Segment],
) -> tuple[Write, ...]:
    bucket_id = records.bucket_id(lookups.find_bucket(reading, bucket))
    find(reading, bucket_id, key, upload_id)
    row = _part_key(upload_id, part_number)
    value = reading.get(Store.PARTS, row)
    removed = () if value is None else records.decode_part(value).segments
    counting = bodies.recount(reading, added=shared, removed=removed, now_ms=record.modified_at_ms)
    return (*counting, Put(store=Store.PARTS, key=row, value=records.encode(record)))


def _parts_of(
    reading: Reading, upload_id: str, first: int
) -> Iterator[tuple[int, records.PartRecord]]:
    start = _part_key(upload_id, first)
    stop = keys.successor(bytes.fromhex(upload_id))
    for row, value in reading.scan(Store.PARTS, start, stop):
        reading.weigh(1)
        yield int(_NUMBER.unpack(row[-_NUMBER.size :])[0]), records.decode_part(value)


def _check_number(part_number: int) -> None:
    if not 1 <= part_number <= PART_NUMBER_MAX:
        raise errors.InvalidPart(
            f"part numbers go from 1 to {PART_NUMBER_MAX}, not {part_number}",
            part_number=part_number,
        )


def _check_order(parts: Sequence[tuple[int, str]]) -> None:
    if not parts:
        raise errors.InvalidPart("a completion must name at least one part", part_number=0)
    after = 0
    for number, _ in parts:
        if number <= after:
            raise errors.PartOutOfOrder(
                f"part {number} is named after part {after}", part_number=number, after=after
            )
        _check_number(number)
        after = number


def _choose(
    parts: Sequence[tuple[int, str]],
    stored: Mapping[int, records.PartRecord],
    part_bytes_min: int,
    claimed: Mapping[int, Mapping[str, str]],
) -> list[records.PartRecord]:
    """Return the records of the named parts. Raises InvalidPart, PartTooSmall."""
    chosen: list[records.PartRecord] = []
    for number, etag in parts:
        part = stored.get(number)
        if part is None or part.etag != etag:
            raise errors.InvalidPart(
                f"part {number} does not exist, or its ETag differs",
                part_number=number,
                etag=etag,
            )
        for algorithm, text in claimed.get(number, {}).items():
            if _checksum_of(part, algorithm) != text:
                raise errors.InvalidPart(
                    f"part {number} has no or a different {algorithm} checksum",
                    part_number=number,
                    etag=etag,
                )
        chosen.append(part)
    for (number, etag), part in zip(parts[:-1], chosen[:-1], strict=True):
        if part.size_bytes < part_bytes_min:
            raise errors.PartTooSmall(
                f"part {number} has {part.size_bytes} bytes, at least {part_bytes_min} are needed",
                part_number=number,
                etag=etag,
                size_bytes=part.size_bytes,
                size_bytes_min=part_bytes_min,
            )
    return chosen


def _checksum_of(part: records.PartRecord, algorithm: str) -> str | None:
    """Return the checksum of a part in base64; None if the part has none of that algorithm."""
    if algorithm == checksums.CRC64NVME:
        return checksums.to_text(part.crc64nvme.to_bytes(8, "big"))
    return part.checksums.get(algorithm)


def _join(
    upload_id: str,
    upload: records.UploadRecord,
    chosen: Sequence[records.PartRecord],
    sequence: int,
    version_id: str,
    now_ms: int,
) -> records.ObjectRecord:
    """Return the object made of the chosen parts."""
    checksums_text = dict(upload.attributes.checksums)
    algorithm = upload.checksum_algorithm
    part_checksums = b""
    if algorithm is not None and all(algorithm in part.checksums for part in chosen):
        texts = [(part.checksums[algorithm], part.size_bytes) for part in chosen]
        part_checksums = b"".join(base64.b64decode(text) for text, _ in texts)
        if upload.checksum_type == "FULL_OBJECT" and algorithm in checksums.CRC_BYTES:
            checksums_text[algorithm] = checksums.combine_text(algorithm, texts)
        else:
            checksums_text[algorithm] = checksums.composite_text(
                algorithm, [text for text, _ in texts]
            )
    attributes = ObjectAttributes(
        headers=upload.attributes.headers,
        user_metadata=upload.attributes.user_metadata,
        checksums=checksums_text,
        checksum_type=upload.checksum_type,
        tags=upload.attributes.tags,
        storage_class=upload.attributes.storage_class,
        owner=upload.attributes.owner,
        part_sizes_bytes=tuple(part.size_bytes for part in chosen),
        part_checksums=part_checksums,
        acl=upload.attributes.acl,
    )
    return records.ObjectRecord(
        sequence=sequence,
        version_id=version_id,
        size_bytes=sum(part.size_bytes for part in chosen),
        etag=etags.of_parts([part.etag for part in chosen]),
        crc64nvme=checksums.combine(
            checksums.CRC64NVME, [(part.crc64nvme, part.size_bytes) for part in chosen]
        ),
        modified_at_ms=now_ms,
        segments=tuple(segment for part in chosen for segment in part.segments),
        attributes=attributes,
        upload_id=upload_id,
    )


def _rewritten(
    key: str,
    before: records.ObjectRecord,
    born: records.ObjectRecord,
    equal: puts.Equal | None,
) -> records.ObjectRecord:
    """Complete to a write-once key: identical bytes stay; the attributes are this upload's."""
    puts.check_same(
        key,
        before,
        size_bytes=born.size_bytes,
        crc64nvme=born.crc64nvme,
        etag=born.etag,
        part_sizes_bytes=born.attributes.part_sizes_bytes,
        body=SegmentBody(segments=born.segments),
        equal=equal,
    )
    return records.with_segments(born, before.segments)


def _is_repeat(
    before: records.ObjectRecord | None, upload_id: str, parts: Sequence[tuple[int, str]]
) -> bool:
    """Return whether the same completion made the existing object."""
    if before is None or before.upload_id != upload_id:
        return False
    try:
        return etags.of_parts([etag for _, etag in parts]) == before.etag
    except ValueError:  # an ETag that is not a digest is not of this server
        return False


def _part_key(upload_id: str, part_number: int) -> bytes:
    return bytes.fromhex(upload_id) + _NUMBER.pack(part_number)


def _id_bytes(upload_id: str) -> bytes | None:
    if len(upload_id) != 32:
        return None
    try:
        return bytes.fromhex(upload_id)
    except ValueError:
        return None


def _entry_of(text: str) -> bytes:
    return keys.encode_chunk(text.encode("utf-8", "surrogatepass"))


def _position_of(key_marker: str, upload_id_marker: str) -> bytes:
    if not key_marker:
        return b""
    behind = upload_id_marker.encode("utf-8", "surrogatepass") or b"\xff"
    return _entry_of(key_marker) + keys.END + behind


def _read_entry(entry: bytes) -> tuple[str, str]:
    key, _, upload_id = entry.partition(keys.END)
    return keys.decode_chunk(key).decode(), upload_id.decode()


def _upload_info(bucket: str, key: str, upload_id: str, record: records.UploadRecord) -> UploadInfo:
    return UploadInfo(
        bucket=bucket,
        key=key,
        upload_id=upload_id,
        initiated_at_ms=record.initiated_at_ms,
        attributes=record.attributes,
        checksum_algorithm=record.checksum_algorithm,
        checksum_type=record.checksum_type,
    )


def _part_info(part_number: int, record: records.PartRecord) -> PartInfo:
    return PartInfo(
        part_number=part_number,
        etag=record.etag,
        size_bytes=record.size_bytes,
        crc64nvme=record.crc64nvme,
        modified_at_ms=record.modified_at_ms,
        checksums=record.checksums,
    )
