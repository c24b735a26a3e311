"""engine: INFORMATION_SCHEMA, made from the catalog when a query names one of its views.

Only the named view is made, of one database, and only what the caller may see. Names are reported
as Snowflake reports them. Counts and times come from the newest snapshot and the catalog's rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog import errors as catalog_errors
from catalog import idents, tables
from server.access import model as access_model
from sql import engine, errors, outcomes, places, tabletypes
from sql.dialect import names, shapes, sqltypes

TABLES_MAX = 10_000
"""Tables of one database that COLUMNS and TABLES describe; beyond that the query is refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A table as listings show it. loaded: None for a table that has no metadata yet."""

    ident: idents.TableIdent
    created_at_ms: int
    altered_at_ms: int
    rows: int | None
    size_bytes: int | None
    comment: str
    owner: str
    cluster_by: str
    loaded: tables.LoadedTable | None


class InformationSchema:
    """Describes what the catalog holds, for SHOW, DESCRIBE and the views."""

    def __init__(self, *, places: places.Places, tables: tables.Tables) -> None:
        self._places = places
        self._tables = tables

    def describe(self, ident: idents.TableIdent) -> Description | None:
        """Return what is told of a table; None if it is gone."""
        try:
            pointer = self._tables.pointer(ident)
        except (catalog_errors.NoSuchTable, catalog_errors.NoSuchNamespace):
            return None
        try:
            loaded = self._tables.load(ident)
        except catalog_errors.CatalogError:
            loaded = None
        summary = _summary(loaded)
        properties = loaded.metadata.properties if loaded is not None else {}
        return Description(
            ident=ident,
            created_at_ms=pointer.created_at_ms,
            altered_at_ms=max(
                pointer.modified_at_ms, loaded.metadata.last_updated_ms if loaded else 0
            ),
            rows=_count(summary, "total-records", loaded),
            size_bytes=_count(summary, "total-files-size", loaded),
            comment=properties.get("comment", ""),
            owner=pointer.created_by.rpartition("/")[2].rpartition(":")[2],
            cluster_by=_cluster_by(loaded),
            loaded=loaded,
        )

    def relation(
        self, view: names.Ident, place: places.Schema, principal: access_model.Principal, name: str
    ) -> tuple[shapes.TableShape, engine.Relation]:
        """Return a view of a database's INFORMATION_SCHEMA, as a table; raises SqlError 002003."""
        found = names.find(view, list(VIEWS))
        if not found:
            raise errors.does_not_exist("Object", f"INFORMATION_SCHEMA.{view.folded}")
        stored = list(VIEWS)[found[0]]
        columns, rows = VIEWS[stored]
        table = pa.Table.from_pylist(
            [
                dict(zip((column[0] for column in columns), row, strict=True))
                for row in rows(self, place.database, principal)
            ],
            schema=pa.schema([(column[0], ARROW[column[1].kind]) for column in columns]),
        )
        shape = shapes.TableShape(
            relation=name,
            path=(place.database, places.INFORMATION_SCHEMA, stored),
            columns=tuple(shapes.ShapeColumn(name=column[0], type=column[1]) for column in columns),
            rows=table.num_rows,
        )
        relation = engine.Relation(
            name=name, schema=engine.ipc_schema(table.schema), rows=engine.ipc_rows(table)
        )
        return shape, relation

    def every_table(
        self, database: str, principal: access_model.Principal
    ) -> Iterator[Description]:
        """Yield the tables of a database that principal may see."""
        seen = 0
        for namespace in self._places.schemas(principal, database):
            for ident in self._places.tables(principal, database, namespace):
                seen += 1
                if seen > TABLES_MAX:
                    raise errors.information_schema_too_large()
                found = self.describe(ident)
                if found is not None:
                    yield found

    # Rows

    def databases(self, database: str, principal: access_model.Principal) -> Iterator[Row]:
        for name in self._places.databases(principal):
            yield (names.shown(name), None, "NO", "", None, None, 1, "STANDARD")

    def schemata(self, database: str, principal: access_model.Principal) -> Iterator[Row]:
        for namespace in self._places.schemas(principal, database):
            yield _schema_row(database, names.shown(idents.dotted(namespace)))
        yield _schema_row(database, places.INFORMATION_SCHEMA.upper())

    def tables(self, database: str, principal: access_model.Principal) -> Iterator[Row]:
        for found in self.every_table(database, principal):
            yield (
                names.shown(database),
                names.shown(idents.dotted(found.ident.namespace)),
                names.shown(found.ident.name),
                found.owner,
                "BASE TABLE",
                "NO",
                found.cluster_by or None,
                found.rows,
                found.size_bytes,
                1,
                moment(found.created_at_ms),
                moment(found.altered_at_ms),
                "YES",
                "NO",
                "NO",
                found.comment or None,
            )

    def views(self, database: str, principal: access_model.Principal) -> Iterator[Row]:
        yield from ()

    def columns(self, database: str, principal: access_model.Principal) -> Iterator[Row]:
        for found in self.every_table(database, principal):
            if found.loaded is None:
                continue
            prefix = (
                names.shown(database),
                names.shown(idents.dotted(found.ident.namespace)),
                names.shown(found.ident.name),
            )
            for position, column in enumerate(columns_of(found.loaded), start=1):
                yield (*prefix, *_column_row(column, position))


Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnDescription:
    """One column of a table. name: as reported."""

    name: str
    type: sqltypes.SqlType
    nullable: bool
    comment: str


def columns_of(loaded: tables.LoadedTable) -> list[ColumnDescription]:
    """Return a table's columns as they are now."""
    schema = loaded.metadata.current_schema()
    shape = tabletypes.shape_columns(schema, loaded.metadata.properties)
    return [
        ColumnDescription(
            name=names.shown(column.name),
            type=column.type,
            nullable=column.nullable,
            comment=str(field.get("doc", "")),
        )
        for field, column in zip(schema["fields"], shape, strict=True)
    ]


def moment(ms: int) -> datetime.datetime:
    """Return a time of the catalog as a TIMESTAMP_LTZ."""
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def plain_type(kind: sqltypes.SqlType) -> str:
    """Return DATA_TYPE: the type without its parameters."""
    return {"fixed": "NUMBER", "real": "FLOAT"}.get(kind.kind, kind.kind.upper())


def _schema_row(database: str, name: str) -> Row:
    return (names.shown(database), name, None, "NO", None, None, None)


def _column_row(column: ColumnDescription, position: int) -> Row:
    kind = column.type
    length = None
    if kind.kind == "text":
        length = kind.length or outcomes.TEXT_LENGTH_MAX
    elif kind.kind == "binary":
        length = kind.length or outcomes.BINARY_LENGTH_MAX
    octets = min(4 * length, outcomes.TEXT_LENGTH_MAX) if length and kind.kind == "text" else length
    is_number = kind.kind == "fixed"
    return (
        column.name,
        position,
        None,
        "YES" if column.nullable else "NO",
        plain_type(kind),
        length,
        octets,
        kind.precision if is_number else None,
        10 if is_number else None,
        kind.scale if is_number else None,
        kind.scale if kind.kind in ("time", "timestamp_ntz", "timestamp_ltz") else None,
        "NO",
        None,
        None,
        None,
        None,
        None,
        None,
        column.comment or None,
    )


def _summary(loaded: tables.LoadedTable | None) -> Mapping[str, str]:
    if loaded is None or loaded.metadata.current_snapshot_id is None:
        return {}
    snapshot = loaded.metadata.snapshot(loaded.metadata.current_snapshot_id)
    found: Mapping[str, str] = (snapshot or {}).get("summary", {})
    return found


def _count(summary: Mapping[str, str], key: str, loaded: tables.LoadedTable | None) -> int | None:
    if loaded is None or loaded.metadata.current_snapshot_id is None:
        return 0
    text = str(summary.get(key, ""))
    return int(text) if text.isdecimal() else None


def _cluster_by(loaded: tables.LoadedTable | None) -> str:
    if loaded is None:
        return ""
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
    "timestamp_ltz": pa.timestamp("us", "UTC"),
}

RowsOf = Callable[[InformationSchema, str, access_model.Principal], Iterator[Row]]

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
        InformationSchema.databases,
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
        InformationSchema.schemata,
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
        InformationSchema.tables,
    ),
    "views": (
        (
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("table_owner", TEXT),
            ("view_definition", TEXT),
            ("created", MOMENT),
            ("last_altered", MOMENT),
            ("comment", TEXT),
        ),
        InformationSchema.views,
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
        InformationSchema.columns,
    ),
}
