"""Two sessions with transactions beside plain sets: whatever they do, both read the same.

Each row is a number that is used once. A session reads the committed rows and its own changes. A
change that removed rows conflicts once others have removed one of them. After the last step no file
is left that no snapshot has.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sql import engine_inline, errors, sessions
from tests.kit import local_sql

TABLE = st.sampled_from(["t", "u"])
WHO = st.sampled_from([0, 1])


@dataclass
class Change:
    """What one statement did to a table."""

    table: str
    removed: frozenset[int]
    added: frozenset[int]


@dataclass
class Peer:
    """A session, and what its open transaction has changed; None without a transaction."""

    session: sessions.Session
    changes: list[Change] | None = None


class TwoSessions(RuleBasedStateMachine):
    """committed: the rows of each table. number: the next row."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.local = self.run(self._open())
        self.peers = [Peer(session=self._session(number)) for number in (1, 2)]
        self.committed: dict[str, frozenset[int]] = {"t": frozenset(), "u": frozenset()}
        self.number = 0
        for table in self.committed:
            self.run(self.local.run(f"create table {table} (a int)"))

    async def _open(self) -> local_sql.LocalSql:
        spill = self.root / "spill"
        spill.mkdir()
        query_engine = engine_inline.InlineEngine(spill_directory=spill)
        self.stack.push_async_callback(query_engine.close)
        return await self.stack.enter_async_context(
            local_sql.opened(self.root / "data", made_engine=query_engine)
        )

    def _session(self, number: int) -> sessions.Session:
        return sessions.Session(id=number, principal=local_sql.ROOT, database="lake", schema="ns")

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def rows(self, peer: Peer, text: str) -> list[tuple[Any, ...]]:
        self.local.lake.clock.now_ms += 1
        self.local.session = peer.session
        result: list[tuple[Any, ...]] = self.run(self.local.rows(text))
        return result

    def refused(self, peer: Peer, text: str) -> None:
        with pytest.raises(errors.SqlError) as caught:
            self.rows(peer, text)
        assert caught.value.code == "000625"

    # The model

    def seen(self, peer: Peer, table: str) -> frozenset[int]:
        rows = self.committed[table]
        for change in peer.changes or ():
            if change.table == table:
                rows = (rows - change.removed) | change.added
        return rows

    def conflicts(self, peer: Peer, table: str) -> bool:
        present = self.committed[table]
        for change in peer.changes or ():
            if change.table == table:
                if not change.removed <= present:
                    return True
                present = (present - change.removed) | change.added
        return False

    def change(self, who: int, text: str, *, table: str, source: str | None, adds: int) -> None:
        """Run a DML statement; `source` is a table that it also reads, adds its number of rows."""
        peer = self.peers[who]
        if any(self.conflicts(peer, each) for each in {table, source or table}):
            self.refused(peer, text)
            return
        answer = self.rows(peer, text)
        if adds:
            assert answer == [(adds,)]
        replaces = "overwrite" in text or "truncate" in text
        change = Change(
            table=table,
            removed=self.seen(peer, table) if replaces else frozenset(),
            added=frozenset(range(self.number, self.number + adds)),
        )
        self.number += adds
        if peer.changes is None:
            rows = self.committed[table]
            self.committed[table] = (rows - change.removed) | change.added
        else:
            peer.changes.append(change)

    # The steps

    @rule(who=WHO)
    def begin(self, who: int) -> None:
        peer = self.peers[who]
        self.rows(peer, "begin")
        peer.changes = peer.changes or []

    @rule(who=WHO, table=TABLE, overwrites=st.booleans(), count=st.integers(1, 2))
    def insert(self, who: int, table: str, overwrites: bool, count: int) -> None:
        values = ", ".join(f"({self.number + index})" for index in range(count))
        verb = "insert overwrite" if overwrites else "insert"
        text = f"{verb} into {table} values {values}"
        self.change(who, text, table=table, source=None, adds=count)

    @rule(who=WHO, table=TABLE, source=TABLE, overwrites=st.booleans())
    def insert_select(self, who: int, table: str, source: str, overwrites: bool) -> None:
        peer = self.peers[who]
        adds = len(self.seen(peer, source))
        if not 0 < adds <= 20:
            return
        verb = "insert overwrite" if overwrites else "insert"
        text = (
            f"{verb} into {table} select {self.number} - 1 + row_number() over (order by a)"
            f" from {source}"
        )
        self.change(who, text, table=table, source=source, adds=adds)

    @rule(who=WHO, table=TABLE)
    def truncate(self, who: int, table: str) -> None:
        self.change(who, f"truncate table {table}", table=table, source=None, adds=0)

    @rule(who=WHO, text=st.sampled_from(["commit", "create table if not exists v (a int)"]))
    def commit(self, who: int, text: str) -> None:
        peer = self.peers[who]
        changes, tables = peer.changes or [], {each.table for each in peer.changes or ()}
        if any(self.conflicts(peer, table) for table in tables):
            self.refused(peer, text)
        else:
            self.rows(peer, text)
            after = {table: self.seen(peer, table) for table in tables}
            assert len(changes) >= len(after)
            self.committed |= after
        peer.changes = None

    @rule(who=WHO)
    def rollback(self, who: int) -> None:
        self.rows(self.peers[who], "rollback")
        self.peers[who].changes = None

    @rule(who=WHO)
    def restart(self, who: int) -> None:
        """Use the session that its record says, as after a crash of the server."""
        peer = self.peers[who]
        transaction = peer.session.transaction
        fields = sessions._decode(sessions._encode(peer.session))
        del fields["principal"], fields["access_key"], fields["principal_id"]
        peer.session = sessions.Session(id=who + 1, principal=local_sql.ROOT, **fields)
        if peer.changes:
            self.refused(peer, "select 1")
            peer.changes = None
            self.run(self._abandon(transaction))  # the files of a crash are the sweep's

    async def _abandon(self, transaction: Any) -> None:
        self.local.transactions.abandon(transaction)
        await self.local.transactions.stop()

    @invariant()
    def both_read_what_the_model_has(self) -> None:
        for peer in self.peers:
            for table in self.committed:
                if self.conflicts(peer, table):
                    self.refused(peer, f"select a from {table}")
                    continue
                expected = self.seen(peer, table)
                assert {row[0] for row in self.rows(peer, f"select a from {table}")} == expected
                assert self.rows(peer, f"select count(*) from {table}") == [(len(expected),)]

    def teardown(self) -> None:
        try:
            for peer in self.peers:
                self.rows(peer, "rollback")
            for table in self.committed:
                self._check_files(table)
        finally:
            self.run(self.stack.aclose())
            self.loop.close()
            shutil.rmtree(self.root)

    def _check_files(self, table: str) -> None:
        metadata = self.local.lake.load(self.local.lake.ident(f"ns.{table}")).metadata
        summaries = [(metadata.snapshot(each) or {})["summary"] for each in metadata.snapshot_ids]
        listed = self.local.lake.storage.objects.list("lake", prefix=f"ns/{table}/").objects
        keys = [each.key for each in listed]
        added = sum(int(summary.get("added-data-files", 0)) for summary in summaries)
        assert len([key for key in keys if "/data/" in key]) == added
        assert len([key for key in keys if "/snap-" in key]) == len(summaries)


@pytest.mark.campaign
def test_transactions_of_two_sessions_match_a_plain_model() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call] - hypothesis has no types for it
        TwoSessions,
        settings=settings(
            max_examples=12,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
