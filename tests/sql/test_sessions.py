"""Sessions beside their index; what clients see of them is in tests/sql/rest/test_face.py."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from server.access import model as access
from server.access import tokens
from sql import errors, limits, sessions
from storage import batch as batches
from storage import disk as disks
from storage import errors as storage_errors
from storage import index as indexes

RING = tokens.KeyRing(keys=(tokens.SigningKey(key_id="k", secret=b"k" * 32),), master=b"m" * 32)
ALICE = access.Principal(
    type="user",
    name="alice",
    arn="arn:aws:iam::000000000000:user/alice",
    account_id="000000000000",
    canonical_id="",
    display_name="alice",
)
HOUR_MS = 3_600_000


class FaultyIndex:
    """Sessions over an index whose commits can be counted and made to fail."""

    def __init__(self, index: indexes.Index) -> None:
        self.index = index
        self.now_ms = 1_000_000_000_000
        self.ids = itertools.count(1)
        self.commits: list[batches.Batch] = []
        self.fault: Exception | None = None
        self.principals = {"alice": ALICE}
        self.sessions = self.restarted()

    def restarted(self) -> sessions.Sessions:
        self.sessions = sessions.Sessions(
            index=self,
            ring=RING,
            principal_of=lambda name, context, access_key: self.principals.get(name),
            in_role=lambda user, role: None,
            now_ms=lambda: self.now_ms,
            new_id=lambda: f"{next(self.ids) * 7919:013x}" + "0" * 19,
            limits=sessions.SessionLifetimes(
                token_seconds=1200, master_seconds=3600, idle_seconds=600
            ),
        )
        return self.sessions

    def get(self, store: batches.Store, key: bytes) -> bytes | None:
        return self.index.get(store, key)

    def view(self) -> Any:
        return self.index.view()

    async def commit(self, batch: batches.Batch) -> None:
        self.commits.append(batch)
        if self.fault is not None:
            raise self.fault
        await self.index.commit(batch)

    def stored(self) -> list[int]:
        with self.index.view() as view:
            return [int.from_bytes(key, "big") for key, _ in view.scan(batches.Store.SESSIONS, b"")]

    def code(self, token: str) -> str:
        with pytest.raises(errors.SessionFault) as caught:
            self.sessions.authenticate(token, context={})
        return caught.value.code


def lived(tmp_path: Path, story: Callable[[FaultyIndex], Awaitable[None]]) -> None:
    index = indexes.Index(
        path=tmp_path / "index", disk=disks.Disk(), map_size_bytes=1 << 28, reserve_bytes=1 << 16
    )

    async def live() -> None:
        faulty = FaultyIndex(index)
        await story(faulty)
        await faulty.sessions.stop()

    try:
        asyncio.run(live())
    finally:
        index.close()


async def written(faulty: FaultyIndex) -> None:
    """Let what is under way be written."""
    if faulty.sessions._writing is not None:
        await faulty.sessions._writing


def test_a_statement_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(ALICE)
        await written(faulty)
        assert len(faulty.commits) == 1
        for number in range(5):
            session = faulty.sessions.authenticate(grant.token, context={})
            session.query_ids.append(str(number))
            faulty.sessions.note(session)
        await written(faulty)
        assert len(faulty.commits) == 1
        grant.session.database = "lake"
        faulty.sessions.note(grant.session)
        await written(faulty)
        assert len(faulty.commits) == 2

    lived(tmp_path, story)


def test_many_changes_at_once_are_few_writes(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grants = [faulty.sessions.open(ALICE) for _ in range(50)]
        for grant in grants:
            grant.session.schema = "s"
            faulty.sessions.note(grant.session)
        await written(faulty)
        assert len(faulty.commits) <= 2
        assert len(faulty.stored()) == 50

    lived(tmp_path, story)


def test_a_write_that_fails_is_made_up_for_by_the_next(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        faulty.fault = storage_errors.DiskFull("full")
        grant = faulty.sessions.open(ALICE)
        await written(faulty)
        assert faulty.stored() == []
        assert faulty.sessions.authenticate(grant.token, context={}) is grant.session
        faulty.fault = None
        grant.session.schema = "s"
        faulty.sessions.note(grant.session)
        await written(faulty)
        assert faulty.stored() == [grant.session.id]

    lived(tmp_path, story)


def test_a_full_disk_is_logged_in_one_line_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(faulty: FaultyIndex) -> None:
        faulty.fault = storage_errors.DiskFull("full")
        grant = faulty.sessions.open(ALICE)
        for number in range(20):
            grant.session.schema = f"s{number}"
            faulty.sessions.note(grant.session)
            await written(faulty)
        (record,) = [each for each in caplog.records if each.levelname != "DEBUG"]
        assert "disk is full" in record.getMessage()
        assert record.exc_info is None
        faulty.now_ms += 61_000
        grant.session.schema = "later"
        faulty.sessions.note(grant.session)
        await written(faulty)
        assert len([each for each in caplog.records if each.levelname != "DEBUG"]) == 2

    lived(tmp_path, story)


def test_everything_a_session_remembers_comes_back(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(
            ALICE,
            account_name="acme",
            client_app_id="Go",
            client_app_version="1.19",
            client_ip="127.0.0.1",
            database="lake",
            schema="a.b",
            warehouse="W",
            role="PUBLIC",
            parameters={"TIMEZONE": "UTC", "AUTOCOMMIT": False, "CLIENT_PREFETCH_THREADS": 2},
        )
        grant.session.variables["X"] = sessions.Variable(type="text", text=None)
        faulty.sessions.note(grant.session)
        await faulty.sessions.stop()
        faulty.restarted()
        session = faulty.sessions.authenticate(grant.token, context={"aws:sourceip": "::1"})
        assert session is not grant.session
        for name in (
            "id", "principal", "account_name", "client_app_id", "client_app_version", "client_ip",
            "database", "schema", "warehouse", "role", "parameters", "variables", "generation",
            "master_expires_at_ms",
        ):  # fmt: skip
            assert getattr(session, name) == getattr(grant.session, name), name

    lived(tmp_path, story)


def test_a_closed_session_stays_closed_while_its_removal_is_being_written(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(ALICE)
        await written(faulty)
        faulty.sessions.close(grant.session)
        while len(faulty.commits) < 2:
            assert faulty.code(grant.token) == "390111"
            await asyncio.sleep(0)
        assert faulty.code(grant.token) == "390111"
        await written(faulty)
        assert faulty.stored() == []
        assert faulty.code(grant.token) == "390111"

    lived(tmp_path, story)


def test_the_sweep_drops_sessions_that_cannot_be_renewed(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        old = faulty.sessions.open(ALICE)
        await faulty.sessions.stop()
        faulty.restarted()
        young = faulty.sessions.open(ALICE)
        await written(faulty)
        assert len(faulty.stored()) == 2
        faulty.now_ms += HOUR_MS - 1
        faulty.sessions.sweep()
        await written(faulty)
        assert len(faulty.stored()) == 2
        faulty.now_ms += 1
        faulty.sessions.renew(
            faulty.sessions._issued(young.session, "sf-master", faulty.now_ms), context={}
        )
        faulty.sessions.sweep()
        await written(faulty)
        assert faulty.stored() == [young.session.id]
        assert faulty.code(old.token) == "390114"

    lived(tmp_path, story)


def test_a_longer_idle_time_gives_the_master_token_as_long() -> None:
    assert sessions.SessionLifetimes.of_idle(60) == sessions.SessionLifetimes(
        master_seconds=4 * 3600, idle_seconds=60
    )
    day = 24 * 3600
    assert sessions.SessionLifetimes.of_idle(day) == sessions.SessionLifetimes(
        master_seconds=day, idle_seconds=day
    )


def test_idleness_costs_the_session_token_and_the_open_transaction_alone(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(ALICE, database="lake")
        grant.session.transaction = object()
        faulty.now_ms += 30_000
        faulty.sessions.sweep()
        assert faulty.sessions.authenticate(grant.token, context={}) is grant.session
        faulty.now_ms += 601_000
        faulty.sessions.sweep()
        assert faulty.code(grant.token) == "390112"
        renewed = faulty.sessions.renew(grant.master_token, context={})
        session = faulty.sessions.authenticate(renewed.token, context={})
        assert (session.database, session.transaction) == ("lake", None)
        assert faulty.code(grant.token) == "390112"

    lived(tmp_path, story)


@pytest.mark.parametrize("noticed_by", ["a request", "the sweep"])
def test_a_transaction_ended_by_idleness_is_reported_as_lost(
    tmp_path: Path, noticed_by: str
) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(ALICE)
        held = sessions.Held(receipt_id="1", statements=(("q", ("lake", "ns", "t")),))
        grant.session.transaction, grant.session.held = object(), held
        faulty.now_ms += 601_000
        if noticed_by == "the sweep":
            faulty.sessions.sweep()
        assert faulty.code(grant.token) == "390112"
        renewed = faulty.sessions.renew(grant.master_token, context={})
        session = faulty.sessions.authenticate(renewed.token, context={})
        assert (session.transaction, session.transaction_lost, session.held) == (None, True, held)
        await faulty.sessions.stop()
        faulty.restarted()
        session = faulty.sessions.authenticate(renewed.token, context={})
        assert (session.transaction_lost, session.held) == (True, held)

    lived(tmp_path, story)


def test_a_record_that_does_not_say_what_its_transaction_held_counts_as_lost() -> None:
    record = sessions._encode(sessions.Session(id=1, principal=ALICE))
    fields = orjson.loads(record)
    del fields["transaction"]
    older = sessions._decode(orjson.dumps({**fields, "in_transaction": True}))
    assert older["transaction_lost"]
    assert older["held"] == sessions.Held(receipt_id="", statements=())


def test_rights_are_asked_for_anew_at_each_request(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(ALICE)
        del faulty.principals["alice"]
        assert faulty.code(grant.token) == "390111"
        with pytest.raises(errors.SessionFault):
            faulty.sessions.renew(grant.master_token, context={})

    lived(tmp_path, story)


def test_a_new_user_of_the_same_name_does_not_get_the_session(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        faulty.principals["alice"] = dataclasses.replace(ALICE, principal_id="AIDA1")
        grant = faulty.sessions.open(faulty.principals["alice"])
        faulty.sessions.authenticate(grant.token, context={})
        await written(faulty)
        faulty.principals["alice"] = dataclasses.replace(ALICE, principal_id="AIDA2")
        assert faulty.code(grant.token) == "390111"
        with pytest.raises(errors.SessionFault):
            faulty.sessions.renew(grant.master_token, context={})
        await faulty.sessions.stop()
        faulty.restarted()
        assert faulty.code(grant.token) == "390111"
        faulty.principals["alice"] = dataclasses.replace(ALICE, principal_id="AIDA1")
        faulty.sessions.authenticate(grant.token, context={})

    lived(tmp_path, story)


def test_too_many_sessions_of_one_principal_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SESSIONS_OF_ONE_MAX", 2)

    async def story(faulty: FaultyIndex) -> None:
        for _ in range(2):
            faulty.sessions.open(ALICE)
        with pytest.raises(errors.SessionFault, match="alice has 2 sessions"):
            faulty.sessions.open(ALICE)
        in_role = dataclasses.replace(ALICE, type="assumed-role", name="etl/alice")
        with pytest.raises(errors.SessionFault, match="alice has 2 sessions"):
            faulty.sessions.open(in_role, user=ALICE)
        faulty.sessions.open(dataclasses.replace(ALICE, name="bob"))

    lived(tmp_path, story)


def test_too_many_sessions_refuse_the_next_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SESSIONS_MAX", 3)

    async def story(faulty: FaultyIndex) -> None:
        for _ in range(3):
            faulty.sessions.open(ALICE)
        with pytest.raises(errors.SessionFault, match="3 sessions"):
            faulty.sessions.open(ALICE)

    lived(tmp_path, story)


def test_a_session_with_temporary_tables_ends_with_the_server(tmp_path: Path) -> None:
    async def story(faulty: FaultyIndex) -> None:
        grant = faulty.sessions.open(ALICE)
        before = sessions.mark(grant.session)
        grant.session.temporary_bucket = "_temporary-1"
        assert sessions.mark(grant.session) != before
        await faulty.sessions.settle(grant.session)
        faulty.restarted()
        assert faulty.code(grant.token) == "390111"
        with pytest.raises(errors.SessionFault):
            faulty.sessions.renew(grant.master_token, context={})
        await written(faulty)
        assert faulty.stored() == []

    lived(tmp_path, story)


@pytest.mark.parametrize("noticed_by", ["a request", "the sweep", "a logout"])
def test_a_session_with_temporary_tables_that_ends_gives_them_up(
    tmp_path: Path, noticed_by: str
) -> None:
    async def story(faulty: FaultyIndex) -> None:
        given_up: list[str] = []
        faulty.sessions.add_bucket_ending(given_up.append)
        grant = faulty.sessions.open(ALICE)
        grant.session.temporary_bucket = "_temporary-1"
        if noticed_by == "a logout":
            faulty.sessions.close(grant.session)
        else:
            faulty.now_ms += 601_000
        if noticed_by == "the sweep":
            faulty.sessions.sweep()
        assert faulty.code(grant.token) == "390111"
        assert given_up == ["_temporary-1"]
        assert (grant.session.temporary_bucket, grant.session.is_closed) == (None, True)
        with pytest.raises(errors.SessionFault):
            faulty.sessions.renew(grant.master_token, context={})

    lived(tmp_path, story)


def test_a_record_of_the_first_format_is_read_for_ever() -> None:
    record = (
        b'{"format":1,"principal":"alice","account_name":"acme","client_app_id":"Go",'
        b'"client_app_version":"1","client_ip":"::1","database":"lake","schema":null,'
        b'"warehouse":"LOCAL","role":"PUBLIC","parameters":{"AUTOCOMMIT":true},'
        b'"variables":{"X":["fixed","1"]},"generation":2,"master_expires_at_ms":5}'
    )
    fields = sessions._decode(record)
    assert fields.pop("principal") == "alice"
    session = sessions.Session(id=1, principal=ALICE, **fields)
    assert session.variables == {"X": sessions.Variable(type="fixed", text="1")}
    assert session.parameter("AUTOCOMMIT") is True
    assert session.parameter("TIMEZONE") == "UTC"
    assert (session.generation, session.master_expires_at_ms) == (2, 5)
