"""rule: what must be allowed for each S3 operation.

In a general bucket an operation demands the S3 action on the bucket or object. Below a table's
location it demands the action that the guard returns: reading or writing the table's data. Each row
of `server.s3.rows` has one of these functions, with the arguments (services, call). DeleteObjects
has its keys in the body: its handler demands each with `key` after it has read the body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from server import calls
from server.access import arns, conditionkeys, decide, model, policies
from server.auth import chunked, sigv4
from server.s3 import bucketacls, control, fields, guard, operations
from storage import errors as storage_errors
from storage import etags, locks
from storage import model as storage_model

if TYPE_CHECKING:
    from storage import buckets, objects

EVERY_BUCKET: Final = "arn:aws:s3:::*"
DemandOfVersion: TypeAlias = Callable[[guard.Guard, str, str, str | None], model.Demand]
"""Returns a demand on an object, or on the version that a request names."""


def in_request(demanding: calls.Demanding) -> calls.Demanding:
    """Return demands with the condition keys of the request, which policies may test."""

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        demands = demanding(services, call)
        if decide.is_unbound(call.caller.principal):
            return demands  # no policy applies
        return tuple([with_request_keys(services, call, each) for each in demands])

    return demand


def with_request_keys(services: Any, call: calls.Call, demand: model.Demand) -> model.Demand:
    """Return a demand with the condition keys of the request and of the object's tags.

    They are made when a decision first reads one: few policies test any.
    """
    if decide.is_unbound(call.principal):
        return demand  # no policy applies
    make = functools.partial(_context_in_request, services, call, demand)
    return msgspec.structs.replace(demand, context=model.LateContext(make))


def _context_in_request(services: Any, call: calls.Call, demand: model.Demand) -> model.Context:
    """Return the condition keys of a demand with those of the request and of the object's tags."""
    context: dict[str, model.ContextValue] = dict(_request_context(call))
    signed_at_ms = _signed_at(call)
    if signed_at_ms is not None:
        context["s3:signatureAge"] = str(services.authoriser.now_ms() - signed_at_ms)
    written = getattr(call.value, "written", None)
    if written is not None and written.storage_class != "STANDARD":
        # A form has it as a field, not as a header.
        context.setdefault("s3:x-amz-storage-class", written.storage_class)
    if written is not None and written.acl is not None:
        for name, value in written.acl.headers.items():
            context.setdefault(f"s3:{name}", value)
    lock = getattr(call.value, "lock", None) if written is None else written.lock
    context.update(_keys_of_lock(lock or {}, now_ms=services.authoriser.now_ms()))
    form_encryption = getattr(call.value, "form_encryption", None)
    if form_encryption is not None:
        context["s3:x-amz-server-side-encryption"] = form_encryption
    creates = _CREATE_OBJECTS.get(call.operation.name)
    if creates is not None:
        context["s3:ObjectCreationOperation"] = creates
    _set_conditions(context, call)
    source = getattr(call.value, "source", None)
    if source is not None:
        # A header can spell one source in many ways: escaped, and with a slash before it.
        context["s3:x-amz-copy-source"] = f"{source.bucket}/{source.key}"
    match call.value:
        case operations.CreateBucket(tags=tags, constraint=constraint):
            context.update(decide.request_tags(tags))
            if constraint is not None:
                context["s3:locationconstraint"] = constraint
        case control.TaggedResource(tags=tags):
            context.update(decide.request_tags(tags))
            names = [value for name, value in call.request.pairs if name == control.TAG_KEYS]
            if names:
                context["aws:TagKeys"] = tuple(names)
        case operations.PutObjectTagging(tags=tags):
            context.update(_keys_of_object_tags(tags))
        case _ if written is not None:
            context.update(_keys_of_object_tags(written.tags))
    context.update(demand.context)
    untagged = msgspec.structs.replace(demand, context=context)
    tagged = with_object_tags(
        untagged,
        call.principal,
        authoriser=services.authoriser,
        buckets=services.buckets,
        objects=services.objects,
    )
    if tagged is not untagged:
        call.context.reads_tags = True
    return tagged.context


def _set_conditions(context: dict[str, model.ContextValue], call: calls.Call) -> None:
    """Set s3:if-match and s3:if-none-match of a request that creates or deletes an object.

    An If-None-Match that lists ETags instead of `*` is not that key: it lets the write replace
    every other object, which a policy that demands the header is to prevent. DeleteObjects has
    conditions in its document; see `deletion`.
    """
    operation = call.operation.name
    creates_or_deletes = operation == "DeleteObject" or _CREATE_OBJECTS.get(operation) == "true"
    conditions: storage_model.Precondition | None = getattr(call.value, "conditions", None)
    if conditions is None or not creates_or_deletes:
        return
    for name, listed in (
        ("if-match", conditions.if_match),
        ("if-none-match", conditions.if_none_match),
    ):
        if listed:  # a form may have it as a field
            context.setdefault(f"s3:{name}", ",".join(listed))
    if etags.ANY not in conditions.if_none_match:
        context.pop("s3:if-none-match", None)


def on_this_object(
    services: Any, call: calls.Call, demand: model.Demand, info: storage_model.ObjectInfo
) -> model.Demand:
    """Return a demand with the list and the tags of this very object, in place of those of the
    object that the demand was made on."""
    context = {
        name: value
        for name, value in demand.context.items()
        if not name.startswith(policies.EXISTING_TAG)
    }
    return with_object_tags(
        msgspec.structs.replace(demand, object_info=info, context=context),
        call.principal,
        authoriser=services.authoriser,
        buckets=services.buckets,
        objects=services.objects,
    )


def with_object_tags(
    demand: model.Demand,
    principal: model.Principal,
    *,
    authoriser: decide.Authoriser,
    buckets: buckets.Buckets,
    objects: objects.Objects,
) -> model.Demand:
    """Return a demand with the tags of its object, if a policy of caller or resource tests them."""
    if decide.is_unbound(principal):
        return demand
    documents = (*principal.documents, *authoriser.side_of(demand).policies)
    if not any(document.reads_tags for document in documents):
        return demand
    context = {**_existing_tags(demand, buckets, objects), **demand.context}
    return msgspec.structs.replace(demand, context=context)


def _request_context(call: calls.Call) -> Iterator[tuple[str, str]]:
    """Yield the condition keys that come from headers, or from their form in the query."""
    headers = call.request.headers.joined
    for name, value in call.request.pairs:
        raw_name = name.lower().encode()
        key = _KEY_OF_HEADER.get(raw_name)
        if key is not None and fields.is_header(name) and raw_name not in headers:
            yield key, fields.header_value(value)
    for raw_name, raw_value in headers.items():
        key = _KEY_OF_HEADER.get(raw_name)
        if key is not None:
            yield key, raw_value.decode("latin-1")
    if call.request.tls_version:
        yield "s3:TlsVersion", call.request.tls_version
    scheme = call.caller.signing.scheme
    if scheme == "sigv4-query":
        yield "s3:x-amz-content-sha256", _presigned_hash(call)
    if scheme in _SIGNATURE_VERSIONS:
        yield "s3:signatureversion", _SIGNATURE_VERSIONS[scheme]
        if call.operation.name == "PostObject":
            yield "s3:authType", "POST"
        else:
            yield (
                "s3:authType",
                "REST-QUERY-STRING" if scheme.endswith("query") else "REST-HEADER",
            )


def _keys_of_lock(lock: Mapping[str, str], *, now_ms: int) -> Iterator[tuple[str, str]]:
    """Yield the condition keys of the retention and the legal hold that a request asks for."""
    for name, value in lock.items():
        yield f"s3:{name.removeprefix('x-amz-')}", value
    until_ms = locks.parse_moment(lock.get(locks.RETAIN_UNTIL, ""))
    if until_ms is not None:
        yield (
            "s3:object-lock-remaining-retention-days",
            str(-((now_ms - until_ms) // locks.MS_PER_DAY)),
        )


def _signed_at(call: calls.Call) -> int | None:
    """Return when a request or a form was signed, in Unix milliseconds; None if that is unknown.

    A presigned URL of version 2 does not say it.
    """
    match call.caller.signing.scheme:
        case "sigv4" | "sigv2":
            headers = call.request.headers
            text = headers.get("x-amz-date") or headers.get("date")
        case "sigv4-query" if call.operation.name != "PostObject":
            text = dict(call.request.pairs).get("X-Amz-Date")
        case _:
            return call.caller.signing.signed_at_ms
    return None if text is None else sigv4.parse_date_header(text)


def _presigned_hash(call: calls.Call) -> str:
    """Return the payload hash that the signature of a presigned URL or a form covers.

    An x-amz-content-sha256 header that the signature does not cover is ignored.
    """
    query = {name.lower(): value for name, value in call.request.pairs}
    if "x-amz-signature" in query and query.get("x-amz-content-sha256"):
        return query["x-amz-content-sha256"]
    if "x-amz-content-sha256" in call.caller.signing.signed_headers:
        return call.request.headers.get("x-amz-content-sha256") or chunked.UNSIGNED
    return chunked.UNSIGNED


def _existing_tags(
    demand: model.Demand, buckets: buckets.Buckets, objects: objects.Objects
) -> Mapping[str, model.ContextValue]:
    if demand.object_info is not None:
        return decide.tag_keys(("s3:ExistingObjectTag/",), demand.object_info.attributes.tags)
    bucket, _, name = demand.place.partition("/")
    version_id = demand.context.get("s3:VersionId")
    try:
        info = objects.head(
            buckets.get(bucket),
            name,
            version_id=version_id if isinstance(version_id, str) else None,
        )
    except (
        storage_errors.NoSuchBucket,
        storage_errors.NoSuchKey,
        storage_errors.NoSuchVersion,
        storage_errors.IsDeleteMarker,
        storage_errors.InvalidKey,
    ):
        return {}
    return decide.tag_keys(("s3:ExistingObjectTag/",), info.attributes.tags)


def _keys_of_object_tags(
    tags: Mapping[str, str],
) -> Mapping[str, model.ContextValue]:
    """Return the condition keys of the tags that a request gives to an object."""
    if not tags:
        return {}
    return {
        "s3:RequestObjectTagKeys": tuple(tags),
        **decide.tag_keys(("s3:RequestObjectTag/",), tags),
    }


_SIGNATURE_VERSIONS: Final[Mapping[str, str]] = {
    "sigv4": "AWS4-HMAC-SHA256",
    "sigv4-query": "AWS4-HMAC-SHA256",
    "sigv2": "AWS",
    "sigv2-query": "AWS",
}
"""What s3:signatureversion says of each scheme of signatures."""
_CREATE_OBJECTS: Final[Mapping[str, str]] = {
    "PutObject": "true",
    "PostObject": "true",
    "CopyObject": "true",
    "CompleteMultipartUpload": "true",
    "CreateMultipartUpload": "false",
    "UploadPart": "false",
    "UploadPartCopy": "false",
}
"""What s3:ObjectCreationOperation says of the operations that demand s3:PutObject. A policy that
demands conditional writes exempts by it the requests of an upload that create no object."""
_KEY_OF_HEADER: Final[Mapping[bytes, str]] = {
    **{
        name.encode(): f"s3:{name}"
        for name in conditionkeys.KEYS["s3"]
        if name.startswith("x-amz-")
    },
    b"if-match": "s3:if-match",
    b"if-none-match": "s3:if-none-match",
    b"referer": "aws:Referer",
    b"user-agent": "aws:UserAgent",
}


def on_object(action: str, access: guard.Access) -> calls.Demanding:
    """Demand an action on the object. access: what the action does to a table's data."""

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        value = call.value
        return (key(call.context, value.bucket, value.key, action, access),)

    return demand


def on_version(action: str, version_action: str, access: guard.Access) -> calls.Demanding:
    """Demand an action on the object; another one if the request names a version of it."""

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        value = call.value
        version_id = value.version_id
        if version_id is None:
            return (key(call.context, value.bucket, value.key, action, access),)
        return (version(call.context, value.bucket, value.key, version_id, version_action, access),)

    return demand


def for_read(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand GetObject, or GetObjectVersion for a version that the request names."""
    value: operations.GetObject | operations.HeadObject = call.value
    version_id = value.read.version_id
    return (read(call.context, value.bucket, value.key, version_id),)


def on_bucket(action: str) -> calls.Demanding:
    """Demand an action on the bucket."""

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        return (_bucket(action, call.value.bucket),)

    return demand


def on_every_bucket(action: str) -> calls.Demanding:
    """Demand an action on all buckets."""
    demands = (model.Demand(action=action, resource=EVERY_BUCKET),)

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        return demands

    return demand


def for_attributes(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand GetObject and GetObjectAttributes, or their actions on a version, as S3 does."""
    value: operations.GetObjectAttributes = call.value
    bucket, name, version_id = value.bucket, value.key, value.version_id
    if version_id is None:
        attributes = key(call.context, bucket, name, "s3:GetObjectAttributes", "read")
    else:
        action = "s3:GetObjectVersionAttributes"
        attributes = version(call.context, bucket, name, version_id, action, "read")
    return read(call.context, bucket, name, version_id), attributes


def for_write(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand PutObject, the actions of the tags, the lock and the access control list that the
    object is to have, and that of reading the one whose ETag is a condition.

    A caller of another account than the bucket's sets the list of an object of his own.
    """
    value: operations.PutObject | operations.CreateMultipartUpload = call.value
    put = key(call.context, value.bucket, value.key, "s3:PutObject", "write")
    written = value.written
    conditions = getattr(value, "conditions", storage_model.ALWAYS)
    if not (written.tags or written.lock or written.acl) and conditions is storage_model.ALWAYS:
        return (put,)
    actions = []
    if written.tags:
        actions.append("s3:PutObjectTagging")
    if locks.MODE in written.lock:
        actions.append("s3:PutObjectRetention")
    if locks.LEGAL_HOLD in written.lock:
        actions.append("s3:PutObjectLegalHold")
    more = [key(call.context, value.bucket, value.key, action, "write") for action in actions]
    bucket = call.context.at(value.bucket, value.key).bucket
    if written.acl and bucket is not None and bucketacls.takes_acls(bucket.settings):
        acl = key(call.context, value.bucket, value.key, "s3:PutObjectAcl", "write")
        if call.principal.account_id != bucket.owner and bucket.type == "general":
            acl = msgspec.structs.replace(acl, maker=call.principal.account_id)
        more.append(acl)
    return (put, *more, *_compared(call.context, value.bucket, value.key, None, conditions))


def for_upload(action: str) -> calls.Demanding:
    """Demand an action on an upload, which its initiator may do in a bucket of another account."""

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        value: operations.AbortMultipartUpload | operations.ListParts = call.value
        plain = key(call.context, value.bucket, value.key, action, "write")
        bucket = call.context.at(value.bucket, value.key).bucket
        account = call.principal.account_id
        if not account or bucket is None or bucket.type != "general" or account == bucket.owner:
            return (plain,)
        try:
            upload = services.uploads.get(value.bucket, value.key, value.upload_id)
        except (storage_errors.NoSuchUpload, storage_errors.NoSuchBucket):
            return (plain,)
        if upload.attributes.owner != account:
            return (plain,)
        return (msgspec.structs.replace(plain, maker=account),)

    return demand


def for_create_bucket(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand CreateBucket, and what sets object lock, access control list, ownership controls and
    tags if the bucket is to have them. A private list is that of a bucket without one."""
    value: operations.CreateBucket = call.value
    actions = ["s3:CreateBucket"]
    if value.object_lock:
        actions += ["s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning"]
    if value.acl is not None and value.acl.canned != "private":
        actions.append("s3:PutBucketAcl")
    if value.ownership is not None:
        actions.append("s3:PutBucketOwnershipControls")
    if value.tags:
        actions.append("s3:TagResource")
    demands = (_bucket(action, value.bucket) for action in actions)
    return tuple(msgspec.structs.replace(demand, creates=True) for demand in demands)


def for_form(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand what PutObject demands, after the fields of the form are parsed."""
    if isinstance(call.value, operations.PostObject):
        return ()
    return for_write(services, call)


def for_copy(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand GetObject on the source, and what PutObject demands for the copy."""
    return (_source(call), *for_write(services, call))


def copied_tags(call: calls.Call, info: storage_model.ObjectInfo) -> tuple[model.Demand, ...]:
    """Return the demands of a copy that takes over the tags of its source.

    info: the source as it is copied.
    """
    value: operations.CopyObject = call.value
    source = value.source
    get = tag_reading(call.context, source.bucket, source.key, source.version_id)
    get = msgspec.structs.replace(get, object_info=info)
    put = key(call.context, value.bucket, value.key, "s3:PutObjectTagging", "write")
    context = {**_keys_of_object_tags(info.attributes.tags), **put.context}
    return get, msgspec.structs.replace(put, context=context)


def for_part_copy(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand GetObject on the source and PutObject on the upload's key."""
    value: operations.UploadPartCopy = call.value
    return (
        _source(call),
        key(call.context, value.bucket, value.key, "s3:PutObject", "write"),
    )


def for_completion(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand PutObject, and that of reading the object whose ETag is a condition."""
    value: operations.CompleteMultipartUpload = call.value
    bucket, name = value.bucket, value.key
    put = key(call.context, bucket, name, "s3:PutObject", "write")
    return (put, *_compared(call.context, bucket, name, None, value.conditions))


def for_deletion(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand what a DeleteObject needs; see `deletion`."""
    value: operations.DeleteObject = call.value
    return deletion(call, value.bucket, value.key, value.version_id, value.conditions)


def for_list(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand ListBucket, with the condition keys of a listing."""
    value: operations.ListObjects | operations.ListObjectsV2 = call.value
    limits = {"s3:delimiter": value.delimiter, "s3:max-keys": str(value.max_keys)}
    return (listing(call.context, value.bucket, value.prefix, limits),)


def for_list_versions(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand ListBucketVersions, with the condition keys of a listing."""
    value: operations.ListObjectVersions = call.value
    limits = {"s3:delimiter": value.delimiter, "s3:max-keys": str(value.max_keys)}
    action = "s3:ListBucketVersions"
    return (listing(call.context, value.bucket, value.prefix, limits, action=action),)


def for_list_uploads(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
    """Demand ListBucketMultipartUploads below the prefix."""
    value: operations.ListMultipartUploads = call.value
    action = "s3:ListBucketMultipartUploads"
    return (listing(call.context, value.bucket, value.prefix, action=action),)


def for_unimplemented(action: str) -> calls.Demanding:
    """Demand the action of an unimplemented operation, on the bucket or object of the request."""

    def demand(services: Any, call: calls.Call) -> tuple[model.Demand, ...]:
        value: operations.Target = call.value
        if value.key:
            resource = arns.object_arn(value.bucket, value.key)
            place = f"{value.bucket}/{value.key}"
            return (model.Demand(action=action, resource=resource, place=place),)
        if not value.bucket:
            return (model.Demand(action=action, resource=EVERY_BUCKET),)
        return (_bucket(action, value.bucket),)

    return demand


def key(
    rulings: guard.Guard, bucket: str, name: str, action: str, access: guard.Access
) -> model.Demand:
    """Return the demand for an action on one object. action: the one in a general bucket."""
    resource = rulings.at(bucket, name).resource(access)
    place = f"{bucket}/{name}"
    if resource is None:
        return model.Demand(action=action, resource=arns.object_arn(bucket, name), place=place)
    return model.Demand(
        action=resource.action,
        resource=resource.arn,
        place=place,
        shown=f"{action} on resource {arns.object_arn(bucket, name)}",
        context=dict(resource.context),
    )


def version(
    rulings: guard.Guard,
    bucket: str,
    name: str,
    version_id: str,
    action: str,
    access: guard.Access,
) -> model.Demand:
    """Return the demand for an action on one version of an object; see `key`."""
    demand = key(rulings, bucket, name, action, access)
    context = {**demand.context, "s3:VersionId": version_id}
    return msgspec.structs.replace(demand, context=context)


def deletion(
    call: calls.Call,
    bucket: str,
    name: str,
    version_id: str | None,
    precondition: storage_model.Precondition,
) -> tuple[model.Demand, ...]:
    """Return the demands for deleting an object, or one of its versions.

    precondition: of this deletion; DeleteObjects has one for each key, and policies see it as they
    see the header of DeleteObject. Source: Amazon S3 user guide, Enforce conditional deletes.
    """
    reads = _compared(call.context, bucket, name, version_id, precondition)
    if version_id is None:
        demand = key(call.context, bucket, name, "s3:DeleteObject", "write")
    else:
        action = "s3:DeleteObjectVersion"
        demand = version(call.context, bucket, name, version_id, action, "write")
    if call.operation.name != "DeleteObjects" or not precondition.if_match:
        return (demand, *reads)
    context = {**demand.context, "s3:if-match": ",".join(precondition.if_match)}
    return (msgspec.structs.replace(demand, context=context), *reads)


def _compared(
    rulings: guard.Guard,
    bucket: str,
    name: str,
    version_id: str | None,
    precondition: storage_model.Precondition,
) -> tuple[model.Demand, ...]:
    """Return the demand for reading an object if a condition names ETags, which its outcome tells.

    `*` names none. Source: Amazon S3 user guide, "How to prevent object overwrites with conditional
    writes" and "How to perform conditional deletes".
    """
    listed = (*precondition.if_match, *precondition.if_none_match)
    if all(each == etags.ANY for each in listed):
        return ()
    return (read(rulings, bucket, name, version_id),)


def listing(
    rulings: guard.Guard,
    bucket: str,
    prefix: str,
    limits: Mapping[str, str] | None = None,
    *,
    action: str = "s3:ListBucket",
) -> model.Demand:
    """Return the demand for listing the keys that begin with prefix."""
    resource = rulings.at(bucket, prefix).resource("list")
    place = f"{bucket}/{prefix}"
    context: dict[str, model.ContextValue] = {"s3:prefix": prefix}
    if limits:
        context.update((name, value) for name, value in limits.items() if value)
    if resource is None:
        return model.Demand(
            action=action, resource=arns.bucket_arn(bucket), place=place, context=context
        )
    context.update(resource.context)
    return model.Demand(
        action=resource.action,
        resource=resource.arn,
        place=place,
        shown=f"{action} on resource {arns.bucket_arn(bucket)}",
        context=context,
    )


def _bucket(action: str, bucket: str) -> model.Demand:
    return model.Demand(action=action, resource=arns.bucket_arn(bucket), place=f"{bucket}/")


def _source(call: calls.Call) -> model.Demand:
    source = call.value.source
    return read(call.context, source.bucket, source.key, source.version_id)


def read(rulings: guard.Guard, bucket: str, name: str, version_id: str | None) -> model.Demand:
    return _reading(rulings, bucket, name, version_id, "s3:GetObject", "s3:GetObjectVersion")


def tag_reading(
    rulings: guard.Guard, bucket: str, name: str, version_id: str | None
) -> model.Demand:
    """Return the demand for reading the tags of an object, or of one of its versions."""
    of_object, of_version = "s3:GetObjectTagging", "s3:GetObjectVersionTagging"
    return _reading(rulings, bucket, name, version_id, of_object, of_version)


def retention_reading(
    rulings: guard.Guard, bucket: str, name: str, version_id: str | None
) -> model.Demand:
    """Return the demand for reading the retention of an object, or of one of its versions."""
    action = "s3:GetObjectRetention"
    return _reading(rulings, bucket, name, version_id, action, action)


def legal_hold_reading(
    rulings: guard.Guard, bucket: str, name: str, version_id: str | None
) -> model.Demand:
    """Return the demand for reading the legal hold of an object, or of one of its versions."""
    action = "s3:GetObjectLegalHold"
    return _reading(rulings, bucket, name, version_id, action, action)


def _reading(
    rulings: guard.Guard,
    bucket: str,
    name: str,
    version_id: str | None,
    of_object: str,
    of_version: str,
) -> model.Demand:
    """Return the demand for one action on the newest object, or for another on a version."""
    if version_id is None:
        return key(rulings, bucket, name, of_object, "read")
    return version(rulings, bucket, name, version_id, of_version, "read")


def bypass(rulings: guard.Guard, bucket: str, name: str, version_id: str | None) -> model.Demand:
    """Return the demand for removing or changing a version in spite of a GOVERNANCE retention.

    version_id: None for the newest.
    """
    action = "s3:BypassGovernanceRetention"
    if version_id is None:
        return key(rulings, bucket, name, action, "write")
    return version(rulings, bucket, name, version_id, action, "write")
