"""engine: one snapshot of a table as directories of Parquet files that the engine can read.

Columns are matched by field id. Files are grouped by the names of their columns, which the engine's
process reads from their footers, once per file, because files never change. Each group is a
directory of hard links to the blobs. A projection restores the table's column names; it returns
NULL or the initial default for a column that a file lacks, and the partition's value for an
identity column that a file leaves out. The engine gets the paths of delete files.
"""

from __future__ import annotations

import asyncio
import bisect
import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from catalog import (
    datatypes,
    deletes,
    files,
    pruning,
    scans,
    values,
)
from catalog import errors as catalog_errors
from sql import (
    engine,
    errors,
    filecolumns,
    ipc,
    kernelforms,
    limits,
    offsets,
    pinned,
    tablecolumns,
    tabletypes,
    temporary_names,
    threads,
)
from sql.dialect import names, shapes, sqltypes
from sql.plan import predicates
from storage import links
from storage import model as storage_model

_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """A data file of a scan, and the object that holds it."""

    task: scans.FileTask
    info: storage_model.ObjectInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class _Way:
    """How a file is read. projection: (column, expression). schema: the file's, encoded.

    functions: that the projection calls.
    """

    schema: bytes
    projection: tuple[tuple[str, str], ...]
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FileCount:
    """Data files of a table: those that a query reads, and all of them."""

    kept: int
    in_all: int
    kept_bytes: int


class Relations:
    """Builds relations. Its only state is caches of immutable files' facts."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        scans: scans.Scans,
        files: files.Files,
        links: links.Links,
    ) -> None:
        self._engine = engine
        self._scans = scans
        self._files = files
        self._links = links
        self._columns = tablecolumns.TableColumns()
        self._footers: OrderedDict[str, bytes] = OrderedDict()
        self._ways: OrderedDict[Any, _Way] = OrderedDict()
        self._bounds: OrderedDict[tuple[str, int], dict[int, tuple[int, int]]] = OrderedDict()
        self._distrusted: OrderedDict[str, None] = OrderedDict()

    def shape(
        self,
        table: pinned.PinnedTable,
        relation: str,
        bounds: Mapping[int, tuple[int, int]] | None = None,
        *,
        numbered: bool = False,
    ) -> shapes.TableShape:
        """Return the table's shape for the binder. bounds: of whole-number columns, by field id.

        numbered: with the column `shapes.ROW`. Raises SqlError for a table with such a column.
        """
        shape_columns = self._columns.shape_columns(table, bounds or {})
        if numbered:
            check_read(table.fields)
            if names.find(names.Ident(text=shapes.ROW), [each.name for each in shape_columns]):
                raise errors.unsupported(f"change of a table with a column {shapes.ROW}")
            number = sqltypes.integer(19)
            row = shapes.ShapeColumn(name=shapes.ROW, type=number, nullable=False)
            shape_columns = (*shape_columns, row)
        database, schema, name = temporary_names.path(table.loaded.ident)
        return shapes.TableShape(
            relation=relation,
            path=(names.of_database(database), schema, name),
            columns=shape_columns,
            rows=None if self._is_distrusted(table) else pinned.rows_of(table),
        )

    def distrust(self, tables: Iterable[pinned.PinnedTable | None]) -> None:
        """Rely no longer on what the metadata of tables states of their values and rows."""
        for table in tables:
            if table is not None:
                self._distrusted[table.loaded.pointer.object_uuid] = None
        while len(self._distrusted) > limits.DISTRUSTED_MAX:
            self._distrusted.popitem(last=False)

    def _is_distrusted(self, table: pinned.PinnedTable) -> bool:
        return table.loaded.pointer.object_uuid in self._distrusted

    async def bounds(self, table: pinned.PinnedTable) -> Mapping[int, tuple[int, int]]:
        """Return the bounds of whole-number columns by field id, as far as the manifests have them.

        They are what a writer claims. Raises as `Scans.plan` does.
        """
        if table.snapshot_id is None or self._is_distrusted(table):
            return {}
        key = (table.loaded.pointer.object_uuid, table.snapshot_id)
        kept = self._bounds.get(key)
        if kept is not None:
            await self._scans.check_readable(table.reader, table.snapshot_id)
        else:
            kept = self._bounds[key] = await self._common_bounds(table, table.snapshot_id)
            while len(self._bounds) > limits.BOUNDS_KEPT_MAX:
                self._bounds.popitem(last=False)
        return kept

    async def _common_bounds(
        self, table: pinned.PinnedTable, snapshot_id: int
    ) -> dict[int, tuple[int, int]]:
        """Return the bounds of whole-number columns over all data files.

        A column is left out if the manifests lack its bounds for one file.
        """
        # Arithmetic of a few columns of 32 bits needs no bounds but those of their type.
        wanted = [field for field in table.fields if datatypes.name_of(field["type"]) == "long"]
        if not wanted:
            return {}
        files_max = min(limits.BOUNDED_FILES_MAX, limits.BOUNDED_VALUES_MAX // len(wanted))
        files = await self._scans.data_files(
            table.reader, snapshot_id=snapshot_id, files_max=files_max
        )
        common: dict[int, tuple[int, int]] = {}
        looked_at = 0
        for number, file in enumerate(files or ()):
            if looked_at >= limits.BOUNDS_AT_ONCE:
                looked_at = 0
                await asyncio.sleep(0)
            *_, lower_bounds, upper_bounds = file.metrics.unpacked()
            looked_at += len(wanted) + len(lower_bounds or ()) // 10
            still = []
            for field in wanted:
                ends = _ends(field, lower_bounds or {}, upper_bounds or {})
                if ends is None:
                    common.pop(field["id"], None)
                    continue
                still.append(field)
                before = common[field["id"]] if number else ends
                common[field["id"]] = (min(before[0], ends[0]), max(before[1], ends[1]))
            wanted = still
            if not wanted:
                break
        return common

    async def relation(
        self,
        table: pinned.PinnedTable,
        name: str,
        *,
        conditions: Sequence[predicates.Filter] = (),
        zone: str = "UTC",
        owner: str = "",
        query_id: str = "",
        warehouse: str = "",
    ) -> engine.Relation:
        """Return the relation of that name with the table's rows that conditions may not exclude.

        owner: the principal whose share of the engine reads the footers of new files. query_id,
        warehouse: of the statement that waits for them.

        Raises SqlError for files that cannot be read, and as `Scans.plan` does.
        """
        tasks = await self.tasks(table, conditions)
        footers = engine.EngineQuery(
            purpose="footers", owner=owner, query_id=query_id, warehouse=warehouse
        )
        return await self._relation(table, name, tasks, zone=zone, footers=footers)

    async def numbered(
        self,
        table: pinned.PinnedTable,
        name: str,
        tasks: Mapping[int, scans.FileTask],
        *,
        zone: str = "UTC",
        owner: str = "",
        query_id: str = "",
        warehouse: str = "",
        packs: bool = False,
    ) -> engine.Relation:
        """Return the relation of that name with the rows of some files, and their numbers.

        packs: columns of `variant` are packed (`sql.variant_columns`), as they are written.
        tasks: the files, by the number that the numbers of their rows begin with. The relation has
        the further column `shapes.ROW`, and in format version 3 those of LINEAGE: NULL where a file
        leaves their values to its manifest. Raises as `relation` does.
        """
        files = await threads.for_columns(
            len(tasks),
            lambda: {task.data_file.file_path: number for number, task in tasks.items()},
        )
        footers = engine.EngineQuery(
            purpose="footers", owner=owner, query_id=query_id, warehouse=warehouse
        )
        return await self._relation(
            table,
            name,
            tuple(tasks.values()),
            zone=zone,
            footers=footers,
            numbers=files,
            packs=packs,
        )

    async def tasks(
        self, table: pinned.PinnedTable, conditions: Sequence[predicates.Filter] = ()
    ) -> tuple[scans.FileTask, ...]:
        """Return the files with the rows that conditions may not exclude.

        Raises as `Scans.plan` does.
        """
        if table.snapshot_id is None:
            return ()
        plan = await self._scans.plan(
            table.reader,
            snapshot_id=table.snapshot_id,
            predicate=_predicate(conditions, table),
            schema=table.schema,
        )
        return plan.tasks

    async def _relation(
        self,
        table: pinned.PinnedTable,
        name: str,
        tasks: Sequence[scans.FileTask],
        *,
        zone: str,
        footers: engine.EngineQuery,
        numbers: Mapping[str, int] | None = None,
        packs: bool = False,
    ) -> engine.Relation:
        """Return a relation with the rows of files.

        footers: the query for the footers of new files, without their paths. numbers: of the
        files, if rows are numbered. packs: as in `numbered`.
        """
        if not tasks:
            return self.empty(table, name, zone=zone, numbered=numbers is not None, packs=packs)
        schema = await threads.for_columns(
            len(table.fields),
            self._encoded_schema,
            table,
            zone,
            numbered=numbers is not None,
            packs=packs,
        )
        files = await self._opened(table, tasks)
        await self._learn_footers(files, footers)
        grouped: dict[Any, list[_File]] = {}
        ways_by_key: dict[Any, _Way] = {}
        compared = _ComparedFields(table)
        async for part in _in_steps(files):
            for file in part:
                applying = file.task.deletes
                way = await self._way(
                    table,
                    file,
                    compared.of(applying),
                    zone,
                    numbered=numbers is not None,
                    packs=packs,
                )
                key = (way, bool(applying.equality), applying.has_positions)
                grouped.setdefault(key, []).append(file)
                ways_by_key[key] = way
            _check_groups(len(grouped))
        groups: list[engine.Group] = []
        equality_reads = 0
        for key, members in grouped.items():
            way = ways_by_key[key]
            group = self._present_group(way, members) if numbers is None else None
            if group is None:
                group = await asyncio.to_thread(self._group, table, way, members, numbers)
            equality_reads += sum(len(each.files) for each in group.equality_deletes)
            _check_equality_reads(equality_reads)
            groups.append(group)
        return engine.Relation(
            name=name,
            schema=schema,
            groups=tuple(groups),
            row_count=sum(task.data_file.record_count for task in tasks),
        )

    async def count_rows(self, table: pinned.PinnedTable) -> int | None:
        """Return the number of rows from the table's manifests; None if it has delete files.

        Raises the same errors as `relation`, so that a count also fails for a missing file.
        """
        if table.snapshot_id is None:
            return 0
        plan = await self._scans.plan(
            table.reader, snapshot_id=table.snapshot_id, schema=table.schema
        )
        await self._opened(table, plan.tasks)
        if any(task.deletes for task in plan.tasks):
            return None
        return sum(task.data_file.record_count for task in plan.tasks)

    async def count_files(
        self, table: pinned.PinnedTable, conditions: Sequence[predicates.Filter]
    ) -> FileCount:
        """Return the number of data files that conditions do not exclude, and of all data files."""
        if table.snapshot_id is None:
            return FileCount(kept=0, in_all=0, kept_bytes=0)
        predicate = _predicate(conditions, table)
        kept, every = [
            await self._scans.plan(
                table.reader,
                snapshot_id=table.snapshot_id,
                predicate=wanted,
                schema=table.schema,
            )
            for wanted in (predicate, pruning.ALWAYS)
        ]
        return FileCount(
            kept=len(kept.tasks),
            in_all=len(every.tasks),
            kept_bytes=sum(task.data_file.file_size_in_bytes for task in kept.tasks),
        )

    def empty(
        self,
        table: pinned.PinnedTable,
        name: str,
        *,
        zone: str = "UTC",
        numbered: bool = False,
        packs: bool = False,
    ) -> engine.Relation:
        """Return the relation of a table without its rows, for planning alone."""
        schema = self._encoded_schema(table, zone, numbered=numbered, packs=packs)
        return engine.Relation(name=name, schema=schema)

    def _encoded_schema(
        self, table: pinned.PinnedTable, zone: str, *, numbered: bool, packs: bool
    ) -> bytes:
        if numbered:
            return filecolumns.encoded_schema(table, zone, numbered=True, packs=packs)
        return self._columns.encoded_schema(table, zone)

    # Files

    async def _opened(
        self, table: pinned.PinnedTable, tasks: Sequence[scans.FileTask]
    ) -> list[_File]:
        files: list[_File] = []
        needed = deletes.Needed()
        if table.reader.is_mounted:
            await table.reader.bring(self._uris(tasks))
        async for part in _in_steps(tasks):
            for task in part:
                files.append(self._file(table, task))
                needed.add(task.deletes)
        for number, delete in enumerate(needed.all(), start=1):
            if delete.file_format not in ("PARQUET", "PUFFIN"):
                raise errors.unsupported(f"delete files in {delete.file_format}")
            table.reader.file(delete.file_path)  # raises here, before a thread opens it
            if number % limits.FILES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return files

    @staticmethod
    def _uris(tasks: Sequence[scans.FileTask]) -> list[str]:
        """Return the files that tasks read, deletes too; those that are not read are left out."""
        needed = deletes.Needed()
        uris = []
        for task in tasks:
            needed.add(task.deletes)
            if task.data_file.file_format == "PARQUET":
                uris.append(task.data_file.file_path)
        return uris + [delete.file_path for delete in needed.all()]

    def _file(self, table: pinned.PinnedTable, task: scans.FileTask) -> _File:
        file = task.data_file
        if file.file_format != "PARQUET":
            raise errors.unsupported(f"data files in {file.file_format}")
        return _File(task=task, info=self._info(table, file.file_path))

    def _info(self, table: pinned.PinnedTable, uri: str) -> storage_model.ObjectInfo:
        try:
            return self._files.open(table.reader.file(uri)).info
        except catalog_errors.MetadataFileMissing:
            raise errors.SqlError(
                "091364", "58030", f"The table's data file {uri} does not exist"
            ) from None

    async def _learn_footers(self, files: Sequence[_File], query: engine.EngineQuery) -> None:
        unknown: list[_File] = []
        async for part in _in_steps(files):
            unknown += [file for file in part if _identity(file.info) not in self._footers]
        if not unknown:
            return
        paths = await asyncio.to_thread(
            lambda: {str(self._links.path_of(file.info)): file for file in unknown}
        )
        query = dataclasses.replace(query, paths=tuple(paths))
        table, _ = await engine.collect(await self._engine.run(query))
        shared = {footer: footer for footer in self._footers.values()}
        for batch in table.to_batches(max_chunksize=limits.FILES_AT_ONCE):
            columns = (batch.column(name).to_pylist() for name in ("path", "schema"))
            for path, schema in zip(*columns, strict=True):
                assert isinstance(schema, bytes)
                self._footers[_identity(paths[str(path)].info)] = shared.setdefault(schema, schema)
            await asyncio.sleep(0)
        while len(self._footers) > max(limits.FOOTERS_KEPT_MAX, len(files)):
            self._footers.popitem(last=False)

    # How a file is read

    async def _way(
        self,
        table: pinned.PinnedTable,
        file: _File,
        compared: Sequence[Mapping[str, Any]],
        zone: str,
        *,
        numbered: bool,
        packs: bool,
    ) -> _Way:
        """Return how a file is read; files with the same columns share one value.

        compared: fields outside the table's schema that its equality deletes compare. numbered:
        the rows are numbered. packs: as in `numbered`.
        """
        footer = self._footers[_identity(file.info)]
        metadata = table.loaded.metadata
        constants = filecolumns.partition_constants(table, file.task.data_file)
        lineage = pinned.lineage_of(table) if numbered else ()
        key = (
            footer,
            table.loaded.pointer.object_uuid,
            metadata.table_uuid,  # in a mount another table may have come by this name
            table.schema.get("schema-id"),
            metadata.properties.get(filecolumns.NAME_MAPPING),
            metadata.properties.get(tabletypes.DECLARED),
            metadata.properties.get(offsets.PROPERTY),
            zone,
            tuple(constants.items()),
            tuple(field["id"] for field in compared),
            numbered,
            bool(lineage),  # a table without them may have them after an upgrade
            bool(file.task.deletes),
            packs,
        )
        kept = self._ways.get(key)
        if kept is None:
            kept = self._ways[key] = await threads.for_columns(
                len(table.fields),
                self._find_way,
                table,
                file,
                footer,
                compared,
                constants,
                zone,
                is_listed=numbered or bool(file.task.deletes),
                lineage=lineage,
                packs=packs,
            )
            while len(self._ways) > limits.WAYS_KEPT_MAX:
                self._ways.popitem(last=False)
        return kept

    def _find_way(
        self,
        table: pinned.PinnedTable,
        file: _File,
        footer: bytes,
        compared: Sequence[Mapping[str, Any]],
        constants: Mapping[int, values.Value | None],
        zone: str,
        *,
        is_listed: bool,
        lineage: Sequence[Mapping[str, Any]],
        packs: bool,
    ) -> _Way:
        """Return how a file is read.

        is_listed: the projection lists columns in any case. lineage: fields of row lineage to read.
        packs: as in `numbered`.
        """
        read = pa.ipc.read_schema(pa.py_buffer(footer))
        by_id = filecolumns.columns_by_id(read, table.loaded.metadata.properties)
        own, zoned, companions = table.fields, table.zoned, table.companions
        fields, projection, functions = [], [], []
        named = [*own, *lineage]
        for number, field in enumerate((*named, *compared)):
            name = field["name"] if number < len(named) else filecolumns.hidden_name(field["id"])
            file_column = by_id.get(field["id"])
            if tabletypes.unread(field["type"]):
                projection.append((name, filecolumns.UNREAD))
            elif file_column is not None:
                arrow_type = filecolumns.read_type(field["type"], file_column, zone)
                fields.append(pa.field(file_column.name, arrow_type))
                projection.append((name, engine.quoted(file_column.name)))
                if field["type"] == "variant":
                    functions.append(filecolumns.variant_kernel(arrow_type, packs=packs))
                    called = kernelforms.engine_name(functions[-1])
                    projection[-1] = (name, f"{called}({engine.quoted(file_column.name)})")
            elif not tabletypes.is_computable(field["type"]):
                # The engine gives NULLs of any type for a column that a file does not have.
                absent = filecolumns.absent_nested(field, read)
                fields.append(pa.field(absent, filecolumns.nested_type(field["type"], zone)))
                projection.append((name, engine.quoted(absent)))
            elif packs and field["type"] == "variant":
                projection.append((name, filecolumns.NO_PACKED))
            else:
                projection.append((name, filecolumns.absent(field, constants, zone)))
            if field["id"] in zoned:
                minutes = ""
                if (companion := companions.get(field["id"])) is not None:
                    minutes = filecolumns.absent(companion, constants, zone)
                    if (file_column := by_id.get(companion["id"])) is not None:
                        arrow_type = filecolumns.read_type(companion["type"], file_column, zone)
                        fields.append(pa.field(file_column.name, arrow_type))
                        minutes = engine.quoted(file_column.name)
                projection[-1] = (name, tabletypes.zoned_text(projection[-1][1], minutes))
        as_it_is = not is_listed and all(
            expression == engine.quoted(name) for name, expression in projection
        )
        return _Way(
            schema=ipc.encode_schema(pa.schema(list(filecolumns.unique(fields)))),
            projection=() if as_it_is else tuple(projection),
            functions=tuple(functions),
        )

    def _present_group(self, way: _Way, members: Sequence[_File]) -> engine.Group | None:
        """Return the group of a few files without deletes if their folder is there already.

        It spares most queries a thread for each table. None: it may have to be made.
        """
        if len(members) > limits.FILES_AT_ONCE or any(file.task.deletes for file in members):
            return None
        linked = [
            (engine.file_name(index), file.info) for index, file in enumerate(_ordered(members))
        ]
        directory = self._links.present(_directory_name(linked))
        if directory is None:
            return None
        return engine.Group(
            directory=str(directory),
            schema=way.schema,
            projection=way.projection,
            functions=way.functions,
        )

    def _group(
        self,
        table: pinned.PinnedTable,
        way: _Way,
        members: Sequence[_File],
        numbers: Mapping[str, int] | None,
    ) -> engine.Group:
        ordered = _ordered(members)
        needed = deletes.Needed()
        for file in ordered:
            needed.add(file.task.deletes)
        ages = _Ages(ordered, needed)
        linked = [
            (
                engine.file_name(
                    index if numbers is None else numbers[file.task.data_file.file_path],
                    list_number=ages.list_number(file),
                    age=ages.of_data(file),
                ),
                file.info,
            )
            for index, file in enumerate(ordered)
        ]
        directory = self._links.directory(_directory_name(linked), linked)
        position_deletes = self._position_deletes(table, needed)
        data_files: dict[str, engine.ScanFile] = {}
        if position_deletes:
            data_files = {
                file.task.data_file.file_path: engine.ScanFile(
                    name=name,
                    list_number=needed.list_number(file.task.deletes),
                    sequence_number=file.task.sequence_number,
                )
                for file, (name, _) in zip(ordered, linked, strict=True)
            }
        return engine.Group(
            directory=str(directory),
            schema=way.schema,
            projection=way.projection,
            data_files=data_files,
            position_deletes=position_deletes,
            equality_deletes=self._equality_deletes(table, needed, ages),
            row_column="" if numbers is None else shapes.ROW,
            functions=way.functions,
        )

    # Deletes

    def _position_deletes(
        self, table: pinned.PinnedTable, needed: deletes.Needed
    ) -> tuple[engine.PositionDeletes, ...]:
        exact = [
            engine.PositionDeletes(
                path=self._local(table, delete.file_path),
                form="vector" if delete.is_deletion_vector else "parquet",
                location=deletes.only_data_file(delete) or "",
                offset=delete.content_offset or 0,
                length=delete.content_size_in_bytes or 0,
            )
            for delete in needed.exact()
        ]
        wide = [
            engine.PositionDeletes(
                path=self._local(table, each.file.file_path),
                form="parquet",
                list_number=each.list_number,
                sequence_number=each.sequence_number,
            )
            for each in needed.wide()
        ]
        return (*exact, *wide)

    def _equality_deletes(
        self, table: pinned.PinnedTable, needed: deletes.Needed, ages: _Ages
    ) -> tuple[engine.EqualityDeletes, ...]:
        """Return the equality deletes of a group, grouped by the columns that they compare."""
        by_columns: dict[tuple[tuple[int, ...], bool], list[engine.EqualityDeleteFile]] = {}
        for delete in needed.equality():
            ids = tuple(sorted(delete.file.equality_ids or ()))
            of_files = by_columns.setdefault((ids, delete.list_number is not None), [])
            of_files.append(
                engine.EqualityDeleteFile(
                    path=self._local(table, delete.file.file_path),
                    list_number=delete.list_number or 0,
                    age=ages.of_delete(delete),
                )
            )
        if len(by_columns) > limits.EQUALITY_KEYS_MAX:
            raise errors.unsupported(
                f"equality deletes by more than {limits.EQUALITY_KEYS_MAX} sets of columns: compact"
                " the table"
            )
        column_names = {field["id"]: field["name"] for field in table.fields}
        if any(not table.zoned.isdisjoint(ids) for ids, _ in by_columns):
            raise errors.unsupported("equality deletes by a column of type TIMESTAMP_TZ")
        variants = {field["id"] for field in table.fields if field["type"] == "variant"}
        if any(not variants.isdisjoint(ids) for ids, _ in by_columns):
            raise errors.unsupported("equality deletes by a column of Iceberg type variant")
        return tuple(
            engine.EqualityDeletes(
                files=tuple(of_files),
                columns=tuple(
                    (column_names.get(field_id, filecolumns.hidden_name(field_id)), field_id)
                    for field_id in ids
                ),
                compares_age=ages.are_compared,
                compares_list=is_of_list and ages.lists_are_compared,
            )
            for (ids, is_of_list), of_files in by_columns.items()
        )

    def _local(self, table: pinned.PinnedTable, uri: str) -> str:
        return str(self._links.path_of(self._info(table, uri)))


def _ordered(files: Sequence[_File]) -> list[_File]:
    """Return files, the oldest rows first: one thread reads those of a small table so."""
    return sorted(
        files, key=lambda file: (file.task.sequence_number, file.task.data_file.file_path)
    )


def check_read(fields: Iterable[Mapping[str, Any]]) -> None:
    """Raise SqlError if SQL does not read a column, where rows are written as they were read."""
    for field in fields:
        if type_name := tabletypes.unread(field["type"]):
            raise errors.unread_column(names.shown(field["name"]), type_name)


async def _in_steps(items: Sequence[_Item]) -> AsyncIterator[Sequence[_Item]]:
    """Yield items in batches; the event loop serves other requests in between."""
    for start in range(0, len(items), limits.FILES_AT_ONCE):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + limits.FILES_AT_ONCE]


def _ends(
    field: Mapping[str, Any], lower_bounds: Mapping[int, bytes], upper_bounds: Mapping[int, bytes]
) -> tuple[int, int] | None:
    """Return a file's bounds of a whole-number column, None if the manifest has none."""
    lower, upper = lower_bounds.get(field["id"]), upper_bounds.get(field["id"])
    if lower is None or upper is None:
        return None
    try:
        ends = values.from_bytes(field["type"], lower), values.from_bytes(field["type"], upper)
    except values.InvalidValue:
        return None
    return (int(ends[0]), int(ends[1])) if all(isinstance(end, int) for end in ends) else None


# Predicates

OPERATORS = {
    "=": "eq",
    "<": "lt",
    "<=": "lt-eq",
    ">": "gt",
    ">=": "gt-eq",
    "starts with": "starts-with",
}


def _predicate(
    conditions: Sequence[predicates.Filter], table: pinned.PinnedTable
) -> pruning.Predicate:
    return _pruned(predicates.AllOf(parts=tuple(conditions)), table.fields)


def _pruned(condition: predicates.Filter, fields: Sequence[Mapping[str, Any]]) -> pruning.Predicate:
    """Return a condition as the scan's predicate; ALWAYS for one that it cannot evaluate.

    fields: of the table, as SQL shows them.
    """
    match condition:
        case predicates.AllOf(parts=parts):
            useful = [part for each in parts if (part := _pruned(each, fields)) != pruning.ALWAYS]
            return pruning.And(parts=tuple(useful)) if useful else pruning.ALWAYS
        case predicates.AnyOf(parts=parts):
            every = [_pruned(each, fields) for each in parts]
            return pruning.ALWAYS if pruning.ALWAYS in every else pruning.Or(parts=tuple(every))
        case predicates.ColumnPredicate():
            leaf = _leaf(condition, fields[condition.column])
            if leaf is None:
                return pruning.ALWAYS
            return pruning.Not(part=leaf) if condition.negated else leaf


def _leaf(
    condition: predicates.ColumnPredicate, field: Mapping[str, Any]
) -> pruning.Predicate | None:
    column, sql_type = field["id"], field["type"]
    if not tabletypes.is_computable(sql_type):
        return None
    if condition.operator == "is null":
        return pruning.UnaryPredicate(op="null", column=column)
    plain = [tabletypes.plain_value(sql_type, value) for value in condition.values]
    values = tuple(value for value in plain if value is not None)
    if len(values) != len(plain):
        return None
    if condition.operator == "in":
        return pruning.Membership(column=column, values=values)
    return pruning.Comparison(op=OPERATORS[condition.operator], column=column, value=values[0])


class _Ages:
    """How a group's data files differ for its equality deletes.

    The age of a file is how many of the group's sequence numbers are lower than its own: a delete
    deletes from data files of lower ages, and one of a partition from those of its list alone.
    Where the same deletes apply to all files, nothing is compared.
    """

    def __init__(self, files: Sequence[_File], needed: deletes.Needed) -> None:
        self._needed = needed
        self._numbers = sorted({file.task.sequence_number for file in files})
        self.are_compared = len({file.task.deletes.equality for file in files}) > 1
        lists = {needed.equality_list_number(file.task.deletes) for file in files}
        self.lists_are_compared = len(lists) > 1

    def list_number(self, file: _File) -> int:
        if not self.lists_are_compared:
            return 0
        return self._needed.equality_list_number(file.task.deletes)

    def of_data(self, file: _File) -> int:
        return self._lower(file.task.sequence_number) if self.are_compared else 0

    def of_delete(self, delete: deletes.EqualityDelete) -> int:
        return self._lower(delete.sequence_number)

    def _lower(self, sequence_number: int) -> int:
        return bisect.bisect_left(self._numbers, sequence_number)


class _ComparedFields:
    """Finds the fields that equality deletes compare and the table's schema no longer has."""

    def __init__(self, table: pinned.PinnedTable) -> None:
        self._table = table
        self._known = frozenset(field["id"] for field in table.fields)
        self._kept: dict[frozenset[int], list[Mapping[str, Any]]] = {frozenset(): []}

    def of(self, applying: deletes.Applying) -> Sequence[Mapping[str, Any]]:
        """Return the fields by their ids. Raises SqlError for columns that cannot be compared."""
        compared = frozenset[int]().union(*(tail.compared for tail in applying.equality))
        kept = self._kept.get(compared)
        if kept is None:
            kept = self._kept[compared] = self._find(compared - self._known)
        return kept

    def _find(self, wanted: frozenset[int]) -> list[Mapping[str, Any]]:
        fields: dict[int, Mapping[str, Any]] = {}
        for schema in self._table.loaded.metadata.schemas if wanted else ():
            for field in schema["fields"]:
                if field["id"] in wanted:
                    fields[field["id"]] = field
        if len(fields) != len(wanted) or any(
            field["type"] == "variant" for field in fields.values()
        ):
            raise errors.unsupported("equality deletes by nested or unknown columns")
        return [fields[field_id] for field_id in sorted(fields)]


def _check_groups(groups: int) -> None:
    """Raise SqlError for more than FILE_GROUPS_MAX groups of files."""
    if groups > limits.FILE_GROUPS_MAX:
        raise errors.unsupported(
            f"a table whose files have columns of more than {limits.FILE_GROUPS_MAX:,} forms:"
            " compact it"
        )


def _check_equality_reads(reads: int) -> None:
    """Raise SqlError for more than EQUALITY_READS_MAX reads of equality delete files."""
    if reads > limits.EQUALITY_READS_MAX:
        raise errors.unsupported(
            f"reading more than {limits.EQUALITY_READS_MAX:,} equality delete files: compact the"
            " table"
        )


def _identity(info: storage_model.ObjectInfo) -> str:
    # A blob's name is never used twice, so equal segments are equal bytes. A CRC can be forged.
    lies_at = "+".join(f"{each.blob}:{each.offset}:{each.length}" for each in info.body.segments)
    return f"{info.bucket}/{info.key}#{lies_at}"


def _directory_name(linked: Sequence[tuple[str, storage_model.ObjectInfo]]) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for name, info in linked:
        digest.update(f"{name}={_identity(info)}\n".encode())
    return digest.hexdigest()
