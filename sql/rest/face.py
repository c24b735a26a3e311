"""face: the Snowflake v1 protocol: logins, sessions, queries, results.

Errors of statements and sessions have status 200, because drivers retry a 5xx for seconds or
without end. A request outside the protocol gets 404, and a chunk URL with an invalid signature 403.
The face authenticates with tokens of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson

from server import asgi, calls
from server.auth import callers
from sql import bindings, chunks, engine, errors, limits, queries, sessions
from sql.rest import login, refusals, routes, wire
from storage import model


class ReadBinds(Protocol):
    """Reads the bindings of a request from their JSON text; raises SqlError."""

    async def __call__(self, document: bytes, *, owner: str) -> Mapping[str, bindings.Binding]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlServices:
    """The services of the handlers.

    read_binds: decodes large bindings; implemented by `sql.compiler`.
    chunk_key: the secret that signs chunk URLs. Each start of the server uses a new one, because
    results do not outlive the process.
    """

    sessions: sessions.Sessions
    queries: queries.Queries
    read_binds: ReadBinds
    logins: login.Logins
    chunk_key: bytes
    now_ms: model.NowMs
    answer_within_seconds: float = limits.ANSWER_WITHIN_SECONDS
    large_bodies: engine.Turns = field(
        default_factory=lambda: engine.Turns(limits.LARGE_BODIES_MAX)
    )


class SqlFace:
    """The Snowflake face."""

    name = "snowflake"

    def __init__(self, services: SqlServices) -> None:
        self.services = services

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the call of the request's operation."""
        value = routes.identify(request.method, request.segments, request.pairs)
        return calls.Call(ROWS[type(value)], value, request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Never called: every row has a handler."""
        raise AssertionError(operation.name)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return the protocol's answer for an error."""
        return refusals.encode(error, request)

    async def stop(self) -> None:
        """Cancel all queries and write the sessions' records. No request may follow."""
        await self.services.queries.stop()
        await self.services.sessions.stop()


async def log_in(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Open a session."""
    request = call.request
    body = wire.parse_login(await _body(request, limits.LOGIN_BYTES_MAX))
    grant = await services.logins.open(call.value, body, client_ip=request.client_ip)
    return refusals.json_answer(wire.login_answer(grant, services.sessions.limits))


async def renew(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Renew the session's tokens."""
    token = wire.session_token(call.request.headers.get("authorization"))
    grant = services.sessions.renew(token, context=call.principal.context)
    return refusals.json_answer(wire.renewal_answer(grant, services.sessions.limits))


async def beat(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Extend the session's life."""
    _session(services, call)
    return refusals.json_answer(wire.success(None))


async def log_out(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Close the session, and end its queries."""
    session = _session(services, call)
    services.queries.end_session(session)
    services.sessions.close(session)
    return refusals.json_answer(wire.success(None))


async def run_query(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Run a text; answer with its result, or with the query's id if it takes too long."""
    # The token is checked first: a refused statement was not started, and may be sent again.
    session = _session(services, call)
    body = await _small_body(call.request)
    if body is not None:
        parsed = wire.parse_query(body)
        submission = wire.submission(parsed, call.value.request_id, session)
        query = services.queries.submit(session, submission)
    else:
        query = await _submit_large(services, call, session)
    submission = query.submission
    if submission.is_async and not submission.describe_only:
        return refusals.json_answer(wire.pending_answer(query))
    return await _answer_when_ready(services, query, call.request)


async def fetch_result(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Answer with the result of a query that an earlier request started."""
    query_id = call.value.query_id
    session = _session(services, call)
    query = services.queries.find(session, query_id)
    if query is None:
        raise errors.result_unknown(query_id)
    await services.queries.wait(query, services.answer_within_seconds)
    if not services.queries.may_fetch(session, query):
        raise errors.result_unknown(query_id)
    if not query.is_finished:
        return refusals.json_answer(wire.pending_answer(query))
    return await _answer_when_ready(services, query, call.request)


async def monitor(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Answer with the status of a query."""
    query = services.queries.find(_session(services, call), call.value.query_id)
    status = None if query is None else services.queries.status(query)
    return refusals.json_answer(wire.monitor_answer(query, status, now_ms=services.now_ms()))


async def abort_request(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Cancel the query that a requestId started."""
    session = _session(services, call)
    request_id = wire.parse_abort(await _body(call.request, limits.LOGIN_BYTES_MAX))
    return _aborted(services, services.queries.find_request(session, request_id), request_id)


async def abort_query(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Cancel a query by its id."""
    query_id = call.value.query_id
    query = services.queries.find(_session(services, call), query_id)
    return _aborted(services, query, query_id)


async def fetch_chunk(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Answer with one chunk of a result, to HEAD without its bytes; its signed URL is the
    credential.
    """
    value: routes.FetchChunk = call.value
    genuine = chunks.is_genuine(
        services.chunk_key,
        value.query_id,
        value.index,
        value.expires_at_ms,
        value.signature,
        now_ms=services.now_ms(),
    )
    if not genuine:
        return refusals.json_answer(
            refusals.fault_answer(errors.result_unknown(value.query_id), None), 403
        )
    is_fetched = call.request.method != "HEAD"
    chunk = services.queries.chunk(value.query_id, value.index, is_fetched=is_fetched)
    if chunk is None:
        return refusals.json_answer(
            refusals.fault_answer(errors.result_unknown(value.query_id), None), 404
        )
    piece = chunk.kept.piece
    body = (piece,) if isinstance(piece, model.FileSlice) else piece
    return asgi.Response(200, (("content-type", "application/octet-stream"),), body)


async def take_telemetry(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Accept a driver's telemetry, and drop it."""
    _session(services, call)
    await call.request.read(limit_bytes=limits.TELEMETRY_BYTES_MAX)
    return refusals.json_answer(wire.success("Log Received"))


async def refuse_unknown(services: SqlServices, call: calls.Call) -> asgi.Response:
    """Answer 404 to a request outside the protocol."""
    return refusals.json_answer(_not_found(call.request), 404)


def _row(name: str, handler: calls.Handler) -> calls.Operation:
    """Return a row without demands: handlers check the session's token, statements check rights."""
    return calls.Operation(name=name, handler=handler, authentication=callers.Authentication.SELF)


ROWS: Final[Mapping[type[routes.Operation], calls.Operation]] = {
    routes.Login: _row("login-request", log_in),
    routes.Renew: _row("token-request", renew),
    routes.Heartbeat: _row("heartbeat", beat),
    routes.Logout: _row("session?delete=true", log_out),
    routes.RunQuery: _row("query-request", run_query),
    routes.FetchResult: _row("result", fetch_result),
    routes.FetchChunk: _row("chunks", fetch_chunk),
    routes.Monitor: _row("monitoring/queries", monitor),
    routes.AbortRequest: _row("abort-request", abort_request),
    routes.AbortQuery: _row("abort-request of a query", abort_query),
    routes.Telemetry: _row("telemetry/send", take_telemetry),
    routes.UnknownRoute: _row("unknown", refuse_unknown),
}
"""The operations. Bodies are read by their handlers, after the session's token is checked."""


def _session(services: SqlServices, call: calls.Call) -> sessions.Session:
    token = wire.session_token(call.request.headers.get("authorization"))
    return services.sessions.authenticate(token, context=call.principal.context)


async def _body(request: asgi.Request, limit_bytes: int) -> bytes:
    body = await request.read(limit_bytes=limit_bytes)
    encoding = request.headers.get("content-encoding")
    if encoding is None:
        return body
    if len(body) < limits.BODY_THREAD_BYTES_MIN // 8:
        return wire.inflate(body, encoding, limit_bytes=limit_bytes)
    return await asyncio.to_thread(wire.inflate, body, encoding, limit_bytes=limit_bytes)


async def _submit_large(
    services: SqlServices, call: calls.Call, session: sessions.Session
) -> queries.SubmittedQuery:
    """Submit a statement with a large body; few are decoded at one time."""
    owner = session.login.name
    try:
        await services.large_bodies.take(owner)
    except engine.EngineFault as fault:
        raise errors.resources_exhausted(fault.message) from None
    try:
        body = await _body(call.request, limits.QUERY_BODY_BYTES_MAX)
        parsed = await asyncio.to_thread(wire.parse_query, body)
        del body
        bound = None
        if parsed.large_bindings is not None:
            bound = await services.read_binds(parsed.large_bindings, owner=owner)
        submission = await asyncio.to_thread(
            wire.submission, parsed, call.value.request_id, session, bound
        )
        del parsed
        return services.queries.submit(session, submission)
    finally:
        services.large_bodies.give_back(owner)


async def _answer_when_ready(
    services: SqlServices, query: queries.SubmittedQuery, request: asgi.Request
) -> asgi.Response:
    await services.queries.wait(query, services.answer_within_seconds)
    if query.error is not None:
        return refusals.json_answer(refusals.fault_answer(query.error, query.id))
    if query.result is None:
        return refusals.json_answer(wire.pending_answer(query))
    make = functools.partial(
        wire.result_answer,
        query,
        query.result,
        origin=request.origin,
        chunk_key=services.chunk_key,
        now_ms=services.now_ms(),
    )
    is_wide = len(query.result.columns) > limits.COLUMNS_HERE_MAX
    answer = await asyncio.to_thread(make) if is_wide else make()
    return await _compressed(answer, request)


def _aborted(
    services: SqlServices, query: queries.SubmittedQuery | None, wanted: str
) -> asgi.Response:
    if query is None or not services.queries.cancel(query):
        return refusals.json_answer(refusals.fault_answer(errors.not_running(wanted), None))
    return refusals.json_answer(wire.success(None))


async def _small_body(request: asgi.Request) -> bytes | None:
    """Return the body of a request if it is small enough to be decoded at once, else None."""
    limit_bytes = limits.QUERY_BODY_HERE_BYTES_MAX
    if request.content_length is None or request.content_length > limit_bytes:
        return None
    received = await request.read(limit_bytes=limit_bytes)
    try:
        encoding = request.headers.get("content-encoding")
        return wire.inflate(received, encoding, limit_bytes=limit_bytes)
    except errors.BodyTooLong:
        return None


async def _compressed(answer: Mapping[str, Any], request: asgi.Request) -> asgi.Response:
    body = orjson.dumps(answer)
    accepted = request.headers.get("accept-encoding")
    if not wire.should_compress(len(body), accepted, request.client_ip):
        return asgi.Response(200, (refusals.JSON,), body)
    if len(body) < limits.BODY_THREAD_BYTES_MIN:
        body = wire.compress(body)
    else:
        body = await asyncio.to_thread(wire.compress, body)
    return asgi.Response(200, (refusals.JSON, ("content-encoding", "gzip")), body)


def _not_found(request: asgi.Request) -> Mapping[str, Any]:
    path = request.raw_path.decode("latin-1")[:200]
    return refusals.fault_answer(errors.no_such_path(request.method, path), None)
