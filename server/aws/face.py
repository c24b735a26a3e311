"""face: a whole AWS service out of its model and one plain function per operation.

The model gives routes, members, constraints, statuses and shapes; a handler gets checked members
and returns a result. Every operation of the model is routed, and one without a handler answers 501
by its name, after the caller was let in. Knows no operation by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from server import asgi, exchange, limits
from server.aws import check, errors, match, restjson, shapes, wire_errors

Members: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Members, exchange.Principal], Awaitable[Members]]
"""An operation: checked members by the model's names, and who asks, to the result's members."""

Demanding: TypeAlias = Callable[[str, Members], tuple[exchange.Demand, ...]]
"""An operation's name and the members of its path and query, to what must be allowed for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One identified request. operation: None if the service has none at this route.

    members: those of the path and the query, not yet checked; the body's join them in `handle`.
    """

    operation: shapes.Operation | None
    labels: Mapping[str, str]
    pairs: Sequence[tuple[str, str]]
    members: Members


class AwsFace:
    """Serves one rest-json service.

    load: gives the service's model; called once, at the first request. handlers: by the names of
    the model's operations. wire_errors: the service's own table, before the common one.
    """

    def __init__(
        self,
        *,
        name: str,
        load: Callable[[], shapes.Service],
        handlers: Mapping[str, Handler],
        demanding: Demanding,
        wire_errors: wire_errors.Table,
    ) -> None:
        self.name = name
        self._load = load
        self._handlers = handlers
        self._demanding = demanding
        self._wire_errors = wire_errors
        self._service: shapes.Service | None = None

    def service(self) -> shapes.Service:
        """Return the model, read at the first call."""
        if self._service is None:
            service = self._load()
            unknown = self._handlers.keys() - service.operations.keys()
            assert not unknown, f"{service.name} has no {sorted(unknown)}"
            self._service = service
        return self._service

    def identify(self, request: asgi.Request) -> Call:
        """Return the operation that method, path and query mean."""
        service = self.service()
        found = match.match(service, request.method, request.segments)
        if found is None:
            return Call(operation=None, labels={}, pairs=(), members={})
        members = restjson.parse_members(
            service, found.operation, labels=found.labels, pairs=request.pairs, body=b""
        )
        return Call(
            operation=found.operation, labels=found.labels, pairs=request.pairs, members=members
        )

    def authentication(self, operation: Call) -> exchange.Authentication:
        """Ask a credential of everybody, also for routes that do not exist."""
        return exchange.Authentication.REQUIRED

    def demands(
        self, operation: Call, principal: exchange.Principal
    ) -> tuple[exchange.Demand, ...]:
        """Return what must be allowed; what only the body tells is the handler's to ask."""
        if operation.operation is None:
            return ()
        return self._demanding(operation.operation.name, operation.members)

    async def handle(
        self, operation: Call, request: asgi.Request, caller: exchange.Caller
    ) -> asgi.Response:
        """Check the members, call the handler and encode what it returns."""
        if operation.operation is None:
            raise errors.UnknownOperation("The requested operation is not known to the service.")
        name = operation.operation.name
        handler = self._handlers.get(name)
        if handler is None:
            raise errors.OperationNotImplemented(f"{name} is not implemented.")
        service = self.service()
        body = await request.read(limit_bytes=limits.MODEL_BODY_BYTES_MAX)
        if len(body) <= limits.PARSED_HERE_BYTES_MAX:
            members = _members(service, operation.operation, operation, body)
        else:
            members = await asyncio.to_thread(
                _members, service, operation.operation, operation, body
            )
        result = await handler(members, caller.principal)
        encoded = restjson.encode_result(service, operation.operation, result)
        return asgi.Response(
            operation.operation.status,
            (*_request_id(request), *_content_type(encoded)),
            encoded,
        )

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error as AWS's clients raise it."""
        found = wire_errors.wire_error(error, (self._wire_errors, wire_errors.COMMON))
        headers, body = restjson.encode_error(found.code, found.sentence(error))
        return asgi.Response(found.status, (*_request_id(request), *headers), body)


def _members(
    service: shapes.Service, operation: shapes.Operation, call: Call, body: bytes
) -> Mapping[str, Any]:
    """Return the members of a call, checked. Raises MalformedBody and ValidationFailed."""
    members = restjson.parse_members(
        service, operation, labels=call.labels, pairs=call.pairs, body=body
    )
    check.check_members(service, operation, members)
    return members


def _request_id(request: asgi.Request) -> asgi.ResponseHeaders:
    return (("x-amzn-RequestId", request.request_id),)


def _content_type(body: bytes) -> asgi.ResponseHeaders:
    return (("content-type", "application/json"),) if body else ()
