"""engine: a table of a statement, loaded once and read at one of its snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog import readers, scans, tables, values
from sql import errors, limits, offsets, tabletypes
from sql.dialect import shapes

QUERY_ID = "boathouse.query-id"
"""Key of a snapshot's summary: the id of the SQL statement that committed it."""

LINEAGE: Final[tuple[Mapping[str, Any], ...]] = (
    {"id": 2147483540, "name": "_row_id", "required": False, "type": "long"},
    {
        "id": 2147483539,
        "name": "_last_updated_sequence_number",
        "required": False,
        "type": "long",
    },
)
"""The fields of row lineage. Source: Iceberg spec, Reserved Field IDs; Row Lineage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedTable:
    """A table of a statement: loaded once, at one snapshot, with the snapshot's schema.

    reader: reads the table's files with the rights of the statement's principal.
    """

    reader: readers.Reader
    snapshot_id: int | None
    schema: Mapping[str, Any]

    @property
    def loaded(self) -> tables.LoadedTable:
        return self.reader.table

    @property
    def companions(self) -> Mapping[int, Mapping[str, Any]]:
        """The columns that hold the offsets of TIMESTAMP_TZ, by the ids of its columns."""
        return offsets.companions(self.schema["fields"], self.loaded.metadata.properties)

    @property
    def zoned(self) -> frozenset[int]:
        """The ids of the columns of type TIMESTAMP_TZ, which the engine reads in its own form."""
        return tabletypes.zoned_ids(self.fields, self.loaded.metadata.properties)

    @property
    def fields(self) -> list[Mapping[str, Any]]:
        """The columns that SQL shows."""
        return offsets.visible(self.schema["fields"], self.loaded.metadata.properties)


def lineage_of(table: PinnedTable) -> tuple[Mapping[str, Any], ...]:
    """Return the fields of row lineage that a table's data files may have beside its own."""
    taken = {field["name"] for field in table.schema["fields"]}
    if table.loaded.metadata.format_version < 3 or any(each["name"] in taken for each in LINEAGE):
        return ()
    return LINEAGE


async def find_snapshot(reader: readers.Reader, moment: shapes.Moment | None) -> PinnedTable:
    """Like `snapshot_at`, but search a long history in a thread."""
    metadata = reader.table.metadata
    history_bytes = metadata.snapshots.size_bytes + len(metadata.snapshot_entries.text)
    if moment is not None and history_bytes > limits.HISTORY_HERE_BYTES_MAX:
        return await asyncio.to_thread(snapshot_at, reader, moment)
    return snapshot_at(reader, moment)


def snapshot_at(reader: readers.Reader, moment: shapes.Moment | None) -> PinnedTable:
    """Return the table at a moment; raises SqlError if it has no such snapshot any more."""
    loaded = reader.table
    metadata = loaded.metadata
    if moment is None:
        return PinnedTable(
            reader=reader,
            snapshot_id=metadata.current_snapshot_id,
            schema=metadata.current_schema(),
        )
    snapshot_id = _snapshot_id(loaded, moment)
    if snapshot_id is None:
        return PinnedTable(reader=reader, snapshot_id=None, schema=metadata.current_schema())
    return PinnedTable(
        reader=reader,
        snapshot_id=snapshot_id,
        schema=scans.schema_of(metadata, snapshot_id),
    )


def _snapshot_id(loaded: tables.LoadedTable, moment: shapes.Moment) -> int | None:
    metadata = loaded.metadata
    match moment.parameter:
        case "version":
            if not str(moment.value).lstrip("-").isdecimal():
                raise _no_moment(loaded, f"version {moment.value} does not exist")
            snapshot_id = int(str(moment.value))
            if snapshot_id not in metadata.snapshot_ids:
                raise _no_moment(loaded, f"version {snapshot_id} does not exist")
        case "ref":
            ref = metadata.refs.get(str(moment.value))
            if ref is None:
                raise _no_moment(loaded, f"there is no branch or tag '{moment.value}'")
            snapshot_id = int(ref["snapshot-id"])
        case "statement":
            snapshot_id = _snapshot_of_query(loaded, str(moment.value))
        case "timestamp":
            assert not isinstance(moment.value, int | str)
            at_ms = int(moment.value.timestamp() * 1000)
            return _newest_before(loaded, at_ms - (1 if moment.before else 0))
        case _:
            raise errors.unsupported(f"AT ({moment.parameter.upper()} => ...)")
    if not moment.before:
        return snapshot_id
    snapshot = metadata.snapshot(snapshot_id)
    parent = None if snapshot is None else snapshot.get("parent-snapshot-id")
    if parent is not None and parent not in metadata.snapshot_ids:
        raise _no_moment(loaded, f"the state before version {snapshot_id} has expired")
    return parent


async def find_time(loaded: tables.LoadedTable, query_id: str) -> int | None:
    """Return when a statement changed a table, in Unix milliseconds; None if it did not, or if the
    snapshot has expired."""

    def find() -> int | None:
        try:
            snapshot = loaded.metadata.snapshot(_snapshot_of_query(loaded, query_id))
        except errors.SqlError:
            return None
        return None if snapshot is None else int(snapshot["timestamp-ms"])

    if loaded.metadata.snapshots.size_bytes > limits.HISTORY_HERE_BYTES_MAX:
        return await asyncio.to_thread(find)
    return find()


def _snapshot_of_query(loaded: tables.LoadedTable, query_id: str) -> int:
    for snapshot_id in loaded.metadata.snapshot_ids:
        snapshot = loaded.metadata.snapshot(snapshot_id) or {}
        if snapshot.get("summary", {}).get(QUERY_ID) == query_id.lower():
            return snapshot_id
    raise _no_moment(loaded, f"statement {query_id} did not change it, or its state has expired")


def _newest_before(loaded: tables.LoadedTable, at_ms: int) -> int | None:
    # After a rollback the newest snapshot is not the current one; the snapshot log has both.
    metadata = loaded.metadata
    log = [
        entry for entry in metadata.snapshot_log if entry["snapshot-id"] in metadata.snapshot_ids
    ]
    past = [entry for entry in log if entry["timestamp-ms"] <= at_ms]
    if past:
        return int(past[-1]["snapshot-id"])
    if loaded.pointer.created_at_ms > at_ms:
        raise _no_moment(loaded, "the requested time is before the table was made")
    if log and len(log) < len(metadata.snapshot_log):
        raise _no_moment(loaded, "the requested time is older than what is kept")
    return None


def _no_moment(loaded: tables.LoadedTable, reason: str) -> errors.SqlError:
    oldest = min((entry["timestamp-ms"] for entry in loaded.metadata.snapshot_log), default=None)
    oldest_time = "" if oldest is None else f" The oldest available time is {_iso(oldest)}."
    return errors.SqlError(
        "000707",
        "02000",
        "SQL compilation error:\nTime travel data is not available for table "
        f"{loaded.ident.name}: {reason}.{oldest_time}",
        phase="COMPILATION",
    )


def _iso(ms: int) -> str:
    text = values.to_json("timestamptz", ms * 1000)
    return str(text)


def rows_of(table: PinnedTable) -> int | None:
    """Return how many rows the snapshot states; None if it does not state them."""
    if table.snapshot_id is None:
        return 0
    snapshot = table.loaded.metadata.snapshot(table.snapshot_id)
    stated = (snapshot or {}).get("summary", {}).get("total-records", "")
    return int(stated) if str(stated).isdecimal() else None
