"""Object lock over the wire: configuration, retention, legal hold, bypass, and their rights."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest
import requests

from server import config
from tests.kit import s3 as kit
from tests.kit import waits

LATER = datetime.datetime(2140, 1, 1, tzinfo=datetime.UTC)
MUCH_LATER = datetime.datetime(2141, 1, 1, tzinfo=datetime.UTC)
PAST = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
GOVERNED = {"Mode": "GOVERNANCE", "RetainUntilDate": LATER}
COMPLIANT = {"Mode": "COMPLIANCE", "RetainUntilDate": LATER}


def make(s3: Any, name: str) -> str:
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@pytest.fixture
def locked(s3: Any, bucket: str) -> str:
    """A fresh bucket with object lock."""
    return make(s3, f"lock-{bucket}")


def refused(call: Any, **arguments: Any) -> tuple[int, str]:
    """Return status and code of a call that is refused."""
    with pytest.raises(botocore.exceptions.ClientError) as refusal:
        call(**arguments)
    response = refusal.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


DENIED = (403, "AccessDenied")
MD5_OF_X = base64.b64encode(hashlib.md5(b"x", usedforsecurity=False).digest()).decode()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-object-lock-legal-hold": "ON"},
        {
            "x-amz-object-lock-mode": "GOVERNANCE",
            "x-amz-object-lock-retain-until-date": "2140-01-01T00:00:00Z",
        },
    ],
)
def test_a_lock_takes_a_digest_of_the_body(
    store: kit.ObjectStore, s3: Any, locked: str, headers: dict[str, str]
) -> None:
    """Amazon S3 user guide, "Object Lock considerations": Content-MD5 or a checksum."""
    answer = kit.call(store, "PUT", f"/{locked}/k", headers, b"x")
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    assert "Versions" not in s3.list_object_versions(Bucket=locked)
    for digest in (
        {"content-md5": MD5_OF_X},
        {"x-amz-checksum-crc32": base64.b64encode(zlib.crc32(b"x").to_bytes(4, "big")).decode()},
    ):
        assert kit.call(store, "PUT", f"/{locked}/k", {**headers, **digest}, b"x").status == 200


def test_a_bucket_is_created_with_object_lock_and_enabled_versioning(s3: Any, locked: str) -> None:
    assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"
    shown = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert shown == {"ObjectLockEnabled": "Enabled"}
    suspend = {"Bucket": locked, "VersioningConfiguration": {"Status": "Suspended"}}
    assert refused(s3.put_bucket_versioning, **suspend) == (409, "InvalidBucketState")


def test_object_lock_is_turned_on_where_versioning_is_enabled(s3: Any, bucket: str) -> None:
    configuration: dict[str, Any] = {
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 3}},
    }
    put = {"Bucket": bucket, "ObjectLockConfiguration": configuration}
    absent = (404, "ObjectLockConfigurationNotFoundError")
    assert refused(s3.get_object_lock_configuration, Bucket=bucket) == absent
    for status in ("", "Suspended"):
        if status:
            s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        assert refused(s3.put_object_lock_configuration, **put) == (409, "InvalidBucketState")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object_lock_configuration(**put)
    shown = s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"]
    assert shown == configuration


def lock_document(inner: str, status: str = "Enabled") -> bytes:
    return (
        f"<ObjectLockConfiguration><ObjectLockEnabled>{status}</ObjectLockEnabled>{inner}"
        "</ObjectLockConfiguration>"
    ).encode()


def rule(inner: str) -> str:
    return f"<Rule><DefaultRetention>{inner}</DefaultRetention></Rule>"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "MissingRequestBodyError"),
        (b"<ObjectLockConfiguration/>", "MalformedXML"),
        (lock_document("", "Disabled"), "MalformedXML"),
        (lock_document("<Rule/>"), "MalformedXML"),
        (lock_document("<Other/>"), "MalformedXML"),
        (lock_document(rule("<Mode>GOVERNANCE</Mode>")), "MalformedXML"),
        (lock_document(rule("<Mode>governance</Mode><Days>1</Days>")), "MalformedXML"),
        (lock_document(rule("<Mode>GOVERNANCE</Mode><Days>x</Days>")), "MalformedXML"),
        (
            lock_document(rule("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>")),
            "MalformedXML",
        ),
        (lock_document(rule("<Mode>GOVERNANCE</Mode><Days>0</Days>")), "InvalidRetentionPeriod"),
        (lock_document(rule("<Mode>GOVERNANCE</Mode><Years>-1</Years>")), "InvalidRetentionPeriod"),
        (
            lock_document(rule("<Mode>GOVERNANCE</Mode><Years>101</Years>")),
            "InvalidRetentionPeriod",
        ),
        (
            lock_document(rule("<Mode>GOVERNANCE</Mode><Days>36501</Days>")),
            "InvalidRetentionPeriod",
        ),
    ],
)
def test_a_bad_configuration_is_refused_and_changes_nothing(
    store: kit.ObjectStore, s3: Any, locked: str, body: bytes, code: str
) -> None:
    answer = kit.call(store, "PUT", f"/{locked}?object-lock", body=body)
    assert (answer.status, answer.code) == (400, code)
    shown = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert shown == {"ObjectLockEnabled": "Enabled"}


def test_object_lock_of_a_table_bucket_is_refused(store: kit.ObjectStore) -> None:
    create = store.storage.buckets.create
    store.run(create("lock-tables", bucket_type="table", owner=kit.ACCOUNT, region=kit.REGION))
    answer = kit.call(store, "PUT", "/lock-tables?object-lock", body=lock_document(""))
    assert (answer.status, answer.code) == (405, "MethodNotAllowed")


def test_a_put_with_a_lock_shows_it_and_is_protected(s3: Any, locked: str) -> None:
    version_id = s3.put_object(
        Bucket=locked,
        Key="k",
        Body=b"x",
        ContentType="a/b",
        ObjectLockMode="GOVERNANCE",
        ObjectLockRetainUntilDate=LATER,
        ObjectLockLegalHoldStatus="ON",
    )["VersionId"]
    for shown in (s3.head_object(Bucket=locked, Key="k"), s3.get_object(Bucket=locked, Key="k")):
        assert shown["ObjectLockMode"] == "GOVERNANCE"
        assert shown["ObjectLockRetainUntilDate"] == LATER
        assert shown["ObjectLockLegalHoldStatus"] == "ON"
        assert shown["ContentType"] == "a/b"
    named = {"Bucket": locked, "Key": "k", "VersionId": version_id}
    assert refused(s3.delete_object, **named) == DENIED
    assert refused(s3.delete_object, **named, BypassGovernanceRetention=True) == DENIED
    s3.put_object_legal_hold(**named, LegalHold={"Status": "OFF"})
    assert refused(s3.delete_object, **named) == DENIED
    s3.delete_object(**named, BypassGovernanceRetention=True)
    assert refused(s3.head_object, **named)[0] == 404


def test_a_compliance_retention_is_only_extended(s3: Any, locked: str) -> None:
    version_id = s3.put_object(Bucket=locked, Key="k")["VersionId"]
    named = {"Bucket": locked, "Key": "k", "VersionId": version_id}
    s3.put_object_retention(**named, Retention=COMPLIANT)
    shorter = {"Mode": "COMPLIANCE", "RetainUntilDate": LATER - datetime.timedelta(1)}
    for retention in ({}, GOVERNED, shorter):
        bypassing = {**named, "Retention": retention, "BypassGovernanceRetention": True}
        assert refused(s3.put_object_retention, **bypassing) == DENIED
    assert refused(s3.delete_object, **named, BypassGovernanceRetention=True) == DENIED
    longer = {"Mode": "COMPLIANCE", "RetainUntilDate": MUCH_LATER}
    s3.put_object_retention(**named, Retention=longer)
    assert s3.get_object_retention(**named)["Retention"] == longer


def test_retention_and_legal_hold_are_read_back(s3: Any, locked: str) -> None:
    first = s3.put_object(Bucket=locked, Key="k")["VersionId"]
    s3.put_object(Bucket=locked, Key="k")
    newest = {"Bucket": locked, "Key": "k"}
    none = (404, "NoSuchObjectLockConfiguration")
    assert refused(s3.get_object_retention, **newest) == none
    assert refused(s3.get_object_legal_hold, **newest) == none
    s3.put_object_retention(**newest, VersionId=first, Retention=GOVERNED)
    s3.put_object_legal_hold(**newest, VersionId=first, LegalHold={"Status": "OFF"})
    assert s3.get_object_retention(**newest, VersionId=first)["Retention"] == GOVERNED
    held = s3.get_object_legal_hold(**newest, VersionId=first)["LegalHold"]
    assert held == {"Status": "OFF"}
    assert refused(s3.get_object_retention, **newest) == none
    s3.put_object_retention(**newest, VersionId=first, Retention={}, BypassGovernanceRetention=True)
    assert refused(s3.get_object_retention, **newest, VersionId=first) == none


def test_a_bucket_without_object_lock_takes_no_lock(s3: Any, bucket: str) -> None:
    invalid = (400, "InvalidRequest")
    key = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**key)
    assert refused(s3.put_object_retention, **key, Retention=GOVERNED) == invalid
    assert refused(s3.get_object_retention, **key) == invalid
    assert refused(s3.put_object_legal_hold, **key, LegalHold={"Status": "ON"}) == invalid
    assert refused(s3.get_object_legal_hold, **key) == invalid
    for call in (s3.put_object, s3.create_multipart_upload):
        assert refused(call, **key, ObjectLockLegalHoldStatus="ON") == invalid
    source = {"Bucket": bucket, "Key": "k"}
    copy = {"Bucket": bucket, "Key": "copy", "CopySource": source}
    assert refused(s3.copy_object, **copy, ObjectLockLegalHoldStatus="ON") == invalid
    form = s3.generate_presigned_post(
        bucket,
        "form",
        Fields={"x-amz-object-lock-legal-hold": "ON"},
        Conditions=[{"x-amz-object-lock-legal-hold": "ON"}],
    )
    answer = requests.post(
        form["url"], data=form["fields"], files={"file": b"2"}, timeout=waits.WAIT_SECONDS
    )
    assert answer.status_code == 400
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-object-lock-mode": "GOVERNANCE"},
        {"x-amz-object-lock-retain-until-date": "2140-01-01T00:00:00Z"},
        {
            "x-amz-object-lock-mode": "governance",
            "x-amz-object-lock-retain-until-date": "2140-01-01T00:00:00Z",
        },
        {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "soon"},
        {
            "x-amz-object-lock-mode": "GOVERNANCE",
            "x-amz-object-lock-retain-until-date": "2001-01-01T00:00:00Z",
        },
        {
            "x-amz-object-lock-mode": "GOVERNANCE",
            "x-amz-object-lock-retain-until-date": "0500-01-01T00:00:00Z",
        },
        {
            "x-amz-object-lock-mode": "GOVERNANCE",
            "x-amz-object-lock-retain-until-date": "9999-12-31T23:59:59-01:00",
        },
        {
            "x-amz-object-lock-mode": "GOVERNANCE",
            "x-amz-object-lock-retain-until-date": "0001-01-01T00:00:00+01:00",
        },
        {"x-amz-object-lock-legal-hold": "on"},
    ],
)
def test_a_malformed_lock_is_refused_and_stores_nothing(
    store: kit.ObjectStore, s3: Any, locked: str, headers: dict[str, str]
) -> None:
    answer = kit.call(store, "PUT", f"/{locked}/k", {**headers, "content-md5": MD5_OF_X}, b"x")
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert kit.call(store, "POST", f"/{locked}/k?uploads", headers).status == 400
    assert "Versions" not in s3.list_object_versions(Bucket=locked)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=locked)


@pytest.mark.parametrize(
    ("subresource", "body"),
    [
        ("retention", b"<Retention><Mode>GOVERNANCE</Mode></Retention>"),
        ("retention", b"<x/>"),
        (
            "retention",
            b"<Retention><Mode>any</Mode><RetainUntilDate>2140-01-01T00:00:00Z"
            b"</RetainUntilDate></Retention>",
        ),
        (
            "retention",
            b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>soon</RetainUntilDate>"
            b"</Retention>",
        ),
        (
            "retention",
            b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>9999-12-31T23:59:59-01:00"
            b"</RetainUntilDate></Retention>",
        ),
        ("legal-hold", b"<LegalHold/>"),
        ("legal-hold", b"<LegalHold><Status>on</Status></LegalHold>"),
    ],
)
def test_a_malformed_document_is_refused(
    store: kit.ObjectStore, s3: Any, locked: str, subresource: str, body: bytes
) -> None:
    s3.put_object(Bucket=locked, Key="k")
    answer = kit.call(store, "PUT", f"/{locked}/k?{subresource}", body=body)
    assert (answer.status, answer.code) == (400, "MalformedXML")


def test_a_retention_in_the_past_is_refused(s3: Any, locked: str) -> None:
    s3.put_object(Bucket=locked, Key="k")
    past = {"Mode": "GOVERNANCE", "RetainUntilDate": PAST}
    put = {"Bucket": locked, "Key": "k", "Retention": past}
    assert refused(s3.put_object_retention, **put) == (400, "InvalidArgument")


def test_a_delete_marker_has_no_lock(s3: Any, locked: str) -> None:
    s3.put_object(Bucket=locked, Key="k")
    marker = s3.delete_object(Bucket=locked, Key="k")["VersionId"]
    named = {"Bucket": locked, "Key": "k", "VersionId": marker}
    forbidden = (405, "MethodNotAllowed")
    assert refused(s3.put_object_retention, **named, Retention=GOVERNED) == forbidden
    assert refused(s3.get_object_legal_hold, **named) == forbidden
    s3.delete_object(**named)


def test_copies_and_uploads_name_locks_and_inherit_none(s3: Any, locked: str) -> None:
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": LATER}
    s3.put_object(Bucket=locked, Key="k", Body=b"x", ContentType="a/b", **lock)
    source = {"Bucket": locked, "Key": "k"}
    s3.copy_object(Bucket=locked, Key="plain", CopySource=source)
    plain = s3.head_object(Bucket=locked, Key="plain")
    assert "ObjectLockMode" not in plain
    assert plain["ContentType"] == "a/b"
    s3.copy_object(Bucket=locked, Key="copy", CopySource=source, ObjectLockLegalHoldStatus="ON")
    copied = s3.head_object(Bucket=locked, Key="copy")
    assert copied["ObjectLockLegalHoldStatus"] == "ON"
    assert "ObjectLockMode" not in copied
    upload: dict[str, Any] = {"Bucket": locked, "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload, **lock)["UploadId"]
    etag = s3.upload_part(**upload, PartNumber=1, Body=b"x")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    done = s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    named = {"Bucket": locked, "Key": "parts", "VersionId": done["VersionId"]}
    assert s3.get_object_retention(**named)["Retention"] == GOVERNED
    assert refused(s3.delete_object, **named) == DENIED
    form = s3.generate_presigned_post(
        locked,
        "form",
        Fields={"x-amz-object-lock-legal-hold": "ON"},
        Conditions=[{"x-amz-object-lock-legal-hold": "ON"}],
    )
    answer = requests.post(
        form["url"], data=form["fields"], files={"file": b"2"}, timeout=waits.WAIT_SECONDS
    )
    assert answer.status_code == 204
    assert s3.get_object_legal_hold(Bucket=locked, Key="form")["LegalHold"]["Status"] == "ON"


@pytest.mark.parametrize("signature_version", ["s3", "s3v4"])
def test_a_lock_in_a_presigned_url_means_what_its_header_means(
    store: kit.ObjectStore, s3: Any, locked: str, signature_version: str
) -> None:
    presigner = kit.client(store, config={"signature_version": signature_version})
    url = presigner.generate_presigned_url(
        "put_object",
        Params={
            "Bucket": locked,
            "Key": "k",
            "ContentMD5": MD5_OF_X,
            "ObjectLockMode": "GOVERNANCE",
            "ObjectLockRetainUntilDate": LATER,
        },
    )
    headers = {
        "content-md5": MD5_OF_X,
        "x-amz-object-lock-mode": "GOVERNANCE",
        "x-amz-object-lock-retain-until-date": "2140-01-01T00:00:00Z",
    }
    answer = requests.put(
        url,
        data=b"x",
        headers=headers if signature_version == "s3v4" else {},
        timeout=waits.WAIT_SECONDS,
    )
    assert answer.status_code == 200, answer.content
    assert s3.get_object_retention(Bucket=locked, Key="k")["Retention"] == GOVERNED


def test_delete_objects_answers_for_each_locked_version(s3: Any, locked: str) -> None:
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": LATER}
    kept = s3.put_object(Bucket=locked, Key="kept", **lock)["VersionId"]
    free = s3.put_object(Bucket=locked, Key="free")["VersionId"]
    targets = [{"Key": "kept", "VersionId": kept}, {"Key": "free", "VersionId": free}]
    answer = s3.delete_objects(Bucket=locked, Delete={"Objects": targets})
    assert [(row["Key"], row["Code"]) for row in answer["Errors"]] == [("kept", "AccessDenied")]
    assert answer["Deleted"] == [{"Key": "free", "VersionId": free}]
    assert refused(s3.delete_bucket, Bucket=locked) == (409, "BucketNotEmpty")
    again = s3.delete_objects(
        Bucket=locked, Delete={"Objects": targets[:1]}, BypassGovernanceRetention=True
    )
    assert "Errors" not in again
    s3.delete_bucket(Bucket=locked)


def test_the_retention_of_the_bucket_protects_new_versions(s3: Any, locked: str) -> None:
    configuration = {
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Years": 1}},
    }
    s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=configuration)
    version_id = s3.put_object(Bucket=locked, Key="k")["VersionId"]
    named = {"Bucket": locked, "Key": "k", "VersionId": version_id}
    shown = s3.get_object_retention(**named)["Retention"]
    assert shown["Mode"] == "COMPLIANCE"
    left = shown["RetainUntilDate"] - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(364) < left <= datetime.timedelta(365)
    assert refused(s3.delete_object, **named) == DENIED


# Access.

BUCKET = "rights-of-locks"


def user(name: str, *actions: str) -> config.User:
    statement = {
        "Effect": "Allow",
        "Action": [f"s3:{action}" for action in actions],
        "Resource": ["arn:aws:s3:::*"],
    }
    return config.User(
        name=name,
        access_key=f"AKIA{name.upper():X<16}",
        secret_key=f"secret-of-{name}",
        policies=({"Version": "2012-10-17", "Statement": [statement]},),
    )


REMOVER = user("remover", "DeleteObjectVersion", "PutObjectRetention")
BYPASSER = user(
    "bypasser", "DeleteObjectVersion", "PutObjectRetention", "BypassGovernanceRetention"
)
WRITER = user("writer", "PutObject", "CreateBucket")
LOCKER = user(
    "locker",
    "PutObject",
    "PutObjectRetention",
    "PutObjectLegalHold",
    "CreateBucket",
    "PutBucketObjectLockConfiguration",
    "PutBucketVersioning",
)


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    users = (REMOVER, BYPASSER, WRITER, LOCKER)
    with kit.serve(tmp_path_factory.mktemp("rights") / "data", users=users) as running:
        make(kit.client(running), BUCKET)
        yield running


def holder(place: kit.ObjectStore, who: config.User) -> Any:
    return kit.client(place, access_key=who.access_key, secret_key=who.secret_key)


def test_a_bypass_takes_the_right_to_it(rights: kit.ObjectStore) -> None:
    root = kit.client(rights)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": LATER}
    version_id = root.put_object(Bucket=BUCKET, Key="k", **lock)["VersionId"]
    named = {"Bucket": BUCKET, "Key": "k", "VersionId": version_id}
    bypass = {**named, "BypassGovernanceRetention": True}
    remover, bypasser = holder(rights, REMOVER), holder(rights, BYPASSER)
    assert refused(remover.delete_object, **bypass) == DENIED
    assert refused(remover.put_object_retention, **bypass, Retention={}) == DENIED
    many = {"Objects": [{"Key": "k", "VersionId": version_id}]}
    answer = remover.delete_objects(Bucket=BUCKET, Delete=many, BypassGovernanceRetention=True)
    assert [row["Code"] for row in answer["Errors"]] == ["AccessDenied"]
    assert refused(bypasser.delete_object, **named) == DENIED
    bypasser.delete_object(**bypass)


def deny(action: str, condition: dict[str, Any]) -> str:
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": f"arn:aws:s3:::{BUCKET}/*",
        "Condition": condition,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture
def kept(rights: kit.ObjectStore) -> Iterator[dict[str, Any]]:
    """A version under GOVERNANCE with the tag keep=yes, and a newer one without; no policy is
    left."""
    root = kit.client(rights)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": LATER}
    put = root.put_object(Bucket=BUCKET, Key="kept", Tagging="keep=yes", **lock)
    root.put_object(Bucket=BUCKET, Key="kept")
    yield {"Bucket": BUCKET, "Key": "kept", "VersionId": put["VersionId"]}
    root.delete_bucket_policy(Bucket=BUCKET)


@pytest.mark.parametrize(
    "condition",
    [
        {"StringEquals": {"s3:ExistingObjectTag/keep": "yes"}},
        {"StringLike": {"aws:UserAgent": "*"}},
        {"StringLike": {"s3:VersionId": "*"}},
    ],
)
def test_conditions_of_a_policy_keep_a_retention_from_being_bypassed(
    rights: kit.ObjectStore, kept: dict[str, Any], condition: dict[str, Any]
) -> None:
    text = deny("s3:BypassGovernanceRetention", condition)
    kit.client(rights).put_bucket_policy(Bucket=BUCKET, Policy=text)
    bypasser = holder(rights, BYPASSER)
    bypass = {**kept, "BypassGovernanceRetention": True}
    assert refused(bypasser.delete_object, **bypass) == DENIED
    assert refused(bypasser.put_object_retention, **bypass, Retention={}) == DENIED
    many = {"Objects": [{"Key": kept["Key"], "VersionId": kept["VersionId"]}]}
    answer = bypasser.delete_objects(Bucket=BUCKET, Delete=many, BypassGovernanceRetention=True)
    assert [row["Code"] for row in answer["Errors"]] == ["AccessDenied"]


def test_a_lock_is_judged_by_the_tags_of_the_version_that_is_named(
    rights: kit.ObjectStore, kept: dict[str, Any]
) -> None:
    condition = {"StringEquals": {"s3:ExistingObjectTag/keep": "yes"}}
    kit.client(rights).put_bucket_policy(Bucket=BUCKET, Policy=deny("s3:PutObject*", condition))
    locker = holder(rights, LOCKER)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": MUCH_LATER}
    assert refused(locker.put_object_legal_hold, **kept, LegalHold={"Status": "OFF"}) == DENIED
    assert refused(locker.put_object_retention, **kept, Retention=retention) == DENIED


def test_a_write_with_a_lock_takes_the_rights_to_its_parts(rights: kit.ObjectStore) -> None:
    retention = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": LATER}
    for lock in (retention, {"ObjectLockLegalHoldStatus": "ON"}):
        put = {"Bucket": BUCKET, "Key": "written", **lock}
        assert refused(holder(rights, WRITER).put_object, **put) == DENIED
        assert refused(holder(rights, WRITER).create_multipart_upload, **put) == DENIED
        holder(rights, LOCKER).put_object(**put)
    create = {"ObjectLockEnabledForBucket": True}
    assert refused(holder(rights, WRITER).create_bucket, Bucket="of-writer", **create) == DENIED
    holder(rights, LOCKER).create_bucket(Bucket="of-locker", **create)
