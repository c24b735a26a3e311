"""face: the Iceberg REST catalog: finds the row of a request, and encodes errors.

`rows` has the operations. All of them need a credential except the token endpoint, which issues
one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from catalog import access, idents, readers, scan_pages, scans
from catalog import errors as catalog_errors
from catalog.namespaces import Namespaces
from catalog.rest import (
    credentials,
    errors,
    idempotency,
    oauth,
    plan_tasks,
    routes,
    rows,
    wire,
    wire_errors,
)
from catalog.rest.service import Service
from catalog.store import CatalogStore
from catalog.tables import Tables
from catalog.views import Views
from server import asgi, calls
from server import errors as kit_errors
from server.access import decide, principals, tokens
from server.auth import errors as auth_errors
from server.oidc import federation
from storage import model as storage_model

HEADS_REMEMBERED: Final = 1024
PATH_BYTES_REMEMBERED_MAX: Final = 512
QUERY_BYTES_REMEMBERED_MAX: Final = 64
"""Paths and queries whose parsed form is cached: clients commit to the same tables again."""


class IcebergFace:
    """The face. default_warehouse: the table bucket of requests that name none."""

    name = "iceberg"

    def __init__(
        self,
        *,
        store: CatalogStore,
        namespaces: Namespaces,
        tables: Tables,
        views: Views,
        scans: scans.Scans,
        authoriser: decide.Authoriser,
        principals: principals.Principals,
        federation: federation.Federation,
        ring: tokens.KeyRing,
        default_warehouse: str,
        separator: str | None,
        region: str,
        account_id: str,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
    ) -> None:
        asking = access.Access(
            store=store, authoriser=authoriser, region=region, account_id=account_id
        )
        self.services = Service(
            store=store,
            namespaces=namespaces,
            tables=tables,
            views=views,
            access=asking,
            readers=readers.Readers(store=store, access=asking),
            scans=scans,
            scan_pages=scan_pages.ScanPages(scans=scans),
            plan_key=plan_tasks.key_of(ring.master),
            credentials=credentials.CredentialVending(
                ring=ring, access=asking, region=region, now_ms=now_ms, new_id=new_id
            ),
            idempotency=idempotency.Idempotency(store=store, refuse=wire.encode_error),
            default_warehouse=default_warehouse,
            region=region,
            tokens=oauth.TokenEndpoint(
                principals=principals,
                authoriser=authoriser,
                federation=federation,
                ring=ring,
                now_ms=now_ms,
                new_id=new_id,
            ),
            endpoints=rows.ENDPOINTS,
            separator=separator or idents.SEPARATOR,
        )

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the operation of a method and path."""
        path, query, separator = request.raw_path, request.query, self.services.separator
        if len(path) <= PATH_BYTES_REMEMBERED_MAX and len(query) <= QUERY_BYTES_REMEMBERED_MAX:
            row, value = identify_remembered(request.method, path, query, separator)
        else:
            row, value = identify(request.method, path, query, separator)
        operation = rows.without_route(path) if row is None else row.operation
        return calls.Call(operation, value, request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error of an operation without a handler."""
        return errors.EndpointNotImplemented(f"{operation.name} is not implemented")

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error in the catalog's form, or in OAuth's for the token endpoint."""
        if isinstance(error, errors.TokenRefused):
            status = 401 if error.error == "invalid_client" else 400
            return wire.encode_oauth(status, error.error, str(error))
        if isinstance(error, auth_errors.TooManyFailures):
            return wire.encode_oauth(
                429, "slow_down", str(error), retry_after_seconds=error.retry_after_seconds
            )
        status, error_type, message = wire_errors.describe(error)
        row = _row_of(request)
        if row is not None and row.name == "getToken":
            if status == 429:
                return wire.encode_oauth(
                    status,
                    "slow_down",
                    message,
                    retry_after_seconds=wire_errors.RETRY_AFTER_SECONDS,
                )
            word = "invalid_request" if status < 500 else "server_error"
            return wire.encode_oauth(status, word, message)
        unforeseen = error_type == wire_errors.INTERNAL[1] and not catalog_errors.is_certain(error)
        if unforeseen and row is not None and row.commits:
            # The commit may have happened: the client must not delete its files.
            error_type = wire_errors.WIRE_ERRORS[catalog_errors.CommitStateUnknown][1]
        return wire.encode_error(status, error_type, message)


def identify(
    method: str, raw_path: bytes, query: bytes, separator: str
) -> tuple[rows.RestRow | None, routes.Parameters | None]:
    """Return the row of a request and its parameters; neither without a route.

    Raises MalformedRequest.
    """
    segments, pairs = _below_root(asgi.parse_segments(raw_path)), asgi.parse_pairs(query)
    row = rows.ROUTES.find(method, segments)
    if row is None:
        return None, None
    return row, rows.ROUTES.parse(segments, pairs, separator=separator)


def _below_root(segments: Sequence[str]) -> Sequence[str]:
    """Return the segments below the catalog's root, which is `/iceberg`, and `/` too."""
    return segments if segments[0] == routes.VERSION else segments[1:]


identify_remembered = functools.lru_cache(HEADS_REMEMBERED)(identify)


def _row_of(request: asgi.Request) -> rows.RestRow | None:
    """Return the row of a request, None if it has none or cannot be parsed."""
    try:
        return rows.ROUTES.find(request.method, _below_root(request.segments))
    except kit_errors.KitError:
        return None
