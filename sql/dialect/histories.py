"""rule: COPY_HISTORY, a table function of INFORMATION_SCHEMA, as a query of LOAD_HISTORY."""

from __future__ import annotations

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

PARAMETERS: Final = ("table_name", "start_time", "end_time")


def put_queries(tree: Any, environment: shapes.Environment) -> None:
    """Put a query in the place of each TABLE(INFORMATION_SCHEMA.COPY_HISTORY(...)).

    Raises SqlError for arguments that it does not take.
    """
    for node in list(tree.find_all(exp.Table)):
        path, call = _called(node)
        if call is None:
            continue
        arguments = _arguments(call)
        alias = node.args.get("alias")
        if {key for key, value in node.args.items() if value} - {"this", "alias"}:
            raise errors.unsupported("COPY_HISTORY with more than an alias")
        query = _query(path, arguments, environment)
        node.replace(exp.Subquery(this=query, alias=alias.copy() if alias else None))


def _called(node: exp.Table) -> tuple[list[Any], exp.Anonymous | None]:
    """Return the names in front of COPY_HISTORY, and its call; None for another table."""
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
    if not isinstance(call, exp.Anonymous) or str(call.this).upper() != "COPY_HISTORY":
        return [], None
    if not path or path[-1].name.upper() != "INFORMATION_SCHEMA" or len(path) > 2:
        raise errors.unknown_function("COPY_HISTORY")
    return path[:-1], call


def _arguments(call: exp.Anonymous) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for place, node in enumerate(call.expressions):
        word, value = PARAMETERS[min(place, len(PARAMETERS) - 1)], node
        if isinstance(node, exp.Kwarg):
            word, value = str(node.this.name).lower(), node.expression
        if word not in PARAMETERS or word in arguments:
            raise errors.unsupported(f"COPY_HISTORY with the argument {word.upper()}")
        arguments[word] = value
    if "table_name" not in arguments or "start_time" not in arguments:
        raise errors.unsupported("COPY_HISTORY without TABLE_NAME and START_TIME")
    return arguments


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
