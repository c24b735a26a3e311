"""face: the catalog's part of the native API: settings of table buckets, loaded sources, metrics
reports, the sweep.

`GET warehouses/{warehouse}`, `GET warehouses/{warehouse}/loads?table=ns.t[&after=...]`,
`GET warehouses/{warehouse}/metrics?table=ns.t`; `POST warehouses/{warehouse}/sweep[?dry_run=true]`
starts a sweep, and `GET` of the same path reports the latest one. A table's name is its levels
joined by dots, or by 0x1F if a name contains dots.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from catalog import errors, idents
from catalog.access import Access
from catalog.rest import wire_errors
from catalog.sweep.sweeping import Report, TableSweep, Tally
from catalog.tables import Tables
from server import asgi, config, native
from server.access import model

WIRE_ERRORS: Final[native.ErrorTable] = {
    error_type: row
    for error_type, row in wire_errors.WIRE_ERRORS.items()
    if error_type not in native.KIT_ERRORS
}


def make_routes(*, tables: Tables, access: Access, sweep: TableSweep) -> tuple[native.Route, ...]:
    """Return the routes for the native face. Their errors are in WIRE_ERRORS."""

    async def warehouse(call: native.Call) -> Any:
        name = call.labels["warehouse"]
        access.check(call.caller.principal, (access.on_bucket(name, "GetTableBucket"),))
        bucket = access.store.bucket(name)
        return {
            "name": bucket.name,
            "arn": access.bucket_arn(name),
            "created_at_ms": bucket.created_at_ms,
            "settings": config.bucket_settings_of(bucket.settings),
        }

    async def loads(call: native.Call) -> Any:
        ident = _table_of(call)
        access.check(call.caller.principal, access.on_table(ident, ("GetTable",)))
        page = tables.taken(ident, after=call.parameters.get("after", ""))
        return {
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

    async def metrics(call: native.Call) -> Any:
        ident = _table_of(call)
        access.check(call.caller.principal, access.on_table(ident, ("GetTable",)))
        return {
            "reports": [
                {
                    "received_at_ms": report.received_at_ms,
                    "principal": report.principal,
                    "report": msgspec.json.decode(report.report),
                }
                for report in tables.metrics(ident)
            ]
        }

    async def start_sweep(call: native.Call) -> Any:
        name, dry_run = _sweep_of(call)
        report = sweep.start(name, dry_run=dry_run)
        return asgi.json_response(_report(report), 202)

    async def sweep_report(call: native.Call) -> Any:
        name, dry_run = _sweep_of(call)
        return _report(sweep.report(name, dry_run=dry_run))

    def on_sweep(labels: native.Labels) -> tuple[model.Demand, ...]:
        resource = access.bucket_arn(labels["warehouse"])
        return (model.Demand(action="lake:Admin", resource=resource),)

    return (
        native.Route(
            method="POST",
            template="warehouses/{warehouse}/sweep",
            handler=start_sweep,
            demands=on_sweep,
        ),
        native.Route(
            method="GET",
            template="warehouses/{warehouse}/sweep",
            handler=sweep_report,
            demands=on_sweep,
        ),
        native.Route(
            method="GET",
            template="warehouses/{warehouse}",
            handler=warehouse,
            demands=lambda _: (),
        ),
        native.Route(
            method="GET",
            template="warehouses/{warehouse}/loads",
            handler=loads,
            demands=lambda _: (),
        ),
        native.Route(
            method="GET",
            template="warehouses/{warehouse}/metrics",
            handler=metrics,
            demands=lambda _: (),
        ),
    )


def _sweep_of(call: native.Call) -> tuple[str, bool]:
    """Return the table bucket to sweep, and whether it is a dry run."""
    dry_run = call.parameters.get("dry_run", "false").lower()
    if dry_run not in ("true", "false"):
        raise errors.InvalidArgument(f"dry_run is true or false, not {dry_run!r}")
    return call.labels["warehouse"], dry_run == "true"


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


def _table_of(call: native.Call) -> idents.TableIdent:
    text = call.parameters.get("table", "")
    parts = text.split(idents.SEPARATOR if idents.SEPARATOR in text else ".")
    if len(parts) < 2 or "" in parts:
        raise errors.InvalidArgument("table must name a namespace and a table: table=ns.t")
    return idents.TableIdent(
        table_bucket=call.labels["warehouse"], namespace=tuple(parts[:-1]), name=parts[-1]
    )
