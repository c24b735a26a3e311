"""One transcript per operation: what boto3 sends, and what it is answered.

`UPDATE_GOLDEN=1` rewrites them; people read the difference. Ids and tokens are numbered in the
order in which a transcript shows them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from s3tables import face
from tests.s3tables.tables_service import ACCOUNT, TablesService, bucket_arn, opened

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "s3tables"
BUCKET = bucket_arn("golden")
LOGS = "golden-logs"
"""A general bucket that takes access records."""
ORDERS = {"tableBucketARN": BUCKET, "namespace": "sales", "name": "orders"}
SCHEMA = {
    "schemaV2": {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "type": "long", "required": True},
            {"id": 2, "name": "day", "type": "date", "required": False},
        ],
    },
    "partitionSpec": {"fields": [{"sourceId": 2, "transform": "month", "name": "month"}]},
}
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
NUMBERED = re.compile(rf"(?P<uuid>{UUID})|(?P<token>(?<=\")[0-9a-f]{{20}}(?=\")|(?<=Token=)\w+)")


class Story:
    """Calls in order, and what was said in each."""

    def __init__(self, service: TablesService) -> None:
        self.service = service
        self.client = service.client()
        self.said: dict[str, list[str]] = {}

    def reads_a_bucket(self, operation: str) -> bool:
        """Say whether an operation gets something of a table bucket by its ARN alone."""
        shape = self.client.meta.service_model.operation_model(operation).input_shape
        is_get = operation.startswith("Get")
        return is_get and shape.required_members == ["tableBucketARN"]

    def call(self, operation: str, **members: Any) -> Any:
        """Call an operation; a refusal is part of the story."""
        try:
            answer = getattr(self.client, xform_name(operation))(**members)
        except ClientError as error:
            answer = error.response
        self.said.setdefault(operation, []).append(_transcript(*self.service.log[-1]))
        return answer


def _transcript(method: str, url: str, body: bytes, answer: Any) -> str:
    parts = urlsplit(url)
    lines = [f"> {method} {parts.path}"]
    lines += [f"> ? {unquote(pair)}" for pair in parts.query.split("&") if pair]
    lines += [f"> {line}" for line in _shown(body)]
    lines.append(f"< {answer.status}")
    for name in ("content-type", "x-amzn-ErrorType"):
        if name in answer.headers:
            lines.append(f"< {name}: {answer.headers[name]}")
    lines += [f"< {line}" for line in _shown(answer.body)]
    return "\n".join(lines) + "\n"


def _shown(body: bytes) -> list[str]:
    return json.dumps(json.loads(body), indent=2).splitlines() if body else []


def _number(text: str) -> str:
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        entity = match.lastgroup
        same = sum(alias.startswith(f"<{entity}") for alias in names.values())
        return names.setdefault(match[0], f"<{entity}-{same + 1}>")

    return NUMBERED.sub(name, text)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with opened(tmp_path_factory.mktemp("golden") / "data", encrypted_disk=True) as service:
        new_story = Story(service)
        _tell(new_story)
        yield new_story


def _tell(story: Story) -> None:
    call = story.call
    call("CreateTableBucket", name="golden", tags={"team": "lake"})
    call("CreateTableBucket", name="golden")
    call("CreateTableBucket", name="-golden")
    call("CreateTableBucket", name="Golden")
    call("ListTableBuckets", prefix="g", maxBuckets=1)
    call("ListTableBuckets", continuationToken="x")
    for operation in filter(story.reads_a_bucket, face.ROWS):
        call(operation, tableBucketARN=BUCKET)
        call(operation, tableBucketARN=bucket_arn("nowhere"))
    for configuration in (
        {"sseAlgorithm": "AES256"},
        {"sseAlgorithm": "aws:kms", "kmsKeyArn": "arn:aws:kms:us-east-1:000000000000:key/k"},
        {"sseAlgorithm": "aws:kms"},
    ):
        call(
            "PutTableBucketEncryption",
            tableBucketARN=BUCKET,
            encryptionConfiguration=configuration,
        )
    call("GetTableBucketEncryption", tableBucketARN=BUCKET)
    call("DeleteTableBucketEncryption", tableBucketARN=BUCKET)
    call("DeleteTableBucketEncryption", tableBucketARN=bucket_arn("nowhere"))
    for storage_class in ("STANDARD", "INTELLIGENT_TIERING"):
        call(
            "PutTableBucketStorageClass",
            tableBucketARN=BUCKET,
            storageClassConfiguration={"storageClass": storage_class},
        )
    call("CreateNamespace", tableBucketARN=BUCKET, namespace=["sales"])
    call("CreateNamespace", tableBucketARN=BUCKET, namespace=["sales"])
    call("CreateNamespace", tableBucketARN=BUCKET, namespace=["aws"])
    call("CreateNamespace", tableBucketARN=BUCKET, namespace=["other"])
    first = call("ListNamespaces", tableBucketARN=BUCKET, maxNamespaces=1)
    call("ListNamespaces", tableBucketARN=BUCKET, continuationToken=first["continuationToken"])
    call("GetNamespace", tableBucketARN=BUCKET, namespace="sales")
    call("GetNamespace", tableBucketARN=BUCKET, namespace="nowhere")
    call("CreateTable", **ORDERS, format="ICEBERG", metadata={"iceberg": SCHEMA})
    call("CreateTable", **{**ORDERS, "name": "empty"}, format="ICEBERG")
    call("CreateTable", **ORDERS, format="ICEBERG")
    call("CreateTable", **{**ORDERS, "name": "Bad!"}, format="DELTA")
    call("ListTables", tableBucketARN=BUCKET, namespace="sales", prefix="o")
    for operation in ("GetTableEncryption", "GetTableStorageClass"):
        call(operation, **ORDERS)
        call(operation, **{**ORDERS, "name": "nowhere"})
    call("ListTables", tableBucketARN=BUCKET, maxTables=0)
    table = call("GetTable", **ORDERS)
    call("GetTable", tableArn=table["tableARN"])
    call("GetTable", tableBucketARN=BUCKET, name="orders")
    _tell_policies(story, table["tableARN"])
    _tell_maintenance(story)
    _tell_absent(story, table["tableARN"])
    expiration = {"status": "enabled", "settings": {"days": 1}}
    call("PutTableRecordExpirationConfiguration", tableArn=table["tableARN"], value=expiration)
    for operation in (
        "GetTableRecordExpirationConfiguration",
        "GetTableRecordExpirationJobStatus",
        "GetTableReplication",
        "GetTableReplicationStatus",
    ):
        call(operation, tableArn=table["tableARN"])
    call("GetTableMetadataLocation", **ORDERS)
    call("GetTableMetadataLocation", **{**ORDERS, "name": "empty"})
    story.service.lake.clock.now_ms += 1000
    location = story.service.next_metadata(table["metadataLocation"], "00001.metadata.json")
    update = {**ORDERS, "versionToken": table["versionToken"], "metadataLocation": location}
    call("UpdateTableMetadataLocation", **update)
    call("UpdateTableMetadataLocation", **update)
    token = call("GetTableMetadataLocation", **ORDERS)["versionToken"]
    outside = {"versionToken": token, "metadataLocation": "s3://elsewhere/x.metadata.json"}
    call("UpdateTableMetadataLocation", **{**update, **outside})
    call("TagResource", resourceArn=table["tableARN"], tags={"team": "lake"})
    call("TagResource", resourceArn=table["tableARN"], tags={f"k{n}": "v" for n in range(50)})
    call("ListTagsForResource", resourceArn=table["tableARN"])
    call("ListTagsForResource", resourceArn=BUCKET)
    call("UntagResource", resourceArn=BUCKET, tagKeys=["team", "absent"])
    call("RenameTable", **ORDERS, newNamespaceName="other", newName="moved")
    call("RenameTable", **{**ORDERS, "name": "empty"}, newNamespaceName="nowhere")
    call("RenameTable", **{**ORDERS, "name": "empty"})
    moved = {**ORDERS, "namespace": "other", "name": "moved"}
    call("DeleteTable", **moved, versionToken=table["versionToken"])
    call("DeleteTable", **moved)
    call("DeleteTable", **moved)
    call("DeleteNamespace", tableBucketARN=BUCKET, namespace="sales")
    call("DeleteNamespace", tableBucketARN=BUCKET, namespace="other")
    call("DeleteTableBucket", tableBucketARN=BUCKET)
    call("DeleteTable", **{**ORDERS, "name": "empty"})
    call("DeleteNamespace", tableBucketARN=BUCKET, namespace="sales")
    call("DeleteTableBucket", tableBucketARN=BUCKET)


def _tell_logging(story: Story) -> None:
    call = story.call
    buckets = story.service.lake.storage.buckets
    story.service.run(
        buckets.create(LOGS, bucket_type="general", owner=ACCOUNT, region="us-east-1")
    )
    enabled = {
        "targetBucket": LOGS,
        "targetPrefix": "lake/",
        "targetObjectKeyFormat": {"partitionedPrefix": {"partitionDateSource": "EventTime"}},
    }
    status = {"loggingEnabled": enabled}
    call("PutTableBucketLogging", tableBucketARN=BUCKET, tableBucketLoggingStatus=status)
    policy = {
        "Statement": {
            "Effect": "Allow",
            "Principal": {"Service": "logging.s3.amazonaws.com"},
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{LOGS}/lake/*",
            "Condition": {"ArnEquals": {"aws:SourceArn": BUCKET}},
        }
    }
    story.service.run(buckets.update(LOGS, {"policy": json.dumps(policy)}))
    call("PutTableBucketLogging", tableBucketARN=BUCKET, tableBucketLoggingStatus=status)
    call("GetTableBucketLogging", tableBucketARN=BUCKET)
    absent = {"loggingEnabled": {**enabled, "targetBucket": "nowhere"}}
    call("PutTableBucketLogging", tableBucketARN=BUCKET, tableBucketLoggingStatus=absent)
    call("PutTableBucketLogging", tableBucketARN=BUCKET, tableBucketLoggingStatus={})
    call("GetTableBucketLogging", tableBucketARN=BUCKET)


def _tell_maintenance(story: Story) -> None:
    call = story.call
    removal = "icebergUnreferencedFileRemoval"
    put, get = "PutTableBucketMaintenanceConfiguration", "GetTableBucketMaintenanceConfiguration"
    bucket = {"tableBucketARN": BUCKET, "type": removal}
    call(put, **bucket, value={"settings": {removal: {"unreferencedDays": 5}}})
    call(get, tableBucketARN=BUCKET)
    call(put, **bucket, value={"status": "disabled"})
    call("GetTableMaintenanceJobStatus", **ORDERS)
    call(get, tableBucketARN=BUCKET)
    call(put, **bucket, value={"settings": {removal: {"nonCurrentDays": 0}}})
    call(put, **{**bucket, "type": "icebergCompaction"}, value={})
    call(put, **bucket, value={})
    put, get = "PutTableMaintenanceConfiguration", "GetTableMaintenanceConfiguration"
    compaction = {**ORDERS, "type": "icebergCompaction"}
    call(get, **ORDERS)
    call(put, **compaction, value={"settings": {"icebergCompaction": {"targetFileSizeMB": 64}}})
    call(put, **compaction, value={"settings": {"icebergCompaction": {"targetFileSizeMB": 63}}})
    call(put, **compaction, value={"settings": {"icebergCompaction": {"strategy": "sort"}}})
    call(put, **compaction, value={"settings": {"icebergSnapshotManagement": {}}})
    call(put, **{**ORDERS, "type": "icebergSnapshotManagement"}, value={"status": "disabled"})
    call(get, **ORDERS)
    call("GetTableMaintenanceJobStatus", **ORDERS)
    call("GetTableMaintenanceJobStatus", **{**ORDERS, "name": "nowhere"})


def _tell_absent(story: Story, table_arn: str) -> None:
    """What reads and deletions answer where there is nothing, and what is put."""
    call = story.call
    role = "arn:aws:iam::000000000000:role/replicator"
    target = BUCKET.replace("bucket/", "bucket/no-")
    destinations = [{"destinationTableBucketARN": target}]
    replication = {"role": role, "rules": [{"destinations": destinations}]}
    call("GetTableBucketMetricsConfiguration", tableBucketARN=BUCKET)
    _tell_logging(story)
    call("PutTableBucketMetricsConfiguration", tableBucketARN=BUCKET)
    call("GetTableBucketMetricsConfiguration", tableBucketARN=BUCKET)
    call("DeleteTableBucketMetricsConfiguration", tableBucketARN=BUCKET)
    call("PutTableBucketReplication", tableBucketARN=BUCKET, configuration=replication)
    call("PutTableReplication", tableArn=table_arn, configuration=replication)
    migration = {
        "roleARN": role,
        "destinationTable": {**ORDERS, "name": "migrated"},
        "sourceType": "glueTable",
        "source": {"glueTable": {"catalogId": "c", "databaseName": "d", "tableName": "t"}},
        "migrationOutput": {"bucket": "arn:aws:s3:::reports"},
    }
    started = call("StartTableMigration", **migration)
    call("GetTableMigration", migrationId=started["migrationId"])
    call(
        "SyncTableMigration",
        tableARN=table_arn,
        roleARN=role,
        migrationOutput={"bucket": "arn:aws:s3:::reports"},
    )
    call("DeleteTableBucketMetricsConfiguration", tableBucketARN=BUCKET)
    call("DeleteTableBucketReplication", tableBucketARN=BUCKET)
    call("DeleteTableReplication", tableArn=table_arn, versionToken="x")
    call("ListTableMigrations", tableBucketARN=BUCKET)
    call("ListTableMigrations", nextToken="x")
    call("GetTableMigration", migrationId="m")
    call("GetTableMigration", migrationId="m", tableARN=table_arn)
    call("UpdateTableMigration", migrationId="m", requestedState="queued")
    call("CompleteTableMigration", tableARN=table_arn)


def _tell_policies(story: Story, table_arn: str) -> None:
    call = story.call
    bucket = {"tableBucketARN": BUCKET}
    for name, where, arn in (
        ("TableBucketPolicy", bucket, BUCKET),
        ("TablePolicy", ORDERS, table_arn),
    ):
        statement = {
            "Effect": "Deny",
            "Principal": {"AWS": "arn:aws:iam::000000000000:user/alice"},
            "Action": "s3tables:GetTableData",
            "Resource": arn,
        }
        for change in (
            {},
            {"Action": "s3tables:GetTabelData"},
            {"Resource": "arn:aws:s3:::golden"},
            {"Effect": "Allow", "Principal": "*"},
        ):
            document = {"Version": "2012-10-17", "Statement": [{**statement, **change}]}
            call(f"Put{name}", **where, resourcePolicy=json.dumps(document))
        call(f"Put{name}", **where, resourcePolicy="")
        call(f"Get{name}", **where)
        call(f"Delete{name}", **where)
        call(f"Delete{name}", **where)
        call(f"Get{name}", **where)


def test_the_story_calls_every_operation_that_is_done(story: Story) -> None:
    assert story.said.keys() == face.ROWS.keys()


@pytest.mark.parametrize("operation", sorted(face.ROWS))
def test_transcript_is_as_it_was(story: Story, operation: str) -> None:
    text = _number("\n".join(story.said[operation]))
    place = GOLDEN / f"{operation}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    assert text == place.read_text()
