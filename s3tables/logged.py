"""rule: what a request to the s3tables API is about, for access records of table buckets."""

from __future__ import annotations

from typing import Final

from s3tables import names
from server import calls
from server.accesslogs import places

_ARNS: Final = ("tableBucketARN", "tableArn", "tableARN", "resourceArn")


def place_of(call: calls.Call) -> places.RequestPlace | None:
    """Return what a call is about; None if its path and query name no table bucket."""
    members = call.value.members
    for member in _ARNS:
        arn = members.get(member)
        if not isinstance(arn, str):
            continue
        name = names.parse_arn(arn)
        if name is not None:
            operation = f"S3TABLES.{call.operation.name}"
            return places.RequestPlace(bucket=name.bucket, key="", operation=operation)
    return None
