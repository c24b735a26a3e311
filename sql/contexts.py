"""engine: the database and schema in which a session starts.

A login may name a database or schema that does not exist, or is hidden from the caller: the session
is the same in both cases. A database that the caller may not see becomes none, unless the caller
may see the named schema in it. A schema that the caller may not see stays current under its name,
whether it exists or not. A login without a database gets the server's default, and one without a
schema gets the schema `public`, if the caller may see it.
"""

from __future__ import annotations

import dataclasses

from catalog import access, namespaces
from server.access import model
from sql.dialect import names
from storage import buckets

DEFAULT_SCHEMA = "public"


class Contexts:
    """Resolves the names of logins. default_database: a table bucket, or None."""

    def __init__(
        self,
        *,
        buckets: buckets.Buckets,
        namespaces: namespaces.Namespaces,
        access: access.Access,
        default_database: str | None,
    ) -> None:
        self._buckets = buckets
        self._namespaces = namespaces
        self._access = access
        self._default_database = default_database

    def resolve(
        self, principal: model.Principal, database: str, schema: str
    ) -> tuple[str | None, str | None]:
        """Return the stored names of a database and a schema; None for missing ones."""
        wanted = database or self._default_database
        if not wanted:
            return None, None
        stored = [info.name for info in self._buckets.list() if info.type == "table"]
        table_bucket = names.find_database(names.parse(wanted), stored)
        if table_bucket is None:
            return None, None
        namespace = self._schema(table_bucket, schema or DEFAULT_SCHEMA)
        if namespace is not None and self._permits(principal, table_bucket, namespace):
            return table_bucket, ".".join(namespace)
        if not self._permits(principal, table_bucket, ()):
            return None, None
        if not schema or self._permits(principal, table_bucket, _as_named(schema)):
            return table_bucket, None
        return table_bucket, ".".join(_as_named(schema))

    def _permits(
        self, principal: model.Principal, table_bucket: str, namespace: tuple[str, ...]
    ) -> bool:
        """Return whether principal may see a table bucket, or a namespace, which may not exist."""
        if namespace:
            demand = self._access.on_namespace(table_bucket, namespace, "GetNamespace")
        else:
            demand = self._access.on_bucket(table_bucket, "GetTableBucket")
        return self._access.permits(principal, (demand,))

    def _schema(self, table_bucket: str, identifier: str) -> tuple[str, ...] | None:
        ident = names.parse(identifier)
        stored_path: tuple[str, ...] = ()
        for level in ident.text.split("."):
            children = [
                path[-1] for path in self._namespaces.list(table_bucket, stored_path or None)
            ]
            name = names.find_one(dataclasses.replace(ident, text=level), children)
            if name is None:
                return None
            stored_path = (*stored_path, name)
        return stored_path


def _as_named(identifier: str) -> tuple[str, ...]:
    """Return the levels of a schema's name as a new schema of this name would have them."""
    return tuple(names.parse(identifier).stored.split("."))
