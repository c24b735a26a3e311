"""engine: Iceberg views as Snowflake's: their query, their columns, and where their names lie.

A view of SQL is an Iceberg view with a representation of the dialect `snowflake`. Its text is the
query as it was written. Unqualified names in it lie in the database and the schema that the session
had when the view was created: the version's default catalog and default namespace. The types that
Iceberg's types do not say are in the version's summary, because they belong to its schema.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import idents, records, views
from catalog.metadata import views as view_rules
from sql import errors, places, sessions, tabletypes
from sql.dialect import names, shapes

DIALECT: Final = "snowflake"
SECURE: Final = "boathouse.sql.secure"
"""View property: `true` for a view that was created as a SECURE one."""
COMMENT: Final = "comment"


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A view as its current version has it.

    text: its query in dialect. database, schema: of unqualified names; None if the view names none.
    comments: of its columns, in order. other_names: of a view of a mount, those that its text may
    have for the mount; None for a view of this server.
    """

    ident: idents.TableIdent
    pointer: records.Pointer
    text: str
    dialect: str
    database: str | None
    schema: str | None
    columns: tuple[shapes.ShapeColumn, ...]
    comments: tuple[str, ...]
    comment: str
    is_secure: bool
    is_temporary: bool = False
    other_names: frozenset[str] | None = None

    def here(self, name: names.Name) -> names.Name:
        """Return a name of its text as it is called here.

        A name with a database in a view of a mount is one of the other catalog. Raises SqlError for
        a database that is not the mounted one.
        """
        if self.other_names is None or len(name) < 3:
            return name
        database = name[-3].text.lower()
        if not self.other_names & {database, database.replace("_", "-")}:
            raise errors.unsupported(
                f"view {shown_name(self.ident)}, which reads the database '{name[-3].text}' of its "
                "own catalog"
            )
        mount = names.Ident(text=self.ident.table_bucket, quoted=True)
        return (*name[:-3], mount, *name[-2:])


class StoredViews:
    """Reads views. Stateless."""

    def __init__(self, *, views: views.Views) -> None:
        self._views = views

    async def load(self, view: places.NamedTable) -> View:
        """Return a view as it was when its pointer was read.

        Raises SqlError for a column of a type that Snowflake does not have, MetadataFileMissing,
        InvalidMetadata.
        """
        loaded = await self._views.fetch_at(view.ident, view.pointer)
        other_names = self._views.other_names(view.ident.table_bucket)
        if len(loaded.data) > views.SMALL_VIEW_BYTES:
            return await asyncio.to_thread(_view, loaded, other_names)
        return _view(loaded, other_names)


def _view(loaded: views.LoadedView, other_names: frozenset[str] | None) -> View:
    metadata = view_rules.decode(loaded.data)
    version, schema = metadata.current_version(), metadata.current_schema()
    representation = _representation(version["representations"])
    default = ".".join(version["default-namespace"])
    return View(
        ident=loaded.ident,
        pointer=loaded.pointer,
        text=representation.get("sql", ""),
        dialect=representation.get("dialect", "").lower(),
        database=_database_of(loaded, version, other_names),
        schema=default or None,
        columns=tabletypes.shape_columns(schema["fields"], version["summary"]),
        comments=tuple(str(field.get("doc", "")) for field in schema["fields"]),
        comment=metadata.properties.get(COMMENT, ""),
        is_secure=metadata.properties.get(SECURE) == "true",
        other_names=other_names,
    )


def _database_of(
    loaded: views.LoadedView, version: Mapping[str, Any], other_names: frozenset[str] | None
) -> str:
    """Return the database of unqualified names of a view's text. Raises SqlError for a view of a
    mount whose names lie in another database of the other catalog."""
    default = version.get("default-catalog")
    if other_names is None:
        return default or loaded.ident.table_bucket
    if default and default.lower() not in other_names:
        raise errors.unsupported(
            f"view {shown_name(loaded.ident)}, which reads the database '{default}' of its own "
            "catalog"
        )
    return loaded.ident.table_bucket


def _representation(representations: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the representation of our dialect, or else the first text of another one."""
    texts = [one for one in representations if one.get("type", "").lower() == "sql"]
    ours = [one for one in texts if one["dialect"].lower() == DIALECT]
    return next(iter((*ours, *texts)), {})


def find_temporary(
    session: sessions.Session, place: places.Schema, name: names.Ident
) -> View | None:
    """Return the temporary view of a session that a name in a schema refers to, or None."""
    for spelling in names.spellings(name):
        ident = idents.TableIdent(
            table_bucket=place.database, namespace=place.namespace, name=spelling
        )
        view: View | None = session.temporary_views.get(ident)
        if view is not None:
            return view
    return None


def query_of(view: View) -> str:
    """Return a view's query in our dialect. Raises SqlError for a view of other engines."""
    if view.dialect != DIALECT:
        raise errors.unsupported(
            f"view {shown_name(view.ident)}, whose query is of the dialect '{view.dialect}'"
        )
    return view.text


def shape(view: View, relation: str) -> shapes.TableShape:
    """Return a view as one reference of a text uses it."""
    ident = view.ident
    database = names.of_database(ident.table_bucket)
    path = (database, idents.dotted(ident.namespace), ident.name)
    return shapes.TableShape(relation=relation, path=path, columns=view.columns)


def shown_name(ident: idents.TableIdent) -> str:
    """Return the name of a table or view as messages have it: `LAKE.NS.V`."""
    database = names.of_database(ident.table_bucket)
    parts = (database, idents.dotted(ident.namespace), ident.name)
    return ".".join(names.shown(part) for part in parts)


def definition(view: View) -> str:
    """Return a statement that creates a view, without its end: GET_DDL adds a semicolon."""
    columns = [
        (names.quoted(column.name) if column.is_quoted else names.written(column.name))
        + (f" COMMENT {_literal(comment)}" if comment else "")
        for column, comment in zip(view.columns, view.comments, strict=True)
    ]
    head = f"create or replace {'secure ' if view.is_secure else ''}view"
    listed = ",\n\t".join(columns)
    comment = f" COMMENT={_literal(view.comment)}\n" if view.comment else ""
    return f"{head} {names.written(view.ident.name)}(\n\t{listed}\n){comment} as {view.text}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
