"""rule: one description of an operation, and one request for it, the same for every face.

An Operation is a row: what its name is, what must be allowed, where its body goes, which function
does it. A face finds the row that a request means and parses the request once into the row's value;
`server.exchange` does the rest in the same order for all. What a row does not say, no step asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from server.access import model
from server.auth import callers

if TYPE_CHECKING:
    from server import asgi

Handler: TypeAlias = Callable[[Any, "Call"], Awaitable["asgi.Response"]]
"""Does an operation: gets its face's services and the call. Raises what the face can encode."""

Demanding: TypeAlias = Callable[[Any, "Call"], tuple[model.Demand, ...]]
"""Says what must be allowed before an operation begins, as far as its head tells."""

NO_BODY: Final = 0


def demand_nothing(services: Any, call: Call) -> tuple[model.Demand, ...]:
    """Demand nothing: the operation is free, or its handler asks once it has read the body."""
    return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One row of a face's table.

    name: as the protocol's specification or its service model spells it. handler: None if the
    operation is not implemented; then it is refused by its name once the caller is allowed to ask
    for it. body_bytes_max: the bound of a body that is read whole, before the handler begins;
    NO_BODY for a handler that reads none or takes its body as a stream.
    """

    name: str
    handler: Handler | None = None
    demands: Demanding = demand_nothing
    authentication: callers.Authentication = callers.Authentication.REQUIRED
    body_bytes_max: int = NO_BODY


class Call:
    """One request for an operation. Mutable: `caller` and `body` come while it is on its way.

    value: what the face has parsed of the request, of a type that belongs to the operation.
    context: what the face remembers while the request is on its way, None if it needs nothing.
    """

    __slots__ = ("body", "caller", "context", "operation", "request", "value")

    caller: callers.Caller

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
        """Who calls."""
        return self.caller.principal
