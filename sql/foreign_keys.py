"""engine: the table and columns that a foreign key references, with full names.

The referenced table must exist and be visible, and its columns too, when the key is declared. Later
changes of that table do not change the key, which is never enforced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from catalog import idents, rights, tables
from sql import errors, keys, places, planning, temporary_names
from sql.dialect import names, operations


class ForeignKeys:
    """Resolves the references of keys. Stateless."""

    def __init__(self, *, places: places.Places, tables: tables.Tables) -> None:
        self._places = places
        self._tables = tables

    async def qualified(
        self,
        execution: planning.Execution,
        definitions: Sequence[operations.KeyDefinition],
        *,
        own: idents.TableIdent,
    ) -> tuple[operations.KeyDefinition, ...]:
        """Return keys whose references have full stored names. Raises SqlError.

        own: the table that gets the keys; a reference to itself may come before it exists.
        """
        primary = next((key.columns for key in definitions if key.type == "primary"), ())
        return tuple(
            [
                await self._qualified(execution, key, own, primary)
                if key.type == "foreign"
                else key
                for key in definitions
            ]
        )

    async def _qualified(
        self,
        execution: planning.Execution,
        key: operations.KeyDefinition,
        own: idents.TableIdent,
        own_primary: tuple[names.Ident, ...],
    ) -> operations.KeyDefinition:
        session = execution.session
        with self._places.view_of(session) as catalog:
            schema = catalog.schema_of(
                key.referenced, database=session.database, schema=session.schema, exactly=True
            )
            ident = idents.TableIdent(
                table_bucket=schema.database,
                namespace=schema.namespace,
                name=key.referenced[-1].stored,
            )
            table = None
            if ident != temporary_names.logical(own):
                table = catalog.table(
                    key.referenced,
                    database=session.database,
                    schema=session.schema,
                    exactly=True,
                    actions=rights.LOAD_ACTIONS,
                )
                ident = table.ident
        referenced = key.referenced_columns or own_primary
        if table is not None:
            loaded = await self._tables.fetch_at(table.ident, table.pointer)
            metadata = loaded.metadata
            stored = {field["id"]: field["name"] for field in metadata.current_schema()["fields"]}
            chosen = [
                names.find_one(column, list(stored.values())) for column in key.referenced_columns
            ]
            if not chosen:
                standing = keys.read(metadata.properties, metadata.current_schema())
                primary = next((each for each in standing if each.type == "primary"), None)
                chosen = [] if primary is None else [stored[each] for each in primary.columns]
            for column, stored_name in zip(key.referenced_columns, chosen, strict=False):
                if stored_name is None:
                    raise errors.invalid_identifier(column.folded)
            referenced = tuple(
                names.Ident(text=name, quoted=True) for name in chosen if name is not None
            )
        if len(referenced) != len(key.columns):
            raise errors.SqlError(
                "002038",
                "42601",
                "SQL compilation error:\nA foreign key needs as many columns as the key of table"
                f" {names.dotted(key.referenced)} that it references.",
                phase="COMPILATION",
            )
        path = temporary_names.path(ident)
        return dataclasses.replace(
            key,
            referenced=tuple(names.Ident(text=part, quoted=True) for part in path),
            referenced_columns=referenced,
        )
