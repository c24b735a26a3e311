"""face: the Snowflake v1 protocol: logins, sessions, queries, results.

Faults of a statement or a session are answers with status 200, as drivers want them: they retry a
5xx for seconds or for ever. Only what is no part of the protocol is a 404, and a chunk whose
address is not genuine a 403. The face authenticates by its own tokens.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping
from typing import Any, assert_never

import orjson

from server import asgi, exchange
from server import errors as kit_errors
from server.access import errors as access_errors
from sql import chunks, engine, errors, limits, queries, sessions
from sql.rest import login, routes, wire
from storage import model

ANSWER_WITHIN_SECONDS = 40.0
"""Longest wait before a client is told to come back: a driver's socket gives up at 60."""

TELEMETRY_BYTES_MAX = 4 << 20
THREAD_BYTES_MIN = 256 << 10
"""From this size on bodies are read and answers compressed in a thread."""

JSON = ("content-type", "application/json")


class Face:
    """The Snowflake face.

    chunk_key: the secret that signs chunk addresses; a new one at each start will do, because
    results do not outlive the process.
    """

    name = "snowflake"

    def __init__(
        self,
        *,
        sessions: sessions.Sessions,
        queries: queries.Queries,
        credentials: login.Credentials,
        contexts: login.Contexts,
        chunk_key: bytes,
        now_ms: model.NowMs,
        answer_within_seconds: float = ANSWER_WITHIN_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._queries = queries
        self._logins = login.Logins(
            sessions=sessions, credentials=credentials, contexts=contexts, now_ms=now_ms
        )
        self._chunk_key = chunk_key
        self._now_ms = now_ms
        self._answer_within_seconds = answer_within_seconds
        self._large_bodies = engine.Turns(limits.LARGE_BODIES_MAX)
        self._log = logging.getLogger("boathouse.sql.face")

    def identify(self, request: asgi.Request) -> routes.Operation:
        """Return which operation the request is."""
        return routes.identify(request.method, request.segments, request.pairs)

    def authentication(self, operation: routes.Operation) -> exchange.Authentication:
        """The tokens of this protocol are the face's own."""
        return exchange.Authentication.SELF

    def demands(
        self, operation: routes.Operation, principal: exchange.Principal
    ) -> tuple[exchange.Demand, ...]:
        """Each statement asks for what it touches; a session by itself may do nothing."""
        return ()

    async def handle(
        self, operation: routes.Operation, request: asgi.Request, caller: exchange.Caller
    ) -> asgi.Response:
        """Do the operation."""
        match operation:
            case routes.RunQuery():
                return await self._run(operation, request, caller)
            case routes.Login():
                return await self._login(operation, request)
            case routes.FetchResult(query_id=query_id):
                return await self._fetch(query_id, request, caller)
            case routes.FetchChunk():
                return self._chunk(operation)
            case routes.Renew():
                token = wire.session_token(request.headers.get("authorization"))
                grant = self._sessions.renew(token, context=caller.principal.context)
                return _json(wire.renewal_answer(grant, self._sessions.limits))
            case routes.Heartbeat():
                self._session(request, caller)
                return _json(wire.success(None))
            case routes.Logout():
                session = self._session(request, caller)
                self._queries.end_session(session)
                self._sessions.close(session)
                return _json(wire.success(None))
            case routes.Monitor(query_id=query_id):
                query = self._queries.find(self._session(request, caller), query_id)
                return _json(wire.monitor_answer(query, now_ms=self._now_ms()))
            case routes.AbortRequest():
                session = self._session(request, caller)
                request_id = wire.parse_abort(await self._body(request, wire.LOGIN_BYTES_MAX))
                query = self._queries.find_request(session, request_id)
                return self._aborted(query, request_id)
            case routes.AbortQuery(query_id=query_id):
                query = self._queries.find(self._session(request, caller), query_id)
                return self._aborted(query, query_id)
            case routes.Telemetry():
                self._session(request, caller)
                await request.read(limit_bytes=TELEMETRY_BYTES_MAX)
                return _json(wire.success("Log Received"))
            case routes.Unknown():
                return _json(_not_found(request), 404)
            case _:
                assert_never(operation)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return the answer for an error; all are answers of the protocol."""
        match error:
            case errors.SessionFault():
                return _json(wire.refusal_answer(error))
            case errors.SqlError():
                return _json(wire.fault_answer(error, None))
            case access_errors.AccessDenied():
                return _json(wire.fault_answer(errors.not_authorized(str(error)), None))
            case kit_errors.ServerBusy():
                return asgi.Response(503, (("retry-after", "1"),))
            case wire.MalformedBody() | kit_errors.KitError() | RecursionError():
                return _json(wire.fault_answer(errors.malformed_request(str(error)), None))
            case _:
                self._log.error("request %s failed", request.request_id, exc_info=error)
                return _json(wire.fault_answer(errors.internal_error(request.request_id), None))

    async def stop(self) -> None:
        """End what runs, and write what sessions remember. No request may come after."""
        await self._queries.stop()
        await self._sessions.stop()

    def _session(self, request: asgi.Request, caller: exchange.Caller) -> sessions.Session:
        token = wire.session_token(request.headers.get("authorization"))
        return self._sessions.authenticate(token, context=caller.principal.context)

    async def _body(self, request: asgi.Request, limit_bytes: int) -> bytes:
        body = await request.read(limit_bytes=limit_bytes)
        encoding = request.headers.get("content-encoding")
        if encoding is None:
            return body
        if len(body) < THREAD_BYTES_MIN // 8:
            return wire.inflate(body, encoding, limit_bytes=limit_bytes)
        return await asyncio.to_thread(wire.inflate, body, encoding, limit_bytes=limit_bytes)

    async def _login(self, operation: routes.Login, request: asgi.Request) -> asgi.Response:
        body = wire.parse_login(await self._body(request, wire.LOGIN_BYTES_MAX))
        grant = await self._logins.open(operation, body, client_ip=request.client_ip)
        return _json(wire.login_answer(grant, self._sessions.limits))

    async def _run(
        self, operation: routes.RunQuery, request: asgi.Request, caller: exchange.Caller
    ) -> asgi.Response:
        # The token first: a statement refused here was never begun, and may come again.
        session = self._session(request, caller)
        body = await _small_body(request)
        if body is not None:
            parsed = wire.parse_query(body)
            submission = wire.submission(parsed, operation.request_id, session)
            query = self._queries.submit(session, submission)
        else:
            query = await self._submit_large(operation, request, session)
        submission = query.submission
        if submission.is_async and not submission.describe_only:
            return _json(wire.pending_answer(query))
        return await self._answer_when_ready(query, request)

    async def _submit_large(
        self, operation: routes.RunQuery, request: asgi.Request, session: sessions.Session
    ) -> queries.Query:
        """Submit a statement whose body is large, when it is its turn."""
        owner = session.principal.name
        try:
            await self._large_bodies.take(owner)
        except engine.EngineFault as fault:
            raise errors.resources_exhausted(fault.message) from None
        try:
            body = await self._body(request, limits.QUERY_BODY_BYTES_MAX)
            parsed = await asyncio.to_thread(wire.parse_query, body)
            del body
            submission = await asyncio.to_thread(
                wire.submission, parsed, operation.request_id, session
            )
            return self._queries.submit(session, submission)
        finally:
            self._large_bodies.give_back(owner)

    async def _fetch(
        self, query_id: str, request: asgi.Request, caller: exchange.Caller
    ) -> asgi.Response:
        query = self._queries.find(self._session(request, caller), query_id)
        if query is None:
            raise errors.result_unknown(query_id)
        return await self._answer_when_ready(query, request)

    async def _answer_when_ready(
        self, query: queries.Query, request: asgi.Request
    ) -> asgi.Response:
        await self._queries.wait(query, self._answer_within_seconds)
        if query.error is not None:
            return _json(wire.fault_answer(query.error, query.id))
        if query.result is None:
            return _json(wire.pending_answer(query))
        make = functools.partial(
            wire.result_answer,
            query,
            query.result,
            origin=request.origin,
            chunk_key=self._chunk_key,
            now_ms=self._now_ms(),
        )
        is_wide = len(query.result.columns) > limits.COLUMNS_HERE_MAX
        answer = await asyncio.to_thread(make) if is_wide else make()
        return await _compressed(answer, request)

    def _aborted(self, query: queries.Query | None, asked_for: str) -> asgi.Response:
        if query is None or not self._queries.cancel(query):
            return _json(wire.fault_answer(errors.not_running(asked_for), None))
        return _json(wire.success(None))

    def _chunk(self, operation: routes.FetchChunk) -> asgi.Response:
        genuine = chunks.is_genuine(
            self._chunk_key,
            operation.query_id,
            operation.index,
            operation.expires_at_ms,
            operation.signature,
            now_ms=self._now_ms(),
        )
        if not genuine:
            return _json(wire.fault_answer(errors.result_unknown(operation.query_id), None), 403)
        chunk = self._queries.chunk(operation.query_id, operation.index)
        if chunk is None:
            return _json(wire.fault_answer(errors.result_unknown(operation.query_id), None), 404)
        piece = chunk.kept.piece
        body = piece if isinstance(piece, bytes) else (piece,)
        return asgi.Response(200, (("content-type", "application/octet-stream"),), body)


async def _small_body(request: asgi.Request) -> bytes | None:
    """Return the body of a request if it is small enough to be decoded at once, else None."""
    limit_bytes = limits.QUERY_BODY_HERE_BYTES_MAX
    if request.content_length is None or request.content_length > limit_bytes:
        return None
    received = await request.read(limit_bytes=limit_bytes)
    try:
        encoding = request.headers.get("content-encoding")
        return wire.inflate(received, encoding, limit_bytes=limit_bytes)
    except wire.BodyTooLong:
        return None


def _json(answer: Mapping[str, Any], status: int = 200) -> asgi.Response:
    return asgi.Response(status, (JSON,), orjson.dumps(answer))


async def _compressed(answer: Mapping[str, Any], request: asgi.Request) -> asgi.Response:
    body = orjson.dumps(answer)
    accepted = request.headers.get("accept-encoding")
    if not wire.should_compress(len(body), accepted, request.client_ip):
        return asgi.Response(200, (JSON,), body)
    if len(body) < THREAD_BYTES_MIN:
        body = wire.compress(body)
    else:
        body = await asyncio.to_thread(wire.compress, body)
    return asgi.Response(200, (JSON, ("content-encoding", "gzip")), body)


def _not_found(request: asgi.Request) -> Mapping[str, Any]:
    path = request.raw_path.decode("latin-1")[:200]
    return wire.fault_answer(errors.no_such_path(request.method, path), None)
