"""rule: table functions of INFORMATION_SCHEMA as queries of its views.

COPY_HISTORY reads LOAD_HISTORY. QUERY_HISTORY and its forms by session, user and warehouse read the
view QUERY_HISTORY, which Snowflake does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlglot
from sqlglot import exp

from sql import errors
from sql.dialect import grammar, names, reading, shapes

CATALOG: Final = "table_catalog_name"
QUERY: Final = """
    file_name, null::varchar as stage_location, last_load_time, row_count, row_parsed,
    null::number(38, 0) as file_size, first_error_message, first_error_line_number,
    first_error_character_position, first_error_col_name as first_error_column_name,
    error_count, error_limit,
    decode(status, 'LOADED', 'Loaded', 'LOAD_FAILED', 'Load failed', 'Partially loaded') as status,
    table_catalog_name, schema_name as table_schema_name, table_name,
    null::varchar as pipe_catalog_name, null::varchar as pipe_schema_name,
    null::varchar as pipe_name, null::timestamp_ltz as pipe_received_time
    from load_history
"""

COPY_HISTORY: Final = "COPY_HISTORY"
RANGE: Final = ("end_time_range_start", "end_time_range_end", "result_limit")
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    COPY_HISTORY: ("table_name", "start_time", "end_time"),
    "QUERY_HISTORY": RANGE,
    "QUERY_HISTORY_BY_SESSION": ("session_id", *RANGE),
    "QUERY_HISTORY_BY_USER": ("user_name", *RANGE),
    "QUERY_HISTORY_BY_WAREHOUSE": ("warehouse_name", *RANGE),
}
"""The functions with their arguments, by name or in this order."""

DEFAULTS: Final = {
    "session_id": "current_session()::number",
    "user_name": "current_user()",
    "warehouse_name": "current_warehouse()",
}
RESULT_LIMIT_DEFAULT: Final = 100
RESULT_LIMIT_MAX: Final = 10_000


def put_queries(tree: Any, environment: shapes.Environment) -> None:
    """Put a query in the place of each TABLE(INFORMATION_SCHEMA.COPY_HISTORY(...)) and its like.

    Raises SqlError for arguments that it does not take.
    """
    for node in list(tree.find_all(exp.Table)):
        path, call = _called(node)
        if call is None:
            continue
        name = str(call.this).upper()
        arguments = _arguments(name, call)
        alias = node.args.get("alias")
        if {key for key, value in node.args.items() if value} - {"this", "alias"}:
            raise errors.unsupported(f"{name} with more than an alias")
        if name == COPY_HISTORY:
            query = _query(path, arguments, environment)
        else:
            query = _statements(name, path, arguments)
        node.replace(exp.Subquery(this=query, alias=alias.copy() if alias else None))


def _called(node: exp.Table) -> tuple[list[Any], exp.Anonymous | None]:
    """Return the names in front of a function's name, and its call; None for another table."""
    outer = node.this
    if not isinstance(outer, exp.Anonymous) or str(outer.this).upper() != "TABLE":
        return [], None
    call = outer.expressions[0] if len(outer.expressions) == 1 else None
    path: list[Any] = []
    if isinstance(call, exp.Dot):
        before, call = call.this, call.expression
        while isinstance(before, exp.Dot):
            path.insert(0, before.expression)
            before = before.this
        path.insert(0, before)
    if not isinstance(call, exp.Anonymous) or str(call.this).upper() not in PARAMETERS:
        return [], None
    if not path or path[-1].name.upper() != "INFORMATION_SCHEMA" or len(path) > 2:
        raise errors.unknown_function(str(call.this).upper())
    return path[:-1], call


def _arguments(name: str, call: exp.Anonymous) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    parameters = PARAMETERS[name]
    for place, node in enumerate(call.expressions):
        word, value = parameters[min(place, len(parameters) - 1)], node
        if isinstance(node, exp.Kwarg):
            word, value = str(node.this.name).lower(), node.expression
        if word not in parameters or word in arguments:
            raise errors.unsupported(f"{name} with the argument {word.upper()}")
        arguments[word] = value
    if name == COPY_HISTORY and not {"table_name", "start_time"} <= arguments.keys():
        raise errors.unsupported("COPY_HISTORY without TABLE_NAME and START_TIME")
    return arguments


def _statements(name: str, path: list[Any], arguments: dict[str, Any]) -> Any:
    """Return the query of QUERY_HISTORY: statements that run are those that end last."""
    source = exp.Table(
        this=exp.to_identifier("query_history"), db=exp.to_identifier("information_schema")
    )
    if path:
        source.set("catalog", path[0].copy())
    query: Any = sqlglot.parse_one(
        "select * from query_history order by end_time desc nulls first, start_time desc",
        dialect=grammar.Boathouse,
    )
    for table in list(query.find_all(exp.Table)):
        table.replace(source)
    conditions: list[Any] = []
    for word, default in DEFAULTS.items():
        if word in arguments:
            conditions.append(exp.EQ(this=exp.column(word), expression=arguments[word].copy()))
        elif word in PARAMETERS[name]:
            default_tree = sqlglot.parse_one(default, dialect=grammar.Boathouse)
            conditions.append(exp.EQ(this=exp.column(word), expression=default_tree))
    ended = exp.column("end_time")
    if "end_time_range_start" in arguments:
        since = exp.GTE(this=ended, expression=arguments["end_time_range_start"].copy())
        runs = exp.Is(this=ended.copy(), expression=exp.Null())
        conditions.append(exp.Paren(this=exp.Or(this=runs, expression=since)))
    if "end_time_range_end" in arguments:
        until = arguments["end_time_range_end"].copy()
        conditions.append(exp.LTE(this=ended.copy(), expression=until))
    if conditions:
        query.where(*conditions, copy=False)
    query.limit(_limit(arguments.get("result_limit")), copy=False)
    return query


def _limit(node: Any) -> int:
    if node is None:
        return RESULT_LIMIT_DEFAULT
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not text.isdecimal() or not 1 <= int(text[:9]) <= RESULT_LIMIT_MAX:
        raise errors.invalid_parameter("RESULT_LIMIT", text[:40] or "no number")
    return int(text)


def _query(path: list[Any], arguments: dict[str, Any], environment: shapes.Environment) -> Any:
    written = arguments["table_name"]
    if not isinstance(written, exp.Literal) or not written.is_string:
        raise errors.unsupported("COPY_HISTORY with a TABLE_NAME that is no literal")
    name = reading.spelled_name(written.name)
    schema = name[-2] if len(name) > 1 else None
    database = name[0] if len(name) > 2 else None
    stored = environment.context.schema
    if schema is None and stored is None:
        raise errors.unsupported("COPY_HISTORY of a table without a schema")
    source = exp.Table(
        this=exp.to_identifier("load_history"), db=exp.to_identifier("information_schema")
    )
    if path:
        source.set("catalog", path[0].copy())
    elif database is not None:
        source.set("catalog", exp.Identifier(this=database.text, quoted=database.quoted))
    shown_schema = names.shown(str(stored)) if schema is None else schema.folded
    catalog = names.shown_database(str(environment.context.database))
    if path or database is not None:
        catalog = path[0].name.upper() if path else database.folded if database else catalog
    query: Any = sqlglot.parse_one(f"select {QUERY}", dialect=grammar.Boathouse)
    for table in list(query.find_all(exp.Table)):
        table.replace(source)
    for column in list(query.find_all(exp.Column)):
        if column.name == CATALOG:
            column.replace(exp.alias_(exp.Literal.string(catalog), CATALOG))
    conditions: list[Any] = [
        exp.EQ(this=exp.column("table_name"), expression=exp.Literal.string(name[-1].folded)),
        exp.EQ(this=exp.column("schema_name"), expression=exp.Literal.string(shown_schema)),
    ]
    for word, compare in (("start_time", exp.GTE), ("end_time", exp.LTE)):
        if word in arguments:
            moment = exp.column("last_load_time")
            conditions.append(compare(this=moment, expression=arguments[word].copy()))
    query.where(*conditions, copy=False)
    return query
