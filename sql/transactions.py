"""engine: a session's transaction: one DML statement held back until COMMIT.

Its files are written and named by nobody, so ROLLBACK really takes it back. A second one, or
reading a table that waits to be changed, is refused rather than answered wrongly.
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
    found = session.transaction
    assert found is None or isinstance(found, Transaction)
    return found


def check_not_lost(session: sessions.Session, operation: operations.Operation) -> None:
    """Say once that an open transaction is lost, to whoever still counts on it."""
    if not session.transaction_lost:
        return
    session.transaction_lost = False
    if not isinstance(operation, operations.Begin | operations.Rollback):
        raise errors.transaction_lost()


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
