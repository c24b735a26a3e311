"""What must hold of a data folder at any moment, read off the raw stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from storage import checksums, keys, records
from storage.batch import Store
from storage.index import ReadView
from storage.model import NULL_VERSION, Segment, SegmentBody
from storage.opening import Storage
from tests.kit import folders


def check(storage: Storage, root: Path) -> None:
    """Compare names, counts, bodies and files with each other.

    No name without its blob, whole; no blob without a name but what was released and waits for the
    sweep; every count right; every marker leads to a node, and every node holds something.
    """
    with storage.index.view() as view:
        named = Counter[tuple[str, bool]]()
        for where, size_bytes, crc64nvme, segments in named_bodies(view):
            named.update((segment.blob, segment.indexed) for segment in segments)
            data = storage.blobs.read(SegmentBody(segments=segments))
            assert len(data) == size_bytes, where
            assert checksums.crc64nvme(data) == crc64nvme, where
        released = {
            (record.what, record.name)
            for record in (
                records.decode_released(value) for _, value in view.scan(Store.RELEASED, b"")
            )
        }
        files = {blob for blob, indexed in named if not indexed}
        waiting = {name for what, name in released if what == "file"}
        assert not files & waiting
        assert folders.blob_files(root) == files | waiting
        rows = {blob for blob, indexed in named if indexed}
        waiting = {name for what, name in released if what == "row"}
        assert not rows & waiting
        assert {key.hex() for key, _ in view.scan(Store.BODIES, b"")} == rows | waiting
        counted = {
            (key[1:].hex(), key[:1] == b"i"): records.decode_blob(value).references
            for key, value in view.scan(Store.BLOBS, b"")
        }
        assert counted == {
            (blob, indexed): count
            for (blob, indexed), count in named.items()
            if count > 1 or not indexed
        }
        check_nodes(view)
        check_parts(view)
        check_tombstones(view)
        check_versions(view)


def check_recovered(storage: Storage, root: Path) -> None:
    """Check what also holds right after a start: nothing waits, nothing is half done."""
    check(storage, root)
    assert storage.recovery.missing == ()
    assert list((root / "tmp").iterdir()) == []
    assert list((root / "cache").iterdir()) == []
    with storage.index.view() as view:
        assert list(view.scan(Store.RELEASED, b"")) == []


def named_bodies(view: ReadView) -> Iterator[tuple[bytes, int, int, tuple[Segment, ...]]]:
    for store in (Store.OBJECTS, Store.VERSIONS):
        for row, value in view.scan(store, b""):
            if keys.suffix_of(row) is not None:
                info = records.decode_object(value)
                yield row, info.size_bytes, info.crc64nvme, info.segments
    for row, value in view.scan(Store.PARTS, b""):
        part = records.decode_part(value)
        yield row, part.size_bytes, part.crc64nvme, part.segments


def check_nodes(view: ReadView) -> None:
    prefixes = dict(view.scan(Store.PREFIXES, b""))
    assert len(set(prefixes.values())) == len(prefixes)
    inhabited = {row[:8] for store in keys.KEYED_STORES for row, _ in view.scan(store, b"")}
    for marker, value in prefixes.items():
        assert marker[:4] + value in inhabited, "a node holds something"
    for store in keys.KEYED_STORES:
        scopes = {row[:8] for row, _ in view.scan(store, b"")}
        for row, value in view.scan(store, b""):
            if keys.suffix_of(row) is None:
                assert prefixes[row] == value, "a marker leads to its node"
                assert row[:4] + value in scopes, "a marker stands for rows of its store"
        reached = {row[:4] + value for row, value in prefixes.items() if view.get(store, row)}
        roots = {scope for scope in scopes if scope[4:] == bytes(4)}
        assert scopes == reached | roots, "every row can be reached"


def check_parts(view: ReadView) -> None:
    uploads = {keys.suffix_of(row) for row, _ in view.scan(Store.UPLOADS, b"")} - {None}
    assert {row[:16] for row, _ in view.scan(Store.PARTS, b"")} <= uploads


def check_tombstones(view: ReadView) -> None:
    hidden = {
        row
        for row, value in view.scan(Store.OBJECTS, b"")
        if keys.suffix_of(row) is not None and records.is_tombstoned(value)
    }
    assert hidden == {
        row for row, _ in view.scan(Store.TOMBSTONES, b"") if keys.suffix_of(row) is not None
    }


def check_versions(view: ReadView) -> None:
    """An older version stands beside a newest one, has a lower sequence, and an id of its own."""
    older: dict[bytes, list[tuple[bytes, records.ObjectRecord]]] = {}
    for row, value in view.scan(Store.VERSIONS, b""):
        suffix = keys.suffix_of(row)
        if suffix is not None:
            address = row[: len(row) - len(suffix)]
            older.setdefault(address, []).append((suffix, records.decode_object(value)))
    for address, rows in older.items():
        newest = view.get(Store.OBJECTS, address)
        assert newest is not None, "an older version stands beside a newest one"
        every = [records.decode_object(newest), *(record for _, record in rows)]
        assert max(each.sequence for each in every) == every[0].sequence
        assert len({each.sequence for each in every}) == len(every)
        assert len({each.version_id for each in every}) == len(every)
        for suffix, record in rows:
            if record.version_id == NULL_VERSION:
                assert suffix == b""
            else:
                assert int.from_bytes(suffix, "big") == 2**64 - 1 - record.sequence
                assert record.version_id.startswith(f"{record.sequence:016x}")
    for store in (Store.OBJECTS, Store.VERSIONS):
        for row, value in view.scan(store, b""):
            if keys.suffix_of(row) is not None:
                record = records.decode_object(value)
                assert records.has_delete_marker(value) == (record.etag == "")
