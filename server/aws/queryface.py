"""face: a whole AWS service of the Query protocol, from its model and one row per operation.

Every operation is a form, by POST or in the query, whose `Action` names it. So the operation is
known once the body is read, and its demands are checked here. An operation of the model without a
row is answered 501 with its name, after authorisation. This module contains no operation itself.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from server import asgi, calls, limits
from server.access import decide
from server.auth import callers
from server.auth import errors as auth_errors
from server.aws import check, errors, query, shapes, wire_errors
from server.aws.face import ServiceRow

METHODS: Final = ("GET", "POST")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """A request's operation, and its checked members."""

    operation: shapes.OperationModel
    members: Mapping[str, Any]


class QueryFace:
    """Serves one service of the Query protocol.

    load: returns the service's model; called in a thread, at the first request. namespace: of its
    XML. services: the argument of the functions. rows: by the names of the model's operations.
    missing: makes the row of any other operation. wire_errors: the service's own table, before the
    common one. The functions are those of `server.aws.face`; a call's value is a Arguments.
    """

    def __init__(
        self,
        *,
        name: str,
        namespace: str,
        load: Callable[[], shapes.ServiceModel],
        services: Any,
        authoriser: decide.Authoriser,
        rows: Mapping[str, ServiceRow],
        missing: Callable[[str], ServiceRow],
        wire_errors: wire_errors.Table,
    ) -> None:
        self.name = name
        self.services = services
        self._namespace = namespace
        self._load = load
        self._authoriser = authoriser
        self._rows = rows
        self._missing = missing
        self._wire_errors = wire_errors
        self._service: shapes.ServiceModel | None = None
        self._operation = calls.Operation(
            name=name,
            handler=self._answer,
            body_bytes_max=limits.MODEL_BODY_BYTES_MAX,
            authentication=callers.Authentication.SIGNED_OR_ANONYMOUS
            if any(row.unsigned for row in rows.values())
            else callers.Authentication.REQUIRED,
        )

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the one row of every request: its body names the operation."""
        return calls.Call(self._operation, None, request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error of an operation without a function."""
        return errors.OperationNotImplemented(f"{operation.name} is not implemented.")

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error's response, from which AWS's clients raise an exception."""
        answer = wire_errors.wire_error(error, (self._wire_errors, wire_errors.QUERY))
        body = query.encode_error(
            answer.code,
            answer.sentence(error),
            is_senders=answer.status < 500,
            namespace=self._namespace,
            request_id=request.request_id,
        )
        return asgi.Response(answer.status, _headers(request), body)

    async def _answer(self, services: Any, call: calls.Call) -> asgi.Response:
        """Parse the form, check its members and the demands, call the function, encode."""
        if self._service is None:
            self._service = await asyncio.to_thread(self._load)
            unknown = self._rows.keys() - self._service.operations.keys()
            assert not unknown, f"{self._service.name} has no {sorted(unknown)}"
        service = self._service
        parse = functools.partial(_parse_form, service, call.request, call.body)
        if len(call.body) <= limits.PARSED_HERE_BYTES_MAX:
            form = parse()
        else:
            form = await asyncio.to_thread(parse)
        call.value = form
        name = form.operation.name
        row = self._rows.get(name) or self._missing(name)
        if call.principal.type == "anonymous" and not row.unsigned:
            raise auth_errors.MissingCredentials("the request has no credentials")
        for demand in row.demands(services, call):
            self._authoriser.check(call.principal, demand)
        if row.function is None:
            raise errors.OperationNotImplemented(f"{name} is not implemented.")
        result = await row.function(services, call)
        body = query.encode_result(
            service,
            form.operation,
            result,
            namespace=self._namespace,
            request_id=call.request.request_id,
        )
        return asgi.Response(200, _headers(call.request), body)


def _parse_form(service: shapes.ServiceModel, request: asgi.Request, body: bytes) -> Arguments:
    if request.method not in METHODS or request.raw_path.strip(b"/"):
        raise errors.UnknownOperation("The request is neither a POST nor a GET of the path /.")
    pairs = (*request.pairs, *asgi.parse_pairs(body)) if body else request.pairs
    first = dict(reversed(pairs))
    action = first.get("Action")
    if action is None:
        raise errors.MissingAction("The request must contain the parameter Action.")
    operation = service.operations.get(action)
    if operation is None or first.get("Version", service.version) != service.version:
        raise errors.UnknownOperation(
            f"Could not find operation {action[:100]} for version "
            f"{first.get('Version', 'NO_VERSION_SPECIFIED')[:20]}"
        )
    members = query.parse_members(service, operation, pairs)
    check.check_members(service, operation, members)
    return Arguments(operation=operation, members=members)


def _headers(request: asgi.Request) -> asgi.ResponseHeaders:
    return (("x-amzn-RequestId", request.request_id), ("content-type", "text/xml"))
