"""engine: sequences: CREATE, ALTER, DROP, and the numbers that NEXTVAL takes.

A sequence belongs to a schema, and its name is apart from those of tables and views. For policies
it is a table of its name without a uuid: who may create, drop or write such a table may do so with
the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog import idents, receipts, rights, sequence_errors, sequences
from sql import errors, outcomes, places, planning, replays
from sql.dialect import names, operations

CREATE: Final = "CreateTable"
ALTER: Final = rights.COMMIT_ACTIONS[0]
DROP: Final = rights.DROP_ACTIONS[0]
DONE: Final = "Statement executed successfully."


class Numbering:
    """Creates, changes and drops sequences. Stateless."""

    def __init__(
        self,
        *,
        places: places.Places,
        sequences: sequences.Sequences,
        replays: replays.Replays,
    ) -> None:
        self._places = places
        self._sequences = sequences
        self._replays = replays

    async def create(
        self, execution: planning.Execution, statement: operations.CreateSequence
    ) -> outcomes.Outcome:
        """Create a sequence; raises SqlError."""
        shown, name = statement.name[-1].folded, statement.name
        session = execution.session
        with self._places.view(session.principal) as catalog:
            schema = self._schema(execution, name, catalog)
            ident = _ident(schema, name[-1].stored)
            actions = (CREATE, ALTER) if statement.replace else (CREATE,)
            hidden = catalog.no_table(schema, name) if len(name) > 1 else None
            for action in actions:
                catalog.check_new_sequence(ident, action, missing=hidden)
        receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
        success = outcomes.status(f"Sequence {shown} successfully created.")
        if self._replays.is_done(receipt):
            return success
        try:
            await self._sequences.create_sequence(
                ident.table_bucket,
                ident.namespace,
                ident.name,
                start=statement.start,
                increment=statement.increment,
                comment=statement.comment,
                replace=statement.replace,
                by=execution.by,
                judge=self._places.judge_sequence(
                    session.principal, *((ident, action) for action in actions)
                ),
                receipt=receipt,
            )
        except sequence_errors.SequenceAlreadyExists:
            if statement.if_not_exists:
                return outcomes.status(f"{shown} already exists, statement succeeded.")
            raise errors.already_exists("Object", shown) from None
        return success

    async def alter(
        self, execution: planning.Execution, statement: operations.AlterSequence
    ) -> outcomes.Outcome:
        """Change a sequence; raises SqlError."""
        success = outcomes.status(DONE)
        try:
            target = self._find(execution, statement.name, ALTER)
            if target.is_done:
                return success
            ident, to = target.ident, None
            demanded = [(ident, ALTER)]
            if statement.to is not None:
                new_ident = self._new_name(execution, statement.to, ident)
                to = new_ident.name
                demanded.append((new_ident, CREATE))
            await self._sequences.alter_sequence(
                ident.table_bucket,
                ident.namespace,
                ident.name,
                to=to,
                increment=statement.increment,
                comment=statement.comment,
                judge=self._places.judge_sequence(execution.session.principal, *demanded),
                receipt=target.receipt,
            )
        except sequence_errors.SequenceAlreadyExists:
            raise errors.already_exists("Object", str(to)) from None
        except sequence_errors.NoSuchSequence:  # another session dropped it meanwhile
            if not statement.if_exists:
                raise _missing(statement.name) from None
        except errors.SqlError as error:
            if not statement.if_exists or error.code != "002003":
                raise
        return success

    async def drop(
        self, execution: planning.Execution, statement: operations.DropSequence
    ) -> outcomes.Outcome:
        """Drop a sequence; raises SqlError."""
        shown = statement.name[-1].folded
        already = f"Drop statement executed successfully ({shown} already dropped)."
        try:
            target = self._find(execution, statement.name, DROP)
            if not target.is_done:
                ident = target.ident
                await self._sequences.drop_sequence(
                    ident.table_bucket,
                    ident.namespace,
                    ident.name,
                    judge=self._places.judge_sequence(execution.session.principal, (ident, DROP)),
                    receipt=target.receipt,
                )
        except sequence_errors.NoSuchSequence:  # another session dropped it meanwhile
            if not statement.if_exists:
                raise _missing(statement.name) from None
            return outcomes.status(already)
        except errors.SqlError as error:
            if not statement.if_exists or error.code != "002003":
                raise
            return outcomes.status(already)
        return outcomes.status(f"{shown} successfully dropped.")

    def _schema(
        self, execution: planning.Execution, name: names.Name, catalog: places.CatalogView
    ) -> places.Schema:
        session = execution.session
        schema = catalog.schema_of(
            name, database=session.database, schema=session.schema, exactly=True
        )
        if not schema.namespace:
            raise errors.unsupported("a sequence in INFORMATION_SCHEMA")
        return schema

    def _find(self, execution: planning.Execution, name: names.Name, action: str) -> _Target:
        """Return the sequence that ALTER or DROP names. Raises SqlError, 002003 if it is hidden."""
        with self._places.view(execution.session.principal) as catalog:
            schema = self._schema(execution, name, catalog)
            receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
            if self._replays.is_done(receipt):
                return _Target(ident=_ident(schema, name[-1].stored), receipt=receipt, is_done=True)
            missing = catalog.no_table(schema, name, object_type="Sequence")
            listed = self._sequences.list(schema.database, schema.namespace)
            stored = names.find_exactly(name[-1], [each.name for each in listed])
            if stored is None:
                raise missing
            ident = _ident(schema, stored)
            catalog.check_sequence(ident, action, missing=missing)
        return _Target(ident=ident, receipt=receipt)

    def _new_name(
        self, execution: planning.Execution, name: names.Name, ident: idents.TableIdent
    ) -> idents.TableIdent:
        """Return the name that RENAME TO gives a sequence. Raises SqlError."""
        with self._places.view(execution.session.principal) as catalog:
            schema = self._schema(execution, name, catalog)
            new_ident = _ident(schema, name[-1].stored)
            hidden = catalog.no_table(schema, name) if len(name) > 1 else None
            catalog.check_new_sequence(new_ident, CREATE, missing=hidden)
        if (schema.database, schema.namespace) != (ident.table_bucket, ident.namespace):
            raise errors.unsupported("ALTER SEQUENCE into another schema")
        return new_ident


@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    """A sequence that a statement names. is_done: an earlier request executed the statement."""

    ident: idents.TableIdent
    receipt: receipts.Receipt
    is_done: bool = False


def _ident(schema: places.Schema, name: str) -> idents.TableIdent:
    return idents.TableIdent(table_bucket=schema.database, namespace=schema.namespace, name=name)


def _missing(name: names.Name) -> errors.SqlError:
    return errors.does_not_exist("Sequence", names.dotted(name))
