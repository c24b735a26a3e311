"""face: tables over HTTP: one function per operation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from catalog import commits, delete_specs, idents, loads, properties, receipts, records, rights
from catalog import errors as catalog_errors
from catalog.commits import LoadedTable, TableChange
from catalog.metadata import filenames, json_values
from catalog.rest import answers, errors, wire
from catalog.rest.idempotency import Replay
from catalog.rest.service import Service
from server import asgi, calls
from server.access import model

CHECKS_AT_ONCE: Final = 32
"""Tables or files that are checked between two turns of the event loop: some milliseconds."""


async def create_table(service: Service, call: calls.Call) -> asgi.Response:
    """Create a table, or stage its creation."""
    values = wire.parse_object(call.body)
    ident = service.new_ident(call, values)
    schema = json_values.get_object(values, "schema")
    location = json_values.find_text(values, "location")
    properties = wire.get_texts(values, "properties")
    stage = wire.get_flag(values, "stage-create")
    on_new_table = service.access.on_new_table(ident)
    # Checked before anything is looked up, so that what is absent looks like what is hidden.
    service.access.check(call.principal, on_new_table)
    adopts = service.tables.awaits_metadata(ident)
    if adopts:
        service.access.check(call.principal, service.access.on_table(ident, rights.COMMIT_ACTIONS))

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
            by=call.principal.arn,
            permit=service.access.permit(call.principal, ident.table_bucket),
            judge=service.judge(call, *rights.COMMIT_ACTIONS, allowed={ident: on_new_table}),
            receipt=receipt,
        )
        return answers.answer_table(service, call, loaded)

    return await service.once(call, work, _replay_table(service, call, ident))


async def register_table(service: Service, call: calls.Call) -> asgi.Response:
    """Create a table from a metadata file."""
    values = wire.parse_object(call.body)
    ident = service.new_ident(call, values)
    metadata_location = json_values.get_text(values, "metadata-location")
    overwrite = wire.get_flag(values, "overwrite")
    on_name = service.access.on_new_table(ident)[:1]
    allowed = {ident: on_name}
    # Checked before anything is looked up, so that what is absent looks like what is hidden.
    service.access.check(call.principal, on_name)
    demands = list(service.access.on_file(call.principal, metadata_location))
    if overwrite and service.tables.exists(ident):
        demands.extend(service.access.on_table(ident, rights.COMMIT_ACTIONS))
    service.access.check(call.principal, demands)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.tables.register(
            ident,
            metadata_location,
            overwrite=overwrite,
            by=call.principal.arn,
            permit=service.access.permit(call.principal, ident.table_bucket),
            judge=service.judge(call, *rights.COMMIT_ACTIONS, allowed=allowed, only_names=True),
            judge_drop=service.judge(call, *rights.DROP_ACTIONS),
            check_file=service.access.file_check(call.principal, ident),
            receipt=receipt,
        )
        return answers.answer_table(service, call, loaded)

    return await service.once(call, work, _replay_table(service, call, ident))


def load_table(service: Service, call: calls.Call) -> asgi.Response | Awaitable[asgi.Response]:
    """Answer with a table's metadata, or with 304 if the client has it."""
    snapshots = call.value.query.get("snapshots", "all")
    if snapshots not in ("all", "refs", ""):
        raise errors.MalformedJson(f"Invalid snapshots: {snapshots} is neither all nor refs")
    refs_only = snapshots == "refs"
    loaded = service.tables.begin_fetch(service.ident(call))
    if isinstance(loaded, LoadedTable) and not refs_only:
        return answers.answer_table(service, call, loaded)
    return _load_patiently(service, call, loaded, refs_only=refs_only)


async def _load_patiently(
    service: Service,
    call: calls.Call,
    loading: LoadedTable | Awaitable[LoadedTable],
    *,
    refs_only: bool,
) -> asgi.Response:
    """Answer with a table that is read from disk, or of which a part is to be encoded."""
    loaded = loading if isinstance(loading, LoadedTable) else await loading
    if refs_only and loaded.metadata_location is not None:
        await service.store.prepare_refs_only(loaded.metadata_location, loaded.metadata)
    return answers.answer_table(service, call, loaded, refs_only=refs_only)


async def commit_table(service: Service, call: calls.Call) -> asgi.Response:
    """Commit to one table."""
    values = wire.parse_object(call.body)
    ident = service.ident(call)
    wire.check_ident(values, ident)
    change = _change(values, ident, text_bytes=len(call.body))
    allowed = await _check_commit(service, call, [change])

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await _check_deletes(service, call, change)
        (loaded,) = await service.tables.commit_many(
            [change],
            by=call.principal.arn,
            permit=service.access.permit(call.principal, ident.table_bucket),
            judge=service.judge(call, *rights.COMMIT_ACTIONS, allowed=allowed),
            receipt=receipt,
        )
        return answers.answer_commit(call, loaded)

    async def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_commit(call, await answers.remembered(service, ident, row))

    return await service.once(call, work, replay)


async def commit_transaction(service: Service, call: calls.Call) -> asgi.Response:
    """Commit to several tables, all or none."""
    values = wire.parse_object(call.body)
    table_bucket = service.table_bucket(call)
    changes = []
    listed = json_values.get_list(values, "table-changes")
    if len(listed) > commits.CHANGES_MAX:
        raise errors.MalformedJson(
            f"Malformed request: a commit has at most {commits.CHANGES_MAX} table changes"
        )
    for position, value in enumerate(listed):
        item = json_values.check_object(value, what="table change")
        if item.get("identifier") is None:
            raise errors.MalformedJson(
                f"Malformed request: table change {position} has no identifier"
            )
        ident = wire.get_ident(item, "identifier", table_bucket=table_bucket)
        changes.append(_change(item, ident))
    allowed = await _check_commit(service, call, changes)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        for change in changes:
            await _check_deletes(service, call, change)
        if changes:
            await service.tables.commit_many(
                changes,
                by=call.principal.arn,
                permit=service.access.permit(call.principal, table_bucket),
                judge=service.judge(call, *rights.COMMIT_ACTIONS, allowed=allowed),
                receipt=receipt,
            )
        return wire.no_content()

    return await service.once(call, work, answers.no_content)


async def drop_table(service: Service, call: calls.Call) -> asgi.Response:
    """Drop a table. With purgeRequested the next sweep frees its files."""
    ident = service.ident(call)
    purge = asks_purge(call)
    actions = rights.PURGE_ACTIONS if purge else rights.DROP_ACTIONS

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        await service.tables.drop(
            ident,
            # Engines send false for a plain DROP, so that the bucket's setting may decide.
            purge=purge or None,
            by=call.principal.arn,
            judge=service.judge(call, *actions),
            receipt=receipt,
        )
        return wire.no_content()

    return await service.once(call, work, answers.no_content)


def asks_purge(call: calls.Call) -> bool:
    """Return whether a dropTable asks for the files to be freed."""
    return str(call.value.query.get("purgeRequested", "false")).lower() == "true"


async def table_exists(service: Service, call: calls.Call) -> asgi.Response:
    """Answer whether the table exists and has metadata."""
    ident = service.ident(call)
    if service.tables.pointer(ident).metadata_location is None:
        raise catalog_errors.TableWithoutMetadata(f"Table does not have metadata: {ident.dotted()}")
    return wire.no_content()


async def unregister_table(service: Service, call: calls.Call) -> asgi.Response:
    """Remove a table, keep its files, and answer with the table."""
    ident = service.ident(call)

    async def work(receipt: receipts.Receipt | None) -> asgi.Response:
        loaded = await service.tables.unregister(
            ident,
            by=call.principal.arn,
            judge=service.judge(call, "DeleteTable"),
            receipt=receipt,
        )
        return answers.answer_unregistered(loaded)

    async def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_unregistered(await answers.remembered(service, ident, row))

    return await service.once(call, work, replay)


async def load_credentials(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with fresh keys for a table's files."""
    ident = service.ident(call)
    pointer = service.tables.pointer(ident)
    grant = service.credentials.grant(call.caller, ident, pointer)
    if grant is None:
        return wire.encode({"storage-credentials": []})
    return wire.encode(
        {"storage-credentials": [answers.vend(service, call, ident, grant).credential]},
        ("cache-control", "no-store"),
    )


async def report_metrics(service: Service, call: calls.Call) -> asgi.Response:
    """Store a client's report about a scan or a commit."""
    values = wire.parse_object(call.body)
    report_type = json_values.get_text(values, "report-type")
    if report_type not in ("scan-report", "commit-report"):
        raise errors.MalformedJson(f"Malformed request: unknown report-type {report_type[:100]}")
    await service.tables.report_metrics(service.ident(call), call.body, by=call.principal.arn)
    return wire.no_content()


def _change(
    values: Mapping[str, Any], ident: idents.TableIdent, *, text_bytes: int | None = None
) -> TableChange:
    return TableChange(
        ident=ident,
        requirements=json_values.get_list(values, "requirements"),
        updates=json_values.get_list(values, "updates"),
        text_bytes=text_bytes,
    )


async def _check_commit(
    service: Service, call: calls.Call, changes: Sequence[TableChange]
) -> Mapping[idents.TableIdent, tuple[model.Demand, ...]]:
    """Check the rights for a commit: on its tables, and on the lists of sources that it names.

    Return the demands of its tables.
    """
    principal = call.principal
    creates: dict[idents.TableIdent, bool] = {}
    for change in changes:
        creates_table = commits.creates(change.requirements)
        creates[change.ident] = creates.get(change.ident, False) or creates_table
    allowed: dict[idents.TableIdent, tuple[model.Demand, ...]] = {}
    pointers: dict[idents.TableIdent, records.Pointer | None] = {}
    for number, (ident, making) in enumerate(creates.items(), 1):
        if number % CHECKS_AT_ONCE == 0:
            await asyncio.sleep(0)
        allowed[ident], pointers[ident] = service.access.on_commit(ident, creates=making)
        service.access.check(principal, allowed[ident])
    for number, change in enumerate(changes, 1):
        if number % CHECKS_AT_ONCE == 0:
            await asyncio.sleep(0)
        for uri in dict.fromkeys(loads.objects_named(change.updates)):
            service.access.check(principal, service.access.on_file(principal, uri))
            await asyncio.sleep(0)
        await _check_files(service, call, change, pointers[change.ident])
    return allowed


async def _check_files(
    service: Service, call: calls.Call, change: TableChange, pointer: records.Pointer | None
) -> None:
    """Raise ForeignFileRefused for files of other tables that the writer may not read.

    Readers are checked again when they read. The engine refuses a location of another table.
    """
    requested = commits.requested_location(change.updates)
    # A location in another bucket may be overridden, so files there are not the table's own.
    prefix = f"s3://{change.ident.table_bucket}/"
    if requested is not None and not properties.plain_uri(requested).startswith(prefix):
        requested = None
    homes = (requested, None if pointer is None else pointer.location)
    own = [properties.plain_uri(home) for home in homes if home]
    checked = 0
    for uri in filenames.named_by(change.updates):
        if not any(properties.is_below(uri, home) for home in own):
            service.access.check_file(call.principal, uri, table=change.ident)
            checked += 1
            if checked % CHECKS_AT_ONCE == 0:
                await asyncio.sleep(0)


async def _check_deletes(service: Service, call: calls.Call, change: TableChange) -> None:
    """Raise MisplacedDeletes for new delete files that no reader would apply.

    Most commits are known from their updates to have none.
    """
    snapshots = delete_specs.snapshots_to_check(change.updates)
    if not snapshots:
        return
    try:
        loaded = await service.tables.fetch(change.ident)
    except catalog_errors.NoSuchTable:
        return  # a new table, or an error that the commit raises
    if len(loaded.metadata.partition_specs) > 1:
        await delete_specs.check(
            service.scans, service.readers.of(call.principal, loaded), snapshots
        )


def _replay_table(service: Service, call: calls.Call, ident: idents.TableIdent) -> Replay:
    async def replay(row: records.IdempotencyRow) -> asgi.Response:
        return answers.answer_table(service, call, await answers.remembered(service, ident, row))

    return replay
