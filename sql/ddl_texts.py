"""engine: GET_DDL: the statements that create an object, or what a schema or database has, again.

The text has Snowflake's form. A query gives the object's type and name as literals, so that what a
statement needs is known, and read with the caller's rights, before the statement is bound.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from catalog import idents, rights
from sql import (
    descriptions,
    errors,
    fileformats,
    information_schema,
    keys,
    limits,
    listings,
    places,
    sessions,
)
from sql.dialect import clustering, names, parse, reading, sqltypes

CALLS_MAX: Final = 100
"""Calls of GET_DDL in one statement."""
OBJECTS_MAX: Final = 1_000
"""Tables, views and sequences whose statements one schema or database gives."""

CHARS_MAX: Final = 16_777_216
"""Characters of all texts of one statement: a VARCHAR has as many."""

TYPES: Final = ("table", "view", "sequence", "file_format", "schema", "database")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listed:
    """What a schema or database holds. sequences: in the order of their names.

    comments: of the schemas; comment: of the database.
    """

    schemas: tuple[tuple[str, idents.Namespace], ...]
    tables: tuple[places.NamedTable, ...]
    sequences: tuple[listings.ListedSequence, ...]
    formats: tuple[listings.ListedStaging, ...]
    comments: tuple[str, ...]
    comment: str = ""


class DdlTexts:
    """Writes the statements of objects. Stateless."""

    def __init__(
        self, *, places: places.Places, described: information_schema.InformationSchema
    ) -> None:
        self._places = places
        self._described = described

    async def of_calls(
        self, session: sessions.Session, text: str
    ) -> Mapping[tuple[str, str, bool], str]:
        """Return the texts that the calls of GET_DDL in a statement return; raises SqlError.

        By the calls' arguments: type, name, and whether names are fully qualified.
        """
        if len(text) > limits.TOKENS_HERE_MAX:
            calls = await asyncio.to_thread(_calls, text)
        else:
            calls = _calls(text)
        if len(calls) > CALLS_MAX:
            raise errors.too_complex(f"more than {CALLS_MAX} calls of GET_DDL")
        texts: dict[tuple[str, str, bool], str] = {}
        left = CHARS_MAX
        for key in calls:
            texts[key] = await self._text(session, *key, chars_max=left)
            left -= len(texts[key])
        return texts

    async def _text(
        self,
        session: sessions.Session,
        object_type: str,
        spelled: str,
        is_qualified: bool,
        *,
        chars_max: int,
    ) -> str:
        if object_type not in TYPES:
            raise errors.unsupported(f"GET_DDL of {object_type.upper()}")
        reader = reading.TokenReader(spelled, parse.tokenize(spelled))
        name = reader.name()
        reader.finish()
        match object_type:
            case "table" | "view":
                return await self._of_relation(session, object_type, name, is_qualified)
            case "sequence":
                return self._of_sequence(session, name, is_qualified)
            case "file_format":
                return self._of_format(session, name, is_qualified)
        listed = await asyncio.to_thread(self._list, session, object_type, name)
        parts = []
        if object_type == "database":
            database = listed.schemas[0][0] if listed.schemas else names.table_bucket_of(name[0])
            comment = _comment(listed.comment)
            parts.append(
                f"create or replace database {names.written(names.of_database(database))}{comment};"
            )
        for place, comment in zip(listed.schemas, listed.comments, strict=True):
            shown = names.written(idents.dotted(place[1]))
            qualified = (
                f"{names.written(names.of_database(place[0]))}.{shown}" if is_qualified else shown
            )
            parts.append(f"create or replace schema {qualified}{_comment(comment)};")
            parts += [
                _sequence(each, is_qualified=is_qualified)
                for each in listed.sequences
                if (each.database, each.namespace) == place
            ]
            relations: dict[str, tuple[str, frozenset[str]]] = {}
            for table in listed.tables:
                if (table.ident.table_bucket, table.ident.namespace) == place:
                    described = await self._described.describe_whole(table)
                    text = await _written_text(described, is_qualified=is_qualified)
                    chars_max -= len(text)
                    if chars_max < 0:
                        raise errors.too_complex(f"GET_DDL of more than {CHARS_MAX:,} characters")
                    relations[names.shown(table.ident.name)] = text, await _needed(described)
            order = _ordered({name: needed for name, (_, needed) in relations.items()})
            parts += [relations[name][0] for name in order]
            parts += [
                _file_format(each, is_qualified=is_qualified)
                for each in listed.formats
                if (each.row.table_bucket, tuple(each.row.namespace)) == place
            ]
        return "\n\n".join(parts)

    async def _of_relation(
        self, session: sessions.Session, object_type: str, name: names.Name, is_qualified: bool
    ) -> str:
        with self._places.view_of(session) as catalog:
            table = catalog.relation(
                name,
                database=session.database,
                schema=session.schema,
                exactly=False,
                actions=rights.LOAD_ACTIONS,
            )
        if object_type == "view" and table.pointer.object_type == "table":
            raise errors.of_other_type("TABLE", "VIEW")
        described = await self._described.describe_whole(table)
        return await _written_text(described, is_qualified=is_qualified)

    def _of_sequence(self, session: sessions.Session, name: names.Name, is_qualified: bool) -> str:
        missing = errors.does_not_exist("Sequence", names.dotted(name))
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema_of(
                name, database=session.database, schema=session.schema, exactly=False
            )
            place = [(schema.database, schema.namespace)]
            listed = {each.state.name: each for each in self._described.sequences(catalog, place)}
        stored = names.find_one(name[-1], list(listed))
        if stored is None or not listed[stored].may_describe:
            raise missing
        return _sequence(listed[stored], is_qualified=is_qualified)

    def _of_format(self, session: sessions.Session, name: names.Name, is_qualified: bool) -> str:
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema_of(
                name, database=session.database, schema=session.schema, exactly=False
            )
        place = [(schema.database, schema.namespace)]
        listed: dict[str, listings.ListedStaging] = {}
        for each in self._described.staging(
            "file formats", session, place, count_max=limits.STAGES_MAX * 2
        ):
            listed.setdefault(each.row.name, each)  # the session's own come first
        stored = names.find_one(name[-1], list(listed))
        if stored is None:
            raise errors.does_not_exist("File format", names.dotted(name))
        return _file_format(listed[stored], is_qualified=is_qualified)

    def _list(self, session: sessions.Session, object_type: str, name: names.Name) -> _Listed:
        with self._places.view(session.principal) as catalog:
            if object_type == "database":
                if len(name) != 1:
                    raise errors.invalid_identifier(names.dotted(name))
                database = catalog.visible_database(name[0])
                schemas = [(database, each) for each in catalog.schemas(database)]
            else:
                schema = catalog.visible_schema(name, database=session.database, exactly=False)
                if not schema.namespace:
                    raise errors.unsupported("GET_DDL of INFORMATION_SCHEMA")
                schemas = [(schema.database, schema.namespace)]
            tables: list[places.NamedTable] = []
            for place in schemas:
                for table in _readable(catalog, *place):
                    if len(tables) >= OBJECTS_MAX:
                        raise errors.too_complex(f"GET_DDL of more than {OBJECTS_MAX:,} objects")
                    tables.append(table)
            comments = tuple(catalog.comment(*place) for place in schemas)
            is_database = object_type == "database"
            comment = catalog.comment(database) if is_database else ""
            sequences = [
                each for each in self._described.sequences(catalog, schemas) if each.may_describe
            ]
        formats = self._described.staging("file formats", session, schemas, count_max=OBJECTS_MAX)
        return _Listed(
            schemas=tuple(schemas),
            tables=tuple(tables),
            sequences=tuple(sequences[:OBJECTS_MAX]),
            formats=tuple(each for each in formats if not each.row.session_id),
            comments=comments,
            comment=comment,
        )


def _calls(text: str) -> list[tuple[str, str, bool]]:
    """Return the arguments of the calls of GET_DDL in a statement, each once.

    A call in a comment or in a string is none.
    """
    reader = reading.TokenReader(text, parse.tokenize(text))
    calls: dict[tuple[str, str, bool], None] = {}
    while not reader.is_at_end:
        if not reader.accept("GET_DDL", "("):
            reader.skip_one()
            continue
        try:
            object_type = reader.string()
            reader.expect(",")
            name = reader.string()
            is_qualified = reader.accept(",", "TRUE")
        except errors.SqlError:
            continue  # its binding refuses arguments that are no literals
        calls[object_type.lower(), name, is_qualified] = None
    return list(calls)


def _readable(
    catalog: places.CatalogView, database: str, namespace: idents.Namespace
) -> Iterator[places.NamedTable]:
    """Yield the tables, then the views, that the caller may load."""
    for ident in catalog.tables(database, namespace):
        table = catalog.find(ident)
        if table is not None and catalog.may_describe(table):
            yield table
    for ident in catalog.tables(database, namespace, "view"):
        view = catalog.find(ident, "view")
        if view is not None and catalog.may_describe(view):
            yield view


async def _written_text(described: descriptions.Description, *, is_qualified: bool) -> str:
    if len(described.columns) > limits.COLUMNS_HERE_MAX:
        return await asyncio.to_thread(_relation, described, is_qualified=is_qualified)
    return _relation(described, is_qualified=is_qualified)


async def _needed(described: descriptions.Description) -> frozenset[str]:
    """Return the names, as reported, that a table's keys and a view's query may need in its schema.

    A view's are all names that stand where a table's may, so that some are those of columns.
    """
    if described.view is None:
        own = described.ident
        place = (names.shown_database(own.table_bucket), names.shown(idents.dotted(own.namespace)))
        references = [key.referenced for key in described.keys if key.type == "foreign"]
        return frozenset(each[-1] for each in references if each[:-1] == place)
    text = described.view.text
    if len(text) > limits.TOKENS_HERE_MAX:
        return await asyncio.to_thread(_names_in, text)
    return _names_in(text)


def _names_in(text: str) -> frozenset[str]:
    spelled = NAME_OF_RELATION.findall(text)
    return frozenset(
        name[1:-1].replace('""', '"') if name.startswith('"') else name.upper() for name in spelled
    )


NAME_OF_RELATION: Final = re.compile(
    r"""(?:\b(?:FROM|JOIN)\s+|[,.(]\s*)("(?:[^"]|"")+"|[A-Z_][A-Z0-9_$]*)""", re.IGNORECASE
)


def _ordered(needed: Mapping[str, frozenset[str]]) -> list[str]:
    """Return names in their order, but each after those that it needs; a ring begins anywhere."""
    ordered: dict[str, None] = {}
    entered: set[str] = set()
    for name in needed:
        waiting = [name]
        while waiting:
            if waiting[-1] in entered:
                ordered[waiting.pop()] = None
                continue
            entered.add(waiting[-1])
            before = sorted(needed[waiting[-1]] & needed.keys() - entered, reverse=True)
            waiting += before
    return list(ordered)


def _relation(described: descriptions.Description, *, is_qualified: bool) -> str:
    name = _name(described.ident, is_qualified=is_qualified)
    if described.view is not None:
        definition = described.definition.rstrip().rstrip(";")
        return f"{definition};"
    lines = [_column(column) for column in described.columns]
    lines += [_key(key) for key in described.keys]
    listed = ", ".join(
        clustering.written(transform, _written(name)) for transform, name in described.cluster_keys
    )
    clause = f" cluster by ({listed})" if listed else ""
    comment = _comment(described.comment)
    if described.retention_days is not None:
        clause += f" data_retention_time_in_days={described.retention_days}"
    if described.stage_format is not None:
        clause += f" STAGE_FILE_FORMAT = ({' '.join(_format_options(described.stage_format))})"
    body = ",\n\t".join(lines)
    created = "TEMPORARY TABLE" if described.is_temporary else "TABLE"
    created = "TRANSIENT TABLE" if described.is_transient else created
    return f"create or replace {created} {name} (\n\t{body}\n){clause}{comment};"


def _column(column: descriptions.ColumnDescription) -> str:
    parts = [_written(column.name), sqltypes.as_declared(column.type)]
    if not column.nullable:
        parts.append("NOT NULL")
    if column.identity is not None:
        start, increment = column.identity
        parts.append(f"autoincrement start {start} increment {increment} order")
    elif column.default:
        parts.append(f"DEFAULT {column.default}")
    if column.comment:
        parts.append(f"COMMENT {_quoted(column.comment)}")
    return " ".join(parts)


def _key(key: keys.KeyDescription) -> str:
    columns = ", ".join(map(_written, key.columns))
    name = "" if key.name.startswith("SYS_CONSTRAINT_") else f"constraint {_written(key.name)} "
    rely = " rely" if key.is_reliable else ""
    if key.type != "foreign":
        return f"{name}{'primary key' if key.type == 'primary' else 'unique'} ({columns}){rely}"
    referenced = ".".join(map(_written, key.referenced))
    others = ", ".join(map(_written, key.referenced_columns))
    actions = "".join(
        f" on {event} {action.lower()}"
        for event, action in (("update", key.on_update), ("delete", key.on_delete))
        if action.upper() != "NO ACTION"
    )
    return f"{name}foreign key ({columns}) references {referenced}({others}){actions}{rely}"


def _sequence(each: listings.ListedSequence, *, is_qualified: bool) -> str:
    ident = idents.TableIdent(
        table_bucket=each.database, namespace=each.namespace, name=each.state.name
    )
    state = each.state
    comment = _comment(state.comment)
    return (
        f"create or replace sequence {_name(ident, is_qualified=is_qualified)}"
        f" start with {state.next} increment by {state.increment} order{comment};"
    )


def _file_format(each: listings.ListedStaging, *, is_qualified: bool) -> str:
    row = each.row
    ident = idents.TableIdent(
        table_bucket=row.table_bucket, namespace=tuple(row.namespace), name=row.name
    )
    assert each.file_format is not None, "a file format has a type"
    lines = _format_options(each.file_format)
    lines += [f"COMMENT = {_quoted(row.comment)}"] if row.comment else []
    created = "TEMPORARY FILE FORMAT" if row.session_id else "FILE FORMAT"
    body = "\n\t".join(lines)
    return f"create or replace {created} {_name(ident, is_qualified=is_qualified)}\n\t{body}\n;"


def _format_options(file_format: fileformats.FileFormat) -> list[str]:
    listed = [f"{name} = {_option(value)}" for name, value in file_format.options.items()]
    return [f"TYPE = {file_format.type}", *listed]


def _option(value: fileformats.Value) -> str:
    """Return an option's value as CREATE FILE FORMAT reads it."""
    match value:
        case None:
            return "NONE"
        case bool():
            return "TRUE" if value else "FALSE"
        case tuple():
            return f"({', '.join(map(_quoted, value))})"
        case str():
            return _quoted(value)
    return str(value)


def _comment(text: str) -> str:
    return f" COMMENT={_quoted(text)}" if text else ""


def _name(ident: idents.TableIdent, *, is_qualified: bool) -> str:
    database = names.of_database(ident.table_bucket)
    parts = (database, idents.dotted(ident.namespace), ident.name)
    return ".".join(_written(names.shown(part)) for part in (parts if is_qualified else parts[2:]))


def _written(shown: str) -> str:
    """Return a name as reported as it is written in Snowflake SQL."""
    return shown if parse.is_plain_name(shown) else names.quoted(shown)


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "''")
    return "'" + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"
