"""face: remote signing over HTTP: a signature for one request of a client to S3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from catalog import claims, errors, idents, properties, rights
from catalog.rest import errors as rest_errors
from catalog.rest import signable, wire
from catalog.rest.service import Service, check_shown
from server import asgi, calls, limits

T = TypeVar("T")


async def sign_request(service: Service, call: calls.Call) -> asgi.Response:
    """Sign a request for a table's files, if the caller may make it."""
    ident = service.ident(call)
    service.tables.pointer(ident)  # a table that does not exist has no request to look at
    request = await _off_loop(call, lambda: signable.parse(wire.parse_object(call.body)))
    return await _sign(service, call, request, ident)


async def sign_file_request(service: Service, call: calls.Call) -> asgi.Response:
    """Sign a request for the files of the table that they belong to.

    Clients use this path that were told no other one (`signer.endpoint`).
    """
    origin = call.request.origin

    def parse() -> tuple[signable.SignRequest, str, str]:
        request = signable.parse(wire.parse_object(call.body))
        return request, *signable.first_key(request, origin=origin)

    request, bucket, key = await _off_loop(call, parse)
    ident, object_uuid = _table_of(service, call, check_shown(bucket), key)
    demands = service.access.on_object(ident, object_uuid, rights.LOAD_ACTIONS)
    service.access.check(call.principal, demands)
    return await _sign(service, call, request, ident)


def _table_of(
    service: Service, call: calls.Call, table_bucket: str, key: str
) -> tuple[idents.TableIdent, str]:
    """Return the table whose location a key is below, and its uuid. Raises NoSuchTable.

    Callers without a right to the whole bucket are told AccessDenied where there is no table.
    """
    store = service.store
    with store.index.view() as view:
        try:
            place = store.place(table_bucket, view)
        except errors.NoSuchWarehouse:
            place = None
        holding = None if place is None else claims.find_location(view, place.bucket_id, key)
        if place is not None and holding is not None:
            name = store.name_of_object(view, place, holding[1].object_uuid)
            if name is not None and name.object_type == "table":
                ident = idents.TableIdent(
                    table_bucket=table_bucket,
                    namespace=store.namespace_of(view, place, name.namespace_id),
                    name=name.name,
                )
                return ident, holding[1].object_uuid
    service.access.check(
        call.principal, (service.access.on_bucket(table_bucket, rights.READ_DATA),)
    )
    raise errors.NoSuchTable(f"No table has its files at s3://{table_bucket}/{key[:200]}")


async def _sign(
    service: Service, call: calls.Call, request: signable.SignRequest, ident: idents.TableIdent
) -> asgi.Response:
    if service.store.is_mount(ident.table_bucket):
        raise rest_errors.SigningRefused(
            f"{ident.dotted()} is a table of a mount: its files are not on this server"
        )
    pointer = service.tables.pointer(ident)
    location = properties.plain_uri(pointer.location)
    origin = call.request.origin
    checked = await _off_loop(
        call, lambda: signable.check(request, origin=origin, location=location)
    )
    action = rights.WRITE_DATA if checked.writes else rights.READ_DATA
    demands = service.access.on_object(ident, pointer.object_uuid, (action,))
    service.access.check(call.principal, demands)
    keys = service.credentials.keys(call.principal, location, writable=checked.writes)
    headers = signable.sign(
        checked,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        session_token=keys.session_token,
        region=service.region,
        now_ms=service.store.now_ms(),
    )
    return wire.encode(
        {"uri": request.uri, "headers": {name: [text] for name, text in headers.items()}},
        # Clients sign a repeated read with the signature that they have.
        ("cache-control", "no-cache" if checked.writes else "private"),
    )


async def _off_loop(call: calls.Call, work: Callable[[], T]) -> T:
    """Return what a call's body is parsed to, in a thread if it is large."""
    is_small = len(call.body) <= limits.PARSED_HERE_BYTES_MAX
    return work() if is_small else await asyncio.to_thread(work)
