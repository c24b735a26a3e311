"""rule: which operation a request to the REST catalog asks for.

One row per operation of the specification, built or not. A path is split while it is still
percent-encoded, so a name may hold anything. The prefix may be left out: then the default
warehouse is meant, which is why the words that begin a path are no names for table buckets.
Never reads a body, and knows no table.
Source: Iceberg REST catalog specification, paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from catalog import idents

Method: TypeAlias = Literal["GET", "HEAD", "POST", "DELETE"]

OperationName: TypeAlias = Literal[
    "getConfig",
    "getToken",
    "listNamespaces",
    "createNamespace",
    "loadNamespaceMetadata",
    "namespaceExists",
    "dropNamespace",
    "updateProperties",
    "listTables",
    "createTable",
    "registerTable",
    "loadTable",
    "updateTable",
    "dropTable",
    "tableExists",
    "unregisterTable",
    "renameTable",
    "loadCredentials",
    "signRequest",
    "reportMetrics",
    "commitTransaction",
    "planTableScan",
    "fetchPlanningResult",
    "cancelPlanning",
    "fetchScanTasks",
    "listViews",
    "createView",
    "loadView",
    "replaceView",
    "dropView",
    "viewExists",
    "renameView",
    "registerView",
    "listFunctions",
    "loadFunction",
    "noSuchRoute",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One operation: its name, method and path, as a server's `endpoints` list spells it."""

    name: OperationName
    method: Method
    path: str

    @property
    def endpoint(self) -> str:
        """The operation as the configuration advertises it."""
        return f"{self.method} {self.path}"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for. prefix: None for the default warehouse.

    name: of a table, view or function. plan_id: of a scan plan. parameters: the query, each name's
    first value.
    """

    operation: OperationName
    prefix: str | None = None
    namespace: idents.Namespace = ()
    name: str = ""
    plan_id: str = ""
    parameters: Mapping[str, str]


_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_VIEW = _NAMESPACE + "/views/{view}"

ROUTES: Final[tuple[Route, ...]] = (
    Route(name="getConfig", method="GET", path="/v1/config"),
    Route(name="getToken", method="POST", path="/v1/oauth/tokens"),
    Route(name="listNamespaces", method="GET", path="/v1/{prefix}/namespaces"),
    Route(name="createNamespace", method="POST", path="/v1/{prefix}/namespaces"),
    Route(name="loadNamespaceMetadata", method="GET", path=_NAMESPACE),
    Route(name="namespaceExists", method="HEAD", path=_NAMESPACE),
    Route(name="dropNamespace", method="DELETE", path=_NAMESPACE),
    Route(name="updateProperties", method="POST", path=_NAMESPACE + "/properties"),
    Route(name="listTables", method="GET", path=_NAMESPACE + "/tables"),
    Route(name="createTable", method="POST", path=_NAMESPACE + "/tables"),
    Route(name="registerTable", method="POST", path=_NAMESPACE + "/register"),
    Route(name="loadTable", method="GET", path=_TABLE),
    Route(name="updateTable", method="POST", path=_TABLE),
    Route(name="dropTable", method="DELETE", path=_TABLE),
    Route(name="tableExists", method="HEAD", path=_TABLE),
    Route(name="unregisterTable", method="POST", path=_TABLE + "/unregister"),
    Route(name="renameTable", method="POST", path="/v1/{prefix}/tables/rename"),
    Route(name="loadCredentials", method="GET", path=_TABLE + "/credentials"),
    Route(name="signRequest", method="POST", path=_TABLE + "/sign"),
    Route(name="reportMetrics", method="POST", path=_TABLE + "/metrics"),
    Route(name="commitTransaction", method="POST", path="/v1/{prefix}/transactions/commit"),
    Route(name="planTableScan", method="POST", path=_TABLE + "/plan"),
    Route(name="fetchPlanningResult", method="GET", path=_TABLE + "/plan/{plan-id}"),
    Route(name="cancelPlanning", method="DELETE", path=_TABLE + "/plan/{plan-id}"),
    Route(name="fetchScanTasks", method="POST", path=_TABLE + "/tasks"),
    Route(name="listViews", method="GET", path=_NAMESPACE + "/views"),
    Route(name="createView", method="POST", path=_NAMESPACE + "/views"),
    Route(name="loadView", method="GET", path=_VIEW),
    Route(name="replaceView", method="POST", path=_VIEW),
    Route(name="dropView", method="DELETE", path=_VIEW),
    Route(name="viewExists", method="HEAD", path=_VIEW),
    Route(name="renameView", method="POST", path="/v1/{prefix}/views/rename"),
    Route(name="registerView", method="POST", path=_NAMESPACE + "/register-view"),
    Route(name="listFunctions", method="GET", path=_NAMESPACE + "/functions"),
    Route(name="loadFunction", method="GET", path=_NAMESPACE + "/functions/{function}"),
)

FIRST_WORDS: Final = frozenset({"config", "oauth", "namespaces", "tables", "views", "transactions"})
"""What a path without prefix begins with."""


def identify(method: str, segments: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Operation:
    """Return the operation of a request; `noSuchRoute` for what the catalog does not have.

    segments: of the path below `/iceberg`, each decoded once. pairs: the query, decoded.
    """
    parameters: dict[str, str] = {}
    for name, value in pairs:
        parameters.setdefault(name, value)
    prefix = None
    if segments and segments[0] == "v1":
        rest = list(segments[1:])
        if rest and rest[0] not in FIRST_WORDS:
            prefix = rest.pop(0)
        route = _BY_SHAPE.get((method, _shape(rest)))
        if route is not None:
            return _operation(route, prefix, rest, parameters)
    return Operation(operation="noSuchRoute", parameters=parameters)


def _operation(
    name: OperationName, prefix: str | None, rest: Sequence[str], parameters: Mapping[str, str]
) -> Operation:
    below_namespace = rest[0] == "namespaces" and len(rest) > 1
    return Operation(
        operation=name,
        prefix=prefix,
        namespace=idents.parse_namespace(rest[1]) if below_namespace else (),
        name=rest[3] if below_namespace and len(rest) > 3 else "",
        plan_id=rest[5] if len(rest) > 5 else "",
        parameters=parameters,
    )


def _shape(rest: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a path, with its names left out: every other segment is a name."""
    if len(rest) > 1 and rest[0] == "namespaces":
        if "" in rest:
            return ()
        return tuple("" if index % 2 else word for index, word in enumerate(rest))
    return tuple(rest)


_BY_SHAPE: Final[Mapping[tuple[str, tuple[str, ...]], OperationName]] = {
    (route.method, _shape(route.path.removeprefix("/v1/").removeprefix("{prefix}/").split("/"))): (
        route.name
    )
    for route in ROUTES
}
