"""Table buckets that mini.toml makes: a strict one looks at what is written, and stays strict."""

from __future__ import annotations

import gzip
import io
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.kit import rest, server, waits
from tests.kit import s3 as kit

SETTINGS = """
[table_buckets.curated]
layout = "strict"

[table_buckets.registered]
layout = "strict"
require_registered = true

[table_buckets.free]
layout = "off"

[table_buckets.as-aws]
aws_strict = true
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Running]:
    folder = tmp_path_factory.mktemp("strict")
    (folder / "mini.toml").write_text(SETTINGS)
    started = server.start(folder / "data", "--config", str(folder / "mini.toml"))
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def s3(running: server.Running) -> Any:
    return kit.client(running)


@pytest.fixture(scope="module")
def catalog(running: server.Running) -> Catalog:
    return load_catalog(
        "boathouse",
        type="rest",
        uri=running.iceberg,
        warehouse="curated",
        credential=f"{running.access_key}:{running.secret_key}",
        **{"oauth2-server-uri": f"{running.iceberg}/v1/oauth/tokens"},
    )


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(20_000))}), sink, compression="none")
    return sink.getvalue()


def refused(call: Any, **members: Any) -> tuple[str, str]:
    """The rule and the message of a write that the layout refuses."""
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**members)
    answer = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert answer["Error"]["Code"] == "AccessDenied"
    rule = answer["Error"]["Rule"]
    assert answer["ResponseMetadata"]["HTTPHeaders"]["x-boathouse-layout-rule"] == rule
    return rule, answer["Error"]["Message"]


def test_a_file_with_a_right_name_and_wrong_content_is_refused_with_rule_and_reason(
    s3: Any,
) -> None:
    key = "sales/orders/data/day=1/f.parquet"
    assert refused(s3.put_object, Bucket="curated", Key=key, Body=b"id,day\n1,2\n") == (
        "content-magic",
        'Table bucket layout rule content-magic: segment "f.parquet" (position 4) does not hold'
        " what .parquet files begin and end with; expected a body in the format of its name",
    )
    for read in (s3.get_object, s3.head_object):
        with pytest.raises(botocore.exceptions.ClientError, match=r"NoSuchKey|404"):
            read(Bucket="curated", Key=key)
    s3.put_object(Bucket="curated", Key=key, Body=parquet())
    assert s3.get_object(Bucket="curated", Key=key)["Body"].read() == parquet()
    # In another bucket no rule applies.
    s3.put_object(Bucket="free", Key=key, Body=b"id,day\n1,2\n")
    s3.put_object(Bucket="free", Key="anything.csv", Body=b"id,day\n1,2\n")


def test_copies_and_uploads_are_looked_at_too(s3: Any) -> None:
    source = kit.new_bucket(s3)
    s3.put_object(Bucket=source, Key="csv", Body=b"id,day\n" * 20_000)
    s3.put_object(Bucket=source, Key="parquet", Body=parquet())
    key = "sales/orders/data/copied.parquet"
    wrong = {"Bucket": "curated", "Key": key, "CopySource": f"{source}/csv"}
    assert refused(s3.copy_object, **wrong)[0] == "content-magic"
    s3.copy_object(**{**wrong, "CopySource": f"{source}/parquet"})
    for body, right in ((b"PAR1 and no more", False), (parquet(), True)):
        call = {"Bucket": "curated", "Key": "sales/orders/data/parts.parquet"}
        call["UploadId"] = s3.create_multipart_upload(**call)["UploadId"]
        parts = [s3.upload_part(PartNumber=1, Body=body, **call)["ETag"]]
        named = {"Parts": [{"PartNumber": 1, "ETag": parts[0]}]}
        if right:
            s3.complete_multipart_upload(MultipartUpload=named, **call)
        else:
            rule, _ = refused(s3.complete_multipart_upload, MultipartUpload=named, **call)
            assert rule == "content-magic"


def test_metadata_must_be_that_of_the_table_at_its_place(s3: Any, catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("kept")
    for name in ("one", "two"):
        table = catalog.create_table(f"kept.{name}", schema=pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2, 3]}))
        table.delete("id = 2")
        assert catalog.load_table(f"kept.{name}").scan().to_arrow()["id"].to_pylist() == [1, 3]
    one, two = (
        s3.get_object(Bucket="curated", Key=location.removeprefix("s3://curated/"))["Body"].read()
        for location in (
            catalog.load_table("kept.one").metadata_location,
            catalog.load_table("kept.two").metadata_location,
        )
    )
    at = "kept/one/metadata/copy"
    for suffix, pack in ((".metadata.json", bytes), (".gz.metadata.json", gzip.compress)):
        wrong = {"Bucket": "curated", "Key": at + suffix, "Body": pack(two)}
        rule, message = refused(s3.put_object, **wrong)
        assert rule == "content-metadata"
        assert "has the table-uuid of another table" in message
        s3.put_object(**{**wrong, "Body": pack(one)})


def test_a_bucket_may_take_files_of_registered_tables_alone(
    s3: Any, running: server.Running
) -> None:
    key = {"Bucket": "registered", "Key": "ns/t/data/f.parquet", "Body": parquet()}
    assert refused(s3.put_object, **key)[0] == "unregistered"
    client = tables_client(running)
    arn = client.get_table_bucket(tableBucketARN=ARN + "registered")["arn"]
    client.create_namespace(tableBucketARN=arn, namespace=["ns"])
    client.create_table(tableBucketARN=arn, namespace="ns", name="t", format="ICEBERG")
    s3.put_object(**key)
    rule, _ = refused(s3.put_object, **{**key, "Key": "ns/t/data/g.parquet", "Body": b"g"})
    assert rule == "content-magic"


def test_an_aws_strict_bucket_offers_what_aws_offers_and_answers_405_to_the_rest(s3: Any) -> None:
    place = {"Bucket": "as-aws", "Key": "ns/t/data/f.parquet"}
    general = kit.new_bucket(s3)
    s3.put_object(Bucket=general, Key="k", Body=b"k")
    s3.put_object(**place, Body=b"data")
    upload = {**place, "Key": "ns/t/data/g.parquet"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    part = s3.upload_part(**upload, PartNumber=1, Body=b"part")["ETag"]
    source = {"CopySource": f"{general}/k"}
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    for call, members in (
        (s3.list_objects_v2, {"Bucket": "as-aws"}),
        (s3.list_objects, {"Bucket": "as-aws"}),
        (s3.list_multipart_uploads, {"Bucket": "as-aws"}),
        (s3.delete_object, place),
        (s3.delete_objects, {"Bucket": "as-aws", "Delete": {"Objects": [{"Key": place["Key"]}]}}),
        (s3.copy_object, {**place, "Key": "ns/t/data/h.parquet", **source}),
        (s3.upload_part_copy, {**upload, "PartNumber": 2, **source}),
        (s3.get_object_tagging, place),
        (s3.put_object_tagging, {**place, "Tagging": tags}),
        (s3.delete_object_tagging, place),
    ):
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            call(**members)
        answer = caught.value.response
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 405
        assert (answer["Error"]["Code"], answer["Error"]["Message"]) == (
            "MethodNotAllowed",
            "The specified method is not allowed against this resource.",
        )
    assert [each["ETag"] for each in s3.list_parts(**upload)["Parts"]] == [part]
    named = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    s3.complete_multipart_upload(**upload, MultipartUpload=named)
    assert s3.get_object(**place)["Body"].read() == b"data"
    assert s3.head_object(**{**place, "Key": upload["Key"]})["ContentLength"] == 4
    # Reading is allowed, so a copy out of it is.
    s3.copy_object(Bucket=general, Key="out", CopySource=f"as-aws/{place['Key']}")


ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/"


def tables_client(running: server.Running) -> Any:
    return boto3.client(
        "s3tables",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )


UNSET = {
    "requested_location": "refuse",
    "unreferenced_days": 3,
    "noncurrent_days": 10,
    "history_days": 7,
    "dropped_table_days": 30,
    "purge_on_drop": "asked",
    "manifests_max": 100,
    "statistics_snapshots": 0,
    "protected": False,
}
"""What holds unless it is set otherwise, apart from the layout."""


def test_what_a_bucket_was_made_with_is_shown_and_outlives_what_the_file_says_later(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mini.toml"
    file.write_text('[table_buckets.lake]\nlayout = "strict"\n')
    flags = ("--config", str(file))
    first = server.start(tmp_path / "data", *flags)
    try:
        assert settings_of(first, "lake") == {
            "layout": "strict",
            "require_registered": False,
            "aws_strict": False,
            **UNSET,
        }
    finally:
        assert first.stop() == 0
    banner = (
        '  bucket      lake: layout = "strict", require_registered = false, aws_strict = false, '
        'requested_location = "refuse", '
        "unreferenced_days = 3, noncurrent_days = 10, history_days = 7, dropped_table_days = 30, "
        'purge_on_drop = "asked", manifests_max = 100, statistics_snapshots = 0, '
        "protected = false\n"
    )
    assert banner in first.log.read_text()
    assert "WARNING" not in server.but_for_lateness(first.log.read_text())

    file.write_text(
        '[table_buckets.lake]\nlayout = "off"\n[table_buckets.later]\nlayout = "strict"\n'
    )
    second = server.start(tmp_path / "data", *flags, "--table-bucket", "lake")
    try:
        assert settings_of(second, "lake")["layout"] == "strict"
        key = {"Bucket": "lake", "Key": "ns/t/data/f.orc", "Body": b"no"}
        assert refused(kit.client(second).put_object, **key)[0] == "content-magic"
        # A bucket that is made by a client is made as the file says too.
        client = tables_client(second)
        client.create_table_bucket(name="later", tags={"team": "lake"})
        client.create_table_bucket(name="plain")
        assert settings_of(second, "later")["layout"] == "strict"
        assert settings_of(second, "plain")["layout"] == "names"
        key = {**key, "Bucket": "later"}
        assert refused(kit.client(second).put_object, **key)[0] == "content-magic"
        kit.client(second).put_object(**{**key, "Bucket": "plain"})
    finally:
        assert second.stop() == 0
    assert (
        '  WARNING     mini.toml says layout = "off" for lake, created with "strict" and '
        "keeps it\n" in second.log.read_text()
    )


def settings_of(running: server.Running, bucket: str) -> Any:
    with rest.Client(running) as client:
        headers = {"authorization": f"Bearer {client.token}"}
    request = urllib.request.Request(f"{running.url}/_api/v1/warehouses/{bucket}", headers=headers)
    with urllib.request.urlopen(request, timeout=waits.WAIT_SECONDS) as answer:
        said = json.loads(answer.read())
    assert (said["name"], said["arn"]) == (bucket, ARN + bucket)
    return said["settings"]
