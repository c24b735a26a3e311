"""What the face does with a guard's answers: refusals, write-once, tombstones.

The guard here knows one bucket, `guarded`, in which the keys' first segment says what is to happen.
"""

from __future__ import annotations

import base64
import concurrent.futures
import hashlib
from collections.abc import Iterator
from typing import Any, NoReturn

import botocore.exceptions
import pytest

from catalog import layout
from server.s3 import guard
from storage import model
from tests.kit import collisions, folders, guards
from tests.kit import s3 as kit


class FirstSegmentRuling(guard.PlainRuling, frozen=True, kw_only=True):
    key: str

    def check_write(self) -> None:
        if self.key.startswith("refused/"):
            raise guard.LayoutRefused(
                rule="no-anchor",
                segment=self.key[8:],
                position=1,
                message=f"no anchor: {self.key[8:]}",
            )

    def check_body(self, size_bytes: int) -> None:
        if self.key.endswith("/") and size_bytes:
            raise guard.LayoutRefused(
                rule="marker-body", segment="m", position=0, message="must be empty"
            )

    def refuse_overwrite(self) -> NoReturn:
        layout.refuse_write_once(self.key)


class FirstSegmentGuard(guards.PlainGuard):
    """`refused/` takes no write, `once/` no other bytes, `hidden/` hides, `kept/` keeps.

    `seen/` takes bodies that begin with AB and end with YZ, and of up to 99 bytes only ABYZ.
    """

    def ruling(self, bucket: model.BucketInfo, key: str) -> guard.Ruling:
        on_delete: guard.OnDelete = "remove"
        if key.startswith(("hidden/", "kept/")):
            on_delete = "tombstone" if key.startswith("hidden/") else "refuse"
        return FirstSegmentRuling(
            bucket=bucket,
            key=key,
            is_write_once=key.startswith("once/"),
            on_delete=on_delete,
            content_check=seen_check(key) if key.startswith("seen/") else None,
        )


def seen_check(key: str) -> guard.ContentCheck:
    def judge(seen: guard.BodyEnds) -> None:
        assert (seen.whole is not None) == (seen.size_bytes <= 99)
        fits = (seen.head, seen.tail) == (b"AB", b"YZ") and seen.whole in (None, b"ABYZ")
        if not fits:
            raise guard.LayoutRefused(
                rule="content-magic", segment=key[5:], position=1, message="is something else"
            )

    return guard.ContentCheck(edge_bytes=2, whole_bytes_max=99, judge=judge)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    folder = tmp_path_factory.mktemp("guarded") / "data"
    with kit.serve(folder, make_guard=FirstSegmentGuard) as running:
        kit.call(running, "PUT", "/guarded")
        kit.call(running, "PUT", "/guarded/free", body=b"free")
        yield running


@pytest.fixture(scope="module")
def client(place: kit.ObjectStore) -> Any:
    return kit.client(place)


def refused(answer: kit.Answer, rule: str) -> bool:
    return (
        (answer.status, answer.code) == (403, "AccessDenied")
        and answer.headers["x-boathouse-layout-rule"] == rule
        and answer.element("Rule") == rule
    )


def test_put_object_refused_by_layout_names_the_segment_and_stores_nothing(
    place: kit.ObjectStore,
) -> None:
    answer = kit.call(place, "PUT", "/guarded/refused/x%01%3C", body=b"x")
    assert refused(answer, "no-anchor")
    assert answer.element("Segment") == "x\ufffd&lt;"
    assert answer.element("Position") == "1"
    assert answer.element("Message").startswith("no anchor: ")
    assert answer.element("Resource") == "/guarded/refused/x\ufffd&lt;"
    assert answer.element("RequestId") == answer.headers["x-amz-request-id"]
    gone = kit.call(place, "GET", "/guarded/refused/x%01%3C")
    assert (gone.status, gone.code) == (404, "NoSuchKey")


def test_a_refusal_comes_before_the_first_byte_of_the_body(place: kit.ObjectStore) -> None:
    target = "/guarded/refused/x"
    signed = kit.sign(place, "PUT", target, payload_hash="UNSIGNED-PAYLOAD")
    wire = {**signed, "content-length": "1000000", "expect": "100-continue"}
    assert refused(kit.send(place, "PUT", target, wire), "no-anchor")


@pytest.mark.parametrize("part", ["create", "copy"])
def test_every_other_way_to_write_is_refused_too(place: kit.ObjectStore, part: str) -> None:
    if part == "create":
        answer = kit.call(place, "POST", "/guarded/refused/x?uploads")
    else:
        headers = {"x-amz-copy-source": "guarded/free"}
        answer = kit.call(place, "PUT", "/guarded/refused/x", headers)
    assert refused(answer, "no-anchor")


def test_authorisation_and_the_bucket_come_before_the_layout(place: kit.ObjectStore) -> None:
    assert kit.send(place, "PUT", "/guarded/refused/x", body=b"x").code == "AccessDenied"
    unsigned = kit.send(place, "PUT", "/guarded/refused/x", body=b"x")
    assert "x-boathouse-layout-rule" not in unsigned.headers
    assert kit.call(place, "PUT", "/no-such-bucket/refused/x", body=b"x").code == "NoSuchBucket"


def test_the_layout_comes_before_the_preconditions(place: kit.ObjectStore) -> None:
    answer = kit.call(place, "PUT", "/guarded/refused/x", {"if-match": '"none"'}, b"x")
    assert refused(answer, "no-anchor")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_marker_is_judged_by_its_decoded_length(place: kit.ObjectStore, streamed: bool) -> None:
    mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

    def put(body: bytes) -> kit.Answer:
        if streamed:
            return kit.stream(place, "PUT", "/guarded/m/", (body,), mode=mode)
        return kit.call(place, "PUT", "/guarded/m/", body=body)

    assert put(b"").status == 200
    assert refused(put(b"x"), "marker-body")


def test_a_marker_made_of_parts_must_be_empty_too(place: kit.ObjectStore, client: Any) -> None:
    upload = client.create_multipart_upload(Bucket="guarded", Key="made/")["UploadId"]
    call = {"Bucket": "guarded", "Key": "made/", "UploadId": upload}
    etag = client.upload_part(PartNumber=1, Body=b"x", **call)["ETag"]
    with pytest.raises(botocore.exceptions.ClientError, match="must be empty"):
        client.complete_multipart_upload(
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **call
        )
    assert kit.call(place, "HEAD", "/guarded/made/").status == 404


LARGE = b"AB" + bytes(200_000) + b"YZ"
FITTING = (b"ABYZ", b"AB" + bytes(100) + b"YZ", LARGE)
WRONG = (b"", b"A", b"ABYZ.", b"AB.YZ", LARGE[1:], LARGE[:-1])


@pytest.mark.parametrize("body", [*FITTING, *WRONG], ids=len)
def test_a_body_that_is_not_what_its_key_says_is_put_nowhere(
    place: kit.ObjectStore, body: bytes
) -> None:
    target = f"/guarded/seen/{len(body)}"
    before = folders.blob_files(place.storage.path)
    answer = kit.call(place, "PUT", target, body=body)
    kit.call(place, "PUT", "/guarded/source", body=body)
    copied = kit.call(place, "PUT", target + "c", {"x-amz-copy-source": "guarded/source"})
    mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    streamed = kit.stream(place, "PUT", target + "s", (body[:5], body[5:]), mode=mode)
    for key, each in ((target, answer), (target + "c", copied), (target + "s", streamed)):
        read = kit.call(place, "GET", key)
        if body in FITTING:
            assert (each.status, read.body) == (200, body)
        else:
            assert refused(each, "content-magic")
            assert read.status == 404
    if body in WRONG:
        kit.call(place, "DELETE", "/guarded/source")
        left = folders.blob_files(place.storage.path) - before
        assert len(left) <= (len(body) > 1000), "the one that the sweep takes"


def test_a_body_made_of_parts_is_looked_at_before_it_gets_its_name(
    place: kit.ObjectStore, client: Any
) -> None:
    def upload(key: str, *parts: bytes) -> dict[str, Any]:
        started = client.create_multipart_upload(Bucket="guarded", Key=key)["UploadId"]
        call = {"Bucket": "guarded", "Key": key, "UploadId": started}
        named = [
            {
                "PartNumber": number,
                "ETag": client.upload_part(PartNumber=number, Body=part, **call)["ETag"],
            }
            for number, part in enumerate(parts, 1)
        ]
        return {**call, "MultipartUpload": {"Parts": named}}

    large = b"AB" + bytes(5 << 20)
    wrong = upload("seen/parts", large, b"Y.")
    for _ in range(2):
        with pytest.raises(botocore.exceptions.ClientError, match="is something else"):
            client.complete_multipart_upload(**wrong)
    assert kit.call(place, "HEAD", "/guarded/seen/parts").status == 404
    other = {**wrong, "MultipartUpload": {"Parts": [{"PartNumber": 9, "ETag": '"none"'}]}}
    with pytest.raises(botocore.exceptions.ClientError, match="InvalidPart") as unknown:
        client.complete_multipart_upload(**other)
    assert unknown.value.response["Error"]["UploadId"] == wrong["UploadId"]
    right = upload("seen/parts", large, b"YZ")
    completed = client.complete_multipart_upload(**right)
    assert client.complete_multipart_upload(**right)["ETag"] == completed["ETag"]
    assert kit.call(place, "GET", "/guarded/seen/parts").body == large + b"YZ"


def test_preconditions_are_judged_before_a_body_is_looked_at(place: kit.ObjectStore) -> None:
    kit.call(place, "PUT", "/guarded/seen/taken", body=b"ABYZ")
    answer = kit.call(place, "PUT", "/guarded/seen/taken", {"if-none-match": "*"}, b"wrong")
    assert (answer.status, answer.code) == (412, "PreconditionFailed")


def test_a_write_once_key_takes_the_same_bytes_again_and_no_others(place: kit.ObjectStore) -> None:
    target = "/guarded/once/k"
    etag = kit.call(place, "PUT", target, body=b"first").headers["etag"]
    again = kit.call(place, "PUT", target, body=b"first")
    assert (again.status, again.headers["etag"]) == (200, etag)
    other = kit.call(place, "PUT", target, body=b"other")
    assert refused(other, "write-once")
    assert (other.element("Segment"), other.element("Position")) == ("k", "1")
    assert kit.call(place, "GET", target).body == b"first"


def test_write_once_holds_for_copies_and_uploads(place: kit.ObjectStore, client: Any) -> None:
    for key in ("copied", "uploaded"):
        kit.call(place, "PUT", f"/guarded/once/{key}", body=b"first")
    headers = {"x-amz-copy-source": "guarded/free"}
    assert refused(kit.call(place, "PUT", "/guarded/once/copied", headers), "write-once")
    upload = client.create_multipart_upload(Bucket="guarded", Key="once/uploaded")["UploadId"]
    call = {"Bucket": "guarded", "Key": "once/uploaded", "UploadId": upload}
    etag = client.upload_part(PartNumber=1, Body=b"x", **call)["ETag"]
    with pytest.raises(botocore.exceptions.ClientError, match="write-once"):
        client.complete_multipart_upload(
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **call
        )
    for key in ("copied", "uploaded"):
        assert kit.call(place, "GET", f"/guarded/once/{key}").body == b"first"


def test_write_once_lets_one_of_many_writers_win(place: kit.ObjectStore) -> None:
    def write(number: int) -> int:
        return kit.call(place, "PUT", "/guarded/once/race", body=b"%d" % number).status

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(write, range(12)))
    assert sorted(set(statuses)) == [200, 403]
    assert statuses.count(200) == 1
    body = kit.call(place, "GET", "/guarded/once/race").body
    assert body == b"%d" % statuses.index(200)


def test_a_forged_crc_does_not_pass_for_the_same_bytes(place: kit.ObjectStore, client: Any) -> None:
    body = b"AB" + bytes(5 << 20) + b"YZ"
    other = collisions.other_body(body)
    target = "/guarded/once/forged"
    etag = kit.call(place, "PUT", target, body=body).headers["etag"]
    md5 = base64.b64encode(hashlib.md5(other).digest()).decode()
    assert refused(kit.call(place, "PUT", target, {"content-md5": md5}, other), "write-once")
    kit.call(place, "PUT", "/guarded/forged", body=other)
    copied = kit.call(place, "PUT", target, {"x-amz-copy-source": "guarded/forged"})
    assert refused(copied, "write-once")
    call = {"Bucket": "guarded", "Key": "once/forged"}
    call["UploadId"] = client.create_multipart_upload(**call)["UploadId"]
    for part, fits in ((other, False), (body, True)):
        named = {
            "ETag": client.upload_part(PartNumber=1, Body=part, **call)["ETag"],
            "PartNumber": 1,
        }
        if fits:
            client.complete_multipart_upload(MultipartUpload={"Parts": [named]}, **call)
            continue
        with pytest.raises(botocore.exceptions.ClientError, match="write-once"):
            client.complete_multipart_upload(MultipartUpload={"Parts": [named]}, **call)
        assert kit.call(place, "HEAD", target).headers["etag"] == etag
    assert kit.call(place, "GET", target).body == body


def test_preconditions_keep_their_412_on_a_write_once_key(place: kit.ObjectStore) -> None:
    kit.call(place, "PUT", "/guarded/once/p", body=b"first")
    answer = kit.call(place, "PUT", "/guarded/once/p", {"if-none-match": "*"}, b"other")
    assert (answer.status, answer.code) == (412, "PreconditionFailed")


@pytest.mark.parametrize("how", ["single", "many"])
def test_a_hidden_key_vanishes_from_listings_and_is_still_served(
    place: kit.ObjectStore, client: Any, how: str
) -> None:
    key = f"hidden/{how}"
    kit.call(place, "PUT", f"/guarded/{key}", body=b"data")
    if how == "single":
        assert kit.call(place, "DELETE", f"/guarded/{key}").status == 204
    else:
        answer = client.delete_objects(Bucket="guarded", Delete={"Objects": [{"Key": key}]})
        assert [row["Key"] for row in answer["Deleted"]] == [key]
    assert "Contents" not in client.list_objects_v2(Bucket="guarded", Prefix=key)
    assert kit.call(place, "GET", f"/guarded/{key}").body == b"data"
    assert kit.call(place, "HEAD", f"/guarded/{key}").status == 200
    by = {each.key: each.by for each in folders.tombstones(place.storage, "guarded")}
    assert by[key] == "arn:aws:iam::000000000000:root"


def test_hiding_an_absent_key_is_no_fault(place: kit.ObjectStore) -> None:
    assert kit.call(place, "DELETE", "/guarded/hidden/nothing").status == 204


def test_a_conditional_delete_of_a_hidden_key_is_judged(place: kit.ObjectStore) -> None:
    kit.call(place, "PUT", "/guarded/hidden/c", body=b"data")
    wrong = kit.call(place, "DELETE", "/guarded/hidden/c", {"if-match": '"other"'})
    assert (wrong.status, wrong.code) == (412, "PreconditionFailed")
    etag = hashlib.md5(b"data").hexdigest()
    right = kit.call(place, "DELETE", "/guarded/hidden/c", {"if-match": f'"{etag}"'})
    assert right.status == 204


@pytest.mark.parametrize("how", ["single", "many"])
def test_a_bucket_that_refuses_deletes_answers_405(
    place: kit.ObjectStore, client: Any, how: str
) -> None:
    kit.call(place, "PUT", "/guarded/kept/k", body=b"data")
    if how == "single":
        answer = kit.call(place, "DELETE", "/guarded/kept/k")
        assert (answer.status, answer.code) == (405, "MethodNotAllowed")
    else:
        keys = [{"Key": "kept/k"}, {"Key": "hidden/x"}, {"Key": "other"}]
        result = client.delete_objects(Bucket="guarded", Delete={"Objects": keys})
        assert [(row["Key"], row["Code"]) for row in result["Errors"]] == [
            ("kept/k", "MethodNotAllowed")
        ]
        assert [row["Key"] for row in result["Deleted"]] == ["hidden/x", "other"]
    assert kit.call(place, "GET", "/guarded/kept/k").body == b"data"


def test_reads_of_absent_keys_are_never_judged(place: kit.ObjectStore) -> None:
    for method in ("GET", "HEAD"):
        for key in ("refused/x", "hidden/none", "once/none", "..", "a//b"):
            assert kit.call(place, method, f"/guarded/{key}").status == 404
