"""Bucket versioning over the wire: what clients see of versions and delete markers."""

from __future__ import annotations

import concurrent.futures
import io
from collections.abc import Iterator
from typing import Any

import boto3.s3.transfer
import botocore.exceptions
import pytest
import requests

from server import config
from tests.kit import s3 as kit
from tests.kit import waits

UNKNOWN = "0" * 32
MALFORMED = ("abc", "undefined", "f" * 31, "F" * 32, UNKNOWN + "0")
ENABLED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


@pytest.fixture
def versioned(s3: Any, bucket: str) -> str:
    """A fresh bucket with versioning enabled."""
    set_versioning(s3, bucket, "Enabled")
    return bucket


def set_versioning(s3: Any, bucket: str, status: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def put(s3: Any, bucket: str, key: str, body: bytes = b"x", **options: Any) -> str:
    """Put an object; return the version id of the answer, or "" for none."""
    return str(s3.put_object(Bucket=bucket, Key=key, Body=body, **options).get("VersionId", ""))


def read(s3: Any, bucket: str, key: str, **options: Any) -> bytes:
    body: bytes = s3.get_object(Bucket=bucket, Key=key, **options)["Body"].read()
    return body


def refused(call: Any, **arguments: Any) -> tuple[int, str]:
    """Return status and code of a call that is refused."""
    with pytest.raises(botocore.exceptions.ClientError) as refusal:
        call(**arguments)
    response = refusal.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def entries(s3: Any, bucket: str, **options: Any) -> list[tuple[str, str, bool]]:
    """Return (key, version id, is latest) of every version, and then of every delete marker."""
    listed = s3.list_object_versions(Bucket=bucket, **options)
    return [
        (each["Key"], each["VersionId"], each["IsLatest"])
        for each in listed.get("Versions", []) + listed.get("DeleteMarkers", [])
    ]


# The configuration.


def test_versioning_is_enabled_and_suspended_and_never_taken_back(s3: Any, bucket: str) -> None:
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    for status in ("Suspended", "Enabled", "Enabled", "Suspended"):
        set_versioning(s3, bucket, status)
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "MalformedXML"),
        (b"<x/>", 400, "MalformedXML"),
        (b"<VersioningConfiguration/>", 400, "IllegalVersioningConfigurationException"),
        (
            b"<VersioningConfiguration><Status>On</Status></VersioningConfiguration>",
            400,
            "MalformedXML",
        ),
        (
            b"<VersioningConfiguration><Status>Enabled</Status><Other/></VersioningConfiguration>",
            400,
            "MalformedXML",
        ),
        (
            b"<VersioningConfiguration><MfaDelete>Enabled</MfaDelete><Status>Enabled</Status>"
            b"</VersioningConfiguration>",
            501,
            "NotImplemented",
        ),
    ],
)
def test_a_bad_configuration_is_refused_and_changes_nothing(
    store: kit.ObjectStore, s3: Any, bucket: str, body: bytes, status: int, code: str
) -> None:
    answer = kit.call(store, "PUT", f"/{bucket}?versioning", body=body)
    assert (answer.status, answer.code) == (status, code)
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)


def test_mfa_delete_is_refused_by_name(store: kit.ObjectStore, s3: Any, bucket: str) -> None:
    for request, body in ((f"/{bucket}?versioning", ENABLED), (f"/{bucket}/k", b"")):
        method = "PUT" if body else "DELETE"
        answer = kit.call(store, method, request, {"x-amz-mfa": "serial 123456"}, body)
        assert (answer.status, answer.element("Header")) == (501, "x-amz-mfa")
    both = {"Status": "Enabled", "MFADelete": "Disabled"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=both)


def test_versioning_of_an_absent_bucket_is_no_such_bucket(store: kit.ObjectStore) -> None:
    for method, body in (("GET", b""), ("PUT", ENABLED)):
        answer = kit.call(store, method, "/absent-bucket?versioning", body=body)
        assert (answer.status, answer.code) == (404, "NoSuchBucket")
    assert kit.call(store, "GET", "/absent-bucket?versions").code == "NoSuchBucket"


def test_the_configuration_of_a_table_bucket_is_refused(store: kit.ObjectStore, s3: Any) -> None:
    store.run(
        store.storage.buckets.create(
            "table-bucket", bucket_type="table", owner=kit.ACCOUNT, region=kit.REGION
        )
    )
    for method, target, body in (
        ("PUT", "/table-bucket?versioning", ENABLED),
        ("GET", "/table-bucket?versions", b""),
    ):
        answer = kit.call(store, method, target, body=body)
        assert (answer.status, answer.code) == (405, "MethodNotAllowed")
        assert answer.element("ResourceType") == "TABLE BUCKET"
    assert "Status" not in s3.get_bucket_versioning(Bucket="table-bucket")


# Writes and reads.


def test_a_bucket_without_versioning_shows_no_version_ids(s3: Any, bucket: str) -> None:
    assert put(s3, bucket, "k") == ""
    assert "VersionId" not in s3.get_object(Bucket=bucket, Key="k")
    assert "VersionId" not in s3.head_object(Bucket=bucket, Key="k")
    assert entries(s3, bucket) == [("k", "null", True)]
    deleted = s3.delete_object(Bucket=bucket, Key="k")
    assert "VersionId" not in deleted
    assert "DeleteMarker" not in deleted


def test_every_put_is_a_version_that_stays_readable(s3: Any, versioned: str) -> None:
    bodies = [b"one", b"two" * 50_000, b""]
    ids = [put(s3, versioned, "k", body) for body in bodies]
    for version_id, body in zip(ids, bodies, strict=True):
        assert read(s3, versioned, "k", VersionId=version_id) == body
        head = s3.head_object(Bucket=versioned, Key="k", VersionId=version_id)
        assert (head["VersionId"], head["ContentLength"]) == (version_id, len(body))
        attributes = s3.get_object_attributes(
            Bucket=versioned, Key="k", VersionId=version_id, ObjectAttributes=["ObjectSize"]
        )
        assert (attributes["VersionId"], attributes["ObjectSize"]) == (version_id, len(body))
    assert s3.get_object(Bucket=versioned, Key="k")["VersionId"] == ids[-1]
    ranged = s3.get_object(Bucket=versioned, Key="k", VersionId=ids[0], Range="bytes=1-")
    assert (ranged["Body"].read(), ranged["VersionId"]) == (b"ne", ids[0])
    assert entries(s3, versioned) == [
        ("k", ids[2], True),
        ("k", ids[1], False),
        ("k", ids[0], False),
    ]


def test_a_suspended_bucket_writes_null_versions_and_shows_them(s3: Any, versioned: str) -> None:
    kept = put(s3, versioned, "k", b"kept")
    set_versioning(s3, versioned, "Suspended")
    assert put(s3, versioned, "k", b"null") == ""
    assert s3.get_object(Bucket=versioned, Key="k")["VersionId"] == "null"
    assert read(s3, versioned, "k", VersionId=kept) == b"kept"
    deleted = s3.delete_object(Bucket=versioned, Key="k")
    assert (deleted["VersionId"], deleted["DeleteMarker"]) == ("null", True)
    assert entries(s3, versioned) == [("k", kept, False), ("k", "null", True)]


def test_a_copy_shows_a_null_version_where_versioning_is_suspended(s3: Any, versioned: str) -> None:
    """Other writes do not; so it is on AWS."""
    put(s3, versioned, "k")
    source = f"{versioned}/k"
    assert len(s3.copy_object(Bucket=versioned, Key="c", CopySource=source)["VersionId"]) == 32
    set_versioning(s3, versioned, "Suspended")
    for _ in range(2):
        copied = s3.copy_object(Bucket=versioned, Key="c", CopySource=source)
        assert copied["VersionId"] == "null"


def test_a_delete_marker_is_404_and_by_its_id_405(
    store: kit.ObjectStore, s3: Any, versioned: str
) -> None:
    kept = put(s3, versioned, "k")
    deleted = s3.delete_object(Bucket=versioned, Key="k")
    marker = deleted["VersionId"]
    assert deleted["DeleteMarker"] is True
    for method in ("GET", "HEAD"):
        answer = kit.call(store, method, f"/{versioned}/k")
        assert answer.status == 404
        assert answer.headers["x-amz-delete-marker"] == "true"
        assert answer.headers["x-amz-version-id"] == marker
        answer = kit.call(store, method, f"/{versioned}/k?versionId={marker}")
        assert answer.status == 405
        assert answer.headers["x-amz-delete-marker"] == "true"
        assert answer.headers["allow"] == "DELETE"
        listed = s3.list_object_versions(Bucket=versioned)["DeleteMarkers"][0]["LastModified"]
        assert answer.headers["last-modified"] == listed.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert kit.call(store, "GET", f"/{versioned}/k").code == "NoSuchKey"
    assert read(s3, versioned, "k", VersionId=kept) == b"x"
    assert "Contents" not in s3.list_objects_v2(Bucket=versioned)
    assert "Contents" not in s3.list_objects(Bucket=versioned)
    absent = kit.call(store, "GET", f"/{versioned}/absent")
    assert "x-amz-delete-marker" not in absent.headers


def test_tags_and_lists_of_a_delete_marker_are_not_allowed(
    store: kit.ObjectStore, s3: Any, versioned: str
) -> None:
    """The newest version is one as well: 405, where a read of the body finds no key."""
    put(s3, versioned, "k")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    tagging = b"<Tagging><TagSet/></Tagging>"
    for target in (f"/{versioned}/k?tagging", f"/{versioned}/k?tagging&versionId={marker}"):
        for method, body in (("GET", b""), ("PUT", tagging), ("DELETE", b"")):
            answer = kit.call(store, method, target, body=body)
            assert (answer.status, answer.code) == (405, "MethodNotAllowed")
            assert answer.element("Method") == method
            assert answer.element("ResourceType") == "DeleteMarker"
            assert answer.headers["x-amz-delete-marker"] == "true"
    answer = kit.call(store, "PUT", f"/{versioned}/k?acl", {"x-amz-acl": "private"})
    assert (answer.status, answer.element("ResourceType")) == (405, "DeleteMarker")
    assert kit.call(store, "GET", f"/{versioned}/k?acl").code == "NoSuchKey"


def test_removing_the_delete_marker_restores_the_object(s3: Any, versioned: str) -> None:
    put(s3, versioned, "k", b"back")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    removed = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert (removed["VersionId"], removed["DeleteMarker"]) == (marker, True)
    assert read(s3, versioned, "k") == b"back"


def test_deleting_the_newest_version_makes_the_one_before_the_newest(
    s3: Any, versioned: str
) -> None:
    first, second = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"2")
    removed = s3.delete_object(Bucket=versioned, Key="k", VersionId=second)
    assert removed["VersionId"] == second
    assert "DeleteMarker" not in removed
    assert s3.get_object(Bucket=versioned, Key="k")["VersionId"] == first
    assert refused(s3.get_object, Bucket=versioned, Key="k", VersionId=second) == (
        404,
        "NoSuchVersion",
    )
    again = s3.delete_object(Bucket=versioned, Key="k", VersionId=second)
    assert again["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_an_unknown_version_does_not_exist(s3: Any, versioned: str) -> None:
    put(s3, versioned, "k")
    for key in ("k", "absent"):
        for version_id in (UNKNOWN, "null"):
            named = {"Bucket": versioned, "Key": key, "VersionId": version_id}
            assert refused(s3.get_object, **named) == (404, "NoSuchVersion")
            assert refused(s3.get_object_tagging, **named) == (404, "NoSuchVersion")
            assert s3.delete_object(**named)["VersionId"] == version_id
    assert len(entries(s3, versioned)) == 1


@pytest.mark.parametrize("version_id", MALFORMED)
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "k?"),
        ("DELETE", "k?"),
        ("GET", "k?tagging&"),
        ("DELETE", "k?tagging&"),
        ("GET", "k?acl&"),
    ],
)
def test_a_malformed_version_id_is_refused(
    store: kit.ObjectStore, s3: Any, versioned: str, version_id: str, method: str, target: str
) -> None:
    put(s3, versioned, "k")
    answer = kit.call(store, method, f"/{versioned}/{target}versionId={version_id}")
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert answer.element("ArgumentName") == "versionId"
    assert len(entries(s3, versioned)) == 1


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PUT", "k?", {}),
        ("PUT", "k?", {"x-amz-copy-source": "b/k"}),
        ("PUT", "k?partNumber=1&uploadId=u&", {}),
        ("POST", "k?uploads&", {}),
        ("POST", "k?uploadId=u&", {}),
    ],
)
def test_a_write_takes_no_version_id(
    store: kit.ObjectStore, versioned: str, method: str, target: str, headers: dict[str, str]
) -> None:
    answer = kit.call(store, method, f"/{versioned}/{target}versionId=null", headers)
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert "does not accept a version-id" in answer.element("Message")


def test_conditional_writes_see_the_newest_version_and_no_marker(s3: Any, versioned: str) -> None:
    assert refused(s3.put_object, Bucket=versioned, Key="k", IfMatch='"x"') == (404, "NoSuchKey")
    first = s3.put_object(Bucket=versioned, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    s3.put_object(Bucket=versioned, Key="k", Body=b"2", IfMatch=first)
    failed = (412, "PreconditionFailed")
    assert refused(s3.put_object, Bucket=versioned, Key="k", IfMatch=first) == failed
    assert refused(s3.put_object, Bucket=versioned, Key="k", IfNoneMatch="*") == failed
    assert refused(s3.delete_object, Bucket=versioned, Key="k", IfMatch=first) == failed
    s3.delete_object(Bucket=versioned, Key="k")
    assert refused(s3.put_object, Bucket=versioned, Key="k", IfMatch="*") == (404, "NoSuchKey")
    s3.put_object(Bucket=versioned, Key="k", IfNoneMatch="*")
    assert len(entries(s3, versioned)) == 4


def test_of_many_conditional_writers_one_makes_a_version(s3: Any, versioned: str) -> None:
    def attempt(number: int) -> int:
        try:
            put(s3, versioned, "k", b"%d" % number, IfNoneMatch="*")
        except botocore.exceptions.ClientError:
            return 0
        return 1

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(16))) == 1
    assert len(entries(s3, versioned)) == 1


def test_many_writers_at_once_each_make_a_version(s3: Any, versioned: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda n: put(s3, versioned, "k", b"%d" % n), range(24)))
    assert sorted(each for _, each, _ in entries(s3, versioned)) == sorted(ids)
    assert [latest for _, _, latest in entries(s3, versioned)] == [True] + [False] * 23


# Copies, uploads, tags.


def test_copy_reads_the_version_named_and_says_so(s3: Any, versioned: str) -> None:
    first, second = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"2")
    source = {"Bucket": versioned, "Key": "k"}
    copied = s3.copy_object(Bucket=versioned, Key="copy", CopySource={**source, "VersionId": first})
    assert copied["CopySourceVersionId"] == first
    assert read(s3, versioned, "copy", VersionId=copied["VersionId"]) == b"1"
    newest = s3.copy_object(Bucket=versioned, Key="copy", CopySource=source)
    assert newest["CopySourceVersionId"] == second
    assert read(s3, versioned, "copy") == b"2"


def test_copy_of_an_older_version_onto_its_key_restores_it(s3: Any, versioned: str) -> None:
    first = put(s3, versioned, "k", b"1")
    put(s3, versioned, "k", b"2")
    source = {"Bucket": versioned, "Key": "k", "VersionId": first}
    s3.copy_object(Bucket=versioned, Key="k", CopySource=source)
    assert read(s3, versioned, "k") == b"1"
    assert len(entries(s3, versioned)) == 3


def test_copy_of_a_delete_marker_is_refused(s3: Any, versioned: str) -> None:
    put(s3, versioned, "k")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    source = {"Bucket": versioned, "Key": "k"}
    copy = {"Bucket": versioned, "Key": "copy"}
    assert refused(s3.copy_object, **copy, CopySource=source) == (404, "NoSuchKey")
    by_id = {**source, "VersionId": marker}
    assert refused(s3.copy_object, **copy, CopySource=by_id) == (400, "InvalidRequest")
    unknown = {**source, "VersionId": UNKNOWN}
    assert refused(s3.copy_object, **copy, CopySource=unknown) == (404, "NoSuchVersion")
    malformed = {**source, "VersionId": "abc"}
    assert refused(s3.copy_object, **copy, CopySource=malformed) == (400, "InvalidArgument")


def test_a_multipart_upload_makes_a_version_of_a_version(s3: Any, versioned: str) -> None:
    first = put(s3, versioned, "k", b"first " * 100)
    put(s3, versioned, "k", b"later")
    upload = {"Bucket": versioned, "Key": "k"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    source = {"Bucket": versioned, "Key": "k", "VersionId": first}
    part = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source)
    assert part["CopySourceVersionId"] == first
    parts = [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert read(s3, versioned, "k", VersionId=done["VersionId"]) == b"first " * 100
    assert next(each[1] for each in entries(s3, versioned)) == done["VersionId"]
    assert len(entries(s3, versioned)) == 3


def test_a_form_makes_a_version(store: kit.ObjectStore, s3: Any, versioned: str) -> None:
    first = put(s3, versioned, "k", b"1")
    form = s3.generate_presigned_post(versioned, "k")
    answer = requests.post(
        form["url"], data=form["fields"], files={"file": b"2"}, timeout=waits.WAIT_SECONDS
    )
    assert answer.status_code == 204
    second = answer.headers["x-amz-version-id"]
    assert [each for _, each, _ in entries(s3, versioned)] == [second, first]
    assert read(s3, versioned, "k", VersionId=second) == b"2"


def test_tags_are_those_of_the_version_named(s3: Any, versioned: str) -> None:
    first, second = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"2")
    named = {"Bucket": versioned, "Key": "k", "VersionId": first}
    tags = {"TagSet": [{"Key": "a", "Value": "1"}]}
    assert s3.put_object_tagging(**named, Tagging=tags)["VersionId"] == first
    tagged = s3.get_object_tagging(**named)
    assert (tagged["VersionId"], tagged["TagSet"]) == (first, tags["TagSet"])
    plain = s3.get_object_tagging(Bucket=versioned, Key="k")
    assert (plain["VersionId"], plain["TagSet"]) == (second, [])
    assert s3.delete_object_tagging(**named)["VersionId"] == first
    assert s3.get_object_tagging(**named)["TagSet"] == []
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    named["VersionId"] = marker
    assert refused(s3.put_object_tagging, **named, Tagging=tags) == (405, "MethodNotAllowed")
    assert refused(s3.get_object_tagging, **named) == (405, "MethodNotAllowed")


# Many deletions at once, and the end of a bucket.


def test_delete_objects_names_markers_and_versions(s3: Any, versioned: str) -> None:
    first, second = put(s3, versioned, "k", b"1"), put(s3, versioned, "k", b"2")
    put(s3, versioned, "other")
    answer = s3.delete_objects(
        Bucket=versioned,
        Delete={
            "Objects": [
                {"Key": "k", "VersionId": first},
                {"Key": "other"},
                {"Key": "absent"},
                {"Key": "k", "VersionId": "abc"},
            ]
        },
    )
    assert [(row["Key"], row["VersionId"], row["Code"]) for row in answer["Errors"]] == [
        ("k", "abc", "NoSuchVersion")
    ]
    by_key = {row["Key"]: row for row in answer["Deleted"]}
    assert by_key["k"] == {"Key": "k", "VersionId": first}
    for key in ("other", "absent"):
        assert by_key[key]["DeleteMarker"] is True
        assert (key, by_key[key]["DeleteMarkerVersionId"], True) in entries(s3, versioned)
    marker = by_key["other"]["DeleteMarkerVersionId"]
    again = s3.delete_objects(
        Bucket=versioned, Delete={"Objects": [{"Key": "other", "VersionId": marker}]}
    )
    assert again["Deleted"] == [
        {
            "Key": "other",
            "VersionId": marker,
            "DeleteMarker": True,
            "DeleteMarkerVersionId": marker,
        }
    ]
    assert read(s3, versioned, "other") == b"x"
    assert s3.get_object(Bucket=versioned, Key="k")["VersionId"] == second


def test_delete_bucket_waits_for_the_last_version_and_marker(s3: Any, versioned: str) -> None:
    for number in range(3):
        put(s3, versioned, f"k{number}")
        s3.delete_object(Bucket=versioned, Key=f"k{number}")
    assert "Contents" not in s3.list_objects_v2(Bucket=versioned)
    with pytest.raises(
        botocore.exceptions.ClientError, match="You must delete all versions in the bucket"
    ):
        s3.delete_bucket(Bucket=versioned)
    while listed := entries(s3, versioned, MaxKeys=2):
        assert refused(s3.delete_bucket, Bucket=versioned) == (409, "BucketNotEmpty")
        targets = [{"Key": key, "VersionId": version_id} for key, version_id, _ in listed]
        s3.delete_objects(Bucket=versioned, Delete={"Objects": targets})
    s3.delete_bucket(Bucket=versioned)


def test_boto3s_collection_of_versions_empties_a_bucket(
    store: kit.ObjectStore, s3: Any, versioned: str
) -> None:
    for _ in range(2):
        s3.upload_fileobj(io.BytesIO(b"x" * 100), versioned, "k")
    s3.delete_object(Bucket=versioned, Key="k")
    resource = boto3.resource(
        "s3",
        endpoint_url=store.url,
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
        region_name=kit.REGION,
    ).Bucket(versioned)
    resource.object_versions.delete()
    assert entries(s3, versioned) == []


# Listings.


@pytest.fixture(scope="module")
def history(s3: Any, new_bucket: Any) -> tuple[str, list[str]]:
    """A bucket, and its versions and markers as `key version`, in the order of a listing."""
    bucket = new_bucket()
    keys = ["a b", "dir/a", "dir/b", "z é"]
    expected = []
    for key in keys:
        put(s3, bucket, key)
    set_versioning(s3, bucket, "Enabled")
    for key in keys:
        written = [f"{key} null"]
        for _ in range(2):
            written.append(f"{key} {put(s3, bucket, key)}")
        marker = s3.delete_object(Bucket=bucket, Key=key)["VersionId"]
        written.append(f"{key} {marker}")
        expected += written[::-1]
    return bucket, expected


@pytest.mark.parametrize("page_size", [1, 2, 3, 5, 100])
def test_boto3s_paginator_shows_every_version_once(
    s3: Any, history: tuple[str, list[str]], page_size: int
) -> None:
    bucket, expected = history
    shown = []
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": page_size}
    )
    for page in pages:
        here = page.get("Versions", []) + page.get("DeleteMarkers", [])
        assert len(here) <= page_size
        shown += [f"{each['Key']} {each['VersionId']}" for each in here]
    assert sorted(shown) == sorted(expected)


def test_a_listing_interleaves_versions_and_markers(
    store: kit.ObjectStore, history: tuple[str, list[str]]
) -> None:
    bucket, expected = history
    body = kit.call(store, "GET", f"/{bucket}?versions").body.decode()
    shown = []
    for piece in body.split("<Key>")[1:]:
        key = piece.partition("</Key>")[0]
        shown.append(f"{key} {piece.partition('<VersionId>')[2].partition('</VersionId>')[0]}")
    assert shown == expected
    assert body.count("<DeleteMarker>") == 4
    assert body.count("<Owner>") == len(expected)
    assert body.count("<IsLatest>true</IsLatest>") == 4


def test_a_delimiter_prefix_and_encoding_hold_for_versions(
    store: kit.ObjectStore, s3: Any, history: tuple[str, list[str]]
) -> None:
    bucket, expected = history
    listed = s3.list_object_versions(Bucket=bucket, Delimiter="/")
    assert [each["Prefix"] for each in listed["CommonPrefixes"]] == ["dir/"]
    assert len(listed["Versions"]) == 6
    below = entries(s3, bucket, Prefix="dir/")
    assert {key for key, _, _ in below} == {"dir/a", "dir/b"}
    answer = kit.call(store, "GET", f"/{bucket}?versions&encoding-type=url&prefix=z&max-keys=1")
    assert answer.element("Key") == answer.element("NextKeyMarker") == "z%20%C3%A9"
    assert answer.element("EncodingType") == "url"
    assert expected[-4] == f"z é {answer.element('NextVersionIdMarker')}"


def test_max_keys_of_zero_is_an_empty_listing(
    store: kit.ObjectStore, history: tuple[str, list[str]]
) -> None:
    answer = kit.call(store, "GET", f"/{history[0]}?versions&max-keys=0")
    assert answer.element("IsTruncated") == "false"
    assert b"<Version>" not in answer.body


@pytest.mark.parametrize(
    "query",
    [
        f"version-id-marker={UNKNOWN}",
        "key-marker=k&version-id-marker=",
        "key-marker=k&version-id-marker=abc",
        "max-keys=lots",
        "encoding-type=x",
    ],
)
def test_bad_parameters_of_a_listing_are_refused(
    store: kit.ObjectStore, history: tuple[str, list[str]], query: str
) -> None:
    answer = kit.call(store, "GET", f"/{history[0]}?versions&{query}")
    assert (answer.status, answer.code) == (400, "InvalidArgument")


# Access.

BUCKET = "rights-of-versions"
ALL_OF_ONE = "arn:aws:s3:::" + BUCKET


def user(name: str, *actions: str, **condition: Any) -> config.User:
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Action": [f"s3:{action}" for action in actions],
        "Resource": [ALL_OF_ONE, ALL_OF_ONE + "/*"],
    }
    if condition:
        statement["Condition"] = condition
    return config.User(
        name=name,
        access_key=f"AKIA{name.upper():X<16}",
        secret_key=f"secret-of-{name}",
        policies=({"Version": "2012-10-17", "Statement": [statement]},),
    )


ACTIONS = (
    "GetObject",
    "GetObjectVersion",
    "GetObjectAttributes",
    "GetObjectVersionAttributes",
    "DeleteObject",
    "DeleteObjectVersion",
    "GetObjectTagging",
    "GetObjectVersionTagging",
    "PutObjectTagging",
    "PutObjectVersionTagging",
    "DeleteObjectTagging",
    "DeleteObjectVersionTagging",
    "ListBucket",
    "ListBucketVersions",
    "GetBucketVersioning",
    "PutBucketVersioning",
)
USERS = {action: user(f"only{number}", action) for number, action in enumerate(ACTIONS)}
PINNED = user("pinned", "GetObjectVersion", StringEquals={"s3:VersionId": "null"})
PAIR = user("pair", "GetObjectVersion", "GetObjectVersionAttributes")
COPIER = user("copier", "GetObjectVersion", "PutObject")
TAGS = b"<Tagging><TagSet/></Tagging>"

REQUESTS: tuple[tuple[str, str, str, bytes], ...] = (
    ("GetObject", "GET", "/k", b""),
    ("GetObjectVersion", "GET", "/k?versionId=VERSION", b""),
    ("GetObjectVersion", "HEAD", "/k?versionId=VERSION", b""),
    ("GetObjectTagging", "GET", "/k?tagging", b""),
    ("GetObjectVersionTagging", "GET", "/k?tagging&versionId=VERSION", b""),
    ("PutObjectTagging", "PUT", "/k?tagging", TAGS),
    ("PutObjectVersionTagging", "PUT", "/k?tagging&versionId=VERSION", TAGS),
    ("DeleteObjectTagging", "DELETE", "/k?tagging", b""),
    ("DeleteObjectVersionTagging", "DELETE", "/k?tagging&versionId=VERSION", b""),
    ("ListBucket", "GET", "?list-type=2", b""),
    ("ListBucketVersions", "GET", "?versions", b""),
    ("GetBucketVersioning", "GET", "?versioning", b""),
    ("PutBucketVersioning", "PUT", "?versioning", ENABLED),
    ("DeleteObject", "DELETE", "/k", b""),
    ("DeleteObjectVersion", "DELETE", "/k?versionId=VERSION", b""),
)


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    users = (*USERS.values(), PINNED, PAIR, COPIER)
    with kit.serve(tmp_path_factory.mktemp("rights") / "data", users=users) as running:
        client = kit.client(running)
        client.create_bucket(Bucket=BUCKET)
        put(client, BUCKET, "k")
        set_versioning(client, BUCKET, "Enabled")
        yield running


def as_user(place: kit.ObjectStore, who: config.User, method: str, target: str, **more: Any) -> int:
    return kit.call(
        place, method, target, access_key=who.access_key, secret_key=who.secret_key, **more
    ).status


@pytest.mark.parametrize(("action", "method", "target", "body"), REQUESTS)
def test_a_request_takes_exactly_the_right_of_its_version(
    rights: kit.ObjectStore, action: str, method: str, target: str, body: bytes
) -> None:
    client = kit.client(rights)
    for holder, who in USERS.items():
        version_id = put(client, BUCKET, "k")
        wire = f"/{BUCKET}{target.replace('VERSION', version_id)}"
        status = as_user(rights, who, method, wire, body=body)
        assert (status == 403) == (holder != action), (holder, status)
        if holder != action:
            assert client.head_object(Bucket=BUCKET, Key="k")["VersionId"] == version_id


def test_attributes_and_copies_of_a_version_take_the_rights_of_versions(
    rights: kit.ObjectStore,
) -> None:
    client = kit.client(rights)
    version_id = put(client, BUCKET, "k")
    target = f"/{BUCKET}/k?attributes&versionId={version_id}"
    headers = {"x-amz-object-attributes": "ETag"}
    assert as_user(rights, PAIR, "GET", target, headers=headers) == 200
    assert as_user(rights, USERS["GetObjectVersion"], "GET", target, headers=headers) == 403
    copy = {"x-amz-copy-source": f"{BUCKET}/k?versionId={version_id}"}
    assert as_user(rights, COPIER, "PUT", f"/{BUCKET}/copy", headers=copy) == 200
    newest = {"x-amz-copy-source": f"{BUCKET}/k"}
    assert as_user(rights, COPIER, "PUT", f"/{BUCKET}/copy", headers=newest) == 403


def test_a_policy_may_name_the_version(rights: kit.ObjectStore) -> None:
    client = kit.client(rights)
    set_versioning(client, BUCKET, "Suspended")
    put(client, BUCKET, "pinned", b"null")
    set_versioning(client, BUCKET, "Enabled")
    other = put(client, BUCKET, "pinned", b"other")
    assert as_user(rights, PINNED, "GET", f"/{BUCKET}/pinned?versionId=null") == 200
    assert as_user(rights, PINNED, "GET", f"/{BUCKET}/pinned?versionId={other}") == 403


def test_delete_objects_takes_the_right_of_each_kind_of_deletion(rights: kit.ObjectStore) -> None:
    client = kit.client(rights)
    version_id = put(client, BUCKET, "many")
    for action, deleted in (("DeleteObject", "many"), ("DeleteObjectVersion", "version")):
        who = USERS[action]
        holder = kit.client(rights, access_key=who.access_key, secret_key=who.secret_key)
        targets = [{"Key": "many"}, {"Key": "many", "VersionId": version_id}]
        answer = holder.delete_objects(Bucket=BUCKET, Delete={"Objects": targets})
        assert [row["Code"] for row in answer["Errors"]] == ["AccessDenied"]
        assert ("VersionId" in answer["Deleted"][0]) == (deleted == "version")
