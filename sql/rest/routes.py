"""rule: which operation of the Snowflake protocol a request is, by method and path.

Paths arrive with double slashes collapsed (a driver asks `/monitoring/queries//<id>`). Bodies are
not looked at. What the protocol has and Boathouse does not is `UnknownRoute` like anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """Open a session. The context is asked for in the query string; "" means not."""

    database: str
    schema: str
    warehouse: str
    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Renew:
    """New tokens for old, by the master token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """The client is still there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logout:
    """Close the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """Run a text. request_id: the same one means the same statement, not another run."""

    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchResult:
    """The answer of a query, by its id."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Monitor:
    """The state of a query."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortRequest:
    """End the query that a requestId (in the body) began."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortQuery:
    """End a query by its id."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchChunk:
    """One chunk of a result; the address itself is the credential."""

    query_id: str
    index: int
    expires_at_ms: int
    signature: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Telemetry:
    """A driver's own logs, which are ignored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownRoute:
    """Nothing that is served."""


Operation: TypeAlias = (
    Login
    | Renew
    | Heartbeat
    | Logout
    | RunQuery
    | FetchResult
    | Monitor
    | AbortRequest
    | AbortQuery
    | FetchChunk
    | Telemetry
    | UnknownRoute
)


def identify(method: str, segments: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Operation:
    """Return the operation. segments: the decoded path; pairs: the decoded query string."""
    # The last of several wins nowhere in this protocol; drivers send each name once.
    parameters = dict(reversed(pairs))
    match (method, *segments):
        case ("POST", "session", "v1", "login-request"):
            return Login(
                database=parameters.get("databaseName", ""),
                schema=parameters.get("schemaName", ""),
                warehouse=parameters.get("warehouse", ""),
                role=parameters.get("roleName", ""),
            )
        case ("POST", "session", "token-request"):
            return Renew()
        case ("POST", "session", "heartbeat"):
            return Heartbeat()
        case ("POST", "session") if parameters.get("delete") == "true":
            return Logout()
        case ("POST", "queries", "v1", "query-request"):
            return RunQuery(request_id=parameters.get("requestId", ""))
        case ("POST", "queries", "v1", "abort-request"):
            return AbortRequest()
        case ("POST", "queries", query_id, "abort-request"):
            return AbortQuery(query_id=query_id)
        case ("GET", "queries", query_id, "result"):
            return FetchResult(query_id=query_id)
        case ("GET", "queries", query_id, "chunks", number):
            return _chunk(query_id, number, parameters)
        case ("GET", "monitoring", "queries", query_id):
            return Monitor(query_id=query_id)
        case ("POST", "telemetry", "send", *_):
            return Telemetry()
        case _:
            return UnknownRoute()


def _chunk(query_id: str, number: str, parameters: dict[str, str]) -> Operation:
    expires = parameters.get("expires", "")
    if not _is_count(number, 9) or not _is_count(expires, 16):
        return UnknownRoute()
    return FetchChunk(
        query_id=query_id,
        index=int(number),
        expires_at_ms=int(expires),
        signature=parameters.get("signature", ""),
    )


def _is_count(text: str, digits_max: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= digits_max
