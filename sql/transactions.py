"""engine: a session's transaction: one DML statement held back until COMMIT.

Its files are written but not committed, so ROLLBACK undoes it. A second DML statement, or a query
of the changed table, is refused, because its answer would be wrong.

The session's record says which statement waits for which table. When the server or the session
ended in between, the table itself tells whether COMMIT was done; where it was not, the rows are
gone, and the next statement says so. A transaction in which nothing waited has lost nothing, and
goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog import idents
from sql import errors, sessions, writes
from sql.dialect import operations


@dataclass(kw_only=True, slots=True)
class Transaction:
    """BEGIN until COMMIT or ROLLBACK; mutable. waiting: the one DML statement held back."""

    waiting: writes.Staged | None = None
    query_id: str = ""


def current(session: sessions.Session) -> Transaction | None:
    """Return the session's open transaction."""
    transaction = session.transaction
    assert transaction is None or isinstance(transaction, Transaction)
    return transaction


def hold(session: sessions.Session, staged: writes.Staged, query_id: str) -> None:
    """Have a DML statement wait in the session's open transaction."""
    transaction = current(session)
    assert transaction is not None
    transaction.waiting, transaction.query_id = staged, query_id
    ident = staged.target.loaded.ident
    session.held = sessions.Held(
        query_id=query_id, table=(ident.table_bucket, *ident.namespace, ident.name)
    )


async def check_not_lost(
    session: sessions.Session, operation: operations.Operation, written: writes.Writes
) -> None:
    """Raise once, at the next statement that depends on it, that an open transaction is lost."""
    if not session.transaction_lost:
        return
    held = session.held
    is_over = isinstance(operation, operations.BeginTransaction | operations.RollbackTransaction)
    is_missed = held is not None and not is_over and not await _is_committed(held, written)
    session.transaction_lost, session.held = False, None
    if held is None:
        session.transaction = Transaction()
    elif is_missed:
        raise errors.transaction_lost()


async def _is_committed(held: sessions.Held, written: writes.Writes) -> bool:
    if not held.query_id:
        return False
    bucket, *namespace, name = held.table
    ident = idents.TableIdent(table_bucket=bucket, namespace=tuple(namespace), name=name)
    return await written.is_committed(ident, held.query_id)


def check_may_write(session: sessions.Session) -> None:
    """Raise SqlError where a DML statement waits already."""
    transaction = current(session)
    if transaction is not None and transaction.waiting is not None:
        raise errors.unsupported("a second DML statement in one transaction")


def check_not_waiting(session: sessions.Session, ident: idents.TableIdent) -> None:
    """Raise SqlError where the table waits to be changed."""
    transaction = current(session)
    if transaction is None or transaction.waiting is None:
        return
    if transaction.waiting.target.loaded.ident == ident:
        raise errors.unsupported("reading a table that the open transaction has changed")
