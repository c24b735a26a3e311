"""face: access control lists of buckets and objects: the operations that read and replace them.

A bucket's list is a setting; an object's stands in its record. A private object of the bucket's
owner has no stored list. Ownership controls and the block of public access are judged in the
transaction that writes the list: it expects the bucket's record on which they were judged. A table
bucket takes no list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from server import asgi, calls
from server.access import acls, decide
from server.s3 import (
    bucketacls,
    configurations,
    documents,
    engines,
    errors,
    fields,
    guard,
    incoming,
    operations,
    wire,
)
from storage import errors as storage_errors
from storage import model

TO_BUCKET_OWNER: Final = "bucket-owner-full-control"
"""The canned list that gives the bucket's owner an object, and that every bucket takes."""
NOT_ON_OBJECTS: Final = frozenset({"log-delivery-write"})
TAKEN_BY_TABLE_BUCKETS: Final = frozenset({"private", TO_BUCKET_OWNER})
"""Canned lists that ask for what a table bucket does anyway."""


async def get_bucket_acl(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    bucket = configurations.bucket_to_configure(services, call)
    owner = engines.owner_of(services, bucket.owner)
    grants = acls.private(owner.canonical_id)
    if bucketacls.ACL in bucket.settings:
        grants = bucketacls.grants_of(bucket.settings)
    return _answer(services, owner, grants)


async def put_bucket_acl(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    bucket = configurations.bucket_to_configure(services, call)
    owner = engines.owner_of(services, bucket.owner)
    wanted = await _wanted(call, owner.canonical_id)
    acl = of_bucket(services, wanted, owner=owner)

    def put(settings: Any) -> Any:
        if not bucketacls.takes_acls(settings):
            raise _not_supported()
        _check_not_blocked(settings, acl)
        kept = {name: value for name, value in settings.items() if name != bucketacls.ACL}
        return {**kept, **settings_of(acl, owner)}

    await configurations.change(services, call, put)
    return asgi.Response(200)


async def get_object_acl(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.GetObjectAcl = call.value
    bucket = _general(call, operation.bucket, operation.key)
    info = engines.find_readable(
        services, call, operation.bucket, operation.key, operation.version_id
    )
    owner, grants = _shown(services, bucket, info.attributes.acl)
    response = _answer(services, owner, grants)
    headers = (*response.headers, *engines.version_shown(call, info))
    return msgspec.structs.replace(response, headers=headers)


async def put_object_acl(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.PutObjectAcl = call.value
    bucket, key, version_id = operation.bucket, operation.key, operation.version_id
    bucket_info = _general(call, bucket, key)
    if not bucketacls.takes_acls(bucket_info.settings):
        raise _not_supported()
    with engines.refusing_marker():
        before = engines.find(services, call, bucket, key, version_id)
    owner, _ = _shown(services, bucket_info, before.attributes.acl)
    wanted = await _wanted(call, owner.canonical_id)

    async def change(ruling: guard.Ruling) -> model.ObjectInfo:
        bucket_info = engines.bucket_of(ruling, bucket)
        if not bucketacls.takes_acls(bucket_info.settings):
            raise _not_supported()
        judged = engines.find(services, call, bucket, key, version_id).attributes.acl
        now_owner, _ = _shown(services, bucket_info, judged)
        if now_owner != owner:
            raise errors.Forbidden("Access Denied")
        bucket_owner = engines.owner_of(services, bucket_info.owner)
        grants = _grants_of(services, wanted, owner=owner, bucket_owner=bucket_owner)
        _check_not_blocked(bucket_info.settings, grants)
        account = bucket_info.owner if judged is None else judged.account
        engines.check_allowed(services, call)
        return await services.objects.set_acl(
            bucket_info,
            key,
            _stored(owner, account, grants, bucket_info),
            judged=judged,
            version_id=version_id,
            expects=ruling.expects,
        )

    async def judge() -> None:
        engines.authorise(services, call)

    with engines.refusing_marker():
        info = await engines.settle(call, bucket, key, change, judge=judge)
    return asgi.Response(200, engines.version_shown(call, info))


def concerns(call: calls.Call, held: guard.Ruling) -> bool:
    """Return whether the object that a call is about to make may get a list, or be refused one."""
    bucket = held.bucket
    return bucket is not None and (
        call.value.written.acl is not None or call.caller.principal.account_id != bucket.owner
    )


def of_new(
    services: engines.S3Services, call: calls.Call, held: guard.Ruling
) -> model.AccessControlList | None:
    """Return the list of the object that a call is about to make.

    held: the ruling of the object's key. The commit has to pass its `expects`. Raises
    AclNotSupported, and Forbidden for a public list that the bucket's block of public access
    refuses.
    """
    bucket, wanted = held.bucket, call.value.written.acl
    if bucket is None or not concerns(call, held):
        return None
    if bucket.type == "table":
        if wanted is not None and wanted.canned not in TAKEN_BY_TABLE_BUCKETS:
            raise _not_supported()
        return None
    bucket_owner = engines.owner_of(services, bucket.owner)
    if not bucketacls.takes_acls(bucket.settings):
        if wanted is not None and not _gives_to_bucket_owner(services, wanted, bucket_owner):
            raise _not_supported()
        return None
    account = call.principal.account_id
    gives = wanted is not None and wanted.canned == TO_BUCKET_OWNER
    if gives and bucket.settings.get(bucketacls.CONTROLS) == bucketacls.PREFERRED:
        account = bucket.owner
    owner = engines.owner_of(services, account)
    grants = _grants_of(services, wanted, owner=owner, bucket_owner=bucket_owner)
    _check_not_blocked(bucket.settings, grants)
    return _stored(owner, account, grants, bucket)


def is_kept(bucket: model.BucketInfo, acl: model.AccessControlList | None) -> bool:
    """Return whether the object of an upload gets the list that was judged when the upload was
    created.

    The commit has to expect the bucket's record. Raises Forbidden for a public list that the
    bucket's block of public access refuses.
    """
    if acl is None or not bucketacls.takes_acls(bucket.settings):
        return False
    _check_not_blocked(bucket.settings, acl.grants)
    return True


def may_allow_deletion(call: calls.Call, bucket: model.BucketInfo, version_id: str | None) -> bool:
    """Return whether a deletion may be allowed because the bucket's list grants the caller to write
    and the object is his own. The list does not allow the deletion of a version."""
    return (
        version_id is None
        and bucket.type == "general"
        and bucketacls.ACL in bucket.settings
        and call.principal.account_id != bucket.owner
        and not decide.is_unbound(call.principal)
    )


def owner_of_object(services: engines.S3Services, bucket: model.BucketInfo, key: str) -> str:
    """Return the canonical id of the owner that an object's list names, "" for none."""
    try:
        acl = services.objects.head(bucket, key).attributes.acl
    except (storage_errors.NoSuchKey, storage_errors.InvalidKey):
        return ""
    return "" if acl is None else acl.owner


def of_bucket(
    services: engines.S3Services, wanted: fields.WantedAcl, *, owner: wire.Owner
) -> tuple[model.Grant, ...]:
    """Return the grants of a bucket's list that a request asks for."""
    return _grants_of(services, wanted, owner=owner, bucket_owner=None)


def settings_of(grants: Sequence[model.Grant], owner: wire.Owner) -> dict[str, Any]:
    """Return a bucket's list as settings; one that grants to the owner alone is none."""
    if tuple(grants) == acls.private(owner.canonical_id):
        return {}
    return {bucketacls.ACL: [[grant.grantee, grant.permission] for grant in grants]}


def _stored(
    owner: wire.Owner, account: str, grants: tuple[model.Grant, ...], bucket: model.BucketInfo
) -> model.AccessControlList | None:
    if account == bucket.owner and grants == acls.private(owner.canonical_id):
        return None
    return model.AccessControlList(owner=owner.canonical_id, account=account, grants=grants)


def _shown(
    services: engines.S3Services, bucket: model.BucketInfo, acl: model.AccessControlList | None
) -> tuple[wire.Owner, tuple[model.Grant, ...]]:
    """Return the owner and the grants of an object, as its bucket's ownership controls let them
    count."""
    if acl is None or not bucketacls.takes_acls(bucket.settings):
        owner = engines.owner_of(services, bucket.owner)
        return owner, acls.private(owner.canonical_id)
    return engines.named_owner(services, acl.owner), acl.grants


def _answer(
    services: engines.S3Services, owner: wire.Owner, grants: Sequence[model.Grant]
) -> asgi.Response:
    # Groups come first, as in the canned lists.
    grants = sorted(grants, key=lambda grant: not acls.is_group(grant.grantee))
    rows = [
        (
            None if acls.is_group(grant.grantee) else engines.named_owner(services, grant.grantee),
            grant,
        )
        for grant in grants
    ]
    return asgi.Response(200, wire.XML_HEADERS, wire.access_control_policy(owner, rows))


async def _wanted(call: calls.Call, owner_id: str) -> fields.WantedAcl:
    """Return the list that a request's headers or its document asks for.

    owner_id: the canonical id of the owner, which a document may repeat but not change.
    """
    operation: operations.PutBucketAcl | operations.PutObjectAcl = call.value
    data = await incoming.read_configuration(call)
    if operation.acl is not None:
        if data:
            raise errors.UnexpectedContent("This request does not support content")
        return operation.acl
    if not data:
        raise errors.MissingSecurityHeader("Your request was missing a required header")
    document = await incoming.parsed(documents.parse_acl, data)
    if document.owner_id not in (None, owner_id):
        raise errors.Forbidden("Access Denied")
    return fields.WantedAcl(grants=document.grants)


def _grants_of(
    services: engines.S3Services,
    wanted: fields.WantedAcl | None,
    *,
    owner: wire.Owner,
    bucket_owner: wire.Owner | None,
) -> tuple[model.Grant, ...]:
    """Return the grants that a request asks for. bucket_owner: None for a bucket's own list."""
    if wanted is None:
        return acls.private(owner.canonical_id)
    if wanted.canned is not None:
        canned = wanted.canned
        if bucket_owner is not None and canned in NOT_ON_OBJECTS:
            raise errors.InvalidArgument(
                "The canned ACL is one of buckets alone",
                ArgumentName=fields.CANNED_ACL,
                ArgumentValue=canned,
            )
        return acls.canned(
            canned,
            owner_id=owner.canonical_id,
            bucket_owner_id=None if bucket_owner is None else bucket_owner.canonical_id,
        )
    return tuple(_resolved(services, grant) for grant in wanted.grants)


def _resolved(services: engines.S3Services, wanted: fields.WantedGrant) -> model.Grant:
    """Return a grant to a grantee that there is."""
    grantee = wanted.grantee
    match wanted.type:
        case "group":
            if grantee not in acls.ALL_GROUPS:
                raise errors.InvalidArgument(
                    "Invalid group uri", ArgumentName="uri", ArgumentValue=grantee
                )
        case "id":
            special = (acls.ANONYMOUS_ID, acls.EC2_ID)
            if services.principals.by_canonical_id(grantee) is None and grantee not in special:
                raise errors.InvalidArgument("Invalid id", ArgumentName="id", ArgumentValue=grantee)
        case "email":
            holders = services.principals.by_email(grantee)
            ids = {holder.canonical_id for holder in holders}
            if not ids:
                raise errors.UnresolvableGrant(
                    "The e-mail address you provided does not match any account on record."
                )
            if len(ids) > 1:
                raise errors.AmbiguousGrant(
                    "The e-mail address you provided is associated with more than one account."
                )
            grantee = ids.pop()
    return model.Grant(grantee=grantee, permission=wanted.permission)


def _gives_to_bucket_owner(
    services: engines.S3Services, wanted: fields.WantedAcl, bucket_owner: wire.Owner
) -> bool:
    """Return whether a list gives full control to a bucket's owner and nothing to others."""
    if wanted.canned is not None:
        return wanted.canned == TO_BUCKET_OWNER
    grants = tuple(_resolved(services, grant) for grant in wanted.grants)
    return grants == acls.private(bucket_owner.canonical_id)


def _check_not_blocked(settings: Any, grants: Sequence[model.Grant]) -> None:
    """Raise Forbidden for a public list where the bucket's block of public access refuses those."""
    if acls.is_public(grants) and bucketacls.block_of(settings).get("BlockPublicAcls"):
        raise errors.Forbidden(
            "The access control list is public, and BlockPublicAcls of the bucket's public access "
            "block refuses such lists"
        )


def _general(call: calls.Call, bucket: str, key: str) -> model.BucketInfo:
    """Return the general bucket of an object. Raises ResourceMethodNotAllowed for a table bucket's
    object."""
    bucket_info = engines.bucket_of(engines.ruling(call, bucket, key), bucket)
    if bucket_info.type == "table":
        raise errors.ResourceMethodNotAllowed(
            "The specified method is not allowed against this resource.",
            Method=call.request.method,
            ResourceType="OBJECT",
        )
    return bucket_info


def _not_supported() -> errors.AclNotSupported:
    return errors.AclNotSupported("The bucket does not allow ACLs")
