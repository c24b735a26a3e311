"""engine: sequences: CREATE, ALTER, DROP, and the numbers that NEXTVAL takes.

A sequence belongs to a schema, and its name is apart from those of tables and views. For policies
it is a table of its name without a uuid: who may create, drop or write such a table may do so with
the sequence.
"""

from __future__ import annotations

from typing import Final

from catalog import errors as catalog_errors
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
        shown = statement.name[-1].folded
        ident, receipt = self._begin(execution, statement.name)
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
                judge=self._places.judge_sequence(execution.session.principal, ident, CREATE),
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
        ident, receipt = self._begin(execution, statement.name)
        to = None
        if statement.to is not None:
            target, _ = self._begin(execution, statement.to)
            if target.namespace != ident.namespace or target.table_bucket != ident.table_bucket:
                raise errors.unsupported("ALTER SEQUENCE into another schema")
            to = target.name
        if not self._replays.is_done(receipt):
            try:
                await self._sequences.alter_sequence(
                    ident.table_bucket,
                    ident.namespace,
                    self._stored(ident, statement.name),
                    to=to,
                    increment=statement.increment,
                    comment=statement.comment,
                    judge=self._places.judge_sequence(execution.session.principal, ident, ALTER),
                    receipt=receipt,
                )
            except sequence_errors.NoSuchSequence:
                if not statement.if_exists:
                    raise _missing(statement.name) from None
            except sequence_errors.SequenceAlreadyExists:
                raise errors.already_exists("Object", str(to)) from None
        return outcomes.status(DONE)

    async def drop(
        self, execution: planning.Execution, statement: operations.DropSequence
    ) -> outcomes.Outcome:
        """Drop a sequence; raises SqlError."""
        shown = statement.name[-1].folded
        ident, receipt = self._begin(execution, statement.name)
        if not self._replays.is_done(receipt):
            try:
                await self._sequences.drop_sequence(
                    ident.table_bucket,
                    ident.namespace,
                    self._stored(ident, statement.name),
                    judge=self._places.judge_sequence(execution.session.principal, ident, DROP),
                    receipt=receipt,
                )
            except sequence_errors.NoSuchSequence:
                if not statement.if_exists:
                    raise _missing(statement.name) from None
                already = f"Drop statement executed successfully ({shown} already dropped)."
                return outcomes.status(already)
        return outcomes.status(f"{shown} successfully dropped.")

    def _begin(
        self, execution: planning.Execution, name: names.Name
    ) -> tuple[idents.TableIdent, receipts.Receipt]:
        """Return a sequence's name in the catalog, whether it exists or not; raises SqlError."""
        session = execution.session
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema_of(name, database=session.database, schema=session.schema)
            if not schema.namespace:
                raise errors.unsupported("a sequence in INFORMATION_SCHEMA")
        ident = idents.TableIdent(
            table_bucket=schema.database, namespace=schema.namespace, name=name[-1].stored
        )
        return ident, self._replays.receipt(schema.database, execution.query_id, by=execution.by)

    def _stored(self, ident: idents.TableIdent, name: names.Name) -> str:
        """Return the stored name of a sequence; the name's own spelling if there is none."""
        try:
            listed = self._sequences.list(ident.table_bucket, ident.namespace)
        except catalog_errors.NoSuchNamespace:
            return ident.name
        return names.find_one(name[-1], [each.name for each in listed]) or ident.name


def _missing(name: names.Name) -> errors.SqlError:
    return errors.does_not_exist("Sequence", names.dotted(name))
