"""rule: which operation of the Snowflake protocol a request is, by method and path.

The caller collapses double slashes in paths (a driver requests `/monitoring/queries//<id>`). Bodies
are not read. An operation of the protocol that Boathouse does not have is an `UnknownRoute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """Open a session. The query string has the requested context; "" means none."""

    database: str
    schema: str
    warehouse: str
    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Renew:
    """Renew the session's tokens with the master token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """Extend the session's life."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logout:
    """Close the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """Run a text. request_id: the same id means the same statement, which runs once."""

    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchResult:
    """Return the result of a query by its id."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Monitor:
    """Return the status of a query."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortRequest:
    """Cancel the query that a requestId (in the body) started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortQuery:
    """Cancel a query by its id."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchChunk:
    """Return one chunk of a result; the signed URL is the credential."""

    query_id: str
    index: int
    expires_at_ms: int
    signature: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Telemetry:
    """A driver's telemetry, which is ignored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownRoute:
    """A request for an operation that Boathouse does not have."""


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
        case ("GET" | "HEAD", "queries", query_id, "chunks", number):
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
