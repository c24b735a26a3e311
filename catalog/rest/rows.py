"""face: the operations of the Iceberg REST catalog: one row for each of the specification.

A row is all there is to know of an operation beside the function that does it: its route, what must
be allowed, how long its body may be. One without a handler answers by its name that it is not
implemented, and is not advertised.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

import msgspec

from catalog import records, rights
from catalog.rest import (
    config,
    errors,
    names,
    namespaces,
    oauth,
    plans,
    routes,
    signing,
    tables,
    views,
    wire,
)
from catalog.rest.service import Service
from server import asgi, calls, limits
from server.access import model
from server.auth import callers


@dataclass(frozen=True, kw_only=True, slots=True)
class RestRow:
    """One operation and its route.

    path: as a server's `endpoints` list spells it. advertised: whether it stands in that list once
    it has a handler. commits: whether a failure of unknown outcome must be called that, so that the
    client keeps the files that it wrote.
    """

    method: str
    path: str
    operation: calls.Operation
    advertised: bool
    commits: bool

    @property
    def name(self) -> str:
        """The operation's name, as the specification spells it."""
        return self.operation.name

    @property
    def endpoint(self) -> str:
        """The operation as the configuration advertises it."""
        return f"{self.method} {self.path}"

    @property
    def done(self) -> str:
        """What COMPATIBILITY.md says of the operation."""
        return "no" if self.operation.handler is None else "yes"


def _row(
    name: str,
    endpoint: str,
    demands: calls.Demanding,
    handler: calls.Handler | None = None,
    *,
    body_bytes_max: int = calls.NO_BODY,
    authentication: callers.Authentication = callers.Authentication.REQUIRED,
    advertised: bool = True,
    commits: bool = False,
    only_reads: bool = False,
) -> RestRow:
    method, path = endpoint.split(" ")
    return RestRow(
        method=method,
        path=path,
        operation=calls.Operation(
            name=name,
            handler=None if handler is None else _listed_first(handler),
            demands=demands,
            authentication=authentication,
            only_reads=only_reads,
            body_bytes_max=body_bytes_max,
        ),
        advertised=advertised,
        commits=commits,
    )


def _listed_first(handler: calls.Handler) -> calls.Handler:
    """Return a handler before which a mount that its call names is listed again."""

    def handle(service: Service, call: calls.Call) -> asgi.Response | Awaitable[asgi.Response]:
        mount = service.mount(call)
        if mount is None:
            return handler(service, call)
        return service.after_listing(mount, handler, call)

    return handle


def _on_warehouse(action: str) -> calls.Demanding:
    """Demand an action on the table bucket that the query names."""

    def demands(service: Service, call: calls.Call) -> tuple[model.Demand, ...]:
        table_bucket = service.warehouse_name(call.value.query.get("warehouse"))
        return (service.access.on_bucket(table_bucket, action),)

    return demands


def _on_bucket(action: str) -> calls.Demanding:
    """Demand an action on the table bucket that the path names."""

    def demands(service: Service, call: calls.Call) -> tuple[model.Demand, ...]:
        return (service.access.on_bucket(service.table_bucket(call), action),)

    return demands


def _on_namespace(action: str) -> calls.Demanding:
    """Demand an action on the namespace that the path names, or on something new in it."""

    def demands(service: Service, call: calls.Call) -> tuple[model.Demand, ...]:
        table_bucket = service.table_bucket(call)
        return (service.access.on_namespace(table_bucket, call.value.namespace, action),)

    return demands


def _on_table(*actions: str, object_type: records.ObjectType = "table") -> calls.Demanding:
    """Demand actions on the table or view that the path names.

    The views through which a client says it reads are recorded with them, whatever they are.
    """

    def demands(service: Service, call: calls.Call) -> tuple[model.Demand, ...]:
        needed = service.access.on_table(service.ident(call), actions, object_type=object_type)
        views = call.value.query.get("referenced-by")
        if not views:
            return needed
        return tuple(msgspec.structs.replace(demand, referenced_by=views) for demand in needed)

    return demands


def _drop(service: Service, call: calls.Call) -> tuple[model.Demand, ...]:
    actions = rights.PURGE_ACTIONS if tables.asks_purge(call) else rights.DROP_ACTIONS
    return service.access.on_table(service.ident(call), actions)


_IN_BODY: Final = calls.demand_nothing
"""What the operation is about stands in its body: the handler demands it."""

_LOAD: Final = rights.LOAD_ACTIONS
_READ: Final = rights.READ_ACTIONS

_NAMESPACE: Final = "/v1/{prefix}/namespaces/{namespace}"
_TABLE: Final = _NAMESPACE + "/tables/{table}"
_VIEW: Final = _NAMESPACE + "/views/{view}"

ROWS: Final[tuple[RestRow, ...]] = (
    _row(
        "getConfig",
        "GET /v1/config",
        _on_warehouse("GetTableBucket"),
        config.get_config,
        advertised=False,
    ),
    _row(
        "getToken",
        "POST /v1/oauth/tokens",
        calls.demand_nothing,
        oauth.get_token,
        body_bytes_max=limits.FORM_BODY_BYTES_MAX,
        authentication=callers.Authentication.NONE,
        advertised=False,
    ),
    _row(
        "listNamespaces",
        "GET /v1/{prefix}/namespaces",
        _on_bucket("ListNamespaces"),
        namespaces.list_namespaces,
    ),
    _row(
        "createNamespace",
        "POST /v1/{prefix}/namespaces",
        _IN_BODY,
        namespaces.create_namespace,
        body_bytes_max=wire.NAMESPACE_BYTES_MAX,
    ),
    _row(
        "loadNamespaceMetadata",
        f"GET {_NAMESPACE}",
        _on_namespace("GetNamespace"),
        namespaces.load_namespace,
    ),
    _row(
        "namespaceExists",
        f"HEAD {_NAMESPACE}",
        _on_namespace("GetNamespace"),
        namespaces.namespace_exists,
    ),
    _row(
        "dropNamespace",
        f"DELETE {_NAMESPACE}",
        _on_namespace("DeleteNamespace"),
        namespaces.drop_namespace,
    ),
    _row(
        "updateProperties",
        f"POST {_NAMESPACE}/properties",
        _on_namespace("UpdateNamespace"),
        namespaces.update_properties,
        body_bytes_max=wire.NAMESPACE_BYTES_MAX,
    ),
    _row(
        "listTables",
        f"GET {_NAMESPACE}/tables",
        _on_namespace("ListTables"),
        names.list_tables,
    ),
    _row(
        "createTable",
        f"POST {_NAMESPACE}/tables",
        _IN_BODY,
        tables.create_table,
        body_bytes_max=wire.COMMIT_BYTES_MAX,
        commits=True,
    ),
    _row(
        "registerTable",
        f"POST {_NAMESPACE}/register",
        _IN_BODY,
        tables.register_table,
        body_bytes_max=wire.NAMES_BYTES_MAX,
    ),
    _row("loadTable", f"GET {_TABLE}", _on_table(*_LOAD), tables.load_table, only_reads=True),
    _row(
        "updateTable",
        f"POST {_TABLE}",
        _IN_BODY,
        tables.commit_table,
        body_bytes_max=wire.COMMIT_BYTES_MAX,
        commits=True,
    ),
    _row("dropTable", f"DELETE {_TABLE}", _drop, tables.drop_table),
    _row("tableExists", f"HEAD {_TABLE}", _on_table("GetTable"), tables.table_exists),
    _row(
        "unregisterTable",
        f"POST {_TABLE}/unregister",
        _on_table("DeleteTable"),
        tables.unregister_table,
    ),
    _row(
        "renameTable",
        "POST /v1/{prefix}/tables/rename",
        _IN_BODY,
        names.rename_table,
        body_bytes_max=wire.NAMES_BYTES_MAX,
    ),
    _row(
        "loadCredentials",
        f"GET {_TABLE}/credentials",
        _on_table(*_READ),
        tables.load_credentials,
    ),
    _row(
        "signRequest",
        f"POST {_TABLE}/sign",
        _on_table(*_LOAD),
        signing.sign_request,
        body_bytes_max=wire.SIGN_BYTES_MAX,
    ),
    _row(
        "reportMetrics",
        f"POST {_TABLE}/metrics",
        _on_table("GetTable"),
        tables.report_metrics,
        body_bytes_max=wire.REPORT_BYTES_MAX,
    ),
    _row(
        "commitTransaction",
        "POST /v1/{prefix}/transactions/commit",
        _IN_BODY,
        tables.commit_transaction,
        body_bytes_max=wire.COMMIT_BYTES_MAX,
        commits=True,
    ),
    _row(
        "planTableScan",
        f"POST {_TABLE}/plan",
        _on_table(*_READ),
        plans.plan_table_scan,
        body_bytes_max=wire.PLAN_BYTES_MAX,
    ),
    _row(
        "fetchPlanningResult",
        f"GET {_TABLE}/plan/{{plan-id}}",
        _on_table(*_READ),
        plans.fetch_planning_result,
    ),
    _row(
        "cancelPlanning",
        f"DELETE {_TABLE}/plan/{{plan-id}}",
        _on_table(*_READ),
        plans.cancel_planning,
    ),
    _row(
        "fetchScanTasks",
        f"POST {_TABLE}/tasks",
        _on_table(*_READ),
        plans.fetch_scan_tasks,
        body_bytes_max=wire.PLAN_TASK_BYTES_MAX,
    ),
    _row("listViews", f"GET {_NAMESPACE}/views", _on_namespace("ListTables"), names.list_views),
    _row(
        "createView",
        f"POST {_NAMESPACE}/views",
        _IN_BODY,
        views.create_view,
        body_bytes_max=wire.VIEW_BYTES_MAX,
        commits=True,
    ),
    _row("loadView", f"GET {_VIEW}", _on_table(*_LOAD, object_type="view"), views.load_view),
    _row(
        "replaceView",
        f"POST {_VIEW}",
        _on_table(*rights.COMMIT_ACTIONS, object_type="view"),
        views.replace_view,
        body_bytes_max=wire.VIEW_BYTES_MAX,
        commits=True,
    ),
    _row(
        "dropView", f"DELETE {_VIEW}", _on_table("DeleteTable", object_type="view"), views.drop_view
    ),
    _row(
        "viewExists", f"HEAD {_VIEW}", _on_table("GetTable", object_type="view"), views.view_exists
    ),
    _row(
        "renameView",
        "POST /v1/{prefix}/views/rename",
        _IN_BODY,
        names.rename_view,
        body_bytes_max=wire.NAMES_BYTES_MAX,
    ),
    _row(
        "registerView",
        f"POST {_NAMESPACE}/register-view",
        _IN_BODY,
        views.register_view,
        body_bytes_max=wire.NAMES_BYTES_MAX,
    ),
    _row(
        "listFunctions",
        f"GET {_NAMESPACE}/functions",
        _on_namespace("ListTables"),
        names.list_functions,
    ),
    _row(
        "loadFunction",
        f"GET {_NAMESPACE}/functions/{{function}}",
        _on_namespace("ListTables"),
        names.load_function,
    ),
)

SIGN_BY_FILE: Final[tuple[RestRow, ...]] = tuple(
    _row(
        "signRequest",
        f"POST {path}",
        _IN_BODY,
        signing.sign_file_request,
        body_bytes_max=wire.SIGN_BYTES_MAX,
        advertised=False,
    )
    for path in ("/v1/aws/s3/sign", "/v1/{prefix}/v1/aws/s3/sign")
)
"""signRequest at the paths of clients that know no `signer.endpoint`: they name no table."""

ROUTES: Final = routes.Routes((row.method, row.path, row) for row in (*ROWS, *SIGN_BY_FILE))


async def _refuse_route(service: Service, call: calls.Call) -> asgi.Response:
    path = call.request.raw_path.decode("latin-1")[:200]
    raise errors.NoSuchEndpoint(f"No route for request: {call.request.method} {path}")


async def _refuse_uri(service: Service, call: calls.Call) -> asgi.Response:
    path = call.request.raw_path.decode("latin-1")[:200]
    raise errors.NoSuchEndpoint(
        f"No route for request: {call.request.method} {path}; a client's URI of this catalog is"
        f" {call.request.origin}/iceberg"
    )


UNKNOWN: Final = calls.Operation(name="", handler=_refuse_route)
"""What a request means that has no route; it too needs a credential."""
MISDIRECTED: Final = calls.Operation(
    name="", handler=_refuse_uri, authentication=callers.Authentication.NONE
)
"""The first request of a client whose URI has more or other segments than the catalog's."""
_FIRST_PATHS: Final = (b"/v1/config", b"/v1/oauth/tokens")


def without_route(raw_path: bytes) -> calls.Operation:
    """Return what a request means that has no route."""
    return MISDIRECTED if raw_path.endswith(_FIRST_PATHS) else UNKNOWN


ENDPOINTS: Final = tuple(
    row.endpoint for row in ROWS if row.advertised and row.operation.handler is not None
)
"""What the configuration advertises."""
