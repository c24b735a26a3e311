"""rule: the names of mounts as rows of the index, and a view that has both.

A mount's namespaces, tables and views get rows of the same form as stored ones, under ids of
buckets that the index never gives. So listings, pages and look-ups of names need no second way for
mounts. The rows are in memory and never written; they are replaced whole when the other catalog is
listed again.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final

from catalog import idents, records
from storage import batch, model

FIRST_BUCKET_ID: Final = 0x8000_0000
"""Ids of mounts begin here: the index counts its own from 1. The rest is a hash of the name."""

NAMES_MAX: Final = 100_000
"""Namespaces and tables of one mount together."""

Row = tuple[bytes, bytes]


def bucket_info(name: str, *, owner: str, region: str, since_ms: int) -> model.BucketInfo:
    """Return a mount as a table bucket."""
    digest = hashlib.blake2b(name.encode(), digest_size=4, person=b"mount").digest()
    return model.BucketInfo(
        name=name,
        bucket_id=FIRST_BUCKET_ID | int.from_bytes(digest, "big"),
        type="table",
        owner=owner,
        region=region,
        created_at_ms=since_ms,
    )


def is_mount(bucket: model.BucketInfo) -> bool:
    """Return whether a bucket stands for a mount."""
    return bucket.bucket_id >= FIRST_BUCKET_ID


def object_uuid(mount: str, namespace: idents.Namespace, name: str = "") -> str:
    """Return the uuid of a namespace or table of a mount: the same one for the same name."""
    named = "\x1f".join((mount, *namespace, "", name))
    digits = hashlib.blake2b(named.encode(), digest_size=16, person=b"mount").hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class MountRows:
    """The rows of one mount: sorted keys and their values, by store."""

    def __init__(self, values: Mapping[batch.Store, Mapping[bytes, bytes]] | None = None) -> None:
        self._values = {} if values is None else dict(values)
        self._keys = {store: sorted(rows) for store, rows in self._values.items()}

    def get(self, store: batch.Store, key: bytes) -> bytes | None:
        """Return the value under a key, or None."""
        return self._values.get(store, {}).get(key)

    def scan(
        self, store: batch.Store, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[Row]:
        """Yield the rows with start <= key < stop."""
        keys = self._keys.get(store, [])
        first = bisect.bisect_left(keys, start)
        last = len(keys) if stop is None else bisect.bisect_left(keys, stop)
        numbers = range(first, last)
        values = self._values.get(store, {})
        for number in reversed(numbers) if reverse else numbers:
            yield keys[number], values[keys[number]]


def encode(
    place: records.Place,
    listing: Mapping[idents.Namespace, Sequence[str]],
    namespace_ids: dict[idents.Namespace, int],
    *,
    views: Mapping[idents.Namespace, Sequence[str]] = MappingProxyType({}),
) -> MountRows:
    """Return the rows of a mount with these tables, and views, by namespace.

    namespace_ids: of every path that was ever listed, grown here; an id is never given twice.
    """
    pointers: dict[bytes, bytes] = {}
    paths: dict[bytes, bytes] = {}
    every = {levels[:depth] for levels in listing for depth in range(1, len(levels) + 1)}
    for levels in sorted(every):
        namespace_id = namespace_ids.setdefault(levels, len(namespace_ids) + 1)
        parent_id = namespace_ids[levels[:-1]] if levels[:-1] else records.ROOT_NAMESPACE_ID
        row = records.NamespaceRow(
            namespace_id=namespace_id,
            object_uuid=object_uuid(place.table_bucket, levels),
            properties={},
            created_at_ms=place.bucket.created_at_ms,
            created_by=place.bucket.owner,
            modified_at_ms=place.bucket.created_at_ms,
            modified_by=place.bucket.owner,
        )
        key = records.pointer_key(place, "namespace", parent_id, levels[-1])
        pointers[key] = records.encode(row)
        paths[records.namespace_path_key(place.bucket_id, levels)] = records.encode_integer(
            namespace_id
        )
        paths[records.namespace_id_key(place.bucket_id, namespace_id)] = records.encode(
            records.NamespacePath(namespace=levels)
        )
        object_types: tuple[tuple[idents.PointerType, Sequence[str]], ...] = (
            ("table", listing.get(levels, ())),
            ("view", views.get(levels, ())),
        )
        for object_type, object_names in object_types:
            for name in object_names:
                pointer = pointer_of(place, levels, name, object_type=object_type)
                key = records.pointer_key(place, object_type, namespace_id, name)
                pointers[key] = records.encode(pointer)
                pointers[records.uuid_key(place, pointer.object_uuid)] = records.encode(
                    records.Name(object_type=object_type, namespace_id=namespace_id, name=name)
                )
    return MountRows({batch.Store.POINTERS: pointers, batch.Store.NAMESPACES: paths})


def pointer_of(
    place: records.Place,
    namespace: idents.Namespace,
    name: str,
    *,
    object_type: idents.PointerType = "table",
) -> records.Pointer:
    """Return the pointer of a mounted table or view before its metadata is read.

    Its locations only say that there is metadata; loading it replaces them.
    """
    location = f"mount://{place.table_bucket}/{idents.dotted(namespace)}/{name}"
    return records.Pointer(
        object_type=object_type,
        object_uuid=object_uuid(place.table_bucket, namespace, name),
        table_uuid=None,
        metadata_location=location,
        location=location,
        created_at_ms=place.bucket.created_at_ms,
        created_by=place.bucket.owner,
        modified_at_ms=place.bucket.created_at_ms,
        modified_by=place.bucket.owner,
    )


class OverlaidView:
    """A view of the index with the rows of mounts. rows: by bucket id, four bytes."""

    is_committed = True

    def __init__(self, inner: Any, rows: Mapping[bytes, MountRows]) -> None:
        self._inner = inner
        self._rows = rows

    def __enter__(self) -> OverlaidView:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inner.__exit__(error_type, error, trace)

    def get(self, store: batch.Store, key: bytes) -> bytes | None:
        """Return the value under key, or None."""
        rows = self._rows.get(key[:4])
        if rows is not None and store in _OVERLAID:
            return rows.get(store, key)
        value: bytes | None = self._inner.get(store, key)
        return value

    def scan(
        self,
        store: batch.Store,
        start: bytes,
        stop: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Row]:
        """Yield the rows with start <= key < stop. A mount's rows are found by their prefix."""
        rows = self._rows.get(start[:4])
        if rows is not None and store in _OVERLAID:
            yield from rows.scan(store, start, stop, reverse=reverse)
        else:
            yield from self._inner.scan(store, start, stop, reverse=reverse)

    def weigh(self, rows: int) -> None:
        """Do nothing: what reads a committed state holds up no writer."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


_OVERLAID: Final = frozenset({batch.Store.POINTERS, batch.Store.NAMESPACES})
