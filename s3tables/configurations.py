"""engine: configurations of table buckets and tables whose value is fixed.

Bodies are stored in one class, and AES256 stands for the encryption that the disk has: AWS's
defaults, which reads return and which may be put again. Other values are refused (`settings`).
Records of tables that customers made do not expire, as on AWS. Changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from s3tables import errors, settings
from s3tables.resources import Resources
from server import calls

Members = dict[str, Any]

_ENCRYPTION: Final[Members] = {"encryptionConfiguration": {"sseAlgorithm": settings.ALGORITHM}}
_STORAGE_CLASS: Final[Members] = {
    "storageClassConfiguration": {"storageClass": settings.STORAGE_CLASS}
}


async def get_bucket_encryption(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketEncryption."""
    _find_bucket(resources, call)
    return _ENCRYPTION


async def put_bucket_encryption(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketEncryption: AES256, which every bucket has."""
    _find_bucket(resources, call)
    settings.check_storage(call.value.members)
    return {}


async def delete_bucket_encryption(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableBucketEncryption: the default, AES256, holds again."""
    _find_bucket(resources, call)
    return {}


async def get_bucket_storage_class(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketStorageClass."""
    _find_bucket(resources, call)
    return _STORAGE_CLASS


async def put_bucket_storage_class(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketStorageClass: STANDARD, which every bucket has."""
    _find_bucket(resources, call)
    settings.check_storage(call.value.members)
    return {}


async def get_table_encryption(resources: Resources, call: calls.Call) -> Members:
    """GetTableEncryption: that of the table's bucket."""
    _find_table(resources, call)
    return _ENCRYPTION


async def get_table_storage_class(resources: Resources, call: calls.Call) -> Members:
    """GetTableStorageClass: that of the table's bucket."""
    _find_table(resources, call)
    return _STORAGE_CLASS


async def refuse_record_expiration(resources: Resources, call: calls.Call) -> Members:
    """The operations of record expiration, which only tables of AWS's services have."""
    resources.table_by_arn(call.value.members["tableArn"])
    raise errors.NotForCustomerTables


def _find_bucket(resources: Resources, call: calls.Call) -> None:
    """Raise NoSuchTableBucket unless the call's bucket exists."""
    resources.bucket(call.value.members["tableBucketARN"])


def _find_table(resources: Resources, call: calls.Call) -> None:
    """Raise an error unless the call's table exists."""
    members = call.value.members
    resources.table(members["tableBucketARN"], members["namespace"], members["name"])
