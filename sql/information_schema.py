"""engine: the views of INFORMATION_SCHEMA, computed from the catalog for each query.

A query computes only the views that it names, of one database, with what the caller may see: the
row of a table needs the right to list it, and the row's values from the table's metadata need the
right to load it. Names are spelled as Snowflake reports them. Counts and times come from the newest
snapshot and the catalog's rows. One view of the index gives the list of tables; their metadata
files, which never change, are read afterwards.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from catalog import errors as catalog_errors
from catalog import idents, records, tables
from catalog.metadata import errors as metadata_errors
from sql import (
    column_defaults,
    engine,
    errors,
    ipc,
    keys,
    limits,
    outcomes,
    places,
    stored_views,
    tabletypes,
)
from sql.dialect import names, shapes, sqltypes
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

    may_describe: the caller may load it.
    """

    table: places.FoundTable
    may_describe: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """The input of a view of INFORMATION_SCHEMA, read in one view of the catalog."""

    view: str
    database: str
    databases: Sequence[str] = ()
    namespaces: Sequence[idents.Namespace] = ()
    tables: Sequence[Listed] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A table's or view's values in listings.

    rows and size_bytes are None, and columns are empty, for a table whose metadata cannot be read
    or that the caller may list but not load. rows and size_bytes are None for every view. view: its
    query and the like; None for a table, and for a view that is described no further. is_declared:
    a table that was created as an ICEBERG one, or by a client of another API.
    """

    ident: idents.TableIdent
    object_type: records.ObjectType
    created_at_ms: int
    altered_at_ms: int
    rows: int | None
    size_bytes: int | None
    comment: str
    owner: str
    cluster_by: str
    columns: Sequence[ColumnDescription]
    keys: Sequence[keys.KeyDescription] = ()
    view: stored_views.View | None = None
    is_declared: bool = True


class InformationSchema:
    """Describes tables of the catalog for SHOW, DESCRIBE and the views."""

    def __init__(self, *, tables: tables.Tables, views: stored_views.StoredViews) -> None:
        self._tables = tables
        self._views = views

    async def describe(self, listed: Listed, *, with_columns: bool) -> Description:
        """Return the description of a table that the caller may see. Damaged metadata is no error.

        with_columns: a description without them is small.
        """
        if listed.may_describe and listed.table.pointer.metadata_location is not None:
            try:
                return await self._described(listed.table, with_columns=with_columns)
            except UNREADABLE:
                pass
        pointer = listed.table.pointer
        is_empty = listed.may_describe and pointer.metadata_location is None
        return Description(
            ident=listed.table.ident,
            object_type=pointer.object_type,
            created_at_ms=pointer.created_at_ms,
            altered_at_ms=pointer.modified_at_ms,
            rows=0 if is_empty else None,
            size_bytes=0 if is_empty else None,
            comment="",
            owner=_owner(listed.table) if listed.may_describe else "",
            cluster_by="",
            columns=(),
        )

    async def _described(self, table: places.FoundTable, *, with_columns: bool) -> Description:
        if table.pointer.object_type == "view":
            return await self._described_view(table, with_columns=with_columns)
        loaded = await self._tables.fetch_at(table.ident, table.pointer)
        summary = _summary(loaded)
        return Description(
            ident=table.ident,
            object_type="table",
            created_at_ms=table.pointer.created_at_ms,
            altered_at_ms=max(table.pointer.modified_at_ms, loaded.metadata.last_updated_ms),
            rows=_count(summary, "total-records", loaded),
            size_bytes=_count(summary, "total-files-size", loaded),
            comment=loaded.metadata.properties.get("comment", ""),
            owner=_owner(table),
            cluster_by=_cluster_by(loaded),
            columns=await self.columns_of(loaded) if with_columns else (),
            keys=keys.describe(
                loaded.metadata.properties,
                loaded.metadata.current_schema(),
                table.pointer.object_uuid,
            ),
            is_declared=loaded.metadata.properties.get(tabletypes.FORM) != tabletypes.PLAIN,
        )

    async def _described_view(self, table: places.FoundTable, *, with_columns: bool) -> Description:
        view = await self._views.load(table)
        return Description(
            ident=table.ident,
            object_type="view",
            created_at_ms=table.pointer.created_at_ms,
            altered_at_ms=table.pointer.modified_at_ms,
            rows=None,
            size_bytes=None,
            comment=view.comment,
            owner=_owner(table),
            cluster_by="",
            columns=view_columns(view) if with_columns else (),
            view=view,
        )

    async def describe_whole(self, table: places.FoundTable) -> Description:
        """Return the description of a table or view that the caller may load.

        Raises the errors of metadata that is absent or damaged.
        """
        return await self._described(table, with_columns=True)

    async def columns_of(self, loaded: tables.LoadedTable) -> list[ColumnDescription]:
        """Return a table's current columns; those of a wide table are computed in a thread."""
        if len(loaded.metadata.current_schema()["fields"]) > limits.COLUMNS_HERE_MAX:
            return await asyncio.to_thread(columns_of, loaded)
        return columns_of(loaded)

    async def describe_all(
        self, listed: Sequence[Listed], *, with_columns: bool
    ) -> list[Description]:
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
        self, catalog: places.CatalogView, view: names.Ident, place: places.Schema
    ) -> Gathered:
        """Return the input of a view of INFORMATION_SCHEMA; raises SqlError 002003."""
        positions = names.find(view, list(VIEWS))
        if not positions:
            raise errors.does_not_exist("Object", f"INFORMATION_SCHEMA.{view.folded}")
        stored = list(VIEWS)[positions[0]]
        return Gathered(
            view=stored,
            database=place.database,
            databases=catalog.databases() if stored == "databases" else (),
            namespaces=catalog.schemas(place.database) if stored == "schemata" else (),
            tables=every_object(catalog, place.database, OF_OBJECTS.get(stored, ())),
        )

    async def relation(
        self, gathered: Gathered, name: str, *, zone: str
    ) -> tuple[shapes.TableShape, engine.Relation]:
        """Return a view of INFORMATION_SCHEMA as a table's shape and its relation with rows.

        zone: the session's, in which the engine shows instants.
        """
        columns, _ = VIEWS[gathered.view]
        descriptions = await self.describe_all(
            gathered.tables, with_columns=gathered.view == "columns"
        )
        size = len(gathered.namespaces) + sum(1 + len(each.columns) for each in descriptions)
        if size > limits.ROWS_HERE_MAX:
            table, encoded = await asyncio.to_thread(_table_of, gathered, descriptions, zone)
        else:
            table, encoded = _table_of(gathered, descriptions, zone)
        shape = shapes.TableShape(
            relation=name,
            path=(gathered.database, places.INFORMATION_SCHEMA, gathered.view),
            columns=tuple(shapes.ShapeColumn(name=column[0], type=column[1]) for column in columns),
            rows=table.num_rows,
        )
        relation = engine.Relation(name=name, schema=ipc.encode_schema(table.schema), rows=encoded)
        return shape, relation


def _table_of(
    gathered: Gathered, descriptions: Sequence[Description], zone: str
) -> tuple[pa.Table, bytes]:
    """Return a view's rows as an Arrow table and as an IPC stream.

    At most ROWS_AT_ONCE rows are Python values at one time.
    """
    columns, rows_of = VIEWS[gathered.view]
    arrow = {**ARROW, "timestamp_ltz": pa.timestamp("us", zone)}
    schema = pa.schema([(column[0], arrow[column[1].name]) for column in columns])
    rows = iter(rows_of(gathered, descriptions))
    batches = []
    while some := list(itertools.islice(rows, limits.ROWS_AT_ONCE)):
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(zip(*some, strict=True), schema, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    table = pa.Table.from_batches(batches, schema=schema)
    return table, ipc.encode_rows(table)


def list_objects(
    catalog: places.CatalogView,
    database: str,
    namespace: idents.Namespace,
    object_types: Sequence[Literal["table", "view"]] = ("table", "view"),
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
    object_types: Sequence[Literal["table", "view"]],
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


# Rows


def _databases(gathered: Gathered, described: Sequence[Description]) -> Iterator[Row]:
    for name in gathered.databases:
        yield (names.shown(name), None, "NO", "", None, None, 1, "STANDARD")


def _schemata(gathered: Gathered, described: Sequence[Description]) -> Iterator[Row]:
    for namespace in gathered.namespaces:
        yield _schema_row(gathered.database, names.shown(idents.dotted(namespace)))
    yield _schema_row(gathered.database, places.INFORMATION_SCHEMA.upper())


def _tables(gathered: Gathered, described: Sequence[Description]) -> Iterator[Row]:
    for table in described:
        yield (
            names.shown(gathered.database),
            names.shown(idents.dotted(table.ident.namespace)),
            names.shown(table.ident.name),
            table.owner or None,
            "VIEW" if table.object_type == "view" else "BASE TABLE",
            "NO",
            table.cluster_by or None,
            table.rows,
            table.size_bytes,
            1 if table.object_type == "table" else None,
            moment(table.created_at_ms),
            moment(table.altered_at_ms),
            "YES" if table.object_type == "table" and table.is_declared else "NO",
            "NO",
            "NO",
            table.comment or None,
        )


def _views(gathered: Gathered, described: Sequence[Description]) -> Iterator[Row]:
    for each in described:
        yield (
            names.shown(gathered.database),
            names.shown(idents.dotted(each.ident.namespace)),
            names.shown(each.ident.name),
            each.owner or None,
            each.view.text if each.view else None,
            "NONE",
            "NO",
            "NO",
            "YES" if each.view and each.view.is_secure else "NO",
            moment(each.created_at_ms),
            moment(each.altered_at_ms),
            each.comment or None,
        )


def _columns(gathered: Gathered, described: Sequence[Description]) -> Iterator[Row]:
    for table in described:
        prefix = (
            names.shown(gathered.database),
            names.shown(idents.dotted(table.ident.namespace)),
            names.shown(table.ident.name),
        )
        for position, column in enumerate(table.columns, start=1):
            yield (*prefix, *_column_row(column, position))


Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnDescription:
    """One column of a table. name: as reported. default: the expression's text; "" without."""

    name: str
    type: sqltypes.SqlType
    nullable: bool
    comment: str
    default: str = ""
    identity: tuple[int, int] | None = None

    @property
    def autoincrement(self) -> str:
        """The start and increment of AUTOINCREMENT as SHOW COLUMNS has them; "" without."""
        if self.identity is None:
            return ""
        start, increment = self.identity
        return f"IDENTITY START {start} INCREMENT {increment} ORDER"


def columns_of(loaded: tables.LoadedTable) -> list[ColumnDescription]:
    """Return a table's current columns."""
    schema = loaded.metadata.current_schema()
    shape = tabletypes.shape_columns(schema, loaded.metadata.properties)
    defaults = column_defaults.read(loaded.metadata.properties)
    return [
        ColumnDescription(
            name=names.shown(column.name),
            type=column.type,
            nullable=column.nullable,
            comment=str(field.get("doc", "")),
            default=_default_text(field, column.type, defaults.get(field["id"])),
            identity=defaults[field["id"]].identity if field["id"] in defaults else None,
        )
        for field, column in zip(schema["fields"], shape, strict=True)
    ]


def _default_text(
    field: Mapping[str, Any], sql_type: sqltypes.SqlType, default: column_defaults.Default | None
) -> str:
    """Return a default as Snowflake SQL; "" without one, and for AUTOINCREMENT."""
    if default is not None:
        if default.sequence:
            return ".".join((*map(names.written, default.sequence), "NEXTVAL"))
        return default.expression
    constant = field.get("write-default")
    if constant is None:
        return ""
    if isinstance(constant, bool):
        return str(constant).upper()
    if sql_type.name in ("fixed", "real"):
        return str(constant)
    text = "'" + str(constant).replace("\\", "\\\\").replace("'", "''") + "'"
    return text if sql_type.name == "text" else f"CAST({text} AS {sqltypes.shown(sql_type)})"


def view_columns(view: stored_views.View) -> list[ColumnDescription]:
    """Return a view's columns."""
    return [
        ColumnDescription(
            name=names.shown(column.name),
            type=column.type,
            nullable=column.nullable,
            comment=comment,
        )
        for column, comment in zip(view.columns, view.comments, strict=True)
    ]


def moment(ms: int) -> datetime.datetime:
    """Return a time of the catalog as a TIMESTAMP_LTZ."""
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def plain_type(sql_type: sqltypes.SqlType) -> str:
    """Return DATA_TYPE: the type without its parameters."""
    return {"fixed": "NUMBER", "real": "FLOAT"}.get(sql_type.name, sql_type.name.upper())


def _schema_row(database: str, name: str) -> Row:
    return (names.shown(database), name, None, "NO", None, None, None)


def _column_row(column: ColumnDescription, position: int) -> Row:
    sql_type = column.type
    length = None
    if sql_type.name == "text":
        length = sql_type.length or outcomes.TEXT_LENGTH_MAX
    elif sql_type.name == "binary":
        length = sql_type.length or outcomes.BINARY_LENGTH_MAX
    octets = (
        min(4 * length, outcomes.TEXT_LENGTH_MAX) if length and sql_type.name == "text" else length
    )
    is_number = sql_type.name == "fixed"
    return (
        column.name,
        position,
        column.default or None,
        "YES" if column.nullable else "NO",
        plain_type(sql_type),
        length,
        octets,
        sql_type.precision if is_number else None,
        10 if is_number else None,
        sql_type.scale if is_number else None,
        sql_type.scale if sql_type.name in ("time", "timestamp_ntz", "timestamp_ltz") else None,
        "NO" if column.identity is None else "YES",
        None if column.identity is None else str(column.identity[0]),
        None if column.identity is None else str(column.identity[1]),
        None if column.identity is None else "BY DEFAULT",
        None if column.identity is None else "NO",
        None if column.identity is None else "YES",
        None,
        column.comment or None,
    )


def _owner(table: places.FoundTable) -> str:
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


def _cluster_by(loaded: tables.LoadedTable) -> str:
    by_id = {field["id"]: field["name"] for field in loaded.metadata.current_schema()["fields"]}
    keys = [
        names.shown(by_id[field["source-id"]])
        for field in loaded.metadata.default_sort_order()["fields"]
        if field["transform"] == "identity" and field["source-id"] in by_id
    ]
    return f"LINEAR({', '.join(keys)})" if keys else ""


COUNT = sqltypes.integer(38, 0, sqltypes.INT64_HIGH)
TEXT, MOMENT = sqltypes.TEXT, sqltypes.TIMESTAMP_LTZ
ARROW: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "fixed": pa.int64(),
}

RowsOf = Callable[[Gathered, Sequence[Description]], Iterator[Row]]
OF_OBJECTS: Mapping[str, Sequence[Literal["table", "view"]]] = {
    "tables": ("table", "view"),
    "columns": ("table", "view"),
    "views": ("view",),
}
"""The views with rows of tables or views, and of which."""

VIEWS: Mapping[str, tuple[Sequence[tuple[str, sqltypes.SqlType]], RowsOf]] = {
    "databases": (
        (
            ("database_name", TEXT),
            ("database_owner", TEXT),
            ("is_transient", TEXT),
            ("comment", TEXT),
            ("created", MOMENT),
            ("last_altered", MOMENT),
            ("retention_time", COUNT),
            ("type", TEXT),
        ),
        _databases,
    ),
    "schemata": (
        (
            ("catalog_name", TEXT),
            ("schema_name", TEXT),
            ("schema_owner", TEXT),
            ("is_transient", TEXT),
            ("created", MOMENT),
            ("last_altered", MOMENT),
            ("comment", TEXT),
        ),
        _schemata,
    ),
    "tables": (
        (
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("table_owner", TEXT),
            ("table_type", TEXT),
            ("is_transient", TEXT),
            ("clustering_key", TEXT),
            ("row_count", COUNT),
            ("bytes", COUNT),
            ("retention_time", COUNT),
            ("created", MOMENT),
            ("last_altered", MOMENT),
            ("is_iceberg", TEXT),
            ("is_dynamic", TEXT),
            ("is_temporary", TEXT),
            ("comment", TEXT),
        ),
        _tables,
    ),
    "views": (
        (
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("table_owner", TEXT),
            ("view_definition", TEXT),
            ("check_option", TEXT),
            ("is_updatable", TEXT),
            ("insertable_into", TEXT),
            ("is_secure", TEXT),
            ("created", MOMENT),
            ("last_altered", MOMENT),
            ("comment", TEXT),
        ),
        _views,
    ),
    "columns": (
        (
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("column_name", TEXT),
            ("ordinal_position", COUNT),
            ("column_default", TEXT),
            ("is_nullable", TEXT),
            ("data_type", TEXT),
            ("character_maximum_length", COUNT),
            ("character_octet_length", COUNT),
            ("numeric_precision", COUNT),
            ("numeric_precision_radix", COUNT),
            ("numeric_scale", COUNT),
            ("datetime_precision", COUNT),
            ("is_identity", TEXT),
            ("identity_start", TEXT),
            ("identity_increment", TEXT),
            ("identity_generation", TEXT),
            ("identity_cycle", TEXT),
            ("identity_ordered", TEXT),
            ("data_type_alias", TEXT),
            ("comment", TEXT),
        ),
        _columns,
    ),
}
