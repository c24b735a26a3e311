"""engine: SHOW and DESCRIBE: listings of what the caller may see.

Each listing of SHOW is one row of LISTINGS. Column names are lower case and in Snowflake's order,
because drivers read some by position. Listings of objects that Boathouse does not have are empty,
with Snowflake's columns. `sql.information_schema` describes the tables of a listing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from catalog import idents, rights, sequences
from sql import (
    errors,
    information_schema,
    keys,
    limits,
    outcomes,
    places,
    sessions,
    stagerows,
    stages,
    stored_views,
)
from sql import parameters as session_parameters
from sql.dialect import functions, names, operations, sqltypes

Row = tuple[Any, ...]

MOMENTS = frozenset({"created_on"})
NUMBERS = frozenset(
    {
        "next_value",
        "interval",
        "rows",
        "bytes",
        "key_sequence",
        "min_num_arguments",
        "max_num_arguments",
    }
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OBJECTS = _words(
    """
    created_on name database_name schema_name kind comment cluster_by rows bytes owner
    retention_time owner_role_type is_hybrid is_dynamic is_iceberg
    """
)
KEYS = _words(
    """
    created_on database_name schema_name table_name column_name key_sequence constraint_name rely
    comment
    """
)
FOREIGN_KEYS = _words(
    """
    created_on pk_database_name pk_schema_name pk_table_name pk_column_name fk_database_name
    fk_schema_name fk_table_name fk_column_name key_sequence update_rule delete_rule fk_name pk_name
    deferrability rely comment
    """
)
ROUTINES = _words(
    """
    created_on name schema_name is_builtin is_aggregate is_ansi min_num_arguments max_num_arguments
    arguments description catalog_name is_table_function valid_for_clustering is_secure secrets
    external_access_integrations is_external_function language is_memoizable is_data_metric
    """
)

TERSE = _words("created_on name kind database_name schema_name")

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
        sequences: sequences.Sequences,
        default_database: str | None,
        stages: stages.Stages,
    ) -> None:
        self._places = places
        self._described = described
        self._sequences = sequences
        self._default_database = default_database
        self._stages = stages

    async def show(self, session: sessions.Session, statement: operations.Show) -> outcomes.Outcome:
        """Return the listing; raises SqlError 002043 if its scope does not exist."""
        listing = LISTINGS.get(statement.listing)
        if listing is None:
            raise errors.unsupported(f"SHOW {statement.listing}")
        if statement.history:
            raise errors.unsupported(f"SHOW {statement.listing} HISTORY")
        if (
            listing.is_of_one_table
            and listing.of_table is not None
            and statement.scope_type in ("table", "name")
        ):
            rows = await self._rows_of_one(listing.of_table, session, statement)
        elif listing.of_table is not None:
            rows = await self._rows_of_tables(listing, listing.of_table, session, statement)
        else:
            rows = await asyncio.to_thread(self._rows, listing, session, statement)
        columns = TERSE if statement.terse and listing.has_terse else listing.columns
        page = functools.partial(_page, rows, listing, statement)
        rows = await asyncio.to_thread(page) if len(rows) > limits.ROWS_HERE_MAX else page()
        return outcomes.Outcome(
            columns=tuple(_column(name) for name in columns),
            rows=rows,
            statement_type_id=outcomes.StatementType.SHOW,
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
            return _described(information_schema.view_columns(temporary), (), ())
        table = self._find(session, statement.name, object_type=statement.object_type.title())
        if statement.object_type == "view" and table.pointer.object_type == "table":
            raise errors.described_does_not_exist("View", names.dotted(statement.name))
        described = await self._described.describe_whole(table)
        primary = {name for key in described.keys if key.type == "primary" for name in key.columns}
        unique = {name for key in described.keys if key.type == "unique" for name in key.columns}
        return _described(described.columns, primary, unique)

    def _describe_sequence(self, session: sessions.Session, name: names.Name) -> outcomes.Outcome:
        """Return the row of a sequence, as SHOW SEQUENCES has it."""
        missing = errors.described_does_not_exist("Sequence", names.dotted(name))
        with self._places.view(session.principal) as catalog:
            try:
                place = catalog.schema_of(name, database=session.database, schema=session.schema)
            except errors.SqlError as error:
                raise (missing if error.code == "002003" else error) from None
            if not catalog.lists_sequences(place.database, place.namespace):
                raise missing
            listed = self._sequences.list(place.database, place.namespace)
            stored = names.find_one(name[-1], [each.name for each in listed])
            if stored is None:
                raise missing
            rows = [
                _sequence_row(catalog, place.database, place.namespace, each)
                for each in listed
                if each.name == stored
            ]
        columns = LISTINGS["SEQUENCES"].columns
        return outcomes.Outcome(
            columns=tuple(_column(column) for column in columns),
            rows=rows,
            statement_type_id=outcomes.StatementType.DESCRIBE,
        )

    def _find_temporary(
        self, session: sessions.Session, name: names.Name
    ) -> stored_views.View | None:
        if not session.temporary_views:
            return None
        try:
            with self._places.view(session.principal) as catalog:
                place = catalog.schema_of(name, database=session.database, schema=session.schema)
        except errors.SqlError:
            return None
        return stored_views.find_temporary(session, place, name[-1])

    def _find(
        self, session: sessions.Session, name: names.Name, *, object_type: str
    ) -> places.FoundTable:
        """Return a table or view. Raises SqlError 002003 with SQLSTATE 02000."""
        try:
            with self._places.view(session.principal) as catalog:
                return catalog.relation(
                    name,
                    database=session.database,
                    schema=session.schema,
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
        with self._places.view(session.principal) as catalog:
            return list(_tables_in(catalog, session, statement))

    def _rows(
        self, listing: Listing, session: sessions.Session, statement: operations.Show
    ) -> list[Row]:
        if listing.rows is None:
            return []
        with self._places.view(session.principal) as catalog:
            return list(listing.rows(self, catalog, session, statement))

    def _describe_container(
        self, session: sessions.Session, statement: operations.Describe
    ) -> outcomes.Outcome:
        try:
            with self._places.view(session.principal) as catalog:
                listed = _described_names(catalog, session, statement)
        except errors.SqlError as error:
            if error.code == "002003":
                shown = names.dotted(statement.name)
                raise errors.described_does_not_exist(
                    statement.object_type.title(), shown
                ) from None
            raise
        return outcomes.Outcome(
            columns=tuple(_column(name) for name in ("created_on", "name", "kind")),
            rows=listed,
            statement_type_id=outcomes.StatementType.DESCRIBE,
        )

    async def _rows_of_one(
        self,
        of_table: Callable[[information_schema.Description], Iterator[Row]],
        session: sessions.Session,
        statement: operations.Show,
    ) -> list[Row]:
        table = self._find(session, statement.scope, object_type="Table")
        described = await self._described.describe_whole(table)
        return await asyncio.to_thread(lambda: list(of_table(described)))

    async def _rows_of_tables(
        self,
        listing: Listing,
        of_table: Callable[[information_schema.Description], Iterator[Row]],
        session: sessions.Session,
        statement: operations.Show,
    ) -> list[Row]:
        """Return the rows that tables have in a listing, at least as many as are shown."""
        if listing.is_of_referencing:
            return await self._exported_keys(of_table, session, statement)
        listed = await asyncio.to_thread(self._tables_of, session, statement)
        if listing.is_sorted:
            described = await self._described.describe_all(listed, with_columns=False)
            return await asyncio.to_thread(
                lambda: [row for table in described for row in of_table(table)]
            )
        rows: list[Row] = []
        for each in listed:
            table = await self._described.describe(each, with_columns=True)
            few = len(table.columns) <= limits.COLUMNS_HERE_MAX
            page = functools.partial(_of_one_table, of_table, table, listing, statement)
            rows += page() if few else await asyncio.to_thread(page)
            if len(rows) >= limits.SHOWN_ROWS_MAX:
                break
            await asyncio.sleep(0)
        return rows

    async def _exported_keys(
        self,
        of_table: Callable[[information_schema.Description], Iterator[Row]],
        session: sessions.Session,
        statement: operations.Show,
    ) -> list[Row]:
        """Return the keys, of any table of the database, that reference a table in scope."""
        wanted: set[tuple[str, ...]]
        if statement.scope_type == "table" and statement.scope:
            idents_in_scope = [self._find(session, statement.scope, object_type="Table").ident]
        else:
            listed = await asyncio.to_thread(self._tables_of, session, statement)
            idents_in_scope = [each.table.ident for each in listed]
        wanted = {
            (
                names.shown(i.table_bucket),
                names.shown(idents.dotted(i.namespace)),
                names.shown(i.name),
            )
            for i in idents_in_scope
        }
        rows: list[Row] = []
        for database in {i.table_bucket for i in idents_in_scope}:
            everywhere = dataclasses.replace(
                statement,
                scope_type="database",
                scope=(names.Ident(text=database, quoted=True),),
            )
            for each in await asyncio.to_thread(self._tables_of, session, everywhere):
                table = await self._described.describe(each, with_columns=False)
                rows += [row for row in of_table(table) if row[1:4] in wanted]
                if len(rows) >= limits.SHOWN_ROWS_MAX:
                    return rows
                await asyncio.sleep(0)
        return rows

    # The rows of each listing

    def databases(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        for name in catalog.databases():
            yield (
                information_schema.moment(catalog.created_at_ms(name)),
                names.shown(name),
                "Y" if name == self._default_database else "N",
                "Y" if name == session.database else "N",
                "",
                "",
                "",
                "",
                "1",
                "STANDARD",
                "",
                "",
                "",
            )

    def schemas(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        for database in _databases_in(catalog, session, statement):
            listed: list[idents.Namespace] = [
                *catalog.schemas(database),
                (places.INFORMATION_SCHEMA,),
            ]
            for namespace in listed:
                name = idents.dotted(namespace)
                is_own = name == places.INFORMATION_SCHEMA
                stored = () if is_own else namespace
                current = database == session.database and name == session.schema
                yield (
                    information_schema.moment(catalog.created_at_ms(database, stored)),
                    names.shown(name),
                    "N",
                    "Y" if current else "N",
                    names.shown(database),
                    "",
                    "" if is_own else catalog.comment(database, namespace),
                    "",
                    "1",
                    "",
                )

    def stages(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        yield from self._staging("stage", catalog, session, statement)

    def file_formats(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        yield from self._staging("file format", catalog, session, statement)

    def _staging(
        self,
        object_type: stagerows.ObjectType,
        catalog: places.CatalogView,
        session: sessions.Session,
        statement: operations.Show,
    ) -> Iterator[Row]:
        schemas = list(_schemas_in(catalog, session, statement))
        return iter(self._stages.listed(object_type, session, schemas))

    def sequences(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        for database, namespace in _schemas_in(catalog, session, statement):
            if not catalog.lists_sequences(database, namespace):
                continue
            for sequence in self._sequences.list(database, namespace):
                yield _sequence_row(catalog, database, namespace, sequence)

    def parameters(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        for name in sorted(session_parameters.PARAMETERS):
            parameter = session_parameters.PARAMETERS[name]
            is_set = name in session.parameters
            type_name = {"flag": "BOOLEAN", "number": "NUMBER"}.get(parameter.value_type, "STRING")
            yield (
                name,
                _text_of(session.parameter(name)),
                _text_of(parameter.default),
                "SESSION" if is_set else "",
                parameter.description,
                type_name,
            )

    def variables(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        for name in sorted(session.variables):
            variable = session.variables[name]
            yield (str(session.id), None, None, name, variable.text, variable.type, "")

    def warehouses(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        current = session.warehouse
        yield (current, "STARTED", "STANDARD", "X-Small", "0", "0", "Y", "Y", "DataFusion")

    def functions(
        self, catalog: places.CatalogView, session: sessions.Session, statement: operations.Show
    ) -> Iterator[Row]:
        """Return a row for each function; functions belong to no database and no schema."""
        if statement.scope_type not in ("", "account"):
            return
        for name, function in functions.FUNCTIONS.items():
            yield (
                None,
                name,
                "",
                "Y",
                "Y" if function.function_type == "aggregate" else "N",
                None,
                function.low,
                function.high,
                functions.signature(name),
                "",
                "",
                "N",
                "N",
                "N",
                None,
                None,
                "N",
                "",
                "N",
                "N",
            )


def _described(
    columns: Sequence[information_schema.ColumnDescription],
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
        columns=tuple(_column(name) for name in DESCRIBE_COLUMNS),
        rows=rows,
        statement_type_id=outcomes.StatementType.DESCRIBE,
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
        object_types = LISTINGS[statement.listing].object_types
        for listed in information_schema.list_objects(catalog, database, namespace, object_types):
            if _may_match(listed.table.ident.name, statement):
                yield listed


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
        return catalog.visible_schema(scope, database=session.database)
    except errors.SqlError as error:
        if error.code != "002003":
            raise
        raise errors.show_in_missing_schema() from None


def _described_names(
    catalog: places.CatalogView, session: sessions.Session, statement: operations.Describe
) -> list[Row]:
    if statement.object_type == "database":
        database = catalog.visible_database(statement.name[0])
        return [
            (None, names.shown(idents.dotted(namespace)), "SCHEMA")
            for namespace in catalog.schemas(database)
        ]
    place = catalog.visible_schema(statement.name, database=session.database)
    return [
        (None, names.shown(ident.name), shown)
        for object_type, shown in OBJECT_TYPES.items()
        for ident in catalog.tables(place.database, place.namespace, object_type)
    ]


OBJECT_TYPES: Mapping[Literal["table", "view"], str] = {"table": "TABLE", "view": "VIEW"}


def _objects(table: information_schema.Description) -> Iterator[Row]:
    yield (*_object_row(table), "", "N", "N", _is_iceberg(table))


def _is_iceberg(table: information_schema.Description) -> str:
    return "Y" if table.object_type == "table" and table.is_declared else "N"


def _views(each: information_schema.Description) -> Iterator[Row]:
    yield (
        information_schema.moment(each.created_at_ms),
        names.shown(each.ident.name),
        "",
        names.shown(each.ident.table_bucket),
        names.shown(idents.dotted(each.ident.namespace)),
        each.owner,
        each.comment,
        "" if each.view is None else stored_views.definition(each.view),
        "true" if each.view is not None and each.view.is_secure else "false",
        "false",
        "",
        "OFF",
    )


def _tables(table: information_schema.Description) -> Iterator[Row]:
    yield (
        *_object_row(table),
        "OFF",
        "OFF",
        "OFF",
        None,
        None,
        "N",
        "N",
        "",
        "N",
        None,
        "N",
        _is_iceberg(table),
        "N",
        "N",
    )


def _primary_keys(table: information_schema.Description) -> Iterator[Row]:
    yield from _key_rows(table, "primary")


def _unique_keys(table: information_schema.Description) -> Iterator[Row]:
    yield from _key_rows(table, "unique")


def _key_rows(table: information_schema.Description, key_type: keys.KeyType) -> Iterator[Row]:
    for key in table.keys:
        if key.type != key_type:
            continue
        for number, column in enumerate(key.columns, start=1):
            yield (
                information_schema.moment(table.created_at_ms),
                names.shown(table.ident.table_bucket),
                names.shown(idents.dotted(table.ident.namespace)),
                names.shown(table.ident.name),
                column,
                number,
                key.name,
                "true" if key.is_reliable else "false",
                None,
            )


def _imported_keys(table: information_schema.Description) -> Iterator[Row]:
    for key in table.keys:
        if key.type != "foreign":
            continue
        pairs = zip(key.columns, key.referenced_columns, strict=False)
        for number, (column, referenced) in enumerate(pairs, start=1):
            yield (
                information_schema.moment(table.created_at_ms),
                *key.referenced,
                referenced,
                names.shown(table.ident.table_bucket),
                names.shown(idents.dotted(table.ident.namespace)),
                names.shown(table.ident.name),
                column,
                number,
                key.on_update,
                key.on_delete,
                key.name,
                None,
                "NOT DEFERRABLE",
                "true" if key.is_reliable else "false",
                None,
            )


def _columns(table: information_schema.Description) -> Iterator[Row]:
    yield from _column_rows(table.ident, table.columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """One listing of SHOW.

    columns: in Snowflake's order. rows: returns its rows in a session; None if Boathouse has no
    such objects, so that the listing is empty. of_table: returns the rows of one table or view, for
    listings over those of object_types. named_by: the column that LIKE, STARTS WITH and LIMIT FROM
    compare. is_sorted: by that column, else in the order of rows. has_terse: SHOW TERSE returns the
    five columns of TERSE. is_of_one_table: IN names the table whose columns or keys are listed.
    is_of_referencing: the keys of other tables that reference the tables in scope.
    """

    columns: Sequence[str]
    rows: (
        Callable[[Shows, places.CatalogView, sessions.Session, operations.Show], Iterator[Row]]
        | None
    )
    of_table: Callable[[information_schema.Description], Iterator[Row]] | None = None
    object_types: Sequence[Literal["table", "view"]] = ("table", "view")
    named_by: str = "name"
    is_sorted: bool = True
    has_terse: bool = False
    is_of_one_table: bool = False
    is_of_referencing: bool = False


_LISTING_OF_TABLES = Listing(
    columns=OBJECTS[:11]
    + _words(
        """
        automatic_clustering change_tracking search_optimization search_optimization_progress
        search_optimization_bytes is_external enable_schema_evolution owner_role_type is_event
        budget is_hybrid is_iceberg is_dynamic is_immutable
        """
    ),
    rows=None,
    of_table=_tables,
    object_types=("table",),
    has_terse=True,
)

LISTINGS: Mapping[str, Listing] = {
    "DATABASES": Listing(
        columns=_words(
            """
            created_on name is_default is_current origin owner comment options retention_time kind
            budget owner_role_type object_visibility
            """
        ),
        rows=Shows.databases,
        has_terse=True,
    ),
    "SCHEMAS": Listing(
        columns=_words(
            """
            created_on name is_default is_current database_name owner comment options
            retention_time owner_role_type
            """
        ),
        rows=Shows.schemas,
        has_terse=True,
    ),
    "OBJECTS": Listing(columns=OBJECTS, rows=None, of_table=_objects, has_terse=True),
    "TABLES": _LISTING_OF_TABLES,
    "ICEBERG TABLES": _LISTING_OF_TABLES,
    "VIEWS": Listing(
        columns=_words(
            """
            created_on name reserved database_name schema_name owner comment text is_secure
            is_materialized owner_role_type change_tracking
            """
        ),
        rows=None,
        of_table=_views,
        object_types=("view",),
        has_terse=True,
    ),
    "COLUMNS": Listing(
        columns=_words(
            """
            table_name schema_name column_name data_type null? default kind expression comment
            database_name autoincrement schema_evolution_record
            """
        ),
        rows=None,
        of_table=_columns,
        named_by="column_name",
        is_sorted=False,
        is_of_one_table=True,
    ),
    "PARAMETERS": Listing(
        columns=_words("key value default level description type"),
        rows=Shows.parameters,
        named_by="key",
    ),
    "VARIABLES": Listing(
        columns=_words("session_id created_on updated_on name value type comment"),
        rows=Shows.variables,
    ),
    "WAREHOUSES": Listing(
        columns=_words("name state type size running queued is_default is_current comment"),
        rows=Shows.warehouses,
    ),
    "PRIMARY KEYS": Listing(
        columns=KEYS,
        rows=None,
        of_table=_primary_keys,
        named_by="table_name",
        is_sorted=False,
        is_of_one_table=True,
    ),
    "UNIQUE KEYS": Listing(
        columns=KEYS,
        rows=None,
        of_table=_unique_keys,
        named_by="table_name",
        is_sorted=False,
        is_of_one_table=True,
    ),
    "IMPORTED KEYS": Listing(
        columns=FOREIGN_KEYS,
        rows=None,
        of_table=_imported_keys,
        named_by="fk_table_name",
        is_sorted=False,
        is_of_one_table=True,
    ),
    "EXPORTED KEYS": Listing(
        columns=FOREIGN_KEYS,
        rows=None,
        of_table=_imported_keys,
        named_by="fk_table_name",
        is_sorted=False,
        is_of_referencing=True,
    ),
    "FUNCTIONS": Listing(columns=ROUTINES, rows=Shows.functions),
    "BUILTIN FUNCTIONS": Listing(columns=ROUTINES, rows=Shows.functions),
    "USER FUNCTIONS": Listing(columns=ROUTINES, rows=None),
    "PROCEDURES": Listing(columns=ROUTINES, rows=None),
    "USER PROCEDURES": Listing(columns=ROUTINES, rows=None),
    "STAGES": Listing(columns=stages.STAGE_COLUMNS, rows=Shows.stages),
    "FILE FORMATS": Listing(columns=stages.FORMAT_COLUMNS, rows=Shows.file_formats),
    "SEQUENCES": Listing(
        columns=_words(
            """
            name database_name schema_name next_value interval created_on owner comment
            owner_role_type ordered
            """
        ),
        rows=Shows.sequences,
    ),
    "INDEXES": Listing(columns=_words("name table is_unique columns included_columns"), rows=None),
}
"""The listings of SHOW, by their names."""


def _sequence_row(
    catalog: places.CatalogView,
    database: str,
    namespace: idents.Namespace,
    sequence: sequences.SequenceState,
) -> Row:
    """Return the row of a sequence; its numbers and comment only for a caller who may read it."""
    ident = idents.TableIdent(table_bucket=database, namespace=namespace, name=sequence.name)
    may_describe = catalog.may_describe_sequence(ident)
    return (
        names.shown(sequence.name),
        names.shown(database),
        names.shown(idents.dotted(namespace)),
        sequence.next if may_describe else None,
        sequence.increment if may_describe else None,
        information_schema.moment(sequence.created_at_ms),
        sequence.created_by.rpartition("/")[2].rpartition(":")[2],
        sequence.comment if may_describe else "",
        "ROLE",
        "Y",
    )


def _may_match(stored: str, statement: operations.Show) -> bool:
    """Return whether a table can be in the listing; other tables are not described."""
    if LISTINGS[statement.listing].named_by != "name":
        return True
    shown = names.shown(stored)
    if statement.like is not None and not names.like_pattern(statement.like).fullmatch(shown):
        return False
    return statement.starts_with is None or shown.startswith(statement.starts_with)


def _page(rows: list[Row], listing: Listing, statement: operations.Show) -> list[Row]:
    """Return the rows that the statement's filters and LIMIT leave; five columns for TERSE."""
    shown = _paged(rows, listing, statement)
    if statement.terse and listing.has_terse:
        return _terse(shown, listing.columns, statement.listing)
    return shown


def _of_one_table(
    of_table: Callable[[information_schema.Description], Iterator[Row]],
    table: information_schema.Description,
    listing: Listing,
    statement: operations.Show,
) -> list[Row]:
    """Return the rows of one table that pass the statement's filters."""
    return _paged(list(of_table(table)), listing, statement)


def _paged(rows: list[Row], listing: Listing, statement: operations.Show) -> list[Row]:
    named_by = listing.columns.index(listing.named_by) if rows else 0
    page = sorted(rows, key=lambda row: str(row[named_by])) if listing.is_sorted else rows
    if statement.like is not None:
        pattern = names.like_pattern(statement.like)
        page = [row for row in page if pattern.fullmatch(str(row[named_by]))]
    if statement.starts_with is not None:
        page = [row for row in page if str(row[named_by]).startswith(statement.starts_with)]
    if statement.limit_from is not None:
        page = [row for row in page if str(row[named_by]) > statement.limit_from]
    shown_max = limits.SHOWN_ROWS_MAX
    return page[: shown_max if statement.limit is None else min(statement.limit, shown_max)]


def _terse(rows: list[Row], columns: Sequence[str], object_type: str) -> list[Row]:
    terse = []
    for row in rows:
        named = dict(zip(columns, row, strict=True))
        schema = named["name"] if object_type == "SCHEMAS" else named.get("schema_name", "")
        terse.append(
            (
                named["created_on"],
                named["name"],
                "VIEW" if object_type == "VIEWS" else named.get("kind", ""),
                named.get("database_name", ""),
                schema if object_type != "DATABASES" else "",
            )
        )
    return terse


def _object_row(description: information_schema.Description) -> Row:
    return (
        information_schema.moment(description.created_at_ms),
        names.shown(description.ident.name),
        names.shown(description.ident.table_bucket),
        names.shown(idents.dotted(description.ident.namespace)),
        OBJECT_TYPES["view" if description.object_type == "view" else "table"],
        description.comment,
        description.cluster_by,
        description.rows,
        description.size_bytes,
        description.owner,
        "1",
    )


def _column_rows(
    ident: idents.TableIdent, columns: Sequence[information_schema.ColumnDescription]
) -> Iterator[Row]:
    for column in columns:
        yield (
            names.shown(ident.name),
            names.shown(idents.dotted(ident.namespace)),
            column.name,
            _data_type(column),
            "true" if column.nullable else "NOT_NULL",
            column.default,
            "COLUMN",
            "",
            column.comment,
            names.shown(ident.table_bucket),
            column.autoincrement,
            "",
        )


def _data_type(column: information_schema.ColumnDescription) -> str:
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
    return json.dumps({**type_fields, "nullable": column.nullable}, separators=(",", ":"))


def _column(name: str) -> outcomes.Column:
    if name in MOMENTS or name == "updated_on":
        return outcomes.Column(name=name, type="timestamp_ltz", scale=3)
    if name in NUMBERS:
        return outcomes.Column(name=name, type="fixed", precision=38, scale=0)
    return outcomes.Column(name=name, type="text")


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
