"""face: names of tables and views over HTTP: a page of a namespace's names, and renaming."""

from __future__ import annotations

from catalog import idents, receipts, records
from catalog.rest import answers, errors, pages, wire
from catalog.rest.service import Service
from server import asgi, calls


async def list_tables(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the tables of a namespace."""
    return await _list(service, call, "table")


async def list_views(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the views of a namespace."""
    return await _list(service, call, "view")


async def list_functions(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the functions of a namespace: the catalog stores none."""
    namespace, query = call.value.namespace, call.value.query
    service.namespaces.load(service.table_bucket(call), namespace)
    pages.span(query, listing=f"functions of {idents.format_namespace(namespace)}")
    return wire.encode_listing("identifiers", [], None)


async def load_function(service: Service, call: calls.Call) -> asgi.Response:
    """Answer that there is no such function."""
    named = idents.dotted((*call.value.namespace, call.value.name))
    raise errors.NoSuchFunction(f"Function does not exist: {named[:1000]}")


async def rename_table(service: Service, call: calls.Call) -> asgi.Response:
    """Give a table another name."""
    return await _rename(service, call, "table")


async def rename_view(service: Service, call: calls.Call) -> asgi.Response:
    """Give a view another name."""
    return await _rename(service, call, "view")


async def _list(
    service: Service, call: calls.Call, object_type: idents.PointerType
) -> asgi.Response:
    namespace, query = call.value.namespace, call.value.query
    listing = f"{object_type}s of {idents.format_namespace(namespace)}"
    table_bucket = service.table_bucket(call)

    async def read(after: str, limit: int) -> list[str]:
        return await service.store.page(
            table_bucket, object_type, namespace, after=after, limit=limit
        )

    return await answers.answer_listing(
        "identifiers",
        read,
        lambda names: wire.format_idents([(namespace, name) for name in names]),
        query,
        listing=listing,
    )


async def _rename(
    service: Service, call: calls.Call, object_type: idents.PointerType
) -> asgi.Response:
    values = wire.parse_object(call.body)
    table_bucket = service.table_bucket(call)
    source = wire.get_ident(values, "source", table_bucket=table_bucket)
    target = wire.get_ident(values, "destination", table_bucket=table_bucket)
    naming = service.access.on_new_table(target)[:1]
    service.access.check(
        call.principal,
        (*service.access.on_table(source, ("RenameTable",), object_type=object_type), *naming),
    )
    judge_source = service.judge(call, "RenameTable")

    def judge(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        judge_source(place, ident, pointer)
        service.access.recheck(call.principal, naming)

    rename = service.tables.rename if object_type == "table" else service.views.rename

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await rename(
            source,
            target,
            by=call.principal.arn,
            judge=judge,
            receipt=receipt,
        )
        return wire.no_content()

    return await service.once(call, work, answers.no_content)
