"""rule: the views of INFORMATION_SCHEMA: name, columns, and the objects whose rows they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from catalog import idents
from sql import descriptions, listings, outcomes, show_listings
from sql.dialect import names, sqltypes
from sql.listings import moment, number, text

Source = Literal[
    "here",
    "databases",
    "schemas",
    "tables",
    "sequences",
    "stages",
    "file formats",
    "loads",
    "own role",
    "roles",
    "statements",
    "nothing",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class InformationView:
    """A view of INFORMATION_SCHEMA.

    source: its objects; `here` is the database alone, `nothing` what Boathouse has none of.
    object_types, parts: as in a listing of
    SHOW. parts_of_all: instead of parts, the objects of all tables, where one table's need
    another's. has_columns: whether tables are described with their columns.
    """

    columns: Sequence[listings.ListedColumn]
    source: Source
    object_types: Sequence[idents.PointerType] = ()
    parts: Callable[[descriptions.Description], Iterator[Any]] = lambda table: iter((table,))
    parts_of_all: Callable[[Sequence[descriptions.Description]], Iterator[Any]] | None = None
    has_columns: bool = False


def _table_type(each: Any) -> str:
    if each.is_temporary:
        return "LOCAL TEMPORARY"
    return "VIEW" if each.object_type == "view" else "BASE TABLE"


def _database_of(each: Any) -> str:
    return names.shown_database(each.ident.table_bucket)


def _elapsed_ms(each: Any) -> int | None:
    return None if each.ended_at_ms is None else each.ended_at_ms - each.started_at_ms


def _schema_of(each: Any) -> str:
    return names.shown(idents.dotted(each.ident.namespace))


def _name_of(each: Any) -> str:
    return names.shown(each.ident.name)


def _retention_of(each: Any) -> int | None:
    if each.object_type != "table":
        return None
    return 1 if each.retention_days is None else int(each.retention_days)


def _yes(value: Any) -> str:
    return "YES" if value else "NO"


DATABASES = (
    text("database_name", lambda each: names.shown_database(each.name)),
    text("database_owner", None),
    text("is_transient", "NO"),
    text("comment", lambda each: each.comment or None),
    moment("created", lambda each: each.created_at_ms),
    moment("last_altered"),
    number("retention_time", 1),
    text("type", "STANDARD"),
)
CATALOG_NAME = (text("catalog_name", lambda each: names.shown_database(each.name)),)
SCHEMATA = (
    text("catalog_name", lambda each: names.shown_database(each.database)),
    text("schema_name", lambda each: names.shown(each.name)),
    text("schema_owner", None),
    text("is_transient", "NO"),
    text("is_managed_access", "NO"),
    number("retention_time", 1),
    *(text(f"default_character_set_{part}", None) for part in ("catalog", "schema", "name")),
    text("sql_path", None),
    moment("created", lambda each: each.created_at_ms),
    moment("last_altered"),
    text("comment", lambda each: each.comment or None),
)
TABLES = (
    text("table_catalog", _database_of),
    text("table_schema", _schema_of),
    text("table_name", _name_of),
    text("table_owner", lambda each: each.owner or None),
    text("table_type", _table_type),
    text("is_transient", lambda each: _yes(each.is_transient)),
    text("clustering_key", lambda each: each.cluster_by or None),
    number("row_count", lambda each: each.rows),
    number("bytes", lambda each: each.size_bytes),
    number("retention_time", _retention_of),
    text("self_referencing_column_name", None),
    text("reference_generation", None),
    *(text(f"user_defined_type_{part}", None) for part in ("catalog", "schema", "name")),
    text("is_insertable_into", lambda each: _yes(each.object_type == "table")),
    text("is_typed", "NO"),
    text("commit_action", None),
    moment("created", lambda each: each.created_at_ms),
    moment("last_altered", lambda each: each.altered_at_ms),
    moment("last_ddl"),
    text("last_ddl_by", None),
    text("auto_clustering_on", "NO"),
    text("is_hybrid", "NO"),
    text("is_iceberg", lambda each: _yes(each.object_type == "table" and each.is_declared)),
    text("is_dynamic", "NO"),
    text("is_temporary", lambda each: "YES" if each.is_temporary else "NO"),
    text("comment", lambda each: each.comment or None),
)
VIEWS = (
    text("table_catalog", _database_of),
    text("table_schema", _schema_of),
    text("table_name", _name_of),
    text("table_owner", lambda each: each.owner or None),
    text("view_definition", lambda each: each.view.text if each.view else None),
    text("check_option", "NONE"),
    text("is_updatable", "NO"),
    text("insertable_into", "NO"),
    text("is_secure", lambda each: _yes(each.view and each.view.is_secure)),
    moment("created", lambda each: each.created_at_ms),
    moment("last_altered", lambda each: each.altered_at_ms),
    text("comment", lambda each: each.comment or None),
)


def _length(each: Any) -> int | None:
    sql_type = each.column.type
    if sql_type.name == "text":
        return sql_type.length or outcomes.TEXT_LENGTH_MAX
    return sql_type.length or outcomes.BINARY_LENGTH_MAX if sql_type.name == "binary" else None


def _octets(each: Any) -> int | None:
    length = _length(each)
    if length is None or each.column.type.name != "text":
        return length
    return min(4 * length, outcomes.TEXT_LENGTH_MAX)


def _of_numbers(value: Callable[[sqltypes.SqlType], int]) -> listings.Value:
    return lambda each: value(each.column.type) if each.column.type.name == "fixed" else None


def _of_identity(value: Callable[[tuple[int, int]], str]) -> listings.Value:
    return lambda each: None if each.column.identity is None else value(each.column.identity)


TIMES = ("time", "timestamp_ntz", "timestamp_ltz", "timestamp_tz")


def _time_digits(each: Any) -> int | None:
    sql_type = each.column.type
    return sql_type.scale if sql_type.name in TIMES else None


def plain_type(sql_type: sqltypes.SqlType) -> str:
    """Return DATA_TYPE: the type without its parameters."""
    return {"fixed": "NUMBER", "real": "FLOAT"}.get(sql_type.name, sql_type.name.upper())


COLUMNS = (
    text("table_catalog", lambda each: _database_of(each.table)),
    text("table_schema", lambda each: _schema_of(each.table)),
    text("table_name", lambda each: _name_of(each.table)),
    text("column_name", lambda each: each.column.name),
    number("ordinal_position", lambda each: each.position),
    text("column_default", lambda each: each.column.default or None),
    text("is_nullable", lambda each: _yes(each.column.nullable)),
    text("data_type", lambda each: plain_type(each.column.type)),
    number("character_maximum_length", _length),
    number("character_octet_length", _octets),
    number("numeric_precision", _of_numbers(lambda sql_type: sql_type.precision)),
    number("numeric_precision_radix", _of_numbers(lambda sql_type: 10)),
    number("numeric_scale", _of_numbers(lambda sql_type: sql_type.scale)),
    number("datetime_precision", _time_digits),
    text("is_identity", lambda each: _yes(each.column.identity)),
    text("identity_start", _of_identity(lambda identity: str(identity[0]))),
    text("identity_increment", _of_identity(lambda identity: str(identity[1]))),
    text("identity_generation", _of_identity(lambda identity: "BY DEFAULT")),
    text("identity_cycle", _of_identity(lambda identity: "NO")),
    text("identity_ordered", _of_identity(lambda identity: "YES")),
    text("data_type_alias", None),
    text("comment", lambda each: each.column.comment or None),
)
CONSTRAINT_TYPES: Mapping[str, str] = {
    "primary": "PRIMARY KEY",
    "unique": "UNIQUE",
    "foreign": "FOREIGN KEY",
}
TABLE_CONSTRAINTS = (
    text("constraint_catalog", lambda each: _database_of(each.table)),
    text("constraint_schema", lambda each: _schema_of(each.table)),
    text("constraint_name", lambda each: each.key.name),
    text("table_catalog", lambda each: _database_of(each.table)),
    text("table_schema", lambda each: _schema_of(each.table)),
    text("table_name", lambda each: _name_of(each.table)),
    text("constraint_type", lambda each: CONSTRAINT_TYPES[each.key.type]),
    text("is_deferrable", "NO"),
    text("initially_deferred", "YES"),
    text("enforced", "NO"),
    text("comment", None),
    moment("created", lambda each: each.table.created_at_ms),
    moment("last_altered", lambda each: each.table.altered_at_ms),
    text("rely", lambda each: _yes(each.key.is_reliable)),
)


REFERENTIAL_CONSTRAINTS = (
    text("constraint_catalog", lambda each: _database_of(each.table)),
    text("constraint_schema", lambda each: _schema_of(each.table)),
    text("constraint_name", lambda each: each.key.name),
    text("unique_constraint_catalog", lambda each: each.key.referenced[0]),
    text("unique_constraint_schema", lambda each: each.key.referenced[1]),
    text("unique_constraint_name", lambda each: each.referenced_name),
    text("match_option", "FULL"),
    text("update_rule", lambda each: each.key.on_update),
    text("delete_rule", lambda each: each.key.on_delete),
    text("comment", None),
    moment("created", lambda each: each.table.created_at_ms),
    moment("last_altered", lambda each: each.table.altered_at_ms),
)


def _references_of(
    tables: Sequence[descriptions.Description],
) -> Iterator[listings.ListedReference]:
    """Yield the foreign keys of tables, with the names of the keys that they reference.

    A key of a table that is not among these, as one of another database, has no name here.
    """
    by_columns: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {
        ((_database_of(table), _schema_of(table), _name_of(table)), key.columns): key.name
        for table in tables
        for key in table.keys
        if key.type != "foreign"
    }
    for table in tables:
        for key in table.keys:
            if key.type == "foreign":
                name = by_columns.get((key.referenced, key.referenced_columns))
                yield listings.ListedReference(table=table, key=key, referenced_name=name)


def _keys_of(table: descriptions.Description) -> Iterator[listings.ListedKey]:
    return (listings.ListedKey(table=table, key=key) for key in table.keys)


SEQUENCES = (
    text("sequence_catalog", lambda each: names.shown_database(each.database)),
    text("sequence_schema", lambda each: names.shown(idents.dotted(each.namespace))),
    text("sequence_name", lambda each: names.shown(each.state.name)),
    text("sequence_owner", lambda each: show_listings.owner_of(each.state.created_by)),
    text("data_type", "NUMBER"),
    number("numeric_precision", 38),
    number("numeric_precision_radix", 10),
    number("numeric_scale", 0),
    text("minimum_value", None),
    text("maximum_value", None),
    number("next_value", lambda each: each.state.next if each.may_describe else None),
    text("increment", lambda each: str(each.state.increment) if each.may_describe else None),
    text("cycle_option", "NO"),
    text("ordered", "YES"),
    moment("created", lambda each: each.state.created_at_ms),
    moment("last_altered"),
    text("comment", lambda each: (each.state.comment or None) if each.may_describe else None),
)
STAGES = (
    text("stage_catalog", lambda each: names.shown_database(each.row.table_bucket)),
    text("stage_schema", lambda each: names.shown(".".join(each.row.namespace))),
    text("stage_name", lambda each: names.shown(each.row.name)),
    text("stage_url", None),
    text("stage_region", lambda each: each.region),
    text(
        "stage_type",
        lambda each: {"INTERNAL": "Internal Named"}.get(
            show_listings.stage_type(each), "Internal Temporary"
        ),
    ),
    text("stage_owner", lambda each: show_listings.owner_of(each.row.owner).upper()),
    text("comment", lambda each: each.row.comment or None),
    moment("created", lambda each: each.row.created_at_ms),
    moment("last_altered"),
)
FILE_FORMATS = (
    text("file_format_catalog", lambda each: names.shown_database(each.row.table_bucket)),
    text("file_format_schema", lambda each: names.shown(".".join(each.row.namespace))),
    text("file_format_name", lambda each: names.shown(each.row.name)),
    text("file_format_owner", lambda each: show_listings.owner_of(each.row.owner).upper()),
    text("file_format_type", lambda each: each.row.format_type),
    text("format_options", show_listings.format_options),
    moment("created", lambda each: each.row.created_at_ms),
    moment("last_altered"),
    text("comment", lambda each: each.row.comment or None),
)
APPLICABLE_ROLES = (
    text("grantee", lambda each: each.grantee),
    text("role_name", lambda each: each.name),
    text("role_owner", None),
    text("is_grantable", "NO"),
)
ENABLED_ROLES = (
    text("role_name", lambda each: each.name),
    text("role_owner", None),
)
RESULT_COLUMNS = (
    text("argument_signature"),
    text("data_type"),
    number("character_maximum_length"),
    number("character_octet_length"),
    number("numeric_precision"),
    number("numeric_precision_radix"),
    number("numeric_scale"),
)
LOAD_HISTORY = (
    text("schema_name", _schema_of),
    text("file_name", lambda each: each.file),
    text("table_name", _name_of),
    moment("last_load_time", lambda each: each.loaded_at_ms),
    text("status", lambda each: each.status),
    number("row_count", lambda each: each.rows),
    number("row_parsed", lambda each: each.rows_parsed),
    text("first_error_message", lambda each: each.error),
    number("first_error_line_number", lambda each: each.error_line),
    number("first_error_character_position", lambda each: each.error_character),
    text("first_error_col_name", lambda each: each.error_column),
    number("error_count", lambda each: each.errors),
    number("error_limit", lambda each: each.error_limit),
)
QUERY_HISTORY = (
    text("query_id", lambda each: each.query_id),
    text("query_text", lambda each: each.text),
    text("database_name", lambda each: each.database),
    text("schema_name", lambda each: each.schema),
    text("query_type", lambda each: each.statement_type),
    number("session_id", lambda each: each.session_id),
    text("user_name", lambda each: each.user),
    text("role_name", lambda each: each.role),
    text("warehouse_name", lambda each: each.warehouse),
    text("warehouse_size", None),
    text("warehouse_type", None),
    number("cluster_number"),
    text("query_tag", lambda each: each.tag),
    text("execution_status", lambda each: each.status),
    text("error_code", lambda each: each.error_code),
    text("error_message", lambda each: each.error_message),
    moment("start_time", lambda each: each.started_at_ms),
    moment("end_time", lambda each: each.ended_at_ms),
    number("total_elapsed_time", _elapsed_ms),
    number("bytes_scanned"),
    number("rows_produced", lambda each: each.rows),
    number("compilation_time"),
    number("execution_time"),
    number("queued_provisioning_time", 0),
    number("queued_repair_time", 0),
    number("queued_overload_time"),
    number("transaction_blocked_time", 0),
    text("outbound_data_transfer_cloud", None),
    text("outbound_data_transfer_region", None),
    number("outbound_data_transfer_bytes", 0),
    text("inbound_data_transfer_cloud", None),
    text("inbound_data_transfer_region", None),
    number("inbound_data_transfer_bytes", 0),
    number("credits_used_cloud_services", 0),
)
FUNCTIONS = (
    *map(text, ("function_catalog", "function_schema", "function_name", "function_owner")),
    *RESULT_COLUMNS,
    *map(text, ("function_language", "function_definition", "volatility", "is_null_call")),
    text("is_secure"),
    moment("created"),
    moment("last_altered"),
    *map(text, ("comment", "is_external", "api_integration", "context_headers")),
    number("max_batch_rows"),
    *map(text, ("request_translator", "response_translator", "compression", "imports", "handler")),
    *map(text, ("target_path", "runtime_version", "packages", "installed_packages")),
    text("is_memoizable"),
)
PROCEDURES = (
    *map(text, ("procedure_catalog", "procedure_schema", "procedure_name", "procedure_owner")),
    *RESULT_COLUMNS,
    *map(text, ("procedure_language", "procedure_definition")),
    moment("created"),
    moment("last_altered"),
    text("comment"),
)
INFORMATION_VIEWS: Mapping[str, InformationView] = {
    "databases": InformationView(columns=DATABASES, source="databases"),
    "information_schema_catalog_name": InformationView(columns=CATALOG_NAME, source="here"),
    "schemata": InformationView(columns=SCHEMATA, source="schemas"),
    "tables": InformationView(columns=TABLES, source="tables", object_types=("table", "view")),
    "views": InformationView(columns=VIEWS, source="tables", object_types=("view",)),
    "columns": InformationView(
        columns=COLUMNS,
        source="tables",
        object_types=("table", "view"),
        parts=show_listings.columns_of,
        has_columns=True,
    ),
    "table_constraints": InformationView(
        columns=TABLE_CONSTRAINTS, source="tables", object_types=("table",), parts=_keys_of
    ),
    "referential_constraints": InformationView(
        columns=REFERENTIAL_CONSTRAINTS,
        source="tables",
        object_types=("table",),
        parts_of_all=_references_of,
    ),
    "sequences": InformationView(columns=SEQUENCES, source="sequences"),
    "stages": InformationView(columns=STAGES, source="stages"),
    "file_formats": InformationView(columns=FILE_FORMATS, source="file formats"),
    "applicable_roles": InformationView(columns=APPLICABLE_ROLES, source="roles"),
    "enabled_roles": InformationView(columns=ENABLED_ROLES, source="own role"),
    "load_history": InformationView(columns=LOAD_HISTORY, source="loads", object_types=("table",)),
    "query_history": InformationView(columns=QUERY_HISTORY, source="statements"),
    "functions": InformationView(columns=FUNCTIONS, source="nothing"),
    "procedures": InformationView(columns=PROCEDURES, source="nothing"),
}
"""The views of INFORMATION_SCHEMA, by their names."""
