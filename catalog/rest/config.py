"""face: the configuration that a client requests first: warehouse, endpoints, S3 settings."""

from __future__ import annotations

from catalog import idents, receipts
from catalog.rest import credentials, wire
from catalog.rest.service import Service
from server import asgi, calls


async def get_config(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the client's configuration."""
    table_bucket = service.warehouse(call.value.query.get("warehouse"))
    origin = call.request.origin
    overrides = {"prefix": table_bucket}
    if service.separator != idents.SEPARATOR:
        overrides["namespace-separator"] = f"%{ord(service.separator):02X}"
    return wire.encode(
        {
            "defaults": {
                # A mount's files are elsewhere: the answer about a table says where.
                **(
                    {}
                    if service.store.is_mount(table_bucket)
                    else credentials.addresses(origin, service.region)
                ),
                "oauth2-server-uri": f"{origin}/iceberg/v1/oauth/tokens",
            },
            "overrides": overrides,
            "endpoints": list(service.endpoints),
            "idempotency-key-lifetime": f"PT{receipts.LIFETIME_MS // 60_000}M",
        }
    )
