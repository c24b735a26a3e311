"""face: the catalog's part of the native API: settings of table buckets, loaded sources, metrics
reports, the sweep.

A row of ROWS is one operation. A table's name is its levels joined by dots, or by 0x1F if a name
contains dots.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import errors, idents
from catalog.access import Access
from catalog.rest import explaining, wire_errors
from catalog.sweep.sweeping import Report, TableSweep, Tally
from catalog.tables import Tables
from server import asgi, calls, config, native
from server.access import model, principals

WIRE_ERRORS: Final[native.ErrorTable] = {
    error_type: row
    for error_type, row in wire_errors.WIRE_ERRORS.items()
    if error_type not in native.KIT_ERRORS
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TablesServices:
    """The services of this module's handlers."""

    tables: Tables
    access: Access
    sweep: TableSweep
    principals: principals.Principals


async def get_warehouse(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer how a table bucket was made."""
    name = call.value["warehouse"]
    access = services.access
    access.check(call.principal, (access.on_bucket(name, "GetTableBucket"),))
    bucket = access.store.bucket(name)
    return asgi.json_response(
        {
            "name": bucket.name,
            "arn": access.bucket_arn(name),
            "created_at_ms": bucket.created_at_ms,
            "settings": config.bucket_settings_of(bucket.settings),
        }
    )


async def list_loads(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer the source objects that a table has taken in."""
    ident = _table_of(call)
    services.access.check(call.principal, services.access.on_table(ident, ("GetTable",)))
    after = native.parameters_of(call).get("after", "")
    page = await asyncio.to_thread(services.tables.taken, ident, after=after)
    return asgi.json_response(
        {
            "loads": [
                {
                    "source": row.source,
                    "etag": row.etag,
                    "snapshot_id": row.snapshot_id,
                    "taken_at_ms": row.taken_at_ms,
                }
                for row in page.loads
            ],
            "next": page.next,
        }
    )


async def list_reports(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer the scan and commit reports that clients sent of a table."""
    ident = _table_of(call)
    services.access.check(call.principal, services.access.on_table(ident, ("GetTable",)))
    return asgi.json_response(
        {
            "reports": [
                {
                    "received_at_ms": report.received_at_ms,
                    "principal": report.principal,
                    "report": msgspec.json.decode(report.report),
                }
                for report in services.tables.metrics(ident)
            ]
        }
    )


async def start_sweep(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Begin a sweep in the background."""
    name, dry_run = _sweep_of(call)
    return asgi.json_response(_report(services.sweep.start(name, dry_run=dry_run)), 202)


async def get_sweep(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer how far the latest sweep is."""
    name, dry_run = _sweep_of(call)
    return asgi.json_response(_report(services.sweep.report(name, dry_run=dry_run)))


def _demand_admin(services: TablesServices, call: calls.Call) -> tuple[model.Demand, ...]:
    resource = services.access.bucket_arn(call.value["warehouse"])
    return (model.Demand(action="lake:Admin", resource=resource),)


def _sweep_of(call: calls.Call) -> tuple[str, bool]:
    """Return the table bucket to sweep, and whether it is a dry run."""
    dry_run = native.parameters_of(call).get("dry_run", "false").lower()
    if dry_run not in ("true", "false"):
        raise errors.InvalidCatalogRequest(f"dry_run is true or false, not {dry_run!r}")
    return call.value["warehouse"], dry_run == "true"


def _report(report: Report) -> dict[str, Any]:
    return {
        "state": report.state,
        "phase": report.phase,
        "dry_run": report.dry_run,
        "started_at_ms": report.started_at_ms,
        "ended_at_ms": report.ended_at_ms,
        "error": report.error,
        "metadata_files_read": report.metadata_files_read,
        "manifests_read": report.manifests_read,
        "files_reached": report.files_reached,
        "objects_seen": report.objects_seen,
        "hidden": _tally(report.hidden),
        "freed": _tally(report.freed),
        "deferred": _tally(report.deferred),
        "shown_files": report.shown.files,
        "problems": report.problems,
        "problems_count": report.problems_count,
        "files": [
            {"action": action, "key": key, "size_bytes": size_bytes}
            for action, key, size_bytes in report.listed
        ],
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {"files": tally.files, "size_bytes": tally.size_bytes}


def _table_of(call: calls.Call) -> idents.TableIdent:
    text = native.parameters_of(call).get("table", "")
    parts = text.split(idents.SEPARATOR if idents.SEPARATOR in text else ".")
    if len(parts) < 2 or "" in parts:
        raise errors.InvalidCatalogRequest("table must name a namespace and a table: table=ns.t")
    return idents.TableIdent(
        table_bucket=call.value["warehouse"], namespace=tuple(parts[:-1]), name=parts[-1]
    )


TABLE: Final = native.QueryParameter(
    name="table",
    meaning="Levels and name, joined by dots, or by 0x1F where a name holds dots",
    required=True,
)
DRY_RUN: Final = native.QueryParameter(
    name="dry_run", meaning="List only, change nothing", schema=native.FLAG
)
TALLY: Final = native.object_of(files=native.WHOLE, size_bytes=native.WHOLE)
REPORT: Final = native.object_of(
    state=native.TEXT,
    phase=native.TEXT,
    dry_run=native.FLAG,
    started_at_ms=native.WHOLE_OR_NULL,
    ended_at_ms=native.WHOLE_OR_NULL,
    error=native.TEXT_OR_NULL,
    metadata_files_read=native.WHOLE,
    manifests_read=native.WHOLE,
    files_reached=native.WHOLE,
    objects_seen=native.WHOLE,
    hidden=TALLY,
    freed=TALLY,
    deferred=TALLY,
    shown_files=native.WHOLE,
    problems=native.list_of(native.TEXT),
    problems_count=native.WHOLE,
    files=native.list_of(
        native.object_of(action=native.TEXT, key=native.TEXT, size_bytes=native.WHOLE)
    ),
)

ROWS: Final = (
    explaining.ROW,
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}",
        operation=calls.Operation(name="getWarehouse", handler=get_warehouse),
        summary="A table bucket's name, ARN and settings",
        answer=native.object_of(
            name=native.TEXT,
            arn=native.TEXT,
            created_at_ms=native.WHOLE,
            settings=native.ANY_OBJECT,
        ),
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/loads",
        operation=calls.Operation(name="listLoads", handler=list_loads),
        summary="Source objects that a table has taken in",
        parameters=(
            TABLE,
            native.QueryParameter(name="after", meaning="`next` of the page before"),
        ),
        answer=native.object_of(
            loads=native.list_of(
                native.object_of(
                    source=native.TEXT,
                    etag=native.TEXT,
                    snapshot_id=native.WHOLE,
                    taken_at_ms=native.WHOLE,
                )
            ),
            next=native.TEXT_OR_NULL,
        ),
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/metrics",
        operation=calls.Operation(name="listReports", handler=list_reports),
        summary="Scan and commit reports that clients sent",
        parameters=(TABLE,),
        answer=native.object_of(
            reports=native.list_of(
                native.object_of(
                    received_at_ms=native.WHOLE,
                    principal=native.TEXT,
                    report=native.ANY_OBJECT,
                )
            )
        ),
    ),
    native.NativeRow(
        method="POST",
        template="/_api/v1/warehouses/{warehouse}/sweep",
        operation=calls.Operation(name="startSweep", handler=start_sweep, demands=_demand_admin),
        summary="Begin to free files of tables that nothing retained references",
        parameters=(DRY_RUN,),
        status=202,
        answer=REPORT,
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/sweep",
        operation=calls.Operation(name="getSweep", handler=get_sweep, demands=_demand_admin),
        summary="How far the latest sweep is",
        parameters=(DRY_RUN,),
        answer=REPORT,
    ),
)
"""Every operation of the catalog in the native API."""
