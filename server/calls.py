"""rule: the description of an operation, and of one request for it, for every face.

An Operation is a row: its name, its demands, its body's bound, its handler. A face finds the row of
a request and parses the request once into the row's value; `server.exchange` does the rest, in the
same order for all faces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from server.access import model
from server.auth import callers

if TYPE_CHECKING:
    from server import asgi

Handler: TypeAlias = Callable[[Any, "Call"], "asgi.Response | Awaitable[asgi.Response]"]
"""Runs an operation, given its face's services and the call. Raises errors the face can encode. A
plain function answers at once, or returns a `server.pending.Pending`; one that waits for more is a
coroutine function."""

Demanding: TypeAlias = Callable[[Any, "Call"], tuple[model.Demand, ...]]
"""Returns the demands of an operation, as far as the request's head determines them."""

WithKey: TypeAlias = Callable[[Any, str], Any]
"""Returns an operation's value with another key."""

WithBody: TypeAlias = Callable[[Any, str | None, int, Mapping[bytes, bytes]], Any]
"""Returns an operation's value with another key, None for the same, and with another body's length
and digests, these by the lower-case names of their headers; None if one of them is malformed."""

OnDenial: TypeAlias = Callable[[Any, "Call"], None]
"""Raises the error that a denied caller sees in place of AccessDenied, or returns."""

NO_BODY: Final = 0


def demand_nothing(services: Any, call: Call) -> tuple[model.Demand, ...]:
    """Demand nothing: the operation is free, or its handler demands once it has the body."""
    return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One row of a face's table.

    name: as the protocol's specification or its service model spells it. handler: None if the
    operation is not implemented; then it is refused by its name once the caller is authorised
    for it. only_reads: all its demands are for reading; they are not made for a caller that may do
    everything. demands_of_document: the demands depend on what the body says, so that the handler
    makes them once it has read it; an anonymous caller's are made before, too. on_denial: called
    after a demand is denied; None for no other error than AccessDenied. body_bytes_max: the bound
    of a body that is read whole, before the handler runs; NO_BODY for a handler that reads none or
    receives its body as a stream. with_key: a request that differs from another in its key alone
    is of the same operation, with this value; None if it may be of another one. with_body: the same
    of a request with a body, for one that differs in its key and in the headers about its body
    (`server.templates`).
    """

    name: str
    handler: Handler | None = None
    demands: Demanding = demand_nothing
    authentication: callers.Authentication = callers.Authentication.REQUIRED
    only_reads: bool = False
    demands_of_document: bool = False
    on_denial: OnDenial | None = None
    body_bytes_max: int = NO_BODY
    with_key: WithKey | None = None
    with_body: WithBody | None = None


class Call:
    """One request for an operation. Mutable: `caller` and `body` are set while it is served.

    value: the face's parsed request, of a type that belongs to the operation.
    context: the face's state for this request, None if it needs none. admit: sets the caller and
    raises unless its demands are allowed; only for an operation whose handler finds the caller in
    the body.
    """

    __slots__ = ("admit", "body", "caller", "context", "operation", "request", "value")

    caller: callers.Caller
    admit: Callable[[callers.Caller], None]

    def __init__(
        self, operation: Operation, value: Any, request: asgi.Request, context: Any = None
    ) -> None:
        self.operation = operation
        self.value = value
        self.request = request
        self.context = context
        self.body = b""

    @property
    def principal(self) -> model.Principal:
        """The caller's principal."""
        return self.caller.principal
