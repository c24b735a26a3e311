"""face: what a request to the REST catalog is about, for access records of table buckets."""

from __future__ import annotations

import functools

from catalog.rest import routes
from catalog.rest.service import Service
from server import calls
from server.accesslogs import places


def place_of(service: Service, call: calls.Call) -> places.RequestPlace | None:
    """Return what a call is about; None if it has no route, or names no warehouse."""
    value = call.value
    if not isinstance(value, routes.Parameters) or call.operation.name == "getToken":
        return None
    return places.RequestPlace(
        bucket=service.warehouse_name(value.prefix or value.query.get("warehouse")),
        key="",
        operation=f"ICEBERG.{call.operation.name}",
    )


def finder(service: Service) -> places.FindPlace:
    """Return `place_of` over a face's service."""
    return functools.partial(place_of, service)
