"""S3 clients inside a table bucket: what the layout takes, what it refuses, and how that reads."""

from __future__ import annotations

import uuid
from typing import Any

import botocore.exceptions
import pyarrow.fs as pafs
import pytest

from tests.kit import s3 as kit
from tests.kit.server import Running


@pytest.fixture
def s3(server: Running) -> Any:
    return kit.client(server)


@pytest.fixture
def place() -> str:
    """A namespace and a table that no other test uses and that are in no catalog."""
    return f"ns{uuid.uuid4().hex[:12]}/orders"


def test_a_refused_write_says_which_rule_and_which_segment(s3: Any, place: str) -> None:
    key = f"{place}/data/archive/f.parquet"
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        s3.put_object(Bucket="lake", Key=key, Body=b"x")
    answer = raised.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-boathouse-layout-rule"] == "data-directory"
    error = answer["Error"]
    assert (error["Code"], error["Rule"], error["Segment"], error["Position"]) == (
        "AccessDenied",
        "data-directory",
        "archive",
        "3",
    )
    assert '"archive" (position 3)' in error["Message"]
    for call in (s3.get_object, s3.head_object):
        with pytest.raises(botocore.exceptions.ClientError, match=r"NoSuchKey|404"):
            call(Bucket="lake", Key=key)
    assert "Contents" not in s3.list_objects_v2(Bucket="lake", Prefix=place)


def test_every_way_to_write_is_refused_alike(s3: Any, server: Running, place: str) -> None:
    bad = f"{place}/README.md"
    source = kit.new_bucket(s3)
    s3.put_object(Bucket=source, Key="k", Body=b"x")
    for call in (
        lambda: s3.create_multipart_upload(Bucket="lake", Key=bad),
        lambda: s3.copy_object(Bucket="lake", Key=bad, CopySource=f"{source}/k"),
        lambda: s3.put_object(Bucket="lake", Key=f"{place}/metadata/", Body=b"not empty"),
    ):
        with pytest.raises(botocore.exceptions.ClientError) as raised:
            call()
        assert raised.value.response["Error"]["Rule"] in ("no-anchor", "marker-body")
    mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    answer = kit.stream(server, "PUT", f"/lake/{bad}", (b"x",), mode=mode)
    assert (answer.status, answer.headers["x-boathouse-layout-rule"]) == (403, "no-anchor")


def test_files_that_fit_the_layout_are_written_listed_and_removed(s3: Any, place: str) -> None:
    keys = [
        f"{place}/data/region=/f.parquet",
        f"{place}/data/year=2026/0101-deletes.puffin",
        f"{place}/metadata/00000-{uuid.uuid4()}.metadata.json",
    ]
    for key in keys:
        s3.put_object(Bucket="lake", Key=key, Body=b"x")
    listed = s3.list_objects_v2(Bucket="lake", Prefix=place)["Contents"]
    assert [row["Key"] for row in listed] == sorted(keys)
    answer = s3.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": key} for key in keys]})
    assert len(answer["Deleted"]) == 3
    # No catalog knows the place, so nothing protects what lay there.
    assert "Contents" not in s3.list_objects_v2(Bucket="lake", Prefix=place)


def test_arrow_writes_below_a_table_and_leaves_markers(server: Running, place: str) -> None:
    files = pafs.S3FileSystem(
        endpoint_override=server.url,
        access_key=server.access_key,
        secret_key=server.secret_key,
        region=kit.REGION,
    )
    files.create_dir(f"lake/{place}/data/day=1", recursive=True)
    with files.open_output_stream(f"lake/{place}/data/day=1/f.parquet") as out:
        out.write(b"PAR1")
    infos = files.get_file_info(pafs.FileSelector(f"lake/{place}", recursive=True))
    assert f"lake/{place}/data/day=1/f.parquet" in [info.path for info in infos]
    with pytest.raises(OSError, match="layout rule"):
        files.open_output_stream(f"lake/{place}/data/f.csv").close()
    files.delete_dir(f"lake/{place}")
