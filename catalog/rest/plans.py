"""face: scan planning over HTTP: one function per operation.

A plan is complete when it is answered. A large one answers with its first files and with plan
tasks for the rest (`plan_tasks`), so the server keeps no plan and no plan has an id: fetching or
cancelling one by an id finds none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from catalog import errors as catalog_errors
from catalog import expressions, idents, scan_pages, scans
from catalog.commits import LoadedTable
from catalog.metadata import json_values
from catalog.metadata.model import TableMetadata
from catalog.rest import answers, errors, plan_tasks, scan_tasks, wire
from catalog.rest.service import Service
from server import asgi, calls

FILES_MAX: Final = 2_000
"""Files of one answer."""
ENTRIES_MAX: Final = 50_000
"""Entries of manifests that one answer looks at."""
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""An answer ends after the task that exceeds it."""
TASKS_MAX: Final = 64
"""Plan tasks of one answer."""
TASKS_BYTES_MAX: Final = 256 * 1024
"""Plan tasks of one answer, as text."""
FILTERS_SEALED_BYTES_MAX: Final = 1024 * 1024
"""Filters that are compressed for the plan tasks of one answer, unless it has only one."""
NAMES_MAX: Final = 20_000
"""Names in `select` and in `stats-fields`."""
TASKS_ENCODED_AT_ONCE: Final = 50
"""Tasks that are encoded between two turns of the event loop."""
RESIDUAL_BYTES_AT_ONCE: Final = 64 * 1024
"""Bytes of residuals that are made between two turns, if each file has a partition of its own."""
WORK_BYTES_AT_ONCE: Final = 512 * 1024
"""Work of a `TaskEncoder` between two turns: some milliseconds."""
COLUMNS_HERE_MAX: Final = 500
"""Columns whose names are collected on the event loop; of more, in a thread."""


async def plan_table_scan(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the files of a scan, and with plan tasks for those that are too many."""
    ident = service.ident(call)
    values = wire.parse_object(call.body)
    loaded = await _loaded(service, ident)
    table = loaded.metadata
    snapshot_id, after = _snapshots(values, table)
    case_sensitive = True
    if values.get("case-sensitive") is not None:
        case_sensitive = wire.get_flag(values, "case-sensitive")
    schema = scans.schema_of(
        table, snapshot_id if wire.get_flag(values, "use-snapshot-schema") else None
    )
    rows = json_values.find_long(values, "min-rows-requested")
    names = await _names(schema, case_sensitive=case_sensitive)
    _field_ids(values, "select", names)
    stats_fields = _field_ids(values, "stats-fields", names)
    filter_ = _parse_filter(values.get("filter"), names)
    filter_json = expressions.format_filter(filter_)
    if len(filter_json) > plan_tasks.FILTER_BYTES_MAX:
        raise errors.MalformedJson(
            f"Malformed request: filter: longer than {plan_tasks.FILTER_BYTES_MAX} bytes"
        )
    if snapshot_id is None:
        body = b'"file-scan-tasks":[]'
    else:
        task = plan_tasks.PlanTask(
            object_uuid=loaded.pointer.object_uuid,
            snapshot_id=snapshot_id,
            after=after,
            schema_id=schema.get("schema-id", 0),
            filter=filter_json,
            case_sensitive=case_sensitive,
            stats_fields=stats_fields,
            manifest=0,
            entry=0,
            end=-1,
            rows=rows,
        )
        body = await _page(service, call, loaded, task, filter_, schema=schema)
    credentials = _credentials(service, call, loaded)
    return _answer(b'"status":"completed",' + body + credentials)


async def fetch_planning_result(service: Service, call: calls.Call) -> asgi.Response:
    """Refuse a plan's id: no plan has one."""
    raise _no_such_plan(service, call)


async def cancel_planning(service: Service, call: calls.Call) -> asgi.Response:
    """Refuse a plan's id: no plan has one."""
    raise _no_such_plan(service, call)


async def fetch_scan_tasks(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the files of a plan task, and with plan tasks for the rest of it."""
    values = wire.parse_object(call.body)
    text = json_values.get_text(values, "plan-task")
    loaded = await _loaded(service, service.ident(call))
    try:
        task = plan_tasks.unseal(text, key=service.plan_key)
    except plan_tasks.InvalidPlanTask:
        raise errors.NoSuchPlanTask("The plan task is not one of this server") from None
    table = loaded.metadata
    schema = table.schema(task.schema_id)
    if task.object_uuid != loaded.pointer.object_uuid:
        raise errors.NoSuchPlanTask("The plan task belongs to another table")
    if table.snapshot(task.snapshot_id) is None or schema is None:
        raise errors.NoSuchPlanTask(
            f"The snapshot {task.snapshot_id} of the plan task, or its schema, has expired"
        )
    names = await _names(schema, case_sensitive=task.case_sensitive)
    filter_ = _parse_filter(msgspec.json.decode(task.filter), names)
    return _answer(await _page(service, call, loaded, task, filter_, schema=schema))


async def _page(
    service: Service,
    call: calls.Call,
    loaded: LoadedTable,
    task: plan_tasks.PlanTask,
    filter_: expressions.Filter,
    *,
    schema: Mapping[str, Any],
) -> bytes:
    """Return the members of an answer: the first files of a task, and plan tasks for the rest."""
    table = loaded.metadata
    scan = scan_pages.Scan(
        snapshot_id=task.snapshot_id,
        after=task.after,
        filter=filter_,
        schema=schema,
    )
    reader = service.readers.of(call.principal, loaded)
    pages = service.scan_pages
    listing = await pages.list(reader, scan)
    end = len(listing.data) if task.end < 0 else min(task.end, len(listing.data))
    encoder = scan_tasks.TaskEncoder(
        residuals=expressions.Residuals(scan.filter, table.partition_specs, schema),
        partition_specs=table.partition_specs,
        schema=table.current_schema(),
        stats_fields=task.stats_fields,
    )
    position = scan_pages.Position(manifest=task.manifest, entry=task.entry)
    rows_left = task.rows
    entries = 0
    worked_bytes = 0
    ended = False
    steps = pages.read(reader, scan, listing, start=position, end=end)
    at_once = max(1, min(TASKS_ENCODED_AT_ONCE, RESIDUAL_BYTES_AT_ONCE // len(task.filter)))
    async with contextlib.aclosing(steps):
        async for step in steps:
            entries += step.entries
            for number, (file_task, after) in enumerate(step.tasks, 1):
                if number % at_once == 0 or encoder.work_bytes - worked_bytes >= WORK_BYTES_AT_ONCE:
                    worked_bytes = encoder.work_bytes
                    await asyncio.sleep(0)
                _add(encoder, file_task)
                position = after
                if rows_left is not None:
                    rows_left -= _certain_rows(scan, file_task)
                    if rows_left <= 0:
                        return encoder.encode()
                if encoder.tasks >= FILES_MAX or encoder.size_bytes >= ANSWER_BYTES_MAX:
                    ended = True
                    break
            else:
                position = step.after
                ended = entries >= ENTRIES_MAX
            if ended:
                break
    if not ended:
        return encoder.encode()
    rest = _rest(service, task, listing.data, position, end=end, rows=rows_left)
    return b"".join((b'"plan-tasks":', msgspec.json.encode(rest), b",", encoder.encode()))


def _rest(
    service: Service,
    task: plan_tasks.PlanTask,
    data: Sequence[Any],
    position: scan_pages.Position,
    *,
    end: int,
    rows: int | None,
) -> list[str]:
    """Return plan tasks for what follows a position, some of which a client may fetch at once."""
    starts = [position]
    files = 0
    for number in range(position.manifest + 1, end):
        manifest = data[number]
        if manifest is None:
            continue
        if files >= FILES_MAX:
            starts.append(scan_pages.Position(manifest=number))
            files = 0
        files += scan_pages.files_of(manifest)

    def sealed(start: scan_pages.Position, before: int) -> str:
        return plan_tasks.seal(
            msgspec.structs.replace(
                task, manifest=start.manifest, entry=start.entry, end=before, rows=rows
            ),
            key=service.plan_key,
        )

    tasks_max = min(
        TASKS_MAX,
        TASKS_BYTES_MAX // len(sealed(position, end)),
        FILTERS_SEALED_BYTES_MAX // len(task.filter),
    )
    tasks_max = max(1, tasks_max)
    stride = -(-len(starts) // tasks_max)
    starts = starts[::stride]
    ends = [*(start.manifest for start in starts[1:]), end]
    return [sealed(start, before) for start, before in zip(starts, ends, strict=True)]


def _add(encoder: scan_tasks.TaskEncoder, task: scans.FileTask) -> None:
    try:
        encoder.add(task)
    except scan_tasks.TooManyDeletes as error:
        raise catalog_errors.InvalidCatalogRequest(str(error)) from None


def _certain_rows(scan: scan_pages.Scan, task: scans.FileTask) -> int:
    """Return the rows of a file that a client certainly gets: none if some may be filtered."""
    certain = scan.filter.expression is True and not task.deletes
    return task.data_file.record_count if certain else 0


def _snapshots(values: Mapping[str, Any], table: TableMetadata) -> tuple[int | None, int | None]:
    """Return the snapshot that is scanned, and the one after which appends count.

    Raises MalformedJson, NoSuchSnapshot.
    """
    snapshot_id = json_values.find_long(values, "snapshot-id")
    start = json_values.find_long(values, "start-snapshot-id")
    end = json_values.find_long(values, "end-snapshot-id")
    if (start is None) is not (end is None) or (snapshot_id is not None and end is not None):
        raise errors.MalformedJson(
            "Malformed request: a scan has a snapshot-id, or both a start-snapshot-id and an"
            " end-snapshot-id, or none of them"
        )
    if end is not None:
        assert start is not None
        scan_pages.appends_between(table, start, end)
        return end, start
    if snapshot_id is None:
        return table.current_snapshot_id, None
    if table.snapshot(snapshot_id) is None:
        raise catalog_errors.NoSuchSnapshot(f"Snapshot does not exist: {snapshot_id}")
    return snapshot_id, None


def _field_ids(
    values: Mapping[str, Any], member: str, names: expressions.ColumnNames
) -> tuple[int, ...]:
    """Return the ids of columns that a request names. Raises MalformedJson, BadUpdate."""
    if values.get(member) is None:
        return ()
    listed = json_values.get_texts(values, member)
    if len(listed) > NAMES_MAX:
        raise errors.MalformedJson(f"Malformed request: {member} has more than {NAMES_MAX} names")
    try:
        columns = [names.find(name) for name in listed]
    except expressions.InvalidFilter as error:
        raise errors.MalformedJson(f"Malformed request: {member}: {error}") from None
    return tuple(dict.fromkeys(column.field_id for column in columns if column is not None))


async def _names(schema: Mapping[str, Any], *, case_sensitive: bool) -> expressions.ColumnNames:
    """Return the names of a schema's columns."""
    if len(schema["fields"]) <= COLUMNS_HERE_MAX:
        return expressions.ColumnNames(schema, case_sensitive=case_sensitive)
    return await asyncio.to_thread(expressions.ColumnNames, schema, case_sensitive=case_sensitive)


def _parse_filter(value: Any, names: expressions.ColumnNames) -> expressions.Filter:
    try:
        return expressions.parse(value, names)
    except expressions.InvalidFilter as error:
        raise errors.MalformedJson(f"Malformed request: filter: {error}") from None


async def _loaded(service: Service, ident: idents.TableIdent) -> LoadedTable:
    loaded = service.tables.begin_fetch(ident)
    return loaded if isinstance(loaded, LoadedTable) else await loaded


def _credentials(service: Service, call: calls.Call, loaded: LoadedTable) -> bytes:
    """Return the member with keys for the table's files, as for loadTable; empty without any."""
    if answers.wants_signing(call):
        return b""
    grant = service.credentials.grant(call.caller, loaded.ident, loaded.pointer)
    if grant is None:
        return b""
    credential = answers.vend(service, call, loaded.ident, grant).credential
    return b',"storage-credentials":' + msgspec.json.encode([credential])


def _answer(members: bytes) -> asgi.Response:
    headers = (wire.JSON, wire.VARY, ("cache-control", "no-store"))
    return asgi.Response(200, headers, b"{" + members + b"}")


def _no_such_plan(service: Service, call: calls.Call) -> Exception:
    service.tables.pointer(service.ident(call))
    plan_id = call.value.plan_id[:200]
    return errors.NoSuchPlanId(f"Plan does not exist: {plan_id}; every plan is answered at once")
