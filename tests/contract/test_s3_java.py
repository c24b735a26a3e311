"""The Java SDK as Spark's users have it, as Hadoop's S3A and as Iceberg's S3FileIO."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kit import s3 as s3_kit
from tests.kit import server as server_kit

pytestmark = pytest.mark.spark

MIB = 1 << 20
PART_BYTES = 5 * MIB
BODY = random.Random(9).randbytes(2 * PART_BYTES + 12_345)
"""Three parts as S3 splits it at the least size of a part."""


@pytest.fixture
def s3(server: server_kit.Running) -> Any:
    return s3_kit.client(server)


@pytest.fixture
def bucket(s3: Any) -> str:
    return s3_kit.new_bucket(s3)


@pytest.fixture
def body_file(tmp_path: Path) -> Path:
    path = tmp_path / "body"
    path.write_bytes(BODY)
    return path


@pytest.fixture(params=[{}, {"list.version": "1", "multiobjectdelete.enable": "false"}])
def hadoop(
    request: pytest.FixtureRequest, server: server_kit.Running, spark: Any, bucket: str
) -> Iterator[Any]:
    """Hadoop's file system of a bucket, with small parts and pages; as it is, and as older ones."""
    jvm = spark.jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration(
        spark.session.sparkContext._jsc.hadoopConfiguration()
    )
    own = {
        "multipart.size": str(PART_BYTES),
        "multipart.threshold": str(PART_BYTES),
        "paging.maximum": "4",
        "etag.checksum.enabled": "true",
        **request.param,
    }
    for name, value in own.items():
        configuration.set(f"fs.s3a.{name}", value)
    system = jvm.org.apache.hadoop.fs.FileSystem.newInstance(
        jvm.java.net.URI(f"s3a://{bucket}/"), configuration
    )
    yield system
    system.close()


def keys_of(s3: Any, bucket: str) -> list[str]:
    return [row["Key"] for row in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


@pytest.mark.smoke
def test_s3a_writes_in_parts_copies_lists_by_pages_and_deletes(
    hadoop: Any, spark: Any, s3: Any, bucket: str, body_file: Path, tmp_path: Path
) -> None:
    jvm = spark.jvm

    def path(text: str) -> Any:
        return jvm.org.apache.hadoop.fs.Path(text)

    hadoop.copyFromLocalFile(False, True, path(f"file://{body_file}"), path("/a/b/big body+ü"))
    stored = s3.get_object(Bucket=bucket, Key="a/b/big body+ü")
    assert stored["Body"].read() == BODY
    assert stored["ETag"].endswith('-3"'), "written in three parts"

    # A rename is a copy, by parts from the threshold on, and a deletion.
    assert hadoop.rename(path("/a/b"), path("/moved"))
    assert keys_of(s3, bucket) == ["a/", "moved/big body+ü"]
    hadoop.copyToLocalFile(False, path("/moved/big body+ü"), path(f"file://{tmp_path}/back"), True)
    assert (tmp_path / "back").read_bytes() == BODY

    opened = hadoop.open(path("/moved/big body+ü"))
    for position in (0, 7, PART_BYTES - 1, len(BODY) - 5):
        opened.seek(position)
        assert [opened.read() for _ in range(5)] == list(BODY[position : position + 5])
    assert opened.read() == -1
    opened.close()
    checksum = hadoop.getFileChecksum(path("/moved/big body+ü")).getBytes()
    head = s3.head_object(Bucket=bucket, Key="moved/big body+ü")
    assert bytes(checksum).decode() == head["ETag"]

    for number in range(11):
        hadoop.create(path(f"/many/{number % 3}/{number:02}")).close()
    listed = hadoop.listFiles(path("/many"), True)
    names = []
    while listed.hasNext():
        names.append(listed.next().getPath().getName())
    assert sorted(names) == [f"{number:02}" for number in range(11)]
    assert sorted(each.getPath().getName() for each in hadoop.listStatus(path("/many"))) == list(
        "012"
    )
    summary = hadoop.getContentSummary(path("/"))
    assert (summary.getFileCount(), summary.getLength()) == (12, len(BODY))
    assert hadoop.delete(path("/many"), True)
    assert hadoop.delete(path("/moved"), True)
    assert not [key for key in keys_of(s3, bucket) if not key.endswith("/")]
    assert not hadoop.exists(path("/many"))


def test_s3a_replaces_no_file_without_overwrite(
    hadoop: Any, spark: Any, s3: Any, bucket: str
) -> None:
    path = spark.jvm.org.apache.hadoop.fs.Path("/once")
    first = hadoop.create(path, False)
    first.write(bytearray(b"first"))
    first.close()
    with pytest.raises(Exception, match="FileAlreadyExistsException"):
        hadoop.create(path, False)
    assert s3.get_object(Bucket=bucket, Key="once")["Body"].read() == b"first"


@pytest.mark.smoke
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"s3.checksum-enabled": "true", "s3.delete.batch-size": "3", "s3.write.tags.team": "lake"},
    ],
)
def test_s3fileio_writes_in_parts_reads_ranges_lists_and_deletes(
    server: server_kit.Running,
    spark: Any,
    s3: Any,
    bucket: str,
    body_file: Path,
    more: Mapping[str, str],
) -> None:
    jvm = spark.jvm
    files = jvm.org.apache.iceberg.aws.s3.S3FileIO()
    files.initialize(
        {
            "s3.endpoint": server.url,
            "s3.path-style-access": "true",
            "s3.access-key-id": server.access_key,
            "s3.secret-access-key": server.secret_key,
            "client.region": "us-east-1",
            "s3.multipart.part-size-bytes": str(PART_BYTES),
            "s3.multipart.threshold": "1.0",
            **more,
        }
    )
    place = f"s3://{bucket}/data/ns=ü 1/big.parquet"
    output = files.newOutputFile(place).create()
    jvm.java.nio.file.Files.copy(jvm.java.io.File(str(body_file)).toPath(), output)
    output.close()
    stored = s3.get_object(Bucket=bucket, Key="data/ns=ü 1/big.parquet")
    assert hashlib.sha256(stored["Body"].read()).digest() == hashlib.sha256(BODY).digest()
    assert stored["ETag"].endswith('-3"')
    tags = s3.get_object_tagging(Bucket=bucket, Key="data/ns=ü 1/big.parquet")["TagSet"]
    assert tags == ([{"Key": "team", "Value": "lake"}] if more else [])

    with pytest.raises(Exception, match="AlreadyExistsException"):
        files.newOutputFile(place).create()
    source = files.newInputFile(place)
    assert source.getLength() == len(BODY)
    stream = source.newStream()
    for position in (len(BODY) - 3, 0, PART_BYTES):
        stream.seek(position)
        assert [stream.read() for _ in range(3)] == list(BODY[position : position + 3])
    stream.close()

    places = [f"s3://{bucket}/meta/{number}.avro" for number in range(7)]
    for each in places:
        files.newOutputFile(each).createOrOverwrite().close()
    listed = files.listPrefix(f"s3://{bucket}/meta/").iterator()
    locations = []
    while listed.hasNext():
        locations.append(listed.next().location())
    assert sorted(locations) == places
    files.deleteFiles(places[:5])
    files.deletePrefix(f"s3://{bucket}/data/")
    assert keys_of(s3, bucket) == ["meta/5.avro", "meta/6.avro"]
    files.close()
