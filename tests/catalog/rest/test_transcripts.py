"""One transcript per operation and per kind of refusal: the request and the answer, as on the wire.

They lie in tests/golden/iceberg. UPDATE_GOLDEN=1 rewrites them; people read the difference. Time
and ids stand still, so only what is derived from secrets is masked.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.rest import rows
from tests.catalog.rest import rest_server as kit

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "iceberg"
KEY = "018f2c5e-7b1a-7000-8000-0123456789ab"
FORM = "grant_type=client_credentials&client_id=ROOTKEY&client_secret="
CREATE = {"name": "orders", "schema": kit.SCHEMA, "properties": {"owner": "me"}}
CREATE_VIEW: dict[str, Any] = {
    "name": "big",
    "schema": kit.SCHEMA,
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_800_000_000_000,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    },
}
BIG = "lake/namespaces/sales/views/big"
IDENT = {"namespace": ["sales"], "name": "orders"}
RENAME = {"source": IDENT, "destination": {"namespace": ["sales"], "name": "orders2"}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One request. operation: whose case it is."""

    name: str
    operation: str
    request: str
    body: Any = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    signed: bool = True


def case(
    name: str,
    operation: str,
    request: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    *,
    signed: bool = True,
) -> Case:
    return Case(
        name=name,
        operation=operation,
        request=request,
        body=body,
        headers=headers or {},
        signed=signed,
    )


def commit(*updates: Any, requirements: Any = ()) -> dict[str, Any]:
    return {"requirements": list(requirements), "updates": list(updates)}


ORDERS = "lake/namespaces/sales/tables/orders"
# In this order, against one catalog: a story from an empty warehouse to an empty warehouse.
STORY = (
    case("get-token", "getToken", "POST oauth/tokens", FORM + "root-secret", signed=False),
    case("get-token-refused", "getToken", "POST oauth/tokens", FORM + "no", signed=False),
    case("get-config", "getConfig", "GET config?warehouse=lake"),
    case("get-config-no-warehouse", "getConfig", "GET config?warehouse=pond"),
    case("get-config-unsigned", "getConfig", "GET config", signed=False),
    case(
        "create-namespace",
        "createNamespace",
        "POST lake/namespaces",
        {"namespace": ["sales"], "properties": {"owner": "me"}},
    ),
    case(
        "create-namespace-again",
        "createNamespace",
        "POST lake/namespaces",
        {"namespace": ["sales"]},
    ),
    case(
        "create-namespace-below-nothing",
        "createNamespace",
        "POST lake/namespaces",
        {"namespace": ["no", "such"]},
    ),
    case("create-namespace-malformed", "createNamespace", "POST lake/namespaces", "not json"),
    case(
        "create-namespace-child",
        "createNamespace",
        "POST lake/namespaces",
        {"namespace": ["sales", "eu.west"]},
    ),
    case("list-namespaces", "listNamespaces", "GET lake/namespaces"),
    case("list-namespaces-below", "listNamespaces", "GET lake/namespaces?parent=sales"),
    case("list-namespaces-page", "listNamespaces", "GET lake/namespaces?pageToken=&pageSize=1"),
    case("load-namespace", "loadNamespaceMetadata", "GET lake/namespaces/sales%1Feu.west"),
    case("load-namespace-absent", "loadNamespaceMetadata", "GET lake/namespaces/none"),
    case("namespace-exists", "namespaceExists", "HEAD lake/namespaces/sales"),
    case("namespace-exists-not", "namespaceExists", "HEAD lake/namespaces/none"),
    case(
        "update-properties",
        "updateProperties",
        "POST lake/namespaces/sales/properties",
        {"updates": {"team": "x"}, "removals": ["owner", "none"]},
    ),
    case(
        "update-properties-overlap",
        "updateProperties",
        "POST lake/namespaces/sales/properties",
        {"updates": {"team": "x"}, "removals": ["team"]},
    ),
    case("create-table", "createTable", "POST lake/namespaces/sales/tables", CREATE),
    case("create-table-again", "createTable", "POST lake/namespaces/sales/tables", CREATE),
    case(
        "create-table-elsewhere",
        "createTable",
        "POST lake/namespaces/sales/tables",
        {**CREATE, "name": "x", "location": "s3://pond/sales/x"},
    ),
    case(
        "create-table-overlap",
        "createTable",
        "POST lake/namespaces/sales/tables",
        {**CREATE, "name": "x", "location": "s3://lake/sales/orders/x"},
    ),
    case(
        "create-table-staged",
        "createTable",
        "POST lake/namespaces/sales/tables",
        {**CREATE, "name": "staged", "stage-create": True},
    ),
    case("list-tables", "listTables", "GET lake/namespaces/sales/tables"),
    case("list-views", "listViews", "GET lake/namespaces/sales/views"),
    case("list-views-no-namespace", "listViews", "GET lake/namespaces/none/views"),
    case("load-table", "loadTable", f"GET {ORDERS}"),
    case("plan-table-scan", "planTableScan", f"POST {ORDERS}/plan", {"select": ["id"]}),
    case("load-table-not-modified", "loadTable", f"GET {ORDERS}", headers={"if-none-match": "*"}),
    case("load-table-absent", "loadTable", "GET lake/namespaces/sales/tables/none"),
    case("table-exists", "tableExists", f"HEAD {ORDERS}"),
    case(
        "update-table",
        "updateTable",
        f"POST {ORDERS}",
        commit(
            *kit.add_snapshot(7, 1),
            requirements=[{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
        ),
        {"idempotency-key": KEY},
    ),
    case(
        "update-table-conflict",
        "updateTable",
        f"POST {ORDERS}",
        commit(
            *kit.add_snapshot(8, 1),
            requirements=[{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
        ),
    ),
    case(
        "update-table-stale",
        "updateTable",
        f"POST {ORDERS}",
        commit(*kit.add_snapshot(8, 1, parent=7)),
    ),
    case(
        "update-table-unknown-update",
        "updateTable",
        f"POST {ORDERS}",
        commit({"action": "fly"}),
    ),
    case(
        "update-table-key-reused",
        "updateTable",
        f"POST {ORDERS}",
        commit(kit.set_property("a", "b")),
        {"idempotency-key": KEY},
    ),
    case("load-table-refs", "loadTable", f"GET {ORDERS}?snapshots=refs"),
    case(
        "load-table-signing",
        "loadTable",
        f"GET {ORDERS}?snapshots=refs",
        headers={"x-iceberg-access-delegation": "remote-signing"},
    ),
    case(
        "commit-transaction",
        "commitTransaction",
        "POST lake/transactions/commit",
        {"table-changes": [{"identifier": IDENT, **commit(kit.set_property("a", "b"))}]},
    ),
    case(
        "commit-transaction-absent",
        "commitTransaction",
        "POST lake/transactions/commit",
        {"table-changes": [{"identifier": {"namespace": ["sales"], "name": "no"}, **commit()}]},
    ),
    case("load-credentials", "loadCredentials", f"GET {ORDERS}/credentials"),
    case("plan-table-scan-no-column", "planTableScan", f"POST {ORDERS}/plan", {"select": ["x"]}),
    case("fetch-planning-result", "fetchPlanningResult", f"GET {ORDERS}/plan/one"),
    case("cancel-planning", "cancelPlanning", f"DELETE {ORDERS}/plan/one"),
    case("fetch-scan-tasks", "fetchScanTasks", f"POST {ORDERS}/tasks", {"plan-task": "one"}),
    case(
        "report-metrics", "reportMetrics", f"POST {ORDERS}/metrics", {"report-type": "scan-report"}
    ),
    case("rename-table", "renameTable", "POST lake/tables/rename", RENAME),
    case("rename-table-absent", "renameTable", "POST lake/tables/rename", RENAME),
    case("unregister-table", "unregisterTable", f"POST {ORDERS}2/unregister"),
    case(
        "register-table",
        "registerTable",
        "POST lake/namespaces/sales/register",
        {"name": "orders", "metadata-location": "LAST"},
    ),
    case(
        "register-table-no-file",
        "registerTable",
        "POST lake/namespaces/sales/register",
        {"name": "x", "metadata-location": "s3://lake/a/b/metadata/v1.metadata.json"},
    ),
    case("create-view", "createView", "POST lake/namespaces/sales/views", CREATE_VIEW),
    case("create-view-again", "createView", "POST lake/namespaces/sales/views", CREATE_VIEW),
    case("load-view", "loadView", f"GET {BIG}"),
    case("load-view-absent", "loadView", "GET lake/namespaces/sales/views/none"),
    case("view-exists", "viewExists", f"HEAD {BIG}"),
    case(
        "replace-view",
        "replaceView",
        f"POST {BIG}",
        commit(
            {
                "action": "add-view-version",
                "view-version": {
                    **CREATE_VIEW["view-version"],
                    "version-id": 2,
                    "representations": [
                        {"type": "sql", "sql": "select 2", "dialect": "spark"},
                    ],
                },
            },
            {"action": "set-current-view-version", "view-version-id": -1},
        ),
    ),
    case(
        "replace-view-conflict",
        "replaceView",
        f"POST {BIG}",
        commit(
            requirements=[
                {"type": "assert-view-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}
            ]
        ),
    ),
    case(
        "rename-view",
        "renameView",
        "POST lake/views/rename",
        {
            "source": {"namespace": ["sales"], "name": "big"},
            "destination": {"namespace": ["sales"], "name": "bigger"},
        },
    ),
    case("drop-view", "dropView", f"DELETE {BIG}ger"),
    case("drop-view-absent", "dropView", f"DELETE {BIG}ger"),
    case(
        "register-view-no-file",
        "registerView",
        "POST lake/namespaces/sales/register-view",
        {"name": "x", "metadata-location": "s3://lake/a/b/metadata/v1.metadata.json"},
    ),
    case(
        "sign-request-refused",
        "signRequest",
        f"POST {ORDERS}/sign",
        {
            "region": "us-east-1",
            "method": "GET",
            "uri": "http://127.0.0.1:1/lake/sales/orders/data/f.parquet",
            "headers": {},
        },
    ),
    case("list-functions", "listFunctions", "GET lake/namespaces/sales/functions"),
    case("list-functions-absent", "listFunctions", "GET lake/namespaces/none/functions"),
    case("load-function", "loadFunction", "GET lake/namespaces/sales/functions/f"),
    case("drop-namespace-not-empty", "dropNamespace", "DELETE lake/namespaces/sales"),
    case("drop-table", "dropTable", f"DELETE {ORDERS}?purgeRequested=true"),
    case("drop-table-absent", "dropTable", f"DELETE {ORDERS}"),
    case("drop-namespace-child", "dropNamespace", "DELETE lake/namespaces/sales%1Feu.west"),
    case("drop-namespace", "dropNamespace", "DELETE lake/namespaces/sales"),
    case("no-such-route", "noSuchRoute", "PUT lake/namespaces"),
)


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with kit.opened(tmp_path_factory.mktemp("golden") / "data") as rest:
        transcripts_by_name: dict[str, str] = {}
        last = ""
        for each in STORY:
            body = each.body
            if isinstance(body, dict) and body.get("metadata-location") == "LAST":
                body = {**body, "metadata-location": last}
            request, answer = tell(rest, each, body)
            if answer.body.startswith(b"{") and "metadata-location" in answer.json:
                last = answer.json["metadata-location"]
            transcripts_by_name[each.name] = request + "\n--------\n" + shown(answer)
        yield transcripts_by_name


def tell(rest: kit.RestServer, each: Case, body: Any) -> tuple[str, kit.Answer]:
    method, _, path = each.request.partition(" ")
    headers = dict(each.headers)
    if each.signed:
        headers["authorization"] = f"Bearer {rest.run(rest.token('root'))}"
    text = body if isinstance(body, str) else None if body is None else json.dumps(body)
    answer = rest.send(
        method, f"/iceberg/v1/{path}", None if text is None else text.encode(), headers
    )
    lines = [f"{method} /iceberg/v1/{path}"]
    lines += [f"{name}: {value}" for name, value in sorted(each.headers.items())]
    lines += ["", text if isinstance(body, str) else "" if body is None else pretty(body), ""]
    return masked("\n".join(lines)), answer


def shown(answer: kit.Answer) -> str:
    lines = [f"HTTP/1.1 {answer.status}"]
    lines += [
        f"{name}: {value}"
        for name, value in sorted(answer.headers.items())
        if name not in ("x-amz-request-id", "content-length")
    ]
    lines += ["", pretty(answer.json) if answer.body else ""]
    return masked("\n".join(lines)) + "\n"


def pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def masked(text: str) -> str:
    text = re.sub(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN", text)
    text = re.sub(r'("s3.secret-access-key": )"[^"]+"', r'\1"SECRET"', text)
    return text.replace("root-secret", "SECRET")


@pytest.mark.parametrize("name", [each.name for each in STORY])
def test_an_answer_is_what_it_was(transcripts: dict[str, str], name: str) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(transcripts[name])
    assert path.read_text() == transcripts[name]


def test_every_operation_that_is_built_has_a_transcript() -> None:
    operations = {each.operation for each in STORY}
    assert operations >= {row.name for row in rows.ROWS if row.operation.handler is not None}
    assert operations <= {row.name for row in rows.ROWS} | {"noSuchRoute"}
    assert {path.stem for path in FOLDER.glob("*.txt")} == {each.name for each in STORY}
