"""Writes in general buckets whose bodies arrive slowly, while the bucket's policy changes."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from server import config
from tests.kit import s3 as kit

ANSWER_SECONDS = 30
ALL_OF_S3 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
OWNER = config.User(
    name="owner", access_key="AKOWNER", secret_key="owner's secret", policies=(ALL_OF_S3,)
)
TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
HOLD = b"<LegalHold><Status>ON</Status></LegalHold>"
VERSIONING = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
LOCK = (
    b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>"
    b"<DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"
    b"</ObjectLockConfiguration>"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    with kit.serve(tmp_path_factory.mktemp("meanwhile") / "data", users=(OWNER,)) as running:
        yield running


@pytest.fixture(scope="module")
def owner(place: kit.ObjectStore) -> Any:
    return kit.client(place, access_key=OWNER.access_key, secret_key=OWNER.secret_key)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def bucket(owner: Any, numbers: Iterator[int]) -> str:
    """A bucket with object lock and the object k."""
    name = f"meanwhile-{next(numbers):03}"
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    owner.put_object(Bucket=name, Key="k", Body=b"body")
    return name


def policy(bucket: str, effect: str, action: str) -> str:
    statement = {
        "Effect": effect,
        "Principal": "*",
        "Action": action,
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class Half:
    """A request that has passed its first judgement: the server asks for the body."""

    def __init__(
        self, place: kit.ObjectStore, method: str, target: str, body: bytes, *, signed: bool = True
    ) -> None:
        self._body = body
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        sent: Mapping[str, str] = {"content-md5": md5}
        if signed:
            sent = kit.sign(
                place,
                method,
                target,
                sent,
                payload_hash=hashlib.sha256(body).hexdigest(),
                access_key=OWNER.access_key,
                secret_key=OWNER.secret_key,
            )
        sent = {"host": f"127.0.0.1:{place.port}", **sent, "expect": "100-continue"}
        lines = [f"{method} {target} HTTP/1.1", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in sent.items()]
        self._socket = socket.create_connection((place.host, place.port), ANSWER_SECONDS)
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        assert self._socket.recv(4096).startswith(b"HTTP/1.1 100 ")
        self._socket.sendall(body[: len(body) // 2])

    def finish(self) -> int:
        """Send the rest; return the status."""
        self._socket.sendall(self._body[len(self._body) // 2 :])
        with self._socket, self._socket.makefile("rb") as answer:
            return int(answer.readline().split()[1])


@pytest.mark.parametrize("size_bytes", [1_000, 3_000_000])
def test_a_put_is_judged_by_the_policy_put_before_its_body_was_complete(
    place: kit.ObjectStore, owner: Any, bucket: str, size_bytes: int
) -> None:
    put = Half(place, "PUT", f"/{bucket}/new", b"b" * size_bytes)
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Deny", "s3:PutObject"))
    assert put.finish() == 403
    listed = owner.list_object_versions(Bucket=bucket)
    assert [each["Key"] for each in listed["Versions"]] == ["k"]


@pytest.mark.parametrize(
    ("target", "action", "body"),
    [
        ("/k?tagging", "s3:PutObjectTagging", TAGS),
        ("/k?legal-hold", "s3:PutObjectLegalHold", HOLD),
        ("?versioning", "s3:PutBucketVersioning", VERSIONING),
        ("?object-lock", "s3:PutBucketObjectLockConfiguration", LOCK),
        ("?tagging", "s3:PutBucketTagging", TAGS),
    ],
)
def test_a_document_is_judged_by_the_policy_put_before_it_was_complete(
    place: kit.ObjectStore, owner: Any, bucket: str, target: str, action: str, body: bytes
) -> None:
    def state() -> bytes:
        return kit.call(place, "GET", f"/{bucket}{target}").body.partition(b"<RequestId>")[0]

    before = state()
    put = Half(place, "PUT", f"/{bucket}{target}", body)
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Deny", action))
    assert put.finish() == 403
    assert state() == before
    owner.delete_bucket_policy(Bucket=bucket)
    assert Half(place, "PUT", f"/{bucket}{target}", body).finish() in (200, 204)


def test_a_completion_is_judged_by_the_policy_put_before_it_was_complete(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    call = {"Bucket": bucket, "Key": "new"}
    call["UploadId"] = owner.create_multipart_upload(**call)["UploadId"]
    etag = owner.upload_part(PartNumber=1, Body=b"part", **call)["ETag"]
    body = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    )
    target = f"/{bucket}/new?uploadId={call['UploadId']}"
    completion = Half(place, "POST", target, body.encode())
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Deny", "s3:PutObject"))
    assert completion.finish() == 403
    assert kit.call(place, "GET", f"/{bucket}/new").status == 404
    owner.delete_bucket_policy(Bucket=bucket)
    assert Half(place, "POST", target, body.encode()).finish() == 200


@pytest.mark.parametrize("size_bytes", [1_000, 3_000_000])
def test_a_part_is_judged_by_the_policy_put_before_its_body_was_complete(
    place: kit.ObjectStore, owner: Any, bucket: str, size_bytes: int
) -> None:
    call = {"Bucket": bucket, "Key": "new"}
    call["UploadId"] = owner.create_multipart_upload(**call)["UploadId"]
    target = f"/{bucket}/new?partNumber=1&uploadId={call['UploadId']}"
    body = b"b" * size_bytes
    part = Half(place, "PUT", target, body)
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Deny", "s3:PutObject"))
    assert part.finish() == 403
    assert "Parts" not in owner.list_parts(**call)
    owner.delete_bucket_policy(Bucket=bucket)
    part = Half(place, "PUT", target, body)
    owner.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert part.finish() == 200
    assert [each["Size"] for each in owner.list_parts(**call)["Parts"]] == [size_bytes]


def test_an_anonymous_put_is_judged_by_the_block_put_before_its_body_was_complete(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Allow", "s3:PutObject"))
    put = Half(place, "PUT", f"/{bucket}/new", b"b" * 1_000, signed=False)
    owner.put_public_access_block(
        Bucket=bucket, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True}
    )
    assert put.finish() == 403
    assert kit.call(place, "GET", f"/{bucket}/new").status == 404


def test_a_form_is_judged_by_the_policy_in_force_when_its_file_was_complete(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Allow", "s3:PutObject"))
    mark = b'--x\r\nContent-Disposition: form-data; name="'
    begin = mark + b'key"\r\n\r\nnew\r\n' + mark + b'file"\r\n\r\n' + b"f" * 100_000
    end = b"\r\n--x--\r\n"
    head = (
        f"POST /{bucket} HTTP/1.1\r\nhost: 127.0.0.1:{place.port}\r\n"
        f"content-type: multipart/form-data; boundary=x\r\n"
        f"content-length: {len(begin) + len(end)}\r\n\r\n"
    )
    with socket.create_connection((place.host, place.port), ANSWER_SECONDS) as connection:
        connection.sendall(head.encode() + begin)
        owner.delete_bucket_policy(Bucket=bucket)
        connection.sendall(end)
        with connection.makefile("rb") as answer:
            assert int(answer.readline().split()[1]) == 403
    assert kit.call(place, "GET", f"/{bucket}/new").status == 404


def test_a_put_goes_on_when_settings_change_that_refuse_nothing(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    put = Half(place, "PUT", f"/{bucket}/new", b"b" * 1_000)
    owner.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Deny", "s3:DeleteObject"))
    assert put.finish() == 200
    assert owner.get_object(Bucket=bucket, Key="new")["Body"].read() == b"b" * 1_000


def test_a_put_into_a_bucket_deleted_meanwhile_finds_none(
    place: kit.ObjectStore, owner: Any, numbers: Iterator[int]
) -> None:
    name = f"meanwhile-{next(numbers):03}"
    owner.create_bucket(Bucket=name)
    put = Half(place, "PUT", f"/{name}/new", b"b" * 1_000)
    owner.delete_bucket(Bucket=name)
    assert put.finish() == 404
