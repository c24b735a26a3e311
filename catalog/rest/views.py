"""face: views over HTTP: one function per operation.

Rights on a view are those on a table: a view has the ARN of a table with its uuid.
"""

from __future__ import annotations

from catalog import idents, receipts, records, rights
from catalog.metadata import json_values
from catalog.rest import answers, idempotency, wire
from catalog.rest.service import Service
from server import asgi, calls


async def create_view(service: Service, call: calls.Call) -> asgi.Response:
    """Create a view."""
    values = wire.parse_object(call.body)
    ident = service.new_ident(call, values)
    schema = json_values.get_object(values, "schema")
    view_version = json_values.get_object(values, "view-version")
    location = json_values.find_text(values, "location")
    properties = wire.get_texts(values, "properties")
    on_new_view = service.access.on_new_table(ident)
    service.access.check(call.principal, on_new_view)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.views.create(
            ident,
            schema=schema,
            view_version=view_version,
            location=location,
            properties=properties,
            by=call.principal.arn,
            permit=service.access.permit(call.principal, ident.table_bucket),
            judge=service.judge(call, allowed={ident: on_new_view}),
            receipt=receipt,
        )
        return answers.answer_view(loaded)

    return await service.once(call, work, _replay(service, ident))


async def register_view(service: Service, call: calls.Call) -> asgi.Response:
    """Make a view of a metadata file."""
    values = wire.parse_object(call.body)
    ident = service.new_ident(call, values)
    metadata_location = json_values.get_text(values, "metadata-location")
    on_name = service.access.on_new_table(ident)[:1]
    allowed = {ident: on_name}
    on_file = service.access.on_file(call.principal, metadata_location)
    service.access.check(call.principal, (*on_name, *on_file))

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.views.register(
            ident,
            metadata_location,
            by=call.principal.arn,
            permit=service.access.permit(call.principal, ident.table_bucket),
            judge=service.judge(call, allowed=allowed, only_names=True),
            receipt=receipt,
        )
        return answers.answer_view(loaded)

    return await service.once(call, work, _replay(service, ident))


async def load_view(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with a view's metadata."""
    return answers.answer_view(await service.views.fetch(service.ident(call)))


async def replace_view(service: Service, call: calls.Call) -> asgi.Response:
    """Apply updates to a view."""
    values = wire.parse_object(call.body)
    ident = service.ident(call)
    wire.check_ident(values, ident)
    requirements = []
    if values.get("requirements") is not None:
        requirements = json_values.get_list(values, "requirements")
    updates = json_values.get_list(values, "updates")

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.views.replace(
            ident,
            requirements,
            updates,
            by=call.principal.arn,
            permit=service.access.permit(call.principal, ident.table_bucket),
            judge=service.judge(call, *rights.COMMIT_ACTIONS),
            receipt=receipt,
        )
        return answers.answer_view(loaded)

    return await service.once(call, work, _replay(service, ident))


async def drop_view(service: Service, call: calls.Call) -> asgi.Response:
    """Drop a view."""
    ident = service.ident(call)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await service.views.drop(
            ident,
            by=call.principal.arn,
            judge=service.judge(call, *rights.DROP_ACTIONS),
            receipt=receipt,
        )
        return wire.no_content()

    return await service.once(call, work, answers.no_content)


async def view_exists(service: Service, call: calls.Call) -> asgi.Response:
    """Answer whether there is such a view."""
    service.views.pointer(service.ident(call))
    return wire.no_content()


def _replay(service: Service, ident: idents.TableIdent) -> idempotency.Replay:
    async def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_view(await answers.remembered_view(service, ident, row))

    return replay
