"""face: the Iceberg REST catalog: from a request to one handler, and from errors to answers.

Every operation of the specification has a route; one without a handler here answers by its name
that it is not implemented, and is not advertised. Everybody needs a credential, but for the token
endpoint, where one is made from another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from catalog import errors as catalog_errors
from catalog.namespaces import Namespaces
from catalog.rest import (
    access,
    config,
    credentials,
    errors,
    idempotency,
    namespaces,
    oauth,
    routes,
    tables,
    wire,
    wire_errors,
)
from catalog.rest.service import Asked, Service
from catalog.store import CatalogStore
from catalog.tables import Tables
from server import asgi, exchange
from server import errors as kit_errors
from server.access import decide, principals, tokens
from server.auth import errors as auth_errors
from storage import model as storage_model

Handler: TypeAlias = Callable[[Service, Asked], Awaitable[asgi.Response]]

HANDLERS: Final[Mapping[routes.OperationName, Handler]] = {
    "getConfig": config.get_config,
    "listNamespaces": namespaces.list_namespaces,
    "createNamespace": namespaces.create_namespace,
    "loadNamespaceMetadata": namespaces.load_namespace,
    "namespaceExists": namespaces.namespace_exists,
    "dropNamespace": namespaces.drop_namespace,
    "updateProperties": namespaces.update_properties,
    "listTables": tables.list_tables,
    "createTable": tables.create_table,
    "registerTable": tables.register_table,
    "loadTable": tables.load_table,
    "updateTable": tables.commit_table,
    "dropTable": tables.drop_table,
    "tableExists": tables.table_exists,
    "unregisterTable": tables.unregister_table,
    "renameTable": tables.rename_table,
    "loadCredentials": tables.load_credentials,
    "reportMetrics": tables.report_metrics,
    "commitTransaction": tables.commit_transaction,
}
"""What is built, beside getToken, which the token endpoint answers itself."""

BODY_BYTES_MAX: Final[Mapping[routes.OperationName, int]] = {
    "createNamespace": wire.NAMESPACE_BYTES_MAX,
    "updateProperties": wire.NAMESPACE_BYTES_MAX,
    "createTable": wire.COMMIT_BYTES_MAX,
    "registerTable": wire.NAMES_BYTES_MAX,
    "updateTable": wire.COMMIT_BYTES_MAX,
    "renameTable": wire.NAMES_BYTES_MAX,
    "reportMetrics": wire.REPORT_BYTES_MAX,
    "commitTransaction": wire.COMMIT_BYTES_MAX,
}
"""The operations with a body, and how long it may be."""


COMMITS: Final = frozenset({"createTable", "updateTable", "commitTransaction", "replaceView"})


class IcebergFace:
    """The face. default_warehouse: the table bucket of requests that name none."""

    name = "iceberg"

    def __init__(
        self,
        *,
        store: CatalogStore,
        namespaces: Namespaces,
        tables: Tables,
        authoriser: decide.Authoriser,
        principals: principals.Principals,
        ring: tokens.KeyRing,
        default_warehouse: str,
        region: str,
        account_id: str,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
    ) -> None:
        asking = access.Access(
            store=store, authoriser=authoriser, region=region, account_id=account_id
        )
        self._service = Service(
            store=store,
            namespaces=namespaces,
            tables=tables,
            access=asking,
            credentials=credentials.Credentials(
                ring=ring, access=asking, region=region, now_ms=now_ms, new_id=new_id
            ),
            idempotency=idempotency.Idempotency(store=store),
            default_warehouse=default_warehouse,
            region=region,
            endpoints=config.endpoints(HANDLERS),
        )
        self._tokens = oauth.TokenEndpoint(
            principals=principals, ring=ring, now_ms=now_ms, new_id=new_id
        )

    def identify(self, request: asgi.Request) -> routes.Operation:
        """Return what a request asks for."""
        return routes.identify(request.method, request.segments[1:], request.pairs)

    def authentication(self, operation: routes.Operation) -> exchange.Authentication:
        """Ask everybody for a credential who does not come for one."""
        if operation.operation == "getToken":
            return exchange.Authentication.NONE
        return exchange.Authentication.REQUIRED

    def demands(
        self, operation: routes.Operation, principal: exchange.Principal
    ) -> tuple[exchange.Demand, ...]:
        """Return what must be allowed, as far as the path tells."""
        if operation.operation == "noSuchRoute":
            return ()
        if operation.operation == "getConfig":
            table_bucket = self._service.warehouse_name(operation.parameters.get("warehouse"))
            return (self._service.access.on_bucket(table_bucket, "GetTableBucket"),)
        return self._service.access.demands(operation, self._service.table_bucket(operation))

    async def handle(
        self, operation: routes.Operation, request: asgi.Request, caller: exchange.Caller
    ) -> asgi.Response:
        """Answer."""
        if operation.operation == "getToken":
            return await self._tokens.issue(request)
        handler = HANDLERS.get(operation.operation)
        if handler is None:
            if operation.operation == "noSuchRoute":
                path = request.raw_path.decode("latin-1")[:200]
                raise errors.NoSuchRoute(f"No route for request: {request.method} {path}")
            raise errors.NotImplementedHere(f"{operation.operation} is not implemented")
        bytes_max = BODY_BYTES_MAX.get(operation.operation)
        if bytes_max is None:
            asked = Asked(operation=operation, request=request, caller=caller)
            return await handler(self._service, asked)
        body = await request.read(limit_bytes=bytes_max)
        values = wire.parse_object(body)
        asked = Asked(operation=operation, request=request, caller=caller, body=body, values=values)
        return await handler(self._service, asked)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error in the catalog's form, or in OAuth's where a token was asked for."""
        if isinstance(error, errors.TokenRefused):
            status = 401 if error.error == "invalid_client" else 400
            return wire_errors.encode_oauth(status, error.error, str(error))
        if isinstance(error, auth_errors.TooManyFailures):
            return wire_errors.encode_oauth(
                429, "slow_down", str(error), retry_after_seconds=error.retry_after_seconds
            )
        status, error_type, message = wire_errors.describe(error)
        name = _operation_of(request)
        if name == "getToken":
            word = "invalid_request" if status < 500 else "server_error"
            return wire_errors.encode_oauth(status, word, message)
        if error_type == wire_errors.INTERNAL[1] and name in COMMITS:
            # Whatever went wrong, the client must not take its files for unwanted.
            error_type = wire_errors.WIRE_ERRORS[catalog_errors.CommitStateUnknown][1]
        return wire_errors.encode(status, error_type, message)


def _operation_of(request: asgi.Request) -> routes.OperationName:
    try:
        return routes.identify(request.method, request.segments[1:], ()).operation
    except kit_errors.KitError:
        return "noSuchRoute"
