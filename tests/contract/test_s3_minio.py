"""S3 as MinIO's Python client uses it, in an environment of its own."""

from __future__ import annotations

from tests.kit import client_programs, environments
from tests.kit.server import Running

ONE_CASE = """
import io
import os
import urllib.request
from minio import Minio
from minio.commonconfig import ComposeSource, CopySource, Tags
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

bucket = os.environ["BUCKET"]
client = Minio(
    os.environ["URL"].removeprefix("http://"),
    access_key=os.environ["KEY"],
    secret_key=os.environ["SECRET"],
    secure=False,
)
client.make_bucket(bucket_name=bucket)
assert client.bucket_exists(bucket_name=bucket)
assert not client.bucket_exists(bucket_name=bucket + "-absent")


def put(name, body, length, **options):
    client.put_object(
        bucket_name=bucket, object_name=name, data=io.BytesIO(body), length=length, **options
    )


def read(name, **options):
    response = client.get_object(bucket_name=bucket, object_name=name, **options)
    try:
        return response.read()
    finally:
        response.close()
        response.release_conn()


large = os.urandom(12_000_000)
put("d/large \\u00e9+&", large, len(large), metadata={"colour": "blue"})
put("d/stream", large, -1, part_size=5 * 1024 * 1024)
assert read("d/large \\u00e9+&") == large and read("d/stream") == large
assert read("d/stream", offset=10, length=10) == large[10:20]
info = client.stat_object(bucket_name=bucket, object_name="d/large \\u00e9+&")
assert info.size == len(large) and info.metadata["x-amz-meta-colour"] == "blue"

source = CopySource(bucket_name=bucket, object_name="d/large \\u00e9+&")
client.copy_object(bucket_name=bucket, object_name="copy", source=source)
parts = [ComposeSource(bucket_name=bucket, object_name="d/stream") for _ in range(2)]
client.compose_object(bucket_name=bucket, object_name="joined", sources=parts)
assert read("joined") == large + large

tags = Tags.new_object_tags()
tags["team"] = "blue"
client.set_object_tags(bucket_name=bucket, object_name="copy", tags=tags)
assert client.get_object_tags(bucket_name=bucket, object_name="copy") == tags

try:
    read("absent")
except S3Error as error:
    assert error.code == "NoSuchKey"
else:
    raise AssertionError("an absent object was read")
url = client.presigned_get_object(bucket_name=bucket, object_name="d/stream")
assert urllib.request.urlopen(url).read() == large

names = [each.object_name for each in client.list_objects(bucket_name=bucket, recursive=True)]
assert names == ["copy", "d/large \\u00e9+&", "d/stream", "joined"], names
doomed = [DeleteObject(name) for name in names]
assert list(client.remove_objects(bucket_name=bucket, delete_object_list=doomed)) == []
client.remove_bucket(bucket_name=bucket)
"""


def test_minio_py_writes_reads_joins_tags_and_signs(server: Running) -> None:
    command = [str(environments.python("s3clients")), "-c", ONE_CASE]
    client_programs.run(server, command)
