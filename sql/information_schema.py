"""engine: the views of INFORMATION_SCHEMA, computed from the catalog for each query.

A query computes only the views that it names, of one database, with what the caller may see: the
row of a table needs the right to list it, and the row's values from the table's metadata need the
right to load it. Names are spelled as Snowflake reports them. Counts and times come from the newest
snapshot and the catalog's rows. One view of the index gives the list of tables; their metadata
files, which never change, are read afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from catalog import errors as catalog_errors
from catalog import idents, sequences, tables
from catalog.metadata import errors as metadata_errors
from sql import (
    descriptions,
    engine,
    errors,
    fileformats,
    information_views,
    ipc,
    keys,
    limits,
    listings,
    load_history,
    offsets,
    places,
    roles,
    sessions,
    stages,
    statement_log,
    stored_views,
    tabletypes,
    temporary_names,
)
from sql.dialect import clustering, names, operations, shapes, sqltypes, table_options
from storage import errors as storage_errors

UNREADABLE = (
    catalog_errors.CatalogError,
    metadata_errors.MetadataError,
    storage_errors.StorageError,
    errors.SqlError,
)
"""Errors of a table whose metadata is absent or damaged. Its row then has no values from it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A table or view in a listing, before its metadata is read.

    may_describe: the caller may load it. dropped_at_ms: of a dropped table.
    """

    table: places.NamedTable
    may_describe: bool
    dropped_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """The input of a view of INFORMATION_SCHEMA, read in one view of the catalog.

    tables: those that are still to be described. objects: the others that the view lists.
    """

    view: str
    database: str
    objects: Sequence[Any] = ()
    tables: Sequence[Listed] = ()


class InformationSchema:
    """Describes tables of the catalog for SHOW, DESCRIBE and the views."""

    def __init__(
        self,
        *,
        tables: tables.Tables,
        views: stored_views.StoredViews,
        sequences: sequences.Sequences,
        stages: stages.Stages,
        roles: roles.Roles,
    ) -> None:
        self._tables = tables
        self._views = views
        self._sequences = sequences
        self._stages = stages
        self._roles = roles

    async def describe(self, listed: Listed, *, with_columns: bool) -> descriptions.Description:
        """Return the description of a table that the caller may see. Damaged metadata is no error.

        with_columns: a description without them is small.
        """
        description = await self._describe(listed, with_columns=with_columns)
        if listed.dropped_at_ms is None:
            return description
        return dataclasses.replace(description, dropped_at_ms=listed.dropped_at_ms)

    async def _describe(self, listed: Listed, *, with_columns: bool) -> descriptions.Description:
        if listed.may_describe and listed.table.pointer.metadata_location is not None:
            try:
                return await self._described(listed.table, with_columns=with_columns)
            except UNREADABLE:
                pass
        pointer = listed.table.pointer
        is_empty = listed.may_describe and pointer.metadata_location is None
        return descriptions.Description(
            ident=temporary_names.logical(listed.table.ident),
            is_temporary=listed.table.is_temporary,
            object_type=pointer.object_type,
            created_at_ms=pointer.created_at_ms,
            altered_at_ms=pointer.modified_at_ms,
            rows=0 if is_empty else None,
            size_bytes=0 if is_empty else None,
            comment="",
            owner=_owner(listed.table) if listed.may_describe else "",
            cluster_keys=(),
            columns=(),
        )

    async def _described(
        self, table: places.NamedTable, *, with_columns: bool
    ) -> descriptions.Description:
        if table.pointer.object_type == "view":
            return await self._described_view(table, with_columns=with_columns)
        loaded = await self._tables.fetch_at(table.ident, table.pointer)
        summary = _summary(loaded)
        form = loaded.metadata.properties.get(tabletypes.FORM)
        return descriptions.Description(
            ident=temporary_names.logical(table.ident),
            is_temporary=table.is_temporary,
            object_type="table",
            created_at_ms=table.pointer.created_at_ms,
            altered_at_ms=max(table.pointer.modified_at_ms, loaded.metadata.last_updated_ms),
            rows=_count(summary, "total-records", loaded),
            size_bytes=_count(summary, "total-files-size", loaded),
            comment=loaded.metadata.properties.get("comment", ""),
            owner=_owner(table),
            cluster_keys=_cluster_keys(loaded),
            columns=await self.columns_of(loaded) if with_columns else (),
            keys=keys.describe(
                loaded.metadata.properties,
                loaded.metadata.current_schema(),
                table.pointer.object_uuid,
            ),
            is_declared=form not in (tabletypes.PLAIN, tabletypes.TRANSIENT),
            is_transient=form == tabletypes.TRANSIENT and not table.is_temporary,
            retention_days=table_options.retention_days(loaded.metadata.properties),
            stage_format=_stage_format(loaded),
        )

    async def _described_view(
        self, table: places.NamedTable, *, with_columns: bool
    ) -> descriptions.Description:
        view = await self._views.load(table)
        return descriptions.Description(
            ident=temporary_names.logical(table.ident),
            is_temporary=table.is_temporary,
            object_type="view",
            created_at_ms=table.pointer.created_at_ms,
            altered_at_ms=table.pointer.modified_at_ms,
            rows=None,
            size_bytes=None,
            comment=view.comment,
            owner=_owner(table),
            cluster_keys=(),
            columns=descriptions.view_columns(view) if with_columns else (),
            view=view,
            definition=stored_views.definition(view),
        )

    async def describe_whole(self, table: places.NamedTable) -> descriptions.Description:
        """Return the description of a table or view that the caller may load.

        Raises the errors of metadata that is absent or damaged.
        """
        return await self._described(table, with_columns=True)

    async def columns_of(self, loaded: tables.LoadedTable) -> list[descriptions.ColumnDescription]:
        """Return a table's current columns; those of a wide table are computed in a thread."""
        if len(loaded.metadata.current_schema()["fields"]) > limits.COLUMNS_HERE_MAX:
            return await asyncio.to_thread(descriptions.columns_of, loaded)
        return descriptions.columns_of(loaded)

    async def describe_all(
        self, listed: Sequence[Listed], *, with_columns: bool
    ) -> list[descriptions.Description]:
        """Return the descriptions of tables, in order. Raises SqlError for too many columns."""
        descriptions = []
        columns = 0
        for each in listed:
            description = await self.describe(each, with_columns=with_columns)
            descriptions.append(description)
            columns += len(description.columns)
            if columns > limits.DESCRIBED_COLUMNS_MAX:
                raise errors.information_schema_too_large()
            await asyncio.sleep(0)  # metadata that is small or cached is read without a pause
        return descriptions

    def gather(
        self,
        catalog: places.CatalogView,
        session: sessions.Session,
        view: names.Ident,
        place: places.Schema,
    ) -> Gathered:
        """Return the input of a view of INFORMATION_SCHEMA; raises SqlError 002003."""
        positions = names.find(view, list(information_views.INFORMATION_VIEWS))
        if not positions:
            raise errors.does_not_exist("Object", f"INFORMATION_SCHEMA.{view.folded}")
        stored = list(information_views.INFORMATION_VIEWS)[positions[0]]
        described = information_views.INFORMATION_VIEWS[stored]
        database = place.database
        return Gathered(
            view=stored,
            database=database,
            objects=self._objects(catalog, session, described.source, database),
            tables=every_object(catalog, database, described.object_types),
        )

    def _objects(
        self,
        catalog: places.CatalogView,
        session: sessions.Session,
        source: information_views.Source,
        database: str,
    ) -> Sequence[Any]:
        """Return the objects of a database, other than tables, that the caller may see."""
        match source:
            case "tables" | "loads" | "nothing":
                return ()
            case "statements":
                return (catalog.sees_all_statements(),)  # `relation` looks up the statements
            case "own role":
                return (listings.NamedRole(name=session.role),)
            case "roles":
                return (session.login,)  # `relation` looks up the roles of the user
            case "here":
                return (listings.ListedDatabase(name=database, created_at_ms=0),)
            case "databases":
                return [
                    listings.ListedDatabase(
                        name=name,
                        created_at_ms=catalog.created_at_ms(name),
                        comment=catalog.comment(name),
                    )
                    for name in catalog.databases()
                ]
            case "schemas":
                stored = [
                    listings.ListedSchema(
                        database=database,
                        name=idents.dotted(namespace),
                        created_at_ms=catalog.created_at_ms(database, namespace),
                        comment=catalog.comment(database, namespace),
                    )
                    for namespace in catalog.schemas(database)
                ]
                own = listings.ListedSchema(
                    database=database,
                    name=places.INFORMATION_SCHEMA,
                    created_at_ms=catalog.created_at_ms(database),
                )
                return [*stored, own]
        schemas = [(database, namespace) for namespace in catalog.schemas(database)]
        listed = (
            self.sequences(catalog, schemas)
            if source == "sequences"
            else self.staging(source, session, schemas, count_max=limits.DESCRIBED_TABLES_MAX + 1)
        )
        objects = list(itertools.islice(listed, limits.DESCRIBED_TABLES_MAX + 1))
        if len(objects) > limits.DESCRIBED_TABLES_MAX:
            raise errors.information_schema_too_large()
        return objects

    def sequences(
        self, catalog: places.CatalogView, schemas: Sequence[tuple[str, idents.Namespace]]
    ) -> Iterator[listings.ListedSequence]:
        """Yield the sequences of schemas that the caller may list."""
        for database, namespace in schemas:
            if not catalog.lists_sequences(database, namespace):
                continue
            for state in self._sequences.list(database, namespace):
                ident = idents.TableIdent(
                    table_bucket=database, namespace=namespace, name=state.name
                )
                yield listings.ListedSequence(
                    database=database,
                    namespace=namespace,
                    state=state,
                    may_describe=catalog.may_describe_sequence(ident),
                )

    def staging(
        self,
        source: StagingSource,
        session: sessions.Session,
        schemas: Sequence[tuple[str, idents.Namespace]],
        *,
        count_max: int,
    ) -> Iterator[listings.ListedStaging]:
        """Yield the stages or file formats of schemas that the caller may see."""
        object_type = OBJECT_TYPES[source]
        return iter(self._stages.listed(object_type, session, schemas, count_max=count_max))

    async def _roles_of(self, gathered: Gathered) -> list[listings.NamedRole]:
        (login,) = gathered.objects
        available = await self._roles.available(login)
        return [listings.NamedRole(name=name, grantee=login.name.upper()) for name in available]

    async def _loads_of(self, listed: Sequence[Listed]) -> list[load_history.LoadedFile]:
        """Return what the tables that the caller may load have loaded, the newest loads first.

        Raises SqlError for too many loads.
        """
        loads: list[load_history.LoadedFile] = []
        for each in listed:
            if not each.may_describe:
                continue
            try:
                loads += await self._loads_of_table(each.table)
            except UNREADABLE:
                continue  # as in the other views, damaged metadata is no error
            if len(loads) > limits.LOADS_LISTED_MAX:
                raise errors.information_schema_too_large()
            await asyncio.sleep(0)
        return load_history.newest(loads)

    async def _loads_of_table(self, table: places.NamedTable) -> list[load_history.LoadedFile]:
        ident = temporary_names.logical(table.ident)
        loads: list[load_history.LoadedFile] = []
        answered: set[int] = set()
        if table.pointer.metadata_location is not None:
            snapshots = (await self._tables.fetch_at(table.ident, table.pointer)).metadata.snapshots
            some = (snapshots.get(snapshot_id) or {} for snapshot_id in snapshots.ids)
            for snapshot_id, files in load_history.of_snapshots(ident, some):
                answered.add(snapshot_id)
                loads += files
        after: str | None = ""
        while after is not None and len(loads) <= limits.LOADS_LISTED_MAX:
            page = self._tables.taken(table.ident, after=after)
            loads += load_history.of_rows(ident, page.loads, without=frozenset(answered))
            after = page.next
            await asyncio.sleep(0)
        return loads

    async def relation(
        self,
        gathered: Gathered,
        name: str,
        *,
        zone: str,
        recorded: Callable[[bool], Sequence[statement_log.RecordedStatement]],
    ) -> tuple[shapes.TableShape, engine.Relation]:
        """Return a view of INFORMATION_SCHEMA as a table's shape and its relation with rows.

        zone: the session's, in which the engine shows instants. recorded: returns the statements of
        the session's user, or of all users for True.
        """
        view = information_views.INFORMATION_VIEWS[gathered.view]
        if view.source == "roles":
            gathered = dataclasses.replace(gathered, objects=await self._roles_of(gathered))
        if view.source == "statements":
            (sees_all,) = gathered.objects
            gathered = dataclasses.replace(gathered, objects=recorded(sees_all))
        if view.source == "loads":
            loads = await self._loads_of(gathered.tables)
            gathered = dataclasses.replace(gathered, objects=loads, tables=())
        described = await self.describe_all(gathered.tables, with_columns=view.has_columns)
        size = len(gathered.objects) + sum(1 + len(each.columns) for each in described)
        if size > limits.ROWS_HERE_MAX:
            table, encoded = await asyncio.to_thread(_table_of, gathered, described, zone)
        else:
            table, encoded = _table_of(gathered, described, zone)
        shape = shapes.TableShape(
            relation=name,
            path=(names.of_database(gathered.database), places.INFORMATION_SCHEMA, gathered.view),
            columns=tuple(
                shapes.ShapeColumn(name=column.name, type=TYPES[column.type])
                for column in view.columns
            ),
            rows=table.num_rows,
        )
        relation = engine.Relation(name=name, schema=ipc.encode_schema(table.schema), rows=encoded)
        return shape, relation


StagingSource: TypeAlias = Literal["stages", "file formats"]
OBJECT_TYPES: Mapping[StagingSource, operations.StagingType] = {
    "stages": "stage",
    "file formats": "file format",
}
TYPES: Mapping[listings.ColumnType, sqltypes.SqlType] = {
    "text": sqltypes.TEXT,
    "number": sqltypes.integer(38, 0, sqltypes.INT64_HIGH),
    "moment": sqltypes.TIMESTAMP_LTZ,
}


def _table_of(
    gathered: Gathered, described: Sequence[descriptions.Description], zone: str
) -> tuple[pa.Table, bytes]:
    """Return a view's rows as an Arrow table and as an IPC stream.

    At most ROWS_AT_ONCE rows are Python values at one time.
    """
    view = information_views.INFORMATION_VIEWS[gathered.view]
    arrow: Mapping[listings.ColumnType, pa.DataType] = {
        "text": pa.string(),
        "number": pa.int64(),
        "moment": pa.timestamp("us", zone),
    }
    schema = pa.schema([(column.name, arrow[column.type]) for column in view.columns])
    of_tables = (
        (each for table in described for each in view.parts(table))
        if view.parts_of_all is None
        else view.parts_of_all(described)
    )
    objects = itertools.chain(gathered.objects, of_tables)
    batches = []
    while some := list(itertools.islice(objects, limits.ROWS_AT_ONCE)):
        arrays = [
            pa.array([column.value(each) for each in some], field.type)
            for column, field in zip(view.columns, schema, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    table = pa.Table.from_batches(batches, schema=schema)
    return table, ipc.encode_rows(table)


def list_objects(
    catalog: places.CatalogView,
    database: str,
    namespace: idents.Namespace,
    object_types: Sequence[idents.PointerType] = ("table", "view"),
) -> Iterator[Listed]:
    """Yield the tables and views of a namespace that the caller may list."""
    for object_type in object_types:
        for ident in catalog.tables(database, namespace, object_type):
            table = catalog.find(ident, object_type)
            if table is not None:
                yield Listed(table=table, may_describe=catalog.may_describe(table))


def every_object(
    catalog: places.CatalogView,
    database: str,
    object_types: Sequence[idents.PointerType],
) -> list[Listed]:
    """Return the tables and views of a database that the caller may list.

    Raises SqlError for too many.
    """
    listed: list[Listed] = []
    for namespace in catalog.schemas(database):
        for table in list_objects(catalog, database, namespace, object_types):
            listed.append(table)
            if len(listed) > limits.DESCRIBED_TABLES_MAX:
                raise errors.information_schema_too_large()
    return listed


def _stage_format(loaded: tables.LoadedTable) -> fileformats.FileFormat | None:
    """Return STAGE_FILE_FORMAT; None too for a text of another client that is no format."""
    with contextlib.suppress(errors.SqlError):
        return fileformats.of_table(loaded.metadata.properties)
    return None


def _owner(table: places.NamedTable) -> str:
    return table.pointer.created_by.rpartition("/")[2].rpartition(":")[2]


def _summary(loaded: tables.LoadedTable) -> Mapping[str, str]:
    if loaded.metadata.current_snapshot_id is None:
        return {}
    snapshot = loaded.metadata.current_snapshot()
    summary: Mapping[str, str] = (snapshot or {}).get("summary", {})
    return summary


def _count(summary: Mapping[str, str], key: str, loaded: tables.LoadedTable) -> int | None:
    if loaded.metadata.current_snapshot_id is None:
        return 0
    text = str(summary.get(key, ""))
    return int(text) if text.isdecimal() else None


def _cluster_keys(loaded: tables.LoadedTable) -> tuple[tuple[str, str], ...]:
    """Return the clustering key's transforms and columns, those that SQL can show.

    Another engine may sort by others.
    """
    by_id = {field["id"]: field for field in offsets.columns(loaded.metadata)}
    return tuple(
        (field["transform"], names.shown(by_id[field["source-id"]]["name"]))
        for field in loaded.metadata.default_sort_order()["fields"]
        if field["source-id"] in by_id
        and (
            field["transform"] == clustering.IDENTITY
            or clustering.sorts(field["transform"], by_id[field["source-id"]]["type"])
        )
    )
