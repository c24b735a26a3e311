"""face: the configuration that a client asks for first: its warehouse, endpoints, where S3 is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from catalog import receipts
from catalog.rest import credentials, routes, wire
from catalog.rest.service import Asked, Service
from server import asgi

NOT_ADVERTISED: Final = frozenset({"getConfig", "getToken"})


async def get_config(service: Service, asked: Asked) -> asgi.Response:
    """Answer with everything a client needs that it was not told."""
    table_bucket = service.warehouse(asked.operation.parameters.get("warehouse"))
    origin = asked.request.origin
    return wire.encode(
        {
            "defaults": {
                **credentials.addresses(origin, service.region),
                "oauth2-server-uri": f"{origin}/iceberg/v1/oauth/tokens",
            },
            "overrides": {"prefix": table_bucket},
            "endpoints": list(service.endpoints),
            "idempotency-key-lifetime": f"PT{receipts.LIFETIME_MS // 60_000}M",
        }
    )


def endpoints(built: Iterable[str]) -> tuple[str, ...]:
    """Return the endpoints to advertise. built: the names of operations that are there."""
    names = frozenset(built) - NOT_ADVERTISED
    return tuple(route.endpoint for route in routes.ROUTES if route.name in names)
