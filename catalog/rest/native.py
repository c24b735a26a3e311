"""face: the catalog's part of the native API: how a table bucket was made, what tables have taken
in, what clients reported.

`GET warehouses/{warehouse}`, `GET warehouses/{warehouse}/loads?table=ns.t[&after=...]` and
`GET warehouses/{warehouse}/metrics?table=ns.t`. A table's name is its levels joined by dots, or by
0x1F where a name holds dots itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from catalog import errors, idents
from catalog.rest import wire_errors
from catalog.rest.access import Access
from catalog.tables import Tables
from server import config, native

WIRE_ERRORS: Final[native.ErrorTable] = {
    kind: row for kind, row in wire_errors.WIRE_ERRORS.items() if kind not in native.KIT_ERRORS
}


def make_routes(*, tables: Tables, access: Access) -> tuple[native.Route, ...]:
    """Return the routes, for the native face. Their errors are in WIRE_ERRORS."""

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

    return (
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


def _table_of(call: native.Call) -> idents.TableIdent:
    text = call.parameters.get("table", "")
    parts = text.split(idents.SEPARATOR if idents.SEPARATOR in text else ".")
    if len(parts) < 2 or "" in parts:
        raise errors.InvalidArgument("table must name a namespace and a table: table=ns.t")
    return idents.TableIdent(
        table_bucket=call.labels["warehouse"], namespace=tuple(parts[:-1]), name=parts[-1]
    )
