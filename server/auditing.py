"""face: the native API's view of the audit log: its latest lines, and counts of denials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from server import asgi, calls, errors, limits, native
from server.access import audit, model

DEMAND: Final = model.Demand(action="lake:Admin", resource="*", only_reads=True)
LINES_DEFAULT: Final = 100
FILTERS: Final = ("event", "principal", "action", "request_id")
"""The fields of a line that a request may give a value for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditServices:
    """The log that the handlers read."""

    log: audit.Audit


async def list_lines(services: AuditServices, call: calls.Call) -> asgi.Response:
    """Answer the latest lines of one topic that have the values asked for, newest first."""
    parameters = native.parameters_of(call)
    topic = parameters.get("topic", "audit")
    if topic not in audit.TOPICS:
        raise errors.MalformedRequest(f"the topic is one of {', '.join(audit.TOPICS)}")
    count = parameters.get("limit", str(LINES_DEFAULT))
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= limits.AUDIT_LATEST_MAX):
        raise errors.MalformedRequest(f"limit is a number from 1 to {limits.AUDIT_LATEST_MAX}")
    wanted = {name: parameters[name] for name in FILTERS if name in parameters}
    lines: list[dict[str, Any]] = []
    for data in reversed(await services.log.latest(topic)):
        line = orjson.loads(data)
        if all(line.get(name) == value for name, value in wanted.items()):
            lines.append(line)
            if len(lines) == int(count):
                break
    return asgi.json_response({"topic": topic, "lines": lines})


async def count_denials(services: AuditServices, call: calls.Call) -> asgi.Response:
    """Answer how often each principal was denied each action, most often first."""
    rows = sorted(services.log.denials(), key=lambda row: (-row[2], row))
    return asgi.json_response(
        {
            "denials": [
                {"principal": principal, "action": action, "count": count}
                for principal, action, count in rows
            ]
        }
    )


def _demand(services: AuditServices, call: calls.Call) -> tuple[model.Demand, ...]:
    return (DEMAND,)


ROWS: Final = (
    native.NativeRow(
        method="GET",
        template="/_api/v1/audit",
        operation=calls.Operation(name="listAuditLines", handler=list_lines, demands=_demand),
        summary="The latest lines of the audit log, newest first",
        parameters=(
            native.QueryParameter(
                name="topic",
                meaning="`audit` for proven callers (the default), `anonymous`, or `reads`",
            ),
            native.QueryParameter(name="event", meaning="`allow`, `deny`, `refuse` or `outcome`"),
            native.QueryParameter(name="principal", meaning="An ARN"),
            native.QueryParameter(name="action", meaning="An action of a policy"),
            native.QueryParameter(name="request_id", meaning="Of one request"),
            native.QueryParameter(
                name="limit",
                meaning=f"The number of lines, {LINES_DEFAULT} by default, at most "
                f"{limits.AUDIT_LATEST_MAX}",
                schema=native.WHOLE,
            ),
        ),
        answer=native.object_of(topic=native.TEXT, lines=native.list_of(native.ANY_OBJECT)),
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/access/denials",
        operation=calls.Operation(name="countDenials", handler=count_denials, demands=_demand),
        summary="How often each principal was denied each action since the start",
        answer=native.object_of(
            denials=native.list_of(
                native.object_of(principal=native.TEXT, action=native.TEXT, count=native.WHOLE)
            )
        ),
    ),
)
