"""Access records on their way: requests over a socket, and the objects that they become."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from program.application import Program
from server import limits
from server.accesslogs import delivery
from storage import errors
from tests.kit import programs, waits
from tests.server.accesslogs.test_lines import FIELDS

ACCOUNT = "000000000000"
ROOT = ("ROOTKEY", "root-secret")
LOGGED_AT_MS = 1_800_000_000_000
DAY = "2027/01/15"
"""The day of LOGGED_AT_MS."""


@dataclass
class Clock:
    """A clock that a test sets."""

    now_ms: int = LOGGED_AT_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True)
class LoggingServer:
    """A running server, and clients of it."""

    program: Program
    run: Callable[[Any], Any]
    port: int
    clock: Clock

    def client(
        self, service: str = "s3", keys: tuple[str, str] = ("ROOTKEY", "root-secret")
    ) -> Any:
        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            config=botocore.config.Config(
                retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}
            ),
        )

    def deliver(self) -> None:
        self.run(self.program.access_logs.deliver())

    def wait_for(self, condition: Callable[[], object]) -> None:
        ends_at = time.monotonic() + waits.WAIT_SECONDS
        while not condition():
            assert time.monotonic() < ends_at
            self.deliver()

    def records(self, bucket: str, count: int, prefix: str = "") -> list[list[str]]:
        """The fields of every record in a bucket, object by object, once there are count.

        A request's record is queued after its answer, which the client may have read before.
        """
        s3 = self.client()
        ends_at = time.monotonic() + waits.WAIT_SECONDS
        while True:
            self.deliver()
            listing = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
            bodies = [
                s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read().decode()
                for each in listing.get("Contents", [])
            ]
            lines = [FIELDS.findall(line) for body in bodies for line in body.splitlines()]
            if len(lines) >= count:
                return lines
            assert time.monotonic() < ends_at, lines


@contextmanager
def open_server(folder: Path, clock: Clock | None = None, **users: Any) -> Iterator[LoggingServer]:
    clock = clock or Clock()
    people = list(programs.users(users).values())
    with (
        programs.opened(folder, users=people) as (program, settings),
        programs.serving(program, settings) as serving,
    ):
        program.access_logs._now_ms = clock
        yield LoggingServer(program, serving.run, serving.port, clock)


def allow_delivery(client: Any, bucket: str, **condition: Any) -> None:
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": "logging.s3.amazonaws.com"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    if condition:
        statement["Condition"] = condition
    client.put_bucket_policy(
        Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    )


def status(target: str, prefix: str = "logs/", **key_format: Any) -> dict[str, Any]:
    enabled: dict[str, Any] = {"TargetBucket": target, "TargetPrefix": prefix}
    if key_format:
        enabled["TargetObjectKeyFormat"] = key_format
    return {"LoggingEnabled": enabled}


def tables_status(target: str, prefix: str = "lake/", source: str = "EventTime") -> dict[str, Any]:
    partition = {"partitionedPrefix": {"partitionDateSource": source}}
    return {
        "loggingEnabled": {
            "targetBucket": target,
            "targetPrefix": prefix,
            "targetObjectKeyFormat": partition,
        }
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggingServer]:
    with open_server(tmp_path_factory.mktemp("logs") / "data") as opened:
        yield opened


@pytest.fixture
def buckets(server: LoggingServer, request: pytest.FixtureRequest) -> tuple[str, str]:
    """A bucket, and one that may receive its records."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name)[-40:].strip("-")
    s3 = server.client()
    source, target = f"s-{stem}", f"t-{stem}"
    s3.create_bucket(Bucket=source)
    s3.create_bucket(Bucket=target)
    allow_delivery(s3, target)
    return source, target


def test_requests_to_a_bucket_are_delivered_as_one_object_of_lines(
    server: LoggingServer, buckets: tuple[str, str]
) -> None:
    source, target = buckets
    s3 = server.client()
    s3.put_object(Bucket=source, Key="before", Body=b"not logged")
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    s3.put_object(Bucket=source, Key="a b", Body=b"123")
    s3.get_object(Bucket=source, Key="a b")
    with pytest.raises(ClientError):
        s3.get_object(Bucket=source, Key="absent")
    put, get, absent = server.records(target, 3)
    key = s3.list_objects_v2(Bucket=target)["Contents"][0]["Key"]
    assert re.fullmatch(r"logs/2027-01-15-08-00-00-[0-9A-F]{16}", key)
    assert s3.head_object(Bucket=target, Key=key)["ContentType"] == "text/plain"
    root_id = s3.list_buckets()["Owner"]["ID"]
    assert put[:3] == [root_id, source, "[15/Jan/2027:08:00:00 +0000]"]
    assert put[4] == root_id
    assert put[6:8] == ["REST.PUT.OBJECT", "a%20b"]
    assert put[8] == f'"PUT /{source}/a%20b HTTP/1.1"'
    assert [put[9], put[10], put[11], put[12]] == ["200", "-", "-", "3"]
    assert [get[6], get[9], get[11], get[12]] == ["REST.GET.OBJECT", "200", "3", "3"]
    assert [absent[9], absent[10]] == ["404", "NoSuchKey"]
    assert put[19:23] == ["SigV4", "-", "AuthHeader", f"127.0.0.1:{server.port}"]


def test_refused_requests_are_logged_with_their_requester(tmp_path: Path) -> None:
    with open_server(tmp_path / "data", ana=[]) as server:
        s3 = server.client()
        for name in ("source", "target"):
            s3.create_bucket(Bucket=name)
        allow_delivery(s3, "target")
        s3.put_bucket_logging(Bucket="source", BucketLoggingStatus=status("target"))
        for keys in (("ANAKEY", "ana-secret"), ("ANAKEY", "wrong")):
            with pytest.raises(ClientError):
                server.client(keys=keys).get_object(Bucket="source", Key="k")
        denied, unproven = server.records("target", 2)
        assert denied[4] == f"arn:aws:iam::{ACCOUNT}:user/ana"
        assert denied[9:11] == ["403", "AccessDenied"]
        assert unproven[4] == "-"
        assert unproven[9:11] == ["403", "SignatureDoesNotMatch"]


def test_the_configuration_is_shown_as_it_was_put_and_can_be_removed(
    server: LoggingServer, buckets: tuple[str, str]
) -> None:
    source, target = buckets
    s3 = server.client()
    for key_format, shown in (
        ({}, None),  # as recordings of AWS have it
        ({"SimplePrefix": {}}, {"SimplePrefix": {}}),
        ({"PartitionedPrefix": {}}, {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}),
        (
            {"PartitionedPrefix": {"PartitionDateSource": "DeliveryTime"}},
            {"PartitionedPrefix": {"PartitionDateSource": "DeliveryTime"}},
        ),
    ):
        s3.put_bucket_logging(
            Bucket=source, BucketLoggingStatus=status(target, "p<&/", **key_format)
        )
        expected: dict[str, Any] = {"TargetBucket": target, "TargetPrefix": "p<&/"}
        if shown is not None:
            expected["TargetObjectKeyFormat"] = shown
        assert s3.get_bucket_logging(Bucket=source)["LoggingEnabled"] == expected
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus={})
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=source)
    before = len(server.records(target, 8))
    s3.list_objects_v2(Bucket=source)
    assert len(server.records(target, before)) == before


def test_partitions_are_by_the_day_of_the_requests_or_of_the_delivery(tmp_path: Path) -> None:
    clock = Clock()
    with open_server(tmp_path / "data", clock) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="target")
        allow_delivery(s3, "target")
        for source in ("EventTime", "DeliveryTime"):
            name = source.lower()
            s3.create_bucket(Bucket=name)
            partition = {"PartitionedPrefix": {"PartitionDateSource": source}}
            s3.put_bucket_logging(
                Bucket=name, BucketLoggingStatus=status("target", "", **partition)
            )
        for day in range(2):
            clock.now_ms = LOGGED_AT_MS + day * 86_400_000
            for name in ("eventtime", "deliverytime"):
                s3.head_bucket(Bucket=name)
        assert len(server.records("target", 4)) == 4
        keys = [each["Key"][:-17] for each in s3.list_objects_v2(Bucket="target")["Contents"]]
        stem = f"{ACCOUNT}/us-east-1"
        assert keys == [
            f"{stem}/deliverytime/2027/01/16/2027-01-16-08-00-00",
            f"{stem}/eventtime/2027/01/15/2027-01-15-00-00-00",
            f"{stem}/eventtime/2027/01/16/2027-01-16-00-00-00",
        ]
        operations = [fields[6] for fields in server.records("target", 2, f"{stem}/eventtime")]
        assert operations == ["REST.HEAD.BUCKET", "REST.HEAD.BUCKET"]


def test_requests_to_a_table_bucket_are_logged_whatever_their_protocol(
    server: LoggingServer,
) -> None:
    s3, tables = server.client(), server.client("s3tables")
    s3.create_bucket(Bucket="table-logs")
    allow_delivery(s3, "table-logs")
    arn = tables.create_table_bucket(name="logged")["arn"]
    tables.put_table_bucket_logging(
        tableBucketARN=arn, tableBucketLoggingStatus=tables_status("table-logs")
    )
    shown = tables.get_table_bucket_logging(tableBucketARN=arn)["tableBucketLoggingStatus"]
    assert shown == tables_status("table-logs")
    tables.create_namespace(tableBucketARN=arn, namespace=["sales"])
    with pytest.raises(tables.exceptions.NotFoundException):
        tables.get_table(tableBucketARN=arn, namespace="sales", name="absent")
    s3.list_objects_v2(Bucket="logged")
    answer = server.run(_list_namespaces(server, "logged"))
    assert answer == 200
    records = server.records("table-logs", 5)
    key = s3.list_objects_v2(Bucket="table-logs")["Contents"][0]["Key"]
    assert key.startswith(f"lake/{ACCOUNT}/us-east-1/logged/{DAY}/2027-01-15-00-00-00-")
    assert [(fields[6], fields[9], fields[10]) for fields in records] == [
        ("S3TABLES.GetTableBucketLogging", "200", "-"),
        ("S3TABLES.CreateNamespace", "200", "-"),
        ("S3TABLES.GetTable", "404", "NotFoundException"),
        ("REST.GET.BUCKET", "200", "-"),
        ("ICEBERG.listNamespaces", "200", "-"),
    ]
    assert {fields[1] for fields in records} == {"logged"}
    tables.put_table_bucket_logging(tableBucketARN=arn, tableBucketLoggingStatus={})
    assert tables.get_table_bucket_logging(tableBucketARN=arn)["tableBucketLoggingStatus"] == {}


async def _list_namespaces(server: LoggingServer, warehouse: str) -> int:
    """List a warehouse's namespaces through the REST catalog, with an OAuth token."""
    root = f"http://127.0.0.1:{server.port}/iceberg/v1"

    def ask() -> int:
        form = {
            "grant_type": "client_credentials",
            "client_id": "ROOTKEY",
            "client_secret": "root-secret",
        }
        data = urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(f"{root}/oauth/tokens", data, timeout=60) as response:
            token = json.load(response)["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{root}/{warehouse}/namespaces", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)

    return await asyncio.to_thread(ask)


def test_a_target_that_cannot_receive_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with open_server(tmp_path / "data") as server:
        s3, tables = server.client(), server.client("s3tables")
        arn = tables.create_table_bucket(name="a-table-bucket")["arn"]
        for name in ("source", "closed", "open"):
            s3.create_bucket(Bucket=name)
        s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        allow_delivery(s3, "open")
        allow_delivery(s3, "locked")
        s3.put_object_lock_configuration(
            Bucket="locked",
            ObjectLockConfiguration={
                "ObjectLockEnabled": "Enabled",
                "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
            },
        )
        for target in ("absent", "closed", "locked", "a-table-bucket"):
            with pytest.raises(ClientError) as refusal:
                s3.put_bucket_logging(Bucket="source", BucketLoggingStatus=status(target))
            error = refusal.value.response
            assert error["Error"]["Code"] == "InvalidTargetBucketForLogging", target
            assert error["Error"]["TargetBucket"] == target
            assert error["ResponseMetadata"]["HTTPStatusCode"] == 400
            with pytest.raises(tables.exceptions.BadRequestException):
                tables.put_table_bucket_logging(
                    tableBucketARN=arn, tableBucketLoggingStatus=tables_status(target)
                )
        with pytest.raises(ClientError) as refusal:
            s3.put_bucket_logging(Bucket="source", BucketLoggingStatus=status("open", "p" * 1_024))
        assert refusal.value.response["Error"]["Code"] == "InvalidTargetBucketForLogging"
        assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="source")
        shown = tables.get_table_bucket_logging(tableBucketARN=arn)
        assert shown["tableBucketLoggingStatus"] == {}


def test_the_target_may_name_the_source_that_it_takes_records_of(
    server: LoggingServer, buckets: tuple[str, str]
) -> None:
    source, target = buckets
    s3 = server.client()
    allow_delivery(
        s3,
        target,
        ArnLike={"aws:SourceArn": f"arn:aws:s3:::{source}"},
        StringEquals={"aws:SourceAccount": ACCOUNT},
    )
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    with pytest.raises(ClientError):
        s3.put_bucket_logging(Bucket=target, BucketLoggingStatus=status(target))


def test_a_grant_to_the_log_delivery_group_is_enough(server: LoggingServer) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="granted-source")
    s3.create_bucket(Bucket="granted-target", ObjectOwnership="ObjectWriter")
    s3.put_bucket_acl(Bucket="granted-target", ACL="log-delivery-write")
    s3.put_bucket_logging(Bucket="granted-source", BucketLoggingStatus=status("granted-target"))
    s3.head_bucket(Bucket="granted-source")
    assert [fields[6] for fields in server.records("granted-target", 1)] == ["REST.HEAD.BUCKET"]


@pytest.mark.parametrize("fault", ["deleted", "forbidden"])
def test_records_for_a_target_that_is_closed_meanwhile_are_counted_as_lost(
    server: LoggingServer, buckets: tuple[str, str], fault: str
) -> None:
    source, target = buckets
    s3 = server.client()
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    if fault == "deleted":
        s3.delete_bucket(Bucket=target)
    else:
        s3.delete_bucket_policy(Bucket=target)
    lost = server.program.access_logs.lost
    s3.head_bucket(Bucket=source)
    server.wait_for(lambda: server.program.access_logs.lost == lost + 1)
    if fault == "forbidden":
        assert server.records(target, 0) == []


def test_records_that_wait_are_delivered_when_the_server_ends_and_logging_outlives_it(
    tmp_path: Path,
) -> None:
    with open_server(tmp_path / "data") as server:
        s3 = server.client()
        for name in ("source", "target"):
            s3.create_bucket(Bucket=name)
        allow_delivery(s3, "target")
        s3.put_bucket_logging(Bucket="source", BucketLoggingStatus=status("target"))
        s3.put_object(Bucket="source", Key="one", Body=b"1")
    with open_server(tmp_path / "data") as server:
        assert [fields[7] for fields in server.records("target", 1)] == ["one"]
        server.client().put_object(Bucket="source", Key="two", Body=b"2")
        assert {fields[7] for fields in server.records("target", 2)} == {"one", "two"}


def test_a_full_disk_keeps_records_for_the_next_delivery(
    server: LoggingServer, buckets: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = buckets
    s3 = server.client()
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    s3.head_bucket(Bucket=source)
    objects = server.program.access_logs._objects

    refusals = []

    async def refuse(*_: Any, **__: Any) -> None:
        refusals.append(target)
        raise errors.DiskFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(objects, "put", refuse)
        server.wait_for(lambda: refusals)
    assert [fields[6] for fields in server.records(target, 1)] == ["REST.HEAD.BUCKET"]


def test_records_without_room_at_the_end_of_the_server_are_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise errors.DiskFull("no room")

    with open_server(tmp_path / "data") as server:
        s3 = server.client()
        for name in ("source", "target"):
            s3.create_bucket(Bucket=name)
        allow_delivery(s3, "target")
        s3.put_bucket_logging(Bucket="source", BucketLoggingStatus=status("target"))
        logs = server.program.access_logs
        monkeypatch.setattr(logs._objects, "put", refuse)
        s3.head_bucket(Bucket="source")
        ends_at = time.monotonic() + waits.WAIT_SECONDS
        while not logs._groups:
            assert time.monotonic() < ends_at
    assert logs.lost == 1
    assert "1 access records of source were not delivered to target" in caplog.text


def test_on_a_full_disk_no_request_begins_a_delivery(
    server: LoggingServer, buckets: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = buckets
    s3 = server.client()
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    refusals: list[str] = []

    async def refuse(*_: Any, **__: Any) -> None:
        refusals.append(target)
        raise errors.DiskFull("no room")

    logs = server.program.access_logs
    with monkeypatch.context() as patched:
        patched.setattr(logs._objects, "put", refuse)
        patched.setattr(limits, "ACCESS_RECORDS_EARLY_BYTES", 100)
        patched.setattr(limits, "ACCESS_RECORDS_SECONDS", 3_600.0)
        s3.head_bucket(Bucket=source)
        ends_at = time.monotonic() + waits.WAIT_SECONDS
        while not refusals:
            assert time.monotonic() < ends_at
        for _ in range(5):
            s3.head_bucket(Bucket=source)
        while sum(len(each.lines) for each in [*logs._groups.values()]) < 6:
            assert time.monotonic() < ends_at
        server.run(asyncio.sleep(0.1))
        assert len(refusals) == 1
    assert len(server.records(target, 6)) == 6


def test_records_beyond_the_memory_for_them_are_counted_as_lost(
    server: LoggingServer, buckets: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = buckets
    s3 = server.client()
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    lost = server.program.access_logs.lost
    monkeypatch.setattr(limits, "ACCESS_RECORDS_BYTES_MAX", 1_000)
    for _ in range(8):
        s3.head_bucket(Bucket=source)
    server.wait_for(lambda: server.program.access_logs.lost > lost)
    assert len(server.records(target, 1)) < 8


def test_many_records_are_delivered_before_their_time(
    server: LoggingServer, buckets: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = buckets
    s3 = server.client()
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=status(target))
    monkeypatch.setattr(limits, "ACCESS_RECORDS_EARLY_BYTES", 100)
    s3.head_bucket(Bucket=source)
    while not s3.list_objects_v2(Bucket=target)["KeyCount"]:
        pass
    assert server.records(target, 1)[0][6] == "REST.HEAD.BUCKET"


def test_without_logging_no_request_is_looked_at(tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("no bucket is logged")

    with open_server(tmp_path / "data") as server:
        assert not server.program.access_logs.is_on
        server.program.access_logs.begin = refuse  # type: ignore[method-assign] # a trap
        server.client().create_bucket(Bucket="plain")
        assert isinstance(server.program.access_logs, delivery.AccessLogs)


def test_metrics_count_the_records(server: LoggingServer) -> None:
    lines = dict(
        line.rsplit(" ", 1)
        for line in server.program.access_logs.format_metrics()
        if line[0] != "#"
    )
    assert lines.keys() == {
        'boathouse_access_records_total{outcome="delivered"}',
        'boathouse_access_records_total{outcome="lost"}',
    }
