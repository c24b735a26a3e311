"""engine: metrics and replication settings of table buckets and tables.

Metrics settings make `/_metrics` count the commits of their table bucket. Replication settings are
validated and stored with a version token; no job of the server obeys them, so the status of every
destination is `failed`, with that reason. `pipeline replicate` copies a table when it is run by
hand, and reads no such settings. A table without settings of its own has none: those of its bucket
are not shown as the table's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from catalog import history
from s3tables import errors
from s3tables.resources import Resources, TableResource
from server import calls
from storage import index, settings
from storage import model as storage_model
from storage.buckets import Buckets

Members = Mapping[str, Any]

METRICS: Final = "metrics_configuration"
"""The setting of a table bucket whose value is the configuration's id."""
REPLICATION: Final = "replication"
"""The setting of a table bucket or a table: configuration and version token."""
NOT_REPLICATED: Final = (
    "Boathouse stores replication settings, and no job of the server obeys them. The command"
    " `python -m pipeline replicate` copies a table into another catalog."
)

_NO_METRICS: Final = "The specified table bucket does not have a metrics configuration."
_NONE: Final = "The specified {} does not have a replication configuration."


async def put_metrics(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketMetricsConfiguration: `/_metrics` counts the bucket's commits from now on."""
    bucket = resources.bucket(call.value.members["tableBucketARN"])
    new_id = resources.access.store.new_id()

    def change(old: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**old, METRICS: old.get(METRICS, new_id)}

    await resources.change_bucket_settings(call, bucket, change)
    return {}


async def get_metrics(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketMetricsConfiguration."""
    bucket = resources.bucket(call.value.members["tableBucketARN"])
    if METRICS not in bucket.settings:
        raise errors.NotFound(_NO_METRICS)
    return {"tableBucketARN": resources.bucket_arn(bucket), "id": bucket.settings[METRICS]}


async def delete_metrics(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableBucketMetricsConfiguration."""
    bucket = resources.bucket(call.value.members["tableBucketARN"])

    def change(old: Mapping[str, Any]) -> Mapping[str, Any]:
        if METRICS not in old:
            raise errors.NotFound(_NO_METRICS)
        return {name: value for name, value in old.items() if name != METRICS}

    await resources.change_bucket_settings(call, bucket, change)
    return {}


def format_metrics(buckets: Buckets, reading: index.Index) -> Iterator[str]:
    """Yield lines of Prometheus text for the table buckets that have a metrics configuration."""
    shown = buckets.having(METRICS)
    if not shown:
        return
    yield "# HELP boathouse_table_bucket_commits_total Commits of a table bucket's catalog."
    yield "# TYPE boathouse_table_bucket_commits_total counter"
    with reading.view() as view:
        for bucket in shown:
            count = history.last_sequence(view, bucket.bucket_id)
            yield f'boathouse_table_bucket_commits_total{{table_bucket="{bucket.name}"}} {count}'


async def put_bucket_replication(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketReplication."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])
    stored = _checked(resources, bucket, members["configuration"])
    token = members.get("versionToken")

    def change(old: Mapping[str, Any]) -> Mapping[str, Any]:
        return _replaced(old, stored, token)

    await resources.change_bucket_settings(call, bucket, change)
    return {"versionToken": stored["token"], "status": "failed"}


async def get_bucket_replication(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketReplication."""
    bucket = resources.bucket(call.value.members["tableBucketARN"])
    return _shown(bucket.settings, "table bucket")


async def delete_bucket_replication(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableBucketReplication."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])

    def change(old: Mapping[str, Any]) -> Mapping[str, Any]:
        return _removed(old, members.get("versionToken"), "table bucket")

    await resources.change_bucket_settings(call, bucket, change)
    return {}


async def put_table_replication(resources: Resources, call: calls.Call) -> Members:
    """PutTableReplication."""
    members = call.value.members
    table = resources.table_by_arn(members["tableArn"])
    stored = _checked(resources, table.bucket, members["configuration"])
    token = members.get("versionToken")

    def change(old: Mapping[str, Any]) -> Mapping[str, Any]:
        return _replaced(old, stored, token)

    await resources.change_table_settings(call, table, change)
    return {"versionToken": stored["token"], "status": "failed"}


async def get_table_replication(resources: Resources, call: calls.Call) -> Members:
    """GetTableReplication."""
    table = resources.table_by_arn(call.value.members["tableArn"])
    return _shown(_of_table(resources, table), "table")


async def delete_table_replication(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableReplication."""
    members = call.value.members
    table = resources.table_by_arn(members["tableArn"])

    def change(old: Mapping[str, Any]) -> Mapping[str, Any]:
        return _removed(old, members.get("versionToken"), "table")

    await resources.change_table_settings(call, table, change)
    return {}


async def get_replication_status(resources: Resources, call: calls.Call) -> Members:
    """GetTableReplicationStatus: of the table's settings, or else of its bucket's."""
    table = resources.table_by_arn(call.value.members["tableArn"])
    stored = _of_table(resources, table).get(REPLICATION) or table.bucket.settings.get(REPLICATION)
    if stored is None:
        raise errors.NotFound(_NONE.format("table"))
    return {
        "sourceTableArn": resources.table_arn(table),
        "destinations": [
            {
                "replicationStatus": "failed",
                "destinationTableBucketArn": each["destinationTableBucketARN"],
                "failureMessage": NOT_REPLICATED,
            }
            for each in stored["configuration"]["rules"][0]["destinations"]
        ],
    }


def _checked(
    resources: Resources, source: storage_model.BucketInfo, configuration: Members
) -> dict[str, Any]:
    """Return a configuration as it is stored, with its token. Raises BadRequest, NotFound."""
    if configuration["role"].split(":")[4] != resources.account_of(source):
        raise errors.BadRequest("The role must belong to the account of the source table bucket.")
    arns = [each["destinationTableBucketARN"] for each in configuration["rules"][0]["destinations"]]
    if len(set(arns)) != len(arns):
        raise errors.BadRequest("The destinations must be different table buckets.")
    for arn in arns:
        if resources.bucket(arn).bucket_id == source.bucket_id:
            raise errors.BadRequest("A table bucket cannot be replicated to itself.")
    new_id = resources.access.store.new_id().encode()
    token = hashlib.blake2b(
        msgspec.msgpack.encode(configuration) + new_id, digest_size=10
    ).hexdigest()
    return {"configuration": dict(configuration), "token": token}


def _check_token(old: Mapping[str, Any], token: str | None) -> None:
    """Raise BadRequest or Conflict unless the token is that of the settings to be replaced."""
    stored = old.get(REPLICATION)
    if stored is None:
        return
    if token is None:
        raise errors.BadRequest("A version token is not specified.")
    if token != stored["token"]:
        raise errors.Conflict("Provided version token does not match the configuration's.")


def _replaced(
    old: Mapping[str, Any], stored: Mapping[str, Any], token: str | None
) -> Mapping[str, Any]:
    _check_token(old, token)
    return {**old, REPLICATION: stored}


def _removed(old: Mapping[str, Any], token: str | None, what: str) -> Mapping[str, Any]:
    if REPLICATION not in old:
        raise errors.NotFound(_NONE.format(what))
    _check_token(old, token)
    return {name: value for name, value in old.items() if name != REPLICATION}


def _shown(stored: Mapping[str, Any], what: str) -> Members:
    if REPLICATION not in stored:
        raise errors.NotFound(_NONE.format(what))
    replication = stored[REPLICATION]
    return {
        "versionToken": replication["token"],
        "configuration": replication["configuration"],
    }


def _of_table(resources: Resources, table: TableResource) -> Mapping[str, Any]:
    key = settings.table_key(table.bucket.bucket_id, table.pointer.object_uuid)
    return settings.read(resources.index, key)
