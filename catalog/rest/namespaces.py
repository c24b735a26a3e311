"""face: namespaces over HTTP: one function per operation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from catalog import errors, idents, namespaces, owners, receipts, records
from catalog.metadata import json_values
from catalog.rest import answers, idempotency, wire
from catalog.rest.service import Service
from server import asgi, calls


async def list_namespaces(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the direct children of a namespace, or of the warehouse.

    Those that the caller may not get are left out, and so is every child of such a parent.
    """
    table_bucket = service.table_bucket(call)
    text = call.value.query.get("parent", "")
    parent = idents.parse_namespace(text, service.separator) if text else ()

    def is_shown(namespace: idents.Namespace) -> bool:
        demand = service.access.on_namespace(table_bucket, namespace, "GetNamespace")
        return service.access.permits(call.principal, (demand,))

    if parent and not is_shown(parent):
        raise errors.NoSuchNamespace(f"Namespace does not exist: {idents.dotted(parent)}")

    async def read(after: str, limit: int) -> list[str]:
        return await service.store.page(
            table_bucket,
            "namespace",
            parent,
            after=after,
            limit=limit,
            is_shown=lambda name: is_shown((*parent, name)),
        )

    return await answers.answer_listing(
        "namespaces",
        read,
        lambda names: [[*parent, name] for name in names],
        call.value.query,
        listing=f"namespaces of {text}",
    )


async def create_namespace(service: Service, call: calls.Call) -> asgi.Response:
    """Create a namespace and answer with what is stored of it."""
    values = wire.parse_object(call.body)
    namespace = wire.get_namespace(values)
    service.check_separable(namespace)
    properties = wire.get_texts(values, "properties")
    table_bucket = service.table_bucket(call)
    demand = service.access.on_namespace(table_bucket, namespace, "CreateNamespace")
    service.access.check(call.principal, (demand,))

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        created = await service.namespaces.create(
            table_bucket,
            namespace,
            properties,
            by=call.principal.arn,
            judge=service.access.rechecking(call.principal, (demand,)),
            receipt=receipt,
        )
        return _answer(created.namespace, created.properties, created.location)

    async def replay(row: records.IdempotencyRow) -> asgi.Response:
        stored = msgspec.json.decode(row.reply)
        return _answer(namespace, stored["properties"], stored["location"])

    return await service.idempotency.run(
        idempotency.key_of(call.request),
        table_bucket=table_bucket,
        principal=idempotency.owner_of(call.principal),
        operation="createNamespace",
        body=call.body,
        work=work,
        replay=replay,
    )


async def load_namespace(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with a namespace and its properties."""
    namespace = service.namespaces.load(service.table_bucket(call), call.value.namespace)
    return _answer(namespace.namespace, namespace.properties, namespace.location)


async def namespace_exists(service: Service, call: calls.Call) -> asgi.Response:
    """Answer whether there is such a namespace."""
    service.namespaces.load(service.table_bucket(call), call.value.namespace)
    return wire.no_content()


async def drop_namespace(service: Service, call: calls.Call) -> asgi.Response:
    """Drop an empty namespace."""
    table_bucket = service.table_bucket(call)
    namespace = call.value.namespace

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await service.namespaces.drop(
            table_bucket,
            namespace,
            by=call.principal.arn,
            judge=_rechecking(service, call),
            receipt=receipt,
        )
        return wire.no_content()

    return await service.idempotency.run(
        idempotency.key_of(call.request),
        table_bucket=table_bucket,
        principal=idempotency.owner_of(call.principal),
        operation=f"dropNamespace {idents.format_namespace(namespace)}",
        body=b"",
        work=work,
        replay=answers.no_content,
    )


async def update_properties(service: Service, call: calls.Call) -> asgi.Response:
    """Set and remove properties of a namespace."""
    values = wire.parse_object(call.body)
    table_bucket = service.table_bucket(call)
    namespace = call.value.namespace
    updates = wire.get_texts(values, "updates")
    removals = (
        json_values.get_texts(values, "removals") if values.get("removals") is not None else []
    )

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        done = await service.namespaces.update(
            table_bucket,
            namespace,
            updates=updates,
            removals=removals,
            by=call.principal.arn,
            judge=_rechecking(service, call),
            receipt=receipt,
        )
        return wire.encode(namespaces.describe_update(done))

    async def replay(row: records.IdempotencyRow) -> asgi.Response:
        return asgi.Response(200, (wire.JSON,), row.reply)

    return await service.idempotency.run(
        idempotency.key_of(call.request),
        table_bucket=table_bucket,
        principal=idempotency.owner_of(call.principal),
        operation=f"updateProperties {idents.format_namespace(namespace)}",
        body=call.body,
        work=work,
        replay=replay,
    )


def _rechecking(service: Service, call: calls.Call) -> owners.Recheck:
    """Return the check that a call still has the rights of its operation's row."""
    return service.access.rechecking(call.principal, call.operation.demands(service, call))


def _answer(
    namespace: idents.Namespace, properties: Mapping[str, str], location: str
) -> asgi.Response:
    return wire.encode(
        {"namespace": list(namespace), "properties": {"location": location, **properties}}
    )
