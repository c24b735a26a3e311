"""engine: computes the defaults of columns: once when they are declared, or for each INSERT.

A constant is computed when it is declared and stored as a value. Another expression is stored as
text; an INSERT binds it again, so CURRENT_TIMESTAMP is the time of that statement. Numbers of
sequences and of AUTOINCREMENT are reserved for the rows of one statement before it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from catalog import idents, rights, sequences, tables
from catalog import values as catalog_values
from sql import (
    column_defaults,
    compiler,
    engine,
    errors,
    places,
    planning,
    tabletypes,
    zoned_kernels,
)
from sql.dialect import elements, operations, resolve, sqltypes

NO_TABLES = planning.QueryTables(shapes=(), tables=(), ready={})

UUID_CALL: Final = "UUID_STRING()"
UUID_LENGTH: Final = 36
EXPRESSION_CHARACTERS_MAX: Final = 4_096
WHOLE_NUMBERS: Final = ("int", "long")


class Defaults:
    """Computes defaults. Stateless."""

    def __init__(
        self,
        *,
        compiler: compiler.Compiler,
        planning: planning.Planning,
        engine: engine.Engine,
        places: places.Places,
        sequences: sequences.Sequences,
    ) -> None:
        self._compiler = compiler
        self._planning = planning
        self._engine = engine
        self._places = places
        self._sequences = sequences

    async def declared(
        self,
        execution: planning.Execution,
        column: operations.ColumnDefinition,
        column_type: sqltypes.SqlType,
    ) -> column_defaults.Default | None:
        """Return the default that a column's definition declares, None if it declares none."""
        if column.identity is not None:
            if column_type.name != "fixed" or column_type.scale:
                raise errors.SqlError(
                    "001083",
                    "42601",
                    "SQL compilation error:\nAUTOINCREMENT needs a column of whole numbers, not"
                    f" {sqltypes.shown(column_type)}",
                    phase="COMPILATION",
                )
            identity = (column.identity.start, column.identity.increment)
            return column_defaults.Default(identity=identity)
        if column.default is None:
            return None
        return await self.of_text(execution, column.default, column_type)

    async def of_text(
        self, execution: planning.Execution, text: str, column_type: sqltypes.SqlType
    ) -> column_defaults.Default:
        """Return the default that an expression's text declares; raises SqlError."""
        form = elements.read_default(text)
        if form.is_null:
            return column_defaults.Default()
        if column_type.structure is not None:
            raise errors.unsupported(f"DEFAULT of a column of {sqltypes.shown(column_type)}")
        if form.sequence:
            ident = self._planning.sequence(execution, form.sequence)
            path = (ident.table_bucket, idents.dotted(ident.namespace), ident.name)
            return column_defaults.Default(sequence=path)
        if form.is_uuid:
            if column_type.name != "text" or (column_type.length or UUID_LENGTH) < UUID_LENGTH:
                raise errors.unsupported(
                    f"DEFAULT UUID_STRING() of a column of {sqltypes.shown(column_type)}"
                )
            return column_defaults.Default(expression=UUID_CALL)
        if len(text) > EXPRESSION_CHARACTERS_MAX:
            raise errors.unsupported(
                f"a DEFAULT of more than {EXPRESSION_CHARACTERS_MAX} characters"
            )
        query, inner_text = await self._bound(execution, text, column_type)
        if not form.is_constant or column_type.is_packed:  # Iceberg has no default of a variant
            return column_defaults.Default(expression=text)
        iceberg_type = tabletypes.iceberg_type(column_type)
        async with self._compiled(execution, f"SELECT {text}") as inner:
            planned = await self._planning.query(inner, query, NO_TABLES, text=inner_text)
            table, _ = await engine.collect(await self._engine.run(planned))
        array = table.column(0).combine_chunks()
        if column_type.name == "timestamp_tz":
            micros, minutes = zoned_kernels.unpack(array.cast(zoned_kernels.PACKED))
            if minutes[0].as_py():  # Iceberg has no constant with an offset
                return column_defaults.Default(expression=text)
            array = micros.cast(tabletypes.stored_type(iceberg_type))
        (value,) = tabletypes.plain_list(array)
        if value is None:
            return column_defaults.Default()
        length = column_type.length
        if length is not None and len(value) > length:
            raise errors.too_long(str(value)[:100])
        if iceberg_type in WHOLE_NUMBERS:
            value = int(value)  # the engine computes '7' and 7.4 for such a column as decimals
        try:
            constant = catalog_values.to_json(iceberg_type, value)
            catalog_values.from_json(iceberg_type, constant)
            return column_defaults.Default(constant=constant)
        except catalog_values.InvalidValue:
            raise errors.unsupported(f"DEFAULT {text[:100]}") from None

    def filling(
        self,
        execution: planning.Execution,
        loaded: tables.LoadedTable,
        fields: Sequence[Mapping[str, Any]],
    ) -> Filling | None:
        """Return how an INSERT fills the columns that it does not list; None if Iceberg's
        write-defaults suffice.

        fields: the columns that it lists.
        """
        stored = column_defaults.read(loaded.metadata.properties)
        if not stored:
            return None
        listed = {field["id"] for field in fields}
        missing = [
            field
            for field in loaded.metadata.current_schema()["fields"]
            if field["id"] in stored and field["id"] not in listed
        ]
        if not missing:
            return None
        return Filling(
            defaults=self, execution=execution, loaded=loaded, missing=missing, stored=stored
        )

    async def text_of(
        self, execution: planning.Execution, expression: str, column_type: sqltypes.SqlType
    ) -> tuple[str, tuple[str, ...]]:
        """Return the engine's text of an expression's value, and the functions in it."""
        if expression == UUID_CALL:  # another value in each row
            return "arrow_cast(uuid(), 'Utf8')", ()
        query, text = await self._bound(execution, expression, column_type)
        return f'(SELECT "c0" FROM ({text}) AS "default"("c0"))', query.functions

    async def reserve(
        self,
        execution: planning.Execution,
        loaded: tables.LoadedTable,
        field_id: int,
        default: column_defaults.Default,
        rows: int,
    ) -> tuple[int, int]:
        if default.identity is not None:
            start, increment = default.identity
            first = await self._sequences.reserve_for_column(
                loaded.ident.table_bucket,
                loaded.pointer.object_uuid,
                field_id,
                rows,
                start=start,
                increment=increment,
            )
            return first, increment
        database, schema, name = default.sequence
        namespace = tuple(schema.split("."))
        ident = idents.TableIdent(table_bucket=database, namespace=namespace, name=name)
        judge = self._places.judge_sequence(execution.session.principal, (ident, rights.WRITE_DATA))
        return await self._sequences.reserve(database, namespace, name, rows, judge=judge)

    async def count_rows(
        self,
        execution: planning.Execution,
        query: resolve.BoundQuery,
        query_tables: planning.QueryTables,
    ) -> int:
        """Return the number of rows of an INSERT's query."""
        return await self._planning.count_rows(execution, query, query_tables)

    async def _bound(
        self, execution: planning.Execution, text: str, column_type: sqltypes.SqlType
    ) -> tuple[resolve.BoundQuery, str]:
        """Return an expression bound to a column's type, and the engine's text of its one row."""
        async with self._compiled(execution, f"SELECT {text}") as inner:
            environment = await self._planning.environment(inner)
            await inner.compiled.needs(environment)
            query = await inner.compiled.bind_into(environment, [column_type])
        return query, query.sql

    @asynccontextmanager
    async def _compiled(
        self, execution: planning.Execution, text: str
    ) -> AsyncIterator[planning.Execution]:
        """Open another statement with the context of this one and without its binds."""
        owner = execution.session.principal.name
        compiled = await self._compiler.compile(text, owner=owner)
        try:
            yield dataclasses.replace(
                execution, compiled=compiled, bindings={}, describe_only=False
            )
        finally:
            await compiled.close()

    async def value(self, execution: planning.Execution, text: str) -> Any:
        """Return the one value of a query, with the rights of the statement's principal."""
        async with self._compiled(execution, text) as inner:
            query, query_tables = await self._planning.bound(inner)
            results = await self._engine.run(await self._planning.query(inner, query, query_tables))
            table, _ = await engine.collect(results)
        return table.column(0)[0].as_py()


class Filling:
    """The defaults of one INSERT. Mutable: it counts the numbers that it reserved."""

    def __init__(
        self,
        *,
        defaults: Defaults,
        execution: planning.Execution,
        loaded: tables.LoadedTable,
        missing: Sequence[Mapping[str, Any]],
        stored: Mapping[int, column_defaults.Default],
    ) -> None:
        self._defaults = defaults
        self._execution = execution
        self._loaded = loaded
        self._missing = missing
        self._stored = stored
        self._reserved: int | None = None

    async def __call__(
        self, query: resolve.BoundQuery, query_tables: planning.QueryTables
    ) -> tuple[resolve.BoundQuery, Mapping[int, str]]:
        """Return the query with the defaults' functions, and the engine's text by field id."""
        texts: dict[int, str] = {}
        functions = query.functions
        declared = tabletypes.declared_types(self._loaded.metadata.properties)
        for field in self._missing:
            default = self._stored[field["id"]]
            column_type = tabletypes.sql_type(field["type"], declared.get(field["id"]))
            if not default.is_counted:
                text, more = await self._defaults.text_of(
                    self._execution, default.expression, column_type
                )
                texts[field["id"]] = text
                functions = tuple(dict.fromkeys((*functions, *more)))
                continue
            if self._reserved is None:
                self._reserved = await self._defaults.count_rows(
                    self._execution, query, query_tables
                )
            first, step = await self._defaults.reserve(
                self._execution, self._loaded, field["id"], default, self._reserved
            )
            texts[field["id"]] = numbering(first, step, column_type)
        return dataclasses.replace(query, functions=functions), texts

    def check_rows(self, rows: int) -> None:
        """Raise SqlError if the query had more rows than numbers were reserved for."""
        if self._reserved is not None and rows > self._reserved:
            raise errors.unsupported("AUTOINCREMENT for a query whose number of rows varies")


def numbering(
    first: int, step: int, column_type: sqltypes.SqlType, *, nth: str = "row_number() OVER ()"
) -> str:
    """Return the engine's text that gives each row a number, from first on.

    nth: the text of the row's own number, from 1.
    """
    row = f"arrow_cast({nth}, 'Int64')"
    number = f"(arrow_cast({first}, 'Int64') + ({row} - 1) * arrow_cast({step}, 'Int64'))"
    return f"arrow_cast({number}, '{sqltypes.arrow_name(column_type)}')"
