"""face: the catalog's part of the native API: settings of table buckets, loaded sources, metrics
reports, the sweep.

A row of ROWS is one operation; those of drops are in `dropping`. A table's name is its levels
joined by dots, or by 0x1F if a name contains dots.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import departures, errors, maintenance
from catalog.access import Access
from catalog.drops import Drops
from catalog.namespaces import Namespaces
from catalog.rest import dropping, explaining, wire_errors
from catalog.sweep import retention
from catalog.sweep.sweeping import FILES_LISTED_MAX, Report, TableSweep, Tally
from catalog.tables import Tables
from catalog.views import Views
from server import asgi, calls, config, native
from server.access import model, principals
from storage import errors as storage_errors
from storage import settings

WIRE_ERRORS: Final[native.ErrorTable] = {
    error_type: row
    for error_type, row in wire_errors.WIRE_ERRORS.items()
    if error_type not in native.KIT_ERRORS
}


SETTINGS_BYTES_MAX: Final = 16 * 1024
ATTEMPTS_MAX: Final = 20
"""How often a change of settings is tried while policies of the table bucket change."""
CHANGEABLE: Final = (
    retention.UNREFERENCED_DAYS,
    retention.NONCURRENT_DAYS,
    retention.HISTORY_DAYS,
    departures.DROPPED_TABLE_DAYS,
    departures.PURGE_ON_DROP,
    *maintenance.BUCKET_DEFAULTS,
    departures.BUCKET_PROTECTED,
)
"""Settings of a table bucket that a request may change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TablesServices:
    """The services of this module's handlers."""

    namespaces: Namespaces
    tables: Tables
    views: Views
    drops: Drops
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


async def update_warehouse(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Change settings of a table bucket, and answer all of them."""
    changes = _settings_in(call.body)
    access = services.access
    store = access.store
    bucket = store.bucket(call.value["warehouse"])
    for _ in range(ATTEMPTS_MAX):
        policies = settings.expect_policies(store.index, bucket.bucket_id)
        access.recheck(call.principal, _demand_admin(services, call))
        try:
            changed = await store.buckets.change(
                bucket.name,
                lambda before: {**before, **changes},
                bucket_id=bucket.bucket_id,
                expects=(policies,),
            )
        except storage_errors.ExpectationFailed:
            continue
        return asgi.json_response({"settings": config.bucket_settings_of(changed.settings)})
    raise errors.CommitFailed("Policies of the table bucket changed during the request: try again")


def _settings_in(body: bytes) -> dict[str, str | bool | int]:
    """Return the settings that a request changes. Raises InvalidCatalogRequest."""
    try:
        changes = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidCatalogRequest(f"the body is not a JSON object: {error}") from None
    for name, value in changes.items():
        if name not in CHANGEABLE:
            raise errors.InvalidCatalogRequest(
                f"{name[:100]!r} cannot be changed: these can be {', '.join(CHANGEABLE)}"
            )
        try:
            config.check_bucket_setting(name, value)
        except config.InvalidConfig as error:
            raise errors.InvalidCatalogRequest(str(error)) from None
    return changes


async def list_loads(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer the source objects that a table has taken in."""
    ident = dropping.named(call)
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
    ident = dropping.named(call)
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
    chosen = _sweep_of(services, call)
    report = services.sweep.start(
        chosen.table_bucket, dry_run=chosen.dry_run, object_uuid=chosen.object_uuid
    )
    return asgi.json_response(_report(report), 202)


async def get_sweep(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer how far the latest sweep is."""
    chosen = _sweep_of(services, call)
    report = services.sweep.report(
        chosen.table_bucket, dry_run=chosen.dry_run, object_uuid=chosen.object_uuid
    )
    return asgi.json_response(_report(report))


def _demand_admin(services: TablesServices, call: calls.Call) -> tuple[model.Demand, ...]:
    resource = services.access.bucket_arn(call.value["warehouse"])
    return (model.Demand(action="lake:Admin", resource=resource),)


@dataclass(frozen=True, kw_only=True, slots=True)
class _SweepOf:
    """What a request sweeps. object_uuid: of one table, None for all of the table bucket."""

    table_bucket: str
    object_uuid: str | None
    dry_run: bool


def _sweep_of(services: TablesServices, call: calls.Call) -> _SweepOf:
    """Return what a request sweeps. Raises NoSuchWarehouse, NoSuchTable, InvalidCatalogRequest."""
    dry_run = dropping.flag(call, "dry_run")
    object_uuid = None
    if "table" in native.parameters_of(call):
        object_uuid = services.tables.pointer(dropping.named(call)).object_uuid
    return _SweepOf(table_bucket=call.value["warehouse"], object_uuid=object_uuid, dry_run=dry_run)


def _report(report: Report) -> dict[str, Any]:
    return {
        "state": report.state,
        "phase": report.phase,
        "dry_run": report.dry_run,
        "started_at_ms": report.started_at_ms,
        "ended_at_ms": report.ended_at_ms,
        "error": report.error,
        "removes_unreferenced": report.removes_unreferenced,
        "metadata_files_read": report.metadata_files_read,
        "manifests_read": report.manifests_read,
        "files_reached": report.files_reached,
        "objects_seen": report.objects_seen,
        "hidden": _tally(report.hidden),
        "freed": _tally(report.freed),
        "waiting": _tally(report.waiting),
        "deferred": _tally(report.deferred),
        "shown_files": report.shown.files,
        "problems": report.problems,
        "problems_count": report.problems_count,
        "files": [
            {
                "action": listed.action,
                "key": listed.key,
                "size_bytes": listed.size_bytes,
                "modified_at_ms": listed.modified_at_ms,
                "hidden_at_ms": listed.hidden_at_ms,
            }
            for listed in (report.listed + report.waiting_listed)[:FILES_LISTED_MAX]
        ],
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {"files": tally.files, "size_bytes": tally.size_bytes}


TALLY: Final = native.object_of(files=native.WHOLE, size_bytes=native.WHOLE)
REPORT: Final = native.object_of(
    state=native.TEXT,
    phase=native.TEXT,
    dry_run=native.FLAG,
    started_at_ms=native.WHOLE_OR_NULL,
    ended_at_ms=native.WHOLE_OR_NULL,
    error=native.TEXT_OR_NULL,
    removes_unreferenced=native.FLAG,
    metadata_files_read=native.WHOLE,
    manifests_read=native.WHOLE,
    files_reached=native.WHOLE,
    objects_seen=native.WHOLE,
    hidden=TALLY,
    freed=TALLY,
    waiting=TALLY,
    deferred=TALLY,
    shown_files=native.WHOLE,
    problems=native.list_of(native.TEXT),
    problems_count=native.WHOLE,
    files=native.list_of(
        native.object_of(
            action=native.TEXT,
            key=native.TEXT,
            size_bytes=native.WHOLE,
            modified_at_ms=native.WHOLE,
            hidden_at_ms=native.WHOLE_OR_NULL,
        )
    ),
)

OF_TABLE: Final = native.QueryParameter(name="table", meaning="Of files of this table alone")

ROWS: Final = (
    explaining.ROW,
    explaining.ALLOWED_ROW,
    *dropping.ROWS,
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
        method="PATCH",
        template="/_api/v1/warehouses/{warehouse}",
        operation=calls.Operation(
            name="updateWarehouse",
            handler=update_warehouse,
            demands=_demand_admin,
            body_bytes_max=SETTINGS_BYTES_MAX,
        ),
        summary="Change how long dropped tables and old states are kept, and what a drop does",
        answer=native.object_of(settings=native.ANY_OBJECT),
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/loads",
        operation=calls.Operation(name="listLoads", handler=list_loads),
        summary="Source objects that a table has taken in",
        parameters=(
            dropping.TABLE,
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
        parameters=(dropping.TABLE,),
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
        parameters=(dropping.DRY_RUN, OF_TABLE),
        status=202,
        answer=REPORT,
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/sweep",
        operation=calls.Operation(name="getSweep", handler=get_sweep, demands=_demand_admin),
        summary="How far the latest sweep is",
        parameters=(dropping.DRY_RUN, OF_TABLE),
        answer=REPORT,
    ),
)
"""Every operation of the catalog in the native API."""
