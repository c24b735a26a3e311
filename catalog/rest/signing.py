"""face: remote signing over HTTP: a signature for one request of a client to S3."""

from __future__ import annotations

import asyncio

from catalog import properties, rights
from catalog.rest import signable, wire
from catalog.rest.service import Service
from server import asgi, calls, limits


async def sign_request(service: Service, call: calls.Call) -> asgi.Response:
    """Sign a request for a table's files, if the caller may make it."""
    ident = service.ident(call)
    pointer = service.tables.pointer(ident)
    location = properties.plain_uri(pointer.location)
    origin = call.request.origin

    def check() -> tuple[str, signable.Signable]:
        request = signable.parse(wire.parse_object(call.body))
        return request.uri, signable.check(request, origin=origin, location=location)

    is_small = len(call.body) <= limits.PARSED_HERE_BYTES_MAX
    uri, request = check() if is_small else await asyncio.to_thread(check)
    action = rights.WRITE_DATA if request.writes else rights.READ_DATA
    demands = service.access.on_object(ident, pointer.object_uuid, (action,))
    service.access.check(call.principal, demands)
    keys = service.credentials.keys(call.principal, location, writable=request.writes)
    headers = signable.sign(
        request,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        session_token=keys.session_token,
        region=service.region,
        now_ms=service.store.now_ms(),
    )
    return wire.encode(
        {"uri": uri, "headers": {name: [text] for name, text in headers.items()}},
        # Clients sign a repeated read with the signature that they have.
        ("cache-control", "no-cache" if request.writes else "private"),
    )
