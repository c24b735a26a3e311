"""face: answers about tables and views: metadata, the location of files, and keys for them.

The entity tag covers everything that an answer depends on, also the quarter of an hour for which
its keys are issued, so a 304 never confirms keys that have expired. The answer to a repeated
request is encoded from the stored outcome of the first.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from catalog import errors, idents, records
from catalog.commits import LoadedTable
from catalog.metadata import model
from catalog.rest import credentials, pages, wire
from catalog.rest.service import Service
from catalog.views import LoadedView
from server import asgi, calls

DELEGATION_HEADER: Final = "x-iceberg-access-delegation"
ITEMS_AT_ONCE: Final = 2_000
"""Items of a listing that are encoded between two turns of the event loop."""

ReadNames: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Reads a listing's names in order. Arguments: the name after which to begin, how many at most."""


def answer_table(
    service: Service, call: calls.Call, loaded: LoadedTable, *, refs_only: bool = False
) -> asgi.Response:
    """Return a table's metadata, settings and keys, or 304 if the client has them."""
    grant = service.credentials.grant(call.caller, loaded.ident, loaded.pointer)
    etag = _etag(service, call, loaded, grant, refs_only=refs_only)
    if wire.etag_matches(call.request.headers.get("if-none-match"), etag):
        return asgi.Response(304, (("etag", etag), wire.VARY))
    config: Mapping[str, str] = {}
    listed: list[Mapping[str, Any]] = []
    signing: Mapping[str, Any] | None = None
    if grant is not None and wants_signing(call) and loaded.metadata_location is not None:
        endpoint = f"{_path(service, loaded.ident)}/sign"
        config = credentials.signing(call.request.origin, service.region, endpoint=endpoint)
        signing = credentials.SIGNER
    elif grant is not None:
        vended = vend(service, call, loaded.ident, grant)
        config = vended.config
        listed = [vended.credential]
    mounts = service.store.mounts
    mount = None if mounts is None else mounts.find(loaded.ident.table_bucket)
    if mount is not None:
        config, signing = mount.addresses(loaded.ident, loaded.pointer.location), None
    data = loaded.data
    if refs_only and loaded.metadata_location is not None:
        data = service.store.refs_only(loaded.metadata_location, loaded.metadata)
    return wire.encode_table(
        metadata_location=loaded.metadata_location,
        data=data,
        config=config,
        credentials=listed,
        signing=signing,
        # A staged create does not exist yet, so no client can revalidate it.
        etag=None if loaded.metadata_location is None else etag,
    )


async def answer_listing(
    name: str,
    read: ReadNames,
    format_names: Callable[[Sequence[str]], Sequence[Any]],
    parameters: Mapping[str, str],
    *,
    listing: str,
) -> asgi.Response:
    """Return a listing as a request's parameters ask for it: one page, or whole.

    A long one is read and encoded in steps, so that no more of it is in memory than its body.
    listing: see `pages.cut`. Raises InvalidPageToken, InvalidCatalogRequest, and what read raises.
    """
    after, limit = pages.span(parameters, listing=listing)
    if limit is not None:
        page, token = pages.cut(await read(after, limit), parameters, listing=listing)
        steps = [page[at : at + ITEMS_AT_ONCE] for at in range(0, len(page), ITEMS_AT_ONCE)]
        return wire.encode_listing(
            name, [wire.encode_items(format_names(names)) for names in steps], token
        )
    parts: list[bytes] = []
    while True:
        names = await read(after, ITEMS_AT_ONCE)
        if names:
            parts.append(wire.encode_items(format_names(names)))
            after = names[-1]
        if len(names) < ITEMS_AT_ONCE:
            return wire.encode_listing(name, parts, None)
        await asyncio.sleep(0)


def answer_commit(call: calls.Call, loaded: LoadedTable) -> asgi.Response:
    """Return the answer to a commit: the table after it.

    Its entity tag differs from those of `answer_table`: with the same tag a client would keep the
    keys of an older answer, which may have expired.
    """
    assert loaded.metadata_location is not None, "a committed table has a metadata file"
    return wire.encode_commit(
        metadata_location=loaded.metadata_location,
        data=loaded.data,
        etag=wire.format_etag(loaded.etag_seed, "commit", call.principal.arn),
    )


def answer_view(loaded: LoadedView) -> asgi.Response:
    """Return a view, without keys: readers load the tables that it selects from."""
    return wire.encode_view(metadata_location=loaded.metadata_location, data=loaded.data)


async def remembered_view(
    service: Service, ident: idents.TableIdent, row: records.IdempotencyRow
) -> LoadedView:
    """Return the view after an earlier request, even if it was changed or dropped since.

    Raises MetadataFileMissing if its file was deleted.
    """
    if row.pointer is None:
        raise errors.IntegrityBroken("A receipt about a view has no pointer")
    return await service.views.fetch_at(ident, row.pointer)


def answer_unregistered(loaded: LoadedTable) -> asgi.Response:
    """Return a table that was unregistered: the location and the content of its metadata file."""
    return wire.encode_table(
        metadata_location=loaded.metadata_location, data=loaded.data, config={}, etag=None
    )


async def remembered(
    service: Service, ident: idents.TableIdent, row: records.IdempotencyRow
) -> LoadedTable:
    """Return the table after an earlier request, even if it was changed or dropped since.

    Raises MetadataFileMissing if its file was deleted.
    """
    if row.pointer is None:
        raise errors.IntegrityBroken("A receipt about a table has no pointer")
    if row.pointer.metadata_location is None:
        data = row.reply
        metadata = model.decode(data)
    else:
        place = service.store.place(ident.table_bucket)
        file = await service.store.fetch_metadata(row.pointer.metadata_location, place=place)
        data, metadata = file.data, file.table
    return LoadedTable(ident=ident, pointer=row.pointer, metadata=metadata, data=data)


async def no_content(_: records.IdempotencyRow) -> asgi.Response:
    """Answer a repeated request with an answer without a body."""
    return wire.no_content()


def vend(
    service: Service, call: calls.Call, ident: idents.TableIdent, grant: credentials.FileGrant
) -> credentials.Vended:
    """Return keys for a table's files, with URLs of the origin that the client used."""
    return service.credentials.vend(
        call.caller,
        grant,
        origin=call.request.origin,
        refresh_path=f"{_path(service, ident)}/credentials",
    )


def wants_signing(call: calls.Call) -> bool:
    """Return whether the client wants its requests to S3 signed, and takes no keys."""
    header = call.request.headers.get(DELEGATION_HEADER) or ""
    modes = {mode.strip().lower() for mode in header.split(",")}
    return "remote-signing" in modes and "vended-credentials" not in modes


def _path(service: Service, ident: idents.TableIdent) -> str:
    """Return a table's path, relative to the catalog's URI."""
    namespace = urllib.parse.quote(
        idents.format_namespace(ident.namespace, service.separator), safe=""
    )
    name = urllib.parse.quote(ident.name, safe="")
    return f"v1/{ident.table_bucket}/namespaces/{namespace}/tables/{name}"


def _etag(
    service: Service,
    call: calls.Call,
    loaded: LoadedTable,
    grant: credentials.FileGrant | None,
    *,
    refs_only: bool,
) -> str:
    """Return the entity tag of an answer: a hash of all that the answer depends on."""
    return wire.format_etag(
        loaded.etag_seed,
        "refs" if refs_only else "all",
        call.request.headers.get(DELEGATION_HEADER) or "",
        call.principal.arn,
        "" if grant is None else f"{grant.location} {grant.mode}",
        call.request.origin,
        service.region,
    )
