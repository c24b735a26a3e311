"""A server whose disk is full: every face refuses writes in its own words, and goes on reading."""

from __future__ import annotations

import datetime
import functools
import json
import resource
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import config, exceptions
from pyiceberg import exceptions as iceberg_errors

from pipeline import loads, settings
from sql import shell
from tests.kit import lake_client, small_disk
from tests.kit import server as server_kit

DISK_MIB = 48
SIZES = (1_000_000, 100_000, 30_000, 9)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[server_kit.Running]:
    with small_disk.mounted(tmp_path / "disk", mib=DISK_MIB) as disk:
        running = server_kit.start(disk / "data")
        try:
            yield running
        finally:
            assert running.stop() == 0


def client(running: server_kit.Running, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
        config=config.Config(retries={"total_max_attempts": 1}),
    )


def fill(s3: Any) -> list[str]:
    """Put ever smaller objects until the disk takes none; return the keys.

    What ran before frees room a moment later (spools, the audit log's turn), so that the disk is
    full only when half a second has brought no room for another object.
    """
    keys: list[str] = []
    before = -1
    while len(keys) > before:
        if before >= 0:
            time.sleep(0.5)
        before = len(keys)
        for size_bytes in SIZES:
            while True:
                key = f"{size_bytes}-{len(keys):05d}"
                try:
                    s3.put_object(Bucket="raw", Key=key, Body=b"x" * size_bytes)
                except exceptions.ClientError:
                    break
                keys.append(key)
    return keys


def refused(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(exceptions.ClientError) as caught:
        call()
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def health(running: server_kit.Running) -> Any:
    status, body = server_kit.get(running.url + "/_health")
    assert status == 200
    return json.loads(body)["status"]


def metrics(running: server_kit.Running) -> int:
    where = settings.ServerEndpoint(
        url=running.url,
        access_key=running.access_key,
        secret_key=running.secret_key,
        region="us-east-1",
    )
    request = urllib.request.Request(
        f"{running.url}/_metrics", headers={"Authorization": f"Bearer {loads.token(where)}"}
    )
    with urllib.request.urlopen(request) as answer:
        return int(answer.status)


def test_a_full_disk_refuses_writes_at_every_face_and_everything_else_goes_on(
    server: server_kit.Running,
) -> None:
    s3, s3tables = client(server, "s3"), client(server, "s3tables")
    catalog = lake_client.catalog(server)
    s3.create_bucket(Bucket="raw")
    catalog.create_namespace("ns")
    assert health(server) == "ok"
    with lake_client.session(server, "ns") as sql:
        sql.rows("create table t (a int)")
        sql.rows("insert into t values (1), (2)")
        assert sql.rows("select sum(a) from t") == [(3,)]
        sql.rows("create table unread as select * from t")
        keys = fill(s3)
        assert len(keys) > 10

        for number in range(10):
            for text in (
                "insert into t values (3)",
                "insert into t select * from t",
                "create table u as select * from t",
                f"create table w{number} (a int)",
                f"create schema s{number}",
            ):
                with pytest.raises(shell.ShellError, match=r"^000625 \(53100\): .*disk is full"):
                    sql.rows(text)
        for size_bytes in (10, 100_000):
            body = b"y" * size_bytes
            assert refused(lambda body=body: s3.put_object(Bucket="raw", Key="n", Body=body)) == (
                507, "InsufficientStorage",
            )  # fmt: skip
        assert refused(lambda: s3.create_bucket(Bucket="more")) == (507, "InsufficientStorage")
        (arn,) = [bucket["arn"] for bucket in s3tables.list_table_buckets()["tableBuckets"]]
        assert refused(
            lambda: s3tables.create_namespace(tableBucketARN=arn, namespace=["more"])
        ) == (507, "InsufficientStorageException")
        with pytest.raises(iceberg_errors.ServerError, match="InsufficientStorageException"):
            catalog.create_namespace("more")

        assert health(server) == "disk full"
        assert metrics(server) == 200
        assert sql.rows("select a, row_number() over (order by a desc) from t order by a") == [
            (1, 2), (2, 1),
        ]  # fmt: skip
        assert sql.rows("select sum(a), count(*) from unread where a > 0") == [(3, 2)]
        assert len(sql.rows("show tables in ns")) == 2
        with lake_client.session(server, "ns") as another:
            assert another.rows("select count(*) from t") == [(2,)]
        assert len(s3.get_object(Bucket="raw", Key=keys[0])["Body"].read()) == SIZES[0]
        assert s3.list_objects_v2(Bucket="raw", MaxKeys=3)["KeyCount"] == 3
        assert catalog.list_tables("ns") == [("ns", "t"), ("ns", "unread")]
        assert catalog.load_table("ns.t").current_snapshot() is not None
        logs = [path.stat().st_size for path in (server.data / "audit").iterdir()]
        assert [size_bytes for size_bytes in logs if not size_bytes] == []

        for key in keys:
            s3.delete_object(Bucket="raw", Key=key)
        sql.rows("drop table t")
        assert len(sql.rows("show tables in ns")) == 1


def writes_of_s3(s3: Any, upload_id: str, etag: str) -> dict[str, Callable[[], Any]]:
    """Return a call of every operation that stores something, by name."""
    raw = functools.partial(dict, Bucket="raw")
    locked = functools.partial(dict, Bucket="locked")
    upload = raw(Key="upload", UploadId=upload_id)
    rule = {"ID": "a", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 900}}
    cors = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    until = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    lock = {"ObjectLockEnabled": "Enabled"}
    ownership = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    policy = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetBucketCORS"}
    statement = {**policy, "Resource": "arn:aws:s3:::raw"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    calls: dict[str, tuple[Any, dict[str, Any]]] = {
        "copy": (s3.copy_object, raw(Key="n", CopySource="raw/source")),
        "create upload": (s3.create_multipart_upload, raw(Key="n")),
        "part": (s3.upload_part, {**upload, "PartNumber": 2, "Body": b"z" * 99_999}),
        "part copy": (
            s3.upload_part_copy,
            {**upload, "PartNumber": 3, "CopySource": "raw/source"},
        ),
        "tags": (s3.put_object_tagging, raw(Key="source", Tagging=tags)),
        "acl": (s3.put_object_acl, raw(Key="source", ACL="public-read")),
        "hold": (s3.put_object_legal_hold, locked(Key="v", LegalHold={"Status": "ON"})),
        "release": (s3.put_object_legal_hold, locked(Key="v", LegalHold={"Status": "OFF"})),
        "retention": (s3.put_object_retention, locked(Key="w", Retention=retention)),
        "version": (s3.put_object, locked(Key="v", Body=b"a")),
        "bucket tags": (s3.put_bucket_tagging, raw(Tagging=tags)),
        "cors": (s3.put_bucket_cors, raw(CORSConfiguration=cors)),
        "policy": (s3.put_bucket_policy, raw(Policy=document)),
        "lifecycle": (
            s3.put_bucket_lifecycle_configuration,
            raw(LifecycleConfiguration={"Rules": [rule]}),
        ),
        "ownership": (s3.put_bucket_ownership_controls, raw(OwnershipControls=ownership)),
        "block": (
            s3.put_public_access_block,
            raw(PublicAccessBlockConfiguration={"BlockPublicAcls": False}),
        ),
        "bucket acl": (s3.put_bucket_acl, raw(ACL="private")),
        "lock": (s3.put_object_lock_configuration, locked(ObjectLockConfiguration=lock)),
        "versioning": (
            s3.put_bucket_versioning,
            {"Bucket": "later", "VersioningConfiguration": {"Status": "Enabled"}},
        ),
        "complete": (
            s3.complete_multipart_upload,
            {**upload, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": etag}]}},
        ),
    }
    return {name: functools.partial(call, **fields) for name, (call, fields) in calls.items()}


def test_every_write_of_s3_is_refused_on_a_full_disk_and_done_when_there_is_room(
    server: server_kit.Running,
) -> None:
    s3 = client(server, "s3")
    for bucket in ("raw", "later"):
        s3.create_bucket(Bucket=bucket)
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="raw", Key="source", Body=b"s" * 200_000)
    for key in "vw":
        s3.put_object(Bucket="locked", Key=key, Body=b"first")
    upload_id = s3.create_multipart_upload(Bucket="raw", Key="upload")["UploadId"]
    upload = {"Bucket": "raw", "Key": "upload", "UploadId": upload_id}
    etag = s3.upload_part(**upload, PartNumber=1, Body=b"p" * 100_000)["ETag"]
    writes = writes_of_s3(s3, upload_id, etag)
    other_file = server.data.parent / "other"
    other_file.write_bytes(b"x" * (8 << 20))
    assert len(fill(s3)) > 10
    outcomes = {name: refused(call) for name, call in writes.items()}
    assert set(outcomes.values()) == {(507, "InsufficientStorage")}, outcomes
    listed = s3.list_object_versions(Bucket="locked")
    assert [each["Key"] for each in listed["Versions"]] == ["v", "w"]
    assert "DeleteMarkers" not in listed
    assert [each["PartNumber"] for each in s3.list_parts(**upload)["Parts"]] == [1]
    assert s3.list_objects_v2(Bucket="raw", Prefix="n")["KeyCount"] == 0
    assert s3.get_object_tagging(Bucket="raw", Key="source")["TagSet"] == []
    other_file.unlink()
    deadline = time.monotonic() + 60
    while health(server) != "ok":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for call in writes.values():
        call()
    assert len(s3.get_object(Bucket="raw", Key="upload")["Body"].read()) == 100_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_disk_that_takes_no_writes_is_named_at_every_face_and_reads_go_on(
    tmp_path: Path,
) -> None:
    running = server_kit.start(tmp_path / "data")
    limits = resource.prlimit(running.pid, resource.RLIMIT_FSIZE)
    try:
        s3, s3tables = client(running, "s3"), client(running, "s3tables")
        catalog = lake_client.catalog(running)
        s3.create_bucket(Bucket="raw")
        s3.put_object(Bucket="raw", Key="a", Body=b"a" * 300_000)
        (arn,) = [bucket["arn"] for bucket in s3tables.list_table_buckets()["tableBuckets"]]
        catalog.create_namespace("ns")
        with lake_client.session(running, "ns") as sql:
            sql.rows("create table t (a int)")
            sql.rows("insert into t values (1), (2)")
            # The limit also binds the spare cache in memory: the table's file is prepared before.
            assert sql.rows("select sum(a), count(*) from t where a > 0") == [(3, 2)]
            # The system refuses every write to a file, as it does on a read-only file system.
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
            for text in (
                "insert into t values (3)",
                "create table u as select * from t",
                "create table w (a int)",
                "create schema s",
            ):
                with pytest.raises(shell.ShellError, match=r"^000625 \(58030\): .*no writes"):
                    sql.rows(text)
            for size_bytes in (10, 300_000):
                put = functools.partial(
                    s3.put_object, Bucket="raw", Key="n", Body=b"y" * size_bytes
                )
                assert refused(put) == (503, "ServiceUnavailable")
            assert refused(lambda: s3.create_multipart_upload(Bucket="raw", Key="n")) == (
                503, "ServiceUnavailable",
            )  # fmt: skip
            assert refused(lambda: s3.delete_object(Bucket="raw", Key="a")) == (
                503, "ServiceUnavailable",
            )  # fmt: skip
            assert refused(
                lambda: s3tables.create_namespace(tableBucketARN=arn, namespace=["more"])
            ) == (503, "ServiceUnavailableException")
            with pytest.raises(iceberg_errors.ServerError, match="no writes"):
                catalog.create_namespace("more")
            # The audit log's lines are written a tenth of a second later.
            deadline = time.monotonic() + 60
            while health(running) == "ok":
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert metrics(running) == 200
            assert sql.rows("select sum(a), count(*) from t where a > 0") == [(3, 2)]
            assert len(s3.get_object(Bucket="raw", Key="a")["Body"].read()) == 300_000
            assert s3.list_objects_v2(Bucket="raw")["KeyCount"] == 1
            assert catalog.list_tables("ns") == [("ns", "t")]
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, limits)
            s3.delete_object(Bucket="raw", Key="a")
            deadline = time.monotonic() + 60
            while health(running) != "ok":
                assert time.monotonic() < deadline
                time.sleep(0.1)
            sql.rows("insert into t values (3)")
            assert sql.rows("select sum(a) from t where a > 0") == [(6,)]
    finally:
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, limits)
        assert running.stop() == 0
