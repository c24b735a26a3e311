"""Queries without HTTP; what clients see of them is in tests/sql/rest/test_face.py."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from server.access import errors as access_errors
from server.access import model as access
from server.access import tokens
from sql import errors, outcomes, parameters, queries, sessions, transfers
from sql import limits as bounds
from storage import batch as batches
from storage import index as indexes
from tests.kit.waits import WAIT_SECONDS
from tests.sql.rest import served

NUMBER = outcomes.Column(name="N", type="fixed", precision=19, scale=0)


def lived(
    folder: Path,
    story: Callable[[served.Parts, sessions.Session], Awaitable[None]],
    limits: queries.ResultLimits | None = None,
) -> None:
    async def live(parts: served.Parts) -> None:
        try:
            root = access.Principal(
                type="root", name="root", arn="", account_id="", canonical_id="", display_name=""
            )
            await story(parts, parts.sessions.open(root).session)
        finally:
            await parts.face.stop()

    with served.opened(folder, query_limits=limits) as parts:
        asyncio.run(live(parts))


def submit(parts: served.Parts, session: sessions.Session, text: str) -> queries.SubmittedQuery:
    return parts.queries.submit(session, queries.Submission(text=text))


def test_an_answer_carries_the_context_after_the_statement(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def use(call: served.Call) -> outcomes.Outcome:
            call.session.database, call.session.schema = "lake", "s"
            call.session.parameters["QUERY_TAG"] = "after"
            return outcomes.status("ok", outcomes.StatementType.USE_SCHEMA)

        parts.statements.answers["use"] = use
        query = submit(parts, session, "use")
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert query.result is not None
        assert (query.result.database, query.result.schema) == ("lake", "s")
        session.parameters["QUERY_TAG"] = "later"
        assert query.result.parameters == {"QUERY_TAG": "after"}
        assert list(session.query_ids) == [query.id]
        assert (session.running, parts.queries.running) == (0, 0)

    lived(tmp_path, story)


@pytest.mark.parametrize(("own", "rows"), [({}, 3), ({"ROWS_PER_RESULTSET": 2}, 2)])
def test_a_result_has_at_most_rows_per_resultset(
    tmp_path: Path, own: dict[str, parameters.Value], rows: int
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        session.parameters["ROWS_PER_RESULTSET"] = 3
        columns = (outcomes.Column(name="N", type="fixed", precision=38),)
        batch = pa.record_batch({"N": pa.array([1, 2], pa.int64())})
        parts.statements.table("select n", columns, batch, batch, batch)
        listed = outcomes.Outcome(
            columns=columns,
            rows=((1,), (2,), (3,), (4,)),
            statement_type_id=outcomes.StatementType.SELECT,
        )
        parts.statements.outcome("show n", listed)
        for text, expected in (
            ("select n", [["1"], ["2"], ["1"]]),
            ("show n", [["1"], ["2"], ["3"]]),
        ):
            submission = queries.Submission(text=text, parameters=own, select_format="json")
            query = parts.queries.submit(session, submission)
            assert await parts.queries.wait(query, WAIT_SECONDS)
            assert query.result is not None, query.error
            assert query.result.total == rows
            assert json.loads(query.result.inline) == expected[:rows]

    lived(tmp_path, story)


def test_a_result_stream_is_closed_when_it_fails_or_is_cancelled(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        closed: list[str] = []
        reached = asyncio.Event()

        def answer(name: str, ends: str) -> None:
            async def stream() -> AsyncIterator[pa.RecordBatch]:
                try:
                    yield pa.record_batch([pa.array([1])], names=["n"])
                    if ends == "fault":
                        raise errors.division_by_zero()
                    reached.set()
                    await asyncio.sleep(60)
                finally:
                    closed.append(name)

            parts.statements.outcome(
                name,
                outcomes.Outcome(
                    columns=(NUMBER,),
                    batches=stream(),
                    statement_type_id=outcomes.StatementType.SELECT,
                ),
            )

        answer("select fault", "fault")
        failing = submit(parts, session, "select fault")
        await parts.queries.wait(failing, WAIT_SECONDS)
        assert failing.error is not None
        assert failing.error.code == "100051"
        answer("select endless", "cancel")
        endless = submit(parts, session, "select endless")
        await asyncio.wait_for(reached.wait(), WAIT_SECONDS)
        assert parts.queries.cancel(endless)
        await parts.queries.wait(endless, WAIT_SECONDS)
        assert endless.status == "FAILED_WITH_ERROR"
        assert closed == ["select fault", "select endless"]
        assert not parts.queries.cancel(endless)

    lived(tmp_path, story)


def test_a_stream_that_holds_what_its_columns_deny_is_our_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        floats = pa.record_batch([pa.array([1.5])], names=["n"])
        parts.statements.table("select wrong", [NUMBER], floats)
        query = submit(parts, session, "select wrong")
        await parts.queries.wait(query, WAIT_SECONDS)
        assert query.error is not None
        assert query.error.code == "000603"
        assert query.id in query.error.message
        assert "double" not in query.error.message

    with caplog.at_level(logging.CRITICAL):
        lived(tmp_path, story)


def test_what_the_caller_may_not_is_answered_in_sql(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def denied(call: served.Call) -> outcomes.Outcome:
            raise access_errors.AccessDenied(
                "s3tables:GetTableData on arn:x is not allowed", action="a", resource="r"
            )

        parts.statements.answers["select hidden"] = denied
        query = submit(parts, session, "select hidden")
        await parts.queries.wait(query, WAIT_SECONDS)
        assert query.error is not None
        assert (query.error.code, query.error.sqlstate) == ("003001", "42501")
        assert "s3tables:GetTableData" in query.error.message

    lived(tmp_path, story)


def test_a_kept_error_does_not_keep_what_the_statement_held(tmp_path: Path) -> None:
    class Held:
        """What a statement reads: large metadata, a view of the index."""

    kept: list[weakref.ref[Held]] = []

    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def failing(call: served.Call) -> outcomes.Outcome:
            held = Held()
            kept.append(weakref.ref(held))
            try:
                raise LookupError("not there")
            except LookupError as error:
                raise errors.unsupported("this") from error

        parts.statements.answers["one"] = parts.statements.answers["two"] = failing
        for text in ("one", "one; two"):
            query = submit(parts, session, text)
            await parts.queries.wait(query, WAIT_SECONDS)
            assert query.error is not None
            await asyncio.sleep(0)
        gc.collect()
        assert [each() for each in kept] == [None] * len(kept)
        assert kept

    lived(tmp_path, story)


def test_old_answers_are_swept_and_requests_of_dead_sessions_with_them(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        first = submit(parts, session, "select 1")
        await parts.queries.wait(first, WAIT_SECONDS)
        parts.clock.added_ms = 5_000
        second = submit(parts, session, "select 1")
        await parts.queries.wait(second, WAIT_SECONDS)
        parts.clock.added_ms = 12_000
        parts.queries.sweep()
        assert parts.queries.find(session, first.id) is None
        assert parts.queries.find(session, second.id) is second
        parts.sessions.close(session)
        parts.queries.sweep()
        assert parts.queries._requests == {}

    lived(tmp_path, story, queries.ResultLimits(result_seconds=10))


def test_statements_of_a_silent_client_end_where_its_session_wants_that(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def endless(call: served.Call) -> outcomes.Outcome:
            await asyncio.Event().wait()
            raise AssertionError

        parts.statements.answers["endless"] = endless
        patient = parts.sessions.open(session.principal).session
        session.parameters[parameters.ABORT_DETACHED] = True
        aborted, kept = submit(parts, session, "endless"), submit(parts, patient, "endless")
        await asyncio.sleep(0)
        parts.clock.added_ms = 299_000
        parts.queries.sweep()
        await asyncio.sleep(0)
        assert (aborted.status, kept.status) == ("RUNNING", "RUNNING")
        parts.clock.added_ms = 301_000
        parts.queries.sweep()
        assert await parts.queries.wait(aborted, WAIT_SECONDS)
        assert aborted.error is not None
        assert aborted.error.code == "000604"
        assert kept.status == "RUNNING"
        parts.queries.cancel(kept)

    lived(tmp_path, story)


def test_memory_for_answers_is_bounded_and_the_newest_answer_stays(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        text = outcomes.Column(name="T", type="text")
        row = pa.record_batch([pa.array(["x" * 50_000])], names=["t"])
        submitted = []
        for number in range(10):
            parts.statements.table(f"select {number}0", [text], row)
            submitted.append(submit(parts, session, f"select {number}0"))
            await parts.queries.wait(submitted[-1], WAIT_SECONDS)
        kept = [query for query in submitted if parts.queries.find(session, query.id)]
        assert submitted[-1] in kept
        assert 1 <= len(kept) <= 3
        assert kept == submitted[-len(kept) :]
        assert parts.queries._kept.total("inline") <= 200_000

    lived(tmp_path, story, queries.ResultLimits(inline_bytes_max=200_000))


def another(parts: served.Parts, session: sessions.Session) -> sessions.Session:
    """Return a session of another principal."""
    bob = dataclasses.replace(session.principal, name="bob")
    return parts.sessions.open(bob).session


def test_many_results_of_one_principal_displace_no_result_of_another(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        bobs = another(parts, session)
        kept = submit(parts, bobs, "select 1")
        await parts.queries.wait(kept, WAIT_SECONDS)
        many = [submit(parts, session, "select 1") for _ in range(20)]
        for query in many:
            await parts.queries.wait(query, WAIT_SECONDS)
        assert parts.queries.find(bobs, kept.id) is kept
        assert [query for query in many if parts.queries.find(session, query.id)] == many[-7:]

    lived(tmp_path, story, queries.ResultLimits(results_max=8))


def test_a_new_user_of_a_name_does_not_see_queries_of_the_one_before(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        first, again, second = (
            dataclasses.replace(
                session, principal=dataclasses.replace(session.principal, principal_id=number)
            )
            for number in ("AIDA1", "AIDA1", "AIDA2")
        )
        query = submit(parts, first, "select 1")
        await parts.queries.wait(query, WAIT_SECONDS)
        assert parts.queries.find(again, query.id) is query
        assert parts.queries.find(second, query.id) is None

    lived(tmp_path, story)


def test_a_growing_result_displaces_no_smaller_ones_of_another_principal(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        bobs = another(parts, session)
        rows = pa.record_batch([pa.array(range(400_000))], names=["n"])
        parts.statements.table("select some", [NUMBER], rows)
        kept = submit(parts, bobs, "select some")
        await parts.queries.wait(kept, WAIT_SECONDS)
        assert kept.result is not None
        assert kept.result.chunks
        rows = pa.record_batch([pa.array(range(1_000_000))], names=["n"])
        parts.statements.table("select many", [NUMBER], rows)
        refused = submit(parts, session, "select many")
        await parts.queries.wait(refused, WAIT_SECONDS)
        assert refused.error is not None
        assert refused.error.code == "000625"
        assert parts.queries.find(bobs, kept.id) is kept

    lived(tmp_path, story, queries.ResultLimits(results_bytes_max=8_000_000))


def test_too_many_running_statements_refuse_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "STATEMENTS_RUNNING_MAX", 2)

    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def endless(call: served.Call) -> outcomes.Outcome:
            await asyncio.sleep(60)
            raise AssertionError

        parts.statements.answers["select endless"] = endless
        for _ in range(2):
            submit(parts, session, "select endless")
        await asyncio.sleep(0)
        with pytest.raises(errors.SqlError, match="2 statements are running"):
            submit(parts, session, "select endless")

    lived(tmp_path, story)


def test_a_statement_aborted_before_its_first_step_is_answered_all_the_same(
    tmp_path: Path,
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        query = submit(parts, session, "select 1")
        assert parts.queries.cancel(query)
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert query.status == "FAILED_WITH_ERROR"
        assert parts.statements.calls == []
        assert (session.running, parts.queries.running) == (0, 0)

    lived(tmp_path, story)


def test_stopping_ends_everything_that_runs(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def endless(call: served.Call) -> outcomes.Outcome:
            await asyncio.sleep(60)
            raise AssertionError

        parts.statements.answers["select endless"] = endless
        submitted = [submit(parts, session, "select endless") for _ in range(3)]
        await asyncio.sleep(0)
        await parts.queries.stop()
        assert {query.status for query in submitted} == {"FAILED_WITH_ERROR"}
        assert parts.queries.running == 0

    lived(tmp_path, story)


class Gate:
    """Commits of an index that wait until they are let through."""

    def __init__(self, index: indexes.Index) -> None:
        self._commit = index.commit
        self.reached, self.allowed = asyncio.Event(), asyncio.Event()

    async def commit(self, batch: batches.Batch) -> None:
        self.reached.set()
        await self.allowed.wait()
        await self._commit(batch)


@pytest.mark.parametrize(
    ("transaction", "changed", "is_open"), [(None, object(), True), (object(), None, False)]
)
def test_an_answer_that_changes_the_transaction_waits_until_its_record_is_on_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transaction: object,
    changed: object,
    is_open: bool,
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def change(call: served.Call) -> outcomes.Outcome:
            call.session.transaction = changed
            return outcomes.status("ok", outcomes.StatementType.BEGIN)

        parts.statements.answers["change"] = change
        session.transaction = transaction
        await parts.sessions.settle(session)
        gate = Gate(parts.index)
        monkeypatch.setattr(parts.index, "commit", gate.commit)
        query = submit(parts, session, "change")
        await gate.reached.wait()
        was_finished = query.is_finished
        gate.allowed.set()
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert not was_finished
        record = parts.index.get(batches.Store.SESSIONS, session.id.to_bytes(8, "big"))
        assert record is not None
        assert sessions._decode(record)["transaction_lost"] is is_open

    lived(tmp_path, story)


def test_other_answers_do_not_wait_for_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        await parts.sessions.settle(session)
        gate = Gate(parts.index)
        monkeypatch.setattr(parts.index, "commit", gate.commit)
        session.schema = "elsewhere"
        query = submit(parts, session, "select 1")
        is_answered = await parts.queries.wait(query, WAIT_SECONDS)
        gate.allowed.set()
        assert is_answered

    lived(tmp_path, story)


def test_a_finished_statement_keeps_a_head_of_its_text_and_a_repeated_one_is_known(
    tmp_path: Path,
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        text = "select " + "x" * 1_000_000
        parts.statements.outcome(text, outcomes.status("ok"))
        submission = queries.Submission(text=text, request_id="r1")
        query = parts.queries.submit(session, submission)
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert query.submission.text == text[:4096]
        assert parts.queries.submit(session, submission) is query
        other = queries.Submission(text=text + "y", request_id="r1")
        with pytest.raises(errors.SqlError) as caught:
            parts.queries.submit(session, other)
        assert caught.value.code == "000607"

    lived(tmp_path, story)


def test_the_record_of_a_failed_statement_has_a_head_of_its_message(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def fail(call: served.Call) -> outcomes.Outcome:
            raise errors.unsupported("x" * 100_000)

        parts.statements.answers["select long"] = fail
        await parts.queries.wait(submit(parts, session, "select long"), WAIT_SECONDS)
        (record,) = parts.queries.recorded(session, sees_all=False)
        assert record.error_message is not None
        assert len(record.error_message) == bounds.TEXT_KEPT_LENGTH_MAX

    lived(tmp_path, story)


def test_running_statements_hold_a_bounded_size_and_number_for_each_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PENDING_OF_ONE_BYTES_MAX", 10_000)
    monkeypatch.setattr(bounds, "STATEMENTS_RUNNING_OF_ONE_MAX", 2)

    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def wait(call: served.Call) -> outcomes.Outcome:
            await asyncio.sleep(60)
            raise AssertionError

        for text in ("wait 1", "wait 2"):
            parts.statements.answers[text] = wait
        with pytest.raises(errors.SqlError) as caught:
            submit(parts, session, "x" * 10_001)
        assert (caught.value.code, caught.value.sqlstate) == ("000625", "53200")
        running = [submit(parts, session, text) for text in ("wait 1", "wait 2")]
        with pytest.raises(errors.SqlError) as caught:
            submit(parts, session, "wait 1")
        assert "2 statements are running" in caught.value.message
        bob = access.Principal(
            type="user", name="bob", arn="", account_id="", canonical_id="", display_name=""
        )
        running.append(submit(parts, parts.sessions.open(bob).session, "wait 1"))
        assert parts.queries.running == 3
        for query in running:
            parts.queries.cancel(query)
            await parts.queries.wait(query, WAIT_SECONDS)
        assert parts.queries.running == 0

    lived(tmp_path, story)


def test_a_flow_runs_its_statements_in_turn_and_returns_the_last_result(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        parts.sessions.refresh(session)
        seen: list[tuple[str, list[str]]] = []

        async def answer(call: served.Call) -> outcomes.Outcome:
            seen.append((call.text, list(call.flow_ids)))
            return outcomes.Outcome(
                columns=(NUMBER,),
                rows=[(len(seen),)],
                statement_type_id=outcomes.StatementType.SHOW,
            )

        for text in ("show a", "select '->>' from $1", "select 3"):
            parts.statements.answers[text] = answer
        flow = "show a ->> select '->>' from $1\n->>select 3"
        query = submit(parts, session, flow)
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert query.result is not None
        assert (query.result.inline, query.result.children) == (b'[["3"]]', ())
        first, second, third, whole = session.query_ids
        assert seen == [
            ("show a", []),
            ("select '->>' from $1", [first]),
            ("select 3", [first, second]),
        ]
        assert (whole, len({first, second, third, whole})) == (query.id, 4)
        assert (await parts.queries.stored(session, first)).inline == b'[["1"]]'
        # A statement that fails ends the flow.
        for text in ("show a ->> no such", "show a ->>", "->> show a"):
            failed = submit(parts, session, text)
            await parts.queries.wait(failed, WAIT_SECONDS)
            assert failed.error is not None
            assert failed.error.code == "001003", text

    lived(tmp_path, story)


async def code_of(result: Awaitable[object]) -> str:
    with pytest.raises(errors.SqlError) as refusal:
        await result
    return refusal.value.code


TRANSFER = transfers.Transfer(
    command="UPLOAD",
    style="S3",
    bucket="boathouse-stages",
    prefix="named/1/",
    sources=("/tmp/x",),
    local="",
    parallel=4,
    keys=tokens.VendedKeys(access_key="ASIA", secret_key="s", session_token="t", expires_at_ms=1),
    region="us-east-1",
    signed_at_ms=0,
)
"""As PUT answers."""


@pytest.mark.parametrize("credential", [{"is_secret": True}, {"transfer": TRANSFER}])
def test_a_result_with_a_credential_is_for_the_session_that_ran_it(
    tmp_path: Path, credential: dict[str, Any]
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        secret = outcomes.Outcome(
            columns=(outcomes.Column(name="token_secret", type="text"),),
            rows=(("BHPT.x",),),
            statement_type_id=outcomes.StatementType.DDL,
            **credential,
        )
        parts.statements.outcome("add", secret)
        query = parts.queries.submit(session, queries.Submission(text="add", request_id="r1"))
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert query.result is not None
        assert json.loads(query.result.inline) == [["BHPT.x"]]
        again = parts.queries.submit(session, queries.Submission(text="add", request_id="r1"))
        assert again is query
        other = parts.sessions.open(session.principal).session
        assert parts.queries.may_fetch(session, query)
        assert not parts.queries.may_fetch(other, query)
        for reader in (session, other):
            assert await code_of(parts.queries.stored(reader, query.id)) == "000709"
            scan = submit(parts, reader, f"select * from table(result_scan('{query.id}'))")
            assert await parts.queries.wait(scan, WAIT_SECONDS)
            assert scan.error is not None
            assert scan.error.code == "000709"

    lived(tmp_path, story)


@pytest.mark.parametrize("text", ["select 1; revoke; select 2", "select 1 ->> revoke ->> select 2"])
def test_statements_after_the_end_of_the_sessions_credential_do_not_run(
    tmp_path: Path, text: str
) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        async def revoke(call: served.Call) -> outcomes.Outcome:
            gone = "BHPT" + "A" * 16  # as after REMOVE: no row has this id
            call.session.principal = dataclasses.replace(call.session.principal, access_key=gone)
            return outcomes.status("ok")

        parts.statements.answers["revoke"] = revoke
        parts.statements.table("select 2", [NUMBER], pa.record_batch([pa.array([2])], names=["n"]))
        session.parameters["MULTI_STATEMENT_COUNT"] = 0
        query = submit(parts, session, text)
        assert await parts.queries.wait(query, WAIT_SECONDS)
        assert query.error is not None
        assert query.error.code == "390111"
        assert [call.text for call in parts.statements.calls] == ["select 1", "revoke"]

    lived(tmp_path, story)


def test_a_stored_result_is_its_owners_alone(tmp_path: Path) -> None:
    async def story(parts: served.Parts, session: sessions.Session) -> None:
        parts.statements.table(
            "select n", [NUMBER], pa.record_batch([pa.array([7, 8])], names=["n"])
        )
        query = submit(parts, session, "select n")
        result = await parts.queries.stored(session, query.id)  # waits for its end
        assert (result.format, list(result.columns), result.chunks) == ("arrow", [NUMBER], ())
        other = access.Principal(
            type="user", name="x", arn="", account_id="", canonical_id="", display_name=""
        )
        stranger = parts.sessions.open(other).session
        failing = submit(parts, session, "no such statement")
        await parts.queries.wait(failing, WAIT_SECONDS)
        for owner, query_id, code in (
            (stranger, query.id, "000709"),
            (session, "no such query", "000709"),
            (session, failing.id, "001003"),
        ):
            with pytest.raises(errors.SqlError) as refusal:
                await parts.queries.stored(owner, query_id)
            assert refusal.value.code == code

    lived(tmp_path, story)
