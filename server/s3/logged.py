"""rule: what an S3 request is about, in the words of AWS's server access logs.

An operation is `REST`, the method and the resource. Source: Amazon S3 user guide, "Amazon S3 server
access log format", and the operations in published logs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

from server import calls
from server.accesslogs import places

_RESOURCES: Final[Mapping[str, str]] = {
    "GetObject": "OBJECT",
    "HeadObject": "OBJECT",
    "PutObject": "OBJECT",
    "PostObject": "OBJECT",
    "DeleteObject": "OBJECT",
    "CopyObject": "OBJECT",
    "UploadPart": "PART",
    "UploadPartCopy": "PART",
    "CreateMultipartUpload": "UPLOADS",
    "ListMultipartUploads": "UPLOADS",
    "CompleteMultipartUpload": "UPLOAD",
    "AbortMultipartUpload": "UPLOAD",
    "ListParts": "UPLOAD",
    "DeleteObjects": "MULTI_OBJECT_DELETE",
    "ListObjects": "BUCKET",
    "ListObjectsV2": "BUCKET",
    "ListObjectVersions": "BUCKETVERSIONS",
    "HeadBucket": "BUCKET",
    "CreateBucket": "BUCKET",
    "DeleteBucket": "BUCKET",
    "GetBucketPolicy": "BUCKETPOLICY",
    "PutBucketPolicy": "BUCKETPOLICY",
    "DeleteBucketPolicy": "BUCKETPOLICY",
    "GetBucketLogging": "LOGGING_STATUS",
    "PutBucketLogging": "LOGGING_STATUS",
    "GetObjectAcl": "ACL",
    "PutObjectAcl": "ACL",
    "Preflight": "PREFLIGHT",
}
"""Operations whose resource does not follow from their names."""
_COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
_NAME: Final = re.compile(
    r"(?:Get|Put|Delete|List|Update|Create)(?:Bucket)?(.+?)(?:Configuration)?"
)
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def place_of(call: calls.Call) -> places.RequestPlace | None:
    """Return what a call of the S3 face is about; None if it names no bucket."""
    value = call.value
    bucket = getattr(value, "bucket", "")
    if not bucket:
        return None
    name = call.operation.name
    return places.RequestPlace(
        bucket=bucket,
        key=getattr(value, "key", "") or "",
        operation=_operation(name, call.request.method),
        version_id=getattr(value, "version_id", "") or "",
    )


@functools.lru_cache(512)
def _operation(name: str, method: str) -> str:
    verb = "COPY" if name in _COPIES else method
    resource = _RESOURCES.get(name)
    if resource is None:
        match = _NAME.fullmatch(name)
        resource = _WORD.sub("_", name if match is None else match[1]).upper()
    return f"REST.{verb}.{resource}"
