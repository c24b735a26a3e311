"""face: one request's way through the server, the same for every face.

dispatch -> identify -> authenticate -> authorise -> handle -> encode. This module has the order of
these steps, and the one place where an unknown exception becomes an answer; it contains no protocol
and no operation, which are the faces'. The body is not read before the caller is authorised, so a
client that sends `Expect: 100-continue` sends no byte of a refused upload.
"""

from __future__ import annotations

import email.utils
import functools
import itertools
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import msgspec

from server import (
    asgi,
    calls,
    counters,
    dispatch,
    errors,
    held,
    limits,
    pending,
    repeats,
    targets,
    templates,
    unserved,
)
from server.access import audit, decide, keyuses
from server.access import errors as access_errors
from server.accesslogs import delivery
from server.auth import callers, verify
from server.auth import errors as auth_errors
from storage import errors as storage_errors
from storage import model as storage_model

Authentication: TypeAlias = callers.Authentication
_NO_EXTENSIONS: Mapping[str, Any] = MappingProxyType({})
UNDEMANDING = (Authentication.NONE, Authentication.SELF)
UNAUTHENTICATED = (*UNDEMANDING, Authentication.IN_BODY)
CUT_SHORT_STATUS = 500
"""What an answer is counted as whose stored body ends before its length."""
REFUSALS = (auth_errors.AuthError, access_errors.WrongPassword)


class Face(Protocol):
    """One protocol."""

    name: str

    @property
    def services(self) -> Any:
        """The services that the handlers of its rows get."""

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the call of a request: its row and its parsed value. Raises the face's errors.

        Reads no body and no stored state.
        """

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error of an operation that has no handler."""

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return the answer for an error: of the face, of the kit, or an unknown one (500)."""


class Exchange:
    """The ASGI application.

    faces: by the names of `dispatch`; one that is not here is unserved. audit_log: told of refusals
    and outcomes; None keeps none. access_logs: the records of buckets with logging. key_uses: the
    latest use of each access key; each request adds one. files: how the files of bodies are read;
    the disk. monotonic_ns: a clock for durations. lines_of_face: headers of every answer of a face,
    as lines of the head.
    """

    def __init__(
        self,
        *,
        faces: Mapping[str, Face],
        verifier: verify.Verifier,
        authoriser: decide.Authoriser,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
        monotonic_ns: Callable[[], int],
        files: asgi.FileReader,
        domain: str | None = None,
        counts: counters.Counters | None = None,
        audit_log: audit.Audit | None = None,
        access_logs: delivery.AccessLogs | None = None,
        key_uses: dict[str, keyuses.KeyUse] | None = None,
        lines_of_face: Mapping[str, bytes] | None = None,
    ) -> None:
        self._faces: dict[str, Face] = {
            **{name: unserved.Unserved(name) for name in dispatch.FACES},
            **faces,
        }
        self._verifier = verifier
        self._authoriser = authoriser
        self._now_ms = now_ms
        self._monotonic_ns = monotonic_ns
        self._files = files
        self._domain = domain
        self._bodies = held.Bodies()
        self._repeats = repeats.Repeats(asgi.LateHeaders)
        self.recall = self._repeats.find
        """Returns the Repeat of a head's bytes, if an earlier request had the same."""
        self._audit = audit_log
        self._access_logs = access_logs
        self._key_uses = {} if key_uses is None else key_uses
        self._log = logging.getLogger("boathouse.exchange")
        # A request's id: sixteen digits of this start, sixteen of a count.
        self._id_prefix = new_id()[:16]
        self._id_numbers = itertools.count(1)
        self._date_second = -1
        self._lines_of_face = lines_of_face or {}
        self._dated_lines: Mapping[str, bytes] = {}
        self._host: bytes | None = b""
        """The last Host header that was checked: nearly every request has the same."""
        self.counts = counts or counters.Counters()

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Serve one HTTP request. scope: ASGI's."""
        rest = self.begin(scope, receive, send, may_return_first=False)
        if rest is not None:
            await rest

    def face_of_head(self, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the name of the face of a head, of which not all may have come.

        target: a path with its query."""
        path, _, query = target.partition(b"?")
        joined = asgi.Headers(headers).joined
        return dispatch.face_of_head(path, query, joined, domain=self._domain)

    def begin(
        self,
        scope: asgi.Scope,
        receive: asgi.Receive,
        send: asgi.Send,
        *,
        may_return_first: bool = True,
    ) -> Awaitable[None] | None:
        """Serve one HTTP request up to the first wait.

        Return the rest as an awaitable, or None if the answer is sent, or a future's callback will
        send it. may_return_first: whether the latter is allowed.
        """
        assert scope["type"] == "http", f"unexpected scope {scope['type']}"
        started_ns = self._monotonic_ns()
        request_id = f"{self._id_prefix}{next(self._id_numbers):016x}"
        repeat: repeats.Repeat | None = scope.get("extensions", _NO_EXTENSIONS).get(asgi.REPEAT)
        request = asgi.Request(
            scope,
            receive,
            request_id=request_id,
            bodies=self._bodies,
            headers=None if repeat is None else repeat.headers,
            body_bytes=None if repeat is None else repeat.body_bytes,
        )
        name = self._face_of(request) if repeat is None else repeat.name
        face = self._faces[name]
        entry = None if self._audit is None else self._audit.begin(request_id, name)
        visit = _Visit(name, face, request, entry, started_ns)
        self.counts.in_flight += 1
        try:
            outcome = None if repeat is None else self._start_again(visit, repeat)
            if outcome is None:
                outcome = self._start(visit, scope)
        except Exception as error:  # noqa: BLE001 - the rest become a 500 of the face's form
            outcome = self._refuse(visit, error)
        if isinstance(outcome, pending.Pending) and may_return_first and request.writer is not None:
            self._wait(visit, outcome, request.writer, receive, send)
            return None
        return self._answer(visit, outcome, receive, send)

    def _wait(
        self,
        visit: _Visit,
        waiting: pending.Pending,
        writer: asgi.Writer,
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> None:
        step = functools.partial(self._resume, visit, waiting, writer, receive, send)
        writer.wait_for(waiting.future, step)

    def _resume(
        self,
        visit: _Visit,
        waiting: pending.Pending,
        writer: asgi.Writer,
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> Awaitable[None] | None:
        """Serve a request whose future is done; return an awaitable of the rest, or None."""
        request = visit.request  # noqa: F841 - `server.looplag` reads it
        try:
            outcome = waiting.finish(waiting.future)
        except Exception as error:  # noqa: BLE001 - the rest become a 500 of the face's form
            outcome = self._refuse(visit, error)
        if isinstance(outcome, pending.Pending):
            self._wait(visit, outcome, writer, receive, send)
            return None
        return self._answer(visit, outcome, receive, send)

    def _answer(
        self,
        visit: _Visit,
        outcome: asgi.Response | Awaitable[asgi.Response],
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> Awaitable[None] | None:
        """Send an answer if that needs no wait; else return an awaitable that sends it."""
        if isinstance(outcome, asgi.Response):
            try:
                sent_bytes = self._send_now(visit, outcome)
            except BaseException:
                self._end(visit)
                raise
            if sent_bytes is not None:
                self._record(visit, outcome.status, sent_bytes)
                self._end(visit)
                return None
        rest = self.serve(visit, outcome, receive, send)
        if not isinstance(outcome, asgi.Response) or visit.request.writer is None:
            return rest
        # Only sending is left, and a file that the socket accepts at once needs no task.
        return _begin(rest)

    async def serve(
        self,
        visit: _Visit,
        outcome: asgi.Response | Awaitable[asgi.Response],
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> None:
        """Serve a request to its end. outcome: its answer, or an awaitable of it."""
        request = visit.request
        try:
            sent_now_bytes = None
            if not isinstance(outcome, asgi.Response):
                outcome = await self._settle(visit, outcome)
                sent_now_bytes = self._send_now(visit, outcome)
            if sent_now_bytes is None:
                status, sent_bytes = await self._send(visit, outcome, receive, send)
            else:
                status, sent_bytes = outcome.status, sent_now_bytes
        except errors.ClientDisconnected:
            self.counts.disconnects += 1
        except storage_errors.BodyMissing:
            # Its head is sent: the client sees a body that is cut short.
            self._log.exception(
                "a stored body is shorter than its record, request id %s", request.request_id
            )
            self._record(visit, CUT_SHORT_STATUS, 0)
        except OSError:
            # Some servers report a disconnected client by an error of the socket.
            self.counts.disconnects += 1
            self._log.warning(
                "an answer could not be finished, request id %s", request.request_id, exc_info=True
            )
        else:
            self._record(visit, status, sent_bytes)
        finally:
            self._end(visit)

    async def _settle(self, visit: _Visit, rest: Awaitable[asgi.Response]) -> asgi.Response:
        try:
            return await rest
        except errors.ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the rest become a 500 of the face's form
            return self._refuse(visit, error)

    def _record(self, visit: _Visit, status: int, sent_bytes: int) -> None:
        duration_ns = self._monotonic_ns() - visit.started_ns
        self.counts.record(
            visit.name,
            status,
            duration_ns=duration_ns,
            received_bytes=visit.request.received_bytes,
            sent_bytes=sent_bytes,
        )
        entry = visit.entry
        if self._audit is not None and entry is not None and entry.topic is not None:
            self._audit.record_outcome(entry, status, duration_ns=duration_ns)
        noted = visit.request.noted
        if noted is not None:
            assert self._access_logs is not None, "it has noted the request"
            self._access_logs.record(noted, status, sent_bytes=sent_bytes, duration_ns=duration_ns)

    def _end(self, visit: _Visit) -> None:
        visit.request.release()
        self.counts.in_flight -= 1

    def _face_of(self, request: asgi.Request) -> str:
        name = dispatch.face_of_head(
            request.raw_path,
            request.query,
            request.headers.joined,
            domain=self._domain,
            method=request.method,
        )
        if name == dispatch.SNOWFLAKE:
            request.raw_path = dispatch.path_for(name, request.raw_path)
        return name

    def _start(self, visit: _Visit, scope: asgi.Scope) -> asgi.Response | Awaitable[asgi.Response]:
        """Return a request's answer, or an awaitable of it."""
        face, request = visit.face, visit.request
        _check_bounds(request)
        coding = request.headers.joined.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            # The body would be stored as it is coded (RFC 9112, section 6.1).
            raise errors.MalformedRequest("chunked is the only transfer coding that is decoded")
        version = scope.get("http_version")
        if version != "1.1" or request.headers.joined.get(b"host") != self._host:
            self._check_host(request, version)
        if request.raw_path == targets.SERVER:
            return _answer_for_server(request)
        call = face.identify(request)
        if self._access_logs is not None and self._access_logs.is_on:
            request.noted = self._access_logs.begin(visit.name, call)
        operation = call.operation
        if operation.authentication in UNAUTHENTICATED:
            call.caller = self._verifier.unverified(request)
            if operation.authentication is Authentication.IN_BODY:
                call.admit = functools.partial(self._admit, visit, call)
            return self._handle(visit, call)
        caller = self._verifier.begin(request, face.name)
        if not isinstance(caller, callers.Caller):
            return self._verify_and_handle(visit, call, caller)
        self._admit(visit, call, caller)
        whole = scope.get("extensions", _NO_EXTENSIONS).get(asgi.WHOLE)
        if whole is not None:
            self._remember(whole, scope, visit, call)
        return self._handle(visit, call)

    def _start_again(
        self, visit: _Visit, repeat: repeats.Repeat
    ) -> asgi.Response | Awaitable[asgi.Response] | None:
        """Return the answer to a repeated request, or an awaitable of it; None if its signature or
        token is no longer valid."""
        request = visit.request
        caller = self._verifier.again(repeat.standing, request, repeat.parts)
        if caller is None:
            return None
        if repeat.comes_again:
            self._keep_bytes(request, repeat)
        operation = repeat.operation
        if operation is None:
            call = visit.face.identify(request)
        else:
            call = repeat.call(operation, request)
        if self._access_logs is not None and self._access_logs.is_on:
            request.noted = self._access_logs.begin(visit.name, call)
        self._admit(visit, call, caller)
        return self._handle(visit, call)

    def _remember(self, whole: bytes, scope: asgi.Scope, visit: _Visit, call: calls.Call) -> None:
        """Store the parsed form of a request whose caller is authorised. whole: its head."""
        request, operation = visit.request, call.operation
        scheme = call.caller.signing.scheme
        has_body = operation.with_body is not None
        body_bytes = request.content_length or 0
        if scheme in ("sigv4", "sigv4-query") and (has_body or not body_bytes):
            template = self._repeats.find_template(
                whole,
                request,
                key=call.value.key if has_body or operation.with_key is not None else "",
                has_body=has_body,
                is_presigned=scheme == "sigv4-query",
                is_remembered=asgi.REPEAT in scope["extensions"],
            )
            if template is not None:
                self._keep(whole, template, scope, visit, call)
            if has_body or scheme == "sigv4":
                return  # exactly these bytes seldom come again, as a presigned URL for reading does
        elif body_bytes and not (scheme == "bearer" and self._repeats.comes_again(whole)):
            return
        self._keep(whole, None, scope, visit, call)

    def _keep_bytes(self, request: asgi.Request, repeat: repeats.Repeat) -> None:
        """Store a repeated request whose signature is right for the same bytes alone."""
        standing = self._verifier.of_bytes(repeat.standing, repeat.parts)
        kept = msgspec.structs.replace(repeat, standing=standing, comes_again=False)
        self._repeats.keep(request.extension(asgi.WHOLE), kept)

    def _keep(
        self,
        whole: bytes,
        template: templates.Template | None,
        scope: asgi.Scope,
        visit: _Visit,
        call: calls.Call,
    ) -> None:
        """Store the parsed form of a request for heads of its template, None for the same bytes."""
        request = visit.request
        body_bytes = request.content_length or 0
        if not body_bytes and _must_close(request):
            return  # nothing follows, but the connection ends after the answer
        standing = self._verifier.standing(request, call.caller, template)
        if standing is None:
            return
        kept = dict(scope)
        del kept["extensions"]
        kept.pop("headers", None)
        is_read_anew = template is not None and templates.RANGE in template.names
        repeat = repeats.Repeat(
            scope=kept,
            headers=request.headers,
            name=visit.name,
            operation=None if is_read_anew else call.operation,
            value=call.value,
            context=None if call.context is None else call.context.anew(),
            standing=standing,
            body_bytes=body_bytes,
            expects=request.writer is not None and request.writer.expects,
        )
        if template is None:
            self._repeats.keep(whole, repeat)
        else:
            self._repeats.keep_signed(whole, template, repeat)

    async def _verify_and_handle(
        self, visit: _Visit, call: calls.Call, verifying: Awaitable[callers.Caller]
    ) -> asgi.Response:
        """Answer a call whose signature covers the body's hash."""
        caller = await verifying
        self._admit(visit, call, self._verifier.renew(caller))
        outcome = self._handle(visit, call)
        return outcome if isinstance(outcome, asgi.Response) else await outcome

    def _handle(self, visit: _Visit, call: calls.Call) -> asgi.Response | Awaitable[asgi.Response]:
        """Return the answer of an authorised call, or an awaitable of it."""
        operation = call.operation
        if operation.handler is None:
            raise visit.face.refuse_unimplemented(operation)
        if operation.body_bytes_max:
            body = visit.request.read_now(limit_bytes=operation.body_bytes_max)
            if body is None:
                return self._read_and_handle(visit, call, operation.handler)
            call.body = body
        return operation.handler(visit.face.services, call)

    async def _read_and_handle(
        self, visit: _Visit, call: calls.Call, handler: calls.Handler
    ) -> asgi.Response:
        call.body = await visit.request.read(limit_bytes=call.operation.body_bytes_max)
        # While the client sent the body, a name may have begun to refer to another object, and the
        # caller may have lost rights.
        call.caller = self._verifier.renew(call.caller)
        self._authorise(visit.face, call)
        outcome = handler(visit.face.services, call)
        return outcome if isinstance(outcome, asgi.Response) else await outcome

    def _refuse(self, visit: _Visit, error: Exception) -> asgi.Response:
        """Return the answer for an error; a failed authentication goes into the audit log."""
        request, entry = visit.request, visit.entry
        if isinstance(error, REFUSALS) and self._audit is not None and entry is not None:
            self._audit.record_refusal(entry, type(error).__name__, client_ip=request.client_ip)
        response = self._encode_error(visit.face, error, request)
        if request.noted is not None and self._access_logs is not None:
            self._access_logs.refuse(request.noted, response.headers, response.body)
        # The operation of a request with wrong parameters has its error, which would keep the
        # request, and a connection, for as long as the operation is remembered.
        error.__traceback__ = None
        return response

    def _check_host(self, request: asgi.Request, version: str | None) -> None:
        """Raise MalformedRequest for an HTTP version other than 1.0 and 1.1, and for a Host header
        that is missing, doubled or no host."""
        if version not in (None, "1.0", "1.1"):
            raise errors.MalformedRequest(f"HTTP/{version} is not served, only 1.0 and 1.1")
        host = request.headers.joined.get(b"host")
        if host is not None:
            targets.check_host(host)
            self._host = host
        elif version == "1.1":
            raise errors.MalformedRequest("the request has no Host header")

    def _encode_error(self, face: Face, error: Exception, request: asgi.Request) -> asgi.Response:
        try:
            response = face.encode_error(error, request)
        except Exception as another:  # noqa: BLE001 - a face that fails at this too must not hang
            self._log.error("%s could not put an error into words", face.name, exc_info=another)
            response = asgi.Response(500)
        if response.status == 500:
            self._log.error(
                "%s %s failed, request id %s",
                request.method,
                request.raw_path.decode("latin-1"),
                request.request_id,
                exc_info=error,
            )
        return response

    def _admit(self, visit: _Visit, call: calls.Call, caller: callers.Caller) -> None:
        """Set the call's caller. Raises MissingCredentials and AccessDenied."""
        call.caller = caller
        principal = caller.principal
        call.request.proven = principal.type != "anonymous"
        if visit.entry is not None:
            visit.entry.credential_id = caller.credential_id
        access_key = caller.credential_id
        # Temporary keys and tokens come from a key that was used to get them.
        if access_key and access_key == principal.access_key:
            signing = caller.signing
            self._key_uses[access_key] = keyuses.KeyUse(
                visit.started_ns, visit.name, signing.service, signing.region
            )
        required = call.operation.authentication is Authentication.REQUIRED
        if required and principal.type == "anonymous":
            raise auth_errors.MissingCredentials(
                f"the request has no credentials{ACCEPTED.get(visit.face.name, '')}"
            )
        self._authorise(visit.face, call)

    def _authorise(self, face: Face, call: calls.Call) -> None:
        operation = call.operation
        if operation.authentication in UNDEMANDING:
            return
        is_free = operation.only_reads and decide.is_unbound(call.caller.principal)
        if is_free and not self._authoriser.records_reads:
            return
        if operation.demands_of_document and call.principal.type != "anonymous":
            return
        try:
            for demand in operation.demands(face.services, call):
                self._authoriser.check(call.caller.principal, demand)
        except access_errors.AccessDenied:
            if operation.on_denial is not None:
                operation.on_denial(face.services, call)
            raise

    def _send_now(self, visit: _Visit, response: asgi.Response) -> int | None:
        """Send an answer if it is in memory and the transport accepts it now; return the number of
        its body's bytes. Otherwise send nothing and return None."""
        request = visit.request
        writer = request.writer
        body = response.whole_body(request.method)
        if body is None or writer is None or not writer.is_ready:
            return None
        try:
            lines = self._common_lines(visit) + response.lines()
        except errors.MalformedRequest:
            return None  # `_send` encodes the error
        return writer.send_now(response.status, lines, body)

    async def _send(
        self, visit: _Visit, response: asgi.Response, receive: asgi.Receive, send: asgi.Send
    ) -> tuple[int, int]:
        lines = self._common_lines(visit)
        sender = asgi.Sender(visit.request, receive, send, files=self._files, lines=lines)
        try:
            return response.status, await sender.send(response)
        except errors.ClientDisconnected:
            raise
        except Exception as error:
            if sender.started:
                raise
            # A missing file, or a header that cannot be sent: no byte of the answer is sent yet.
            response = self._encode_error(visit.face, error, visit.request)
            return response.status, await sender.send(response)

    def _common_lines(self, visit: _Visit) -> bytes:
        """Return the headers of every answer, encoded as lines of its head."""
        request = visit.request
        second = self._now_ms() // 1000
        if second != self._date_second:
            self._date_second = second
            date = email.utils.formatdate(second, usegmt=True)
            dated = f"\r\nserver: Boathouse\r\ndate: {date}\r\n".encode()
            self._dated_lines = {
                name: dated + self._lines_of_face.get(name, b"") for name in self._faces
            }
        identity = b"x-amz-request-id: " + request.request_id.encode()
        if not (request.body_finished and request.method != "CONNECT") and _must_close(request):
            return identity + self._dated_lines[visit.name] + b"connection: close\r\n"
        return identity + self._dated_lines[visit.name]


class _Visit(msgspec.Struct, frozen=True):
    """A request that is being served. name: its face's. entry: of the audit log.

    Every request makes one, so it is a Struct: a third of what a named tuple costs.
    """

    name: str
    face: Face
    request: asgi.Request
    entry: audit.Entry | None
    started_ns: int


ACCEPTED = {
    dispatch.NATIVE: "; send a key pair by Basic authentication (curl -u ACCESS_KEY:SECRET_KEY), "
    "or a bearer token"
}
"""What a refusal of a request without credentials says about those that its face accepts."""

REQUEST_CODES = frozenset(
    {Exchange.begin.__code__, Exchange._resume.__code__, Exchange.serve.__code__}  # noqa: SLF001
)
"""The code whose local `request` is the request being served; for `server.looplag`."""


def _begin(rest: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
    """Run a coroutine up to its first wait; return the rest of it, None if it has ended.

    Only for a coroutine that does not ask which task it runs in, as time limits do.
    """
    try:
        first = rest.send(None)
    except StopIteration:
        return None
    return _go_on(rest, first)


@types.coroutine
def _go_on(rest: Coroutine[Any, Any, None], first: Any) -> Generator[Any, Any, None]:
    """Await what a started coroutine awaits, and run it to its end."""
    waited_for = first
    try:
        while True:
            try:
                result = yield waited_for
            except BaseException as error:  # noqa: BLE001 - a cancellation, for the coroutine
                waited_for = rest.throw(error)
            else:
                waited_for = rest.send(result)
    except StopIteration:
        return


def _answer_for_server(request: asgi.Request) -> asgi.Response:
    """Answer a request without a resource: CONNECT, `OPTIONS *`."""
    allowed = (("allow", ", ".join(targets.METHODS)),)
    if request.method == "OPTIONS":
        return asgi.Response(200, allowed)
    if request.method != "CONNECT":
        raise errors.MalformedRequest("the target * is for OPTIONS alone")
    headers = (*allowed, ("content-type", "text/plain; charset=utf-8"))
    return asgi.Response(405, headers, b"CONNECT is not served: this is no proxy.\n")


def _check_bounds(request: asgi.Request) -> None:
    headers = request.headers
    joined = headers.joined
    if len(request.raw_path) > limits.PATH_BYTES_MAX:
        bound = "PATH_BYTES_MAX"
    elif len(request.query) > limits.QUERY_BYTES_MAX:
        bound = "QUERY_BYTES_MAX"
    elif len(headers.raw) > limits.HEADERS_MAX:
        bound = "HEADERS_MAX"
    elif sum(map(len, joined)) + sum(map(len, joined.values())) > limits.HEADERS_BYTES_MAX:
        bound = "HEADERS_BYTES_MAX"
    else:
        return
    raise errors.RequestTooLarge(
        f"the request exceeds a limit: {bound} is {getattr(limits, bound)}", limit=bound
    )


def _must_close(request: asgi.Request) -> bool:
    """Return whether the connection must close after this answer.

    A client that sent `Expect: 100-continue` and gets another answer does not send its body, but
    the server would still read the next request as that body. A large body of a refused request
    is not received.
    """
    if request.method == "CONNECT":
        return True
    if request.body_finished:
        return False
    joined = request.headers.joined
    if not request.body_started and b"expect" in joined:
        return True
    length = joined.get(b"content-length")
    if length is not None:
        return length.isdigit() and int(length[:20]) > limits.UNREAD_BODY_BYTES_MAX
    return b"transfer-encoding" in joined
