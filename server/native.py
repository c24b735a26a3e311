"""face: health, metrics, and the native API, `/_api/v1`.

Each operation is a Row: its route, its `calls.Operation`, and what the OpenAPI document says of it.
The rows of the catalog come from the floor that implements them, with their services. Routes are
templates of whole segments: `/_api/v1/warehouses/{warehouse}/loads`. `/_health` needs no
credential; everything else does. HEAD is answered where GET is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from server import asgi, calls, counters, errors, errortables
from server.access import errors as access_errors
from server.access import model
from server.auth import callers
from server.auth import errors as auth_errors
from storage import errors as storage_errors
from storage import names

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, as OpenAPI 3.1 takes it."""

ErrorTable: TypeAlias = errortables.Table[tuple[int, str]]
"""Error class -> status and type, for errors of the floors that have rows."""

METRICS_DEMAND: Final = model.Demand(action="lake:Admin", resource="*", only_reads=True)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENAPI_VERSION: Final = "3.1.0"

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
WHOLE: Final[Schema] = {"type": "integer"}
TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
WHOLE_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}
ANY_OBJECT: Final[Schema] = {"type": "object"}


def object_of(**properties: Schema) -> Schema:
    """Return the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def list_of(items: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryParameter:
    """One parameter of the query. The first value of several counts."""

    name: str
    meaning: str
    schema: Schema = dataclasses.field(default_factory=lambda: TEXT)
    required: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeRow:
    """One operation of the native API.

    template: the path, with labels in braces. summary, parameters, status, answer: what the OpenAPI
    document says; answer: the schema of the answer's JSON, None of an answer that is text.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    template: str
    operation: calls.Operation
    summary: str
    parameters: tuple[QueryParameter, ...] = ()
    status: int = 200
    answer: Schema | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The template's segments."""
        return tuple(self.template[1:].split("/"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """The rows of another floor, the services that their handlers get, and their errors."""

    rows: Sequence[NativeRow]
    services: Any
    wire_errors: ErrorTable


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeServices:
    """The services of this module's handlers.

    refuses_writes: returns why the server refuses writes now, or None. gauges: yield further lines
    of metrics. rows: all of the face.
    """

    counts: counters.Counters
    version: str
    refuses_writes: Callable[[], str | None]
    gauges: tuple[Callable[[], Iterable[str]], ...]
    rows: tuple[NativeRow, ...]


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
    storage_errors.DiskReadOnly: (503, "ServiceUnavailable"),
    auth_errors.AuthError: (401, "Unauthorized"),
    auth_errors.TooManyFailures: (429, "TooManyRequests"),
    auth_errors.PayloadError: (400, "BadRequest"),
}


class NativeFace:
    """The face. floors: other floors with operations here.

    refuses_writes: returns why the server refuses writes now, or None; `/_health` shows it.
    """

    name = "native"

    def __init__(
        self,
        *,
        counts: counters.Counters,
        version: str,
        floors: Sequence[Floor] = (),
        refuses_writes: Callable[[], str | None] = lambda: None,
        gauges: Sequence[Callable[[], Iterable[str]]] = (),
    ) -> None:
        self._rows = ROWS + tuple(_bound(row, floor) for floor in floors for row in floor.rows)
        self._wire_errors = dict(KIT_ERRORS)
        for floor in floors:
            self._wire_errors |= floor.wire_errors
        self.services = NativeServices(
            counts=counts,
            version=version,
            refuses_writes=refuses_writes,
            gauges=tuple(gauges),
            rows=self._rows,
        )

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the row of a request."""
        segments = request.segments
        allowed: list[str] = []
        for row in self._rows:
            labels = match_template(row.parts, segments)
            if labels is None:
                continue
            methods = ("GET", "HEAD") if row.method == "GET" else (row.method,)
            if request.method in methods:
                return calls.Call(row.operation, labels, request)
            allowed += methods
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
    """Return the labels of a path that matches a template, else None.

    A label is never empty, and never the name of a hidden bucket.
    """
    if len(parts) != len(segments):
        return None
    labels = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment or names.is_hidden(segment):
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


async def tell_health(services: NativeServices, call: calls.Call) -> asgi.Response:
    """Answer that the server runs, or why it refuses writes."""
    status = services.refuses_writes() or "ok"
    return asgi.json_response({"status": status, "version": services.version})


async def tell_metrics(services: NativeServices, call: calls.Call) -> asgi.Response:
    """Return the counters."""
    lines = [line for gauge in services.gauges for line in gauge()]
    text = format_metrics(services.counts) + "".join(f"{line}\n" for line in lines)
    return asgi.Response(200, (("content-type", METRICS_TYPE),), text.encode())


async def refuse_route(services: NativeServices, call: calls.Call) -> asgi.Response:
    """Refuse an unknown route. The call's value: the methods that the path has."""
    allowed: tuple[str, ...] = call.value
    if not allowed:
        raise errors.NoSuchRoute(
            "the native API has no such path; GET /_api/v1/openapi.json lists those that it has"
        )
    raise errors.MethodNotAllowed(
        f"the methods of this path are {', '.join(allowed)}", allowed=allowed
    )


async def tell_openapi(services: NativeServices, call: calls.Call) -> asgi.Response:
    """Answer the OpenAPI document of all rows."""
    return asgi.json_response(openapi_of(services.rows, version=services.version))


def openapi_of(rows: Iterable[NativeRow], *, version: str) -> dict[str, Any]:
    """Return the OpenAPI document of the rows: paths, parameters, answers, errors, credentials."""
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.template, {})[row.method.lower()] = _described(row)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Boathouse native API", "version": version},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _described(row: NativeRow) -> dict[str, Any]:
    labels = [part[1:-1] for part in row.parts if part.startswith("{")]
    path = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in labels]
    query = [
        {
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.meaning,
            "schema": parameter.schema,
        }
        for parameter in row.parameters
    ]
    answer = {"text/plain": {"schema": TEXT}}
    if row.answer is not None:
        answer = {"application/json": {"schema": row.answer}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    needs_none = row.operation.authentication is callers.Authentication.NONE
    return {
        "operationId": row.operation.name,
        "summary": row.summary,
        "parameters": path + query,
        "security": [] if needs_none else [{"bearer": []}, {"basic": []}],
        "responses": {
            str(row.status): {"description": "The answer.", "content": answer},
            "default": {"description": "A refusal.", "content": error},
        },
    }


def parameters_of(call: calls.Call) -> dict[str, str]:
    """Return the parameters of a call's query; the first value of each counts."""
    parameters: dict[str, str] = {}
    for name, value in call.request.pairs:
        parameters.setdefault(name, value)
    return parameters


def _bound(row: NativeRow, floor: Floor) -> NativeRow:
    """Return the row of a floor with handler and demands that get the floor's services."""
    operation = row.operation
    handler = operation.handler
    assert handler is not None, "the native API has no operation that it does not serve"
    return dataclasses.replace(
        row,
        operation=dataclasses.replace(
            operation,
            handler=lambda _, call: handler(floor.services, call),
            demands=lambda _, call: operation.demands(floor.services, call),
        ),
    )


UNROUTED: Final = calls.Operation(name="", handler=refuse_route)
"""The operation of an unknown route; it requires a credential too."""

ERROR: Final[Schema] = object_of(error=object_of(type=TEXT, message=TEXT, request_id=TEXT))

ROWS: Final = (
    NativeRow(
        method="GET",
        template="/_health",
        operation=calls.Operation(
            name="getHealth", handler=tell_health, authentication=callers.Authentication.NONE
        ),
        summary="That the server runs, or why it refuses writes",
        answer=object_of(status=TEXT, version=TEXT),
    ),
    NativeRow(
        method="GET",
        template="/_metrics",
        operation=calls.Operation(
            name="getMetrics",
            handler=tell_metrics,
            demands=lambda services, call: (METRICS_DEMAND,),
        ),
        summary="Counters, as Prometheus reads them",
    ),
    NativeRow(
        method="GET",
        template="/_api/v1/openapi.json",
        operation=calls.Operation(name="getOpenAPI", handler=tell_openapi),
        summary="This document",
        answer=ANY_OBJECT,
    ),
)
"""The rows of this module, ahead of those of other floors."""
