"""face: DeleteObjects: up to a thousand keys in one request, with one result for each key.

The access decision and the Ruling of each key are those of a single DELETE. Keys that are removed
outright share index transactions, some keys in each; the transactions that run at once release a
bounded number of segments. A transaction expects the rows that the Rulings depend on; if a row has
changed, its keys are deleted one by one. An anonymous caller is refused: the keys are in the body,
which is read only for an identified caller.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from server import asgi, calls
from server.access import errors as access_errors
from server.s3 import (
    acls,
    demands,
    documents,
    engines,
    errors,
    fields,
    incoming,
    objects,
    operations,
    wire,
    wire_errors,
)
from storage import errors as storage_errors
from storage import model, removals, versions

KEYS_AT_ONCE: Final = 32
"""Keys that are authorised, or whose deletion starts, before other requests are served."""
SEGMENTS_AT_ONCE: Final = 1_000
"""Segments of bodies that are released before the writer serves other requests, unless one object
has more: some tens of milliseconds. They are counted before; a write in between may add to them."""

_Outcome: TypeAlias = tuple[int, model.Deleted | Exception]
"""The index of a key in the request, and the result of its deletion."""


async def delete_objects(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.DeleteObjects = call.value
    if call.principal.type == "anonymous":
        raise errors.Forbidden("Access Denied")
    bucket = operation.bucket
    integrity = operation.integrity
    if integrity.content_md5 is None and integrity.checksum is None and integrity.trailer is None:
        raise errors.InvalidRequest(
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"
        )
    data = await incoming.read_document(call.request, call.caller, integrity=integrity)
    engines.check_allowed(services, call)
    deletes = await incoming.parsed(documents.parse_deletes, data)
    info = engines.bucket_of(engines.ruling(call, bucket, ""), bucket)
    outcomes: dict[int, model.Deleted | Exception] = {}
    together: list[int] = []
    alone: list[int] = []
    for number, target in enumerate(deletes.targets):
        try:
            (together if _is_plain(services, bucket, target, call) else alone).append(number)
        except Exception as error:  # noqa: BLE001 - each key has its own answer
            outcomes[number] = _known(error)
        if number % KEYS_AT_ONCE == KEYS_AT_ONCE - 1:
            await asyncio.sleep(0)
    segments = await _count_segments(services, info, deletes.targets, [*alone, *together])
    for some in _portions(alone, segments):
        for step in _steps(some):
            outcomes.update(await _delete_each(services, bucket, deletes.targets, step, call))
    for some in _portions(together, segments):
        steps = []
        async with asyncio.TaskGroup() as group:
            for step in _steps(some):
                removal = _remove(services, bucket, deletes.targets, step, call)
                steps.append(group.create_task(removal))
                await asyncio.sleep(0)
        for task in steps:
            outcomes.update(task.result())
    rows = [_row(target, outcomes[number]) for number, target in enumerate(deletes.targets)]
    return asgi.Response(200, wire.XML_HEADERS, wire.delete_result(rows, quiet=deletes.quiet))


async def _count_segments(
    services: engines.S3Services,
    bucket: model.BucketInfo,
    targets: Sequence[documents.ObjectToDelete],
    numbers: Sequence[int],
) -> dict[int, int]:
    """Return how many segments the deletion of some targets releases, by the targets' indexes.

    Counts in a thread.
    """
    counts: dict[int, int] = {}
    for step in _steps(numbers):
        wanted = [(targets[number].key, targets[number].version_id) for number in step]
        count = functools.partial(services.objects.count_segments, bucket, wanted)
        counts.update(zip(step, await services.blobs.run(count), strict=True))
    return counts


def _portions(numbers: Sequence[int], segments: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """Yield indexes of targets, in order, as many together as are removed at once."""
    return removals.portions(
        numbers,
        [segments[number] for number in numbers],
        count_max=fields.KEYS_MAX,
        segments_max=SEGMENTS_AT_ONCE,
    )


def _steps(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield indexes of targets, in order, KEYS_AT_ONCE at a time."""
    for start in range(0, len(numbers), KEYS_AT_ONCE):
        yield numbers[start : start + KEYS_AT_ONCE]


def _row(target: documents.ObjectToDelete, outcome: model.Deleted | Exception) -> wire.Deletion:
    if not isinstance(outcome, Exception):
        marker = outcome.version_id if outcome.is_delete_marker else None
        return wire.Deletion(key=target.key, version_id=target.version_id, delete_marker=marker)
    row, message = wire_errors.find(_known(outcome))
    return wire.Deletion(key=target.key, version_id=target.version_id, error=(row.code, message))


def _is_plain(
    services: engines.S3Services, bucket: str, target: documents.ObjectToDelete, call: calls.Call
) -> bool:
    """Authorise one key; return whether it can share a transaction. Raises AccessDenied."""
    precondition = _precondition(target)
    for demand in demands.deletion(call, bucket, target.key, target.version_id, precondition):
        services.authoriser.check(call.principal, demands.with_request_keys(services, call, demand))
    if target.version_id is not None and not versions.is_version_id(target.version_id):
        raise storage_errors.NoSuchVersion(
            f"{target.version_id!r} is no version id",
            key=target.key,
            version_id=target.version_id,
        )
    held = engines.ruling(call, bucket, target.key)
    if acls.may_allow_deletion(call, engines.bucket_of(held, bucket), target.version_id):
        return False
    return target.etag is None and held.on_delete == "remove"


async def _remove(
    services: engines.S3Services,
    bucket: str,
    targets: Sequence[documents.ObjectToDelete],
    numbers: Sequence[int],
    call: calls.Call,
) -> list[_Outcome]:
    """Remove keys in one transaction, or one by one if a Ruling has changed meanwhile."""
    rulings = [engines.ruling(call, bucket, targets[number].key) for number in numbers]
    try:
        expects = tuple(dict.fromkeys(expect for ruling in rulings for expect in ruling.expects))
        outcome = await services.objects.delete_many(
            engines.bucket_of(rulings[0], bucket),
            [
                removals.Removal(
                    key=targets[number].key,
                    version_id=targets[number].version_id,
                    bypass_governance=engines.may_bypass(
                        services, call, bucket, targets[number].key, targets[number].version_id
                    ),
                )
                for number in numbers
            ],
            owner=call.principal.account_id,
            expects=expects,
        )
    except storage_errors.ExpectationFailed:
        return await _delete_each(services, bucket, targets, numbers, call)
    except Exception as error:  # noqa: BLE001 - `_known` raises faults of the server
        return [(number, error) for number in numbers]
    return list(zip(numbers, outcome, strict=True))


async def _delete_each(
    services: engines.S3Services,
    bucket: str,
    targets: Sequence[documents.ObjectToDelete],
    numbers: Sequence[int],
    call: calls.Call,
) -> list[_Outcome]:
    outcomes = await asyncio.gather(
        *(_delete_one(services, bucket, targets[number], call) for number in numbers)
    )
    return list(zip(numbers, outcomes, strict=True))


async def _delete_one(
    services: engines.S3Services, bucket: str, target: documents.ObjectToDelete, call: calls.Call
) -> model.Deleted | Exception:
    try:
        return await objects.delete(
            services, bucket, target.key, target.version_id, _precondition(target), call
        )
    except Exception as error:  # noqa: BLE001 - each key has its own answer
        return error


def _precondition(target: documents.ObjectToDelete) -> model.Precondition:
    return model.ALWAYS if target.etag is None else model.Precondition(if_match=(target.etag,))


def _known(error: Exception) -> Exception:
    """Return an error that the result of a key may name. Re-raises the server's own faults."""
    if isinstance(error, access_errors.AccessDenied):
        return error
    row, _ = wire_errors.find(error)
    if row.status >= 500:
        raise error
    return error
