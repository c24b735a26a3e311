"""engine: configurations of table buckets and tables that have one possible value.

Bodies are stored in one class, and have the encryption of the disk: AES256 where the operator says
that the disk encrypts (`encrypted_disk`), none otherwise. Reads return these values, which may be
put again. Other values are refused (`settings`). A table bucket shows its encryption if that was
put, as on AWS: Terraform takes one that it has not put for a fault.
Records of tables that customers made do not expire, as on AWS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from s3tables import access, errors, settings
from s3tables.resources import Resources
from server import calls
from server.access import model
from storage import batch
from storage import model as storage_model

Members = dict[str, Any]

_ENCRYPTION: Final[Members] = {"encryptionConfiguration": {"sseAlgorithm": settings.ALGORITHM}}
_STORAGE_CLASS: Final[Members] = {
    "storageClassConfiguration": {"storageClass": settings.STORAGE_CLASS}
}


async def get_bucket_encryption(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketEncryption."""
    bucket = _find_bucket(resources, call)
    if settings.ENCRYPTION not in bucket.settings:
        raise errors.NoEncryption
    return _encryption_of(resources)


async def put_bucket_encryption(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketEncryption: AES256, which every body on an encrypted disk has."""

    def needed() -> Sequence[model.Demand]:
        return access.demands(resources, call, actions=("PutTableBucketEncryption",))

    resources.access.check(call.principal, needed())
    bucket = _find_bucket(resources, call)
    settings.check_storage(call.value.members, encrypted_disk=resources.encrypted_disk)

    async def put(policies: batch.Expect) -> None:
        await resources.buckets.change(
            bucket.name, settings.with_encryption, bucket_id=bucket.bucket_id, expects=(policies,)
        )

    await resources.change_judged(call, bucket, put, demands=needed)
    return {}


async def delete_bucket_encryption(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableBucketEncryption: the default, which the bucket does not show."""
    bucket = _find_bucket(resources, call)

    def remove(before: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: value for name, value in before.items() if name != settings.ENCRYPTION}

    await resources.change_bucket_settings(call, bucket, remove)
    return {}


async def get_bucket_storage_class(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketStorageClass."""
    _find_bucket(resources, call)
    return _STORAGE_CLASS


async def put_bucket_storage_class(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketStorageClass: STANDARD, which every bucket has."""
    _find_bucket(resources, call)
    settings.check_storage(call.value.members, encrypted_disk=resources.encrypted_disk)
    return {}


async def get_table_encryption(resources: Resources, call: calls.Call) -> Members:
    """GetTableEncryption: that of the table's bucket."""
    _find_table(resources, call)
    return _encryption_of(resources)


async def get_table_storage_class(resources: Resources, call: calls.Call) -> Members:
    """GetTableStorageClass: that of the table's bucket."""
    _find_table(resources, call)
    return _STORAGE_CLASS


async def refuse_record_expiration(resources: Resources, call: calls.Call) -> Members:
    """The operations of record expiration, which only tables of AWS's services have."""
    resources.table_by_arn(call.value.members["tableArn"])
    raise errors.NotForCustomerTables


def _encryption_of(resources: Resources) -> Members:
    """Return the encryption of every body. Raises NoEncryption."""
    if not resources.encrypted_disk:
        raise errors.NoEncryption
    return _ENCRYPTION


def _find_bucket(resources: Resources, call: calls.Call) -> storage_model.BucketInfo:
    """Return the call's bucket. Raises NoSuchTableBucket."""
    return resources.bucket(call.value.members["tableBucketARN"])


def _find_table(resources: Resources, call: calls.Call) -> None:
    """Raise an error unless the call's table exists."""
    members = call.value.members
    resources.table(members["tableBucketARN"], members["namespace"], members["name"])
