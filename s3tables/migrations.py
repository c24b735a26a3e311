"""engine: migrations of Glue tables: validated, stored, listed, and each of them failed.

There is no Glue catalog to read, so a migration ends as it is stored: state `failed`, reason
`sourceNotSupported`. It can therefore be neither queued, cancelled, synced nor completed. The id of
a migration leads to its row: table bucket, time and a random number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from catalog import errors as catalog_errors
from catalog import idents, rights
from s3tables import errors, listings, names, settings
from s3tables.resources import Resources
from server import calls
from storage import batch
from storage import errors as storage_errors
from storage import model as storage_model
from storage import records as storage_records
from storage import settings as storage_settings

Members = Mapping[str, Any]

MIGRATIONS_MAX: Final = 1_000
"""Migrations that are kept of one table bucket; the oldest go first."""
KEY_BYTES: Final = 4 + 8 + 8
"""Length of the key of a migration; other jobs of a table bucket have shorter keys."""
STATE: Final = "failed"
REASON: Final = "sourceNotSupported"
DETAIL: Final = "Boathouse has no AWS Glue catalog to read the source table from."

_ID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{16})-([0-9a-f]{16})")
_NONE: Final = "The specified migration does not exist."
_REPORTS: Final = ("tableCompatibilityReport", "objectCompatibilityReport", "objectMigrationReport")


async def start_migration(resources: Resources, call: calls.Call) -> Members:
    """StartTableMigration: stored as failed."""
    members = call.value.members
    destination = members["destinationTable"]
    namespace, name = (destination["namespace"],), destination["name"]
    subject = rights.of_table(destination["tableBucketARN"], namespace, name)
    demand = rights.demand("StartTableMigration", subject)
    resources.access.check(call.principal, (demand,))
    bucket = resources.bucket(destination["tableBucketARN"])
    _check(resources, bucket, members)
    store = resources.access.store
    now_ms, random = store.now_ms(), store.new_id()[:16]
    row: dict[str, Any] = {
        "namespace": destination["namespace"],
        "name": name,
        "role": members["roleARN"],
        "review": members.get("reviewMigrationPlan", False),
        "created_at_ms": now_ms,
        "source_type": members["sourceType"],
        "source": members["source"],
        "data_migration": members.get("dataMigration", {}),
        "output": members["migrationOutput"],
    }
    value = storage_records.encode(storage_records.SettingsRecord(settings=row))
    key = _key(bucket.bucket_id, now_ms, random)
    for _ in range(listings.LOOKED_AT_ONCE):
        policies = storage_settings.expect_policies(resources.index, bucket.bucket_id)
        resources.access.recheck(call.principal, (demand,))
        whole = batch.Batch(expects=(policies,), derive=(_adding(bucket, key, value),))
        try:
            await resources.index.commit(whole)
        except storage_errors.ExpectationFailed:
            continue
        return {"migrationId": _format_id(bucket.bucket_id, now_ms, random), "state": STATE}
    raise errors.Conflict("Policies or tags of the bucket changed during the request. Try again.")


async def sync_migration(resources: Resources, call: calls.Call) -> Members:
    """SyncTableMigration: of a table that a migration has made, and there is none."""
    arn = call.value.members["tableARN"]
    resources.access.check(
        call.principal, (rights.demand("SyncTableMigration", rights.of_bucket(arn)),)
    )
    resources.table_by_arn(arn)
    raise errors.NotFound("No migration has made the specified table.")


async def get_migration(resources: Resources, call: calls.Call) -> Members:
    """GetTableMigration."""
    bucket, migration_id, row = _find(resources, call, "GetTableMigration")
    output = row["output"]
    prefixes = output.get("prefixes", {})
    data_migration = row["data_migration"]
    return {
        **_summary(resources, bucket, migration_id, row),
        "roleARN": row["role"],
        "reviewMigrationPlan": row["review"],
        "failureReason": {"code": REASON, "detail": DETAIL},
        "sourceType": row["source_type"],
        "source": row["source"],
        "dataMigration": {
            "maintenanceSettings": data_migration.get("maintenanceSettings", {}),
            "migrationPolicies": data_migration.get("migrationPolicies", {}),
        },
        "migrationOutput": {
            "bucket": output["bucket"],
            **{
                report: {"prefix": prefixes[report]} if report in prefixes else {}
                for report in _REPORTS
            },
        },
    }


async def list_migrations(resources: Resources, call: calls.Call) -> Members:
    """ListTableMigrations: of the buckets whose migrations the caller may list."""
    members = call.value.members
    if "tableARN" in members:
        resources.table_by_arn(members["tableARN"])
    if "tableBucketARN" in members:
        buckets: Sequence[storage_model.BucketInfo] = [resources.bucket(members["tableBucketARN"])]
    else:
        buckets = [
            each
            for each in resources.buckets.list()
            if each.type == "table"
            and resources.permits(
                call.principal, "ListTableMigrations", rights.of_bucket(resources.bucket_arn(each))
            )
        ]
    by_id = {each.bucket_id: each for each in buckets}
    filters = {name: members.get(name) for name in ("namespace", "name", "state", "hasValidPlan")}

    def show(item: tuple[int, str, Mapping[str, Any]]) -> Members | None:
        bucket_id, migration_id, row = item
        is_shown = (
            "tableARN" not in members  # a failed migration has made no table
            and filters["namespace"] in (None, row["namespace"])
            and filters["name"] in (None, row["name"])
            and filters["state"] in (None, STATE)
            and filters["hasValidPlan"] is not True
        )
        return _summary(resources, by_id[bucket_id], migration_id, row) if is_shown else None

    rows = _rows(resources, [each.bucket_id for each in buckets])
    page = await listings.paginate(
        (((item[1],), item) for item in rows),
        show,
        listing=f"migrations {members.get('tableBucketARN', '')} {filters}",
        token=members.get("nextToken"),
        items_max=members.get("maxResults"),
    )
    listed: dict[str, Any] = {"migrations": list(page.items)}
    return listed if page.token is None else {**listed, "nextToken": page.token}


async def update_migration(resources: Resources, call: calls.Call) -> Members:
    """UpdateTableMigration: only one whose plan waits for a review can be changed."""
    _find(resources, call, "UpdateTableMigration")
    raise errors.Conflict(
        f"The migration is in the state {STATE}: it can be neither queued nor cancelled."
    )


async def complete_migration(resources: Resources, call: calls.Call) -> Members:
    """CompleteTableMigration: of a table that a migration has made, and there is none."""
    resources.table_by_arn(call.value.members["tableARN"])
    raise errors.NotFound(_NONE)


def _check(resources: Resources, bucket: storage_model.BucketInfo, members: Members) -> None:
    """Raise an error unless a migration may be started."""
    destination = members["destinationTable"]
    names.check_table_name(destination["name"])
    settings.check_storage(destination, encrypted_disk=resources.encrypted_disk)
    if "glueTable" not in members["source"]:
        raise errors.BadRequest("The source is not that of the source type glueTable.")
    if members["roleARN"].split(":")[4] != resources.account_of(bucket):
        raise errors.BadRequest("The role must belong to the account of the table bucket.")
    format_version = destination.get("properties", {}).get("icebergFormatVersion", 2)
    if format_version not in (1, 2, 3):
        raise errors.BadRequest("icebergFormatVersion must be between 1 and 3.")
    ident = idents.TableIdent(
        table_bucket=bucket.name,
        namespace=(destination["namespace"],),
        name=destination["name"],
    )
    if resources.tables.exists(ident):
        raise catalog_errors.TableAlreadyExists(f"Table already exists: {ident.dotted()}")


def _adding(bucket: storage_model.BucketInfo, key: bytes, value: bytes) -> batch.Derivation:
    """Return the derivation that adds a migration and removes the oldest."""
    start, stop = _range(bucket.bucket_id)

    def add(reading: batch.Reading) -> Sequence[batch.Write]:
        row = reading.get(batch.Store.BUCKETS, bucket.name.encode())
        if row is None or storage_records.bucket_id(row) != bucket.bucket_id:
            raise errors.NoSuchTableBucket
        keys = [
            each
            for each, _ in reading.scan(batch.Store.JOBS, start, stop)
            if len(each) == KEY_BYTES
        ]
        gone = keys[: max(0, len(keys) + 1 - MIGRATIONS_MAX)]
        return (
            *(batch.Delete(store=batch.Store.JOBS, key=each) for each in gone),
            batch.Put(store=batch.Store.JOBS, key=key, value=value),
        )

    return add


def _find(
    resources: Resources, call: calls.Call, action: str
) -> tuple[storage_model.BucketInfo, str, Mapping[str, Any]]:
    """Return the migration that a call names. Raises BadRequest, NotFound."""
    members = call.value.members
    if ("migrationId" in members) == ("tableARN" in members):
        raise errors.BadRequest("Specify either migrationId or tableARN.")
    if "tableARN" in members:
        resources.table_by_arn(members["tableARN"])
        raise errors.NotFound(_NONE)
    match = _ID.fullmatch(members["migrationId"])
    if match is None:
        raise errors.NotFound(_NONE)
    bucket_id, created, random = int(match[1], 16), int(match[2], 16), match[3]
    value = resources.index.get(batch.Store.JOBS, _key(bucket_id, created, random))
    bucket = next((each for each in resources.buckets.list() if each.bucket_id == bucket_id), None)
    if value is None or bucket is None:
        raise errors.NotFound(_NONE)
    subject = rights.of_bucket(resources.bucket_arn(bucket))
    if not resources.permits(call.principal, action, subject):
        raise errors.NotFound(_NONE)
    return bucket, match[0], storage_records.decode_settings(value).settings


def _rows(
    resources: Resources, bucket_ids: Sequence[int]
) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield the migrations of table buckets, in the order of their ids."""
    for bucket_id in sorted(bucket_ids):
        start, stop = _range(bucket_id)
        with resources.index.view() as view:
            scanned = view.scan(batch.Store.JOBS, start, stop)
            migrations = (row for row in scanned if len(row[0]) == KEY_BYTES)
            rows = list(itertools.islice(migrations, MIGRATIONS_MAX))
        for key, value in rows:
            migration_id = _format_id(bucket_id, int.from_bytes(key[4:12], "big"), key[12:].hex())
            yield bucket_id, migration_id, storage_records.decode_settings(value).settings


def _summary(
    resources: Resources,
    bucket: storage_model.BucketInfo,
    migration_id: str,
    row: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "migrationId": migration_id,
        "tableBucketARN": resources.bucket_arn(bucket),
        "namespace": row["namespace"],
        "name": row["name"],
        "type": "start",
        "state": STATE,
        "hasValidPlan": False,
        "createdAt": row["created_at_ms"],
        "stateUpdatedAt": row["created_at_ms"],
    }


def _range(bucket_id: int) -> tuple[bytes, bytes]:
    return bucket_id.to_bytes(4, "big"), (bucket_id + 1).to_bytes(4, "big")


def _key(bucket_id: int, created_at_ms: int, random: str) -> bytes:
    return bucket_id.to_bytes(4, "big") + created_at_ms.to_bytes(8, "big") + bytes.fromhex(random)


def _format_id(bucket_id: int, created_at_ms: int, random: str) -> str:
    return f"{bucket_id:08x}-{created_at_ms:016x}-{random}"
