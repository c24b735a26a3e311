"""engine: where the access records of table buckets are delivered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from s3tables.resources import Resources
from server import calls
from server.accesslogs import targets
from storage import batch

Members = Mapping[str, Any]


async def put_logging(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketLogging: an empty status turns logging off."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])
    enabled = members["tableBucketLoggingStatus"].get("loggingEnabled")
    target = None
    if enabled is not None:
        partition = enabled["targetObjectKeyFormat"]["partitionedPrefix"]
        target = targets.LogTarget(
            bucket=enabled["targetBucket"],
            prefix=enabled["targetPrefix"],
            key_format=partition["partitionDateSource"],
        )
        resources.access_logs.check_target(bucket, target)

    def change(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return targets.with_target(settings, target)

    async def put(policies: batch.Expect) -> None:
        await resources.buckets.change(
            bucket.name, change, bucket_id=bucket.bucket_id, expects=(policies,)
        )

    await resources.change_judged(call, bucket, put)
    if target is not None:
        resources.access_logs.turn_on()
    return {}


async def get_logging(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketLogging."""
    bucket = resources.bucket(call.value.members["tableBucketARN"])
    target = targets.target_of(bucket.settings)
    if target is None:
        return {"tableBucketLoggingStatus": {}}
    return {
        "tableBucketLoggingStatus": {
            "loggingEnabled": {
                "targetBucket": target.bucket,
                "targetPrefix": target.prefix,
                "targetObjectKeyFormat": {
                    "partitionedPrefix": {"partitionDateSource": target.key_format}
                },
            }
        }
    }
