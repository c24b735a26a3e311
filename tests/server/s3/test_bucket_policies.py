"""Policies of buckets: who comes in by them, and what the block of public access leaves of them."""

from __future__ import annotations

import base64
import datetime
import gc
import hashlib
import itertools
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.exceptions
import pytest
import requests

from server import config
from server.access import model, policies, publicity
from server.s3 import engines, ownership
from tests.kit import s3 as kit
from tests.kit import waits

OTHER_ACCOUNT = "111111111111"
LATE = "2099-01-01T00:00:00Z"
ALL_OF_S3 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
OWNER = config.User(
    name="owner", access_key="AKOWNER", secret_key="owner's secret", policies=(ALL_OF_S3,)
)
NEIGHBOUR = config.User(name="neighbour", access_key="AKNEIGHBOUR", secret_key="neighbour's")
STRANGER = config.User(
    name="stranger",
    access_key="AKSTRANGER",
    secret_key="stranger's",
    policies=(ALL_OF_S3,),
    account=OTHER_ACCOUNT,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    folder = tmp_path_factory.mktemp("policies") / "data"
    with kit.serve(folder, users=(OWNER, NEIGHBOUR, STRANGER)) as running:
        yield running


def client_of(place: kit.ObjectStore, user: config.User) -> Any:
    return kit.client(place, access_key=user.access_key, secret_key=user.secret_key)


@pytest.fixture(scope="module")
def owner(place: kit.ObjectStore) -> Any:
    return client_of(place, OWNER)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def bucket(owner: Any, numbers: Iterator[int]) -> str:
    """A bucket of the owner's with the object k."""
    name = f"policies-{next(numbers):03}"
    owner.create_bucket(Bucket=name)
    owner.put_object(Bucket=name, Key="k", Body=b"body", Tagging="open=yes")
    return name


def policy(bucket: str, **changes: Any) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        **changes,
    }
    present = {name: value for name, value in statement.items() if value is not None}
    return json.dumps({"Version": "2012-10-17", "Statement": [present]})


def refusal(work: Any, **params: Any) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        work(**params)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def status_of_get(
    place: kit.ObjectStore, user: config.User | None, bucket: str, **headers: str
) -> int:
    target = f"/{bucket}/k"
    if user is None:
        return kit.send(place, "GET", target, headers).status
    return kit.call(
        place, "GET", target, headers, access_key=user.access_key, secret_key=user.secret_key
    ).status


def who_reads(place: kit.ObjectStore, bucket: str) -> set[str]:
    callers = {"owner": OWNER, "neighbour": NEIGHBOUR, "stranger": STRANGER, "anonymous": None}
    statuses = {name: status_of_get(place, user, bucket) for name, user in callers.items()}
    assert set(statuses.values()) <= {200, 403}
    return {name for name, status in statuses.items() if status == 200}


def test_a_policy_is_put_shown_as_it_was_and_removed(owner: Any, bucket: str) -> None:
    assert refusal(owner.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")
    text = policy(bucket) + "\n"
    answer = owner.put_bucket_policy(Bucket=bucket, Policy=text)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert owner.get_bucket_policy(Bucket=bucket)["Policy"] == text
    for _ in range(2):
        answer = owner.delete_bucket_policy(Bucket=bucket)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refusal(owner.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")


@pytest.mark.parametrize(
    ("principal", "readers"),
    [
        ("*", {"owner", "neighbour", "stranger", "anonymous"}),
        ({"AWS": "*"}, {"owner", "neighbour", "stranger", "anonymous"}),
        ({"AWS": f"arn:aws:iam::{kit.ACCOUNT}:user/neighbour"}, {"owner", "neighbour"}),
        ({"AWS": OTHER_ACCOUNT}, {"owner", "stranger"}),
        ({"AWS": f"arn:aws:iam::{OTHER_ACCOUNT}:root"}, {"owner", "stranger"}),
        # A grant to a whole account is subject to the account's own policies.
        ({"AWS": kit.ACCOUNT}, {"owner"}),
    ],
)
def test_a_policy_lets_in_whom_it_names(
    place: kit.ObjectStore, owner: Any, bucket: str, principal: Any, readers: set[str]
) -> None:
    assert who_reads(place, bucket) == {"owner"}
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Principal=principal))
    assert who_reads(place, bucket) == readers
    owner.delete_bucket_policy(Bucket=bucket)
    assert who_reads(place, bucket) == {"owner"}


def test_a_deny_applies_to_every_principal_but_root(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Effect="Deny"))
    assert who_reads(place, bucket) == set()
    assert kit.call(place, "GET", f"/{bucket}/k").status == 200


def test_a_policy_grants_its_own_actions_and_resources_alone(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket))
    for method, target in (
        ("PUT", f"/{bucket}/k"),
        ("DELETE", f"/{bucket}/k"),
        ("GET", f"/{bucket}"),
        ("GET", f"/{bucket}?policy"),
        ("DELETE", f"/{bucket}?policy"),
        ("PUT", f"/{bucket}?policy"),
        ("GET", "/"),
    ):
        assert kit.send(place, method, target, {}, b"{}").status == 403
    # One who may not list learns nothing of absent keys.
    assert kit.send(place, "GET", f"/{bucket}/absent").status == 403
    listing = policy(bucket, Action="s3:ListBucket", Resource=f"arn:aws:s3:::{bucket}")
    owner.put_bucket_policy(Bucket=bucket, Policy=listing)
    assert b"<Key>k</Key>" in kit.send(place, "GET", f"/{bucket}").body
    assert kit.send(place, "GET", f"/{bucket}/k").status == 403


def test_an_anonymous_form_and_put_are_taken_where_a_policy_allows(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    # What an anonymous caller writes is the bucket owner's only where the controls say so.
    controls = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    owner.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=controls)
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Action="s3:PutObject"))
    assert kit.send(place, "PUT", f"/{bucket}/new", {}, b"anonymous").status == 200
    headers = {"content-type": "multipart/form-data; boundary=x"}
    mark = b'--x\r\nContent-Disposition: form-data; name="'
    body = mark + b'key"\r\n\r\nform\r\n' + mark + b'file"\r\n\r\nby form\r\n--x--\r\n'
    assert kit.send(place, "POST", f"/{bucket}", headers, body).status == 204
    for key, content in (("new", b"anonymous"), ("form", b"by form")):
        assert owner.get_object(Bucket=bucket, Key=key)["Body"].read() == content


@pytest.mark.parametrize(
    ("condition", "headers", "status"),
    [
        ({"StringLike": {"aws:Referer": "http://a.example/*"}}, {}, 403),
        (
            {"StringLike": {"aws:Referer": "http://a.example/*"}},
            {"referer": "http://a.example/page"},
            200,
        ),
        ({"StringLikeIfExists": {"aws:Referer": "http://a.example/*"}}, {}, 200),
        ({"StringEquals": {"aws:UserAgent": "me"}}, {"user-agent": "me"}, 200),
        ({"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}, {}, 200),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {}, 403),
        ({"Bool": {"aws:SecureTransport": "true"}}, {}, 403),
        ({"StringEquals": {"s3:if-none-match": '"x"'}}, {"if-none-match": '"x"'}, 200),
        ({"Null": {"s3:if-none-match": "false"}}, {}, 403),
        ({"Null": {"s3:authType": "true", "s3:signatureversion": "true"}}, {}, 200),
        ({"Null": {"s3:TlsVersion": "true"}}, {}, 200),
        ({"StringEquals": {"aws:userid": "anonymous"}}, {}, 200),
        ({"StringEquals": {"aws:PrincipalAccount": OTHER_ACCOUNT}}, {}, 403),
        ({"StringEquals": {"s3:ExistingObjectTag/open": "yes"}}, {}, 200),
        ({"StringEquals": {"s3:ExistingObjectTag/open": "no"}}, {}, 403),
        ({"StringEquals": {"s3:ExistingObjectTag/other": "yes"}}, {}, 403),
    ],
)
def test_conditions_on_the_request_and_on_the_objects_tags(
    place: kit.ObjectStore,
    owner: Any,
    bucket: str,
    condition: dict[str, Any],
    headers: dict[str, str],
    status: int,
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Condition=condition))
    assert status_of_get(place, None, bucket, **headers) == status


@pytest.mark.parametrize(
    ("limit_ms", "status"),
    # An hour, and what no signature of this test's own clock is younger than.
    [(3_600_000, 200), (-10_000, 403)],
)
def test_a_condition_on_the_age_of_a_signature(
    place: kit.ObjectStore, owner: Any, bucket: str, limit_ms: int, status: int
) -> None:
    condition = {"NumericLessThan": {"s3:signatureAge": str(limit_ms)}}
    text = policy(bucket, Action="s3:GetObject", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    keys = {"access_key": STRANGER.access_key, "secret_key": STRANGER.secret_key}
    assert kit.call(place, "GET", f"/{bucket}/k", **keys).status == status
    presigner = kit.client(place, **keys, config={"signature_version": "s3v4"})
    url = presigner.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    assert requests.get(url, timeout=waits.WAIT_SECONDS).status_code == status
    # A presigned URL of version 2 does not say when it was signed.
    presigner = kit.client(place, **keys, config={"signature_version": "s3"})
    url = presigner.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    assert requests.get(url, timeout=waits.WAIT_SECONDS).status_code == 403


def test_a_variable_has_the_value_of_a_tag_of_the_object(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    resource = f"arn:aws:s3:::{bucket}/${{s3:ExistingObjectTag/home}}*"
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Resource=resource))
    for tags, status in (({"home": "k"}, 200), ({"home": "other"}, 403), ({}, 403)):
        owner.put_object_tagging(
            Bucket=bucket,
            Key="k",
            Tagging={"TagSet": [{"Key": name, "Value": value} for name, value in tags.items()]},
        )
        assert kit.send(place, "GET", f"/{bucket}/k").status == status


@pytest.mark.parametrize("names", [("secret", "SECRET"), ("SECRET", "secret")])
def test_a_tag_whose_name_differs_in_case_hides_no_other(
    place: kit.ObjectStore, owner: Any, bucket: str, names: tuple[str, str]
) -> None:
    """Condition keys have no case, and tags have."""
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}
    denied = {
        **allowed,
        "Effect": "Deny",
        "Condition": {"StringEquals": {"s3:ExistingObjectTag/Secret": "yes"}},
    }
    statements = [
        {**statement, "Resource": f"arn:aws:s3:::{bucket}/*"} for statement in (allowed, denied)
    ]
    text = json.dumps({"Version": "2012-10-17", "Statement": statements})
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    tags = [{"Key": name, "Value": value} for name, value in zip(names, ("yes", "no"), strict=True)]
    owner.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags})
    assert kit.send(place, "GET", f"/{bucket}/k").status == 403
    owner.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags[1:]})
    assert kit.send(place, "GET", f"/{bucket}/k").status == 200


def test_a_condition_on_tags_holds_for_nothing_that_has_none(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    condition = {"StringNotEquals": {"s3:ExistingObjectTag/open": "yes"}}
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    text = policy(bucket, Action="s3:*", Resource=resources, Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    for target, status in (
        (f"/{bucket}", 200),
        (f"/{bucket}?prefix={'x' * 1500}", 200),
        (f"/{bucket}?tagging", 404),
        (f"/{bucket}/absent", 404),
        (f"/{bucket}/{'x' * 1024}", 404),
        (f"/{bucket}/{'x' * 1500}", 400),
        (f"/{bucket}/%FF", 404),
        (f"/{bucket}/k", 403),
    ):
        assert kit.send(place, "GET", target).status == status, target


def test_a_form_has_the_condition_keys_of_a_put(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    text = policy(
        bucket,
        Action="s3:PutObject",
        Condition={"StringEquals": {"s3:x-amz-storage-class": "STANDARD_IA"}},
    )
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    headers = {"content-type": "multipart/form-data; boundary=x"}
    mark = b'--x\r\nContent-Disposition: form-data; name="'
    for storage_class, status in ((b"STANDARD_IA", 204), (b"ONEZONE_IA", 403)):
        body = mark + b'key"\r\n\r\nform\r\n' + mark + b'x-amz-storage-class"\r\n\r\n'
        body += storage_class + b"\r\n" + mark + b'file"\r\n\r\nx\r\n--x--\r\n'
        assert kit.send(place, "POST", f"/{bucket}", headers, body).status == status


def test_a_policy_demands_conditional_writes_and_spares_the_parts_of_uploads(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    """The policy of AWS's user guide, "Enforce conditional writes on Amazon S3 buckets"."""
    condition = {
        "Null": {"s3:if-none-match": "true"},
        "Bool": {"s3:ObjectCreationOperation": "true"},
    }
    text = policy(bucket, Effect="Deny", Action="s3:PutObject", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    target = {"Bucket": bucket, "Key": "new"}
    source = {"Bucket": bucket, "Key": "k"}
    denied = (403, "AccessDenied")
    upload = {**target, "UploadId": owner.create_multipart_upload(**target)["UploadId"]}
    owner.upload_part(**upload, PartNumber=1, Body=b"x")
    part = owner.upload_part_copy(**upload, PartNumber=1, CopySource=source)["CopyPartResult"]
    parts = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}}
    assert refusal(owner.put_object, **target, Body=b"x") == denied
    assert refusal(owner.copy_object, **target, CopySource=source) == denied
    assert refusal(owner.complete_multipart_upload, **upload, **parts) == denied
    assert kit.call(place, "HEAD", f"/{bucket}/new").status == 404
    keys = {"access_key": OWNER.access_key, "secret_key": OWNER.secret_key}
    # Each of these would replace the object.
    for header in ("", '"another"', 'W/"another", "a third"'):
        headers = {"if-none-match": header}
        answer = kit.call(place, "PUT", f"/{bucket}/k", headers, b"y", **keys)
        assert (answer.status, answer.code) == denied, header
    assert refusal(owner.put_object, Bucket=bucket, Key="k", Body=b"y", IfNoneMatch="*")[0] == 412
    owner.complete_multipart_upload(**upload, **parts, IfNoneMatch="*")
    owner.put_object(Bucket=bucket, Key="newer", Body=b"x", IfNoneMatch="*")
    owner.copy_object(Bucket=bucket, Key="newest", CopySource=source, IfNoneMatch="*")


@pytest.mark.parametrize("action", ["s3:DeleteObject", "s3:DeleteObjectVersion"])
def test_a_policy_demands_conditional_deletions_in_each_form(
    place: kit.ObjectStore, owner: Any, bucket: str, action: str
) -> None:
    """The policy of AWS's user guide, "Enforce conditional deletes on Amazon S3 buckets"."""
    condition = {"Null": {"s3:if-match": "true"}}
    text = policy(bucket, Effect="Deny", Action=action, Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    keys = {"access_key": OWNER.access_key, "secret_key": OWNER.secret_key}
    of_version, version = "", ""
    if action == "s3:DeleteObjectVersion":
        of_version, version = "versionId=null", "<VersionId>null</VersionId>"

    def delete(condition: str, headers: dict[str, str]) -> str:
        query = "&".join(filter(None, (condition, of_version)))
        return kit.call(place, "DELETE", f"/{bucket}/k?{query}", headers, **keys).code

    def delete_many(etag: str, headers: dict[str, str], more: str = "") -> str:
        row = f"<Key>k</Key>{version}{etag}"
        body = f"<Delete><Object>{row}</Object></Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body).digest()).decode()
        headers = {**headers, "content-md5": digest}
        return kit.call(place, "POST", f"/{bucket}?delete{more}", headers, body, **keys).code

    etag = f'"{hashlib.md5(b"body").hexdigest()}"'
    assert delete("", {}) == delete_many("", {}) == "AccessDenied"
    # DeleteObjects has a condition for each key, and none as a whole.
    assert delete_many("", {"if-match": etag}) == "NotImplemented"
    assert delete_many("", {}, "&if-match=%2A") == "NotImplemented"
    assert delete("", {"if-match": '"other"'}) == "PreconditionFailed"
    assert delete("if-match=%22other%22", {}) == "PreconditionFailed"
    assert delete_many("<ETag>other</ETag>", {}) == "PreconditionFailed"
    for remove in (
        lambda: delete("", {"if-match": etag}),
        lambda: delete(f"if-match={urllib.parse.quote(etag)}", {}),
        lambda: delete_many(f"<ETag>{etag}</ETag>", {}),
        lambda: delete_many("<ETag>*</ETag>", {}),
    ):
        assert remove() == ""
        assert kit.call(place, "HEAD", f"/{bucket}/k", **keys).status == 404
        owner.put_object(Bucket=bucket, Key="k", Body=b"body")


def test_a_condition_on_an_etag_needs_the_right_to_read_the_object(
    owner: Any, place: kit.ObjectStore, bucket: str
) -> None:
    """Amazon S3 user guide: "How to perform conditional deletes", and "How to prevent object
    overwrites with conditional writes"."""
    neighbour = client_of(place, NEIGHBOUR)
    writes = ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"]
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Action=writes))
    target = {"Bucket": bucket, "Key": "k"}
    etag = owner.head_object(**target)["ETag"]
    denied = (403, "AccessDenied")
    source = {"Bucket": bucket, "Key": "part"}
    upload = {**source, "UploadId": neighbour.create_multipart_upload(**source)["UploadId"]}
    part = neighbour.upload_part(**upload, PartNumber=1, Body=b"x")
    parts = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}}

    def delete_many(etag: str, **more: str) -> list[str]:
        named = {"Objects": [{"Key": "k", "ETag": etag, **more}]}
        answer = neighbour.delete_objects(Bucket=bucket, Delete=named)
        return [error["Code"] for error in answer.get("Errors", ())]

    for each in (etag, '"another"'):  # the outcome would tell which is the object's
        assert refusal(neighbour.delete_object, **target, IfMatch=each) == denied
        assert refusal(neighbour.delete_object, **target, IfMatch=each, VersionId="null") == denied
        assert refusal(neighbour.put_object, **target, Body=b"y", IfMatch=each) == denied
        assert refusal(neighbour.put_object, **target, Body=b"y", IfNoneMatch=each) == denied
        refused = refusal(neighbour.complete_multipart_upload, **upload, **parts, IfMatch=each)
        assert refused == denied
        assert delete_many(each) == ["AccessDenied"]
        assert delete_many(each, VersionId="null") == ["AccessDenied"]
    assert owner.get_object(**target)["Body"].read() == b"body"
    # `*` compares no ETag.
    assert refusal(neighbour.put_object, **target, Body=b"y", IfNoneMatch="*")[0] == 412
    neighbour.complete_multipart_upload(**upload, **parts, IfNoneMatch="*")
    neighbour.delete_object(**source, IfMatch="*")
    assert delete_many("*") == []
    owner.put_object(**target, Body=b"body")
    reads = ["s3:GetObject", "s3:GetObjectVersion"]
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Action=[*writes, *reads]))
    neighbour.put_object(**target, Body=b"body", IfMatch=etag)
    assert delete_many('"another"') == ["PreconditionFailed"]
    neighbour.delete_object(**target, IfMatch=etag, VersionId="null")
    owner.put_object(**target, Body=b"body")
    assert delete_many(etag) == []
    assert refusal(owner.head_object, **target)[0] == 404


def test_a_forms_condition_is_one_of_its_request_wherever_it_stands(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    condition = {
        "StringEquals": {"s3:if-none-match": "*"},
        "Bool": {"s3:ObjectCreationOperation": "true"},
    }
    text = policy(bucket, Action="s3:PutObject", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    mark = b'--x\r\nContent-Disposition: form-data; name="'
    for name, in_head, in_field, status in (
        ("1", "", b"", 403),
        ("2", "*", b"", 204),
        ("3", "", b"*", 204),
        ("4", "", b'"another"', 403),
        ("5", '"another"', b"", 403),
    ):
        headers = {"content-type": "multipart/form-data; boundary=x"}
        if in_head:
            headers["if-none-match"] = in_head
        body = mark + b'key"\r\n\r\n' + name.encode() + b"\r\n" + mark
        body += b'if-none-match"\r\n\r\n' + in_field + b"\r\n"
        body += mark + b'file"\r\n\r\nx\r\n--x--\r\n'
        assert kit.send(place, "POST", f"/{bucket}", headers, body).status == status, name


def test_conditions_on_headers_and_on_the_tags_to_be(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    stranger = client_of(place, STRANGER)
    conditions = {
        "StringEquals": {"s3:RequestObjectTag/open": "yes"},
        "StringLike": {"s3:x-amz-storage-class": "STANDARD_*"},
    }
    text = policy(bucket, Action=["s3:PutObject", "s3:PutObjectTagging"], Condition=conditions)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    good = {"Tagging": "open=yes", "StorageClass": "STANDARD_IA"}
    for change, allowed in (
        ({}, True),
        ({"Tagging": "open=no"}, False),
        ({"StorageClass": "STANDARD"}, False),
    ):
        put = {"Bucket": bucket, "Key": "new", "Body": b"x", **good, **change}
        if allowed:
            stranger.put_object(**put)
        else:
            assert refusal(stranger.put_object, **put) == (403, "AccessDenied")


def tag_set(**tags: str) -> dict[str, Any]:
    return {"TagSet": [{"Key": name, "Value": value} for name, value in tags.items()]}


@pytest.mark.parametrize(
    ("effect", "condition", "refused"),
    [
        ("Allow", {"StringEquals": {"s3:RequestObjectTag/open": "yes"}}, {"open": "no"}),
        (
            "Allow",
            {"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["open"]}},
            {"open": "yes", "more": "1"},
        ),
        ("Deny", {"StringEquals": {"s3:RequestObjectTag/open": "no"}}, {"open": "no"}),
    ],
)
def test_a_document_of_tags_is_judged_by_the_tags_in_it(
    place: kit.ObjectStore,
    owner: Any,
    bucket: str,
    effect: str,
    condition: Any,
    refused: dict[str, str],
) -> None:
    caller = client_of(place, STRANGER) if effect == "Allow" else owner
    text = policy(bucket, Effect=effect, Action="s3:PutObjectTagging", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    named = {"Bucket": bucket, "Key": "k"}
    caller.put_object_tagging(**named, Tagging=tag_set(open="yes"))
    wanted = {**named, "Tagging": tag_set(**refused)}
    assert refusal(caller.put_object_tagging, **wanted) == (403, "AccessDenied")
    assert owner.get_object_tagging(**named)["TagSet"] == tag_set(open="yes")["TagSet"]


def test_a_copy_that_takes_over_tags_is_judged_by_them(owner: Any, bucket: str) -> None:
    condition = {"StringEquals": {"s3:RequestObjectTag/open": "yes"}}
    text = policy(bucket, Effect="Deny", Action="s3:PutObjectTagging", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    copying = {"Bucket": bucket, "Key": "copy", "CopySource": f"{bucket}/k"}
    assert refusal(owner.copy_object, **copying) == (403, "AccessDenied")
    owner.copy_object(**copying, TaggingDirective="REPLACE", Tagging="open=no")


def test_a_copy_is_not_judged_by_tags_that_it_does_not_get(owner: Any, bucket: str) -> None:
    condition = {"StringNotEquals": {"s3:RequestObjectTag/team": "lake"}}
    text = policy(bucket, Effect="Deny", Action="s3:PutObject", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    copying = {"Bucket": bucket, "Key": "copy", "CopySource": f"{bucket}/k", "Tagging": "team=lake"}
    assert refusal(owner.copy_object, **copying) == (403, "AccessDenied")
    owner.copy_object(**copying, TaggingDirective="REPLACE")
    tags = owner.get_object_tagging(Bucket=bucket, Key="copy")["TagSet"]
    assert tags == tag_set(team="lake")["TagSet"]


def test_the_number_of_tags_is_for_callers_that_may_read_them(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = owner.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="a=1&b=2")["VersionId"]
    reading = ["s3:GetObject", "s3:GetObjectVersion"]
    stranger = client_of(place, STRANGER)
    newest, named = {"Bucket": bucket, "Key": "k"}, {"Bucket": bucket, "Key": "k"}
    named["VersionId"] = version
    for actions, counts in (
        (reading, (None, None)),
        ([*reading, "s3:GetObjectTagging"], (2, None)),
        ([*reading, "s3:GetObjectVersionTagging"], (None, 2)),
    ):
        owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Action=actions))
        for read in (stranger.get_object, stranger.head_object):
            assert tuple(read(**each).get("TagCount") for each in (newest, named)) == counts
    assert owner.get_object(**newest, Range="bytes=0-0")["TagCount"] == 2


def test_the_number_of_tags_is_judged_by_the_tags_of_the_object_that_is_read(
    place: kit.ObjectStore, owner: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of other tags ends between the read of an object and its answer."""
    text = json.loads(policy(bucket))
    condition = {"StringEquals": {"s3:ExistingObjectTag/open": "yes"}}
    reading = json.loads(policy(bucket, Action="s3:GetObjectTagging", Condition=condition))
    text["Statement"] += reading["Statement"]
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(text))
    stranger = client_of(place, STRANGER)
    find_readable = engines.find_readable
    earlier: list[Any] = []

    def read_earlier(*arguments: Any, **named: Any) -> Any:
        earlier.append(find_readable(*arguments, **named))
        return earlier[0]

    monkeypatch.setattr(engines, "find_readable", read_earlier)
    for tags, count in (("open=yes", 1), ("open=no", None)):
        earlier.clear()
        owner.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging=tags)
        assert stranger.head_object(Bucket=bucket, Key="k").get("TagCount") == count
        other = "open=no" if count else "open=yes"
        owner.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging=other)
        assert stranger.head_object(Bucket=bucket, Key="k").get("TagCount") == count


def test_the_lock_of_an_object_is_for_callers_that_may_read_it(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    name = f"{bucket}-locked"
    until = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    lock: dict[str, Any] = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    hold = {"ObjectLockLegalHoldStatus": "ON"}
    version = owner.put_object(Bucket=name, Key="k", Body=b"1", **lock, **hold)["VersionId"]
    reading = ["s3:GetObject", "s3:GetObjectVersion"]
    stranger = client_of(place, STRANGER)
    for actions, shown in (
        (reading, {}),
        ([*reading, "s3:GetObjectRetention"], lock),
        ([*reading, "s3:GetObjectLegalHold"], hold),
    ):
        owner.put_bucket_policy(Bucket=name, Policy=policy(name, Action=actions))
        for read in (stranger.get_object, stranger.head_object):
            for more in ({}, {"VersionId": version}, {"Range": "bytes=0-0"}):
                answer = read(Bucket=name, Key="k", **more)
                assert {each: answer[each] for each in {**lock, **hold} if each in answer} == shown
    answer = owner.get_object(Bucket=name, Key="k", ResponseContentType="a/b")
    assert {each: answer[each] for each in {**lock, **hold}} == {**lock, **hold}


def test_a_document_of_a_lock_is_judged_by_the_lock_in_it(owner: Any, bucket: str) -> None:
    name = f"{bucket}-locked"
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    statements = [
        ("s3:PutObjectRetention", {"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}}),
        (
            "s3:PutObjectRetention",
            {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}},
        ),
        ("s3:PutObjectLegalHold", {"StringEquals": {"s3:object-lock-legal-hold": "OFF"}}),
    ]
    denials = [
        json.loads(policy(name, Effect="Deny", Action=action, Condition=condition))["Statement"][0]
        for action, condition in statements
    ]
    text = json.dumps({"Version": "2012-10-17", "Statement": denials})
    owner.put_bucket_policy(Bucket=name, Policy=text)
    named = {"Bucket": name, "Key": "k"}
    owner.put_object(**named, Body=b"x")
    now = datetime.datetime.now(datetime.UTC)

    def retention(mode: str, days: float) -> dict[str, Any]:
        return {"Mode": mode, "RetainUntilDate": now + datetime.timedelta(days=days)}

    for wanted in (retention("COMPLIANCE", 1), retention("GOVERNANCE", 10.1)):
        call = {**named, "Retention": wanted}
        assert refusal(owner.put_object_retention, **call) == (403, "AccessDenied")
        call = {
            **named,
            "Body": b"y",
            "ObjectLockMode": wanted["Mode"],
            "ObjectLockRetainUntilDate": wanted["RetainUntilDate"],
        }
        assert refusal(owner.put_object, **call) == (403, "AccessDenied")
    owner.put_object_retention(**named, Retention=retention("GOVERNANCE", 10))
    owner.put_object_legal_hold(**named, LegalHold={"Status": "ON"})
    lifting = {**named, "LegalHold": {"Status": "OFF"}}
    assert refusal(owner.put_object_legal_hold, **lifting) == (403, "AccessDenied")
    assert owner.get_object_legal_hold(**named)["LegalHold"] == {"Status": "ON"}


def test_a_bucket_is_made_as_policies_of_its_tags_and_location_say(tmp_path: Path) -> None:
    def statement(effect: str, action: str, condition: Any) -> dict[str, Any]:
        return {"Effect": effect, "Action": action, "Resource": "*", "Condition": condition}

    rules = [
        statement("Allow", "s3:CreateBucket", {"StringEquals": {"aws:RequestTag/team": "lake"}}),
        statement(
            "Allow",
            "s3:TagResource",
            {"ForAllValues:StringEquals": {"aws:TagKeys": ["team", "cost"]}},
        ),
        statement("Deny", "s3:CreateBucket", {"StringEquals": {"s3:locationconstraint": "EU"}}),
    ]
    user = config.User(
        name="maker",
        access_key="AKMAKER",
        secret_key="maker's",
        policies=({"Version": "2012-10-17", "Statement": rules},),
    )
    with kit.serve(tmp_path / "data", users=(user,)) as running:
        maker = client_of(running, user)

        def make(**configuration: Any) -> None:
            maker.create_bucket(Bucket="other", CreateBucketConfiguration=configuration)

        team, cost = {"Key": "team", "Value": "lake"}, {"Key": "cost", "Value": "1"}
        wanted = {"Bucket": "tagged", "CreateBucketConfiguration": {"Tags": [team, cost]}}
        maker.create_bucket(**wanted)
        denied = (403, "AccessDenied")
        assert refusal(maker.create_bucket, Bucket="plain") == denied
        assert refusal(make, Tags=[{"Key": "team", "Value": "x"}]) == denied
        assert refusal(make, Tags=[team, {"Key": "more", "Value": "1"}]) == denied
        assert refusal(make, Tags=[team], LocationConstraint="EU") == denied
        names = [row["Name"] for row in kit.client(running).list_buckets()["Buckets"]]
        assert "tagged" in names
        assert not {"plain", "other"} & set(names)


def test_a_copy_source_is_judged_however_it_is_spelt(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    condition = {"StringLike": {"s3:x-amz-copy-source": f"{bucket}/k*"}}
    text = policy(bucket, Effect="Deny", Action="s3:PutObject", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    keys = {"access_key": OWNER.access_key, "secret_key": OWNER.secret_key}
    for source in (f"{bucket}/k", f"/{bucket}/k", f"{bucket}/%6B", f"%2F{bucket}%2Fk"):
        headers = {"x-amz-copy-source": source}
        answer = kit.call(place, "PUT", f"/{bucket}/copy", headers, **keys)
        assert (answer.status, answer.code) == (403, "AccessDenied"), source
    owner.put_object(Bucket=bucket, Key="other", Body=b"x")
    owner.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "other"})


def presigned_with_hash(place: kit.ObjectStore, target: str, name: str, digest: str) -> str:
    """Return the URL of a PUT that is signed with the hash of its body in the query."""
    credentials = botocore.credentials.Credentials(OWNER.access_key, OWNER.secret_key)
    signer = botocore.auth.S3SigV4QueryAuth(credentials, "s3", kit.REGION)
    signer.payload = lambda _: digest
    request = botocore.awsrequest.AWSRequest("PUT", url=f"{place.url}{target}?{name}={digest}")
    signer.add_auth(request)
    return str(request.url)


def test_unsigned_bodies_are_refused_whatever_the_request_says_beside_its_signature(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    condition = {"StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}}
    text = policy(bucket, Effect="Deny", Action="s3:PutObject", Condition=condition)
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    keys = {"access_key": OWNER.access_key, "secret_key": OWNER.secret_key}
    digest = hashlib.sha256(b"x").hexdigest()
    for target, payload_hash, status in (
        (f"/{bucket}/new", digest, 200),
        (f"/{bucket}/new", "UNSIGNED-PAYLOAD", 403),
        (f"/{bucket}/new?x-amz-content-sha256={digest}", "UNSIGNED-PAYLOAD", 403),
    ):
        answer = kit.call(place, "PUT", target, body=b"x", payload_hash=payload_hash, **keys)
        assert answer.status == status, target
    presigner = kit.client(
        place,
        access_key=OWNER.access_key,
        secret_key=OWNER.secret_key,
        config={"signature_version": "s3v4"},
    )
    params = {"Bucket": bucket, "Key": "new"}
    for name in ("X-Amz-Content-Sha256", "x-amz-content-sha256"):
        for value, status in ((digest, 200), (hashlib.sha256(b"y").hexdigest(), 400)):
            url = presigned_with_hash(place, f"/{bucket}/new", name, value)
            answer = requests.put(url, data=b"x", timeout=waits.WAIT_SECONDS)
            assert answer.status_code == status, answer.text
    url = presigner.generate_presigned_url("put_object", Params=params)
    for headers in ({}, {"x-amz-content-sha256": digest}):
        assert (
            requests.put(url, data=b"x", headers=headers, timeout=waits.WAIT_SECONDS).status_code
            == 403
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "not json",
        '{"Version": "2012-10-17", "Statement": []}',
        policy("B", Principal=None),
        policy("B", Principal={"AWS": "arn:aws:iam::12345:root"}),
        policy("B", Effect="Deny", Principal={"AWS": f"arn:aws:iam::{OTHER_ACCOUNT}:user/*"}),
        policy("B", Action="s3:Everything"),
        policy("B", Resource="arn:aws:s3:::another-bucket/*"),
        policy("B", Effect="Deny", Action="s3:DeleteObject", Resource="arn:aws:s3:::B"),
        policy("B", Effect="Deny", Action="s3:ListBucket"),
        policy("B", Effect="Deny", Action=["s3:GetObject", "s3:GetBucketPolicy"]),
        policy("B", Effect="Deny", Action="s3:*Bucket?*s"),
        policy("B", Effect="Deny", Action="s3:PutObject*", Resource="arn:aws:s3:::B"),
        policy("B", Action="s3tables:GetTable"),
        policy("B", Action=["s3:GetObject", "iam:GetUser"]),
        policy("B", Action=[f"s3:*{'?' * number}t" for number in range(101)], Resource="*"),
        policy("B", Condition={"StringWhatever": {"aws:Referer": "x"}}),
        policy("B", Principal=None, NotPrincipal={"AWS": OTHER_ACCOUNT}),
        policy("B", Sid="x" * 21_000),
        json.dumps(policy("B")),
        policy("B").encode("utf-16").decode("latin-1"),
    ],
)
def test_a_document_that_is_no_policy_of_the_bucket_is_malformed(
    place: kit.ObjectStore, owner: Any, bucket: str, text: str
) -> None:
    body = text.replace("arn:aws:s3:::B", f"arn:aws:s3:::{bucket}").encode("latin-1")
    answer = kit.call(place, "PUT", f"/{bucket}?policy", {}, body)
    assert (answer.status, answer.code) == (400, "MalformedPolicy")
    assert refusal(owner.get_bucket_policy, Bucket=bucket) == (404, "NoSuchBucketPolicy")


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:*", "arn:aws:s3:::B"),
        ("*", "arn:aws:s3:::B/*"),
        ("s3:Get*", "arn:aws:s3:::B"),
        ("s3:get*", "arn:aws:s3:::B/*"),
        ("S3:GETOBJECT", "arn:aws:s3:::B/a:b"),
        ("s3:*Object", "*"),
        ("s3:ListBucket", "*"),
        ("s3:GetObject", "arn:aws:s3:::B*"),
        (["s3:GetObject", "s3:ListBucket"], ["arn:aws:s3:::B/x", "arn:aws:s3:::B"]),
        ("s3:PutBucketObjectLockConfiguration", "arn:aws:s3:::B"),
        ("s3:ListMultipartUploadParts", "arn:aws:s3:::B/*"),
        ("s3:ListBucketMultipartUploads", "arn:aws:s3:::B"),
    ],
)
def test_a_deny_has_actions_of_its_resources(
    place: kit.ObjectStore, owner: Any, bucket: str, action: Any, resource: Any
) -> None:
    principal = {"AWS": OTHER_ACCOUNT}
    text = policy("B", Effect="Deny", Principal=principal, Action=action, Resource=resource)
    owner.put_bucket_policy(Bucket=bucket, Policy=text.replace(":::B", f":::{bucket}"))


def test_an_allow_without_a_resource_of_its_action_allows_nothing(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Resource=f"arn:aws:s3:::{bucket}"))
    assert kit.send(place, "GET", f"/{bucket}/k").status == 403


def test_a_policy_that_locks_its_writer_out_must_be_confirmed(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    text = policy(
        bucket, Effect="Deny", Action="s3:*BucketPolicy", Resource=f"arn:aws:s3:::{bucket}"
    )
    assert refusal(owner.put_bucket_policy, Bucket=bucket, Policy=text) == (403, "AccessDenied")
    owner.put_bucket_policy(Bucket=bucket, Policy=text, ConfirmRemoveSelfBucketAccess=True)
    assert refusal(owner.delete_bucket_policy, Bucket=bucket) == (403, "AccessDenied")
    kit.client(place).delete_bucket_policy(Bucket=bucket)


@pytest.mark.parametrize(("operator", "locks_out"), [("Not", False), ("", True)])
def test_a_policy_that_locks_its_writer_out_of_this_region_must_be_confirmed(
    place: kit.ObjectStore, owner: Any, bucket: str, operator: str, locks_out: bool
) -> None:
    text = policy(
        bucket,
        Effect="Deny",
        Action="s3:*",
        Resource=f"arn:aws:s3:::{bucket}",
        Condition={
            f"String{operator}Equals": {"aws:RequestedRegion": kit.REGION},
            "DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"},
        },
    )
    if locks_out:
        refused = refusal(owner.put_bucket_policy, Bucket=bucket, Policy=text)
        assert refused == (403, "AccessDenied")
    else:
        owner.put_bucket_policy(Bucket=bucket, Policy=text)
        owner.delete_bucket_policy(Bucket=bucket)


BLOCK = {
    "BlockPublicAcls": True,
    "IgnorePublicAcls": False,
    "BlockPublicPolicy": False,
    "RestrictPublicBuckets": False,
}


def test_the_block_of_public_access_is_put_shown_and_removed(owner: Any, bucket: str) -> None:
    absent = (404, "NoSuchPublicAccessBlockConfiguration")
    assert refusal(owner.get_public_access_block, Bucket=bucket) == absent
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=BLOCK)
    shown = owner.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert shown == BLOCK
    owner.delete_public_access_block(Bucket=bucket)
    assert refusal(owner.get_public_access_block, Bucket=bucket) == absent


def test_block_public_policy_refuses_public_policies_alone(owner: Any, bucket: str) -> None:
    block = {**BLOCK, "BlockPublicPolicy": True}
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    put = owner.put_bucket_policy
    assert refusal(put, Bucket=bucket, Policy=policy(bucket)) == (403, "AccessDenied")
    put(Bucket=bucket, Policy=policy(bucket, Principal={"AWS": OTHER_ACCOUNT}))
    put(Bucket=bucket, Policy=policy(bucket, Effect="Deny"))


def test_restrict_public_buckets_leaves_a_public_policy_to_the_account(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket))
    assert who_reads(place, bucket) == {"owner", "neighbour", "stranger", "anonymous"}
    block = {**BLOCK, "RestrictPublicBuckets": True}
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    assert who_reads(place, bucket) == {"owner", "neighbour"}
    # A policy that is not public is not restricted.
    named = policy(bucket, Principal={"AWS": OTHER_ACCOUNT})
    owner.put_bucket_policy(Bucket=bucket, Policy=named)
    assert who_reads(place, bucket) == {"owner", "stranger"}


def test_the_block_holds_for_a_policy_that_was_stored_as_not_public(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    """Earlier releases took an Allow for `anonymous` for one that meets no request."""
    condition = {"StringEquals": {"aws:PrincipalAccount": "anonymous"}}
    owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Condition=condition))

    async def as_an_earlier_release_stored_it() -> None:
        await place.storage.buckets.change(
            bucket, lambda settings: {**settings, "policy_is_public": False}
        )

    place.run(as_an_earlier_release_stored_it())
    assert owner.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": True}
    assert who_reads(place, bucket) == {"owner", "anonymous"}
    block = {**BLOCK, "RestrictPublicBuckets": True}
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    assert who_reads(place, bucket) == {"owner"}


def test_an_earlier_release_on_the_same_folder_knows_whether_a_policy_is_public(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    """It reads `policy_is_public`, and takes a policy without it for one that is not public."""
    for changes, public in (({}, True), ({"Principal": {"AWS": OTHER_ACCOUNT}}, False)):
        owner.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, **changes))
        assert place.storage.buckets.get(bucket).settings["policy_is_public"] is public
    owner.delete_bucket_policy(Bucket=bucket)
    assert "policy_is_public" not in place.storage.buckets.get(bucket).settings


@pytest.mark.parametrize(
    ("change", "public"),
    [
        ({}, True),
        ({"Principal": {"AWS": ["*"]}}, True),
        ({"Principal": {"AWS": OTHER_ACCOUNT}}, False),
        ({"Effect": "Deny"}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/32"}}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": ["1.2.3.4", "0.0.0.0/1"]}}}, True),
        ({"Condition": {"NotIpAddress": {"aws:SourceIp": "1.2.3.4"}}}, True),
        ({"Condition": {"StringLike": {"aws:PrincipalArn": "arn:*"}}}, True),
        ({"Condition": {"StringEquals": {"aws:PrincipalAccount": OTHER_ACCOUNT}}}, False),
        ({"Condition": {"StringEqualsIfExists": {"aws:PrincipalAccount": "1"}}}, True),
        ({"Condition": {"StringEquals": {"aws:PrincipalAccount": ["1", "anonymous"]}}}, True),
        ({"Condition": {"StringEqualsIgnoreCase": {"aws:userid": "ANONYMOUS"}}}, True),
        ({"Condition": {"StringEquals": {"aws:Referer": "http://a"}}}, True),
    ],
)
def test_the_status_of_a_policy_says_whether_it_is_public(
    owner: Any, bucket: str, change: dict[str, Any], public: bool
) -> None:
    status = owner.get_bucket_policy_status
    assert status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": False}
    text = policy(bucket, **change)
    assert publicity.is_public(json.loads(text)) == public
    owner.put_bucket_policy(Bucket=bucket, Policy=text)
    assert status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": public}
    owner.delete_bucket_policy(Bucket=bucket)
    assert status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": False}


def test_ownership_controls_say_that_the_bucket_owner_owns_the_objects(
    owner: Any, bucket: str
) -> None:
    absent = (404, "OwnershipControlsNotFoundError")
    get = owner.get_bucket_ownership_controls
    assert refusal(get, Bucket=bucket) == absent
    controls = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    owner.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=controls)
    assert get(Bucket=bucket)["OwnershipControls"] == controls
    owner.delete_bucket_ownership_controls(Bucket=bucket)
    assert refusal(get, Bucket=bucket) == absent
    put = owner.put_bucket_ownership_controls
    other = {"Rules": [{"ObjectOwnership": "Nobody"}]}
    assert refusal(put, Bucket=bucket, OwnershipControls=other) == (400, "MalformedXML")
    name = f"{bucket}-enforced"
    owner.create_bucket(Bucket=name, ObjectOwnership="BucketOwnerEnforced")
    assert get(Bucket=name)["OwnershipControls"] == controls


def test_few_large_policies_are_kept_compiled(place: kit.ObjectStore) -> None:
    owned = ownership.Ownership(
        buckets=place.storage.buckets,
        objects=place.storage.objects,
        index=place.storage.index,
    )
    create = place.storage.buckets.create
    place.run(create("memory", bucket_type="general", owner=kit.ACCOUNT, region=kit.REGION))
    demand = model.Demand(action="s3:GetObject", resource="arn:aws:s3:::memory/k")
    compiled_before = compiled_count()
    for number in range(60):
        text = policy("memory", Sid=f"{number:020000}")
        place.run(place.storage.buckets.update("memory", {ownership.POLICY: text}))
        owned.side_of(demand)
    assert 0 < compiled_count() - compiled_before <= 512 * 1024 // 20_000


def compiled_count() -> int:
    gc.collect()
    # By type: isinstance() asks a weak proxy for its class, and fails if its object is gone.
    return sum(type(each) is policies.CompiledPolicy for each in gc.get_objects())


@pytest.mark.parametrize(
    ("version", "expected_version"), [("s3", "AWS"), ("s3v4", "AWS4-HMAC-SHA256")]
)
def test_conditions_tell_how_a_request_was_signed(
    place: kit.ObjectStore, owner: Any, bucket: str, version: str, expected_version: str
) -> None:
    """A Deny of presigned URLs of one signature version binds those alone."""
    condition = {
        "StringEquals": {
            "s3:authType": "REST-QUERY-STRING",
            "s3:signatureversion": expected_version,
        }
    }
    owner.put_bucket_policy(
        Bucket=bucket, Policy=policy(bucket, Effect="Deny", Condition=condition)
    )
    assert status_of_get(place, OWNER, bucket) == 200
    statuses = {}
    for each in ("s3", "s3v4"):
        presigner = kit.client(
            place,
            access_key=OWNER.access_key,
            secret_key=OWNER.secret_key,
            config={"signature_version": each},
        )
        url = presigner.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
        statuses[each] = requests.get(url, timeout=waits.WAIT_SECONDS).status_code
    assert statuses == {"s3": 200, "s3v4": 200} | {version: 403}


@pytest.mark.parametrize(
    ("condition", "lock"),
    [
        ({"StringEquals": {"s3:object-lock-legal-hold": "ON"}}, "legal-hold"),
        ({"StringEquals": {"s3:object-lock-mode": "GOVERNANCE"}}, "mode"),
        (
            {"DateGreaterThan": {"s3:object-lock-retain-until-date": "2098-01-01T00:00:00Z"}},
            "mode",
        ),
        ({"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "3650"}}, "mode"),
    ],
)
def test_conditions_see_the_lock_that_a_write_asks_for(
    owner: Any, bucket: str, condition: Any, lock: str
) -> None:
    name = f"{bucket}-locked"
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    text = policy(name, Effect="Deny", Action="s3:PutObject", Condition=condition)
    owner.put_bucket_policy(Bucket=name, Policy=text)
    locked: dict[str, Any] = {"ObjectLockLegalHoldStatus": "ON"}
    if lock == "mode":
        locked = {
            "ObjectLockMode": "GOVERNANCE",
            "ObjectLockRetainUntilDate": LATE,
        }
    assert refusal(owner.put_object, Bucket=name, Key="k", Body=b"x", **locked) == (
        403,
        "AccessDenied",
    )
    owner.put_object(Bucket=name, Key="k", Body=b"x")
    # A lock that is put later says in its body what it is.
    action = "s3:PutObjectLegalHold" if lock == "legal-hold" else "s3:PutObjectRetention"
    text = policy(name, Effect="Deny", Action=action, Condition=condition)
    owner.put_bucket_policy(Bucket=name, Policy=text)
    put: Any = owner.put_object_retention
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    bodies: list[dict[str, Any]] = [
        {"Retention": {"Mode": "GOVERNANCE", "RetainUntilDate": LATE}},
        {"Retention": {"Mode": "COMPLIANCE", "RetainUntilDate": soon}},
    ]
    if lock == "legal-hold":
        put = owner.put_object_legal_hold
        bodies = [{"LegalHold": {"Status": status}} for status in ("ON", "OFF")]
    assert refusal(put, Bucket=name, Key="k", **bodies[0]) == (403, "AccessDenied")
    put(Bucket=name, Key="k", **bodies[1])
