"""S3 as boto3 uses it, against the process a user starts."""

from __future__ import annotations

import hashlib
import io
import socket
import urllib.request
from pathlib import Path
from typing import Any

import boto3.s3.transfer
import botocore.exceptions
import pytest

from tests.kit import s3 as kit
from tests.kit import server as server_kit
from tests.kit import waits
from tests.kit.server import Running

BODY = hashlib.shake_256(b"boto3").digest(13_000_000)


@pytest.fixture
def s3(server: Running) -> Any:
    return kit.client(server)


@pytest.fixture
def bucket(s3: Any) -> str:
    return kit.new_bucket(s3)


def test_boto3_writes_reads_lists_and_deletes(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a/small", Body=b"small", Metadata={"m": "1"})
    s3.upload_fileobj(io.BytesIO(BODY), bucket, "a/large")
    answer = s3.get_object(Bucket=bucket, Key="a/small")
    assert (answer["Body"].read(), answer["Metadata"]) == (b"small", {"m": "1"})
    back = io.BytesIO()
    s3.download_fileobj(bucket, "a/large", back)
    assert back.getvalue() == BODY
    s3.copy({"Bucket": bucket, "Key": "a/large"}, bucket, "b/copy")
    listed = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [row["Prefix"] for row in listed["CommonPrefixes"]] == ["a/", "b/"]
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="a/small", Body=b"x", IfNoneMatch="*")
    resource = boto3.resource(
        "s3",
        endpoint_url=s3.meta.endpoint_url,
        aws_access_key_id=s3._request_signer._credentials.access_key,
        aws_secret_access_key=s3._request_signer._credentials.secret_key,
        region_name=kit.REGION,
    ).Bucket(bucket)
    resource.objects.all().delete()
    assert list(resource.objects.all()) == []
    s3.delete_bucket(Bucket=bucket)


def test_boto3_keeps_locks_restores_and_removes_versions(s3: Any) -> None:
    bucket = kit.new_bucket(s3)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["VersionId"]
    s3.upload_fileobj(io.BytesIO(BODY), bucket, "k")
    s3.delete_object(Bucket=bucket, Key="k")
    with pytest.raises(botocore.exceptions.ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key="k")
    source = {"Bucket": bucket, "Key": "k", "VersionId": first}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"
    s3.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"}
    )
    s3.put_object_legal_hold(**source, LegalHold={"Status": "ON"})
    with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
        s3.delete_object(**source)
    s3.put_object_legal_hold(**source, LegalHold={"Status": "OFF"})
    listed = s3.list_object_versions(Bucket=bucket)
    assert (len(listed["Versions"]), len(listed["DeleteMarkers"])) == (3, 1)
    for each in listed["Versions"] + listed["DeleteMarkers"]:
        s3.delete_object(Bucket=bucket, Key="k", VersionId=each["VersionId"])
    s3.delete_bucket(Bucket=bucket)


def test_boto3_presigns_by_both_versions(s3: Any, server: Running, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"shared")
    for version in ("s3", "s3v4"):
        signer = kit.client(server, config={"signature_version": version})
        url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        with urllib.request.urlopen(url, timeout=waits.WAIT_SECONDS) as answer:
            assert answer.read() == b"shared"
        # botocore signs the path of a bucket with a slash at its end, and sends it without one.
        listing = signer.generate_presigned_url("list_objects_v2", Params={"Bucket": bucket})
        with urllib.request.urlopen(listing, timeout=waits.WAIT_SECONDS) as answer:
            assert b"<Key>k</Key>" in answer.read()


def test_boto3_signs_headers_by_version_2_where_the_setting_allows_it(tmp_path: Path) -> None:
    running = server_kit.start(tmp_path / "data", "--sigv2-header")
    try:
        s3 = kit.client(running, config={"signature_version": "s3"})
        s3.create_bucket(Bucket="old-clients")
        s3.put_object(Bucket="old-clients", Key="a b/ü", Body=b"x", Metadata={"m": "1"})
        assert s3.get_object(Bucket="old-clients", Key="a b/ü")["Body"].read() == b"x"
        wrong = kit.client(running, secret_key="wrong", config={"signature_version": "s3"})
        with pytest.raises(botocore.exceptions.ClientError, match="SignatureDoesNotMatch"):
            wrong.get_object(Bucket="old-clients", Key="a b/ü")
    finally:
        running.stop()


def test_a_header_of_version_2_is_refused_by_default(s3: Any, server: Running) -> None:
    old = kit.client(server, config={"signature_version": "s3"})
    with pytest.raises(botocore.exceptions.ClientError, match="InvalidRequest"):
        old.list_buckets()


@pytest.fixture
def localhost_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name below localhost mean this machine, as RFC 6761 wants and not all do."""
    look_up = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(host, str) and host.endswith(".localhost"):
            host = "127.0.0.1"
        return look_up(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.usefixtures("localhost_names")
def test_boto3_addresses_a_bucket_by_its_host_name(server: Running, bucket: str) -> None:
    url = f"http://localhost:{server.port}"
    s3 = kit.client(server, endpoint_url=url, addressing_style="virtual")
    s3.put_object(Bucket=bucket, Key="a/b c", Body=b"virtual")
    assert s3.get_object(Bucket=bucket, Key="a/b c")["Body"].read() == b"virtual"
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1


@pytest.mark.clients
@pytest.mark.usefixtures("localhost_names")
@pytest.mark.parametrize("style", ["path", "virtual"])
@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_boto3_with_every_checksum_in_both_addressing_styles(
    server: Running, bucket: str, style: str, algorithm: str
) -> None:
    url = f"http://localhost:{server.port}"
    s3 = kit.client(server, endpoint_url=url, addressing_style=style)
    key = f"{style}/{algorithm}"
    put = s3.put_object(Bucket=bucket, Key=key, Body=BODY[:100_000], ChecksumAlgorithm=algorithm)
    answer = s3.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    assert answer["Body"].read() == BODY[:100_000]
    assert answer[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]
    config = boto3.s3.transfer.TransferConfig(multipart_chunksize=5 << 20)
    s3.upload_fileobj(
        io.BytesIO(BODY), bucket, key, ExtraArgs={"ChecksumAlgorithm": algorithm}, Config=config
    )
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == BODY


@pytest.mark.clients
def test_boto3_waiters_and_paginators_end(s3: Any, bucket: str) -> None:
    s3.get_waiter("bucket_exists").wait(Bucket=bucket)
    for number in range(25):
        s3.put_object(Bucket=bucket, Key=f"k{number:02d}", Body=b"")
    s3.get_waiter("object_exists").wait(Bucket=bucket, Key="k00")
    s3.get_waiter("object_not_exists").wait(Bucket=bucket, Key="nothing")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 7}
    )
    keys = [row["Key"] for page in pages for row in page["Contents"]]
    assert keys == [f"k{number:02d}" for number in range(25)]


@pytest.mark.clients
def test_boto3_retries_find_a_part_already_there(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload, "PartNumber": 1}
    etags = {s3.upload_part(Body=b"same", **call)["ETag"] for _ in range(3)}
    assert len(etags) == 1
    s3.complete_multipart_upload(
        Bucket=bucket,
        Key="k",
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etags.pop()}]},
    )
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"same"
