"""One transcript per operation and per refusal: the request, the answer, byte for byte.

They lie in tests/golden/s3. UPDATE_GOLDEN=1 rewrites them; people read the difference.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import s3 as kit

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "s3"
PREFLIGHT = {"origin": "http://elsewhere", "access-control-request-method": "GET"}
CRC32 = base64.b64encode(zlib.crc32(b"hello").to_bytes(4, "big")).decode()
ETAG = f'"{hashlib.md5(b"hello").hexdigest()}"'
EMPTY_MD5 = "1B2M2Y8AsgTpgAmY7PhCfg=="
PAST = "Sat, 01 Jan 2000 00:00:00 GMT"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One request. signed False: without credentials."""

    name: str
    request: str
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    signed: bool = True


def case(
    name: str,
    request: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    signed: bool = True,
) -> Case:
    return Case(name=name, request=request, headers=headers or {}, body=body, signed=signed)


def deletes(*keys: str) -> tuple[dict[str, str], bytes]:
    rows = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    body = f"<Delete>{rows}</Delete>".encode()
    return {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}, body


def versioning(status: str) -> bytes:
    root = "VersioningConfiguration"
    return f"<{root}><Status>{status}</Status></{root}>".encode()


TAGGING = b"<Tagging><TagSet><Tag><Key>a</Key><Value>1 + 2</Value></Tag></TagSet></Tagging>"
TOO_MANY_TAGS = (
    b"<Tagging><TagSet>"
    + b"".join(b"<Tag><Key>%d</Key><Value/></Tag>" % n for n in range(11))
    + b"</TagSet></Tagging>"
)
COMPLETE = (
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
    f"<ETag>{ETAG}</ETag></Part></CompleteMultipartUpload>"
).encode()

# In this order, against one server: a story that leaves what a new server has.
STORY = (
    case("list-buckets-of-a-new-server", "GET /"),
    case("create-bucket", "PUT /golden"),
    case("create-bucket-again", "PUT /golden"),
    case("create-bucket-bad-name", "PUT /Bad_Name"),
    case("create-bucket-reserved-name", "PUT /iceberg"),
    case("list-buckets", "GET /"),
    case("head-bucket", "HEAD /golden"),
    case("head-bucket-absent", "HEAD /absent-bucket"),
    case("get-bucket-location", "GET /golden?location"),
    case("get-bucket-versioning", "GET /golden?versioning"),
    case("get-bucket-policy-absent", "GET /golden?policy"),
    case("put-bucket-policy-malformed", "PUT /golden?policy", body=b"{}"),
    case("post-object-without-a-form", "POST /golden"),
    case("preflight", "OPTIONS /golden/k", PREFLIGHT, signed=False),
    case(
        "put-object",
        "PUT /golden/dir/a%20key",
        {
            "content-type": "text/plain",
            "x-amz-meta-colour": "blue",
            "x-amz-checksum-crc32": CRC32,
            "x-amz-tagging": "t=1",
        },
        b"hello",
    ),
    case("put-object-bad-digest", "PUT /golden/bad", {"x-amz-checksum-crc32": CRC32}, b"other"),
    case("put-object-bad-md5", "PUT /golden/bad", {"content-md5": "AAAA"}, b"hello"),
    case(
        "put-object-two-checksums",
        "PUT /golden/bad",
        {"x-amz-checksum-crc32": CRC32, "x-amz-checksum-crc32c": CRC32},
        b"hello",
    ),
    case(
        "put-object-if-none-match",
        "PUT /golden/dir/a%20key",
        {"if-none-match": "*"},
        b"hello",
    ),
    case("put-object-acl-unknown", "PUT /golden/bad", {"x-amz-acl": "open"}, b"x"),
    case("put-object-storage-class", "PUT /golden/bad", {"x-amz-storage-class": "GOLD"}, b"x"),
    case(
        "put-object-metadata-too-large", "PUT /golden/bad", {"x-amz-meta-m": "v" * 3000}, b"x"
    ),
    case("put-object-key-too-long", f"PUT /golden/{'k' * 1025}", body=b"x"),
    case("put-object-no-bucket", "PUT /absent-bucket/k", body=b"x"),
    case("get-object", "GET /golden/dir/a%20key", {"x-amz-checksum-mode": "ENABLED"}),
    case("get-object-range", "GET /golden/dir/a%20key", {"range": "bytes=1-3"}),
    case("get-object-range-beyond", "GET /golden/dir/a%20key", {"range": "bytes=9-"}),
    case("get-object-not-modified", "GET /golden/dir/a%20key", {"if-none-match": ETAG}),
    case("get-object-if-match-fails", "GET /golden/dir/a%20key", {"if-match": '"x"'}),
    case(
        "get-object-overrides", "GET /golden/dir/a%20key?response-content-type=x%2Fy"
    ),
    case("get-object-absent", "GET /golden/absent"),
    case("get-object-no-version", f"GET /golden/dir/a%20key?versionId={'0' * 32}"),
    case("get-object-bad-version", "GET /golden/dir/a%20key?versionId=v1"),
    case("get-object-part-beyond", "GET /golden/dir/a%20key?partNumber=2"),
    case("get-object-anonymous", "GET /golden/dir/a%20key", signed=False),
    case("get-object-acl", "GET /golden/dir/a%20key?acl"),
    case("get-bucket-acl", "GET /golden?acl"),
    case("get-object-torrent", "GET /golden/dir/a%20key?torrent"),
    case("head-object", "HEAD /golden/dir/a%20key"),
    case("head-object-absent", "HEAD /golden/absent"),
    case("get-object-tagging", "GET /golden/dir/a%20key?tagging"),
    case("put-object-tagging", "PUT /golden/dir/a%20key?tagging", body=TAGGING),
    case("put-object-tagging-too-many", "PUT /golden/dir/a%20key?tagging", body=TOO_MANY_TAGS),
    case("put-object-tagging-malformed", "PUT /golden/dir/a%20key?tagging", body=b"<x"),
    case("get-object-tagging-after", "GET /golden/dir/a%20key?tagging"),
    case("delete-object-tagging", "DELETE /golden/dir/a%20key?tagging"),
    case("copy-object", "PUT /golden/copy", {"x-amz-copy-source": "/golden/dir/a%20key"}),
    case("copy-object-no-source", "PUT /golden/copy", {"x-amz-copy-source": "golden/absent"}),
    case("copy-object-bad-source", "PUT /golden/copy", {"x-amz-copy-source": "golden"}),
    case("copy-object-onto-itself", "PUT /golden/copy", {"x-amz-copy-source": "golden/copy"}),
    case(
        "copy-object-source-changed",
        "PUT /golden/copy2",
        {
            "x-amz-copy-source": "golden/copy",
            "x-amz-copy-source-if-unmodified-since": PAST,
        },
    ),
    case("list-objects", "GET /golden?delimiter=%2F"),
    case("list-objects-page", "GET /golden?delimiter=%2F&max-keys=1"),
    case("list-objects-bad-max-keys", "GET /golden?max-keys=lots"),
    case("list-objects-v2", "GET /golden?list-type=2&prefix=dir%2F&fetch-owner=true"),
    case("list-objects-v2-page", "GET /golden?list-type=2&max-keys=1&encoding-type=url"),
    case("list-objects-v2-bad-token", "GET /golden?list-type=2&continuation-token=x"),
    case("list-objects-no-bucket", "GET /absent-bucket"),
    case("create-multipart-upload", "POST /golden/parts?uploads"),
    case(
        "create-multipart-upload-bad-type",
        "POST /golden/parts?uploads",
        {"x-amz-checksum-algorithm": "SHA1", "x-amz-checksum-type": "FULL_OBJECT"},
    ),
    case("list-multipart-uploads", "GET /golden?uploads"),
    case("upload-part", "PUT /golden/parts?partNumber=1&uploadId=UPLOAD", body=b"hello"),
    case("upload-part-bad-number", "PUT /golden/parts?partNumber=0&uploadId=UPLOAD", body=b"x"),
    case("upload-part-no-upload", "PUT /golden/parts?partNumber=1&uploadId=none", body=b"x"),
    case(
        "upload-part-copy",
        "PUT /golden/parts?partNumber=2&uploadId=UPLOAD",
        {"x-amz-copy-source": "golden/copy", "x-amz-copy-source-range": "bytes=1-2"},
    ),
    case(
        "upload-part-copy-bad-range",
        "PUT /golden/parts?partNumber=2&uploadId=UPLOAD",
        {"x-amz-copy-source": "golden/copy", "x-amz-copy-source-range": "bytes=0-99"},
    ),
    case("list-parts", "GET /golden/parts?uploadId=UPLOAD"),
    case(
        "complete-multipart-upload-bad-part",
        "POST /golden/parts?uploadId=UPLOAD",
        body=COMPLETE.replace(b">1<", b">7<"),
    ),
    case(
        "complete-multipart-upload-malformed",
        "POST /golden/parts?uploadId=UPLOAD",
        body=b"<CompleteMultipartUpload/>",
    ),
    case("complete-multipart-upload", "POST /golden/parts?uploadId=UPLOAD", body=COMPLETE),
    case("abort-multipart-upload-gone", "DELETE /golden/parts?uploadId=UPLOAD"),
    case("delete-bucket-not-empty", "DELETE /golden"),
    case("delete-object", "DELETE /golden/copy"),
    case("delete-object-absent", "DELETE /golden/copy"),
    case("delete-objects-no-digest", "POST /golden?delete", body=deletes("k")[1]),
    case("delete-objects-malformed", "POST /golden?delete", {"content-md5": EMPTY_MD5}),
    case("delete-objects", "POST /golden?delete", *deletes("dir/a key", "parts", "absent")),
    case("method-not-allowed", "PATCH /golden/k"),
    case("no-operation-on-service", "POST /"),
    case("get-bucket-versioning", "GET /golden?versioning"),
    case("put-bucket-versioning-malformed", "PUT /golden?versioning", body=b"<x/>"),
    case("put-bucket-versioning", "PUT /golden?versioning", body=versioning("Suspended")),
    case("get-bucket-versioning-suspended", "GET /golden?versioning"),
    case("put-object-null-version", "PUT /golden/k", body=b"hello"),
    case("list-object-versions", "GET /golden?versions&encoding-type=url"),
    case("list-object-versions-bad-marker", "GET /golden?versions&key-marker=k&version-id-marker="),
    case("delete-object-with-marker", "DELETE /golden/k"),
    case("get-object-deleted", "GET /golden/k"),
    case("get-object-delete-marker", "GET /golden/k?versionId=null"),
    case("list-object-versions-marker", "GET /golden?versions"),
    case("delete-bucket-with-marker", "DELETE /golden"),
    case("delete-object-version", "DELETE /golden/k?versionId=null"),
    case("delete-bucket", "DELETE /golden"),
    case("delete-bucket-absent", "DELETE /golden"),
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    folder = tmp_path_factory.mktemp("golden") / "data"
    with kit.serve(folder) as running:
        yield running


@pytest.fixture(scope="module")
def story(place: kit.ObjectStore) -> dict[str, str]:
    """Every case played once, in order; its transcript by name."""
    transcripts: dict[str, str] = {}
    upload = "UPLOAD"
    for each in STORY:
        method, _, target = each.request.partition(" ")
        wire_target = target.replace("UPLOAD", upload)
        if each.signed:
            answer = kit.call(place, method, wire_target, each.headers, each.body)
        else:
            answer = kit.send(place, method, wire_target, each.headers, each.body)
        if each.name == "create-multipart-upload":
            upload = answer.element("UploadId")
        transcripts[each.name] = transcript(each, answer).replace(upload, "UPLOAD")
    return transcripts


@pytest.mark.parametrize("name", [each.name for each in STORY])
def test_an_answer_is_word_for_word_what_it_was(story: dict[str, str], name: str) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(story[name])
    assert path.exists(), f"no transcript of {name}; UPDATE_GOLDEN=1 writes it"
    assert story[name] == path.read_text()


def test_no_transcript_is_left_of_a_case_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {each.name for each in STORY}


def transcript(each: Case, answer: kit.Answer) -> str:
    request = [each.request, *(f"{name}: {value}" for name, value in each.headers.items())]
    if not each.signed:
        request.append("(unsigned)")
    shown = ["HTTP/1.1 " + str(answer.status)]
    shown += sorted(
        f"{name}: {value}" for name, value in answer.headers.items() if name != "x-amz-id-2"
    )
    body = answer.body.decode().replace("><", ">\n<")
    text = "\n".join([*request, "", each.body.decode(), "", "-" * 8, "", *shown, "", body, ""])
    return plain(text)


def plain(text: str) -> str:
    """Return a transcript without what differs from run to run."""
    text = re.sub(r"\b[0-9a-f]{32}\b(?=<|$)", "ID", text, flags=re.MULTILINE)
    text = re.sub(r"<HostId>[A-Za-z0-9+/]{64}</HostId>", "<HostId>ID</HostId>", text)
    text = re.sub(r"(?m)^(date|last-modified): .*", r"\1: DATE", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
