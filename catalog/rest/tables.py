"""face: tables over HTTP: one function per operation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from catalog import commits, idents, loads, properties, receipts, records
from catalog import errors as catalog_errors
from catalog.commits import TableChange
from catalog.metadata import filenames, reading
from catalog.rest import access, answers, errors, pages, wire
from catalog.rest.idempotency import Replay, Work
from catalog.rest.service import Asked, Service
from server import asgi

CHECKS_AT_ONCE: Final = 32
"""Tables or files that are judged before other requests get their turn: some milliseconds."""


async def list_tables(service: Service, asked: Asked) -> asgi.Response:
    """Answer with the tables of a namespace."""
    namespace = asked.operation.namespace
    parameters = asked.operation.parameters
    listing = f"tables of {idents.format_namespace(namespace)}"
    after, limit = pages.span(parameters, listing=listing)
    names = await service.store.page(
        service.table_bucket(asked.operation), "table", namespace, after=after, limit=limit
    )
    page, token = pages.cut(names, parameters, listing=listing)
    return await answers.answer_listing(
        "identifiers", [(namespace, name) for name in page], wire.format_idents, token
    )


async def create_table(service: Service, asked: Asked) -> asgi.Response:
    """Create a table, or stage its creation."""
    values = asked.values
    ident = _new_ident(service, asked)
    schema = reading.get_object(values, "schema")
    location = reading.find_text(values, "location")
    properties = wire.get_texts(values, "properties")
    stage = wire.get_flag(values, "stage-create")
    demands = list(service.access.on_new_table(ident))
    adopts = service.tables.awaits_metadata(ident)
    if adopts:
        demands.extend(service.access.on_table(ident, access.COMMIT_ACTIONS))
    service.access.check(asked.caller.principal, demands)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.tables.create(
            ident,
            schema=schema,
            partition_spec=values.get("partition-spec"),
            sort_order=values.get("write-order"),
            location=location,
            properties=properties,
            stage=stage,
            adopts=adopts,
            by=asked.by,
            permit=service.permit(asked),
            receipt=receipt,
        )
        return answers.answer_table(service, asked, loaded)

    return await _once(service, asked, work, _replay_table(service, asked, ident))


async def register_table(service: Service, asked: Asked) -> asgi.Response:
    """Make a table of a metadata file."""
    ident = _new_ident(service, asked)
    metadata_location = reading.get_text(asked.values, "metadata-location")
    overwrite = wire.get_flag(asked.values, "overwrite")
    demands = [service.access.on_new_table(ident)[0]]
    demands.extend(service.access.on_file(metadata_location))
    if overwrite and service.tables.exists(ident):
        demands.extend(service.access.on_table(ident, access.COMMIT_ACTIONS))
    service.access.check(asked.caller.principal, demands)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.tables.register(
            ident,
            metadata_location,
            overwrite=overwrite,
            by=asked.by,
            permit=service.permit(asked),
            receipt=receipt,
        )
        return answers.answer_table(service, asked, loaded)

    return await _once(service, asked, work, _replay_table(service, asked, ident))


async def load_table(service: Service, asked: Asked) -> asgi.Response:
    """Answer with a table's metadata, or that the client's is still right."""
    snapshots = asked.operation.parameters.get("snapshots", "all")
    if snapshots not in ("all", "refs", ""):
        raise errors.MalformedBody(f"Invalid snapshots: {snapshots} is neither all nor refs")
    loaded = await service.tables.fetch(service.ident(asked.operation))
    refs_only = snapshots == "refs"
    if refs_only and loaded.metadata_location is not None:
        await service.store.prepare_refs_only(loaded.metadata_location, loaded.metadata)
    return answers.answer_table(service, asked, loaded, refs_only=refs_only)


async def commit_table(service: Service, asked: Asked) -> asgi.Response:
    """Commit to one table."""
    ident = service.ident(asked.operation)
    given = asked.values.get("identifier")
    if given is not None:
        named = wire.get_ident(asked.values, "identifier", table_bucket=ident.table_bucket)
        if named != ident:
            raise errors.MalformedBody(
                f"Malformed request: the body is about {named.dotted()}, the path about"
                f" {ident.dotted()}"
            )
    change = _change(asked.values, ident)
    await _check_commit(service, asked, [change])

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.tables.commit(
            ident,
            change.requirements,
            change.updates,
            by=asked.by,
            permit=service.permit(asked),
            receipt=receipt,
        )
        return answers.answer_commit(asked, loaded)

    def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_commit(asked, answers.remembered(service, ident, row))

    return await _once(service, asked, work, replay)


async def commit_transaction(service: Service, asked: Asked) -> asgi.Response:
    """Commit to several tables, all or none."""
    table_bucket = service.table_bucket(asked.operation)
    changes = []
    listed = reading.get_list(asked.values, "table-changes")
    if len(listed) > commits.CHANGES_MAX:
        raise errors.MalformedBody(
            f"Malformed request: a commit has at most {commits.CHANGES_MAX} table changes"
        )
    for position, value in enumerate(listed):
        given = reading.check_object(value, what="table change")
        if given.get("identifier") is None:
            raise errors.MalformedBody(
                f"Malformed request: table change {position} has no identifier"
            )
        ident = wire.get_ident(given, "identifier", table_bucket=table_bucket)
        changes.append(_change(given, ident))
    await _check_commit(service, asked, changes)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        if changes:
            await service.tables.commit_many(
                changes, by=asked.by, permit=service.permit(asked), receipt=receipt
            )
        return wire.no_content()

    return await _once(service, asked, work, lambda _: wire.no_content())


async def drop_table(service: Service, asked: Asked) -> asgi.Response:
    """Drop a table. With purgeRequested its files go with the next sweep."""
    ident = service.ident(asked.operation)
    purge = asked.operation.parameters.get("purgeRequested", "false").lower() == "true"

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await service.tables.drop(ident, purge=purge, by=asked.by, receipt=receipt)
        return wire.no_content()

    return await _once(service, asked, work, lambda _: wire.no_content())


async def table_exists(service: Service, asked: Asked) -> asgi.Response:
    """Answer whether there is such a table: one that could be loaded."""
    ident = service.ident(asked.operation)
    if service.tables.pointer(ident).metadata_location is None:
        raise catalog_errors.TableWithoutMetadata(f"Table does not have metadata: {ident.dotted()}")
    return wire.no_content()


async def unregister_table(service: Service, asked: Asked) -> asgi.Response:
    """Forget a table, keep its files, and answer with what it was."""
    ident = service.ident(asked.operation)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.tables.unregister(ident, by=asked.by, receipt=receipt)
        return answers.answer_unregistered(loaded)

    def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_unregistered(answers.remembered(service, ident, row))

    return await _once(service, asked, work, replay)


async def rename_table(service: Service, asked: Asked) -> asgi.Response:
    """Give a table another name."""
    table_bucket = service.table_bucket(asked.operation)
    source = wire.get_ident(asked.values, "source", table_bucket=table_bucket)
    target = wire.get_ident(asked.values, "destination", table_bucket=table_bucket)
    service.access.check(
        asked.caller.principal,
        (
            *service.access.on_table(source, ("RenameTable",)),
            service.access.on_new_table(target)[0],
        ),
    )

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await service.tables.rename(source, target, by=asked.by, receipt=receipt)
        return wire.no_content()

    return await _once(service, asked, work, lambda _: wire.no_content())


async def load_credentials(service: Service, asked: Asked) -> asgi.Response:
    """Answer with fresh keys for a table's files."""
    ident = service.ident(asked.operation)
    pointer = service.tables.pointer(ident)
    grant = service.credentials.grant(asked.caller, ident, pointer)
    if grant is None:
        return wire.encode({"storage-credentials": []})
    return wire.encode(
        {"storage-credentials": [answers.vend(service, asked, ident, grant).credential]},
        ("cache-control", "no-store"),
    )


async def report_metrics(service: Service, asked: Asked) -> asgi.Response:
    """Keep a client's report about a scan or a commit."""
    report_type = reading.get_text(asked.values, "report-type")
    if report_type not in ("scan-report", "commit-report"):
        raise errors.MalformedBody(f"Malformed request: unknown report-type {report_type[:100]}")
    await service.tables.report_metrics(service.ident(asked.operation), asked.body, by=asked.by)
    return wire.no_content()


def _new_ident(service: Service, asked: Asked) -> idents.TableIdent:
    return idents.TableIdent(
        table_bucket=service.table_bucket(asked.operation),
        namespace=asked.operation.namespace,
        name=reading.get_text(asked.values, "name"),
    )


def _change(values: Mapping[str, Any], ident: idents.TableIdent) -> TableChange:
    return TableChange(
        ident=ident,
        requirements=reading.get_list(values, "requirements"),
        updates=reading.get_list(values, "updates"),
    )


async def _check_commit(service: Service, asked: Asked, changes: Sequence[TableChange]) -> None:
    """Check everything that a commit asks for: of its tables, and of the lists it has us read."""
    principal = asked.caller.principal
    creates: dict[idents.TableIdent, bool] = {}
    for change in changes:
        made = commits.creates(change.requirements)
        creates[change.ident] = creates.get(change.ident, False) or made
    pointers: dict[idents.TableIdent, records.Pointer | None] = {}
    for number, (ident, making) in enumerate(creates.items(), 1):
        if number % CHECKS_AT_ONCE == 0:
            await asyncio.sleep(0)
        demands, pointers[ident] = service.access.on_commit(ident, creates=making)
        service.access.check(principal, demands)
    for number, change in enumerate(changes, 1):
        if number % CHECKS_AT_ONCE == 0:
            await asyncio.sleep(0)
        for uri in dict.fromkeys(loads.objects_named(change.updates)):
            service.access.check(principal, service.access.on_file(uri))
            await asyncio.sleep(0)
        await _check_files(service, asked, change, pointers[change.ident])


async def _check_files(
    service: Service, asked: Asked, change: TableChange, pointer: records.Pointer | None
) -> None:
    """Raise ForeignFileRefused for files of other tables that the writer may not read.

    Readers are asked again, each for itself. The engine refuses a location that is another's.
    """
    homes = (commits.location_asked(change.updates), None if pointer is None else pointer.location)
    own = tuple(f"{properties.plain_uri(home)}/" for home in homes if home)
    checked = 0
    for uri in dict.fromkeys(filenames.named_by(change.updates)):
        if not properties.plain_uri(uri).startswith(own):
            service.access.check_file(asked.caller.principal, uri, table=change.ident)
            checked += 1
            if checked % CHECKS_AT_ONCE == 0:
                await asyncio.sleep(0)


def _replay_table(service: Service, asked: Asked, ident: idents.TableIdent) -> Replay:
    def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_table(service, asked, answers.remembered(service, ident, row))

    return replay


async def _once(service: Service, asked: Asked, work: Work, replay: Replay) -> asgi.Response:
    operation = asked.operation
    return await service.idempotency.run(
        asked.idempotency_key,
        table_bucket=service.table_bucket(operation),
        principal=asked.by,
        operation=" ".join(
            (
                operation.operation,
                idents.format_namespace(operation.namespace),
                operation.name,
                operation.parameters.get("purgeRequested", ""),
            )
        ),
        body=asked.body,
        work=work,
        replay=replay,
    )
