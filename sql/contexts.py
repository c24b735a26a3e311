"""engine: the database and schema a session starts in, as the catalog has them.

A login may name what is not there, or not for this caller: the session looks the same in both
cases. A database that the caller may not see is none, unless the caller may see the schema that is
named in it. A schema that the caller may not see is current as it was named, there or not. A login
that names no database gets the server's default, and one that names no schema the schema `public`,
where the caller may see one.
"""

from __future__ import annotations

from catalog import access, namespaces
from server.access import model
from sql import names
from storage import buckets

DEFAULT_SCHEMA = "public"


class Contexts:
    """Looks up what logins ask for. default_database: a table bucket, or None."""

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
        """Return stored names of a database and a schema; None for what there is not."""
        wanted = database or self._default_database
        if not wanted:
            return None, None
        stored = [info.name for info in self._buckets.list() if info.kind == "table"]
        table_bucket = names.resolve(wanted, stored)
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
        """Say whether principal may see a table bucket, or a namespace in it, there or not."""
        if namespace:
            demand = self._access.on_namespace(table_bucket, namespace, "GetNamespace")
        else:
            demand = self._access.on_bucket(table_bucket, "GetTableBucket")
        return self._access.permits(principal, (demand,))

    def _schema(self, table_bucket: str, identifier: str) -> tuple[str, ...] | None:
        text, quoted = names.unquoted(identifier)
        stored_path: tuple[str, ...] = ()
        for level in text.split("."):
            children = [
                path[-1] for path in self._namespaces.list(table_bucket, stored_path or None)
            ]
            name = names.resolve(f'"{level}"' if quoted else level, children)
            if name is None:
                return None
            stored_path = (*stored_path, name)
        return stored_path


def _as_named(identifier: str) -> tuple[str, ...]:
    """Return the levels of a schema's name as a new schema of this name would have them."""
    text, quoted = names.unquoted(identifier)
    return tuple((text if quoted else text.lower()).split("."))
