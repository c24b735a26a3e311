"""rule: what must be allowed for each S3 operation.

In a general bucket that is the S3 action on the bucket or object. Below a table's location it is
what the guard says: reading or writing the table's data. Keys that come in a body (DeleteObjects)
are asked for one by one, with `key`, once the body is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from server.access import arns, model
from server.s3 import guard, operations

EVERY_BUCKET: Final = "arn:aws:s3:::*"

# Operations whose action has another name.
ACTION_OF: Final[Mapping[str, str]] = {
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetBucketCors": "GetBucketCORS",
    "GetBucketReplication": "GetReplicationConfiguration",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
}


def of_operation(operation: operations.Operation, answers: guard.Guard) -> tuple[model.Demand, ...]:
    """Return everything that must be allowed before the operation is begun."""
    match operation:
        case operations.GetObject() | operations.HeadObject():
            return (key(answers, operation.bucket, operation.key, "s3:GetObject"),)
        case operations.PutObject() | operations.CreateMultipartUpload():
            put = key(answers, operation.bucket, operation.key, "s3:PutObject")
            if operation.written.tags:
                return (put, _tagging(answers, operation.bucket, operation.key))
            return (put,)
        case operations.UploadPart() | operations.CompleteMultipartUpload():
            return (key(answers, operation.bucket, operation.key, "s3:PutObject"),)
        case operations.CopyObject() | operations.UploadPartCopy():
            source = operation.source
            found = [
                key(answers, source.bucket, source.key, "s3:GetObject"),
                key(answers, operation.bucket, operation.key, "s3:PutObject"),
            ]
            if isinstance(operation, operations.CopyObject) and operation.written.tags:
                found.append(_tagging(answers, operation.bucket, operation.key))
            return tuple(found)
        case operations.DeleteObject():
            return (key(answers, operation.bucket, operation.key, "s3:DeleteObject"),)
        case operations.DeleteObjects():
            return ()
        case operations.GetObjectTagging():
            return (key(answers, operation.bucket, operation.key, "s3:GetObjectTagging"),)
        case operations.PutObjectTagging():
            return (_tagging(answers, operation.bucket, operation.key),)
        case operations.DeleteObjectTagging():
            return (key(answers, operation.bucket, operation.key, "s3:DeleteObjectTagging"),)
        case operations.AbortMultipartUpload():
            return (key(answers, operation.bucket, operation.key, "s3:AbortMultipartUpload"),)
        case operations.ListParts():
            return (key(answers, operation.bucket, operation.key, "s3:ListMultipartUploadParts"),)
        case operations.ListObjects() | operations.ListObjectsV2():
            limits = {"s3:delimiter": operation.delimiter, "s3:max-keys": str(operation.max_keys)}
            return (listing(answers, operation.bucket, operation.prefix, limits),)
        case operations.ListMultipartUploads():
            return (
                listing(
                    answers,
                    operation.bucket,
                    operation.prefix,
                    action="s3:ListBucketMultipartUploads",
                ),
            )
        case operations.ListBuckets():
            return (model.Demand(action="s3:ListAllMyBuckets", resource=EVERY_BUCKET),)
        case operations.HeadBucket():
            return (_bucket("s3:ListBucket", operation.bucket),)
        case operations.CreateBucket():
            return (_bucket("s3:CreateBucket", operation.bucket),)
        case operations.DeleteBucket():
            return (_bucket("s3:DeleteBucket", operation.bucket),)
        case operations.GetBucketLocation():
            return (_bucket("s3:GetBucketLocation", operation.bucket),)
        case operations.GetBucketVersioning():
            return (_bucket("s3:GetBucketVersioning", operation.bucket),)
        case operations.GetBucketConfiguration() | operations.Unsupported():
            return (_named(operation),)
        case operations.Preflight():
            return ()
        case _:
            assert_never(operation)


def key(answers: guard.Guard, bucket: str, name: str, action: str) -> model.Demand:
    """Return what an action on one object demands. action: that of a general bucket."""
    resource = answers.at(bucket, name).resource(_ACCESS[action])
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


def listing(
    answers: guard.Guard,
    bucket: str,
    prefix: str,
    limits: Mapping[str, str] | None = None,
    *,
    action: str = "s3:ListBucket",
) -> model.Demand:
    """Return what it takes to list keys that begin with prefix."""
    resource = answers.at(bucket, prefix).resource("list")
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


def _tagging(answers: guard.Guard, bucket: str, name: str) -> model.Demand:
    return key(answers, bucket, name, "s3:PutObjectTagging")


def _named(operation: operations.GetBucketConfiguration | operations.Unsupported) -> model.Demand:
    action = "s3:" + ACTION_OF.get(operation.name, operation.name)
    if isinstance(operation, operations.Unsupported) and operation.key:
        resource = arns.object_arn(operation.bucket, operation.key)
        return model.Demand(
            action=action, resource=resource, place=f"{operation.bucket}/{operation.key}"
        )
    if not operation.bucket:
        return model.Demand(action=action, resource=EVERY_BUCKET)
    return _bucket(action, operation.bucket)


_ACCESS: Final[Mapping[str, guard.Access]] = {
    "s3:GetObject": "read",
    "s3:GetObjectTagging": "read",
    "s3:PutObject": "write",
    "s3:PutObjectTagging": "write",
    "s3:DeleteObject": "write",
    "s3:DeleteObjectTagging": "write",
    "s3:AbortMultipartUpload": "write",
    "s3:ListMultipartUploadParts": "write",
}
