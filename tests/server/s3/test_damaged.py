"""Reads of an object whose blob changed on the disk behind the server's back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from tests.kit import s3 as kit

BIG = bytes(range(256)) * 1000
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    """A store of this file alone: others compare all bodies of theirs."""
    with kit.serve(tmp_path_factory.mktemp("damaged") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def s3(store: kit.ObjectStore) -> Any:
    return kit.client(store)


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"damaged-{next(NUMBERS)}"
    s3.create_bucket(Bucket=name)
    return name


def file_of(store: kit.ObjectStore, bucket: str, key: str) -> Path:
    (segment,) = store.storage.objects.head(bucket, key).body.segments
    place = store.storage.blobs.path_of(segment.blob)
    place.chmod(0o600)
    return place


def test_a_changed_byte_fails_the_checksum_that_sdks_verify(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BIG)
    file_of(store, bucket, "k").write_bytes(BIG[:-1] + b"\x00")
    body = s3.get_object(Bucket=bucket, Key="k")["Body"]
    with pytest.raises(botocore.exceptions.FlexibleChecksumError):
        body.read()


def test_a_missing_file_is_an_internal_error_and_nothing_is_sent(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BIG)
    file_of(store, bucket, "k").unlink()
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        s3.get_object(Bucket=bucket, Key="k")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_a_truncated_file_ends_the_connection_before_the_announced_length(
    store: kit.ObjectStore, s3: Any, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the blob."""
    s3.put_object(Bucket=bucket, Key="k", Body=BIG)
    path = file_of(store, bucket, "k")
    path.write_bytes(BIG[:1000])
    body = s3.get_object(Bucket=bucket, Key="k")["Body"]
    with pytest.raises(botocore.exceptions.ResponseStreamingError):
        body.read()
    assert f"blob {path.name} ends at 1000, before {len(BIG)}" in caplog.text
    assert "a stored body is shorter than its record" in caplog.text
    assert "could not be finished" not in caplog.text


def test_a_copy_of_a_truncated_file_is_refused_and_the_log_names_the_blob(
    store: kit.ObjectStore, s3: Any, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BIG)
    path = file_of(store, bucket, "k")
    path.write_bytes(BIG[:1000])
    upload = s3.create_multipart_upload(Bucket=bucket, Key="u")["UploadId"]
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        s3.upload_part_copy(
            Bucket=bucket, Key="u", UploadId=upload, PartNumber=1, CopySource=f"{bucket}/k"
        )
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="u", UploadId=upload)
    assert path.name in caplog.text


def test_a_copy_that_reads_changed_bytes_is_refused_and_gives_them_no_new_checksum(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BIG)
    file_of(store, bucket, "k").write_bytes(BIG[:-1] + b"\x00")
    source = {"CopySource": f"{bucket}/k"}
    upload = s3.create_multipart_upload(Bucket=bucket, Key="u")["UploadId"]
    part = {"Bucket": bucket, "Key": "u", "UploadId": upload, "PartNumber": 1}
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        s3.upload_part_copy(**part, **source)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="u", UploadId=upload)
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        s3.copy_object(Bucket=bucket, Key="copy", ChecksumAlgorithm="SHA256", **source)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in listed] == ["k"]
