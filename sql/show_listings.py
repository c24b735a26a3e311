"""rule: the listings of SHOW: name, columns, and the objects whose rows they have.

Column names are lower case and in Snowflake's order, because drivers read some by position.
Listings of objects that Boathouse does not have are empty, with Snowflake's columns.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from catalog import idents
from sql import descriptions, fileformats, listings, outcomes, stagerows
from sql.dialect import functions, names, operations
from sql.listings import ListedColumn, moment, number, text

Source = Literal[
    "none",
    "databases",
    "schemas",
    "tables",
    "sequences",
    "stages",
    "file formats",
    "functions",
    "parameters",
    "variables",
    "warehouses",
    "users",
    "roles",
    "transactions",
    "jobs",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """One listing of SHOW.

    columns: in Snowflake's order. source: the objects; `tables` are those of object_types, and
    parts returns the objects of one table or view. named_by: the column that LIKE, STARTS WITH and
    LIMIT FROM compare. is_sorted: by that column, else in the order of the source. terse: the
    columns of SHOW TERSE; empty if it has the others. is_of_one_table: IN names the table whose
    columns or keys are listed. is_of_referencing: the keys of other tables that reference the
    tables in scope. has_history: HISTORY lists dropped objects too.
    """

    columns: Sequence[ListedColumn]
    source: Source = "none"
    parts: Callable[[descriptions.Description], Iterator[Any]] = lambda table: iter((table,))
    object_types: Sequence[idents.PointerType] = ("table", "view")
    named_by: str = "name"
    is_sorted: bool = True
    terse: Sequence[ListedColumn] = ()
    is_of_one_table: bool = False
    is_of_referencing: bool = False
    has_history: bool = False

    def with_history(self) -> Sequence[ListedColumn]:
        """Return the columns of HISTORY: those of the listing, and when an object was dropped."""
        dropped = moment("dropped_on", lambda each: each.dropped_at_ms)
        place = [column.name for column in self.columns].index("retention_time") + 1
        return (*self.columns[:place], dropped, *self.columns[place:])

    @property
    def name_of(self) -> listings.Value:
        """The function that returns the name of an object, which filters compare."""
        return next(column.value for column in self.columns if column.name == self.named_by)


OBJECT_TYPES: Mapping[idents.PointerType, str] = {"table": "TABLE", "view": "VIEW"}


def _database_of(each: Any) -> str:
    return names.shown_database(each.ident.table_bucket)


def _schema_of(each: Any) -> str:
    return names.shown(idents.dotted(each.ident.namespace))


def _name_of(each: Any) -> str:
    return names.shown(each.ident.name)


def _type_of(each: Any) -> str:
    if each.is_temporary:
        return "TEMPORARY"
    return OBJECT_TYPES["view" if each.object_type == "view" else "table"]


def _table_type(each: Any) -> str:
    return "TRANSIENT" if each.is_transient else _type_of(each)


def _is_iceberg(table: Any) -> str:
    return "Y" if table.object_type == "table" and table.is_declared else "N"


def _retention_of(each: Any) -> str:
    return "1" if each.retention_days is None else str(each.retention_days)


# Databases and schemas

DATABASES = (
    moment("created_on", lambda each: each.created_at_ms),
    text("name", lambda each: names.shown_database(each.name)),
    text("is_default", lambda each: "Y" if each.is_default else "N"),
    text("is_current", lambda each: "Y" if each.is_current else "N"),
    text("origin"),
    text("owner"),
    text("comment", lambda each: each.comment),
    text("options"),
    text("retention_time", "1"),
    text("kind", "STANDARD"),
    text("budget"),
    text("owner_role_type"),
    text("object_visibility"),
)
TERSE_DATABASES = (
    *DATABASES[:2],
    text("kind", "STANDARD"),
    text("database_name"),
    text("schema_name"),
)
SCHEMAS = (
    moment("created_on", lambda each: each.created_at_ms),
    text("name", lambda each: names.shown(each.name)),
    text("is_default", "N"),
    text("is_current", lambda each: "Y" if each.is_current else "N"),
    text("database_name", lambda each: names.shown_database(each.database)),
    text("owner"),
    text("comment", lambda each: each.comment),
    text("options"),
    text("retention_time", "1"),
    text("owner_role_type"),
)
TERSE_SCHEMAS = (
    *SCHEMAS[:2],
    text("kind"),
    text("database_name", lambda each: names.shown_database(each.database)),
    text("schema_name", lambda each: names.shown(each.name)),
)

# Tables, views and their columns

OBJECTS_AND_TABLES = (
    moment("created_on", lambda each: each.created_at_ms),
    text("name", _name_of),
    text("database_name", _database_of),
    text("schema_name", _schema_of),
    text("kind", _type_of),
    text("comment", lambda each: each.comment),
    text("cluster_by", lambda each: each.cluster_by),
    number("rows", lambda each: each.rows),
    number("bytes", lambda each: each.size_bytes),
    text("owner", lambda each: each.owner),
    text("retention_time", _retention_of),
)
TERSE_OBJECTS = (
    moment("created_on", lambda each: each.created_at_ms),
    text("name", _name_of),
    text("kind", _type_of),
    text("database_name", _database_of),
    text("schema_name", _schema_of),
)
TERSE_TABLES = (*TERSE_OBJECTS[:2], text("kind", _table_type), *TERSE_OBJECTS[3:])
OBJECTS = (
    *OBJECTS_AND_TABLES,
    text("owner_role_type"),
    text("is_hybrid", "N"),
    text("is_dynamic", "N"),
    text("is_iceberg", _is_iceberg),
)
TABLES = (
    *OBJECTS_AND_TABLES[:4],
    text("kind", _table_type),
    *OBJECTS_AND_TABLES[5:],
    text("automatic_clustering", "OFF"),
    text("change_tracking", "OFF"),
    text("search_optimization", "OFF"),
    text("search_optimization_progress", None),
    text("search_optimization_bytes", None),
    text("is_external", "N"),
    text("enable_schema_evolution", "N"),
    text("owner_role_type"),
    text("is_event", "N"),
    text("budget", None),
    text("is_hybrid", "N"),
    text("is_iceberg", _is_iceberg),
    text("is_dynamic", "N"),
    text("is_immutable", "N"),
)
VIEWS = (
    moment("created_on", lambda each: each.created_at_ms),
    text("name", _name_of),
    text("reserved"),
    text("database_name", _database_of),
    text("schema_name", _schema_of),
    text("owner", lambda each: each.owner),
    text("comment", lambda each: each.comment),
    text("text", lambda each: each.definition),
    text("is_secure", lambda each: _flag(each.view is not None and each.view.is_secure)),
    text("is_materialized", "false"),
    text("owner_role_type"),
    text("change_tracking", "OFF"),
)
COLUMNS = (
    text("table_name", lambda each: _name_of(each.table)),
    text("schema_name", lambda each: _schema_of(each.table)),
    text("column_name", lambda each: each.column.name),
    text("data_type", lambda each: data_type(each.column)),
    text("null?", lambda each: "true" if each.column.nullable else "NOT_NULL"),
    text("default", lambda each: each.column.default),
    text("kind", "COLUMN"),
    text("expression"),
    text("comment", lambda each: each.column.comment),
    text("database_name", lambda each: _database_of(each.table)),
    text("autoincrement", lambda each: each.column.autoincrement),
    text("schema_evolution_record"),
)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def columns_of(table: descriptions.Description) -> Iterator[listings.ListedColumnOf]:
    """Yield the columns of a table or view."""
    for position, column in enumerate(table.columns, start=1):
        yield listings.ListedColumnOf(table=table, column=column, position=position)


def data_type(column: descriptions.ColumnDescription) -> str:
    """Return SHOW COLUMNS' data_type: JSON."""
    sql_type = column.type
    type_fields: dict[str, Any] = {"type": sql_type.name.upper()}
    match sql_type.name:
        case "fixed":
            type_fields |= {"precision": sql_type.precision, "scale": sql_type.scale}
        case "text":
            length = sql_type.length or outcomes.TEXT_LENGTH_MAX
            octets = min(4 * length, outcomes.TEXT_LENGTH_MAX)
            type_fields |= {"length": length, "byteLength": octets, "fixed": False}
        case "binary":
            length = sql_type.length or outcomes.BINARY_LENGTH_MAX
            type_fields |= {"length": length, "byteLength": length, "fixed": True}
        case "time" | "timestamp_ntz" | "timestamp_ltz" | "timestamp_tz":
            type_fields |= {"precision": 0, "scale": sql_type.scale}
        case "interval_year_month" | "interval_day_time":
            type_fields |= {"precision": sql_type.precision, "scale": sql_type.scale}
    return json.dumps({**type_fields, "nullable": column.nullable}, separators=(",", ":"))


# Keys

KEYS = (
    moment("created_on", lambda each: each.table.created_at_ms),
    text("database_name", lambda each: _database_of(each.table)),
    text("schema_name", lambda each: _schema_of(each.table)),
    text("table_name", lambda each: _name_of(each.table)),
    text("column_name", lambda each: each.column),
    number("key_sequence", lambda each: each.position),
    text("constraint_name", lambda each: each.key.name),
    text("rely", lambda each: _flag(each.key.is_reliable)),
    text("comment", None),
)
FOREIGN_KEYS = (
    moment("created_on", lambda each: each.table.created_at_ms),
    text("pk_database_name", lambda each: each.key.referenced[0]),
    text("pk_schema_name", lambda each: each.key.referenced[1]),
    text("pk_table_name", lambda each: each.key.referenced[2]),
    text("pk_column_name", lambda each: each.referenced),
    text("fk_database_name", lambda each: _database_of(each.table)),
    text("fk_schema_name", lambda each: _schema_of(each.table)),
    text("fk_table_name", lambda each: _name_of(each.table)),
    text("fk_column_name", lambda each: each.column),
    number("key_sequence", lambda each: each.position),
    text("update_rule", lambda each: each.key.on_update),
    text("delete_rule", lambda each: each.key.on_delete),
    text("fk_name", lambda each: each.key.name),
    text("pk_name", None),
    text("deferrability", "NOT DEFERRABLE"),
    text("rely", lambda each: _flag(each.key.is_reliable)),
    text("comment", None),
)


def _keys_of(
    key_type: operations.KeyType,
) -> Callable[[descriptions.Description], Iterator[listings.ListedKeyColumn]]:
    """Return the function that yields the columns of a table's keys of one type."""

    def parts(table: descriptions.Description) -> Iterator[listings.ListedKeyColumn]:
        for key in table.keys:
            if key.type != key_type:
                continue
            referenced = key.referenced_columns if key_type == "foreign" else key.columns
            pairs = zip(key.columns, referenced, strict=False)
            for position, (column, other) in enumerate(pairs, start=1):
                yield listings.ListedKeyColumn(
                    table=table, key=key, column=column, position=position, referenced=other
                )

    return parts


# Sequences, stages and file formats

SEQUENCES = (
    text("name", lambda each: names.shown(each.state.name)),
    text("database_name", lambda each: names.shown_database(each.database)),
    text("schema_name", lambda each: names.shown(idents.dotted(each.namespace))),
    number("next_value", lambda each: each.state.next if each.may_describe else None),
    number("interval", lambda each: each.state.increment if each.may_describe else None),
    moment("created_on", lambda each: each.state.created_at_ms),
    text("owner", lambda each: owner_of(each.state.created_by)),
    text("comment", lambda each: each.state.comment if each.may_describe else ""),
    text("owner_role_type", "ROLE"),
    text("ordered", "Y"),
)


def owner_of(arn: str) -> str:
    """Return the name in a principal's ARN."""
    return arn.rpartition("/")[2].rpartition(":")[2]


STAGED_OBJECTS = (
    moment("created_on", lambda each: each.row.created_at_ms),
    text("name", lambda each: names.shown(each.row.name)),
    text("database_name", lambda each: names.shown_database(each.row.table_bucket)),
    text("schema_name", lambda each: names.shown(".".join(each.row.namespace))),
)
STAGES = (
    *STAGED_OBJECTS,
    text("url"),
    text("has_credentials", "N"),
    text("has_encryption_key", "N"),
    text("owner", lambda each: owner_of(each.row.owner).upper()),
    text("comment", lambda each: each.row.comment),
    text("region", lambda each: each.region),
    text("type", lambda each: stage_type(each)),
    text("cloud", None),
    text("notification_channel", None),
    text("storage_integration", None),
    text("endpoint", None),
    text("owner_role_type", "ROLE"),
    text("directory_enabled", "N"),
)
FILE_FORMATS = (
    *STAGED_OBJECTS,
    text("type", lambda each: each.row.format_type),
    text("owner", lambda each: owner_of(each.row.owner).upper()),
    text("comment", lambda each: each.row.comment),
    text("format_options", lambda each: format_options(each)),
    text("owner_role_type", "ROLE"),
)


def stage_type(stage: listings.ListedStaging) -> str:
    """Return whether a stage is temporary, as SHOW STAGES has it."""
    is_temporary = stage.row.session_id != stagerows.PERMANENT
    return "INTERNAL TEMPORARY" if is_temporary else "INTERNAL"


def format_options(each: listings.ListedStaging) -> str:
    """Return the options of a file format as SHOW FILE FORMATS has them."""
    options = (each.file_format or fileformats.FileFormat()).options
    return ", ".join(f"{name}={fileformats.shown(value)}" for name, value in options.items())


# Functions, and what belongs to a session

ROUTINES = (
    moment("created_on"),
    text("name", lambda each: each.name),
    text("schema_name"),
    text("is_builtin", "Y"),
    text("is_aggregate", lambda each: "Y" if each.function.function_type == "aggregate" else "N"),
    text("is_ansi", None),
    number("min_num_arguments", lambda each: each.function.low),
    number("max_num_arguments", lambda each: each.function.high),
    text("arguments", lambda each: functions.signature(each.name)),
    text("description"),
    text("catalog_name"),
    text("is_table_function", "N"),
    text("valid_for_clustering", "N"),
    text("is_secure", "N"),
    text("secrets", None),
    text("external_access_integrations", None),
    text("is_external_function", "N"),
    text("language"),
    text("is_memoizable", "N"),
    text("is_data_metric", "N"),
)
PARAMETERS = (
    text("key", lambda each: each.name),
    text("value", lambda each: each.value),
    text("default", lambda each: each.default),
    text("level", lambda each: "SESSION" if each.is_set else ""),
    text("description", lambda each: each.description),
    text("type", lambda each: each.type),
)
VARIABLES = (
    text("session_id", lambda each: str(each.session_id)),
    moment("created_on"),
    moment("updated_on"),
    text("name", lambda each: each.name),
    text("value", lambda each: each.value),
    text("type", lambda each: each.type),
    text("comment"),
)
WAREHOUSES = (
    text("name", lambda each: each.name),
    text("state", "STARTED"),
    text("type", lambda each: each.options.get("WAREHOUSE_TYPE", "STANDARD")),
    text("size", lambda each: each.options.get("WAREHOUSE_SIZE", "X-Small")),
    number("min_cluster_count", lambda each: each.options.get("MIN_CLUSTER_COUNT", 1)),
    number("max_cluster_count", lambda each: each.options.get("MAX_CLUSTER_COUNT", 1)),
    number("started_clusters", 1),
    number("running", lambda each: each.running),
    number("queued", lambda each: each.waiting),
    text("is_default", "N"),
    text("is_current", lambda each: "Y" if each.is_current else "N"),
    number("auto_suspend", lambda each: each.options.get("AUTO_SUSPEND", 600)),
    text("auto_resume", lambda each: str(each.options.get("AUTO_RESUME", True)).lower()),
    text("available", "100"),
    text("provisioning", "0"),
    text("quiescing", "0"),
    text("other", "0"),
    moment("created_on", lambda each: each.created_at_ms),
    moment("resumed_on"),
    moment("updated_on", lambda each: each.changed_at_ms),
    text("owner", lambda each: owner_of(each.owner)),
    text("comment", lambda each: each.options.get("COMMENT", "")),
    text("enable_query_acceleration", "false"),
    number("query_acceleration_max_scale_factor", 8),
    text("resource_monitor", "null"),
    text("actives", "0"),
    text("pendings", "0"),
    text("failed", "0"),
    text("suspended", "0"),
    text("uuid"),
    text("scaling_policy", lambda each: each.options.get("SCALING_POLICY", "STANDARD")),
    text("budget"),
    text("owner_role_type"),
    text("resource_constraint"),
)
USERS = (
    text("name", lambda each: each.row.name.upper()),
    moment("created_on", lambda each: each.row.created_at_ms),
    text("login_name", lambda each: each.row.name.upper()),
    text("display_name", lambda each: each.row.properties.get("display_name", each.row.name)),
    text("first_name", lambda each: each.row.properties.get("first_name", "")),
    text("last_name", lambda each: each.row.properties.get("last_name", "")),
    text("email", lambda each: each.row.properties.get("email", "")),
    text("mins_to_unlock"),
    text("days_to_expiry"),
    text("comment", lambda each: each.row.properties.get("comment", "")),
    text("disabled", lambda each: str(each.row.disabled).lower()),
    text("must_change_password", "false"),
    text("snowflake_lock", "false"),
    text("default_warehouse", lambda each: each.row.properties.get("default_warehouse", "")),
    text("default_namespace", lambda each: each.row.properties.get("default_namespace", "")),
    text("default_role", lambda each: each.row.properties.get("default_role", "")),
    text("default_secondary_roles"),
    text("ext_authn_duo", "false"),
    text("ext_authn_uid"),
    text("mins_to_bypass_mfa"),
    text("owner"),
    moment("last_success_login"),
    moment("expires_at_time"),
    moment("locked_until_time"),
    text("has_password", lambda each: str(bool(each.row.password)).lower()),
    text("has_rsa_public_key", lambda each: str(any(each.row.public_keys)).lower()),
)
ROLES = (
    moment("created_on", lambda each: each.created_at_ms),
    text("name", lambda each: each.name),
    text("is_default", "N"),
    text("is_current", lambda each: "Y" if each.is_current else "N"),
    text("is_inherited", "N"),
    number("assigned_to_users", lambda each: each.users),
    number("granted_to_roles", 0),
    number("granted_roles", 0),
    text("owner"),
    text("comment", lambda each: each.comment),
)
TRANSACTIONS = (
    text("id", lambda each: each[1].id),
    text("user", lambda each: each[0].login.name.upper()),
    text("session", lambda each: str(each[0].id)),
    text("name", lambda each: each[1].name),
    moment("started_on", lambda each: each[1].started_at_ms),
    text("state", "running"),
    text("scope", "0"),
)
JOBS = (
    text("run_id", lambda each: each.run_id),
    text("name", lambda each: each.name),
    text("task", lambda each: each.task),
    text("target", lambda each: each.target),
    text("state", lambda each: each.state),
    moment("started_on", lambda each: each.started_at_ms),
    moment("ended_on", lambda each: each.ended_at_ms),
    text("progress", lambda each: each.progress),
    text("error", lambda each: each.error),
    text("run_by", lambda each: each.by),
)
INDEXES = tuple(map(text, ("name", "table", "is_unique", "columns", "included_columns")))

# Objects that Boathouse does not have: their listings have columns and no rows.

MATERIALIZED_VIEWS = (
    moment("created_on"),
    *map(text, ("name", "reserved", "database_name", "schema_name", "cluster_by")),
    number("rows", None),
    number("bytes", None),
    *map(text, ("source_database_name", "source_schema_name", "source_table_name")),
    moment("refreshed_on"),
    moment("compacted_on"),
    *map(text, ("owner", "invalid", "invalid_reason", "behind_by", "comment", "text")),
    *map(text, ("is_secure", "automatic_clustering", "owner_role_type", "budget")),
)
EXTERNAL_TABLES = (
    moment("created_on"),
    *map(text, ("name", "database_name", "schema_name", "invalid", "invalid_reason", "owner")),
    *map(text, ("comment", "stage", "location", "file_format_name", "file_format_type", "cloud")),
    *map(text, ("region", "notification_channel")),
    moment("last_refreshed_on"),
    *map(text, ("table_format", "last_refresh_details", "owner_role_type")),
)
DYNAMIC_TABLES = (
    moment("created_on"),
    *map(text, ("name", "reserved", "database_name", "schema_name", "cluster_by")),
    number("rows", None),
    number("bytes", None),
    *map(text, ("owner", "target_lag", "refresh_mode", "refresh_mode_reason", "warehouse")),
    *map(text, ("comment", "text", "automatic_clustering", "scheduling_state")),
    moment("last_suspended_on"),
    *map(text, ("is_clone", "is_replica")),
    moment("data_timestamp"),
    text("owner_role_type"),
)
STREAMS = (
    moment("created_on"),
    *map(text, ("name", "database_name", "schema_name", "owner", "comment", "table_name")),
    *map(text, ("source_type", "base_tables", "type", "stale", "mode")),
    moment("stale_after"),
    *map(text, ("invalid_reason", "owner_role_type")),
)
TASKS = (
    moment("created_on"),
    *map(text, ("name", "id", "database_name", "schema_name", "owner", "comment", "warehouse")),
    *map(text, ("schedule", "predecessors", "state", "definition", "condition")),
    *map(text, ("allow_overlapping_execution", "error_integration")),
    moment("last_committed_on"),
    moment("last_suspended_on"),
    *map(text, ("owner_role_type", "config", "budget")),
)
PIPES = (
    moment("created_on"),
    *map(text, ("name", "database_name", "schema_name", "definition", "owner")),
    *map(text, ("notification_channel", "comment", "integration", "pattern")),
    *map(text, ("error_integration", "owner_role_type", "invalid_reason", "kind")),
)

_LISTING_OF_TABLES = Listing(
    columns=TABLES, source="tables", object_types=("table",), terse=TERSE_TABLES
)


def _listing_of_keys(key_type: operations.KeyType) -> Listing:
    return Listing(
        columns=KEYS,
        source="tables",
        parts=_keys_of(key_type),
        named_by="table_name",
        is_sorted=False,
        is_of_one_table=True,
    )


LISTINGS: Mapping[str, Listing] = {
    "DATABASES": Listing(
        columns=DATABASES, source="databases", terse=TERSE_DATABASES, has_history=True
    ),
    "SCHEMAS": Listing(columns=SCHEMAS, source="schemas", terse=TERSE_SCHEMAS, has_history=True),
    "OBJECTS": Listing(columns=OBJECTS, source="tables", terse=TERSE_OBJECTS),
    "TABLES": dataclasses.replace(_LISTING_OF_TABLES, has_history=True),
    "ICEBERG TABLES": _LISTING_OF_TABLES,
    "VIEWS": Listing(columns=VIEWS, source="tables", object_types=("view",), terse=TERSE_OBJECTS),
    "COLUMNS": Listing(
        columns=COLUMNS,
        source="tables",
        parts=columns_of,
        named_by="column_name",
        is_sorted=False,
        is_of_one_table=True,
    ),
    "PARAMETERS": Listing(columns=PARAMETERS, source="parameters", named_by="key"),
    "VARIABLES": Listing(columns=VARIABLES, source="variables"),
    "WAREHOUSES": Listing(columns=WAREHOUSES, source="warehouses"),
    "PRIMARY KEYS": _listing_of_keys("primary"),
    "UNIQUE KEYS": _listing_of_keys("unique"),
    "IMPORTED KEYS": Listing(
        columns=FOREIGN_KEYS,
        source="tables",
        parts=_keys_of("foreign"),
        named_by="fk_table_name",
        is_sorted=False,
        is_of_one_table=True,
    ),
    "EXPORTED KEYS": Listing(
        columns=FOREIGN_KEYS,
        source="tables",
        parts=_keys_of("foreign"),
        named_by="fk_table_name",
        is_sorted=False,
        is_of_referencing=True,
    ),
    "FUNCTIONS": Listing(columns=ROUTINES, source="functions"),
    "BUILTIN FUNCTIONS": Listing(columns=ROUTINES, source="functions"),
    "USER FUNCTIONS": Listing(columns=ROUTINES),
    "PROCEDURES": Listing(columns=ROUTINES),
    "USER PROCEDURES": Listing(columns=ROUTINES),
    "STAGES": Listing(columns=STAGES, source="stages"),
    "FILE FORMATS": Listing(columns=FILE_FORMATS, source="file formats"),
    "SEQUENCES": Listing(columns=SEQUENCES, source="sequences"),
    "INDEXES": Listing(columns=INDEXES),
    "MATERIALIZED VIEWS": Listing(columns=MATERIALIZED_VIEWS),
    "EXTERNAL TABLES": Listing(columns=EXTERNAL_TABLES),
    "DYNAMIC TABLES": Listing(columns=DYNAMIC_TABLES),
    "STREAMS": Listing(columns=STREAMS),
    "TASKS": Listing(columns=TASKS),
    "PIPES": Listing(columns=PIPES),
    "USERS": Listing(columns=USERS, source="users"),
    "ROLES": Listing(columns=ROLES, source="roles"),
    "TRANSACTIONS": Listing(columns=TRANSACTIONS, source="transactions", named_by="id"),
    "JOBS": Listing(columns=JOBS, source="jobs", is_sorted=False),
}
"""The listings of SHOW, by their names."""
