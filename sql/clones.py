"""engine: CREATE TABLE ... LIKE and ... CLONE: a table with another one's definition and rows.

A clone names the bodies of the source's data files a second time, below its own location: no byte
is copied, and each table's files are its own to free. Where a data file cannot be shared as it is
(`_shareable`), and where the clone replaces a table that exists, the rows are written anew.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import commits, files, layout, locations, manifests, properties, scans, sequences
from catalog.metadata import model, schemas
from catalog.metadata import properties as property_names
from sql import column_defaults, filecolumns, keys, offsets, pinned, tabletypes, writes
from storage import model as storage_model

BOUND_PROPERTIES: Final = ("boathouse.protected", "write.object-storage.enabled")
"""Properties that belong to one table, beside the paths of its files."""

LINKED_AT_ONCE: Final = 64
"""Files that are named a second time in one transaction, and between two turns of the loop."""
ROW_ID: Final = pinned.LINEAGE[0]["id"]


class Unshared(Exception):
    """A data file of the source cannot be named a second time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedTable:
    """A table's definition as a REST client would send it, and the types of its columns in SQL."""

    table: writes.NewTable
    columns: tuple[writes.NewColumn, ...]


def definition(
    source: pinned.PinnedTable, *, numbers: Mapping[int, int], first_id: int = 1
) -> CopiedTable:
    """Return the definition of a table with the source's columns, of which the first has first_id.

    numbers: the next numbers of the source's AUTOINCREMENT columns, by field id; a column without
    one starts as it was declared.
    """
    metadata = source.loaded.metadata
    fresh, renumbered = schemas.with_fresh_ids(dict(source.schema))
    renumbered = {old: new + first_id - 1 for old, new in renumbered.items()}
    schema = _moved(fresh, first_id - 1)
    declared = tabletypes.declared_types(metadata.properties)
    columns = tuple(
        writes.NewColumn(
            name=field["name"],
            type=tabletypes.sql_type(field["type"], declared.get(field["id"])),
            required=field["required"],
        )
        for field in source.fields
    )
    return CopiedTable(
        columns=columns,
        table=writes.NewTable(
            schema=schema,
            partition_spec=_of_columns(metadata.default_spec(), renumbered),
            sort_order=_of_columns(metadata.default_sort_order(), renumbered),
            properties=_properties(source, renumbered, numbers),
        ),
    )


def _moved(value: Any, distance: int) -> Any:
    """Return a schema whose field ids are higher by distance, without values of rows before."""
    if isinstance(value, list):
        return [_moved(each, distance) for each in value]
    if not isinstance(value, Mapping):
        return value
    moved = {
        name: each + distance
        if name in ("id", "element-id", "key-id", "value-id")
        else _moved(each, distance)
        for name, each in value.items()
        if name != "initial-default"
    }
    if value.get("identifier-field-ids") is not None:
        moved["identifier-field-ids"] = [each + distance for each in value["identifier-field-ids"]]
    return moved


def _of_columns(definition: Mapping[str, Any], ids: Mapping[int, int]) -> Mapping[str, Any] | None:
    """Return a partition spec or sort order of the renumbered columns; None without its fields.

    A spec of several columns in one field, or of a column that the schema lacks, is left out.
    """
    fields = definition["fields"]
    if not fields or any(field.get("source-id") not in ids for field in fields):
        return None
    numbered = [
        {
            **{name: value for name, value in field.items() if name != "field-id"},
            "source-id": ids[field["source-id"]],
        }
        for field in fields
    ]
    return {**definition, "fields": numbered}


def _properties(
    source: pinned.PinnedTable, ids: Mapping[int, int], numbers: Mapping[int, int]
) -> dict[str, str]:
    metadata = source.loaded.metadata
    stored = {
        name: text
        for name, text in metadata.properties.items()
        if name not in (*properties.PATHS, *BOUND_PROPERTIES)
    }
    if metadata.format_version > 2:  # the property is there only if the table was made with it
        stored[property_names.FORMAT_VERSION] = str(metadata.format_version)
    if any(old != new for old, new in ids.items()):
        stored.pop(filecolumns.NAME_MAPPING, None)
    declared = json.loads(stored.pop(tabletypes.DECLARED, "{}"))
    kept = {str(ids[int(old)]): text for old, text in declared.items() if int(old) in ids}
    if kept:
        stored[tabletypes.DECLARED] = json.dumps(kept, separators=(",", ":"))
    quoted = tabletypes.quoted_text(
        ids[old] for old in tabletypes.quoted_ids(metadata.properties) if old in ids
    )
    defaults = {
        ids[old]: _started(default, numbers.get(old))
        for old, default in column_defaults.read(metadata.properties).items()
        if old in ids
    }
    listed = [
        dataclasses.replace(key, columns=tuple(ids[old] for old in key.columns))
        for key in keys.read(metadata.properties, source.schema)
        if all(old in ids for old in key.columns)
    ]
    companions = {
        ids[old]: ids[companion]
        for old, companion in offsets.read(metadata.properties).items()
        if old in ids and companion in ids
    }
    for name, text in (
        (tabletypes.QUOTED, quoted),
        (offsets.PROPERTY, offsets.encode(companions)),
        (column_defaults.PROPERTY, column_defaults.encode(defaults)),
        (keys.PROPERTY, keys.encode(listed)),
    ):
        stored.pop(name, None)
        if text is not None:
            stored[name] = text
    return stored


def _started(default: column_defaults.Default, following: int | None) -> column_defaults.Default:
    """Return a default whose numbers go on with the following one."""
    if default.identity is None or following is None:
        return default
    return column_defaults.Default(identity=(following, default.identity[1]))


def without_version(table: writes.NewTable) -> writes.NewTable:
    """Return a definition for a table that exists, which keeps its format version."""
    kept = {
        name: text
        for name, text in table.properties.items()
        if name != property_names.FORMAT_VERSION
    }
    return dataclasses.replace(table, properties=kept)


class Clones:
    """Shares the files of tables. Stateless."""

    def __init__(
        self,
        *,
        scans: scans.Scans,
        files: files.Files,
        sequences: sequences.Sequences,
        writes: writes.Writes,
        new_id: storage_model.NewId,
    ) -> None:
        self._scans = scans
        self._files = files
        self._sequences = sequences
        self._writes = writes
        self._new_id = new_id

    def numbers(self, source: pinned.PinnedTable) -> dict[int, int]:
        """Return the next numbers of a table's AUTOINCREMENT columns, by field id."""
        loaded = source.loaded
        return self._sequences.columns(loaded.ident.table_bucket, loaded.pointer.object_uuid)

    async def share(
        self, source: pinned.PinnedTable, target: writes.WriteTarget, *, by: str
    ) -> writes.Staged:
        """Name the source's files below the location of a staged table, uncommitted.

        target: a staged create of the source's definition. Raises Unshared if a file cannot be
        shared, MetadataFileMissing if the source is gone.
        """
        live: tuple[manifests.DataFile, ...] = ()
        if source.snapshot_id is not None:
            live = await self._scans.live_files(source.reader, snapshot_id=source.snapshot_id)
        staged = msgspec.structs.replace(
            target.loaded, metadata=_same_ids(source, target.loaded.metadata, self.numbers(source))
        )
        schemas_before = _schemas_before(source)
        _check_shareable(source, live)
        target = dataclasses.replace(
            target, loaded=staged, fields=tuple(source.fields), earlier_schemas=schemas_before
        )
        shared: list[manifests.DataFile] = []
        try:
            for start in range(0, len(live), LINKED_AT_ONCE):
                some = [
                    (file, self._uri(source, target, file))
                    for file in live[start : start + LINKED_AT_ONCE]
                ]
                shared += [_described(file, uri, source) for file, uri in some]
                linking = [self._link(source, file, uri, target, by=by) for file, uri in some]
                for result in await asyncio.gather(*linking, return_exceptions=True):
                    if isinstance(result, BaseException):
                        raise result
        except BaseException:
            staged_files = writes.Staged(target=target, files=tuple(shared), rows=0)
            await commits.to_the_end(self._writes.discard(staged_files))
            raise
        rows = sum(file.record_count for file in live)
        return writes.Staged(target=target, files=tuple(shared), rows=rows)

    async def _link(
        self,
        source: pinned.PinnedTable,
        file: manifests.DataFile,
        uri: str,
        target: writes.WriteTarget,
        *,
        by: str,
    ) -> None:
        opened = self._files.open(source.reader.file(file.file_path))
        bucket = target.loaded.ident.table_bucket
        await self._files.link(opened, uri, table_bucket=bucket, owner=by)

    def _uri(
        self, source: pinned.PinnedTable, target: writes.WriteTarget, file: manifests.DataFile
    ) -> str:
        """Return where a file lies below the clone's location: as it lies below the source's."""
        home = target.loaded.metadata.location.rstrip("/")
        if target.is_adopted:
            # Another clone into the same table must not name, and remove, the same files.
            return f"{home}/data/{self._new_id()}.{file.file_format.lower()}"
        before = f"{source.loaded.metadata.location.rstrip('/')}/"
        if file.file_path.startswith(before):
            uri = f"{home}/{file.file_path.removeprefix(before)}"
            key = locations.path_in(uri, table_bucket=target.loaded.ident.table_bucket)
            if key is not None and len(key.encode()) <= layout.KEY_BYTES_MAX:
                return uri
        return f"{home}/data/{self._new_id()}.{file.file_format.lower()}"


def _same_ids(
    source: pinned.PinnedTable, created: model.TableMetadata, numbers: Mapping[int, int]
) -> model.TableMetadata:
    """Return the metadata of a new table whose columns have the ids of the source's."""
    metadata = source.loaded.metadata
    ids = _ids(source)
    order = metadata.default_sort_order()
    return msgspec.structs.replace(
        created,
        schemas=({**source.schema, "schema-id": 0},),
        last_column_id=metadata.last_column_id,
        partition_specs=({**metadata.default_spec(), "spec-id": 0},),
        last_partition_id=metadata.last_partition_id,
        sort_orders=({**order, "order-id": 1 if order["fields"] else 0},),
        default_sort_order_id=1 if order["fields"] else 0,
        properties={
            **created.properties,
            **_properties(source, {each: each for each in ids}, numbers),
            **{
                name: text
                for name, text in created.properties.items()
                if name == tabletypes.FORM  # the statement may have the word TRANSIENT
            },
        },
    )


def _schemas_before(source: pinned.PinnedTable) -> tuple[Mapping[str, Any], ...]:
    """Return the source's earlier schemas, where a column of them has the highest id ever used.

    The clone has them too, so that no column that is added to it gets the id of a dropped one,
    whose values the shared files still contain. Raises Unshared where they are not kept.
    """
    metadata = source.loaded.metadata
    if schemas.highest_field_id(dict(source.schema)) == metadata.last_column_id:
        return ()
    for schema in metadata.schemas:
        if schemas.highest_field_id(dict(schema)) == metadata.last_column_id:
            return (schema,)
    raise Unshared


def _check_shareable(source: pinned.PinnedTable, live: Sequence[manifests.DataFile]) -> None:
    """Raise Unshared for a file that means something else in another table.

    Delete files name data files by their path. A file of another partition spec than the default
    one would need that spec. Row ids in a file may be given out again by the clone. The files of a
    mount are elsewhere, and here only copies that may be removed.
    """
    if source.reader.is_mounted:
        raise Unshared
    metadata = source.loaded.metadata
    for file in live:
        sizes = file.metrics.column_sizes
        has_row_ids = metadata.format_version >= 3 and (not sizes or ROW_ID in sizes)
        if (
            file.content != manifests.Content.DATA
            or file.spec_id != metadata.default_spec_id
            or has_row_ids
        ):
            raise Unshared
    ids = _ids(source)
    if any(field.get("source-id") not in ids for field in metadata.default_spec()["fields"]):
        raise Unshared
    if any(field.get("source-id") not in ids for field in metadata.default_sort_order()["fields"]):
        raise Unshared


def _described(
    file: manifests.DataFile, uri: str, source: pinned.PinnedTable
) -> manifests.DataFile:
    is_sorted = file.sort_order_id == source.loaded.metadata.default_sort_order_id
    order_id = 1 if source.loaded.metadata.default_sort_order()["fields"] else 0
    return msgspec.structs.replace(
        file,
        file_path=uri,
        spec_id=0,
        sort_order_id=order_id if is_sorted and file.sort_order_id is not None else None,
        first_row_id=None,
    )


def _ids(source: pinned.PinnedTable) -> frozenset[int]:
    """Return the ids of all fields of the source's schema, nested ones too."""
    _, renumbered = schemas.with_fresh_ids(dict(source.schema))
    return frozenset(renumbered)
