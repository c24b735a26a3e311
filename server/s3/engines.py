"""face: what every S3 handler works with, handed over once.

Handlers are functions of (engines, operation, request, caller). What several of them ask first,
"may something be written here", stands here too, so that no write path can forget it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from server.access import decide, principals
from server.access import model as access_model
from server.s3 import demands, errors, guard, operations, wire
from storage import blobs, buckets, conditions, model, objects, uploads
from storage import errors as storage_errors

READ_BYTES: Final = 1 << 20
"""How much of a body is read at once to look at its content."""
ATTEMPTS_MAX: Final = 20
"""Times that a change is judged anew because what it was judged on has changed."""

Result = TypeVar("Result")


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """The engines behind the face, for one request. root: the server's own account's principal.

    Every request makes one, so it is a Struct: a fifth of what a dataclass costs.
    """

    buckets: buckets.Buckets
    objects: objects.Objects
    uploads: uploads.Uploads
    blobs: blobs.Blobs
    guard: guard.Rulings
    authoriser: decide.Authoriser
    root: access_model.Principal
    region: str


def check_writable(engines: Engines, bucket: str, key: str, size_bytes: int | None) -> None:
    """Raise unless the bucket exists and takes a body of this size at key.

    size_bytes: None where it is not known yet. Called before the first byte of a body is read.
    """
    ruling = engines.guard.at(bucket, key)
    bucket_of(ruling, bucket)
    ruling.check_write()
    if not operations.is_text(key):
        raise errors.InvalidUri("Couldn't parse the specified URI.")
    if size_bytes is not None:
        ruling.check_body(size_bytes)


def bucket_of(ruling: guard.Ruling, name: str) -> model.BucketInfo:
    """Return the bucket that a ruling is about. Raises NoSuchBucket."""
    if ruling.bucket is None:
        raise storage_errors.NoSuchBucket(f"the bucket {name!r} does not exist", name=name)
    return ruling.bucket


async def settle(
    engines: Engines,
    bucket: str,
    key: str,
    change: Callable[[guard.Ruling], Awaitable[Result]],
    *,
    judge: Callable[[], Awaitable[None]],
) -> Result:
    """Change a key on a ruling that holds in the very transaction that changes it.

    change: hands the ruling's `expects` to storage. Where those rows have changed since the ruling,
    for instance because a table was created around the key, `judge` is awaited and change tried
    anew; judge raises if the caller may no longer do it. Raises ExpectationFailed if the rows never
    stop changing.
    """
    for number in range(1, ATTEMPTS_MAX + 1):
        ruling = engines.guard.at(bucket, key)
        try:
            return await change(ruling)
        except storage_errors.ContentDiffers:
            ruling.refuse_overwrite()
        except storage_errors.ExpectationFailed:
            if number == ATTEMPTS_MAX:
                raise
            engines.guard.forget(bucket, key)
            await judge()
    raise AssertionError("the last attempt returns or raises")


def authorise(
    engines: Engines, principal: access_model.Principal, operation: operations.Operation
) -> None:
    """Raise AccessDenied unless the operation is allowed, as its keys are ruled now."""
    for demand in demands.of_operation(operation, engines.guard):
        engines.authoriser.check(principal, demand)


def check_owners(engines: Engines, expecting: operations.Expecting) -> None:
    """Raise AccessDenied if a bucket belongs to another account than the client expects."""
    operation = expecting.operation
    wanted = []
    if expecting.owner is not None and not isinstance(
        operation, operations.ListBuckets | operations.CreateBucket
    ):
        wanted.append((operation.bucket, expecting.owner))
    if expecting.source_owner is not None and isinstance(
        operation, operations.CopyObject | operations.UploadPartCopy
    ):
        wanted.append((operation.source.bucket, expecting.source_owner))
    for bucket, account in wanted:
        if engines.buckets.get(bucket).owner != account:
            raise errors.AccessDenied("Access Denied")


async def check_content(
    engines: Engines, ruling: guard.Ruling, body: model.Body, size_bytes: int
) -> None:
    """Raise LayoutRefused unless these bytes may lie at a key. Called before they get its name."""
    check = ruling.content_check
    if check is None:
        return
    edge_bytes = min(check.edge_bytes, size_bytes)
    ranges = [
        model.ByteRange(start=0, stop=edge_bytes),
        model.ByteRange(start=size_bytes - edge_bytes, stop=size_bytes),
    ]
    if size_bytes <= check.whole_bytes_max:
        ranges.append(model.ByteRange(start=0, stop=size_bytes))
    pieces = [engines.blobs.slices(body, each) for each in ranges]

    def judge() -> None:
        head, tail, *whole = (_read(engines.blobs, each) for each in pieces)
        check.judge(
            guard.Content(
                size_bytes=size_bytes, head=head, tail=tail, whole=whole[0] if whole else None
            )
        )

    if isinstance(body, model.InlineBody):
        judge()
        return
    with engines.blobs.hold(body):
        await engines.blobs.run(judge)


def _read(store: blobs.Blobs, pieces: Sequence[bytes | model.FileSlice]) -> bytes:
    return b"".join(
        data
        for piece in pieces
        for data in ((piece,) if isinstance(piece, bytes) else store.steps(piece, READ_BYTES))
    )


def check_precondition(
    engines: Engines, bucket: str, key: str, precondition: model.Precondition
) -> None:
    """Raise if a client's conditions fail already, before a body is sent for nothing."""
    if precondition is model.ALWAYS:
        return
    ruling = engines.guard.at(bucket, key)
    try:
        etag = engines.objects.head(bucket_of(ruling, bucket), key).etag
    except storage_errors.NoSuchKey:
        etag = None
    conditions.check_write(precondition, key=key, etag=etag)


def guarded(precondition: model.Precondition, ruling: guard.Ruling) -> model.Precondition:
    """Return what storage is to judge: the client's conditions, and write-once if it applies."""
    if ruling.is_write_once:
        return dataclasses.replace(precondition, write_once=True)
    return precondition


def find(
    engines: Engines,
    principal: access_model.Principal,
    bucket: str,
    key: str,
    version_id: str | None = None,
) -> model.ObjectInfo:
    """Return an object for a read.

    An absent key is NoSuchKey only to those who may list it; others learn nothing.
    """
    try:
        ruling = engines.guard.at(bucket, key)
        return engines.objects.head(bucket_of(ruling, bucket), key, version_id=version_id)
    except (storage_errors.NoSuchKey, storage_errors.NoSuchVersion):
        demand = demands.listing(engines.guard, bucket, key)
        if not engines.authoriser.permits(principal, demand):
            raise errors.AccessDenied("Access Denied") from None
        raise


def owner_of(engines: Engines, account: str, principal: access_model.Principal) -> wire.Owner:
    """Return the Owner that S3 shows for an account. principal: the caller, who may be of it."""
    for known in (engines.root, principal):
        if known.account_id == account:
            return wire.Owner(canonical_id=known.canonical_id, display_name=known.display_name)
    return wire.Owner(canonical_id=principals.canonical_id_of(account), display_name=account)
