"""engine: names of a statement -> databases, schemas and tables, with the caller's rights.

What does not exist and what the caller may not see look alike (002003). A table is loaded once per
reference; from then on the statement sees that one state of it. Views are named, not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog import commits, idents, namespaces, tables
from catalog import errors as catalog_errors
from catalog.rest import access as catalog_access
from server.access import errors as access_errors
from server.access import model as access_model
from sql import errors
from sql.dialect import names
from storage import buckets as storage_buckets

READ_ACTIONS = ("GetTable", "GetTableMetadataLocation", "GetTableData")
DESCRIBE_ACTIONS = ("GetTable", "GetTableMetadataLocation")
WRITE_ACTIONS = ("UpdateTableMetadataLocation", "GetTableData", "PutTableData")
DROP_ACTIONS = ("DeleteTable",)

INFORMATION_SCHEMA = "information_schema"


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """A schema that a name means. namespace is empty for INFORMATION_SCHEMA."""

    database: str
    name: str
    namespace: idents.Namespace


class Places:
    """Resolves names. Stateless beside the catalog it is given."""

    def __init__(
        self,
        *,
        buckets: storage_buckets.Buckets,
        namespaces: namespaces.Namespaces,
        tables: tables.Tables,
        access: catalog_access.Access,
    ) -> None:
        self._buckets = buckets
        self._namespaces = namespaces
        self._tables = tables
        self._access = access

    # Listings, filtered by what the caller may see

    def databases(self, principal: access_model.Principal) -> list[str]:
        """Return the table buckets that principal may see, in byte order."""
        return [
            info.name
            for info in self._buckets.list()
            if info.kind == "table"
            and self._permits(principal, self._access.on_bucket(info.name, "GetTableBucket"))
        ]

    def schemas(self, principal: access_model.Principal, database: str) -> list[idents.Namespace]:
        """Return all namespaces of a database, at any depth, that principal may see."""
        if not self._permits(principal, self._access.on_bucket(database, "ListNamespaces")):
            return []
        return [
            namespace
            for namespace in self._namespaces_of(database)
            if self._permits(
                principal, self._access.on_namespace(database, namespace, "GetNamespace")
            )
        ]

    def tables(
        self, principal: access_model.Principal, database: str, namespace: idents.Namespace
    ) -> list[idents.TableIdent]:
        """Return the tables of a namespace that principal may see, in byte order."""
        if not self._permits(
            principal, self._access.on_namespace(database, namespace, "ListTables")
        ):
            return []
        try:
            return self._tables.list(database, namespace)
        except catalog_errors.NoSuchNamespace:
            return []

    def created_at_ms(self, database: str, namespace: idents.Namespace = ()) -> int:
        """Return when a table bucket, or a namespace in it, was made."""
        if not namespace:
            return self._buckets.get(database).created_at_ms
        return self._namespaces.load(database, namespace).created_at_ms

    def comment(self, database: str, namespace: idents.Namespace) -> str:
        """Return a schema's comment, which is a property of its namespace."""
        return self._namespaces.load(database, namespace).properties.get("comment", "")

    def _permits(self, principal: access_model.Principal, demand: access_model.Demand) -> bool:
        return self._access.permits(principal, (demand,))

    # Names. Looking one up asks for nothing: what is then done with it does.

    def database(self, ident: names.Ident) -> str:
        """Return the table bucket that ident means; raises SqlError 002003."""
        known = [info.name for info in self._buckets.list() if info.kind == "table"]
        found = names.find(ident, known)
        if not found:
            raise errors.does_not_exist("Database", ident.folded)
        return known[found[0]]

    def schema(self, name: names.Name, *, database: str | None) -> Schema:
        """Return the schema that a name of one or two parts means; database: the session's."""
        if len(name) == 2:
            database = self.database(name[0])
        if database is None:
            raise errors.no_current_database()
        ident = name[-1]
        if names.find(ident, [INFORMATION_SCHEMA]):
            return Schema(database=database, name=INFORMATION_SCHEMA, namespace=())
        known = self._namespaces_of(database)
        found = names.find(ident, [idents.dotted(namespace) for namespace in known])
        if not found:
            raise _no_schema(database, ident)
        namespace = known[found[0]]
        return Schema(database=database, name=idents.dotted(namespace), namespace=namespace)

    def schema_of(self, name: names.Name, *, database: str | None, schema: str | None) -> Schema:
        """Return the schema in which a table's name lies; database and schema: the session's."""
        if len(name) > 1:
            return self.schema(name[:-1], database=database)
        if database is None:
            raise errors.no_current_database()
        if schema is None:
            raise errors.no_current_schema()
        if schema == INFORMATION_SCHEMA:
            return Schema(database=database, name=schema, namespace=())
        return Schema(database=database, name=schema, namespace=tuple(schema.split(".")))

    def find_table(self, place: Schema, ident: names.Ident) -> idents.TableIdent | None:
        """Return the table that ident means in a schema, or None."""
        try:
            known = self._tables.list(place.database, place.namespace)
        except (catalog_errors.NoSuchNamespace, catalog_errors.NoSuchWarehouse):
            return None
        found = names.find(ident, [table.name for table in known])
        return known[found[0]] if found else None

    def table(
        self,
        principal: access_model.Principal,
        name: names.Name,
        *,
        database: str | None,
        schema: str | None,
        actions: Sequence[str] = READ_ACTIONS,
    ) -> commits.LoadedTable:
        """Return a table, loaded, if principal may do actions with it.

        Raises SqlError 002003 for what is not there, or is hidden from those who may not list it,
        and 003001 where somebody may see a table and not do this.
        """
        place = self.schema_of(name, database=database, schema=schema)
        missing = errors.does_not_exist("Object", names.dotted(name))
        ident = self.find_table(place, name[-1])
        if ident is None:
            raise missing
        self.check_table(principal, ident, actions, missing=missing)
        try:
            return self._tables.load(ident)
        except catalog_errors.TableWithoutMetadata:
            raise errors.unsupported(
                f"table {names.dotted(name)}, which has no metadata yet"
            ) from None
        except (catalog_errors.NoSuchTable, catalog_errors.NoSuchNamespace):
            raise missing from None

    def visible_database(self, principal: access_model.Principal, ident: names.Ident) -> str:
        """Return the table bucket that ident means, if principal may see it."""
        found = self.database(ident)
        if found not in self.databases(principal):
            raise errors.does_not_exist("Database", ident.folded)
        return found

    def visible_schema(
        self, principal: access_model.Principal, name: names.Name, *, database: str | None
    ) -> Schema:
        """Return the schema that a name means, if principal may see it."""
        found = self.schema(name, database=database)
        if found.namespace and found.namespace not in self.schemas(principal, found.database):
            raise _no_schema(found.database, name[-1])
        return found

    def _namespaces_of(self, database: str) -> list[idents.Namespace]:
        found: list[idents.Namespace] = []
        waiting: list[idents.Namespace | None] = [None]
        while waiting:
            children = self._namespaces.list(database, waiting.pop())
            found += children
            waiting += children
        return sorted(found)

    # Rights

    def check(
        self, principal: access_model.Principal, demands: Sequence[access_model.Demand]
    ) -> None:
        """Raise SqlError 003001 unless principal may do all of it."""
        try:
            self._access.check(principal, demands)
        except access_errors.AccessDenied as denied:
            raise errors.not_authorized(str(denied)) from None

    def check_bucket(
        self, principal: access_model.Principal, table_bucket: str, action: str
    ) -> None:
        self.check(principal, (self._access.on_bucket(table_bucket, action),))

    def check_namespace(
        self,
        principal: access_model.Principal,
        table_bucket: str,
        namespace: idents.Namespace,
        action: str,
    ) -> None:
        self.check(principal, (self._access.on_namespace(table_bucket, namespace, action),))

    def check_table(
        self,
        principal: access_model.Principal,
        ident: idents.TableIdent,
        actions: Sequence[str],
        *,
        missing: errors.SqlError,
    ) -> None:
        """Raise SqlError 003001 unless principal may do actions; missing for whom it is hidden."""
        try:
            self.check(principal, self._access.on_table(ident, actions))
        except errors.SqlError:
            listing = self._access.on_namespace(ident.table_bucket, ident.namespace, "ListTables")
            if not self._permits(principal, listing):
                raise missing from None
            raise

    def check_new_table(self, principal: access_model.Principal, ident: idents.TableIdent) -> None:
        self.check(principal, self._access.on_new_table(ident))


def _no_schema(database: str, ident: names.Ident) -> errors.SqlError:
    return errors.does_not_exist("Schema", f"{names.shown(database)}.{ident.folded}")
