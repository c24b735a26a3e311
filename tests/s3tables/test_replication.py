"""Metrics and replication settings, and migrations: what is stored, shown and refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from s3tables import migrations, replication
from tests.kit import lakes
from tests.s3tables import tables_service
from tests.s3tables.tables_service import TablesService, refused

BUCKET = tables_service.bucket_arn("lake")
TARGET = tables_service.bucket_arn("target")
ROLE = "arn:aws:iam::000000000000:role/replicator"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TablesService]:
    lister = [
        tables_service.policy(tables_service.allow("s3tables:*Migration*", "*")),
    ]
    with tables_service.opened(tmp_path / "data", users={"migrator": lister, "none": []}) as opened:
        client = opened.client()
        client.create_table_bucket(name="target")
        client.create_namespace(tableBucketARN=BUCKET, namespace=["ns"])
        yield opened


@pytest.fixture
def client(service: TablesService) -> Any:
    return service.client()


def configuration(*targets: str, role: str = ROLE) -> dict[str, Any]:
    destinations = [{"destinationTableBucketARN": each} for each in targets or (TARGET,)]
    return {"role": role, "rules": [{"destinations": destinations}]}


def table_of(client: Any) -> str:
    created = client.create_table(tableBucketARN=BUCKET, namespace="ns", name="t", format="ICEBERG")
    return str(created["tableARN"])


def test_a_metrics_configuration_counts_the_commits_of_its_bucket(
    service: TablesService, client: Any
) -> None:
    bucket = {"tableBucketARN": BUCKET}
    client.put_table_bucket_metrics_configuration(**bucket)
    first = client.get_table_bucket_metrics_configuration(**bucket)
    assert first["tableBucketARN"] == BUCKET
    client.put_table_bucket_metrics_configuration(**bucket)
    assert client.get_table_bucket_metrics_configuration(**bucket)["id"] == first["id"]
    line = 'boathouse_table_bucket_commits_total{table_bucket="lake"} '
    assert f"{line}{len(service.lake.log())}\n" in metrics_of(service)
    client.delete_table_bucket_metrics_configuration(**bucket)
    assert line not in metrics_of(service)
    for operation in ("get", "delete"):
        call = getattr(client, f"{operation}_table_bucket_metrics_configuration")
        assert refused(call, **bucket)[:2] == (404, "NotFoundException")


def metrics_of(service: TablesService) -> str:
    lines = replication.format_metrics(service.lake.storage.buckets, service.lake.storage.index)
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("of", ["bucket", "table"])
def test_replication_settings_are_kept_with_a_token_that_later_changes_need(
    client: Any, of: str
) -> None:
    if of == "table":
        where = {"tableArn": table_of(client)}
        put, get = client.put_table_replication, client.get_table_replication
        delete = client.delete_table_replication
    else:
        where = {"tableBucketARN": BUCKET}
        put, get = client.put_table_bucket_replication, client.get_table_bucket_replication
        delete = client.delete_table_bucket_replication
    first = put(**where, configuration=configuration())
    assert first["status"] == "failed"
    shown = get(**where)
    assert shown["configuration"] == configuration()
    assert shown["versionToken"] == first["versionToken"]
    again = refused(put, **where, configuration=configuration())
    assert again == (400, "BadRequestException", "A version token is not specified.")
    stale = refused(put, **where, configuration=configuration(), versionToken="stale")
    assert stale[:2] == (409, "ConflictException")
    second = put(**where, configuration=configuration(), versionToken=first["versionToken"])
    assert second["versionToken"] != first["versionToken"]
    gone = refused(delete, **where, versionToken=first["versionToken"])
    assert gone[:2] == (409, "ConflictException")
    delete(**where, versionToken=second["versionToken"])
    assert refused(get, **where)[:2] == (404, "NotFoundException")


@pytest.mark.parametrize("of", ["bucket", "table"])
def test_the_status_of_a_replication_says_that_nothing_was_replicated(client: Any, of: str) -> None:
    arn = table_of(client)
    status = client.get_table_replication_status
    assert refused(status, tableArn=arn)[:2] == (404, "NotFoundException")
    if of == "table":
        client.put_table_replication(tableArn=arn, configuration=configuration())
    else:
        client.put_table_bucket_replication(tableBucketARN=BUCKET, configuration=configuration())
    answer = status(tableArn=arn)
    assert answer["sourceTableArn"] == arn
    (destination,) = answer["destinations"]
    assert destination["replicationStatus"] == "failed"
    assert destination["destinationTableBucketArn"] == TARGET
    assert "no job of the server obeys them" in destination["failureMessage"]


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (configuration(BUCKET), 400),
        (configuration(TARGET, TARGET), 400),
        (configuration(role="arn:aws:iam::111111111111:role/replicator"), 400),
        (configuration(tables_service.bucket_arn("absent")), 404),
        (configuration(TARGET.replace("000000000000", "111111111111")), 404),
    ],
)
def test_replication_settings_that_cannot_work_are_refused(
    client: Any, settings: dict[str, Any], status: int
) -> None:
    put = client.put_table_bucket_replication
    assert refused(put, tableBucketARN=BUCKET, configuration=settings)[0] == status
    get = client.get_table_bucket_replication
    assert refused(get, tableBucketARN=BUCKET)[0] == 404


def migration(**more: Any) -> dict[str, Any]:
    destination = {"tableBucketARN": BUCKET, "namespace": "ns", "name": "m"}
    glue = {"catalogId": "000000000000", "databaseName": "db", "tableName": "t"}
    return {
        "roleARN": ROLE,
        "destinationTable": destination,
        "sourceType": "glueTable",
        "source": {"glueTable": glue},
        "migrationOutput": {
            "bucket": "arn:aws:s3:::reports",
            "prefixes": {"objectMigrationReport": "m/"},
        },
        **more,
    }


def test_a_migration_is_stored_and_has_failed_for_its_source(
    service: TablesService, client: Any
) -> None:
    started = client.start_table_migration(**migration(reviewMigrationPlan=True))
    assert started["state"] == "failed"
    shown = client.get_table_migration(migrationId=started["migrationId"])
    assert shown["failureReason"]["code"] == "sourceNotSupported"
    assert shown["createdAt"] == shown["stateUpdatedAt"]
    assert int(shown["createdAt"].timestamp() * 1000) == lakes.NOW_MS
    assert shown["source"] == migration()["source"]
    assert shown["reviewMigrationPlan"] is True
    assert shown["migrationOutput"]["objectMigrationReport"] == {"prefix": "m/"}
    assert shown["dataMigration"] == {"maintenanceSettings": {}, "migrationPolicies": {}}
    for requested in ("queued", "cancelled"):
        answer = refused(
            client.update_table_migration,
            migrationId=started["migrationId"],
            requestedState=requested,
        )
        assert answer[:2] == (409, "ConflictException")


def test_migrations_are_listed_in_pages_and_by_state_and_name(
    service: TablesService, client: Any
) -> None:
    ids = []
    for name in ("a", "b", "c"):
        service.lake.clock.now_ms += 1
        destination = {"tableBucketARN": BUCKET, "namespace": "ns", "name": name}
        ids.append(
            client.start_table_migration(**migration(destinationTable=destination))["migrationId"]
        )
    first = client.list_table_migrations(tableBucketARN=BUCKET, maxResults=2)
    second = client.list_table_migrations(tableBucketARN=BUCKET, nextToken=first["nextToken"])
    pages = [[each["migrationId"] for each in page["migrations"]] for page in (first, second)]
    assert pages == [ids[:2], ids[2:]]
    assert "nextToken" not in second
    named = client.list_table_migrations(namespace="ns", name="b", state="failed")["migrations"]
    assert [each["migrationId"] for each in named] == [ids[1]]
    assert client.list_table_migrations(state="succeeded")["migrations"] == []
    assert client.list_table_migrations(tableBucketARN=TARGET)["migrations"] == []


def test_only_the_newest_migrations_of_a_bucket_are_kept(
    service: TablesService, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "MIGRATIONS_MAX", 2)
    ids = []
    for _ in range(3):
        service.lake.clock.now_ms += 1
        ids.append(client.start_table_migration(**migration())["migrationId"])
    listed = client.list_table_migrations()["migrations"]
    assert [each["migrationId"] for each in listed] == ids[1:]
    gone = refused(client.get_table_migration, migrationId=ids[0])
    assert gone[:2] == (404, "NotFoundException")


def test_a_migration_is_shown_to_those_who_may_see_its_bucket(
    service: TablesService, client: Any
) -> None:
    started = client.start_table_migration(**migration())
    other = service.client("migrator")
    assert other.get_table_migration(migrationId=started["migrationId"])["state"] == "failed"
    assert len(other.list_table_migrations()["migrations"]) == 1
    none = service.client("none")
    for call, members in (
        (none.start_table_migration, migration()),
        (none.get_table_migration, {"migrationId": started["migrationId"]}),
        (none.list_table_migrations, {}),
    ):
        assert refused(call, **members)[0] == 403


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"source": {}}, 400),
        ({"roleARN": "arn:aws:iam::111111111111:role/replicator"}, 400),
        (
            {"destinationTable": {"tableBucketARN": BUCKET, "namespace": "ns", "name": "_m"}},
            400,
        ),
        (
            {
                "destinationTable": {
                    "tableBucketARN": tables_service.bucket_arn("absent"),
                    "namespace": "ns",
                    "name": "m",
                }
            },
            404,
        ),
        (
            {
                "destinationTable": {
                    "tableBucketARN": BUCKET,
                    "namespace": "ns",
                    "name": "m",
                    "properties": {"icebergFormatVersion": 9},
                }
            },
            400,
        ),
    ],
)
def test_a_migration_that_is_malformed_is_refused_and_not_stored(
    client: Any, more: dict[str, Any], status: int
) -> None:
    assert refused(client.start_table_migration, **migration(**more))[0] == status
    assert client.list_table_migrations()["migrations"] == []


def test_a_table_that_no_migration_made_is_neither_synced_nor_completed(client: Any) -> None:
    arn = table_of(client)
    output = migration()["migrationOutput"]
    sync = refused(client.sync_table_migration, roleARN=ROLE, tableARN=arn, migrationOutput=output)
    assert sync[:2] == (404, "NotFoundException")
    assert refused(client.complete_table_migration, tableARN=arn)[:2] == (404, "NotFoundException")
    exists = {"tableBucketARN": BUCKET, "namespace": "ns", "name": "t"}
    again = refused(client.start_table_migration, **migration(destinationTable=exists))
    assert again[:2] == (409, "ConflictException")
