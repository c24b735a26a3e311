"""Objects over the wire: put, get, head, copy, delete, tags, conditions, ranges, checksums."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import hashlib
import http.client
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3.s3.transfer
import botocore.exceptions
import pytest
from awscrt import checksums as crt

from storage import blobs
from tests.kit import s3 as kit
from tests.kit import waits

BODY = bytes(range(256)) * 40
ETAG = f'"{hashlib.md5(BODY).hexdigest()}"'


def base64_of(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


DIGESTS = {
    "crc32": base64_of(zlib.crc32(BODY).to_bytes(4, "big")),
    "crc32c": base64_of(crt.crc32c(BODY).to_bytes(4, "big")),
    "crc64nvme": base64_of(crt.crc64nvme(BODY).to_bytes(8, "big")),
    "sha1": base64_of(hashlib.sha1(BODY).digest()),
    "md5": base64_of(hashlib.md5(BODY).digest()),
    "sha256": base64_of(hashlib.sha256(BODY).digest()),
    "sha512": base64_of(hashlib.sha512(BODY).digest()),
    "xxhash3": base64_of(crt.XXHash.compute_xxhash3_64(BODY)),
    "xxhash64": base64_of(crt.XXHash.compute_xxhash64(BODY)),
    "xxhash128": base64_of(crt.XXHash.compute_xxhash3_128(BODY)),
}


def files_of(store: kit.ObjectStore) -> set[Path]:
    """Every file of a body, finished or not."""
    folders = (store.storage.path / "tmp", store.storage.path / "blobs")
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def put(store: kit.ObjectStore, bucket: str) -> str:
    """The path of an object that holds BODY."""
    target = f"/{bucket}/folder/some%20key"
    answer = kit.call(store, "PUT", target, {"content-type": "text/x-body"}, BODY)
    assert (answer.status, answer.headers["etag"]) == (200, ETAG)
    return target


def test_get_object_gives_back_bytes_and_headers(store: kit.ObjectStore, put: str) -> None:
    answer = kit.call(store, "GET", put)
    assert (answer.status, answer.body) == (200, BODY)
    assert answer.headers["etag"] == ETAG
    assert answer.headers["content-type"] == "text/x-body"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-length"] == str(len(BODY))
    assert "x-amz-checksum-crc64nvme" not in answer.headers


def test_a_path_that_is_read_again_is_read_by_the_headers_and_query_of_each_request(
    store: kit.ObjectStore, put: str
) -> None:
    crc = DIGESTS["crc64nvme"]
    for _ in range(2):
        plain = kit.call(store, "GET", put)
        assert (plain.status, plain.body) == (200, BODY)
        assert "x-amz-checksum-type" not in plain.headers
        for method in ("GET", "HEAD"):
            checked = kit.call(store, method, put, {"x-amz-checksum-mode": "ENABLED"})
            assert checked.headers["x-amz-checksum-crc64nvme"] == crc
            assert checked.headers["x-amz-checksum-type"] == "FULL_OBJECT"
            assert checked.headers["content-type"] == "text/x-body"
        assert kit.call(store, "GET", put, {"if-none-match": ETAG}).status == 304
        ranged = kit.call(store, "GET", put, {"range": "bytes=1-2"})
        assert (ranged.status, ranged.body) == (206, BODY[1:3])
        named = kit.call(store, "GET", f"{put}?response-content-type=a%2Fb")
        assert named.headers["content-type"] == "a/b"
        refused = kit.call(store, "GET", f"{put}?x-amz-expected-bucket-owner=111111111111")
        assert (refused.status, refused.code) == (403, "AccessDenied")
        taken = kit.call(store, "GET", f"{put}?x-id=GetObject")
        assert (taken.status, taken.body) == (200, BODY)


@pytest.mark.parametrize("wanted", [None, "bytes=100000-100099"])
def test_a_get_of_a_file_that_has_lost_its_bytes_is_cut_off(
    store: kit.ObjectStore, bucket: str, wanted: str | None
) -> None:
    before = files_of(store)
    target = f"/{bucket}/{kit.unique_name()}"
    assert kit.call(store, "PUT", target, body=bytes(blobs.INLINE_BYTES_MAX * 2)).status == 200
    (file,) = files_of(store) - before
    file.chmod(0o600)
    file.write_bytes(b"")
    with pytest.raises(http.client.IncompleteRead) as caught:
        kit.call(store, "GET", target, {} if wanted is None else {"range": wanted})
    assert caught.value.partial == b""
    assert kit.call(store, "DELETE", target).status == 204


def test_head_object_says_what_get_says_without_a_body(store: kit.ObjectStore, put: str) -> None:
    get, head = kit.call(store, "GET", put), kit.call(store, "HEAD", put)
    assert (head.status, head.body) == (200, b"")
    own = {"date", "x-amz-request-id"}
    assert {n: v for n, v in head.headers.items() if n not in own} == {
        n: v for n, v in get.headers.items() if n not in own
    }


@pytest.mark.parametrize(
    "key",
    ["plain", "a//b", "/lead", "tail/", "../up", "a%2Fb", "a+b c", "Île de France", "k?x=1#y&z",
     "k" * 1024, "'\"<&>", "\x01\x7f"],
)  # fmt: skip
def test_every_kind_of_key_is_stored_under_its_own_name(
    s3: Any, store: kit.ObjectStore, bucket: str, key: str
) -> None:
    target = f"/{bucket}/{kit.quoted(key)}"
    assert kit.call(store, "PUT", target, body=key.encode()).status == 200
    assert kit.call(store, "GET", target).body == key.encode()
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [row["Key"] for row in listed] == [key]


def test_a_key_longer_than_1024_bytes_is_too_long(store: kit.ObjectStore, bucket: str) -> None:
    answer = kit.call(store, "PUT", f"/{bucket}/{'k' * 1025}", body=b"x")
    assert (answer.status, answer.code) == (400, "KeyTooLongError")
    assert (answer.element("Size"), answer.element("MaxSizeAllowed")) == ("1025", "1024")
    for method in ("GET", "HEAD", "DELETE"):
        for key in ("k" * 1025, "%C3%A9" * 513, "%FF" * 1025):
            assert kit.call(store, method, f"/{bucket}/{key}").status == 400
    assert kit.call(store, "GET", f"/{bucket}/{'%C3%A9' * 512}").status == 404


def test_a_key_that_is_not_utf8_is_refused_on_write_and_absent_on_read(
    store: kit.ObjectStore, bucket: str
) -> None:
    assert kit.call(store, "PUT", f"/{bucket}/a%FFb", body=b"x").code == "InvalidURI"
    assert kit.call(store, "GET", f"/{bucket}/a%FFb").code == "NoSuchKey"
    assert kit.call(store, "DELETE", f"/{bucket}/a%FFb").status == 204


def test_metadata_and_content_headers_come_back(store: kit.ObjectStore, bucket: str) -> None:
    sent = {
        "cache-control": "no-cache",
        "content-disposition": 'attachment; filename="x"',
        "content-encoding": "gzip",
        "content-language": "fr",
        "content-type": "text/plain; charset=utf-8",
        "expires": "Thu, 01 Dec 2094 16:00:00 GMT",
        "x-amz-meta-colour": "deep blue",
        "x-amz-storage-class": "STANDARD_IA",
    }
    assert kit.call(store, "PUT", f"/{bucket}/k", sent, b"x").status == 200
    answer = kit.call(store, "GET", f"/{bucket}/k")
    assert {name: answer.headers.get(name) for name in sent} == sent


def test_metadata_in_utf8_comes_back_byte_for_byte(store: kit.ObjectStore, bucket: str) -> None:
    target, value = f"/{bucket}/k", "détails"
    signed = kit.sign(
        store, "PUT", target, {"x-amz-meta-a": value}, payload_hash="UNSIGNED-PAYLOAD"
    )
    wire = {**signed, "x-amz-meta-a": value.encode().decode("latin-1")}
    assert kit.send(store, "PUT", target, wire, b"x").status == 200
    assert kit.call(store, "GET", target).headers["x-amz-meta-a"] == wire["x-amz-meta-a"]


def test_an_object_without_a_type_is_a_stream_of_octets(
    store: kit.ObjectStore, bucket: str
) -> None:
    kit.call(store, "PUT", f"/{bucket}/k", body=b"x")
    answer = kit.call(store, "GET", f"/{bucket}/k")
    assert answer.headers["content-type"] == "binary/octet-stream"


def test_response_overrides_replace_stored_headers(store: kit.ObjectStore, put: str) -> None:
    query = "?response-content-type=a%2Fb&response-expires=never&response-content-encoding=x"
    answer = kit.call(store, "GET", put + query)
    assert answer.headers["content-type"] == "a/b"
    assert answer.headers["expires"] == "never"
    assert answer.headers["content-encoding"] == "x"
    assert answer.body == BODY


def test_a_response_override_cannot_split_the_answer(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BODY)
    params = {"Bucket": bucket, "Key": "k", "ResponseContentType": "a\r\nx-evil: 1"}
    url = s3.generate_presigned_url("get_object", Params=params)
    answer = kit.send(store, "GET", url.partition(f":{store.port}")[2])
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    ("value", "start", "stop"),
    [
        ("bytes=0-4", 0, 5),
        ("bytes=100-", 100, len(BODY)),
        ("bytes=-5", len(BODY) - 5, len(BODY)),
        ("bytes=0-999999", 0, len(BODY)),
        (f"bytes=0-{len(BODY) - 1}", 0, len(BODY)),
        (f"bytes=-{len(BODY) * 2}", 0, len(BODY)),
    ],
)
def test_a_range_is_206_with_its_place_in_the_whole(
    store: kit.ObjectStore, put: str, value: str, start: int, stop: int
) -> None:
    answer = kit.call(store, "GET", put, {"range": value, "x-amz-checksum-mode": "ENABLED"})
    assert (answer.status, answer.body) == (206, BODY[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(BODY)}"
    # A checksum of the whole would fail the client's check of a part.
    is_whole = (start, stop) == (0, len(BODY))
    assert ("x-amz-checksum-crc64nvme" in answer.headers) is is_whole
    assert answer.headers.get("x-amz-checksum-type") == ("FULL_OBJECT" if is_whole else None)
    head = kit.call(store, "HEAD", put, {"range": value})
    assert (head.status, head.headers["content-length"]) == (206, str(stop - start))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_range_of_another_representation_is_the_whole(
    store: kit.ObjectStore, put: str, method: str
) -> None:
    """A client that resumes a download would join pieces of two objects (RFC 9110, 13.1.5).

    A date names none: an object may change twice within its second (8.8.2.2)."""
    modified = kit.call(store, "HEAD", put).headers["last-modified"]
    for value, status in (
        (ETAG, 206),
        (ETAG.strip('"'), 206),
        (modified, 200),
        ('"0"', 200),
        (f"W/{ETAG}", 200),
        ("*", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
        ("Sun, 06 Nov 2094 08:49:37 GMT", 200),
        ("", 200),
    ):
        for start in (5, 6):  # the second head differs from the first in its range alone
            headers = {"range": f"bytes={start}-9", "if-range": value}
            answer = kit.call(store, method, put, headers)
            assert answer.status == status, value
            assert ("content-range" in answer.headers) == (status == 206)
            size_bytes = 10 - start if status == 206 else len(BODY)
            assert answer.headers["content-length"] == str(size_bytes)
    assert kit.call(store, method, put, {"if-range": '"0"'}).status == 200
    beyond = {"range": "bytes=99999-", "if-range": '"0"'}
    assert kit.call(store, method, put, beyond).status == 200
    failed = {"range": "bytes=0-1", "if-range": '"0"', "if-match": '"0"'}
    assert kit.call(store, method, put, failed).status == 412


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "?max-keys=x", {}),
        ("GET", "/k?partNumber=0", {}),
        ("GET", "/k?versionId=x", {}),
        ("PUT", "/k", {"x-amz-acl": "nothing"}),
        ("PUT", "/k", {"content-md5": "x"}),
        ("DELETE", "/k", {"x-amz-mfa": "1 2"}),
        ("GET", f"/{'k' * 1025}", {}),
    ],
)
def test_a_wrong_signature_is_refused_before_a_wrong_parameter(
    store: kit.ObjectStore, bucket: str, method: str, target: str, headers: dict[str, str]
) -> None:
    path = f"/{bucket}{target}"
    own = kit.call(store, method, path, headers)
    assert own.status in (400, 501)
    assert kit.send(store, method, path, headers).code == own.code  # an anonymous caller
    signed = kit.sign(
        store, method, path, headers, payload_hash="UNSIGNED-PAYLOAD", secret_key="wrong"
    )
    for _ in range(2):
        refused = kit.send(store, method, path, signed)
        assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch")
    signed = kit.sign(store, method, path, headers, payload_hash="UNSIGNED-PAYLOAD")
    for _ in range(3):  # the same bytes again
        assert kit.send(store, method, path, signed).code == own.code


def test_a_copy_of_a_whole_object_takes_no_range(
    store: kit.ObjectStore, bucket: str, put: str
) -> None:
    headers = {"x-amz-copy-source": put, "x-amz-copy-source-range": "bytes=0-1"}
    refused = kit.call(store, "PUT", f"/{bucket}/copy", headers)
    assert (refused.status, refused.code) == (400, "InvalidRequest")
    assert kit.call(store, "HEAD", f"/{bucket}/copy").status == 404


def test_a_range_past_the_end_is_416_with_the_size(store: kit.ObjectStore, put: str) -> None:
    answer = kit.call(store, "GET", put, {"range": f"bytes={len(BODY)}-"})
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert answer.element("ActualObjectSize") == str(len(BODY))


@pytest.mark.parametrize("value", ["bytes=0-1,4-5", "lines=1-2", "bytes=x"])
def test_several_ranges_and_nonsense_mean_the_whole(
    store: kit.ObjectStore, put: str, value: str
) -> None:
    answer = kit.call(store, "GET", put, {"range": value})
    assert (answer.status, answer.body) == (200, BODY)


def test_part_one_of_an_object_stored_whole_is_the_whole_as_a_range(
    store: kit.ObjectStore, put: str
) -> None:
    answer = kit.call(store, "GET", put + "?partNumber=1")
    assert (answer.status, answer.body) == (206, BODY)
    assert answer.headers["content-range"] == f"bytes 0-{len(BODY) - 1}/{len(BODY)}"
    assert "x-amz-mp-parts-count" not in answer.headers
    beyond = kit.call(store, "GET", put + "?partNumber=2")
    assert (beyond.status, beyond.code) == (416, "InvalidPartNumber")


FUTURE = "Fri, 01 Jan 2100 00:00:00 GMT"
PAST = "Sat, 01 Jan 2000 00:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-match": ETAG}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"other"'}, 412),
        ({"if-match": f'"other", {ETAG}'}, 200),
        ({"if-none-match": ETAG}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-modified-since": FUTURE}, 200),
        ({"if-modified-since": PAST}, 200),
        ({"if-modified-since": "nonsense"}, 200),
        ({"if-unmodified-since": FUTURE}, 200),
        ({"if-unmodified-since": PAST}, 412),
        ({"if-match": ETAG, "if-unmodified-since": PAST}, 200),
        ({"if-none-match": '"other"', "if-modified-since": FUTURE}, 200),
        ({"if-match": '"other"', "if-none-match": ETAG}, 412),
    ],
)
def test_a_conditional_read_is_judged_as_rfc_9110_says(
    store: kit.ObjectStore, put: str, headers: dict[str, str], status: int
) -> None:
    get, head = kit.call(store, "GET", put, headers), kit.call(store, "HEAD", put, headers)
    assert (get.status, head.status) == (status, status)
    if status == 304:
        assert (get.body, get.headers["etag"]) == (b"", ETAG)
        assert "last-modified" in get.headers
    elif status == 412:
        assert get.code == "PreconditionFailed"
        assert get.element("Condition").startswith("If-")


def test_if_modified_since_is_not_modified_from_the_objects_date_until_now(
    store: kit.ObjectStore, put: str
) -> None:
    """A later moment is ignored, as AWS does: no client can have seen the object of then."""
    modified = kit.call(store, "HEAD", put).headers["last-modified"]
    assert kit.call(store, "GET", put, {"if-modified-since": modified}).status == 304
    assert kit.call(store, "GET", put, {"if-modified-since": FUTURE}).status == 200
    copying = {"x-amz-copy-source": put, "x-amz-copy-source-if-modified-since": modified}
    refused = kit.call(store, "PUT", put + "-copy", copying)
    assert (refused.status, refused.code) == (412, "PreconditionFailed")
    assert refused.element("Condition") == "x-amz-copy-source-If-Modified-Since"


def test_an_answer_without_the_body_says_what_caches_may_do_with_it(
    store: kit.ObjectStore, bucket: str
) -> None:
    """RFC 9110, section 15.4.5."""
    kept = {"cache-control": "max-age=60", "expires": FUTURE}
    other = {"content-language": "en", "x-amz-meta-a": "1"}
    kit.call(store, "PUT", f"/{bucket}/k", {**kept, **other}, BODY)
    answer = kit.call(store, "GET", f"/{bucket}/k", {"if-none-match": ETAG})
    assert (answer.status, answer.body) == (304, b"")
    assert {name: answer.headers.get(name) for name in (*kept, *other)} == {
        **kept,
        **dict.fromkeys(other),
    }
    target = f"/{bucket}/k?response-cache-control=no-store"
    answer = kit.call(store, "GET", target, {"if-none-match": ETAG})
    assert (answer.status, answer.headers["cache-control"]) == (304, "no-store")


@pytest.mark.parametrize("name", DIGESTS)
def test_a_checksum_header_is_verified_kept_and_shown_when_asked(
    store: kit.ObjectStore, bucket: str, name: str
) -> None:
    header = f"x-amz-checksum-{name}"
    sent = {header: DIGESTS[name], "x-amz-sdk-checksum-algorithm": name.upper()}
    answer = kit.call(store, "PUT", f"/{bucket}/k", sent, BODY)
    assert (answer.status, answer.headers[header]) == (200, DIGESTS[name])
    assert answer.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    shown = kit.call(store, "HEAD", f"/{bucket}/k", {"x-amz-checksum-mode": "ENABLED"})
    assert shown.headers[header] == DIGESTS[name]
    assert header not in kit.call(store, "HEAD", f"/{bucket}/k").headers


@pytest.mark.parametrize("name", DIGESTS)
def test_a_checksum_that_does_not_fit_stores_nothing(
    store: kit.ObjectStore, bucket: str, name: str
) -> None:
    sent = {f"x-amz-checksum-{name}": DIGESTS[name]}
    answer = kit.call(store, "PUT", f"/{bucket}/k", sent, BODY + b"!")
    assert (answer.status, answer.code) == (400, "BadDigest")
    for text in ("bad", "***", ""):
        malformed = kit.call(store, "PUT", f"/{bucket}/k", {f"x-amz-checksum-{name}": text}, BODY)
        assert (malformed.status, malformed.code) == (400, "BadDigest")
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("name", ["SHA512", "XXHASH3", "XXHASH64", "XXHASH128"])
@pytest.mark.parametrize("size_bytes", [0, 1000, 2_000_000])
def test_boto3_sends_and_checks_the_algorithms_of_2026(
    s3: Any, bucket: str, name: str, size_bytes: int
) -> None:
    body = bytes(size_bytes)
    answer = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=name)
    shown = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert shown["Body"].read() == body  # botocore compares the checksum
    assert shown[f"Checksum{name}"] == answer[f"Checksum{name}"]
    (listed,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert listed["ChecksumAlgorithm"] == [name]
    copied = s3.copy_object(
        Bucket=bucket, Key="copy", CopySource=f"{bucket}/k", ChecksumAlgorithm="MD5"
    )
    digest = base64_of(hashlib.md5(body).digest())
    assert copied["CopyObjectResult"]["ChecksumMD5"] == digest
    attributes = s3.get_object_attributes(Bucket=bucket, Key="copy", ObjectAttributes=["Checksum"])
    assert attributes["Checksum"] == {"ChecksumMD5": digest, "ChecksumType": "FULL_OBJECT"}


def test_an_object_without_a_checksum_shows_the_crc64nvme_computed_here(
    store: kit.ObjectStore, put: str
) -> None:
    answer = kit.call(store, "GET", put, {"x-amz-checksum-mode": "ENABLED"})
    assert answer.headers["x-amz-checksum-crc64nvme"] == DIGESTS["crc64nvme"]


def test_content_md5_is_verified(store: kit.ObjectStore, bucket: str) -> None:
    right = base64_of(hashlib.md5(BODY).digest())
    wrong = base64_of(hashlib.md5(b"").digest())
    target = f"/{bucket}/k"
    assert kit.call(store, "PUT", target, {"content-md5": wrong}, BODY).code == "BadDigest"
    assert kit.call(store, "PUT", target, {"content-md5": "xx"}, BODY).code == "InvalidDigest"
    assert kit.call(store, "HEAD", target).status == 404
    assert kit.call(store, "PUT", target, {"content-md5": right}, BODY).status == 200


@pytest.mark.parametrize("size", [1000, 70_000, 3_000_000])
def test_a_body_whose_signed_hash_is_another_stores_nothing(
    store: kit.ObjectStore, bucket: str, size: int
) -> None:
    before = files_of(store)
    answer = kit.call(
        store, "PUT", f"/{bucket}/k", body=bytes(size), payload_hash=hashlib.sha256().hexdigest()
    )
    assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404
    assert files_of(store) == before


def test_put_object_without_a_length_is_refused(store: kit.ObjectStore, bucket: str) -> None:
    target = f"/{bucket}/k"
    signed = kit.sign(store, "PUT", target, payload_hash="UNSIGNED-PAYLOAD")
    lines = [f"PUT {target} HTTP/1.1", *(f"{name}: {value}" for name, value in signed.items())]
    with socket.create_connection((store.host, store.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "connection: close", "", ""]).encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 411 ")
    assert b"<Code>MissingContentLength</Code>" in answer


def test_put_object_beyond_five_gib_is_refused_before_its_body(
    store: kit.ObjectStore, bucket: str
) -> None:
    target = f"/{bucket}/k"
    signed = kit.sign(store, "PUT", target, payload_hash="UNSIGNED-PAYLOAD")
    wire = {**signed, "content-length": str(5 * 1024**3 + 1), "expect": "100-continue"}
    answer = kit.send(store, "PUT", target, wire)
    assert (answer.status, answer.code) == (400, "EntityTooLarge")
    assert answer.element("MaxSizeAllowed") == str(5 * 1024**3)


def test_put_object_if_none_match_star_lets_one_of_many_writers_win(
    store: kit.ObjectStore, bucket: str
) -> None:
    def write(number: int) -> int:
        return kit.call(store, "PUT", f"/{bucket}/k", {"if-none-match": "*"}, b"%d" % number).status

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(write, range(16)))
    assert sorted(set(statuses)) == [200, 412]
    assert statuses.count(200) == 1
    assert kit.call(store, "GET", f"/{bucket}/k").body == b"%d" % statuses.index(200)


def test_put_object_if_match_lets_one_of_many_writers_win(
    store: kit.ObjectStore, bucket: str
) -> None:
    target = f"/{bucket}/k"
    etag = kit.call(store, "PUT", target, body=b"first").headers["etag"]

    def write(number: int) -> int:
        return kit.call(store, "PUT", target, {"if-match": etag}, b"%d" % number).status

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(write, range(16)))
    assert statuses.count(200) == 1
    assert statuses.count(412) == 15


def test_put_object_if_match_on_an_absent_key_is_not_found(
    store: kit.ObjectStore, bucket: str
) -> None:
    answer = kit.call(store, "PUT", f"/{bucket}/k", {"if-match": '"x"'}, b"x")
    assert (answer.status, answer.code) == (404, "NoSuchKey")


@pytest.mark.parametrize("missing", ["first", "last", "both"])
@pytest.mark.parametrize(
    ("method", "header"),
    [
        ("GET", "if-match"),
        ("GET", "if-none-match"),
        ("HEAD", "if-none-match"),
        ("PUT", "if-match"),
        ("PUT", "if-none-match"),
        ("DELETE", "if-match"),
        ("COPY", "if-none-match"),
        ("COPY", "x-amz-copy-source-if-match"),
        ("COPY", "x-amz-copy-source-if-none-match"),
    ],
)
def test_an_etag_may_lack_both_quotes_and_with_one_the_request_is_refused(
    store: kit.ObjectStore, put: str, method: str, header: str, missing: str
) -> None:
    bare = ETAG.strip('"')
    value = {"first": bare + '"', "last": '"' + bare, "both": bare}[missing]
    headers, target, body = {header: value}, put, b""
    if method == "COPY":
        method, headers["x-amz-copy-source"] = "PUT", put
        # The condition of the destination meets the object that is there.
        target = put + "-copy"
        assert kit.call(store, "PUT", target, body=BODY).status == 200
    elif method == "PUT":
        body = b"other"
    answer = kit.call(store, method, target, headers, body)
    if missing == "both":
        expected = 412 if "none" in header else 204 if method == "DELETE" else 200
        if method in ("GET", "HEAD") and "none" in header:
            expected = 304
        assert answer.status == expected
    else:
        assert answer.status == 400
        if method != "HEAD":
            assert answer.code == "InvalidArgument"
            assert answer.element("ArgumentName") == header
        assert kit.call(store, "GET", target).body == BODY


def test_a_condition_that_fails_costs_no_upload(store: kit.ObjectStore, put: str) -> None:
    """With Expect: 100-continue the refusal comes before any byte of the body."""
    signed = kit.sign(store, "PUT", put, {"if-none-match": "*"}, payload_hash="UNSIGNED-PAYLOAD")
    wire = {**signed, "content-length": "1000000", "expect": "100-continue"}
    answer = kit.send(store, "PUT", put, wire)
    assert (answer.status, answer.code) == (412, "PreconditionFailed")
    assert answer.headers["connection"] == "close"


def test_delete_object_of_an_absent_key_is_no_fault(store: kit.ObjectStore, put: str) -> None:
    assert kit.call(store, "DELETE", put).status == 204
    assert kit.call(store, "DELETE", put).status == 204
    assert kit.call(store, "GET", put).code == "NoSuchKey"


def test_delete_object_if_match_removes_only_that_version(store: kit.ObjectStore, put: str) -> None:
    refused = kit.call(store, "DELETE", put, {"if-match": '"other"'})
    assert (refused.status, refused.code) == (412, "PreconditionFailed")
    assert kit.call(store, "DELETE", put, {"if-match": ETAG}).status == 204


def test_version_null_is_the_object_and_others_do_not_exist(
    store: kit.ObjectStore, put: str
) -> None:
    assert kit.call(store, "GET", put + "?versionId=null").body == BODY
    other = kit.call(store, "GET", put + "?versionId=" + "0" * 32)
    assert (other.status, other.code) == (404, "NoSuchVersion")
    assert kit.call(store, "DELETE", put + "?versionId=" + "0" * 32).status == 204
    assert kit.call(store, "GET", put).body == BODY
    for method in ("GET", "DELETE"):
        refused = kit.call(store, method, put + "?versionId=abc")
        assert (refused.status, refused.code) == (400, "InvalidArgument")
    assert kit.call(store, "DELETE", put + "?versionId=null").status == 204


def test_copy_object_takes_bytes_metadata_and_tags(s3: Any, bucket: str) -> None:
    s3.put_object(
        Bucket=bucket, Key="a", Body=BODY, Metadata={"m": "1"}, ContentType="x/y", Tagging="t=1"
    )
    copied = s3.copy_object(Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"})
    assert copied["CopyObjectResult"]["ETag"] == ETAG
    copy = s3.get_object(Bucket=bucket, Key="b")
    assert (copy["Body"].read(), copy["Metadata"], copy["ContentType"]) == (BODY, {"m": "1"}, "x/y")
    tags = s3.get_object_tagging(Bucket=bucket, Key="b")["TagSet"]
    assert tags == [{"Key": "t", "Value": "1"}]


def test_a_copy_with_a_body_is_refused_and_copies_nothing(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"source")
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key="b")["UploadId"]
    source = {"x-amz-copy-source": f"{bucket}/a"}
    for target in (f"/{bucket}/b", f"/{bucket}/b?uploadId={upload_id}&partNumber=1"):
        for body in (b"x", b"x" * 100_000):
            answer = kit.call(store, "PUT", target, source, body)
            assert (answer.status, answer.code) == (400, "InvalidRequest")
            assert "must not include a non-empty body" in answer.element("Message")
        streamed = kit.stream(
            store, "PUT", target, [b"xy"], mode="STREAMING-UNSIGNED-PAYLOAD-TRAILER", headers=source
        )
        assert (streamed.status, streamed.code) == (400, "InvalidRequest")
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["a"]
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="b", UploadId=upload_id)
    for target in (f"/{bucket}/b", f"/{bucket}/b?uploadId={upload_id}&partNumber=1"):
        empty = kit.stream(
            store, "PUT", target, [], mode="STREAMING-UNSIGNED-PAYLOAD-TRAILER", headers=source
        )
        assert empty.status == 200, empty.body


def test_copy_object_with_replace_takes_only_the_bytes(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=BODY, Metadata={"m": "1"}, Tagging="t=1")
    s3.copy_object(
        Bucket=bucket,
        Key="a",
        CopySource=f"{bucket}/a",
        MetadataDirective="REPLACE",
        Metadata={"n": "2"},
        TaggingDirective="REPLACE",
        Tagging="u=2",
    )
    copy = s3.get_object(Bucket=bucket, Key="a")
    assert (copy["Body"].read(), copy["Metadata"]) == (BODY, {"n": "2"})
    assert s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"] == [{"Key": "u", "Value": "2"}]


def test_copy_object_onto_itself_without_a_change_is_refused(
    store: kit.ObjectStore, put: str
) -> None:
    for headers in ({}, {"x-amz-acl": "public-read"}):
        answer = kit.call(store, "PUT", put, {"x-amz-copy-source": put, **headers})
        assert (answer.status, answer.code) == (400, "InvalidRequest")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-amz-copy-source-if-match": ETAG}, 200),
        ({"x-amz-copy-source-if-match": '"other"'}, 412),
        ({"x-amz-copy-source-if-none-match": '"other"'}, 200),
        ({"x-amz-copy-source-if-none-match": ETAG}, 412),
        ({"x-amz-copy-source-if-modified-since": PAST}, 200),
        ({"x-amz-copy-source-if-modified-since": FUTURE}, 200),
        ({"x-amz-copy-source-if-unmodified-since": FUTURE}, 200),
        ({"x-amz-copy-source-if-unmodified-since": PAST}, 412),
    ],
)
def test_copy_object_judges_the_conditions_on_its_source(
    store: kit.ObjectStore, put: str, headers: dict[str, str], status: int
) -> None:
    target = put.rpartition("/")[0] + "/copy"
    answer = kit.call(store, "PUT", target, {"x-amz-copy-source": put, **headers})
    assert answer.status == status
    assert kit.call(store, "HEAD", target).status == (200 if status == 200 else 404)


def test_copy_object_if_none_match_star_never_overwrites(store: kit.ObjectStore, put: str) -> None:
    target = put + "-copy"
    headers = {"x-amz-copy-source": put, "if-none-match": "*"}
    assert kit.call(store, "PUT", target, headers).status == 200
    assert kit.call(store, "PUT", target, headers).code == "PreconditionFailed"


def test_copy_object_computes_the_checksum_it_is_asked_for(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=BODY, ChecksumAlgorithm="CRC32")
    kept = s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a")
    assert kept["CopyObjectResult"]["ChecksumCRC32"] == DIGESTS["crc32"]
    copied = s3.copy_object(
        Bucket=bucket, Key="c", CopySource=f"{bucket}/a", ChecksumAlgorithm="SHA256"
    )
    assert copied["CopyObjectResult"]["ChecksumSHA256"] == DIGESTS["sha256"]
    assert copied["CopyObjectResult"]["ChecksumType"] == "FULL_OBJECT"


def overtaken(
    store: kit.ObjectStore, monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], Any]
) -> None:
    """Let changes happen after a copy has found its source, one before each attempt at it."""
    copy, left = store.storage.objects.copy, list(changes)

    async def late(*arguments: Any, **named: Any) -> Any:
        if left:
            await asyncio.to_thread(left.pop(0))
        return await copy(*arguments, **named)

    monkeypatch.setattr(store.storage.objects, "copy", late)


@pytest.mark.parametrize("change", ["put", "delete"])
@pytest.mark.parametrize("body", [b"", b"small", BODY * 10])
def test_a_copy_whose_source_is_replaced_meanwhile_has_the_bytes_that_it_found(
    store: kit.ObjectStore,
    s3: Any,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    change: str,
) -> None:
    """A key that always exists is never "not found"."""
    put = s3.put_object(Bucket=bucket, Key="a", Body=body, Metadata={"m": "1"}, Tagging="t=1")

    def replace() -> None:
        if change == "delete":
            s3.delete_object(Bucket=bucket, Key="a")
        else:
            s3.put_object(Bucket=bucket, Key="a", Body=b"later")

    overtaken(store, monkeypatch, replace)
    copied = s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a")
    assert copied["CopyObjectResult"]["ETag"] == put["ETag"]
    copy = s3.get_object(Bucket=bucket, Key="b", ChecksumMode="ENABLED")
    assert (copy["Body"].read(), copy["ETag"], copy["Metadata"]) == (body, put["ETag"], {"m": "1"})
    assert copy["ChecksumCRC32"] == put["ChecksumCRC32"]
    assert s3.get_object_tagging(Bucket=bucket, Key="b")["TagSet"] == [{"Key": "t", "Value": "1"}]


def test_a_copy_onto_itself_never_brings_back_earlier_bytes(
    store: kit.ObjectStore, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"Bucket": bucket, "Key": "a"}
    s3.put_object(**named, Body=b"first")
    overtaken(store, monkeypatch, *2 * [lambda: s3.put_object(**named, Body=b"later")])
    replacing = {"MetadataDirective": "REPLACE", "Metadata": {"n": "2"}}
    s3.copy_object(**named, CopySource=f"{bucket}/a", **replacing)
    assert s3.get_object(**named)["Body"].read() == b"later"
    assert s3.head_object(**named)["Metadata"] == {"n": "2"}
    overtaken(store, monkeypatch, lambda: s3.delete_object(**named))
    with pytest.raises(botocore.exceptions.ClientError, match="NoSuchKey"):
        s3.copy_object(**named, CopySource=f"{bucket}/a", **replacing)


def test_a_copy_begins_anew_where_the_bytes_that_it_found_are_freed(
    store: kit.ObjectStore, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"first")

    def replace() -> None:
        s3.put_object(Bucket=bucket, Key="a", Body=b"later")
        freeing = store.storage.sweep.once(row_grace_ms=-1000, file_grace_ms=-1000)
        assert asyncio.run_coroutine_threadsafe(freeing, store.loop).result(waits.WAIT_SECONDS)

    overtaken(store, monkeypatch, replace)
    s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a")
    assert s3.get_object(Bucket=bucket, Key="b")["Body"].read() == b"later"


def test_copy_object_of_an_absent_key_is_not_found(s3: Any, bucket: str) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match="NoSuchKey"):
        s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/nothing")


def test_tags_are_set_read_and_removed_without_touching_the_object(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BODY)
    before = s3.head_object(Bucket=bucket, Key="k")
    rows = s3.list_objects_v2(Bucket=bucket)["Contents"]
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b : c", "Value": ""}]
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == tags
    after = s3.head_object(Bucket=bucket, Key="k")
    assert (after["ETag"], after["TagCount"]) == (before["ETag"], 2)
    assert s3.list_objects_v2(Bucket=bucket)["Contents"] == rows
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY


def test_tags_of_an_absent_key_are_not_found(store: kit.ObjectStore, bucket: str) -> None:
    assert kit.call(store, "GET", f"/{bucket}/k?tagging").code == "NoSuchKey"
    body = b"<Tagging><TagSet></TagSet></Tagging>"
    assert kit.call(store, "PUT", f"/{bucket}/k?tagging", body=body).code == "NoSuchKey"


def test_a_large_body_comes_back_whole_and_in_ranges(s3: Any, bucket: str) -> None:
    body = hashlib.shake_256(b"large").digest(9_000_001)
    once = boto3.s3.transfer.TransferConfig(multipart_threshold=1 << 30)
    assert once.multipart_threshold > len(body)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body
    part = s3.get_object(Bucket=bucket, Key="k", Range="bytes=4000000-8999999")
    assert part["Body"].read() == body[4_000_000:9_000_000]


def test_overwriting_an_object_changes_bytes_and_etag(s3: Any, bucket: str) -> None:
    for body in (b"one", bytes(100_000), b"three"):
        etag = s3.put_object(Bucket=bucket, Key="k", Body=body)["ETag"]
        answer = s3.get_object(Bucket=bucket, Key="k")
        assert (answer["ETag"], answer["Body"].read()) == (etag, body)


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "DELETE"])
def test_a_bucket_that_is_not_there_is_no_such_bucket(store: kit.ObjectStore, method: str) -> None:
    answer = kit.call(store, method, "/no-such-bucket/k", body=b"x" if method == "PUT" else b"")
    assert answer.status == 404
    if method != "HEAD":
        assert (answer.code, answer.element("BucketName")) == ("NoSuchBucket", "no-such-bucket")


def test_a_virtual_hosted_bucket_is_the_bucket_of_the_host(
    store: kit.ObjectStore, bucket: str
) -> None:
    host = f"{bucket}.localhost:{store.port}"
    assert kit.call(store, "PUT", "/a/k", body=b"x", host=host).status == 200
    assert kit.call(store, "GET", f"/{bucket}/a/k").body == b"x"
    listed = kit.call(store, "GET", "/?list-type=2", host=host)
    assert listed.element("Key") == "a/k"


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_presigned_url_puts_and_gets_without_credentials(
    store: kit.ObjectStore, bucket: str, version: str
) -> None:
    s3 = kit.client(store, config={"signature_version": version})
    params = {"Bucket": bucket, "Key": "a b/ü"}
    for method, name, body in (("PUT", "put_object", b"x"), ("GET", "get_object", b"")):
        url = s3.generate_presigned_url(name, Params=params, ExpiresIn=60)
        target = url.partition(f":{store.port}")[2]
        answer = kit.send(store, method, target, body=body)
        assert answer.status == 200, answer.body
    assert answer.body == b"x"


@pytest.mark.parametrize("sent", [0, 100_000, 3_000_000])
def test_a_client_that_leaves_half_way_stores_nothing(
    store: kit.ObjectStore, bucket: str, sent: int
) -> None:
    before = files_of(store)
    target = f"/{bucket}/k"
    signed = kit.sign(store, "PUT", target, payload_hash="UNSIGNED-PAYLOAD")
    head = [f"PUT {target} HTTP/1.1", *(f"{name}: {value}" for name, value in signed.items())]
    with socket.create_connection((store.host, store.port), timeout=60) as connection:
        lines = "\r\n".join([*head, "content-length: 4000000", "", ""])
        connection.sendall(lines.encode() + bytes(sent))
        deadline = time.monotonic() + 60
        # What is longer than a batch has a file before the client leaves.
        while sent > blobs.BATCH_BYTES and files_of(store) == before:
            assert time.monotonic() < deadline
            kit.call(store, "GET", "/")
    looks = 0  # in a row without its file: the server may not have begun one yet
    while looks < 20 and time.monotonic() < deadline:
        kit.call(store, "GET", "/")
        looks = looks + 1 if files_of(store) == before else 0
    assert looks == 20
    assert kit.call(store, "HEAD", target).status == 404


@pytest.mark.parametrize("target", ["k?versionId=", "k?tagging&versionId="])
def test_an_empty_version_id_is_refused(store: kit.ObjectStore, bucket: str, target: str) -> None:
    answer = kit.call(store, "GET", f"/{bucket}/{target}")
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_two_requests_share_a_connection_after_a_refusal(
    store: kit.ObjectStore, bucket: str
) -> None:
    """A small body that no handler read must not be taken for the next request."""
    connection = http.client.HTTPConnection(store.host, store.port, timeout=60)
    try:
        for _ in range(2):
            connection.request("PUT", f"/{bucket}/k", body=b"GET / HTTP/1.1\r\n\r\n")
            answer = connection.getresponse()
            assert (answer.status, b"AccessDenied" in answer.read()) == (403, True)
    finally:
        connection.close()


def test_tags_are_shown_in_the_order_of_their_keys(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Tagging="foo=bar&bar")
    tags = s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert tags == [{"Key": "bar", "Value": ""}, {"Key": "foo", "Value": "bar"}]


def test_restore_object_says_that_no_object_is_in_an_archive(
    store: kit.ObjectStore, bucket: str
) -> None:
    headers = {"x-amz-storage-class": "GLACIER_IR"}
    assert kit.call(store, "PUT", f"/{bucket}/k", headers, b"body").status == 200

    def restore(target: str, document: str) -> tuple[int, str, str]:
        answer = kit.call(store, "POST", f"/{bucket}/{target}", body=document.encode())
        return answer.status, answer.code, answer.element("StorageClass")

    days = "<RestoreRequest><Days>{}</Days><Tier>Bulk</Tier></RestoreRequest>"
    refused = (403, "InvalidObjectState", "GLACIER_IR")
    assert restore("k?restore", days.format(1)) == refused
    assert restore("k?restore&versionId=null", "<RestoreRequest/>") == refused
    assert restore("absent?restore", days.format(1)) == (404, "NoSuchKey", "")
    malformed = (400, "MalformedXML", "")
    for document in (days.format(0), days.format("x"), days.format("9" * 5000) + "<", "<Other/>"):
        assert restore("k?restore", document) == malformed
    assert restore("k?restore", days.format("9" * 5000)) == refused
    assert kit.call(store, "GET", f"/{bucket}/k").body == b"body"
