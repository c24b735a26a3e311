"""face: one request's way through the server, the same for every face.

dispatch -> identify -> authenticate -> authorise -> handle -> encode. Faces know their protocol;
the order of these steps, and the one place where an unforeseen exception becomes an answer, are
here. The body is not touched before the caller is allowed in, so an upload that is refused after
`Expect: 100-continue` has moved no byte. This module knows no protocol and no operation.
"""

from __future__ import annotations

import email.utils
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from server import asgi, calls, counters, dispatch, errors, held, limits, targets, unserved
from server.access import audit, decide, model
from server.access import errors as access_errors
from server.auth import callers, chunked, verify
from server.auth import errors as auth_errors
from storage import model as storage_model

Authentication: TypeAlias = callers.Authentication
Caller: TypeAlias = callers.Caller
Demand: TypeAlias = model.Demand
Principal: TypeAlias = model.Principal
Payload: TypeAlias = chunked.Payload

SERVER_HEADER = (b"server", b"Boathouse")
UNAUTHENTICATED = (Authentication.NONE, Authentication.SELF)
REFUSALS = (auth_errors.AuthError, access_errors.WrongPassword)


class Face(Protocol):
    """One protocol."""

    name: str

    @property
    def services(self) -> Any:
        """What the handlers of its rows get."""

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the row that the request means, with its parsed value. Raises the face's errors.

        Reads no body and looks nothing up.
        """

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error of an operation that has no handler."""

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return the answer for an error: of the face, of the kit, or an unknown one (500)."""


class Exchange:
    """The ASGI application.

    faces: by the names of `dispatch`; one that is not here is unserved. audit_log: told of refusals
    and outcomes; None keeps none. files: how the files of bodies are read; the disk. monotonic_ns:
    a clock for durations.
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
        files: asgi.Files,
        domain: str | None = None,
        counts: counters.Counters | None = None,
        audit_log: audit.Audit | None = None,
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
        self._audit = audit_log
        self._log = logging.getLogger("boathouse.exchange")
        # A request's id: sixteen digits of this start, sixteen of a count.
        self._id_prefix = new_id()[:16]
        self._id_numbers = itertools.count(1)
        self._date_second = -1
        self._date = b""
        self._host: bytes | None = b""
        """The last Host header that was checked: nearly every request has the same."""
        self.counts = counts or counters.Counters()

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Serve one HTTP request. scope: ASGI's."""
        assert scope["type"] == "http", f"unexpected scope {scope['type']}"
        started_ns = self._monotonic_ns()
        counts = self.counts
        counts.in_flight += 1
        request_id = f"{self._id_prefix}{next(self._id_numbers):016x}"
        request = asgi.Request(scope, receive, request_id=request_id, bodies=self._bodies)
        try:
            face = self._face_of(request)
            entry = None if self._audit is None else self._audit.begin(request.request_id, face)
            response = await self._answer(face, request, entry, scope)
            status, sent_bytes = await self._send(face, response, request, receive, send)
        except errors.ClientDisconnected:
            counts.disconnects += 1
        except OSError:
            # Some servers report a client that left by an error of the socket.
            counts.disconnects += 1
            self._log.warning("an answer could not be finished", exc_info=True)
        else:
            duration_ns = self._monotonic_ns() - started_ns
            counts.record(
                face,
                status,
                duration_ns=duration_ns,
                received_bytes=request.received_bytes,
                sent_bytes=sent_bytes,
            )
            if self._audit is not None and entry is not None and entry.recorded:
                self._audit.record_outcome(entry, status, duration_ns=duration_ns)
        finally:
            request.release()
            counts.in_flight -= 1

    def _face_of(self, request: asgi.Request) -> str:
        joined = request.headers.joined
        authorization = joined.get(b"authorization")
        service = None
        if authorization is not None or request.query:
            service = dispatch.service_of(
                None if authorization is None else authorization.decode("latin-1"), request.query
            )
        name = dispatch.face_of(request.raw_path, request.host, service, domain=self._domain)
        if name == dispatch.SNOWFLAKE:
            request.raw_path = dispatch.path_for(name, request.raw_path)
        return name

    async def _answer(
        self,
        name: str,
        request: asgi.Request,
        entry: audit.Entry | None,
        scope: asgi.Scope,
    ) -> asgi.Response:
        face = self._faces[name]
        try:
            _check_bounds(request)
            version = scope.get("http_version")
            if version != "1.1" or request.headers.joined.get(b"host") != self._host:
                self._check_host(request, version)
            if request.raw_path == targets.SERVER:
                return _answer_for_server(request)
            call = face.identify(request)
            operation = call.operation
            await self._admit(face, call, entry)
            if operation.handler is None:
                raise face.refuse_unimplemented(operation)
            if operation.body_bytes_max:
                call.body = await request.read(limit_bytes=operation.body_bytes_max)
                # While the client sent it, a name may have come to mean something else.
                self._authorise(face, call)
            return await operation.handler(face.services, call)
        except errors.ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the rest become a 500 of the face's form
            if isinstance(error, REFUSALS) and self._audit is not None and entry is not None:
                self._audit.record_refusal(entry, type(error).__name__, client_ip=request.client_ip)
            return self._encode_error(face, error, request)

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

    async def _admit(self, face: Face, call: calls.Call, entry: audit.Entry | None) -> None:
        """Find out who calls, and refuse who may not do what the call is for."""
        operation, request = call.operation, call.request
        authentication = operation.authentication
        if authentication in UNAUTHENTICATED:
            call.caller = self._verifier.nobody(request)
            return
        call.caller = caller = await self._verifier.verify(request, face.name)
        principal = caller.principal
        request.proven = principal.kind != "anonymous"
        if entry is not None:
            entry.credential_id = caller.credential_id
        if authentication is Authentication.REQUIRED and principal.kind == "anonymous":
            raise auth_errors.MissingCredentials("the request has no credentials")
        self._authorise(face, call)

    def _authorise(self, face: Face, call: calls.Call) -> None:
        if call.operation.authentication in UNAUTHENTICATED:
            return
        for demand in call.operation.demands(face.services, call):
            self._authoriser.check(call.principal, demand)

    async def _send(
        self,
        face: str,
        response: asgi.Response,
        request: asgi.Request,
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> tuple[int, int]:
        headers = [
            (b"x-amz-request-id", request.request_id.encode()),
            SERVER_HEADER,
            (b"date", self._date_now()),
        ]
        if _must_close(request):
            headers.append((b"connection", b"close"))
        sender = asgi.Sender(request, receive, send, files=self._files, headers=headers)
        try:
            return response.status, await sender.send(response)
        except errors.ClientDisconnected:
            raise
        except Exception as error:
            if sender.started:
                raise
            # A file that is gone, or a header that cannot be sent: the answer is still open.
            response = self._encode_error(self._faces[face], error, request)
            return response.status, await sender.send(response)

    def _date_now(self) -> bytes:
        second = self._now_ms() // 1000
        if second != self._date_second:
            self._date_second = second
            self._date = email.utils.formatdate(second, usegmt=True).encode()
        return self._date


def _answer_for_server(request: asgi.Request) -> asgi.Response:
    """Answer a request for no resource: CONNECT, `OPTIONS *`."""
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
        f"the request is beyond what is taken: {bound} is {getattr(limits, bound)}", limit=bound
    )


def _must_close(request: asgi.Request) -> bool:
    """Say whether the connection cannot carry another request after this answer.

    A client that asked `Expect: 100-continue` and is answered otherwise keeps its body back, but
    the server would still read the next request as that body. A large body that nobody wants is
    not worth receiving.
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
