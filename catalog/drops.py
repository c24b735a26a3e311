"""engine: what a drop would take away, and what dropped tables are kept.

Counts the objects below the locations of tables in steps between turns of the event loop; each step
reads in a thread. Changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from catalog import errors, idents, locations, records, store
from storage import batch, keys
from storage import records as storage_records

OBJECTS_AT_ONCE: Final = 500
"""Objects that one step counts."""
OBJECTS_COUNTED_MAX: Final = 100_000
"""Objects that one request counts."""
FILES_LISTED_MAX: Final = 1_000
ROWS_AT_ONCE: Final = 200
"""Dropped tables that one step reads."""
NAMESPACES_AT_ONCE: Final = 10
"""Dropped namespaces that one step reads; each may name a thousand tables."""
SUFFIX_BYTES_MAX: Final = 4 + idents.NAME_BYTES_MAX + 25
"""Longest end of the key of a Dropped row: namespace id, name, time and uuid."""
PAGE_MAX: Final = 100
"""Dropped tables on one page."""


@dataclass(kw_only=True, slots=True)
class CountedFiles:
    """The objects below some locations. Mutable: it counts up.

    listed: the first FILES_LISTED_MAX of them, key and size. is_whole: all were counted.
    """

    files: int = 0
    size_bytes: int = 0
    listed: list[tuple[str, int]] = field(default_factory=list)
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptTable:
    """A dropped table or view, under its last name, and the objects below its location."""

    ident: idents.TableIdent
    dropped: records.Dropped
    counted: CountedFiles


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedPage:
    """Some dropped tables. next: where the next page begins, "" at the end."""

    kept: tuple[KeptTable, ...]
    next: str


class Drops:
    """Answers for every table bucket. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store

    async def measure(
        self,
        table_bucket: str,
        pointers: Iterable[records.Pointer],
        *,
        objects_max: int = OBJECTS_COUNTED_MAX,
    ) -> CountedFiles:
        """Return the objects below the locations of tables and views. Raises NoSuchWarehouse."""
        place = self._store.place(table_bucket)
        counted = CountedFiles()
        for pointer in pointers:
            path = locations.path_in(pointer.location, table_bucket=table_bucket)
            assert path, "a table lies in its table bucket"
            prefix = f"{path.rstrip('/')}/".encode("utf-8", "surrogatepass")
            start: bytes | None = prefix
            while start is not None:
                if counted.files >= objects_max:
                    counted.is_whole = False
                    return counted
                start = await asyncio.to_thread(self._count, place, prefix, start, counted)
        return counted

    def _count(
        self, place: records.Place, prefix: bytes, start: bytes, counted: CountedFiles
    ) -> bytes | None:
        """Count some objects, and return where the next ones begin; None at the end."""
        with self._store.index.view() as view:
            rows = keys.walk(view, batch.Store.OBJECTS, place.bucket_id, start)
            for number, (key, _, value) in enumerate(rows):
                if not key.startswith(prefix):
                    return None
                if number == OBJECTS_AT_ONCE:
                    return key
                size_bytes = storage_records.decode_object(value).size_bytes
                counted.files += 1
                counted.size_bytes += size_bytes
                if len(counted.listed) < FILES_LISTED_MAX:
                    counted.listed.append((key.decode(), size_bytes))
        return None

    async def page(
        self,
        table_bucket: str,
        *,
        after: str,
        is_shown: Callable[[idents.TableIdent, records.Pointer], bool],
    ) -> DroppedPage:
        """Return up to PAGE_MAX dropped tables and views, by name and time.

        after: `next` of the page before. is_shown: whether one is listed. Raises NoSuchWarehouse.
        """
        place = self._store.place(table_bucket)
        prefix = records.dropped_range(place)
        start = prefix + _suffix(after)
        kept: list[KeptTable] = []
        objects_left = OBJECTS_COUNTED_MAX
        while True:
            rows = await asyncio.to_thread(self._rows, place, prefix, start)
            for key, ident, dropped in rows:
                start = key + b"\x00"
                if not is_shown(ident, dropped.pointer):
                    continue
                counted = await self.measure(
                    table_bucket, [dropped.pointer], objects_max=objects_left
                )
                objects_left = max(1, objects_left - counted.files)
                kept.append(KeptTable(ident=ident, dropped=dropped, counted=counted))
                if len(kept) == PAGE_MAX:
                    return DroppedPage(kept=tuple(kept), next=key[len(prefix) :].hex())
            if len(rows) < ROWS_AT_ONCE:
                return DroppedPage(kept=tuple(kept), next="")

    async def namespaces(
        self, table_bucket: str, *, after: str, is_shown: Callable[[idents.Namespace], bool]
    ) -> tuple[list[tuple[idents.Namespace, records.DroppedNamespace]], str]:
        """Return up to PAGE_MAX dropped namespaces, and where the next page begins, "" at the end.

        They come by path id and time. after: where the page begins. is_shown: whether one is
        listed. Raises NoSuchWarehouse, InvalidPageToken.
        """
        place = self._store.place(table_bucket)
        prefix = records.dropped_namespace_range(place)
        start = prefix + _suffix(after)
        shown: list[tuple[idents.Namespace, records.DroppedNamespace]] = []
        while True:
            rows = await asyncio.to_thread(self._namespace_rows, prefix, start)
            for key, dropped in rows:
                start = key + b"\x00"
                namespace = dropped.namespaces[0][0]
                if is_shown(namespace):
                    shown.append((namespace, dropped))
                if len(shown) == PAGE_MAX:
                    return shown, key[len(prefix) :].hex()
            if len(rows) < NAMESPACES_AT_ONCE:
                return shown, ""

    def _namespace_rows(
        self, prefix: bytes, start: bytes
    ) -> list[tuple[bytes, records.DroppedNamespace]]:
        with self._store.index.view() as view:
            scanned = view.scan(batch.Store.POINTERS, start, records.stop_after(prefix))
            return [
                (key, records.decode(value, records.DroppedNamespace))
                for key, value in itertools.islice(scanned, NAMESPACES_AT_ONCE)
            ]

    def _rows(
        self, place: records.Place, prefix: bytes, start: bytes
    ) -> list[tuple[bytes, idents.TableIdent, records.Dropped]]:
        rows = []
        with self._store.index.view() as view:
            scanned = view.scan(batch.Store.POINTERS, start, records.stop_after(prefix))
            for key, value in itertools.islice(scanned, ROWS_AT_ONCE):
                namespace_id, name = records.dropped_name(key)
                ident = idents.TableIdent(
                    table_bucket=place.table_bucket,
                    namespace=self._store.namespace_of(view, place, namespace_id),
                    name=name,
                )
                rows.append((key, ident, records.decode(value, records.Dropped)))
        return rows


def _suffix(after: str) -> bytes:
    """Return the end of the key after a page's last. Raises InvalidPageToken."""
    if not after:
        return b""
    try:
        suffix = bytes.fromhex(after)
    except ValueError:
        suffix = b""
    if not 0 < len(suffix) <= SUFFIX_BYTES_MAX:
        raise errors.InvalidPageToken("The page token is not valid")
    return suffix + b"\x00"
