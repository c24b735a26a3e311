"""PostObject: forms as browsers and boto3 make them, sent by `requests`."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import requests

from server import config
from tests.kit import post_forms
from tests.kit import s3 as kit

CONTENT = b"the bytes of the file\r\n--\r\n"
TIMEOUT_SECONDS = 60


def url_of(store: kit.ObjectStore, bucket: str) -> str:
    return f"{store.url}/{bucket}"


def post(
    store: kit.ObjectStore,
    bucket: str,
    fields: Mapping[str, str],
    content: bytes | None = CONTENT,
    *,
    filename: str = "a.txt",
    url: str | None = None,
    **options: Any,
) -> requests.Response:
    files = {} if content is None else {"file": (filename, content)}
    return requests.post(
        url or url_of(store, bucket),
        data=dict(fields),
        files=files or {"other": (None, "x")},
        timeout=TIMEOUT_SECONDS,
        allow_redirects=False,
        **options,
    )


def code(answer: requests.Response) -> str:
    return ElementTree.fromstring(answer.content).findtext("Code", "")


def allowing(bucket: str, *more: Any) -> list[Any]:
    return [{"bucket": bucket}, ["starts-with", "$key", ""], *more]


@pytest.mark.parametrize("signature_version", ["s3", "s3v4"])
def test_a_form_made_by_boto3_stores_the_object(
    store: kit.ObjectStore, s3: Any, bucket: str, signature_version: str
) -> None:
    client = kit.client(store, config={"signature_version": signature_version})
    form = client.generate_presigned_post(
        bucket,
        "in/${filename}",
        Fields={"Content-Type": "text/plain", "x-amz-meta-colour": "blue", "acl": "private"},
        Conditions=[
            {"Content-Type": "text/plain"},
            {"x-amz-meta-colour": "blue"},
            {"acl": "private"},
            ["content-length-range", 1, 100],
        ],
    )
    answer = requests.post(
        form["url"],
        data=form["fields"],
        files={"file": ("C:\\dir\\a b.txt", CONTENT)},
        timeout=TIMEOUT_SECONDS,
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["etag"] == f'"{hashlib.md5(CONTENT).hexdigest()}"'
    assert answer.headers["location"] == f"{store.url}/{bucket}/in/a%20b.txt"
    read = s3.get_object(Bucket=bucket, Key="in/a b.txt")
    assert read["Body"].read() == CONTENT
    assert (read["ContentType"], read["Metadata"]) == ("text/plain", {"colour": "blue"})


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("size_bytes", [0, 1, 70_000, 3 * 1024 * 1024 + 7])
def test_a_file_of_any_size_is_stored_whole(
    store: kit.ObjectStore, s3: Any, bucket: str, version: int, size_bytes: int
) -> None:
    content = bytes(range(256)) * (size_bytes // 256 + 1)
    content = content[:size_bytes]
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket), version=version)}
    assert post(store, bucket, fields, content).status_code == 204
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == content


@pytest.mark.parametrize(
    ("status", "answered"), [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)]
)
def test_the_form_chooses_its_status(
    store: kit.ObjectStore, bucket: str, status: str, answered: int
) -> None:
    conditions = allowing(bucket, ["starts-with", "$success_action_status", ""])
    fields = {
        "key": "a&b é",
        "success_action_status": status,
        **post_forms.signed(store, conditions),
    }
    answer = post(store, bucket, fields)
    assert answer.status_code == answered
    if answered != 201:
        assert answer.content == b""
        return
    assert answer.headers["content-type"] == "application/xml"
    root = ElementTree.fromstring(answer.content)
    location = f"{store.url}/{bucket}/a%26b%20%C3%A9"
    assert root.tag == "PostResponse"
    assert {child.tag: child.text for child in root} == {
        "Location": location,
        "Bucket": bucket,
        "Key": "a&b é",
        "ETag": f'"{hashlib.md5(CONTENT).hexdigest()}"',
    }
    assert answer.headers["location"] == location


@pytest.mark.parametrize("name", ["success_action_redirect", "redirect"])
def test_a_redirect_names_bucket_key_and_etag(
    store: kit.ObjectStore, bucket: str, name: str
) -> None:
    conditions = allowing(bucket, ["starts-with", f"${name}", "http"])
    target = "https://example.com/done?from=form"
    fields = {"key": "a b", name: target, **post_forms.signed(store, conditions)}
    answer = post(store, bucket, fields)
    etag = hashlib.md5(CONTENT).hexdigest()
    assert answer.status_code == 303
    assert answer.headers["location"] == (f"{target}&bucket={bucket}&key=a%20b&etag=%22{etag}%22")


@pytest.mark.parametrize("target", ["javascript:alert(1)", "/relative", "http://", "http://[", "é"])
def test_a_redirect_to_no_web_address_is_left_out(
    store: kit.ObjectStore, bucket: str, target: str
) -> None:
    conditions = allowing(bucket, ["starts-with", "$success_action_redirect", ""])
    fields = {"key": "k", "success_action_redirect": target, **post_forms.signed(store, conditions)}
    assert post(store, bucket, fields).status_code == 204


def test_every_field_may_name_the_file_and_is_held_against_the_policy_with_its_name(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    """Amazon S3 API, POST Object: the variable is recognised by all form fields."""
    conditions = allowing(
        bucket,
        ["starts-with", "$x-amz-meta-original", "from "],
        ["starts-with", "$success_action_redirect", "https://example.com/"],
    )
    fields = {
        "key": "k",
        "x-amz-meta-original": "from ${filename}",
        "success_action_redirect": "https://example.com/${filename}",
        **post_forms.signed(store, conditions),
    }
    answer = post(store, bucket, fields, filename="a.txt")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("https://example.com/a.txt?bucket=")
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"original": "from a.txt"}
    conditions = allowing(bucket, {"x-amz-meta-original": "${filename}"})
    fields = {"key": "other", "x-amz-meta-original": "${filename}"}
    answer = post(store, bucket, {**fields, **post_forms.signed(store, conditions)})
    assert (answer.status_code, code(answer)) == (403, "AccessDenied")
    assert kit.call(store, "HEAD", f"/{bucket}/other").status == 404


@pytest.mark.parametrize("field", ["key", "x-amz-meta-a"])
def test_a_files_name_cannot_make_the_fields_larger_than_a_form_may_be(
    store: kit.ObjectStore, bucket: str, field: str
) -> None:
    """Forty thousand characters in four thousand places would be 160 MB, before any proof."""
    fields = {"key": "k", field: 4000 * "${filename}"}
    answer = post(store, bucket, fields, filename=40_000 * "a")
    assert (answer.status_code, code(answer)) == (400, "MaxPostPreDataLengthExceeded")


def test_tags_and_stored_headers_come_from_fields(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"
    conditions = allowing(
        bucket,
        {"tagging": tagging},
        {"Cache-Control": "no-store"},
        {"Content-Encoding": "gzip"},
        {"x-amz-storage-class": "STANDARD_IA"},
        {"x-amz-meta-e": "naïve"},
    )
    fields = {
        "key": "k",
        "tagging": tagging,
        "cache-control": "no-store",
        "CONTENT-ENCODING": "gzip",
        "x-amz-storage-class": "STANDARD_IA",
        "x-amz-meta-e": "naïve",
        **post_forms.signed(store, conditions),
    }
    answer = post(store, bucket, fields)
    assert answer.status_code == 204, answer.content
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["CacheControl"], head["ContentEncoding"]) == ("no-store", "gzip")
    assert head["StorageClass"] == "STANDARD_IA"
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a", "Value": "1"}]


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("x-amz-checksum-crc32", base64.b64encode(zlib.crc32(CONTENT).to_bytes(4, "big")), 204),
        ("x-amz-checksum-crc32", b"AAAAAA==", 400),
        ("x-amz-checksum-sha256", b"sailor", 400),
        ("content-md5", base64.b64encode(hashlib.md5(CONTENT).digest()), 204),
        ("content-md5", base64.b64encode(bytes(16)), 400),
    ],
)
def test_the_file_is_held_against_its_checksum(
    store: kit.ObjectStore, s3: Any, bucket: str, name: str, value: bytes, status: int
) -> None:
    conditions = allowing(bucket, ["starts-with", "$content-md5", ""])
    fields = {
        "key": "k",
        "content-md5": "",
        name: value.decode(),
        **post_forms.signed(store, conditions),
    }
    answer = post(store, bucket, fields)
    assert answer.status_code == status, answer.content
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket).get("Contents", [])] == (
        ["k"] if status == 204 else []
    )


ANY_KEY = ["starts-with", "$key", ""]


@pytest.mark.parametrize(
    ("conditions", "fields", "content", "refusal"),
    [
        ([ANY_KEY], {}, CONTENT, (403, "AccessDenied")),
        ([{"bucket": "another"}, ANY_KEY], {}, CONTENT, (403, "AccessDenied")),
        ([{"bucket": ...}, {"key": "else"}], {}, CONTENT, (403, "AccessDenied")),
        ([{"bucket": ...}, {"key": "K"}], {}, CONTENT, (403, "AccessDenied")),
        ([{"bucket": ...}, ANY_KEY], {"x-amz-meta-a": "b"}, CONTENT, (403, "AccessDenied")),
        ([{"bucket": ...}, ANY_KEY, {"acl": "private"}], {}, CONTENT, (403, "AccessDenied")),
        ([{"bucket": ...}, ANY_KEY], {"x-ignore-a": "b"}, CONTENT, (204, "")),
        ([{"BuCkEt": ...}, ["Starts-With", "$KeY", "k"]], {}, CONTENT, (204, "")),
        (
            [{"bucket": ...}, ANY_KEY, ["content-length-range", 0, len(CONTENT) - 1]],
            {},
            CONTENT,
            (400, "EntityTooLarge"),
        ),
        (
            [{"bucket": ...}, ANY_KEY, ["content-length-range", len(CONTENT) + 1, 100]],
            {},
            CONTENT,
            (400, "EntityTooSmall"),
        ),
        (
            [{"bucket": ...}, ANY_KEY, ["content-length-range", len(CONTENT), len(CONTENT)]],
            {},
            CONTENT,
            (204, ""),
        ),
        ([{"bucket": ...}], {"key": None}, CONTENT, (400, "InvalidArgument")),
        ([{"bucket": ...}, {"key": ""}], {"key": ""}, CONTENT, (400, "InvalidArgument")),
        (
            [{"bucket": ...}, ANY_KEY, {"acl": "open"}],
            {"acl": "open"},
            CONTENT,
            (400, "InvalidArgument"),
        ),
        (
            [{"bucket": ...}, ANY_KEY, {"x-amz-server-side-encryption": "aws:kms"}],
            {"x-amz-server-side-encryption": "aws:kms"},
            CONTENT,
            (501, "NotImplemented"),
        ),
        (
            [{"bucket": ...}, ANY_KEY, {"tagging": "<Tagging"}],
            {"tagging": "<Tagging"},
            CONTENT,
            (400, "MalformedXML"),
        ),
        (
            [{"bucket": ...}, ANY_KEY, ["starts-with", "$x-amz-meta-a", ""]],
            {"x-amz-meta-a": "line\nbreak"},
            CONTENT,
            (400, "InvalidArgument"),
        ),
        ([], {}, CONTENT, (400, "InvalidPolicyDocument")),
        ([{"bucket": ...}, ["like", "$key", ""]], {}, CONTENT, (400, "InvalidPolicyDocument")),
    ],
)
@pytest.mark.parametrize("version", [2, 4])
def test_a_form_is_what_its_policy_allows_or_stores_nothing(
    store: kit.ObjectStore,
    s3: Any,
    bucket: str,
    version: int,
    conditions: list[Any],
    fields: dict[str, Any],
    content: bytes,
    refusal: tuple[int, str],
) -> None:
    if version == 4 and not conditions:
        pytest.skip("the proof of version 4 adds conditions")
    conditions = json.loads(json.dumps(conditions, default=lambda _: bucket))
    sent = {"key": "k", **fields, **post_forms.signed(store, conditions, version=version)}
    answer = post(
        store,
        bucket,
        {name: value for name, value in sent.items() if value is not None},
        content,
    )
    assert (answer.status_code, code(answer) if answer.content else "") == refusal, answer.content
    stored = [row["Key"] for row in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    assert stored == (["k"] if answer.status_code == 204 else [])


@pytest.mark.parametrize("filename", ["", '; filename=""'])
@pytest.mark.parametrize(
    ("key", "outcome"),
    [("in/${filename}", (204, "", "in/")), ("${filename}", (400, "InvalidArgument", None))],
)
def test_the_name_of_a_file_without_one_is_empty(
    store: kit.ObjectStore, s3: Any, bucket: str, filename: str, key: str, outcome: Any
) -> None:
    fields = {"key": key, **post_forms.signed(store, allowing(bucket))}
    body = post_forms.encode(fields, CONTENT).replace(b'; filename="f"', filename.encode())
    headers = {"content-type": f"multipart/form-data; boundary={post_forms.BOUNDARY}"}
    answer = kit.send(store, "POST", f"/{bucket}", headers, body)
    keys = [row["Key"] for row in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    status, error, stored = outcome
    assert (answer.status, answer.code if error else "", keys) == (
        status,
        error,
        [stored] if stored else [],
    )


def test_a_form_without_a_file_is_refused(store: kit.ObjectStore, bucket: str) -> None:
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket, {"other": "x"}))}
    answer = post(store, bucket, fields, None)
    assert (answer.status_code, code(answer)) == (400, "IncorrectNumberOfFilesInPostRequest")


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"signature": "AAAA"}, (403, "SignatureDoesNotMatch")),
        ({"AWSAccessKeyId": "UNKNOWN"}, (403, "InvalidAccessKeyId")),
        ({"signature": None}, (400, "InvalidArgument")),
        ({"policy": None}, (400, "InvalidArgument")),
        ({"AWSAccessKeyId": None}, (400, "InvalidArgument")),
        ({"AWSAccessKeyId": None, "signature": None}, (400, "InvalidArgument")),
    ],
)
def test_a_form_with_a_wrong_proof_is_refused(
    store: kit.ObjectStore, bucket: str, change: dict[str, Any], refusal: tuple[int, str]
) -> None:
    sent = {"key": "k", **post_forms.signed(store, allowing(bucket)), **change}
    fields = {name: value for name, value in sent.items() if value is not None}
    answer = post(store, bucket, fields)
    assert (answer.status_code, code(answer)) == refusal


@pytest.mark.parametrize(
    ("expiration", "refusal"),
    [
        ("2020-01-01T00:00:00Z", (403, "AccessDenied")),
        ("2999-01-01 00:00:00", (400, "InvalidPolicyDocument")),
        ("tomorrow", (400, "InvalidPolicyDocument")),
    ],
)
def test_a_policy_ends(
    store: kit.ObjectStore, bucket: str, expiration: str, refusal: tuple[int, str]
) -> None:
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket), expiration=expiration)}
    answer = post(store, bucket, fields)
    assert (answer.status_code, code(answer)) == refusal


def test_a_form_without_a_proof_is_anonymous_and_refused(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    answer = post(store, bucket, {"key": "k"})
    assert (answer.status_code, code(answer)) == (403, "AccessDenied")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_user_posts_where_his_policy_lets_him_put(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::forms/in/*"}
        ],
    }
    alice = config.User(
        name="alice",
        access_key="AKALICE",
        secret_key="alice's secret",
        policies=(document,),
    )
    with kit.serve(tmp_path / "data", users=(alice,)) as place:
        kit.client(place).create_bucket(Bucket="forms")
        for key, status in (("in/k", 204), ("out/k", 403)):
            fields = {"key": key, **post_forms.signed(alice, allowing("forms"))}
            assert post(place, "forms", fields).status_code == status
        tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"
        conditions = allowing("forms", {"tagging": tagging})
        fields = {"key": "in/t", "tagging": tagging, **post_forms.signed(alice, conditions)}
        assert post(place, "forms", fields).status_code == 403


def test_a_form_to_no_bucket_or_a_table_bucket_stores_nothing(tmp_path: Path) -> None:
    with kit.serve(tmp_path / "data") as place:
        fields = {"key": "k", **post_forms.signed(place, allowing("absent"))}
        answer = post(place, "absent", fields)
        assert (answer.status_code, code(answer)) == (404, "NoSuchBucket")
        fields = {"key": "k", **post_forms.signed(place, allowing("lake"))}
        answer = post(place, "lake", fields)
        assert (answer.status_code, code(answer)) == (403, "AccessDenied")
        assert answer.headers["x-boathouse-layout-rule"]


@pytest.mark.parametrize(
    ("headers", "body", "refusal"),
    [
        ({"content-type": "text/plain"}, b"x", (412, "PreconditionFailed")),
        ({}, b"", (412, "PreconditionFailed")),
        ({"content-type": "multipart/form-data"}, b"x", (400, "MalformedPOSTRequest")),
        ({"content-type": "multipart/form-data; boundary=a"}, b"x", (400, "MalformedPOSTRequest")),
        (
            {"content-type": "multipart/form-data; boundary=a", "x-amz-acl": "private"},
            b"x",
            (400, "InvalidArgument"),
        ),
        (
            {"content-type": "multipart/form-data; boundary=a", "authorization": "AWS a:b"},
            b"x",
            (400, "InvalidArgument"),
        ),
        (
            {"content-type": "multipart/form-data; boundary=a"},
            b"x" * 200_000,
            (400, "MaxPostPreDataLengthExceeded"),
        ),
        (
            {
                "content-type": "multipart/form-data; boundary=a",
                "content-length": str(6 * 1024**3),
            },
            b"",
            (400, "EntityTooLarge"),
        ),
    ],
)
def test_a_post_that_is_no_form_is_refused_with_its_reason(
    store: kit.ObjectStore,
    bucket: str,
    headers: dict[str, str],
    body: bytes,
    refusal: tuple[int, str],
) -> None:
    answer = kit.send(store, "POST", f"/{bucket}", headers, body)
    assert (answer.status, answer.code) == refusal, answer.body


def test_a_field_that_comes_twice_is_refused(store: kit.ObjectStore, bucket: str) -> None:
    proof = post_forms.signed(store, allowing(bucket))
    pairs = [("key", "a"), ("KEY", "b"), *proof.items()]
    answer = requests.post(
        url_of(store, bucket),
        files=[*((name, (None, value)) for name, value in pairs), ("file", ("f", CONTENT))],
        timeout=TIMEOUT_SECONDS,
    )
    assert (answer.status_code, code(answer)) == (400, "InvalidArgument")


def test_a_form_that_ends_early_stores_nothing(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket))}
    request = requests.Request(
        "POST", url_of(store, bucket), data=fields, files={"file": ("f", b"x" * 200_000)}
    ).prepare()
    body = request.body
    assert isinstance(body, bytes)
    content_type = request.headers["content-type"]
    answer = kit.send(store, "POST", f"/{bucket}", {"content-type": content_type}, body[:150_000])
    assert (answer.status, answer.code) == (400, "MalformedPOSTRequest")
    # The client leaves within the file.
    blobs = store.storage.path / "tmp"
    with socket.create_connection(("127.0.0.1", store.port), timeout=TIMEOUT_SECONDS) as link:
        head = f"POST /{bucket} HTTP/1.1\r\nhost: h\r\ncontent-type: {content_type}\r\n"
        link.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body[:150_000])
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while list(blobs.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(blobs.iterdir()) == []
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_form_is_sent_to_a_virtual_host_and_in_chunks(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket))}
    host = f"{bucket}.localhost:{store.port}"
    answer = post(store, bucket, fields, url=f"{store.url}/", headers={"host": host})
    assert answer.status_code == 204
    assert answer.headers["location"] == f"http://{host}/k"
    request = requests.Request(
        "POST", url_of(store, bucket), data=fields, files={"file": ("f", b"in chunks")}
    ).prepare()
    body = request.body
    assert isinstance(body, bytes)
    framed = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    headers = {
        "content-type": request.headers["content-type"],
        "transfer-encoding": "chunked",
    }
    assert kit.send(store, "POST", f"/{bucket}", headers, framed).status == 204
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"in chunks"


def test_fields_behind_the_file_are_ignored(store: kit.ObjectStore, s3: Any, bucket: str) -> None:
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket))}
    answer = requests.post(
        url_of(store, bucket),
        files=[
            *((name, (None, value)) for name, value in fields.items()),
            ("file", ("f", CONTENT)),
            ("x-amz-meta-late", (None, "late")),
        ],
        timeout=TIMEOUT_SECONDS,
    )
    assert answer.status_code == 204
    assert s3.get_object(Bucket=bucket, Key="k")["Metadata"] == {}


def test_if_none_match_lets_a_form_write_once(store: kit.ObjectStore, s3: Any, bucket: str) -> None:
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket))}
    once = {"if-none-match": "*"}
    assert post(store, bucket, fields, b"1", headers=once).status_code == 204
    answer = post(store, bucket, fields, b"2", headers=once)
    assert (answer.status_code, code(answer)) == (412, "PreconditionFailed")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"


def test_a_condition_may_be_a_field_of_the_form(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    conditions = allowing(bucket, *(["starts-with", f"$if-{n}match", ""] for n in ("", "none-")))

    def sent(content: bytes, **condition: str) -> tuple[int, str]:
        fields = {"if-match": "", "if-none-match": "", **condition}
        proof = post_forms.signed(store, conditions)
        answer = post(store, bucket, {"key": "k", **fields, **proof}, content)
        return answer.status_code, code(answer) if answer.content else ""

    assert sent(b"0", **{"if-match": "*"}) == (404, "NoSuchKey")
    assert sent(b"1", **{"if-none-match": "*"}) == (204, "")
    assert sent(b"2", **{"if-none-match": "*"}) == (412, "PreconditionFailed")
    assert sent(b"3", **{"if-match": '"another"'}) == (412, "PreconditionFailed")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"
    assert sent(b"4", **{"if-match": f'"{hashlib.md5(b"1").hexdigest()}"'}) == (204, "")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"4"


def test_a_form_has_its_conditions_in_one_place(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    proof = post_forms.signed(store, allowing(bucket, {"if-match": "*"}))
    fields = {"key": "k", "if-match": "*", **proof}
    answer = post(store, bucket, fields, headers={"if-none-match": "*"})
    assert (answer.status_code, code(answer)) == (400, "InvalidArgument")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_form_with_an_algorithm_has_its_checksum(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    digest = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    conditions = allowing(
        bucket,
        {"x-amz-checksum-algorithm": "SHA256"},
        *(["starts-with", f"$x-amz-checksum-{name}", ""] for name in ("sha256", "crc32")),
    )
    for checksums, status in (
        ({}, 400),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, 400),
        ({"x-amz-checksum-sha256": digest}, 204),
    ):
        proof = post_forms.signed(store, conditions)
        named = {"x-amz-checksum-sha256": "", "x-amz-checksum-crc32": "", **checksums}
        fields = {"key": "k", "x-amz-checksum-algorithm": "SHA256", **named, **proof}
        answer = post(store, bucket, fields)
        assert answer.status_code == status, answer.content
    read = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert read["ChecksumSHA256"] == digest


def test_the_expected_owner_is_checked(store: kit.ObjectStore, bucket: str) -> None:
    name = "x-amz-expected-bucket-owner"
    fields = {"key": "k", **post_forms.signed(store, allowing(bucket))}
    assert post(store, bucket, fields, headers={name: ""}).status_code == 403
    for owner, status in ((kit.ACCOUNT, 204), ("111111111111", 403)):
        assert post(store, bucket, fields, headers={name: owner}).status_code == status
        proof = post_forms.signed(store, allowing(bucket, {name: owner}))
        assert post(store, bucket, {"key": "k", name: owner, **proof}).status_code == status


def test_expect_100_continue_is_answered_before_the_fields(
    store: kit.ObjectStore, bucket: str, new_bucket: Callable[[], str]
) -> None:
    with socket.create_connection(("127.0.0.1", store.port), timeout=TIMEOUT_SECONDS) as link:
        link.sendall(
            f"POST /{bucket} HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\nexpect: 100-continue\r\n"
            "content-type: multipart/form-data; boundary=a\r\n\r\n".encode()
        )
        assert link.recv(65536).startswith(b"HTTP/1.1 100 Continue")
    with socket.create_connection(("127.0.0.1", store.port), timeout=TIMEOUT_SECONDS) as link:
        link.sendall(
            f"POST /{bucket} HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\nexpect: 100-continue\r\n"
            "content-type: text/plain\r\n\r\n".encode()
        )
        assert link.recv(65536).startswith(b"HTTP/1.1 412 ")
