"""engine: the rows of warehouses in the index, and reading them.

A warehouse is a name that sessions use, with options. Every name may be used: one without a row has
the defaults. docs/ON_DISK.md describes the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sql import engine, limits, listings, sessions
from sql.dialect import warehouses
from storage import batch
from storage import errors as storage_errors
from storage import index as indexes

FORMAT: Final = b"\x01"
"""First byte of every value."""
STORE: Final = batch.Store.WAREHOUSES
NAME_BYTES_MAX: Final = 255


class WarehouseRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A warehouse. name: as reported. options: that were set. owner: ARN of its creator."""

    name: str
    options: dict[str, Any]
    owner: str
    created_at_ms: int
    changed_at_ms: int


def key(name: str) -> bytes:
    """Return the key of a warehouse."""
    return name.encode(errors="surrogatepass")


def encode(row: WarehouseRow) -> bytes:
    """Return a row's value."""
    return FORMAT + msgspec.msgpack.encode(row)


def decode(value: bytes) -> WarehouseRow:
    """Return a value's row. Raises CorruptRecord."""
    if value[:1] != FORMAT:
        raise storage_errors.CorruptRecord(f"a warehouse of format {value[:1]!r}")
    try:
        return msgspec.msgpack.decode(value[1:], type=WarehouseRow)
    except msgspec.MsgspecError as error:
        raise storage_errors.CorruptRecord(f"a warehouse: {error}") from error


class WarehouseRows:
    """Reads warehouses. Stateless. declared: the names of those in mini.toml."""

    def __init__(self, *, index: indexes.Index, declared: Sequence[str] = ()) -> None:
        self._index = index
        self._declared = declared

    def statement_seconds(
        self, session: sessions.Session, own: Mapping[str, Any], *, seconds_max: int
    ) -> int:
        """Return a statement's time limit: the least of its session's, of its warehouse's and of
        seconds_max, the server's.

        own: the parameters of the statement alone, which replace the session's.
        """
        requested = int(own.get(warehouses.TIMEOUT) or session.parameter(warehouses.TIMEOUT))
        with self._index.view() as view:
            value = view.get(STORE, key(session.warehouse))
        of_warehouse = 0 if value is None else decode(value).options.get(warehouses.TIMEOUT, 0)
        return min(each or seconds_max for each in (requested, of_warehouse, seconds_max))

    def listed(self, current: str, counts: engine.QueryCounts) -> list[listings.ListedWarehouse]:
        """Return all warehouses, by name; declared ones and the current one without a row, too.

        counts: of all engines, for the numbers of queries that run and that wait.
        """
        with self._index.view() as view:
            rows = [decode(value) for _, value in view.scan(STORE, b"")]
        shown = [
            listings.ListedWarehouse(
                name=row.name,
                is_current=row.name == current,
                options=row.options,
                created_at_ms=row.created_at_ms,
                changed_at_ms=row.changed_at_ms,
                owner=row.owner,
                running=counts.running.get(row.name, 0),
                waiting=counts.waiting.get(row.name, 0),
            )
            for row in rows
        ]
        stored = {row.name for row in rows}
        shown += [
            listings.ListedWarehouse(
                name=name,
                is_current=name == current,
                options={},
                running=counts.running.get(name, 0),
                waiting=counts.waiting.get(name, 0),
            )
            for name in sorted({*self._declared, *([current] if current else ())} - stored)
        ]
        return sorted(shown, key=lambda each: each.name)


def is_full(reading: batch.Reading) -> bool:
    """Return whether there are as many warehouses as there may be."""
    return sum(1 for _ in reading.scan(STORE, b"")) >= limits.WAREHOUSES_MAX
