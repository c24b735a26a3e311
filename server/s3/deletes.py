"""face: DeleteObjects, up to a thousand keys at once, each with an answer of its own.

Every key is authorised and ruled as in a single DELETE. Those that are simply removed go some at a
time in one index transaction, which expects what their rulings were made of; if that has changed,
each of them is deleted by itself. An anonymous caller is refused: the keys stand in the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

from server import asgi, calls
from server.access import errors as access_errors
from server.s3 import (
    demands,
    documents,
    engines,
    errors,
    incoming,
    objects,
    operations,
    wire,
    wire_errors,
)
from storage import errors as storage_errors
from storage import model

KEYS_AT_ONCE: Final = 32
"""Keys that are judged, or begun to be deleted, before others get their turn."""

_Fault: TypeAlias = tuple[int, Exception]


async def delete_objects(services: engines.Services, call: calls.Call) -> asgi.Response:
    operation: operations.DeleteObjects = call.value
    if call.principal.kind == "anonymous":
        raise errors.AccessDenied("Access Denied")
    bucket = operation.bucket
    integrity = operation.integrity
    if integrity.content_md5 is None and integrity.checksum is None and integrity.trailer is None:
        raise errors.InvalidRequest(
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"
        )
    data = await incoming.read_document(call.request, call.caller, integrity=integrity)
    deletes = await incoming.parsed(documents.parse_deletes, data)
    engines.bucket_of(engines.ruling(call, bucket, ""), bucket)
    failed: dict[int, Exception] = {}
    together: list[int] = []
    alone: list[int] = []
    for number, target in enumerate(deletes.targets):
        try:
            (together if _is_plain(services, bucket, target, call) else alone).append(number)
        except Exception as error:  # noqa: BLE001 - each key has its own answer
            failed[number] = _known(error)
        if number % KEYS_AT_ONCE == KEYS_AT_ONCE - 1:
            await asyncio.sleep(0)
    for start in range(0, len(alone), KEYS_AT_ONCE):
        step = alone[start : start + KEYS_AT_ONCE]
        faults = await _delete_each(services, bucket, deletes.targets, step, call)
        failed.update((number, _known(fault)) for number, fault in faults)
    steps = []
    async with asyncio.TaskGroup() as group:
        for start in range(0, len(together), KEYS_AT_ONCE):
            step = together[start : start + KEYS_AT_ONCE]
            removal = _remove(services, bucket, deletes.targets, step, call)
            steps.append(group.create_task(removal))
            await asyncio.sleep(0)
    for task in steps:
        failed.update((number, _known(fault)) for number, fault in task.result())
    rows = []
    for number, target in enumerate(deletes.targets):
        answer = None
        if number in failed:
            row, message = wire_errors.find(failed[number])
            answer = row.code, message
        rows.append(wire.Deletion(key=target.key, version_id=target.version_id, error=answer))
    return asgi.Response(200, wire.XML_HEADERS, wire.delete_result(rows, quiet=deletes.quiet))


def _is_plain(
    services: engines.Services, bucket: str, target: documents.Target, call: calls.Call
) -> bool:
    """Authorise one key; say whether it can go with others. Raises AccessDenied."""
    demand = demands.key(call.context, bucket, target.key, "s3:DeleteObject", "write")
    services.authoriser.check(call.principal, demand)
    if target.version_id not in (None, model.NULL_VERSION):
        raise errors.InvalidArgument("Invalid version id specified")
    return target.etag is None and engines.ruling(call, bucket, target.key).on_delete == "remove"


async def _remove(
    services: engines.Services,
    bucket: str,
    targets: Sequence[documents.Target],
    numbers: Sequence[int],
    call: calls.Call,
) -> list[_Fault]:
    """Remove keys in one transaction; each by itself if a table was made around one meanwhile."""
    rulings = [engines.ruling(call, bucket, targets[number].key) for number in numbers]
    expects = tuple(dict.fromkeys(expect for ruling in rulings for expect in ruling.expects))
    try:
        outcome = await services.objects.delete_many(
            engines.bucket_of(rulings[0], bucket),
            [targets[number].key for number in numbers],
            expects=expects,
        )
    except storage_errors.ExpectationFailed:
        return await _delete_each(services, bucket, targets, numbers, call)
    except Exception as error:  # noqa: BLE001 - `_known` tells whose fault it is
        return [(number, error) for number in numbers]
    return [
        (number, fault)
        for number, (_, fault) in zip(numbers, outcome, strict=True)
        if fault is not None
    ]


async def _delete_each(
    services: engines.Services,
    bucket: str,
    targets: Sequence[documents.Target],
    numbers: Sequence[int],
    call: calls.Call,
) -> list[_Fault]:
    outcomes = await asyncio.gather(
        *(_delete(services, bucket, targets[number], call) for number in numbers),
        return_exceptions=True,
    )
    return [
        (number, done)
        for number, done in zip(numbers, outcomes, strict=True)
        if isinstance(done, Exception)
    ]


async def _delete(
    services: engines.Services, bucket: str, target: documents.Target, call: calls.Call
) -> None:
    precondition = (
        model.ALWAYS if target.etag is None else model.Precondition(if_match=(target.etag,))
    )
    await objects.delete(services, bucket, target.key, precondition, call)


def _known(error: Exception) -> Exception:
    """Return an error that a row of the answer may name; a fault of ours fails the request."""
    if isinstance(error, access_errors.AccessDenied):
        return error
    row, _ = wire_errors.find(error)
    if row.status >= 500:
        raise error
    return error
