"""face: the services of every S3 handler, and the steps that several handlers share.

Handlers are functions of (services, call). The call's value is the parsed operation, and its
context holds the request's Rulings. All write paths check here whether a key may be written.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from server import asgi, calls
from server.access import acls, decide, principals
from server.access import errors as access_errors
from server.accesslogs import delivery
from server.auth import verify
from server.s3 import (
    bucketacls,
    demands,
    errors,
    fields,
    guard,
    incoming,
    lifecycles,
    operations,
    wire,
)
from storage import (
    batch,
    blobs,
    buckets,
    conditions,
    expiry,
    lifecycle,
    locks,
    model,
    objects,
    uploads,
)
from storage import errors as storage_errors

READ_BYTES: Final = 1 << 20
"""The bytes of a body that one read for the content check returns."""
LINES_REMEMBERED_MAX: Final = 4096
LINES_BYTES_REMEMBERED_MAX: Final = 1024
"""The number of objects whose headers are cached, and the largest size of one entry."""
ENCRYPTED: Final = (("x-amz-server-side-encryption", "AES256"),)
ATTEMPTS_MAX: Final = 20
"""Attempts at a change whose access decision is repeated because its rows have changed."""

Result = TypeVar("Result")


class ObjectLines:
    """A cache of the encoded headers of objects, by object. Mutable.

    Storage returns the same ObjectInfo for the same record. A small GET takes a tenth less CPU.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[int, bool], tuple[model.ObjectInfo, bytes]] = {}

    def of(self, info: model.ObjectInfo, *, with_checksums: bool = False) -> bytes:
        """Return the lines of an object's headers for GET and HEAD, without its length."""
        remembered = self._lines.get((id(info), with_checksums))
        # The object is kept with its lines, so that no other one can have its id.
        if remembered is not None and remembered[0] is info:
            return remembered[1]
        lines = asgi.encode_headers(wire.object_headers(info, with_checksums=with_checksums))
        # An object of many parts is large, and storage reads it anew each time.
        is_small = len(info.body.segments) <= 1 and not info.attributes.part_sizes_bytes
        if is_small and len(lines) <= LINES_BYTES_REMEMBERED_MAX:
            if len(self._lines) >= LINES_REMEMBERED_MAX:
                self._lines.clear()
            self._lines[id(info), with_checksums] = (info, lines)
        return lines


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Services:
    """The engines behind the face. principals: root and the configured users. verifier:
    authenticates POST forms, whose signature is in the body. hide_table_buckets: ListBuckets leaves
    them out. encrypted_disk: SSE-S3 holds for every object."""

    buckets: buckets.Buckets
    objects: objects.Objects
    uploads: uploads.Uploads
    blobs: blobs.Blobs
    expiry: expiry.Expiry
    authoriser: decide.Authoriser
    verifier: verify.Verifier
    principals: principals.Principals
    access_logs: delivery.AccessLogs
    region: str
    hide_table_buckets: bool = False
    encrypted_disk: bool = False
    lines: ObjectLines = field(default_factory=ObjectLines)


def ruling(
    call: calls.Call, bucket: str, key: str, reading: batch.Reading | None = None
) -> guard.Ruling:
    """Return the Ruling of a key: the first one that the request asked for."""
    rulings: guard.Rulings = call.context
    return rulings.at(bucket, key, reading)


def check_writable(call: calls.Call, bucket: str, key: str, size_bytes: int | None) -> None:
    """Raise unless the bucket exists and accepts a body of this size at key.

    size_bytes: None if it is unknown. Handlers call this before they read the body.
    """
    check_ruling(call, ruling(call, bucket, key), bucket, key, size_bytes)


def check_ruling(
    call: calls.Call, held: guard.Ruling, bucket: str, key: str, size_bytes: int | None
) -> None:
    """Do what `check_writable` does, with the Ruling of the key."""
    bucket_info = bucket_of(held, bucket)
    held.check_write()
    if not operations.is_text(key):
        raise errors.InvalidUri("Couldn't parse the specified URI.")
    written: fields.Written | None = getattr(call.value, "written", None)
    if written is not None and written.lock:
        check_lockable(bucket_info)
    if size_bytes is not None:
        held.check_body(size_bytes)


def check_lockable(bucket: model.BucketInfo) -> None:
    """Raise InvalidRequest unless a bucket has object lock, which then stays on."""
    if not bucket.object_lock:
        raise errors.InvalidRequest("Bucket is missing Object Lock Configuration")


def may_bypass(
    services: S3Services, call: calls.Call, bucket: str, key: str, version_id: str | None
) -> bool:
    """Return whether the request asks to bypass a version's GOVERNANCE retention, and may do so."""
    if not call.value.bypass:
        return False
    demand = demands.bypass(call.context, bucket, key, version_id)
    return services.authoriser.permits(
        call.principal, demands.with_request_keys(services, call, demand)
    )


def bucket_of(held: guard.Ruling, name: str) -> model.BucketInfo:
    """Return the bucket of a Ruling. Raises NoSuchBucket."""
    if held.bucket is None:
        raise storage_errors.NoSuchBucket(f"the bucket {name!r} does not exist", name=name)
    return held.bucket


async def settle(
    call: calls.Call,
    bucket: str,
    key: str,
    change: Callable[[guard.Ruling], Awaitable[Result]],
    *,
    judge: Callable[[], Awaitable[None]],
) -> Result:
    """Change a key under a Ruling that still holds in the transaction of the change.

    change: passes the Ruling's `expects` to storage. If those rows have changed since the Ruling,
    for instance because a table was created around the key, `settle` awaits `judge`, which raises
    if the caller may no longer do it, and calls change again. Raises ExpectationFailed if the rows
    change during every attempt.
    """
    for number in range(1, ATTEMPTS_MAX + 1):
        held = ruling(call, bucket, key)
        try:
            return await change(held)
        except storage_errors.ContentDiffers:
            held.refuse_overwrite()
        except storage_errors.ExpectationFailed:
            if number == ATTEMPTS_MAX:
                raise
            call.context.forget(bucket, key)
            await judge()
    raise AssertionError("the last attempt returns or raises")


async def from_source(
    services: S3Services, call: calls.Call, copy: Callable[[], Awaitable[Result]]
) -> Result:
    """Await copy, which copies the source that a call names, and return its result.

    If copy raises SourceGone, because the source was overwritten or removed meanwhile, the call is
    judged again and copy begins anew, with the source of then.
    """
    for _ in range(1, ATTEMPTS_MAX):
        try:
            return await copy()
        except storage_errors.SourceGone:
            source: fields.CopySource = call.value.source
            call.context.forget(source.bucket, source.key)
            authorise(services, call)
    return await copy()


def authorise(services: S3Services, call: calls.Call) -> None:
    """Raise AccessDenied unless the call is allowed with the current Rulings of its keys."""
    for demand in call.operation.demands(services, call):
        services.authoriser.check(call.principal, demand)


def check_allowed(services: S3Services, call: calls.Call) -> None:
    """Raise AccessDenied if the call is no longer allowed. The audit log has the first decision.

    The caller may have lost rights while it sent its document.
    """
    call.caller = services.verifier.renew(call.caller)
    for demand in call.operation.demands(services, call):
        if not services.authoriser.permits(call.principal, demand):
            services.authoriser.check(call.principal, demand)


async def read_judged(
    services: S3Services,
    call: calls.Call,
    parse: Callable[[bytes], Result],
    said: Callable[[Result], Mapping[str, Any]],
) -> Result:
    """Read and parse the document of an operation with `demands_of_document`, and judge the call.

    said: returns fields of the call's value, which policies may test, from the document. A caller
    that may not do it whatever the document says does not learn whether it is malformed.
    """
    data = await incoming.read_configuration(call)
    try:
        document = await incoming.parsed(parse, data)
    except Exception:
        _judge_document(services, call)
        raise
    call.value = dataclasses.replace(call.value, **said(document))
    _judge_document(services, call)
    return document


def _judge_document(services: S3Services, call: calls.Call) -> None:
    call.caller = services.verifier.renew(call.caller)
    try:
        authorise(services, call)
    except access_errors.AccessDenied:
        if call.operation.on_denial is not None:
            call.operation.on_denial(services, call)
        raise


def refuse_strict(
    handler: calls.Handler, services: S3Services, call: calls.Call
) -> asgi.Response | Awaitable[asgi.Response]:
    """Run the handler. Raises ResourceMethodNotAllowed in a bucket that is as strict as AWS."""
    value = call.value
    key = getattr(value, "key", "") or getattr(value, "prefix", "")
    if ruling(call, value.bucket, key).is_aws_strict:
        raise errors.ResourceMethodNotAllowed(
            "The specified method is not allowed against this resource.",
            Method=call.request.method,
            ResourceType="OBJECT",
        )
    return handler(services, call)


def check_owner(services: S3Services, bucket: str, account: str) -> None:
    """Raise AccessDenied if a bucket belongs to another account than the client expects."""
    if services.buckets.get(bucket).owner != account:
        raise errors.Forbidden("Access Denied")


async def check_content(
    services: S3Services, held: guard.Ruling, body: model.Body, size_bytes: int
) -> None:
    """Raise LayoutRefused unless a received body may be stored at a key."""
    check = held.content_check
    if check is None:
        return
    edge_bytes = min(check.edge_bytes, size_bytes)
    ranges = [
        model.ByteRange(start=0, stop=edge_bytes),
        model.ByteRange(start=size_bytes - edge_bytes, stop=size_bytes),
    ]
    if size_bytes <= check.whole_bytes_max:
        ranges.append(model.ByteRange(start=0, stop=size_bytes))
    pieces = [services.blobs.slices(body, each) for each in ranges]

    def judge() -> None:
        head, tail, *whole = (_read(services.blobs, each) for each in pieces)
        check.judge(
            guard.BodyEnds(
                size_bytes=size_bytes, head=head, tail=tail, whole=whole[0] if whole else None
            )
        )

    if isinstance(body, model.InlineBody):
        judge()
        return
    with services.blobs.hold(body):
        await services.blobs.run(judge)


def _read(store: blobs.Blobs, pieces: Sequence[bytes | model.FileSlice]) -> bytes:
    return b"".join(
        data
        for piece in pieces
        for data in ((piece,) if isinstance(piece, bytes) else store.steps(piece, READ_BYTES))
    )


def check_precondition(
    services: S3Services, call: calls.Call, bucket: str, key: str, precondition: model.Precondition
) -> None:
    """Raise if a client's conditions already fail, before the client sends the body."""
    if precondition is model.ALWAYS:
        return
    held = ruling(call, bucket, key)
    try:
        etag = services.objects.head(bucket_of(held, bucket), key).etag
    except storage_errors.NoSuchKey:
        etag = None
    conditions.check_write(precondition, key=key, etag=etag)


def guarded(precondition: model.Precondition, held: guard.Ruling) -> model.Precondition:
    """Return the Precondition for storage: the client's conditions and the key's write-once."""
    if held.is_write_once:
        return dataclasses.replace(precondition, write_once=True)
    return precondition


def reveal_absent_bucket(services: S3Services, call: calls.Call) -> None:
    """Raise NoSuchBucket to a denied caller if the bucket of the call does not exist.

    Buckets share one name space, so every caller may learn whether a name is taken.
    """
    name = getattr(call.value, "bucket", "")
    # The bucket that a call creates does not exist yet.
    if name and not isinstance(call.value, operations.CreateBucket):
        services.buckets.get(name)


def find(
    services: S3Services,
    call: calls.Call,
    bucket: str,
    key: str,
    version_id: str | None = None,
    *,
    reading: batch.Reading | None = None,
    held: guard.Ruling | None = None,
) -> model.ObjectInfo:
    """Return an object for a read. reading: an open view to read from. held: the Ruling of the key,
    if it was asked for.

    Raises NoSuchKey for an absent key only if the caller may list it, and Forbidden otherwise.
    """
    try:
        if held is None:
            held = ruling(call, bucket, key, reading)
        bucket_info = bucket_of(held, bucket)
        return services.objects.head(bucket_info, key, version_id=version_id, reading=reading)
    except (storage_errors.NoSuchKey, storage_errors.NoSuchVersion):
        demand = demands.with_request_keys(
            services, call, demands.listing(call.context, bucket, key)
        )
        if not services.authoriser.permits(call.principal, demand):
            raise errors.Forbidden("Access Denied") from None
        raise


def find_readable(
    services: S3Services,
    call: calls.Call,
    bucket: str,
    key: str,
    version_id: str | None = None,
    *,
    reading: batch.Reading | None = None,
    held: guard.Ruling | None = None,
) -> model.ObjectInfo:
    """Return an object that its access control list or tags may let the caller read; see `find`.

    If lists or tags count in the decision the call is judged again, with those of this very object:
    the call was judged on an earlier object, or on none.
    """
    info = find(services, call, bucket, key, version_id, reading=reading, held=held)
    if decide.is_unbound(call.principal):
        return info
    bucket_info = ruling(call, bucket, key).bucket
    has_lists = info.attributes.acl is not None or (
        bucket_info is not None and (bucket_info.has_acls or bucketacls.ACL in bucket_info.settings)
    )
    if has_lists or call.context.reads_tags:
        for demand in call.operation.demands(services, call):
            judged = demand
            if demand.place == f"{bucket}/{key}" and not decide.is_write(demand.action):
                judged = demands.on_this_object(services, call, demand, info)
            if not services.authoriser.permits(call.principal, judged):
                raise errors.Forbidden("Access Denied")
    return info


@contextlib.contextmanager
def refusing_marker() -> Iterator[None]:
    """Within the block, raise IsDeleteMarker where the newest version is a delete marker.

    Operations on the tags of an object, and PutObjectAcl, answer so on AWS; reads of its body and
    of its access control list find no key.
    """
    try:
        yield
    except storage_errors.KeyDeleted as deleted:
        raise storage_errors.IsDeleteMarker(str(deleted), **deleted.fields) from None


def version_shown(call: calls.Call, info: model.ObjectInfo) -> asgi.ResponseHeaders:
    """Return the version header of a read; none if the bucket was never versioned."""
    bucket = ruling(call, info.bucket, info.key).bucket
    if bucket is None or bucket.versioning is None:
        return ()
    return (("x-amz-version-id", info.version_id),)


def headers_of_read(
    services: S3Services,
    call: calls.Call,
    info: model.ObjectInfo,
    version_id: str | None,
    bucket: model.BucketInfo | None,
    *,
    reading: batch.Reading | None = None,
) -> asgi.ResponseHeaders:
    """Return the headers of GET and HEAD that depend on the bucket or on the caller: encryption,
    version and expiration; and the number of tags, the retention and the legal hold, each for a
    caller that may read it.

    bucket: of the object's Ruling. version_id: the version that the request names; only the newest
    one expires. Source: Amazon S3 API, GetObject and HeadObject, x-amz-tagging-count and
    x-amz-object-lock-*.
    """
    if bucket is None:
        return ()
    headers = ENCRYPTED if services.encrypted_disk else ()
    if bucket.versioning is not None:
        headers = (*headers, ("x-amz-version-id", info.version_id))
    if version_id is None and lifecycle.SETTING in bucket.settings:
        headers = (*headers, *_expiration(services, bucket, info, reading))
    if not (info.attributes.tags or bucket.object_lock):
        return headers

    def may(demanding: demands.DemandOfVersion) -> bool:
        demand = demanding(call.context, info.bucket, info.key, version_id)
        # Its tags and its list are those that count, not those of the newest object.
        demand = msgspec.structs.replace(demand, object_info=info)
        demand = demands.with_request_keys(services, call, demand)
        return services.authoriser.permits(call.principal, demand)

    tags, stored = info.attributes.tags, info.attributes.headers
    if tags and may(demands.tag_reading):
        headers = (*headers, ("x-amz-tagging-count", str(len(tags))))
    if locks.MODE in stored and may(demands.retention_reading):
        headers = (*headers, *[(name, stored[name]) for name in (locks.MODE, locks.RETAIN_UNTIL)])
    if locks.LEGAL_HOLD in stored and may(demands.legal_hold_reading):
        headers = (*headers, (locks.LEGAL_HOLD, stored[locks.LEGAL_HOLD]))
    return headers


def encrypted_by(services: S3Services) -> asgi.ResponseHeaders:
    """Return the header that names the encryption of every object, where there is one."""
    return ENCRYPTED if services.encrypted_disk else ()


def headers_of_write(
    services: S3Services, call: calls.Call, info: model.ObjectInfo
) -> asgi.ResponseHeaders:
    """Return the headers of a write that depend on the bucket; see `headers_in_bucket`."""
    return headers_in_bucket(services, ruling(call, info.bucket, info.key).bucket, info)


def headers_in_bucket(
    services: S3Services, bucket: model.BucketInfo | None, info: model.ObjectInfo
) -> asgi.ResponseHeaders:
    """Return the headers of a write to a bucket: encryption, and expiration where a lifecycle rule
    removes the object."""
    headers = encrypted_by(services)
    if bucket is None or lifecycle.SETTING not in bucket.settings:
        return headers
    return (*headers, *_expiration(services, bucket, info, None))


def abort_of(
    services: S3Services, call: calls.Call, upload: model.UploadInfo
) -> asgi.ResponseHeaders:
    """Return the headers of an upload that a lifecycle rule aborts."""
    bucket = ruling(call, upload.bucket, upload.key).bucket
    if bucket is None or lifecycle.SETTING not in bucket.settings:
        return ()
    return lifecycles.abort_headers(
        services.expiry.abort(bucket, upload.key, initiated_at_ms=upload.initiated_at_ms)
    )


def _expiration(
    services: S3Services,
    bucket: model.BucketInfo,
    info: model.ObjectInfo,
    reading: batch.Reading | None,
) -> asgi.ResponseHeaders:
    return lifecycles.expiration_headers(services.expiry.expiration(bucket, info, reading=reading))


def owner_of(services: S3Services, account: str) -> wire.Owner:
    """Return the Owner that S3 shows for an account; "" is that of anonymous callers."""
    if not account:
        return wire.Owner(canonical_id=acls.ANONYMOUS_ID, display_name="anonymous")
    holder = services.principals.of_account(account)
    if holder is None:
        return wire.Owner(canonical_id=principals.canonical_id_of(account), display_name=account)
    return wire.Owner(canonical_id=holder.canonical_id, display_name=holder.display_name)


def named_owner(services: S3Services, canonical_id: str) -> wire.Owner:
    """Return the Owner that S3 shows for a canonical id."""
    holder = services.principals.by_canonical_id(canonical_id)
    if holder is not None:
        return wire.Owner(canonical_id=canonical_id, display_name=holder.display_name)
    name = "anonymous" if canonical_id == acls.ANONYMOUS_ID else canonical_id
    return wire.Owner(canonical_id=canonical_id, display_name=name)
