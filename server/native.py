"""face: health, metrics, and the native API's frame.

`/_health` needs no credential; `/_metrics` and `/_api/v1/...` do. Operations of the native API are
routes from the floors that implement them; this module finds the route, authorises its action, and
encodes results and errors as JSON. Routes are templates of whole segments:
`warehouses/{warehouse}/loads`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from server import asgi, calls, counters, errors, errortables, limits
from server.access import errors as access_errors
from server.access import model
from server.auth import callers
from server.auth import errors as auth_errors
from storage import errors as storage_errors

Labels: TypeAlias = Mapping[str, str]
Handler: TypeAlias = Callable[["Call"], Awaitable[Any]]
"""Runs a route's operation; returns a JSON value, or a whole Response."""

Demanding: TypeAlias = Callable[[Labels], tuple[model.Demand, ...]]
ErrorTable: TypeAlias = errortables.Table[tuple[int, str]]
"""Error class -> status and type, for errors of the floors that have routes."""

METRICS_DEMAND: Final = model.Demand(action="lake:Admin", resource="*", only_reads=True)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
API_PREFIX: Final = ("_api", "v1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request to a route: its path's labels, query, body, and caller.

    parameters: the query, by name; the first value counts.
    """

    labels: Labels
    parameters: Mapping[str, str]
    body: bytes
    caller: callers.Caller
    origin: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One operation of the native API. template: below `/_api/v1/`.

    demands: the needed permissions, from the path's labels.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    template: str
    handler: Handler
    demands: Demanding

    @property
    def parts(self) -> tuple[str, ...]:
        """The template's segments."""
        return tuple(self.template.split("/"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """The services of this module's handlers.

    refuses_writes: returns why the server refuses writes now, or None. gauges: yield further lines
    of metrics.
    """

    counts: counters.Counters
    version: str
    refuses_writes: Callable[[], str | None]
    gauges: tuple[Callable[[], Iterable[str]], ...] = ()


KIT_ERRORS: Final[ErrorTable] = {
    errors.MalformedRequest: (400, "BadRequest"),
    errors.RequestTooLarge: (431, "RequestTooLarge"),
    errors.BodyTooLarge: (413, "BodyTooLarge"),
    errors.BodyStalled: (408, "RequestTimeout"),
    errors.ServerBusy: (503, "ServiceUnavailable"),
    errors.MalformedXML: (400, "BadRequest"),
    errors.FaceNotServed: (501, "NotImplemented"),
    errors.NoSuchRoute: (404, "NoSuchRoute"),
    errors.MethodNotAllowed: (405, "MethodNotAllowed"),
    access_errors.AccessDenied: (403, "AccessDenied"),
    access_errors.MalformedPolicy: (400, "MalformedPolicy"),
    access_errors.MalformedARN: (400, "MalformedARN"),
    access_errors.AuditUnavailable: (503, "AuditUnavailable"),
    storage_errors.DiskFull: (507, "InsufficientStorage"),
    auth_errors.AuthError: (401, "Unauthorized"),
    auth_errors.TooManyFailures: (429, "TooManyRequests"),
    auth_errors.PayloadError: (400, "BadRequest"),
}


class NativeFace:
    """The face. routes, wire_errors: those of other floors.

    refuses_writes: returns why the server refuses writes now, or None; `/_health` shows it.
    """

    name = "native"

    def __init__(
        self,
        *,
        counts: counters.Counters,
        version: str,
        routes: Sequence[Route] = (),
        wire_errors: ErrorTable | None = None,
        refuses_writes: Callable[[], str | None] = lambda: None,
        gauges: Sequence[Callable[[], Iterable[str]]] = (),
    ) -> None:
        self.services = Services(
            counts=counts, version=version, refuses_writes=refuses_writes, gauges=tuple(gauges)
        )
        self._rows = tuple((route, _row(route)) for route in routes)
        self._wire_errors = {**KIT_ERRORS, **(wire_errors or {})}

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the row of a request."""
        segments = request.segments
        operation = SINGLE.get(segments)
        if operation is not None:
            if request.method in READING:
                return calls.Call(operation, None, request)
            return calls.Call(UNROUTED, READING, request)
        allowed: list[str] = []
        if segments[:2] == API_PREFIX:
            for route, row in self._rows:
                labels = match_template(route.parts, segments[2:])
                if labels is None:
                    continue
                if route.method == request.method:
                    return calls.Call(row, labels, request)
                allowed.append(route.method)
        return calls.Call(UNROUTED, tuple(allowed), request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Never called: every row has a handler."""
        raise AssertionError(operation.name)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error as `{"error": {"type", "message", "request_id"}}`."""
        row = errortables.find(error, self._wire_errors)
        status, name = row or (500, "InternalError")
        message = "an internal error; see the server's log" if row is None else str(error)
        headers: asgi.ResponseHeaders = ()
        if isinstance(error, errors.MethodNotAllowed):
            headers = (("allow", ", ".join(error.allowed)),)
        elif isinstance(error, auth_errors.TooManyFailures):
            headers = (("retry-after", str(error.retry_after_seconds)),)
        elif status == 401:
            headers = (("www-authenticate", 'Bearer, Basic realm="Boathouse"'),)
        content = {"type": name, "message": message, "request_id": request.request_id}
        return asgi.json_response({"error": content}, status, headers)


def match_template(parts: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    """Return the labels of a path that matches a template, else None. A label is never empty."""
    if len(parts) != len(segments):
        return None
    labels = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            labels[part[1:-1]] = segment
        elif part != segment:
            return None
    return labels


def format_metrics(counts: counters.Counters) -> str:
    """Return the counters as Prometheus text."""
    lines = [
        "# HELP boathouse_requests_total Requests answered.",
        "# TYPE boathouse_requests_total counter",
    ]
    faces = sorted(counts.faces.items())
    lines += [
        f'boathouse_requests_total{{face="{face}",status="{status}"}} {count}'
        for face, row in faces
        for status, count in sorted(row.requests.items())
    ]
    lines += [
        "# HELP boathouse_request_seconds Time from a request's headers to its answer's last byte.",
        "# TYPE boathouse_request_seconds histogram",
    ]
    for face, row in faces:
        total = 0
        bounds = [f"{bound:g}" for bound in counters.DURATION_BOUNDS_SECONDS]
        for bound, count in zip([*bounds, "+Inf"], row.buckets, strict=True):
            total += count
            lines.append(f'boathouse_request_seconds_bucket{{face="{face}",le="{bound}"}} {total}')
        lines.append(f'boathouse_request_seconds_sum{{face="{face}"}} {row.duration_ns / 1e9:.9f}')
        lines.append(f'boathouse_request_seconds_count{{face="{face}"}} {total}')
    for name, meaning, attribute in (
        ("received", "Body bytes received.", "received_bytes"),
        ("sent", "Body bytes sent.", "sent_bytes"),
    ):
        lines.append(f"# HELP boathouse_{name}_bytes_total {meaning}")
        lines.append(f"# TYPE boathouse_{name}_bytes_total counter")
        lines += [
            f'boathouse_{name}_bytes_total{{face="{face}"}} {getattr(row, attribute)}'
            for face, row in faces
        ]
    lines += [
        "# HELP boathouse_requests_in_flight Requests being served.",
        "# TYPE boathouse_requests_in_flight gauge",
        f"boathouse_requests_in_flight {counts.in_flight}",
        "# HELP boathouse_disconnects_total Clients that left before their answer was whole.",
        "# TYPE boathouse_disconnects_total counter",
        f"boathouse_disconnects_total {counts.disconnects}",
    ]
    lines += _lag_lines(counts)
    return "\n".join(lines) + "\n"


def _lag_lines(counts: counters.Counters) -> list[str]:
    name = "boathouse_loop_lag_seconds"
    lines = [
        f"# HELP {name} Lateness of the event loop at a timer that is set 20 times a second.",
        f"# TYPE {name} histogram",
    ]
    total = 0
    bounds = [f"{bound:g}" for bound in counters.LAG_BOUNDS_SECONDS]
    for bound, count in zip([*bounds, "+Inf"], counts.lag_buckets, strict=True):
        total += count
        lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
    return [
        *lines,
        f"{name}_sum {counts.lag_seconds:.6f}",
        f"{name}_count {total}",
        "# HELP boathouse_loop_lag_max_seconds The longest of these since the start.",
        "# TYPE boathouse_loop_lag_max_seconds gauge",
        f"boathouse_loop_lag_max_seconds {counts.lag_max_seconds:.6f}",
    ]


async def tell_health(services: Services, call: calls.Call) -> asgi.Response:
    """Answer that the server runs, or why it refuses writes."""
    status = services.refuses_writes() or "ok"
    return asgi.json_response({"status": status, "version": services.version})


async def tell_metrics(services: Services, call: calls.Call) -> asgi.Response:
    """Return the counters."""
    lines = [line for gauge in services.gauges for line in gauge()]
    text = format_metrics(services.counts) + "".join(f"{line}\n" for line in lines)
    return asgi.Response(200, (("content-type", METRICS_TYPE),), text.encode())


async def refuse_route(services: Services, call: calls.Call) -> asgi.Response:
    """Refuse an unknown route. The call's value: the methods that the path has."""
    allowed: tuple[str, ...] = call.value
    if not allowed:
        raise errors.NoSuchRoute("the native API has no such path")
    raise errors.MethodNotAllowed(
        f"the methods of this path are {', '.join(allowed)}", allowed=allowed
    )


HEALTH: Final = calls.Operation(
    name="health", handler=tell_health, authentication=callers.Authentication.NONE
)
METRICS: Final = calls.Operation(
    name="metrics", handler=tell_metrics, demands=lambda services, call: (METRICS_DEMAND,)
)
UNROUTED: Final = calls.Operation(name="", handler=refuse_route)
"""The operation of an unknown route; it requires a credential too."""

SINGLE: Final[Mapping[tuple[str, ...], calls.Operation]] = {
    ("_health",): HEALTH,
    ("_metrics",): METRICS,
}
READING: Final = ("GET", "HEAD")


def _row(route: Route) -> calls.Operation:
    return calls.Operation(
        name=f"{route.method} {route.template}",
        handler=functools.partial(_answer, route),
        demands=lambda services, call: route.demands(call.value),
        body_bytes_max=limits.NATIVE_BODY_BYTES_MAX,
    )


async def _answer(route: Route, services: Services, call: calls.Call) -> asgi.Response:
    request = call.request
    parameters: dict[str, str] = {}
    for name, value in request.pairs:
        parameters.setdefault(name, value)
    result = await route.handler(
        Call(
            labels=call.value,
            parameters=parameters,
            body=call.body,
            caller=call.caller,
            origin=request.origin,
        )
    )
    return result if isinstance(result, asgi.Response) else asgi.json_response(result)
