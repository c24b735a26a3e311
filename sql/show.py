"""engine: SHOW and DESCRIBE: listings of what the caller may see.

`sql.show_listings` has the listings with their columns. This module finds the objects of each
source in the statement's scope, without those that the caller may not see.
`sql.information_schema` describes the tables of a listing.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from catalog import access, idents, rights
from jobs import runs, visibility
from sql import (
    accounts,
    descriptions,
    engine,
    errors,
    information_schema,
    limits,
    listings,
    outcomes,
    places,
    planning,
    rowtypes,
    sessions,
    show_listings,
    stored_views,
    temporary_names,
    transactions,
    warehouserows,
)
from sql import parameters as session_parameters
from sql.dialect import functions, names, operations, sqltypes

DESCRIBE_COLUMNS = (
    "name",
    "type",
    "kind",
    "null?",
    "default",
    "primary key",
    "unique key",
    "check",
    "expression",
    "comment",
    "policy name",
    "privacy domain",
)


class Shows:
    """Answers SHOW and DESCRIBE."""

    def __init__(
        self,
        *,
        places: places.Places,
        described: information_schema.InformationSchema,
        accounts: accounts.Accounts,
        runs: runs.Runs,
        access: access.Access,
        warehouses: warehouserows.WarehouseRows,
        default_database: str | None,
        engines: Sequence[engine.CountingEngine],
    ) -> None:
        self._engines = engines
        self._warehouses = warehouses
        self._places = places
        self._described = described
        self._accounts = accounts
        self._runs = runs
        self._access = access
        self._default_database = default_database

    async def show(self, session: sessions.Session, statement: operations.Show) -> outcomes.Outcome:
        """Return the listing; raises SqlError 002043 if its scope does not exist."""
        listing = show_listings.LISTINGS.get(statement.listing)
        if listing is None:
            raise errors.unsupported(f"SHOW {statement.listing}")
        if statement.history and (statement.terse or not listing.has_history):
            terse = "TERSE " if statement.terse else ""
            raise errors.unsupported(f"SHOW {terse}{statement.listing} HISTORY")
        objects: Sequence[Any]
        if listing.source == "users":
            objects = await self._accounts.users(session)
        elif listing.source == "roles":
            objects = await self._accounts.roles(session)
        elif listing.source != "tables":
            objects = await asyncio.to_thread(self._objects, listing, session, statement)
        elif listing.is_of_one_table and statement.scope_type in ("table", "name"):
            table = self._find(session, statement.scope, object_type="Table")
            described = await self._described.describe_whole(table)
            objects = await asyncio.to_thread(lambda: list(listing.parts(described)))
        else:
            objects = await self._objects_of_tables(listing, session, statement)
        columns = listing.terse if statement.terse and listing.terse else listing.columns
        if statement.history:
            columns = listing.with_history()
        return await _in_thread_if_many(
            objects, functools.partial(_outcome, objects, listing, columns, statement)
        )

    async def describe(
        self, session: sessions.Session, statement: operations.Describe
    ) -> outcomes.Outcome:
        """Return DESCRIBE's rows; raises SqlError 002003 with SQLSTATE 02000."""
        if statement.object_type in ("schema", "database"):
            return await asyncio.to_thread(self._describe_container, session, statement)
        if statement.object_type == "sequence":
            return self._describe_sequence(session, statement.name)
        temporary = self._find_temporary(session, statement.name)
        if temporary is not None:
            return _described(descriptions.view_columns(temporary), (), ())
        table = self._find(session, statement.name, object_type=statement.object_type.title())
        if statement.object_type == "view" and table.pointer.object_type == "table":
            raise errors.described_does_not_exist("View", names.dotted(statement.name))
        described = await self._described.describe_whole(table)
        primary = {name for key in described.keys if key.type == "primary" for name in key.columns}
        unique = {name for key in described.keys if key.type == "unique" for name in key.columns}
        return _described(described.columns, primary, unique)

    async def describe_result(
        self, execution: planning.Execution, statement: operations.DescribeResult
    ) -> outcomes.Outcome:
        """Return the columns of a stored result; raises SqlError for one that is not stored."""
        query_id = statement.query_id or execution.context.query_id_at(statement.position)
        if query_id is None:
            raise errors.result_scan_unknown("NULL")
        result = await execution.results.stored(execution.session, query_id)
        return _described([_result_column(column) for column in result.columns], (), ())

    def _describe_sequence(self, session: sessions.Session, name: names.Name) -> outcomes.Outcome:
        """Return the row of a sequence, as SHOW SEQUENCES has it."""
        missing = errors.described_does_not_exist("Sequence", names.dotted(name))
        with self._places.view_of(session) as catalog:
            try:
                place = catalog.schema_of(
                    name, database=session.database, schema=session.schema, exactly=False
                )
            except errors.SqlError as error:
                raise (missing if error.code == "002003" else error) from None
            if not catalog.lists_sequences(place.database, place.namespace):
                raise missing
            schemas = [(place.database, place.namespace)]
            listed = {each.state.name: each for each in self._described.sequences(catalog, schemas)}
            stored = names.find_one(name[-1], list(listed))
            if stored is None:
                raise missing
        columns = show_listings.SEQUENCES
        return outcomes.Outcome(
            columns=tuple(map(listings.result_column, columns)),
            rows=[listings.row(columns, listed[stored])],
            statement_type_id=outcomes.StatementType.DESCRIBE,
        )

    def _find_temporary(
        self, session: sessions.Session, name: names.Name
    ) -> stored_views.View | None:
        if not session.temporary_views:
            return None
        try:
            with self._places.view_of(session) as catalog:
                place = catalog.schema_of(
                    name, database=session.database, schema=session.schema, exactly=False
                )
        except errors.SqlError:
            return None
        return stored_views.find_temporary(session, place, name[-1])

    def _find(
        self, session: sessions.Session, name: names.Name, *, object_type: str
    ) -> places.NamedTable:
        """Return a table or view. Raises SqlError 002003 with SQLSTATE 02000."""
        try:
            with self._places.view_of(session) as catalog:
                return catalog.relation(
                    name,
                    database=session.database,
                    schema=session.schema,
                    exactly=False,
                    actions=rights.LOAD_ACTIONS,
                )
        except errors.SqlError as error:
            if error.code != "002003":
                raise
            raise errors.described_does_not_exist(object_type, names.dotted(name)) from None

    # A database may have very many names, and each one's rights are checked. Threads do so, each in
    # a view of its own, so that the event loop is not blocked.

    def _tables_of(
        self, session: sessions.Session, statement: operations.Show
    ) -> list[information_schema.Listed]:
        with self._places.view_of(session) as catalog:
            return list(_tables_in(catalog, session, statement))

    def _tables_of_database(
        self, session: sessions.Session, database: str
    ) -> list[information_schema.Listed]:
        with self._places.view_of(session) as catalog:
            return [
                listed
                for namespace in catalog.schemas(database)
                for listed in information_schema.list_objects(
                    catalog, database, namespace, ("table",)
                )
            ]

    def _objects(
        self,
        listing: show_listings.Listing,
        session: sessions.Session,
        statement: operations.Show,
    ) -> list[Any]:
        with self._places.view_of(session) as catalog:
            return list(self._of_source(listing.source, catalog, session, statement))

    def _describe_container(
        self, session: sessions.Session, statement: operations.Describe
    ) -> outcomes.Outcome:
        try:
            with self._places.view_of(session) as catalog:
                listed = _described_names(catalog, session, statement)
        except errors.SqlError as error:
            if error.code == "002003":
                shown = names.dotted(statement.name)
                raise errors.described_does_not_exist(
                    statement.object_type.title(), shown
                ) from None
            raise
        return outcomes.Outcome(
            columns=CONTAINED,
            rows=listed,
            statement_type_id=outcomes.StatementType.DESCRIBE,
        )

    async def _objects_of_tables(
        self,
        listing: show_listings.Listing,
        session: sessions.Session,
        statement: operations.Show,
    ) -> Sequence[Any]:
        """Return the objects that tables have in a listing, at least as many as are shown."""
        if listing.is_of_referencing:
            return await self._exported_keys(listing, session, statement)
        listed = await asyncio.to_thread(self._tables_of, session, statement)
        if listing.is_sorted:
            return await self._described.describe_all(listed, with_columns=False)
        objects: list[Any] = []
        for each in listed:
            table = await self._described.describe(each, with_columns=True)
            few = len(table.columns) <= limits.COLUMNS_HERE_MAX
            page = functools.partial(_page, listing.parts(table), listing, statement)
            objects += page() if few else await asyncio.to_thread(page)
            if len(objects) >= limits.SHOWN_ROWS_MAX:
                break
            await asyncio.sleep(0)
        return objects

    async def _exported_keys(
        self,
        listing: show_listings.Listing,
        session: sessions.Session,
        statement: operations.Show,
    ) -> list[Any]:
        """Return the keys, of any table of the database that the caller may list, that reference
        a table in scope."""
        wanted: set[tuple[str, ...]]
        if statement.scope_type in ("table", "name") and statement.scope:
            tables_in_scope = [self._find(session, statement.scope, object_type="Table")]
        else:
            listed = await asyncio.to_thread(self._tables_of, session, statement)
            tables_in_scope = [each.table for each in listed]
        idents_in_scope = [temporary_names.logical(each.ident) for each in tables_in_scope]
        wanted = {
            (
                names.shown_database(i.table_bucket),
                names.shown(idents.dotted(i.namespace)),
                names.shown(i.name),
            )
            for i in idents_in_scope
        }
        exported: list[Any] = []
        for database in {i.table_bucket for i in idents_in_scope}:
            for each in await asyncio.to_thread(self._tables_of_database, session, database):
                table = await self._described.describe(each, with_columns=False)
                exported += [each for each in listing.parts(table) if each.key.referenced in wanted]
                if len(exported) >= limits.SHOWN_ROWS_MAX:
                    return exported
                await asyncio.sleep(0)
        return exported

    # The sources of listings

    def _of_source(
        self,
        source: show_listings.Source,
        catalog: places.CatalogView,
        session: sessions.Session,
        statement: operations.Show,
    ) -> Iterable[Any]:
        """Return the objects in the statement's scope that the caller may see."""
        match source:
            case "databases":
                return self._databases(catalog, session)
            case "schemas":
                return _schemas(catalog, session, statement)
            case "sequences":
                schemas = list(_schemas_in(catalog, session, statement))
                return self._described.sequences(catalog, schemas)
            case "stages" | "file formats":
                schemas = list(_schemas_in(catalog, session, statement))
                return self._described.staging(
                    source, session, schemas, count_max=limits.SHOWN_ROWS_MAX
                )
            case "functions":
                # Functions belong to no database and no schema.
                return _functions() if statement.scope_type in ("", "account") else ()
            case "parameters":
                return _parameters(session)
            case "variables":
                return [
                    listings.ListedVariable(
                        session_id=session.id, name=name, value=variable.text, type=variable.type
                    )
                    for name, variable in sorted(session.variables.items())
                ]
            case "transactions":
                transaction = transactions.current(session)
                return () if transaction is None else ((session, transaction),)
            case "jobs":
                is_shown = visibility.shown_to(session.principal, self._access)
                return self._runs.latest(visibility.RUNS_SHOWN, is_shown=is_shown)
            case "warehouses":
                return self._warehouses.listed(session.warehouse, engine.together(self._engines))
        return ()

    def _databases(
        self, catalog: places.CatalogView, session: sessions.Session
    ) -> Iterator[listings.ListedDatabase]:
        for name in catalog.databases():
            yield listings.ListedDatabase(
                name=name,
                created_at_ms=catalog.created_at_ms(name),
                is_default=name == self._default_database,
                is_current=name == session.database,
                comment=catalog.comment(name),
            )


def _schemas(
    catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
) -> Iterator[listings.ListedSchema]:
    for database in _databases_in(catalog, session, statement):
        stored: list[idents.Namespace] = [*catalog.schemas(database), ()]
        for namespace in stored:
            name = idents.dotted(namespace) if namespace else places.INFORMATION_SCHEMA
            yield listings.ListedSchema(
                database=database,
                name=name,
                created_at_ms=catalog.created_at_ms(database, namespace),
                is_current=database == session.database and name == session.schema,
                comment=catalog.comment(database, namespace) if namespace else "",
            )
        if statement.history:
            matching = (
                each
                for each in catalog.dropped_schemas(database)
                if _may_match(idents.dotted(each.namespace), statement)
            )
            for dropped in itertools.islice(matching, limits.SHOWN_ROWS_MAX):
                yield listings.ListedSchema(
                    database=database,
                    name=idents.dotted(dropped.namespace),
                    created_at_ms=dropped.row.created_at_ms,
                    comment=dropped.row.properties.get("comment", ""),
                    dropped_at_ms=dropped.dropped_at_ms,
                )


def _functions() -> Iterator[listings.ListedFunction]:
    for name, function in functions.FUNCTIONS.items():
        yield listings.ListedFunction(name=name, function=function)


def _parameters(session: sessions.Session) -> Iterator[listings.ListedParameter]:
    for name in sorted(session_parameters.PARAMETERS):
        parameter = session_parameters.PARAMETERS[name]
        yield listings.ListedParameter(
            name=name,
            value=_text_of(session.parameter(name)),
            default=_text_of(parameter.default),
            is_set=name in session.parameters,
            description=parameter.description,
            type={"flag": "BOOLEAN", "number": "NUMBER"}.get(parameter.value_type, "STRING"),
        )


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _outcome(
    objects: Sequence[Any],
    listing: show_listings.Listing,
    columns: Sequence[listings.ListedColumn],
    statement: operations.Show,
) -> outcomes.Outcome:
    """Return the rows of the objects that the statement's filters and LIMIT leave."""
    shown = _page(objects, listing, statement)
    return outcomes.Outcome(
        columns=tuple(map(listings.result_column, columns)),
        rows=[listings.row(columns, each) for each in shown],
        statement_type_id=outcomes.StatementType.SHOW,
    )


def _page(
    objects: Iterable[Any], listing: show_listings.Listing, statement: operations.Show
) -> list[Any]:
    return listings.page(objects, listing.name_of, statement, is_sorted=listing.is_sorted)


async def _in_thread_if_many(
    objects: Sequence[Any], answer: Callable[[], outcomes.Outcome]
) -> outcomes.Outcome:
    if len(objects) > limits.ROWS_HERE_MAX:
        return await asyncio.to_thread(answer)
    return answer()


def _described(
    columns: Sequence[descriptions.ColumnDescription],
    primary: Collection[str],
    unique: Collection[str],
) -> outcomes.Outcome:
    """Return the answer of DESCRIBE TABLE or VIEW. primary, unique: the columns of keys."""
    rows = [
        (
            column.name,
            sqltypes.shown(column.type),
            "COLUMN",
            "Y" if column.nullable else "N",
            column.default or column.autoincrement or None,
            "Y" if column.name in primary else "N",
            "Y" if column.name in unique else "N",
            None,
            None,
            column.comment or None,
            None,
            None,
        )
        for column in columns
    ]
    return outcomes.Outcome(
        columns=tuple(outcomes.Column(name=name, type="text") for name in DESCRIBE_COLUMNS),
        rows=rows,
        statement_type_id=outcomes.StatementType.DESCRIBE,
    )


def _result_column(column: outcomes.Column) -> descriptions.ColumnDescription:
    shown = sqltypes.SqlType(
        name=column.type,
        precision=rowtypes.precision_of(column),
        scale=rowtypes.scale_of(column),
        length=column.length,
    )
    return descriptions.ColumnDescription(
        name=column.name, type=shown, nullable=column.nullable, comment=""
    )


# The scope of a listing


def _databases_in(
    catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
) -> list[str]:
    match statement.scope_type:
        case "account":
            return catalog.databases()
        case "database" | "name" if statement.scope:
            try:
                return [catalog.visible_database(statement.scope[0])]
            except errors.SqlError:
                raise errors.show_in_missing_schema() from None
    if session.database is None:
        return catalog.databases()
    return [session.database]


def _tables_in(
    catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
) -> Iterator[information_schema.Listed]:
    for database, namespace in _schemas_in(catalog, session, statement):
        object_types = show_listings.LISTINGS[statement.listing].object_types
        for listed in information_schema.list_objects(catalog, database, namespace, object_types):
            if _may_match(listed.table.ident.name, statement):
                yield listed
        if statement.history:
            dropped = (
                each
                for each in catalog.dropped_tables(database, namespace)
                if _may_match(each[0].ident.name, statement)
            )
            for table, dropped_at_ms in itertools.islice(dropped, limits.SHOWN_ROWS_MAX):
                yield information_schema.Listed(
                    table=table,
                    may_describe=catalog.may_describe(table),
                    dropped_at_ms=dropped_at_ms,
                )


def _schemas_in(
    catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
) -> Iterator[tuple[str, idents.Namespace]]:
    scope = statement.scope
    is_schema = statement.scope_type == "schema" or statement.scope_type == "name"
    if is_schema and scope:
        place = _schema_in_scope(catalog, session, scope)
        yield place.database, place.namespace
        return
    bare = statement.scope_type in ("", "schema")
    if bare and session.database is not None and session.schema is not None:
        yield session.database, tuple(session.schema.split("."))
        return
    for database in _databases_in(catalog, session, statement):
        for namespace in catalog.schemas(database):
            yield database, namespace


def _schema_in_scope(
    catalog: places.CatalogView, session: sessions.Session, scope: names.Name
) -> places.Schema:
    try:
        return catalog.visible_schema(scope, database=session.database, exactly=False)
    except errors.SqlError as error:
        if error.code != "002003":
            raise
        raise errors.show_in_missing_schema() from None


def _described_names(
    catalog: places.CatalogView, session: sessions.Session, statement: operations.Describe
) -> list[tuple[Any, ...]]:
    if statement.object_type == "database":
        database = catalog.visible_database(statement.name[0])
        return [
            (None, names.shown(idents.dotted(namespace)), "SCHEMA")
            for namespace in catalog.schemas(database)
        ]
    place = catalog.visible_schema(statement.name, database=session.database, exactly=False)
    return [
        (None, names.shown(ident.name), shown)
        for object_type, shown in show_listings.OBJECT_TYPES.items()
        for ident in catalog.tables(place.database, place.namespace, object_type)
    ]


def _may_match(stored: str, statement: operations.Show) -> bool:
    """Return whether a table can be in the listing; other tables are not described."""
    if show_listings.LISTINGS[statement.listing].named_by != "name":
        return True
    return bool(listings.page([names.shown(stored)], str, statement, is_sorted=False))


CONTAINED = (
    outcomes.Column(name="created_on", type="timestamp_ltz", scale=3),
    outcomes.Column(name="name", type="text"),
    outcomes.Column(name="kind", type="text"),
)
"""The columns of DESCRIBE SCHEMA and DESCRIBE DATABASE."""
