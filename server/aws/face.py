"""face: a whole AWS service from its model and one row per operation.

The model gives routes, members, constraints, statuses and shapes; a row gives the demands and the
function that turns checked members into a result. Every operation of the model is routed; one
without a row is answered 501 with its name, after authorisation. This module contains no operation
itself.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from server import asgi, calls, limits
from server.aws import check, errors, match, restjson, shapes, wire_errors

Members: TypeAlias = Mapping[str, Any]
Function: TypeAlias = Callable[[Any, calls.Call], Awaitable[Members]]
"""The function of an operation: takes the service's services and a call whose value is an Input
with checked members; returns the result's members."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceRow:
    """One operation of a service. name: the model's. function: None if not implemented. unsigned: a
    request needs no signature; only in the Query protocol."""

    name: str
    function: Function | None
    demands: calls.Demanding
    unsigned: bool = False


class Input:
    """A request's members. Mutable: the body's members join those of the path and the query."""

    __slots__ = ("labels", "members", "operation", "pairs", "service")

    def __init__(
        self,
        service: shapes.ServiceModel,
        operation: shapes.OperationModel,
        labels: Mapping[str, str],
        pairs: Sequence[tuple[str, str]],
    ) -> None:
        self.service = service
        self.operation = operation
        self.labels = labels
        self.pairs = pairs
        self.members: Members = restjson.parse_members(
            service, operation, labels=labels, pairs=pairs, body=b""
        )

    def take(self, body: bytes) -> None:
        """Add the body's members and check all. Raises MalformedBody and ValidationFailed."""
        members = restjson.parse_members(
            self.service, self.operation, labels=self.labels, pairs=self.pairs, body=body
        )
        check.check_members(self.service, self.operation, members)
        self.members = members


class AwsFace:
    """Serves one rest-json service.

    load: returns the service's model; called once, at the first request. services: the argument
    of the functions. rows: by the names of the model's operations. missing: makes the row of any
    other operation. wire_errors: the service's own table, before the common one.
    """

    def __init__(
        self,
        *,
        name: str,
        load: Callable[[], shapes.ServiceModel],
        services: Any,
        rows: Mapping[str, ServiceRow],
        missing: Callable[[str], ServiceRow],
        wire_errors: wire_errors.Table,
    ) -> None:
        self.name = name
        self.services = services
        self._load = load
        self._rows = rows
        self._missing = missing
        self._wire_errors = wire_errors
        self._service: shapes.ServiceModel | None = None
        self._operations: Mapping[str, calls.Operation] = {}

    def service(self) -> shapes.ServiceModel:
        """Return the model, read at the first call."""
        if self._service is None:
            service = self._load()
            unknown = self._rows.keys() - service.operations.keys()
            assert not unknown, f"{service.name} has no {sorted(unknown)}"
            self._service = service
            self._operations = {
                name: _operation(self._rows.get(name) or self._missing(name))
                for name in service.operations
            }
        return self._service

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the operation of a method, path and query."""
        service = self.service()
        matched = match.match(service, request.method, request.segments)
        if matched is None:
            return calls.Call(UNKNOWN, None, request)
        value = Input(service, matched.operation, matched.labels, request.pairs)
        return calls.Call(self._operations[matched.operation.name], value, request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error of an operation without a function."""
        return errors.OperationNotImplemented(f"{operation.name} is not implemented.")

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error's response, from which AWS's clients raise an exception."""
        answer = wire_errors.wire_error(error, (self._wire_errors, wire_errors.COMMON))
        headers, body = restjson.encode_error(answer.code, answer.sentence(error))
        return asgi.Response(answer.status, (*_request_id(request), *headers), body)


def _operation(row: ServiceRow) -> calls.Operation:
    return calls.Operation(
        name=row.name,
        handler=None if row.function is None else functools.partial(_answer, row.function),
        demands=row.demands,
        body_bytes_max=limits.MODEL_BODY_BYTES_MAX,
    )


async def _answer(function: Function, services: Any, call: calls.Call) -> asgi.Response:
    """Check the members, call the function and encode its result."""
    value: Input = call.value
    if len(call.body) <= limits.PARSED_HERE_BYTES_MAX:
        value.take(call.body)
    else:
        await asyncio.to_thread(value.take, call.body)
    result = await function(services, call)
    encoded = restjson.encode_result(value.service, value.operation, result)
    return asgi.Response(
        value.operation.status,
        (*_request_id(call.request), *_content_type(encoded)),
        encoded,
    )


async def _refuse_route(services: Any, call: calls.Call) -> asgi.Response:
    raise errors.UnknownOperation("The requested operation is not known to the service.")


UNKNOWN: Final = calls.Operation(name="", handler=_refuse_route)
"""The operation of an unknown route; it requires a credential too."""


def _request_id(request: asgi.Request) -> asgi.ResponseHeaders:
    return (("x-amzn-RequestId", request.request_id),)


def _content_type(body: bytes) -> asgi.ResponseHeaders:
    return (("content-type", "application/json"),) if body else ()
