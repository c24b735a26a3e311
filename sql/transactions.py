"""engine: transactions: what a session has changed and not committed.

A DML statement changes a value: its files and the table's state after it (`catalog.staging`) are
written, and no pointer names them. Statements of the session read that value, so they see its own
changes; other sessions do not. COMMIT makes all changes of all tables in one index transaction,
with the session's rights of that moment; ROLLBACK drops the values and their files. Without a
transaction a statement commits its own changes (autocommit).

Isolation is READ COMMITTED, as in Snowflake. Each statement reads what was committed when it began,
and the changes of its own transaction. There are no locks. When another session has committed to a
changed table, the changes are built again on the new state, before the next statement that reads
it and at COMMIT. Added rows always fit. A change that removed files fits if all of them are live
and no rows of the table were deleted in another way. A MERGE that inserts rows fits no other state,
since the other session may have added the same rows. What does not fit makes the statement or
COMMIT fail, and a failed COMMIT rolls the whole transaction back. Rows that others add stay.

The session's record says which tables are changed. When the server or the session ended in between,
a receipt or the tables tell whether COMMIT was done; where it was not, the changes are lost, and
the next statement reports that. A transaction without changes has lost nothing, and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog import commits, idents, owners, receipts, records, rights, sites, staging, tables
from catalog import errors as catalog_errors
from catalog.metadata import errors as metadata_errors
from sql import errors, limits, places, replays, sessions, temporary_names, writes
from sql.dialect import operations
from storage import errors as storage_errors
from storage import model

if TYPE_CHECKING:
    from sql import outcomes, planning


@dataclass(kw_only=True, slots=True)
class Transaction:
    """BEGIN until COMMIT or ROLLBACK; mutable.

    id: as CURRENT_TRANSACTION shows it. receipt_id: of its COMMIT's receipt; "" for a statement on
    its own. pending: the changed tables. judges: their statements' checks of rights. statements,
    files, size_bytes: what it holds. purges: the files that its statements remove from stages once
    it is committed, as callables. purged: how many files these are. is_over: nothing may be added
    any more.
    """

    id: str
    receipt_id: str
    started_at_ms: int
    name: str = ""
    pending: dict[idents.TableIdent, staging.PendingTable] = field(default_factory=dict)
    judges: dict[idents.TableIdent, owners.Judge] = field(default_factory=dict)
    statements: int = 0
    files: int = 0
    size_bytes: int = 0
    purges: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    purged: int = 0
    is_over: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def current(session: sessions.Session) -> Transaction | None:
    """Return the session's open transaction."""
    transaction = session.transaction
    assert transaction is None or isinstance(transaction, Transaction)
    return transaction


class Transactions:
    """Begins and ends transactions, and takes the changes of statements. Sessions hold state."""

    def __init__(
        self,
        *,
        staging: staging.Staging,
        tables: tables.Tables,
        writes: writes.Writes,
        places: places.Places,
        replays: replays.Replays,
        now_ms: model.NowMs,
        new_id: model.NewId,
    ) -> None:
        self._staging = staging
        self._tables = tables
        self._writes = writes
        self._places = places
        self._replays = replays
        self._now_ms = now_ms
        self._new_id = new_id
        self._discarding: set[asyncio.Task[None]] = set()

    # Reading

    async def table(
        self, session: sessions.Session, ident: idents.TableIdent, pointer: records.Pointer
    ) -> tables.LoadedTable:
        """Return a table as a statement of the session reads it: as committed, and its changes.

        pointer: the table's, in the statement's view of the catalog. Raises RequirementFailed if
        another session has committed in conflict with the changes.
        """
        committed = await self._tables.fetch_at(ident, pointer)
        transaction = current(session)
        if transaction is None or ident not in transaction.pending:
            return committed
        async with transaction.lock:
            pending = transaction.pending.get(ident)
            if pending is None or pending.base.pointer.object_uuid != pointer.object_uuid:
                return committed
            if pending.base.pointer.modified_at_ms > pointer.modified_at_ms:
                return pending.table  # another statement of the session has read a newer state
            pending = await self._staging.rebased(pending, committed, principal=session.principal)
            transaction.pending[ident] = pending
            return pending.table

    # Changes

    def check_may_write(self, session: sessions.Session, *idents: idents.TableIdent) -> None:
        """Raise SqlError where the open transaction cannot take a change of these tables."""
        _check_room(current(session), idents)

    async def keep(self, execution: planning.Execution, *staged: writes.Staged) -> None:
        """Take the changes of one statement: into the transaction, or else commit them.

        Either all of them are taken or none; then their files are removed. A table has at most one
        change. Raises RequirementFailed if a table has changed meanwhile so that its change no
        longer fits, and as `Staging.commit` does.
        """
        session = execution.session
        if _is_alone(execution) and len(staged) == 1 and staged[0].is_append:
            await self._writes.commit(
                staged[0], principal=session.principal, query_id=execution.query_id
            )
            session.last_transaction = self._transaction_id()
            return
        changes = await self._named(execution, staged)
        try:
            await self._take(execution, changes)
        except catalog_errors.CommitStateUnknown:
            raise  # the changes may be committed, so their files stay
        except BaseException:
            await commits.to_the_end(self._drop(changes))
            raise

    def is_kept_as_nothing(self, execution: planning.Execution, ident: idents.TableIdent) -> bool:
        """Return whether the first request of a statement has changed no row of a table."""
        return _is_alone(execution) and self._replays.is_done(self._receipt(execution, ident))

    async def keep_nothing(self, execution: planning.Execution, ident: idents.TableIdent) -> None:
        """Remember that a statement has changed no row; a transaction needs no such memory."""
        if _is_alone(execution):
            await self._replays.note(self._receipt(execution, ident))

    def _receipt(self, execution: planning.Execution, ident: idents.TableIdent) -> receipts.Receipt:
        return self._replays.receipt(ident.table_bucket, execution.query_id, by=execution.by)

    async def _named(
        self, execution: planning.Execution, changes: Sequence[writes.Staged]
    ) -> Sequence[writes.Staged]:
        """Return the changes with their files named, unless the statement's own commit does it.

        Later statements of a transaction read the files.
        """
        if _is_alone(execution):
            return changes
        named: list[writes.Staged] = []
        for number, change in enumerate(changes):
            try:
                named.append(await self._writes.name(change))
            except BaseException:
                await commits.to_the_end(self._drop([*named, *changes[number + 1 :]]))
                raise
        return named

    async def replace_rows(self, execution: planning.Execution, *staged: writes.Staged) -> None:
        """Like `keep`, for changes that also remove all rows that their statement has read.

        staged: the new rows alone. Rows that others add while the statement runs stay.
        """
        changes = await self._named(execution, staged)
        try:
            replacing = [
                dataclasses.replace(
                    change,
                    removed=await self._writes.live_files(
                        change.target.loaded, principal=execution.session.principal
                    ),
                    based_on=change.target.loaded.metadata.current_snapshot_id,
                )
                for change in changes
            ]
            await self._take(execution, replacing)
        except catalog_errors.CommitStateUnknown:
            raise  # the changes may be committed, so their files stay
        except BaseException:
            await commits.to_the_end(self._drop(changes))
            raise

    async def _take(self, execution: planning.Execution, changes: Sequence[writes.Staged]) -> None:
        """Add changes to the transaction, or commit them. If that fails, their data files stay."""
        session, transaction = execution.session, execution.transaction
        if _is_alone(execution):
            single = Transaction(id="", receipt_id="", started_at_ms=self._now_ms())
            await self._add(session, single, changes, query_id=execution.query_id)
            await self._commit(session, single, keeps_added=True)
            session.last_transaction = self._transaction_id()
            return
        if transaction is None:
            transaction = current(session) or self.begin(session)
        async with transaction.lock:
            await self._add(session, transaction, changes, query_id=execution.query_id)

    async def _drop(self, changes: Sequence[writes.Staged]) -> None:
        for change in changes:
            await self._writes.discard(change)

    async def _add(
        self,
        session: sessions.Session,
        transaction: Transaction,
        changes: Sequence[writes.Staged],
        *,
        query_id: str,
    ) -> None:
        """Add changes to a transaction; if one does not fit, remove what was written for them."""
        if transaction.is_over:
            raise errors.transaction_over()
        _check_room(transaction, [change.target.loaded.ident for change in changes], changes)
        before = dict(transaction.pending)
        added: dict[idents.TableIdent, staging.PendingTable] = {}
        try:
            for staged in changes:
                loaded = staged.target.loaded
                pending = before.get(loaded.ident) or staging.unchanged(loaded)
                change = await commits.run(
                    staged.change, query_id, large=len(staged.removed) > limits.REMOVED_HERE_MAX
                )
                if pending.base.pointer.object_uuid != loaded.pointer.object_uuid:
                    raise metadata_errors.RequirementFailed(
                        f"Requirement failed: {loaded.ident.dotted()} is another table than the"
                        " one that the transaction has changed"
                    )
                if change.reads and not _is_head(pending.table, staged.based_on):
                    raise metadata_errors.RequirementFailed(
                        f"Requirement failed: {loaded.ident.dotted()} has changed since the"
                        " statement has read it"
                    )
                if staged.target.judge is not None:  # before files are written below its location
                    place = self._tables.place(loaded.ident)
                    staged.target.judge(place, loaded.ident, loaded.pointer)
                added[loaded.ident] = await self._staging.add(
                    pending,
                    change,
                    principal=session.principal,
                    unnamed=staged.unnamed,
                    names_at_commit=not transaction.receipt_id,
                )
        except BaseException:
            await commits.to_the_end(self._take_back(added, before))
            raise
        transaction.pending |= added
        transaction.statements += 1
        for staged in changes:
            if staged.target.judge is not None:
                transaction.judges[staged.target.loaded.ident] = staged.target.judge
            transaction.files += len(staged.files)
            transaction.size_bytes += sum(file.file_size_in_bytes for file in staged.files)
        if transaction.receipt_id:
            _note(session, transaction, added, query_id)

    async def _take_back(
        self,
        added: Mapping[idents.TableIdent, staging.PendingTable],
        before: Mapping[idents.TableIdent, staging.PendingTable],
    ) -> None:
        for ident, pending in added.items():
            await self._staging.take_back(pending, before.get(ident))

    def check_may_purge(self, execution: planning.Execution, count: int) -> None:
        """Raise SqlError where the open transaction cannot remember to remove so many files."""
        transaction = execution.transaction or current(execution.session)
        purged = count + (0 if transaction is None else transaction.purged)
        if purged > limits.TRANSACTION_FILES_MAX and not _is_alone(execution):
            raise errors.unsupported(
                f"a transaction that purges more than {limits.TRANSACTION_FILES_MAX:,} files"
            )

    async def purge(
        self, execution: planning.Execution, count: int, remove: Callable[[], Awaitable[None]]
    ) -> None:
        """Have remove called when the statement's changes are committed: now, or after COMMIT.

        count: of the files that it removes.
        """
        transaction = execution.transaction or current(execution.session)
        if transaction is None or _is_alone(execution):
            await _call_purge(remove)
            return
        async with transaction.lock:
            if not transaction.is_over:
                transaction.purges.append(remove)
                transaction.purged += count

    # The ends of a transaction

    def begin(self, session: sessions.Session, name: str = "") -> Transaction:
        """Begin a transaction, unless one is open; return the open one."""
        transaction = current(session)
        if transaction is None:
            transaction = Transaction(
                id=self._transaction_id(),
                receipt_id=sites.hyphenated(self._new_id()),
                started_at_ms=self._now_ms(),
                name=name or sites.hyphenated(self._new_id()),
            )
            session.transaction = transaction
        return transaction

    def _transaction_id(self) -> str:
        """Return an id as Snowflake has them: when the transaction began, in nanoseconds."""
        return f"{self._now_ms()}{int(self._new_id(), 16) % 1_000_000:06d}"

    async def commit(self, session: sessions.Session) -> None:
        """End the transaction, if there is one, and commit its changes."""
        transaction, held = current(session), session.held
        if transaction is None:
            return
        async with transaction.lock:
            if transaction.is_over:
                return
            transaction.is_over = True
            session.last_transaction = transaction.id
            if session.transaction is transaction:
                session.transaction = None
            try:
                if transaction.pending:
                    await self._commit(session, transaction)
                for remove in transaction.purges:
                    await _call_purge(remove)
            finally:
                # A session record that is written before this line still has the changes.
                if session.held is held:
                    session.held = None

    async def _commit(
        self, session: sessions.Session, transaction: Transaction, *, keeps_added: bool = False
    ) -> None:
        rights_now = self._places.judge(session.principal, rights.COMMIT_ACTIONS)

        def judge(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            rights_now(place, ident, pointer)
            if ident in transaction.judges:
                transaction.judges[ident](place, ident, pointer)

        pending = list(transaction.pending.values())
        receipt = None
        lasting = [each for each in pending if not temporary_names.is_temporary(each.ident)]
        if transaction.receipt_id and lasting:
            try:
                receipt = self._replays.receipt(
                    lasting[0].ident.table_bucket, transaction.receipt_id, by=session.principal.arn
                )
            except BaseException:  # its table bucket is gone
                await commits.to_the_end(self._remove(transaction))
                raise
        await self._staging.commit(
            pending,
            principal=session.principal,
            via="sql",
            judge=judge,
            receipt=receipt,
            keeps_added=keeps_added,
        )

    async def rollback(self, session: sessions.Session) -> None:
        """End the transaction, if there is one, and remove the files of its changes."""
        transaction = current(session)
        session.transaction = session.held = None
        if transaction is not None:
            session.last_transaction = transaction.id
            # A statement that is cancelled leaves no file behind.
            await asyncio.shield(self._begin_discard(transaction))

    def abandon(self, transaction: Transaction) -> None:
        """Remove, in the background, the files of a transaction whose session has ended."""
        self._begin_discard(transaction)

    def _begin_discard(self, transaction: Transaction) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._discard(transaction))
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)
        return task

    async def _discard(self, transaction: Transaction) -> None:
        async with transaction.lock:
            if transaction.is_over:
                return
            transaction.is_over = True
            await self._remove(transaction)

    async def _remove(self, transaction: Transaction) -> None:
        for pending in transaction.pending.values():
            await self._staging.discard(pending)

    async def stop(self) -> None:
        """Wait for what `abandon` began."""
        await asyncio.gather(*self._discarding, return_exceptions=True)

    # After a restart

    async def check_not_lost(
        self, session: sessions.Session, operation: operations.Operation
    ) -> None:
        """Raise once, at the next statement that depends on it, that a transaction is lost."""
        if not session.transaction_lost:
            return
        held = session.held
        is_over = isinstance(
            operation, operations.BeginTransaction | operations.RollbackTransaction
        )
        is_missed = held is not None and not is_over and not await self._is_committed(session, held)
        session.transaction_lost, session.held = False, None
        if held is None:
            self.begin(session)
        elif is_missed:
            raise errors.transaction_lost()

    async def _is_committed(self, session: sessions.Session, held: sessions.Held) -> bool:
        """Return whether a transaction was committed: its receipt says so, or a snapshot does."""
        for query_id, (bucket, *namespace, name) in held.statements:
            try:
                if held.receipt_id and self._replays.is_done(
                    self._replays.receipt(bucket, held.receipt_id, by=session.principal.arn)
                ):
                    return True
            except (catalog_errors.CatalogError, storage_errors.StorageError):
                continue  # the table bucket is gone, and its tables
            ident = idents.TableIdent(table_bucket=bucket, namespace=tuple(namespace), name=name)
            if query_id and await self._writes.is_committed(ident, query_id):
                return True
        return False


async def replaced(run: Callable[[], Awaitable[outcomes.Outcome]]) -> outcomes.Outcome:
    """Run a statement that replaces rows; run it again where others have changed them meanwhile.

    Its new rows may come from the rows that were changed, so that all of it runs again.
    """
    for _ in range(1, limits.REPLACE_ATTEMPTS_MAX):
        with contextlib.suppress(metadata_errors.RequirementFailed):
            return await run()
    return await run()


async def added(run: Callable[[], Awaitable[outcomes.Outcome]]) -> outcomes.Outcome:
    """Run a statement that adds rows; run it again where others have changed columns meanwhile, so
    that the columns which its rows need could not be added."""
    for _ in range(1, limits.REPLACE_ATTEMPTS_MAX):
        with contextlib.suppress(metadata_errors.ColumnsDiffer):
            return await run()
    return await run()


def _check_room(
    transaction: Transaction | None,
    idents: Sequence[idents.TableIdent],
    changes: Sequence[writes.Staged] = (),
) -> None:
    """Raise SqlError where a transaction cannot take changes of these tables."""
    tables_after = set(idents)
    statements = files = size_bytes = 0
    if transaction is not None:
        tables_after |= transaction.pending.keys()
        statements, files = transaction.statements, transaction.files
        size_bytes = transaction.size_bytes
    files += sum(len(change.files) for change in changes)
    size_bytes += sum(file.file_size_in_bytes for each in changes for file in each.files)
    for count, count_max, unit in (
        (statements + 1, limits.TRANSACTION_STATEMENTS_MAX, "DML statements"),
        (len(tables_after), limits.TRANSACTION_TABLES_MAX, "changed tables"),
        (files, limits.TRANSACTION_FILES_MAX, "data files"),
        (size_bytes, limits.TRANSACTION_BYTES_MAX, "bytes of data files"),
    ):
        if count > count_max:
            raise errors.unsupported(f"a transaction with more than {count_max:,} {unit}")


async def _call_purge(remove: Callable[[], Awaitable[None]]) -> None:
    """Remove files whose rows are committed. A file that is not removed is no error."""
    try:
        await remove()
    except (catalog_errors.CatalogError, storage_errors.StorageError, errors.SqlError) as error:
        logging.getLogger("boathouse.sql.transactions").warning("PURGE failed: %s", error)


def _is_alone(execution: planning.Execution) -> bool:
    """Return whether a statement commits its own changes."""
    return execution.transaction is None and bool(execution.session.parameter("AUTOCOMMIT"))


def _is_head(table: tables.LoadedTable, based_on: int | None) -> bool:
    return table.metadata.current_snapshot_id == based_on


def _note(
    session: sessions.Session,
    transaction: Transaction,
    added: Mapping[idents.TableIdent, staging.PendingTable],
    query_id: str,
) -> None:
    """Have the session's record name the changed tables."""
    held = session.held
    statements = () if held is None else held.statements
    noted = {table for _, table in statements}
    for ident in added:
        table = (ident.table_bucket, *ident.namespace, ident.name)
        if table not in noted:
            statements = (*statements, (query_id, table))
    if held is None or statements != held.statements:
        session.held = sessions.Held(receipt_id=transaction.receipt_id, statements=statements)
