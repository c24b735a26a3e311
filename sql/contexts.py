"""engine: the database and schema a session starts in, as the catalog has them.

A login may name what is not there, or not for this caller: then the session has no current database
or schema, and looks the same in both cases. A login that names no database gets the server's
default, and one that names no schema the schema `public`, where there is one.
"""

from __future__ import annotations

from catalog import namespaces
from server.access import arns, decide
from server.access import model as access
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
        authoriser: decide.Authoriser,
        default_database: str | None,
    ) -> None:
        self._buckets = buckets
        self._namespaces = namespaces
        self._authoriser = authoriser
        self._default_database = default_database

    def resolve(
        self, principal: access.Principal, database: str, schema: str
    ) -> tuple[str | None, str | None]:
        """Return stored names of a database and a schema; None for what there is not."""
        wanted = database or self._default_database
        if not wanted:
            return None, None
        known = [info.name for info in self._buckets.list() if info.kind == "table"]
        found = names.resolve(wanted, known)
        if found is None or not self._is_visible(principal, found):
            return None, None
        return found, self._schema(found, schema or DEFAULT_SCHEMA)

    def _is_visible(self, principal: access.Principal, table_bucket: str) -> bool:
        info = self._buckets.get(table_bucket)
        arn = arns.table_bucket_arn(info.region, info.owner, table_bucket)
        demand = access.Demand(action="s3tables:GetTableBucket", resource=arn)
        return self._authoriser.decide(principal, demand).allow

    def _schema(self, table_bucket: str, identifier: str) -> str | None:
        text, quoted = names.unquoted(identifier)
        found: tuple[str, ...] = ()
        for level in text.split("."):
            children = [path[-1] for path in self._namespaces.list(table_bucket, found or None)]
            name = names.resolve(f'"{level}"' if quoted else level, children)
            if name is None:
                return None
            found = (*found, name)
        return ".".join(found)
