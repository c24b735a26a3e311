"""engine: writes the rows of a query as data files of a table, in one commit of the catalog.

The engine's process checks the rows, splits them by partition and writes the files into a folder
of their own in `tmp/`. The files become blobs, then objects below the table's location, and last a
commit adds them to the table. A failure before the commit removes the files. The engine's own
INSERT is never used.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from catalog import (
    appends,
    commits,
    files,
    idents,
    layout,
    locations,
    manifests,
    new_columns,
    owners,
    parquet_stats,
    readers,
    records,
    scans,
    tables,
    transforms,
    unnamed_files,
    values,
)
from catalog import errors as catalog_errors
from catalog.metadata import schemas
from server.access import model as access_model
from sql import (
    column_defaults,
    engine,
    errors,
    ipc,
    keys,
    limits,
    marks,
    offsets,
    pinned,
    tabletypes,
    threads,
)
from sql.dialect import clustering, names, operations, resolve, sqltypes, table_options
from sql.plan import code, emit
from storage import blobs, disk
from storage import model as storage_model

FILE_SIZE = "write.target-file-size-bytes"
FILE_SIZE_DEFAULT = 512 << 20
CODEC = "write.parquet.compression-codec"
NO_DEFAULTS: Mapping[int, str] = {}
FORMAT_VERSION = table_options.FORMAT_VERSION
PACKING_VERSION = str(tabletypes.VARIANTS_FORMAT_VERSION)
CODECS = frozenset({"zstd", "snappy", "gzip", "lz4", "uncompressed", "none", "brotli"})


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteTarget:
    """The table of a write, staged or not, and the fields that the rows have, in order.

    Columns of offsets are not among them: the files have those that the table has. columns: further
    ones that the table gets with the files. judge: checks the principal's rights again inside the
    commit's transaction. checks_lengths: the rows are new; rows that a change leaves as they are
    may hold texts longer than declared. earlier_schemas: a staged table gets them too, so that the
    ids of their columns are taken. is_adopted: the staged table was created without metadata, so
    its location is not this write's alone.
    """

    loaded: tables.LoadedTable
    fields: tuple[Mapping[str, Any], ...]
    is_staged: bool = False
    judge: owners.Judge | None = None
    checks_lengths: bool = True
    earlier_schemas: tuple[Mapping[str, Any], ...] = ()
    is_adopted: bool = False
    columns: new_columns.NewColumns | None = None

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema for which the files are written."""
        return self._widened[0]

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the table with the files."""
        return self._widened[1]

    @property
    def _widened(self) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        metadata = self.loaded.metadata
        if self.columns is None:
            return metadata.current_schema(), metadata.properties
        return offsets.widened(metadata, self.columns)

    @property
    def companions(self) -> dict[int, Mapping[str, Any]]:
        """The columns of offsets that the files have, by the indices of their columns."""
        of_table = offsets.companions(self.schema["fields"], self.properties)
        return {
            index: of_table[field["id"]]
            for index, field in enumerate(self.fields)
            if field["id"] in of_table
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """The change of a statement: files that are written and not yet committed.

    files: data and delete files. removed: live files of the state that target has loaded. based_on:
    the snapshot that the statement has read. summary: further fields of the snapshot's summary.
    needs_head: the new rows depend on rows that are not there (MERGE), so that nothing may have
    been committed since. needed: live data files whose rows the delete files name. unnamed: those
    of the files that the commit is to name.
    """

    target: WriteTarget
    files: tuple[manifests.DataFile, ...]
    rows: int
    removed: tuple[manifests.DataFile, ...] = ()
    based_on: int | None = None
    summary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    needs_head: bool = False
    needed: tuple[manifests.DataFile, ...] = ()
    unnamed: tuple[unnamed_files.UnnamedFile, ...] = ()

    def change(self, query_id: str) -> appends.FileChange:
        """Return the change for the catalog. query_id: of the statement, "" for none."""
        named = {pinned.QUERY_ID: query_id} if query_id else {}
        return appends.FileChange(
            operation=self._operation(),
            added=self.files,
            removed=frozenset(appends.identity(file) for file in self.removed),
            needed=frozenset(appends.identity(file) for file in self.needed),
            summary={**self.summary, **named},
            needs_head=self.needs_head,
            schema_id=self.target.loaded.metadata.current_schema_id,
            columns=self.target.columns,
        )

    @property
    def is_append(self) -> bool:
        """Whether the change adds rows and does nothing else."""
        return self._operation() == "append" and not self.needs_head

    def _operation(self) -> str:
        adds_rows = any(file.content == manifests.Content.DATA for file in self.files)
        adds_deletes = any(file.content != manifests.Content.DATA for file in self.files)
        if not self.removed and not adds_deletes:
            return "append"
        return "overwrite" if adds_rows else "delete"


class Writes:
    """Writes rows of queries into tables."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        blobs: blobs.Blobs,
        files: files.Files,
        disk: disk.Disk,
        scratch: Path,
        tables: tables.Tables,
        appends: appends.Appends,
        new_id: storage_model.NewId,
    ) -> None:
        self._engine = engine
        self._blobs = blobs
        self._files = files
        self._disk = disk
        self._scratch = scratch
        self._tables = tables
        self._appends = appends
        self._new_id = new_id

    async def stage(
        self,
        query: engine.EngineQuery,
        target: WriteTarget,
        *,
        by: str,
        names_at_commit: bool = False,
    ) -> Staged:
        """Run query and store its rows as uncommitted files of target. by: ARN of the principal.

        The query's columns are target's fields, in order. names_at_commit: a few small files wait
        in memory; `Transactions` has them named. A query that returns the table's first offset runs
        again, with the columns for it. Raises EngineFault, DiskFull.
        """
        try:
            return await self._stage(query, target, by=by, names_at_commit=names_at_commit)
        except engine.EngineFault as fault:
            if fault.code != engine.OFFSET:
                raise
        widened = await threads.for_columns(len(target.fields), _widened, target)
        return await self._stage(query, widened, by=by, names_at_commit=names_at_commit)

    async def _stage(
        self,
        query: engine.EngineQuery,
        target: WriteTarget,
        *,
        by: str,
        names_at_commit: bool,
    ) -> Staged:
        folder = self._scratch / self._new_id()
        await asyncio.to_thread(self._disk.make_folder, folder)
        named: list[str] = []
        unnamed: list[unnamed_files.UnnamedFile] = []
        try:
            write = await threads.for_columns(len(target.fields), _order, target, folder)
            results = await self._engine.run(dataclasses.replace(query, write=write))
            _, finished = await engine.collect(results)
            described = []
            for written in finished.files:
                data_file, file = await self._adopt(written, target, by=by)
                if names_at_commit and unnamed_files.may_wait(file.received, unnamed):
                    unnamed.append(file)
                else:
                    await self._files.name(file)
                    named.append(file.uri)
                described.append(data_file)
        except BaseException:
            await commits.to_the_end(self._forget(target.loaded.ident, named))
            raise
        finally:
            await asyncio.shield(asyncio.to_thread(self._disk.remove_tree, folder))
        return Staged(
            target=target,
            files=tuple(described),
            rows=finished.rows,
            unnamed=tuple(unnamed),
        )

    async def with_deletes(
        self, staged: Staged, delete_files: Sequence[marks.DeleteFile], *, by: str
    ) -> Staged:
        """Return the change with new delete files. If one is not stored, remove all its files."""
        ident = staged.target.loaded.ident
        for each in delete_files:
            try:
                file = unnamed_files.UnnamedFile(
                    uri=each.uri,
                    received=await self._files.receive(each.data),
                    table_bucket=ident.table_bucket,
                    owner=by,
                    content_type=each.content_type,
                )
                waits = unnamed_files.may_wait(file.received, staged.unnamed)
                if not waits:
                    await self._files.name(file)
            except BaseException:
                await commits.to_the_end(self.discard(staged))
                raise
            staged = dataclasses.replace(
                staged,
                files=(*staged.files, *each.described),
                unnamed=(*staged.unnamed, file) if waits else staged.unnamed,
            )
        return staged

    async def read_vectors(
        self, reader: readers.Reader, tasks: Mapping[int, scans.FileTask]
    ) -> Mapping[int, bytes]:
        """Return the blobs of the deletion vectors of data files, by number.

        Raises MetadataFileMissing.
        """

        def read() -> Mapping[int, bytes]:
            opened: dict[str, files.OpenedFile] = {}
            blobs: dict[int, bytes] = {}
            for number, task in tasks.items():
                for file in task.deletes.exact:
                    assert file.content_offset is not None
                    assert file.content_size_in_bytes is not None
                    if file.file_path not in opened:
                        opened[file.file_path] = self._files.open(reader.file(file.file_path))
                    vectors = opened[file.file_path]
                    start = file.content_offset
                    stop = min(start + file.content_size_in_bytes, vectors.info.size_bytes)
                    span = storage_model.ByteRange(start=start, stop=stop)
                    blobs[number] = self._files.read(vectors, span)
            return blobs

        return await asyncio.to_thread(read)

    def uri_beside(self, target: WriteTarget, data_file: manifests.DataFile, suffix: str) -> str:
        """Return the location of a new file of a data file's partition."""
        is_current = data_file.spec_id == target.loaded.metadata.default_spec_id
        partition = data_file.partition if is_current else None
        return _file_uri(target, partition, name=f"{self._new_id()}{suffix}")

    async def name(self, staged: Staged) -> Staged:
        """Name the files that wait, before the commit; if that fails, remove all files."""
        try:
            for file in staged.unnamed:
                await self._files.name(file)
        except BaseException:
            await commits.to_the_end(self.discard(dataclasses.replace(staged, unnamed=())))
            raise
        return dataclasses.replace(staged, unnamed=())

    async def commit(
        self, staged: Staged, *, principal: access_model.Principal, query_id: str = ""
    ) -> tables.LoadedTable:
        """Commit staged files. If the commit certainly failed, remove them.

        A started commit runs to its end although the caller is cancelled: otherwise the caller
        could not learn whether its rows are in the table.
        """
        running = asyncio.ensure_future(
            self._commit(staged, principal=principal, query_id=query_id)
        )
        return await commits.outcome_of(running)

    async def _commit(
        self, staged: Staged, *, principal: access_model.Principal, query_id: str
    ) -> tables.LoadedTable:
        target, change = staged.target, staged.change(query_id)
        try:
            return await self._appends.commit_files(
                target.loaded.ident,
                staged.files,
                operation=change.operation,
                removed=staged.removed,
                based_on=staged.based_on,
                staged=target.loaded if target.is_staged else None,
                extra_updates=[
                    {"action": "add-schema", "schema": schema} for schema in target.earlier_schemas
                ],
                summary=change.summary,
                schema_id=change.schema_id,
                columns=change.columns,
                unnamed=staged.unnamed,
                principal=principal,
                via="sql",
                judge=_same_table(target),
            )
        except (catalog_errors.CommitStateUnknown, asyncio.CancelledError):
            raise  # the commit may have succeeded, so its files stay
        except BaseException:
            await commits.to_the_end(self.discard(staged))
            raise

    async def is_committed(self, ident: idents.TableIdent, query_id: str) -> bool:
        """Return whether a table has the rows of a statement; false for a dropped table."""
        try:
            loaded = await self._tables.fetch(ident)
        except (
            catalog_errors.NoSuchWarehouse,
            catalog_errors.NoSuchNamespace,
            catalog_errors.NoSuchTable,
        ):
            return False
        return await find_rows_committed(loaded, query_id) is not None

    async def live_files(
        self, loaded: tables.LoadedTable, *, principal: access_model.Principal
    ) -> tuple[manifests.DataFile, ...]:
        """Return the live data and delete files of a state of a table."""
        return await self._appends.live_files(loaded, principal=principal)

    async def discard(self, staged: Staged) -> None:
        """Remove files that will not be committed."""
        unnamed = {file.uri for file in staged.unnamed}
        named = [file.file_path for file in staged.files if file.file_path not in unnamed]
        await self._forget(staged.target.loaded.ident, named)

    async def _adopt(
        self, written: engine.WrittenFile, target: WriteTarget, *, by: str
    ) -> tuple[manifests.DataFile, unnamed_files.UnnamedFile]:
        """Take a finished local file as one below the table's location, not yet named."""
        path = Path(written.path)
        metadata = target.loaded.metadata
        partition = _partition(written)
        uri = _file_uri(target, partition, name=f"{self._new_id()}.parquet")

        def describe() -> manifests.DataFile:
            return parquet_stats.data_file(
                pq.read_metadata(path),
                path=uri,
                size_bytes=written.size_bytes,
                schema=target.schema,
                spec_id=metadata.default_spec_id,
                partition=partition,
                sort_order_id=metadata.default_sort_order_id if sort_keys(target) else None,
                properties=metadata.properties,
            )

        described = await asyncio.to_thread(describe)
        file = unnamed_files.UnnamedFile(
            uri=uri,
            received=await self._blobs.adopt(path),
            table_bucket=target.loaded.ident.table_bucket,
            owner=by,
            content_type="application/vnd.apache.parquet",
        )
        return described, file

    async def _forget(self, ident: idents.TableIdent, uris: Sequence[str]) -> None:
        for uri in uris:
            await self._files.remove(uri, table_bucket=ident.table_bucket)


def _widened(target: WriteTarget) -> WriteTarget:
    """Return a target whose table has columns for offsets: at the commit, or if it is staged now.

    The target lacks one.
    """
    metadata = target.loaded.metadata
    columns = offsets.missing(
        metadata.current_schema()["fields"],
        metadata.properties,
        last_id=metadata.last_column_id,
    )
    assert columns is not None
    if not target.is_staged:
        return dataclasses.replace(target, columns=columns)
    schema, properties = offsets.widened(metadata, columns)
    wider = msgspec.structs.replace(
        metadata,
        schemas=tuple(
            schema if each["schema-id"] == schema["schema-id"] else each
            for each in metadata.schemas
        ),
        last_column_id=columns.fields[-1]["id"],
        properties=properties,
    )
    return dataclasses.replace(
        target, loaded=msgspec.structs.replace(target.loaded, metadata=wider)
    )


def _same_table(target: WriteTarget) -> owners.Judge:
    """Return the check that the table is still the one for which the files were written."""
    made_for = target.loaded.pointer.object_uuid

    def check(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        if target.judge is not None:
            target.judge(place, ident, pointer)
        if pointer is None or pointer.object_uuid == made_for:
            return
        if target.is_staged:
            raise catalog_errors.TableAlreadyExists(f"Table already exists: {ident.dotted()}")
        raise catalog_errors.NoSuchTable(f"Table does not exist: {ident.dotted()}")

    return check


async def find_summary(loaded: tables.LoadedTable, query_id: str) -> Mapping[str, str] | None:
    """Return the summary of the snapshot that the statement query_id committed, None if none.

    A long history is searched in a thread.
    """
    if loaded.metadata.snapshots.size_bytes > limits.HISTORY_HERE_BYTES_MAX:
        return await asyncio.to_thread(_summary, loaded, query_id)
    return _summary(loaded, query_id)


async def find_rows_committed(loaded: tables.LoadedTable, query_id: str) -> int | None:
    """Like `rows_committed`, but search a long history in a thread."""
    if loaded.metadata.snapshots.size_bytes > limits.HISTORY_HERE_BYTES_MAX:
        return await asyncio.to_thread(rows_committed, loaded, query_id)
    return rows_committed(loaded, query_id)


def rows_committed(loaded: tables.LoadedTable, query_id: str) -> int | None:
    """Return the number of rows that the statement query_id committed to the table, None if none.

    A statement that a driver repeats after a restart of the server has the same query id.
    """
    summary = _summary(loaded, query_id)
    return None if summary is None else int(summary.get("added-records", 0))


def _summary(loaded: tables.LoadedTable, query_id: str) -> Mapping[str, str] | None:
    snapshots = loaded.metadata.snapshots
    if not query_id or query_id.encode() not in snapshots.text:
        return None  # the usual case: no snapshot is decoded
    for snapshot_id in reversed(tuple(snapshots.ids)):
        summary: Mapping[str, str] = (snapshots.get(snapshot_id) or {}).get("summary") or {}
        if summary.get(pinned.QUERY_ID) == query_id:
            return summary
    return None


def _order(target: WriteTarget, folder: Path) -> engine.Write:
    metadata = target.loaded.metadata
    declared = tabletypes.declared_types(metadata.properties)
    places = {field["id"]: index for index, field in enumerate(target.fields)}
    spec = metadata.default_spec()
    partition: list[engine.PartitionField] = []
    for field in spec["fields"]:
        source = field["source-id"]
        if source not in places:
            raise errors.unsupported(f"a partition by the column of id {source}")
        partition.append(
            engine.PartitionField(
                name=f"{len(partition)}",
                column=places[source],
                transform=field["transform"],
                source_type=str(target.fields[places[source]]["type"]),
            )
        )
    codec = metadata.properties.get(CODEC, "zstd").lower()
    size = metadata.properties.get(FILE_SIZE, "")
    companions = target.companions
    stored = [*target.fields, *companions.values()]
    return engine.Write(
        directory=str(folder),
        schema=ipc.encode_schema(tabletypes.write_schema(stored)),
        offsets=tuple(companions),
        checks=tuple(
            _check(field, declared.get(field["id"]), has_length=target.checks_lengths)
            for field in target.fields
        ),
        partition=tuple(partition),
        file_size_bytes=int(size) if size.isdecimal() and int(size) > 0 else FILE_SIZE_DEFAULT,
        compression="none" if codec == "uncompressed" else codec if codec in CODECS else "zstd",
    )


def _check(
    field: Mapping[str, Any], declared: str | None, *, has_length: bool
) -> engine.ColumnConstraint:
    length_max = length_check(field, declared).length_max if has_length else None
    return engine.ColumnConstraint(
        name=names.shown(field["name"]),
        required=field["required"],
        length_max=length_max,
        is_packed=field["type"] == "variant",
    )


def length_check(field: Mapping[str, Any], declared: str | None) -> engine.ColumnConstraint:
    """Return the check of the length of a column's values. declared: its declared type."""
    sql_type = tabletypes.sql_type(field["type"], declared)
    limited = sql_type.name in ("text", "binary")
    return engine.ColumnConstraint(
        name=names.shown(field["name"]), length_max=sql_type.length if limited else None
    )


def _partition(written: engine.WrittenFile) -> tuple[Any, ...]:
    if not written.partition:
        return ()
    row = ipc.read_rows(written.partition)
    return tuple(tabletypes.plain_list(column.combine_chunks())[0] for column in row.columns)


def _file_uri(target: WriteTarget, partition: tuple[Any, ...] | None, *, name: str) -> str:
    """Return a data file's location: the folder of its partition in the table's data folder.

    partition: None for one of another spec, whose files lie in the data folder itself.

    If the folder's name would make the key too long, the file lies in the data folder itself.
    Readers accept both, because they take no partition values from paths.
    """
    ident, home = target.loaded.ident, target.loaded.metadata.location.rstrip("/")
    folder = "" if partition is None else _partition_path(target, partition)
    uri = f"{home}/data/{folder}/{name}" if folder else f"{home}/data/{name}"
    key = locations.path_in(uri, table_bucket=ident.table_bucket)
    if key is not None and len(key.encode()) > layout.KEY_BYTES_MAX:
        return f"{home}/data/{name}"
    return uri


def _partition_path(target: WriteTarget, partition: tuple[Any, ...]) -> str:
    metadata = target.loaded.metadata
    fields = metadata.default_spec()["fields"]
    if not fields:
        return ""
    types_by_id = {field["id"]: field["type"] for field in target.fields}
    results = [
        transforms.result_type(
            transforms.parse(field["transform"]), types_by_id[field["source-id"]]
        )
        for field in fields
    ]
    return transforms.partition_path(fields, results, partition)


def sort_keys(target: WriteTarget) -> list[str] | None:
    """Return ORDER BY keys of the table's sort order; None if SQL cannot express it."""
    order = target.loaded.metadata.default_sort_order()
    by_id = {field["id"]: field for field in target.fields}
    keys = []
    zoned = tabletypes.zoned_ids(target.fields, target.loaded.metadata.properties)
    for field in order["fields"]:
        source, transform = by_id.get(field["source-id"]), field["transform"]
        if source is None:
            return None
        if transform != clustering.IDENTITY and (
            source["id"] in zoned or not clustering.sorts(transform, source["type"])
        ):
            return None
        nulls = "FIRST" if field["null-order"] == "nulls-first" else "LAST"
        name = engine.quoted(source["name"])
        value = clustering.sort_value(transform, source["type"], name)
        keys.append(f"{value} {field['direction'].upper()} NULLS {nulls}")
    return keys or None


def plan_text(
    query: resolve.BoundQuery,
    target: WriteTarget,
    fields: Sequence[Mapping[str, Any]],
    defaults: Mapping[int, str] = NO_DEFAULTS,
    *,
    defaulted: Sequence[int] = (),
) -> str:
    """Return the engine's text whose columns are target's fields, in order.

    fields: the fields that the query's columns fill. Any other field gets its default: the engine's
    text in defaults, else its write default, or NULL. defaulted: as in `operations.Insert`.
    """
    places = {field["id"]: index for index, field in enumerate(fields)}
    width = len(fields) + len(defaulted)
    listed = ", ".join(engine.quoted(f"c{index}") for index in range(width))
    takes_default = {index: len(fields) + at for at, index in enumerate(defaulted)}
    zoned = tabletypes.zoned_ids(target.fields, target.loaded.metadata.properties)
    items = []
    for field in target.fields:
        index = places.get(field["id"])
        value = "" if index is None else engine.quoted(f"c{index}")
        if index is None or index in takes_default:
            default = defaults.get(field["id"]) or default_text(field, zoned)
            if index is None:
                value = default
            else:
                value = f'CASE WHEN "c{takes_default[index]}" THEN {default} ELSE {value} END'
        items.append(f"{value} AS {engine.quoted(field['name'])}")
    text = f'SELECT {", ".join(items)} FROM ({query.sql}) AS "rows"({listed})'
    keys = sort_keys(target)
    if keys:
        text = f'SELECT * FROM ({text}) AS "sorted" ORDER BY {", ".join(keys)}'
    return text


def default_text(field: Mapping[str, Any], zoned: Collection[int]) -> str:
    """Return the engine's text of a column's write default: NULL if it has none.

    zoned: the ids of columns of type TIMESTAMP_TZ.
    """
    from_default = field.get("write-default")
    iceberg_type, is_zoned = field["type"], field["id"] in zoned
    if from_default is None and isinstance(iceberg_type, dict):
        return "NULL"
    if from_default is None:
        declared = tabletypes.ZONED if is_zoned else None
        return emit.text(code.exactly(code.NULL, tabletypes.sql_type(iceberg_type, declared)))
    text = tabletypes.literal(iceberg_type, values.from_json(iceberg_type, from_default), "UTC")
    return tabletypes.zoned_text(text) if is_zoned else text


def fields_for(
    loaded: tables.LoadedTable, listed: Sequence[names.Ident]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return (fields to write, fields that the rows have) of an INSERT's column list.

    An empty list means all columns. Nested columns outside the list are left out of the files.
    Raises SqlError for unknown or repeated columns, and for nested columns in the list.
    """
    fields = offsets.columns(loaded.metadata)
    chosen_fields = assigned_fields(fields, listed, statement="INSERT into") if listed else fields
    if not listed:
        _check_assignable(fields, "INSERT into")
    ids = {field["id"] for field in chosen_fields}
    written = []
    for field in fields:
        if field["id"] in ids or tabletypes.is_computable(field["type"]):
            if field["id"] not in ids and field["type"] in ("uuid",):
                continue
            written.append(field)
        elif field["required"]:
            raise errors.null_into_not_null(names.shown(field["name"]))
    return written, chosen_fields


def assigned_fields(
    fields: Sequence[Mapping[str, Any]], listed: Sequence[names.Ident], *, statement: str
) -> list[Mapping[str, Any]]:
    """Return the fields that a list of columns names, in its order.

    Raises SqlError for unknown or repeated columns, and for those that SQL cannot write.
    """
    stored = [field["name"] for field in fields]
    by_name = {name: index for index, name in enumerate(stored)}
    chosen_fields = []
    chosen_ids = set()
    for ident in listed:
        spelled = [name for name in names.spellings(ident) if name in by_name]
        positions = [by_name[spelled[0]]] if spelled else names.find(ident, stored)
        if not positions:
            raise errors.invalid_identifier(ident.folded)
        field = fields[positions[0]]
        if field["id"] in chosen_ids:
            raise _duplicate_column(ident.folded)
        chosen_fields.append(field)
        chosen_ids.add(field["id"])
    _check_assignable(chosen_fields, statement)
    return chosen_fields


def _check_assignable(fields: Sequence[Mapping[str, Any]], statement: str) -> None:
    for field in fields:
        if type_name := tabletypes.unread(field["type"]):
            raise errors.unread_column(names.shown(field["name"]), type_name)
        if not tabletypes.is_assignable(field["type"]):
            raise errors.unsupported(f"{statement} column {field['name']} of this type")


def _duplicate_column(name: str) -> errors.SqlError:
    return errors.SqlError(
        "002025",
        "42S21",
        f"SQL compilation error:\nduplicate column name '{name}'",
        phase="COMPILATION",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTable:
    """The catalog's request for a CREATE TABLE: decoded JSON, as a REST client would send it."""

    schema: Mapping[str, Any]
    partition_spec: Mapping[str, Any] | None
    sort_order: Mapping[str, Any] | None
    properties: Mapping[str, str]
    unset: tuple[str, ...] = ()
    """Properties that a table which it replaces loses."""


def with_offsets(table: NewTable) -> NewTable:
    """Return the request for a table that has columns for the offsets of all its TIMESTAMP_TZ."""
    fields = table.schema["fields"]
    last_id = schemas.highest_field_id(dict(table.schema))
    columns = offsets.missing(fields, table.properties, last_id=last_id)
    if columns is None:
        return table
    return dataclasses.replace(
        table,
        schema={**table.schema, "fields": [*fields, *columns.fields]},
        properties={**table.properties, **columns.properties},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NewColumn:
    name: str
    type: sqltypes.SqlType
    required: bool = False
    comment: str | None = None
    default: column_defaults.Default | None = None
    is_quoted: bool = False
    """Its name stands in double quotes, so that it is shown in lower case too."""


def new_table(
    statement: operations.CreateTable, columns: Sequence[NewColumn], *, first_id: int = 1
) -> NewTable:
    """Return the catalog's request for a CREATE TABLE; raises SqlError for invalid columns.

    first_id: the id of the first column. Other ids follow.
    """
    taken: set[str] = set()
    fields, declared, quoted = [], {}, []
    packs = statement.is_iceberg and (FORMAT_VERSION, PACKING_VERSION) in statement.settings
    inner_ids = itertools.count(first_id + len(columns))
    defaults: dict[int, column_defaults.Default] = {}
    for number, column in enumerate(columns, start=first_id):
        if column.name.upper() in taken:
            raise _duplicate_column(names.shown(column.name))
        taken.add(column.name.upper())
        field: dict[str, Any] = {
            "id": number,
            "name": column.name,
            "required": column.required,
            "type": tabletypes.stored_form(
                tabletypes.new_column_type(column.type, packs=packs), inner_ids.__next__
            ),
        }
        if statement.is_iceberg and column.type.name == "timestamp_tz":
            raise errors.unsupported("a column of type TIMESTAMP_TZ in an ICEBERG table")
        if column.comment:
            field["doc"] = column.comment
        if column.default is not None and column.default.constant is not None:
            field["write-default"] = column.default.constant
        elif column.default is not None:
            defaults[number] = column.default
        fields.append(field)
        if column.is_quoted and names.PLAIN.fullmatch(column.name):
            quoted.append(number)
        text = tabletypes.declared_text(column.type)
        if text is not None and field["type"] != "variant":
            declared[str(number)] = text
    form = tabletypes.TRANSIENT if statement.is_transient else tabletypes.PLAIN
    properties = {} if statement.is_iceberg else {tabletypes.FORM: form}
    properties |= {name: text for name, text in statement.settings if text is not None}
    if packs:
        properties[tabletypes.VARIANTS] = "variant"
    if statement.comment:
        properties["comment"] = statement.comment
    if declared:
        properties[tabletypes.DECLARED] = json.dumps(declared, separators=(",", ":"))
    stored = [column.name for column in columns]
    schema: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": fields}
    ids = {name: first_id + index for index, name in enumerate(stored)}
    stored_keys = _keys(statement, fields, ids)
    primary = keys.identifiers(stored_keys, fields)
    if primary:
        schema["identifier-field-ids"] = primary
    more = {
        column_defaults.PROPERTY: column_defaults.encode(defaults),
        keys.PROPERTY: keys.encode(stored_keys),
        tabletypes.QUOTED: tabletypes.quoted_text(quoted),
    }
    properties |= {name: text for name, text in more.items() if text is not None}
    return NewTable(
        schema=schema,
        partition_spec=_partition_spec(statement, ids),
        sort_order=_sort_order(statement, fields, ids),
        properties=properties,
        unset=tuple(name for name, text in statement.settings if text is None),
    )


def _keys(
    statement: operations.CreateTable, fields: list[dict[str, Any]], ids: Mapping[str, int]
) -> list[keys.Key]:
    """Return the keys of a CREATE TABLE; columns of the primary key become required."""
    stored_keys: list[keys.Key] = []
    for key in statement.keys:
        key_ids = tuple(ids[_column_name(ident, ids)] for ident in key.columns)
        if key.name is not None and any(key.name.stored == other.name for other in stored_keys):
            raise errors.already_exists("Constraint", key.name.folded)
        stored_keys.append(keys.of_definition(key, key_ids))
        if key.type == "primary":
            for field in fields:
                field["required"] = field["required"] or field["id"] in key_ids
    return stored_keys


def _partition_spec(
    statement: operations.CreateTable, ids: Mapping[str, int]
) -> Mapping[str, Any] | None:
    if not statement.partition_by:
        return None
    fields = []
    for transform, ident in statement.partition_by:
        name = _column_name(ident, ids)
        word = transform.partition("[")[0]
        suffix = "" if word == "identity" else {"truncate": "_trunc"}.get(word, f"_{word}")
        fields.append(
            {
                "source-id": ids[name],
                "name": name + suffix,
                "transform": transform,
            }
        )
    return {"spec-id": 0, "fields": fields}


def _sort_order(
    statement: operations.CreateTable,
    fields: Sequence[Mapping[str, Any]],
    ids: Mapping[str, int],
) -> Mapping[str, Any] | None:
    if not statement.cluster_by:
        return None
    by_name = {field["name"]: field for field in fields}
    sources = [by_name[_column_name(ident, ids)] for _, ident in statement.cluster_by]
    listed = [
        (transform, source)
        for (transform, _), source in zip(statement.cluster_by, sources, strict=True)
    ]
    return {"order-id": 1, "fields": clustering.sort_fields(listed)}


def _column_name(ident: names.Ident, stored: Iterable[str]) -> str:
    columns = list(stored)
    positions = names.find(ident, columns)
    if not positions:
        raise errors.invalid_identifier(ident.folded)
    return columns[positions[0]]
