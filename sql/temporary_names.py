"""rule: where a session's temporary tables lie in the catalog, and the names that they have in SQL.

They are tables of the session's hidden table bucket. All temporary tables of a schema are in one
namespace there, named by database and schema. Never reads anything.
"""

from __future__ import annotations

from typing import Final

from catalog import idents
from storage import names as storage_names

ASIDE: Final[idents.Namespace] = ("aside",)
"""The namespace of tables that are about to replace another one. No schema's has such a name."""


def is_temporary(ident: idents.TableIdent) -> bool:
    """Return whether a table of the catalog is a temporary one."""
    return storage_names.is_hidden(ident.table_bucket)


def namespace(database: str, schema: str) -> idents.Namespace:
    """Return the namespace of a schema's temporary tables. schema: its levels joined by dots."""
    return (f"{database}.{schema}",)


def logical(ident: idents.TableIdent) -> idents.TableIdent:
    """Return the name of a table in SQL, which differs for a temporary one."""
    if not is_temporary(ident):
        return ident
    database, _, schema = ident.namespace[0].partition(".")
    return idents.TableIdent(
        table_bucket=database, namespace=tuple(schema.split(".")), name=ident.name
    )


def path(ident: idents.TableIdent) -> tuple[str, str, str]:
    """Return the database, the schema and the name that a table has in SQL."""
    named = logical(ident)
    return named.table_bucket, idents.dotted(named.namespace), named.name
