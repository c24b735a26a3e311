"""engine: submitted queries: their tasks, their states, and their stored results.

A query outlives the request that submits it. A client may disconnect and later ask for the result
by the same requestId or by the query's id; a statement never runs twice for one requestId.
Therefore each query runs in a task of its own. Results are stored within bounds, and only their
owner may fetch them. A request for a result that is no longer stored gets an error; the query does
not run again.

Rows are encoded while they arrive: first the inline rows, then chunks. This module uses no HTTP and
no JSON bodies (`sql.rest` does), and reads no SQL except through `sql.controls`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import logging
import re
import uuid
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

from server.access import errors as access_errors
from sql import (
    bindings,
    chunks,
    controls,
    encode,
    errors,
    faults,
    limits,
    outcomes,
    parameters,
    results,
    sessions,
    shelves,
    statement_log,
    transfers,
    warehouserows,
)
from sql.dialect import filling, names, parse
from storage import errors as storage_errors
from storage import model

FLOW = "->>"
"""Joins statements of which each reads the results of those before it."""


class StatementRunner(Protocol):
    """Runs one statement; implemented by `sql.statements`."""

    async def execute(
        self,
        session: sessions.Session,
        text: str,
        *,
        bindings: Mapping[str, bindings.Binding],
        parameters: Mapping[str, parameters.Value],
        describe_only: bool,
        query_id: str,
        results: results.StoredResults,
        flow_ids: Sequence[str] = (),
    ) -> outcomes.Outcome:
        """Run text and return its outcome; raises SqlError. Cancelling it ends the query.

        query_id: the same when a client repeats a request after a restart of the server. results:
        what RESULT_SCAN reads. flow_ids: the queries before it in a flow (`->>`), the nearest last.
        """

    def waiting(self) -> frozenset[str]:
        """Return the ids of the statements whose query waits for a child."""


class Split(Protocol):
    """Splits a text into its statements; comments and blanks alone are not a statement."""

    async def __call__(self, text: str, *, owner: str) -> Sequence[str]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultLimits:
    """Bounds of statements and of their stored results.

    timeout_seconds: of a statement; it also bounds a session's own timeout. inline_bytes_max: of
    answers and texts in memory. results_bytes_max: of chunks, in memory and in files.
    result_seconds: how long a result with chunks is stored. read_seconds: how long it is stored
    after the last fetch, once each chunk was fetched or its session ended; drivers fetch a chunk
    again when a connection breaks.
    """

    timeout_seconds: int = 1200
    results_max: int = limits.RESULTS_MAX
    inline_bytes_max: int = limits.RESULTS_INLINE_BYTES_MAX
    results_bytes_max: int = 8 << 30
    result_seconds: int = limits.RESULT_SECONDS
    read_seconds: int = limits.RESULT_READ_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One request to run a text. select_format: the format of a SELECT's rows."""

    text: str
    request_id: str = ""
    bindings: Mapping[str, bindings.Binding] = field(default_factory=dict)
    parameters: Mapping[str, parameters.Value] = field(default_factory=dict)
    describe_only: bool = False
    is_async: bool = False
    select_format: results.Format = "arrow"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Rows that the client fetches separately from the answer."""

    rows: int
    kept: shelves.ShelvedBytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A finished statement's answer, encoded.

    inline: JSON, ready for the body: for arrow the base64 text of a stream (empty for no rows), for
    json the list of rows. total: all rows, those of chunks included. size_bytes: of the chunks.
    children: (query id, statement type) of a multi-statement. is_secret: its rows are a credential,
    or the keys of its transfer are one.
    The context and the parameters are those right after the statement, in stored spelling.
    """

    columns: Sequence[outcomes.Column]
    statement_type_id: int
    format: results.Format
    inline: bytes
    total: int
    size_bytes: int
    database: str | None
    schema: str | None
    warehouse: str
    role: str
    parameters: Mapping[str, parameters.Value]
    chunks: tuple[Chunk, ...] = ()
    stats: outcomes.Stats | None = None
    bind_count: int = 0
    array_bind_supported: bool = False
    children: tuple[tuple[str, int], ...] = ()
    transfer: transfers.Transfer | None = None
    is_secret: bool = False


Status = Literal["QUEUED", "RUNNING", "SUCCESS", "FAILED_WITH_ERROR", "ABORTING"]


@dataclass(kw_only=True, slots=True, eq=False)
class SubmittedQuery:
    """One statement, from its submission until its result is dropped. Mutable.

    unfetched: chunks that no client has fetched yet. touched_at_ms: the time of the last fetch, or
    of the session's end. user, role, database, schema, tag: the session's when it began.
    """

    id: str
    session_id: int
    owner: str
    warehouse: str
    submission: Submission
    started_at_ms: int
    user: str
    role: str
    database: str | None
    schema: str | None
    tag: str
    ended_at_ms: int | None = None
    result: Result | None = None
    error: errors.SqlError | None = None
    task: asyncio.Task[None] | None = None
    is_begun: bool = False
    is_cancelled: bool = False
    is_abandoned: bool = False
    unfetched: set[int] = field(default_factory=set)
    touched_at_ms: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the query has a result or an error."""
        return self.result is not None or self.error is not None

    @property
    def status(self) -> Status:
        """The status, which says RUNNING of a statement that waits.

        A statement that was cancelled has failed, as Snowflake's drivers expect.
        """
        if self.result is not None:
            return "SUCCESS"
        if self.error is not None:
            return "FAILED_WITH_ERROR"
        return "ABORTING" if self.is_cancelled else "RUNNING"


class Queries:
    """All queries that run or whose results are stored."""

    def __init__(
        self,
        *,
        statements: StatementRunner,
        sessions: sessions.Sessions,
        split: Split,
        shelf: shelves.Shelf,
        now_ms: model.NowMs,
        new_id: model.NewId,
        warehouses: warehouserows.WarehouseRows,
        limits: ResultLimits | None = None,
    ) -> None:
        self._statements = statements
        self._warehouses = warehouses
        self._sessions = sessions
        self._split = split
        self._shelf = shelf
        self._now_ms = now_ms
        self._new_id = new_id
        self.limits = limits or ResultLimits()
        self._queries: dict[str, SubmittedQuery] = {}
        self._kept = KeptQueries()
        self._recorded = statement_log.StatementLog()
        self._growing_bytes: Counter[str] = Counter()
        self._pending = RunningQueries()
        self._requests: dict[int, OrderedDict[str, tuple[str, bytes]]] = {}
        self._log = logging.getLogger("boathouse.sql.queries")
        sessions.add_chore(self.sweep)

    def status(self, query: SubmittedQuery) -> Status:
        """Return the status of a query as the monitoring request reports it."""
        status = query.status
        if status == "RUNNING" and query.id in self._statements.waiting():
            return "QUEUED"
        return status

    @property
    def running(self) -> int:
        """The number of statements that run or wait."""
        return self._pending.count()

    def submit(self, session: sessions.Session, submission: Submission) -> SubmittedQuery:
        """Start a statement, or return the one that this requestId already started.

        Raises SqlError if the requestId belongs to another text, if its result is no longer
        stored, or if too many statements run.
        """
        requests = self._requests.setdefault(session.id, OrderedDict())
        if submission.request_id and submission.request_id in requests:
            query_id, digest = requests[submission.request_id]
            if digest != _digest(submission.text):
                raise errors.request_id_reused(submission.request_id)
            if query_id not in self._queries:
                raise errors.result_unknown(query_id)
            return self._queries[query_id]
        self._check_room(session.owner, submission)
        query_id = self._query_id(session, submission.request_id)
        if query_id in self._queries:
            return self._queries[query_id]
        query = self._new_query(session, submission, query_id)
        if submission.request_id:
            requests[submission.request_id] = (query.id, _digest(submission.text))
            while len(requests) > limits.REQUEST_IDS_MAX:
                requests.popitem(last=False)
        self._pending.add(query.owner, _pending_size(submission))
        query.task = asyncio.get_running_loop().create_task(self._run(query, session))
        return query

    def _check_room(self, owner: str, submission: Submission) -> None:
        """Raise SqlError if too many statements run, or theirs are too large together."""
        size = _pending_size(submission)
        for running, most in (
            (self._pending.count(), limits.STATEMENTS_RUNNING_MAX),
            (self._pending.count(owner), limits.STATEMENTS_RUNNING_OF_ONE_MAX),
        ):
            if running >= most:
                raise errors.resources_exhausted(f"{most} statements are running")
        for held, most in (
            (self._pending.size_bytes(), limits.PENDING_BYTES_MAX),
            (self._pending.size_bytes(owner), limits.PENDING_OF_ONE_BYTES_MAX),
        ):
            if held + size > most:
                raise errors.resources_exhausted(
                    f"texts and binds of running statements take more than {most >> 20} MiB"
                )

    async def wait(self, query: SubmittedQuery, seconds: float) -> bool:
        """Wait at most seconds for the query to end; return whether it ended."""
        if not query.is_finished and query.task is not None:
            await asyncio.wait((query.task,), timeout=seconds)
        return query.is_finished

    def find(self, session: sessions.Session, query_id: str) -> SubmittedQuery | None:
        """Return a query that the session's principal may see: its own, of any session."""
        query = self._queries.get(query_id.lower())
        if query is None or query.owner != session.owner:
            return None
        return query

    def may_fetch(self, session: sessions.Session, query: SubmittedQuery) -> bool:
        """Return whether a session may have the result of a query that it sees and that has ended.

        A result with a credential is for the session that asked for it: other sessions of the user
        may be restricted to a role, or end sooner than the credential.
        """
        is_secret = query.result is not None and query.result.is_secret
        return not is_secret or query.session_id == session.id

    def find_request(self, session: sessions.Session, request_id: str) -> SubmittedQuery | None:
        """Return the query that a requestId of this session started."""
        requests = self._requests.get(session.id)
        request = None if requests is None else requests.get(request_id)
        return None if request is None else self._queries.get(request[0])

    def chunk(self, query_id: str, index: int, *, is_fetched: bool = True) -> Chunk | None:
        """Return a chunk of a stored result. The caller has checked the signature of its URL.

        is_fetched: its bytes are sent, so that the result may go once all its chunks have been.
        """
        query = self._queries.get(query_id)
        if query is None or query.result is None or not 0 <= index < len(query.result.chunks):
            return None
        chunk = query.result.chunks[index]
        if is_fetched:
            query.unfetched.discard(index)
            query.touched_at_ms = self._now_ms()
            self._shelf.note_fetched(chunk.kept)
        return chunk

    def cancel(self, query: SubmittedQuery) -> bool:
        """Cancel a query; return False if it has ended already."""
        if query.is_finished or query.task is None:
            return False
        query.is_cancelled = True
        if query.is_begun:
            query.task.cancel()
        # A task that is cancelled before its first step never runs, so it could not store a result.
        # Such a task starts, and ends when it sees that it is cancelled.
        return True

    def end_session(self, session: sessions.Session) -> None:
        """Cancel the queries that a closed session waits for; asynchronous ones continue.

        Results that the session has not read are stored for `read_seconds` more.
        """
        self._requests.pop(session.id, None)
        for query in list(self._queries.values()):
            if query.session_id == session.id and not query.submission.is_async:
                self.cancel(query)
                self._abandon(query)

    def _abandon(self, query: SubmittedQuery) -> None:
        if not query.is_abandoned:
            query.is_abandoned = True
            query.touched_at_ms = self._now_ms()

    def sweep(self) -> None:
        """Drop results that are old or were read, and requestIds of ended sessions.

        Cancels the statements of silent clients whose sessions want that.
        """
        self._drop_spent()
        for query in list(self._queries.values()):
            if not query.is_finished and self._sessions.is_detached(query.session_id):
                self.cancel(query)
        oldest_ms = self._now_ms() - self.limits.result_seconds * 1000
        for query in self._kept.all():
            if (query.ended_at_ms or 0) <= oldest_ms:
                self._drop(query)
        for session_id in [s for s in self._requests if not self._sessions.is_known(s)]:
            del self._requests[session_id]

    def _drop_spent(self) -> None:
        """Drop results with chunks whose time has passed."""
        now_ms = self._now_ms()
        for query in self._kept.all():
            if query.result is None or not query.result.chunks:
                continue
            if not query.submission.is_async and not self._sessions.is_known(query.session_id):
                self._abandon(query)
            wanted = query.unfetched and not query.is_abandoned
            if not wanted and now_ms - query.touched_at_ms >= self.limits.read_seconds * 1000:
                self._drop(query)

    async def stop(self) -> None:
        """Cancel all running queries, and wait until they end."""
        tasks = [query.task for query in self._queries.values() if query.task is not None]
        for query in list(self._queries.values()):
            self.cancel(query)
        if tasks:
            await asyncio.wait(tasks)

    # One statement's life

    def _query_id(self, session: sessions.Session, request_id: str) -> str:
        # The same request of the same session has the same id, also after a restart, so that a
        # commit can use the id as its idempotency key.
        if not request_id:
            return str(uuid.UUID(self._new_id()))
        digest = hashlib.sha256(f"{session.id}/{request_id}".encode()).digest()
        return str(uuid.UUID(bytes=digest[:16], version=5))

    def _new_query(
        self, session: sessions.Session, submission: Submission, query_id: str
    ) -> SubmittedQuery:
        query = SubmittedQuery(
            id=query_id,
            session_id=session.id,
            owner=session.owner,
            warehouse=session.warehouse,
            submission=submission,
            started_at_ms=self._now_ms(),
            user=session.login.name,
            role=session.role,
            database=session.database,
            schema=session.schema,
            tag=str(submission.parameters.get("QUERY_TAG", session.parameter("QUERY_TAG"))),
        )
        self._queries[query.id] = query
        return query

    async def _run(self, query: SubmittedQuery, session: sessions.Session) -> None:
        size = _pending_size(query.submission)
        session.running += 1
        query.is_begun = True
        try:
            if query.is_cancelled:
                raise errors.canceled()
            query.result = await self._answered(query, session)
        except errors.SqlError as error:
            query.error = _without_frames(error)
        except access_errors.AccessDenied as error:
            query.error = errors.not_authorized(str(error))
        except (storage_errors.DiskFull, storage_errors.CommitRefused) as error:
            if isinstance(error, storage_errors.CommitRefused):
                self._log.error("query %s: %s", query.id, error)
            query.error = faults.of_catalog(error)
        except asyncio.CancelledError:
            query.error = errors.canceled()
            if not query.is_cancelled:
                raise
        except Exception:  # noqa: BLE001 - an internal error: the log has it, the client gets a reference
            self._log.exception("query %s failed", query.id)
            query.error = errors.internal_error(query.id)
        finally:
            self._pending.remove(query.owner, size)
            session.running -= 1
            self._finish(query, session)

    async def _answered(self, query: SubmittedQuery, session: sessions.Session) -> Result:
        submission = query.submission
        control = controls.parse(submission.text)
        if isinstance(control, controls.ResultScan):
            if not submission.describe_only:
                stored = await self._ended(session, control.query_id)
                assert stored.result is not None
                if _is_as_asked(stored.result, submission):
                    return replace(stored.result, children=())
        elif control is not None:
            return await self._controlled(control, session, submission)
        texts = await self._texts(submission, session)
        if len(texts) == 1:
            submission = replace(submission, text=texts[0])
            return await self._flow(query.id, session, submission)
        return await self._several(query.id, texts, session, submission)

    async def _texts(self, submission: Submission, session: sessions.Session) -> Sequence[str]:
        text = submission.text
        bare = text.strip()
        if not bare.rstrip(";"):
            raise errors.empty_statement()
        # A text without a semicolon is one statement, so it need not be split.
        texts: Sequence[str] = [text]
        if ";" in bare.rstrip(";"):
            texts = await self._split(text, owner=session.owner)
        if not texts:
            raise errors.empty_statement()
        if len(texts) > 1 and not _takes_several(session):
            raise errors.several_statements()
        desired = submission.parameters.get("MULTI_STATEMENT_COUNT")
        if desired is None:
            desired = session.parameter("MULTI_STATEMENT_COUNT")
        if desired != 0 and len(texts) != desired:
            raise errors.statement_count_differs(len(texts), int(desired))
        return texts

    async def _flow(
        self, query_id: str, session: sessions.Session, submission: Submission
    ) -> Result:
        """Run one statement, or those of a flow (`->>`), and return the last one's result.

        In a flow, `$1` in FROM is the result of the statement before it, `$2` that of the one
        before that.
        """
        if FLOW not in submission.text:
            return await self._one(query_id, session, submission)
        texts = await asyncio.to_thread(parse.split_flow, submission.text)
        if len(texts) == 1:
            return await self._one(query_id, session, submission)
        if submission.describe_only:
            raise errors.unsupported("a describe of statements joined by ->>")
        children: list[SubmittedQuery] = []
        for text, bound in await _shared(texts, submission):
            one = replace(submission, text=text, bindings=bound, request_id="")
            before = [child.id for child in children]
            child_id = f"{query_id}/{len(children)}"
            children.append(await self._child(child_id, session, one, before))
        last = children[-1].result
        assert last is not None
        return last

    async def _one(
        self,
        query_id: str,
        session: sessions.Session,
        submission: Submission,
        flow_ids: Sequence[str] = (),
    ) -> Result:
        seconds = self._timeout_seconds(session, submission)
        limit = asyncio.timeout(seconds)
        before = sessions.mark(session)
        try:
            async with limit:
                outcome = await self._statements.execute(
                    session,
                    submission.text,
                    bindings=submission.bindings,
                    parameters=submission.parameters,
                    describe_only=submission.describe_only,
                    query_id=query_id,
                    results=self,
                    flow_ids=flow_ids,
                )
                return await self._encoded(outcome, session, submission)
        except TimeoutError:
            if not limit.expired():
                raise
            raise errors.timed_out(seconds) from None
        finally:
            if sessions.mark(session) != before:
                await self._sessions.settle(session)

    async def _several(
        self,
        query_id: str,
        texts: Sequence[str],
        session: sessions.Session,
        submission: Submission,
    ) -> Result:
        column = outcomes.Column(name="multiple statement execution", type="text")
        if submission.describe_only:
            # What a statement answers may depend on those before it, which do not run here.
            described = outcomes.Outcome(
                columns=(column,),
                statement_type_id=outcomes.StatementType.MULTI_STATEMENT,
                bind_count=await asyncio.to_thread(filling.count_placeholders, texts),
            )
            return await self._encoded(described, session, submission)
        children = []
        for number, (text, bound) in enumerate(await _shared(texts, submission)):
            one = replace(submission, text=text, bindings=bound, request_id="")
            child = await self._child(f"{query_id}/{number}", session, one)
            assert child.result is not None
            children.append((child.id, child.result.statement_type_id))
        answer = outcomes.Outcome(
            columns=(column,),
            rows=(("Multiple statements executed successfully.",),),
            statement_type_id=outcomes.StatementType.MULTI_STATEMENT,
        )
        result = await self._encoded(answer, session, submission)
        return replace(result, children=tuple(children))

    async def _child(
        self,
        name: str,
        session: sessions.Session,
        submission: Submission,
        flow_ids: Sequence[str] | None = None,
    ) -> SubmittedQuery:
        """Run a statement of several as a query of its own. flow_ids: of a part of a flow."""
        await asyncio.sleep(0)  # a statement of constants never awaits anything
        child = self._new_query(session, submission, self._query_id(session, name))
        child.is_begun = True
        child.task = asyncio.current_task()
        try:
            self._refresh(session)
            if flow_ids is None:
                child.result = await self._flow(child.id, session, submission)
            else:
                child.result = await self._one(child.id, session, submission, flow_ids)
        except errors.SqlError as error:
            child.error = error
            raise
        except access_errors.AccessDenied as error:
            child.error = errors.not_authorized(str(error))
            raise
        except asyncio.CancelledError:
            child.error = errors.canceled()
            raise
        except Exception:
            child.error = errors.internal_error(child.id)
            raise
        finally:
            self._finish(child, session)
        return child

    def _refresh(self, session: sessions.Session) -> None:
        """Give a session its rights as they are now; raises SqlError if it may not go on."""
        try:
            self._sessions.refresh(session)
        except errors.SessionFault:
            raise errors.session_ended("its user or its credential is not valid any more") from None

    async def stored(self, session: sessions.Session, query_id: str) -> results.StoredResult:
        """Return a stored result of the session's user; see `results.StoredResults`."""
        result = (await self._ended(session, query_id)).result
        assert result is not None
        inline = base64.b64decode(result.inline) if result.format == "arrow" else result.inline
        return results.StoredResult(
            columns=result.columns,
            format=result.format,
            inline=inline,
            chunks=tuple(chunk.kept for chunk in result.chunks),
        )

    def recorded(
        self, session: sessions.Session, *, sees_all: bool
    ) -> list[statement_log.RecordedStatement]:
        """Return the statements that have ended or run; see `results.StoredResults`."""
        owner = None if sees_all else session.owner
        running = [
            self._record_of(query)
            for query in self._queries.values()
            if not query.is_finished
            and not query.submission.describe_only
            and owner in (None, query.owner)
        ]
        return [*self._recorded.listed(owner), *running]

    def _record_of(self, query: SubmittedQuery) -> statement_log.RecordedStatement:
        result, error = query.result, query.error
        status = self.status(query)
        text = query.submission.text
        return statement_log.RecordedStatement(
            query_id=query.id,
            owner=query.owner,
            text=statement_log.shown_text(text),
            statement_type=statement_log.type_of(
                text, None if result is None else result.statement_type_id
            ),
            session_id=query.session_id,
            user=query.user.upper(),
            role=query.role,
            warehouse=query.warehouse,
            database=None if query.database is None else names.shown_database(query.database),
            schema=None if query.schema is None else names.shown(query.schema),
            tag=query.tag,
            status=status,
            started_at_ms=query.started_at_ms,
            ended_at_ms=query.ended_at_ms,
            error_code=None if error is None else error.code,
            error_message=(None if error is None else statement_log.shown_message(text, error)),
            rows=None if result is None else _rows_of(result),
        )

    async def _ended(self, session: sessions.Session, query_id: str) -> SubmittedQuery:
        """Return a query of the session's user that has a result, as soon as it has ended."""
        query = self.find(session, query_id)
        if query is None:
            raise errors.result_scan_unknown(query_id)
        if query.task is not None and query.task is not asyncio.current_task():
            await asyncio.wait((query.task,))
        if query.result is None:
            raise query.error or errors.result_scan_unknown(query_id)
        if query.result.is_secret:
            raise errors.result_scan_unknown(query_id)
        return query

    async def _waited(
        self, control: controls.Wait, session: sessions.Session, submission: Submission
    ) -> None:
        """Do nothing for a time; raises SqlError at the end of the statement's time."""
        most = self._timeout_seconds(session, submission)
        if control.milliseconds > most * 1000:
            await asyncio.sleep(most)
            raise errors.timed_out(most)
        await asyncio.sleep(control.milliseconds / 1000)

    async def _controlled(
        self,
        control: controls.CancelQuery | controls.CancelAll | controls.Wait,
        session: sessions.Session,
        submission: Submission,
    ) -> Result:
        column = outcomes.Column(name=control.column_name, type="text")
        select = outcomes.StatementType.SELECT
        if submission.describe_only:
            described = outcomes.Outcome(columns=(column,), statement_type_id=select)
            return await self._encoded(described, session, submission)
        if isinstance(control, controls.CancelQuery):
            query = self.find(session, control.query_id)
            if query is not None and self.cancel(query):
                answer = f"query [{control.query_id}] terminated."
            else:
                answer = "Identified SQL statement is not currently executing."
        elif isinstance(control, controls.Wait):
            await self._waited(control, session, submission)
            answer = control.answer
        else:
            mine = asyncio.current_task()
            cancelled = [
                query
                for query in list(self._queries.values())
                if query.session_id == control.session_id
                and query.owner == session.owner
                and query.task is not mine
                and self.cancel(query)
            ]
            answer = f"{len(cancelled)} cancelled."
        outcome = outcomes.Outcome(columns=(column,), rows=((answer,),), statement_type_id=select)
        return await self._encoded(outcome, session, Submission(text=""))

    def _timeout_seconds(self, session: sessions.Session, submission: Submission) -> int:
        return self._warehouses.statement_seconds(
            session, submission.parameters, seconds_max=self.limits.timeout_seconds
        )

    def _rows_max(self, session: sessions.Session, submission: Submission) -> int:
        """Return how many rows a result has at most; 0 for any number."""
        own = submission.parameters.get(parameters.ROWS_MAX)
        return int(session.parameter(parameters.ROWS_MAX) if own is None else own)

    # A statement's result

    async def _encoded(
        self, outcome: outcomes.Outcome, session: sessions.Session, submission: Submission
    ) -> Result:
        owner = session.owner
        columns = outcome.columns
        is_select = outcome.statement_type_id == outcomes.StatementType.SELECT
        has_batches = is_select and outcome.batches is not None
        arrow = has_batches and submission.select_format == "arrow"
        rows_max = self._rows_max(session, submission) if is_select else 0
        outcome = _cut(outcome, rows_max)
        if arrow and outcome.encode is not None and not rows_max:
            outcome.encode()
        inline = b'""' if arrow else b"[]"
        total = size_bytes = 0
        kept: list[Chunk] = []
        if outcome.rows is not None and not submission.describe_only:
            total = len(outcome.rows)
            encoded_rows = functools.partial(_json_of_rows, outcome.rows, columns)
            if total > limits.ROWS_HERE_MAX:
                inline = await asyncio.to_thread(encoded_rows)
            else:
                inline = encoded_rows()
        elif outcome.batches is not None and not submission.describe_only:
            try:
                async with contextlib.aclosing(_groups(outcome.batches)) as groups:
                    async for group in groups:
                        data: bytes | memoryview
                        if isinstance(group, outcomes.EncodedRows):
                            rows, data = group.rows, group.data
                        else:
                            rows = sum(batch.num_rows for batch in group)
                            data = await _encoded_group(
                                group, columns, arrow=arrow, is_inline=total == 0
                            )
                        if total == 0 and isinstance(data, bytes):
                            inline = data
                        else:
                            kept.append(Chunk(rows=rows, kept=await self._shelf.keep(data)))
                            size_bytes += len(data)
                            self._growing_bytes[owner] += len(data)
                            self._make_room(owner)
                        total += rows
            finally:
                self._growing_bytes[owner] -= size_bytes
                if not self._growing_bytes[owner]:
                    del self._growing_bytes[owner]
        return Result(
            columns=columns,
            statement_type_id=int(outcome.statement_type_id),
            format="arrow" if arrow else "json",
            inline=inline,
            total=total,
            size_bytes=size_bytes,
            database=outcome.database or session.database,
            schema=outcome.schema or session.schema,
            warehouse=outcome.warehouse or session.warehouse,
            role=outcome.role or session.role,
            parameters=dict(session.parameters),
            chunks=tuple(kept),
            stats=outcome.stats,
            bind_count=outcome.bind_count,
            array_bind_supported=outcome.array_bind_supported,
            transfer=outcome.transfer,
            is_secret=outcome.is_secret or outcome.transfer is not None,
        )

    def _make_room(self, owner: str) -> None:
        """Drop stored results until a growing one has room; raise SqlError if that is not enough.

        Dropped are results of the principal with the most, if it has as much as owner has.
        """
        bytes_max = self.limits.results_bytes_max
        while self._kept.total("chunks") + self._growing_bytes.total() > bytes_max:
            oldest = self._kept.oldest_of_most(
                "chunks", besides=self._growing_bytes, as_much_as=owner
            )
            if oldest is None:
                raise errors.resources_exhausted(f"results are larger than {bytes_max} bytes")
            self._drop(oldest)

    def _finish(self, query: SubmittedQuery, session: sessions.Session) -> None:
        query.ended_at_ms = query.touched_at_ms = self._now_ms()
        query.unfetched = set(range(0 if query.result is None else len(query.result.chunks)))
        query.task = None
        if not query.submission.describe_only:
            session.query_ids.append(query.id)
            self._recorded.add(self._record_of(query))
        # The text and the binds are no longer needed, and can be large.
        head = query.submission.text[: limits.TEXT_KEPT_LENGTH_MAX]
        query.submission = replace(query.submission, text=head, bindings={})
        self._sessions.note(session)
        self._kept.add(query)
        bounds: tuple[tuple[Measure, int], ...] = (
            ("results", self.limits.results_max),
            ("inline", self.limits.inline_bytes_max),
            ("chunks", self.limits.results_bytes_max),
        )
        for measure, most in bounds:
            while self._kept.total(measure) > most:
                oldest = self._kept.oldest_of_most(measure, but=query)
                if oldest is None:
                    break
                self._drop(oldest)

    def _drop(self, query: SubmittedQuery) -> None:
        self._kept.remove(query)
        del self._queries[query.id]


Measure = Literal["results", "inline", "chunks"]


class KeptQueries:
    """Finished queries with their results, and the bytes of these, in all and by owner. Mutable.

    The owner with the most makes room for new results, so that one principal's many or large
    results never displace the few of another.
    """

    def __init__(self) -> None:
        self._queries: dict[str, OrderedDict[str, SubmittedQuery]] = {}
        self._taken: dict[Measure, Counter[str]] = {
            "results": Counter(),
            "inline": Counter(),
            "chunks": Counter(),
        }
        self._totals: Counter[Measure] = Counter()

    def add(self, query: SubmittedQuery) -> None:
        """Add a query that has just finished."""
        self._queries.setdefault(query.owner, OrderedDict())[query.id] = query
        self._count(query, 1)

    def remove(self, query: SubmittedQuery) -> None:
        """Remove a query."""
        self._count(query, -1)
        of_owner = self._queries[query.owner]
        del of_owner[query.id]
        if not of_owner:
            del self._queries[query.owner]
            for taken in self._taken.values():
                del taken[query.owner]

    def all(self) -> list[SubmittedQuery]:
        """Return every query, each owner's oldest first."""
        return [query for of_owner in self._queries.values() for query in of_owner.values()]

    def total(self, measure: Measure) -> int:
        """Return the total of all queries."""
        return self._totals[measure]

    def oldest_of_most(
        self,
        measure: Measure,
        *,
        but: SubmittedQuery | None = None,
        besides: Mapping[str, int] | None = None,
        as_much_as: str | None = None,
    ) -> SubmittedQuery | None:
        """Return the oldest query that takes some, of the owner who has most; None if none has.

        but: a query that stays. besides: what owners take beside what is kept. as_much_as: an
        owner; others who have less keep what they have.
        """
        taken, others = self._taken[measure], besides or {}
        least = 0 if as_much_as is None else taken[as_much_as] + others.get(as_much_as, 0)
        owners = [
            (amount + others.get(owner, 0), owner) for owner, amount in taken.items() if amount
        ]
        for held, owner in sorted(owners, reverse=True):
            if held >= least:
                for query in self._queries[owner].values():
                    if query is not but and _amounts(query)[measure]:
                        return query
        return None

    def _count(self, query: SubmittedQuery, sign: int) -> None:
        for measure, amount in _amounts(query).items():
            self._taken[measure][query.owner] += sign * amount
            self._totals[measure] += sign * amount


def _amounts(query: SubmittedQuery) -> dict[Measure, int]:
    result = query.result
    inline_bytes = len(query.submission.text) + (0 if result is None else len(result.inline))
    return {
        "results": 1,
        "inline": inline_bytes,
        "chunks": 0 if result is None else result.size_bytes,
    }


class RunningQueries:
    """The running statements, and the bytes of their texts and binds, by owner. Mutable."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sizes_bytes: Counter[str] = Counter()

    def add(self, owner: str, size_bytes: int) -> None:
        self._counts[owner] += 1
        self._sizes_bytes[owner] += size_bytes

    def remove(self, owner: str, size_bytes: int) -> None:
        self._counts[owner] -= 1
        self._sizes_bytes[owner] -= size_bytes
        if not self._counts[owner]:
            del self._counts[owner], self._sizes_bytes[owner]

    def count(self, owner: str | None = None) -> int:
        """Return how many statements run; those of owner, or all."""
        return self._counts.total() if owner is None else self._counts[owner]

    def size_bytes(self, owner: str | None = None) -> int:
        """Return the bytes that the statements of owner, or all, hold."""
        return self._sizes_bytes.total() if owner is None else self._sizes_bytes[owner]


async def _shared(
    texts: Sequence[str], submission: Submission
) -> list[tuple[str, Mapping[str, bindings.Binding]]]:
    """Return each of several statements with its binds; raises SqlError if one is missing."""
    if not submission.bindings:
        return [(text, {}) for text in texts]
    shared = await asyncio.to_thread(filling.share, texts, submission.bindings)
    return list(zip(texts, shared, strict=True))


def _rows_of(result: Result) -> int:
    """Return how many rows a statement has returned or changed."""
    stats = result.stats
    if stats is None:
        return result.total
    return stats.rows_inserted + stats.rows_updated + stats.rows_deleted


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def _without_frames(error: errors.SqlError) -> errors.SqlError:
    """Return error without tracebacks, so that a stored error holds none of the run's locals."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def _pending_size(submission: Submission) -> int:
    bound_bytes = sum(binding.size_bytes for binding in submission.bindings.values())
    return len(submission.text) + bound_bytes


def _is_as_asked(stored: Result, submission: Submission) -> bool:
    """Return whether a stored result is in the format that its reader's session has now.

    Statements other than SELECT answer in JSON whatever the format is.
    """
    is_query = stored.statement_type_id == outcomes.StatementType.SELECT
    return stored.format == submission.select_format or (stored.format == "json" and not is_query)


def _takes_several(session: sessions.Session) -> bool:
    """Return whether a client reads the answers of several statements in one request.

    The Python connector does from 2.9.0 on, and Snowflake refuses older ones.
    """
    if session.client_app_id.upper() != "PYTHONCONNECTOR":
        return True
    match = VERSION.match(session.client_app_version)
    return match is None or (int(match[1]), int(match[2])) >= SEVERAL_SINCE


VERSION: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
SEVERAL_SINCE: Final = (2, 9)


def _cut(outcome: outcomes.Outcome, rows_max: int) -> outcomes.Outcome:
    """Return an outcome with its first rows alone; with all of them if rows_max is 0."""
    if not rows_max:
        return outcome
    if outcome.rows is not None:
        return replace(outcome, rows=outcome.rows[:rows_max])
    if outcome.batches is not None:
        return replace(outcome, batches=_first_rows(outcome.batches, rows_max))
    return outcome


async def _first_rows(stream: Any, rows_max: int) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield batches until they have rows_max rows; then the query ends."""
    left = rows_max
    async with contextlib.AsyncExitStack() as stack:
        if hasattr(stream, "aclose"):
            await stack.enter_async_context(contextlib.aclosing(stream))
        async for batch in stream:
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


async def _groups(
    stream: Any,
) -> AsyncGenerator[list[pa.RecordBatch] | outcomes.EncodedRows, None]:
    cutter = chunks.Cutter()
    async with contextlib.AsyncExitStack() as stack:
        if hasattr(stream, "aclose"):
            await stack.enter_async_context(contextlib.aclosing(stream))
        async for each in stream:
            if isinstance(each, outcomes.EncodedRows):
                for group in cutter.finish():
                    yield group
                yield each
                continue
            for group in cutter.add(each):
                yield group
        for group in cutter.finish():
            yield group


async def _encoded_group(
    group: Sequence[pa.RecordBatch],
    columns: Sequence[outcomes.Column],
    *,
    arrow: bool,
    is_inline: bool,
) -> bytes:
    # Copies of a large part take milliseconds too, and are made in the thread; in steps, between
    # which the loop gets the interpreter.
    encoded = _ENCODERS[arrow, is_inline]
    size = sum(batch.nbytes for batch in group)
    if size < limits.RESULT_THREAD_BYTES_MIN and len(columns) <= limits.COLUMNS_HERE_MAX:
        return encoded(group, columns)
    return await asyncio.to_thread(encoded, group, columns)


def _json_of_rows(rows: Sequence[Sequence[Any]], columns: Sequence[outcomes.Column]) -> bytes:
    """Return rows as JSON, encoded in steps, so that the interpreter is free in between."""
    parts = []
    for start in range(0, len(rows), limits.ROWS_HERE_MAX):
        some = rows[start : start + limits.ROWS_HERE_MAX]
        parts.append(encode.json_chunk(encode.json_list(encode.json_cells(some, columns))))
    return b"[" + b",".join(parts) + b"]"


def _inline_json(group: Sequence[pa.RecordBatch], columns: Sequence[outcomes.Column]) -> bytes:
    return b"[" + encode.json_text(group, columns) + b"]"


def _inline_arrow(group: Sequence[pa.RecordBatch], columns: Sequence[outcomes.Column]) -> bytes:
    return encode.base64_json(encode.arrow_stream(group, columns))


_ENCODERS: Mapping[tuple[bool, bool], Callable[..., bytes]] = {
    (True, True): _inline_arrow,
    (True, False): encode.arrow_stream,
    (False, True): _inline_json,
    (False, False): encode.json_text,
}
"""How rows are encoded: as Arrow or not, and in the answer itself or in a chunk."""
