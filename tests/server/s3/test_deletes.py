"""DeleteObjects over the wire."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.s3 import deletes, guard
from storage import batch, model, objects, opening
from tests.kit import guards
from tests.kit import s3 as kit


def document(*keys: str, quiet: bool = False, extra: str = "") -> bytes:
    rows = "".join(f"<Object><Key>{key}</Key>{extra}</Object>" for key in keys)
    flag = "<Quiet>true</Quiet>" if quiet else ""
    return f"<Delete>{flag}{rows}</Delete>".encode()


def with_md5(body: bytes) -> dict[str, str]:
    return {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}


def test_many_keys_go_at_once_and_absent_ones_count_as_gone(s3: Any, bucket: str) -> None:
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"x")
    keys = [{"Key": f"k{number}"} for number in (0, 1, 2, 99)]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})
    assert [row["Key"] for row in answer["Deleted"]] == ["k0", "k1", "k2", "k99"]
    assert "Errors" not in answer
    left = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [row["Key"] for row in left] == ["k3", "k4"]


def test_quiet_reports_nothing_that_went_well(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    delete = {"Objects": [{"Key": "k"}], "Quiet": True}
    answer = s3.delete_objects(Bucket=bucket, Delete=delete)
    assert "Deleted" not in answer
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("name", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
@pytest.mark.parametrize("is_header", [True, False])
def test_a_condition_of_the_whole_request_is_refused_by_name_and_no_key_goes(
    store: kit.ObjectStore, s3: Any, bucket: str, name: str, is_header: bool
) -> None:
    """Its keys have conditions of their own: one that ignored this could delete a newer object."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    body = document("k")
    headers, query = ({name: "0"}, "") if is_header else ({}, f"&{name}=0")
    headers = {**headers, **with_md5(body)}
    answer = kit.call(store, "POST", f"/{bucket}?delete{query}", headers, body)
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert answer.element("Header") == name
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


@pytest.mark.parametrize("how", ["content-md5", "checksum", "both"])
def test_either_content_md5_or_a_checksum_is_enough(
    store: kit.ObjectStore, bucket: str, how: str
) -> None:
    body = document("k")
    crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    headers = {}
    if how != "checksum":
        headers.update(with_md5(body))
    if how != "content-md5":
        headers["x-amz-checksum-crc32"] = crc
    answer = kit.call(store, "POST", f"/{bucket}?delete", headers, body)
    assert answer.status == 200
    assert b"<Deleted><Key>k</Key></Deleted>" in answer.body


def test_neither_is_refused_and_deletes_nothing(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = kit.call(store, "POST", f"/{bucket}?delete", body=document("k"))
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    wrong = with_md5(b"something else")
    answer = kit.call(store, "POST", f"/{bucket}?delete", wrong, document("k"))
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete/>",
        b"<Delete><Object/></Delete>",
        b"<Other><Object><Key>k</Key></Object></Other>",
        b"<Delete><Object><Key></Key></Object></Delete>",
        b"not xml",
        b'<!DOCTYPE x [<!ENTITY e "k">]><Delete><Object><Key>&e;</Key></Object></Delete>',
        b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>",
        b"<Delete>" + b"<Object><Key>k</Key></Object>" * 100_000 + b"</Delete>",
        b"<a>" * 100 + b"</a>" * 100,
    ],
)
def test_a_body_that_is_not_the_document_is_malformed(
    store: kit.ObjectStore, bucket: str, body: bytes
) -> None:
    answer = kit.call(store, "POST", f"/{bucket}?delete", with_md5(body), body)
    assert (answer.status, answer.code) == (400, "MalformedXML")


def test_a_body_that_is_too_long_is_refused(store: kit.ObjectStore, bucket: str) -> None:
    body = b"<Delete>" + b" " * (5 << 20) + b"</Delete>"
    answer = kit.call(store, "POST", f"/{bucket}?delete", with_md5(body), body)
    assert (answer.status, answer.code) == (400, "MaxMessageLengthExceeded")


def test_each_key_has_an_answer_of_its_own(s3: Any, store: kit.ObjectStore, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="same", Body=b"x")
    s3.put_object(Bucket=bucket, Key="changed", Body=b"x")
    etag = hashlib.md5(b"x").hexdigest()
    body = (
        f"<Delete><Object><Key>same</Key><ETag>{etag}</ETag></Object>"
        "<Object><Key>changed</Key><ETag>0123</ETag></Object>"
        "<Object><Key>versioned</Key><VersionId>abc</VersionId></Object></Delete>"
    ).encode()
    answer = kit.call(store, "POST", f"/{bucket}?delete", with_md5(body), body)
    assert b"<Deleted><Key>same</Key></Deleted>" in answer.body
    assert b"<Error><Key>changed</Key><Code>PreconditionFailed</Code>" in answer.body
    assert b"<Key>versioned</Key><VersionId>abc</VersionId><Code>NoSuchVersion</Code>" in (
        answer.body
    )
    assert kit.call(store, "HEAD", f"/{bucket}/same").status == 404
    assert kit.call(store, "HEAD", f"/{bucket}/changed").status == 200


def test_an_element_that_asks_for_more_is_refused_by_name(
    store: kit.ObjectStore, bucket: str
) -> None:
    body = document("k", extra="<Size>3</Size>")
    answer = kit.call(store, "POST", f"/{bucket}?delete", with_md5(body), body)
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert answer.element("Element") == "Size"


def test_a_thousand_keys_go_in_one_request(s3: Any, bucket: str) -> None:
    for number in range(20):
        s3.put_object(Bucket=bucket, Key=f"k{number:04d}", Body=b"")
    keys = [{"Key": f"k{number:04d}"} for number in range(1000)]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})
    assert len(answer["Deleted"]) == 1000
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


PARTS = {"a": 2, "b": 2, "c": 1, "d": 6, "e": 3, "f": 1, "g": 1}


@pytest.mark.parametrize("is_conditional", [False, True])
@pytest.mark.parametrize("versioning", [None, "Enabled"])
def test_keys_that_are_removed_at_once_have_a_bounded_number_of_segments(
    store: kit.ObjectStore,
    s3: Any,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    versioning: str | None,
    is_conditional: bool,
) -> None:
    """Each segment costs the writer a count: 32 objects of 1,000 parts held it for seconds."""
    monkeypatch.setattr(deletes, "SEGMENTS_AT_ONCE", 4)
    monkeypatch.setattr(store.storage.uploads, "_part_bytes_min", 1)
    if versioning is not None:
        configuration = {"Status": versioning}
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=configuration)
    targets = []
    for key, count in PARTS.items():
        upload = {"Bucket": bucket, "Key": key}
        upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
        parts = [
            {"PartNumber": n, "ETag": s3.upload_part(**upload, PartNumber=n, Body=key * n)["ETag"]}
            for n in range(1, count + 1)
        ]
        done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        target = {"Key": key}
        if versioning is not None:
            target["VersionId"] = done["VersionId"]
        if is_conditional:
            target["ETag"] = done["ETag"]
        targets.append(target)
    open_keys: list[str] = []
    most: list[int] = []
    delete_many = objects.Objects.delete_many

    async def note(self: Any, of: Any, wanted: Any, **options: Any) -> Any:
        some = [each.key for each in wanted]
        open_keys.extend(some)
        most.append(sum(PARTS[key] for key in open_keys))
        outcome = await delete_many(self, of, wanted, **options)
        for key in some:
            open_keys.remove(key)
        return outcome

    monkeypatch.setattr(objects.Objects, "delete_many", note)
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": targets})
    assert [row["Key"] for row in answer["Deleted"]] == list(PARTS)
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
    assert max(most) == 6, "d alone; the others are four at most"
    assert [each for each in most if each > 4] == [6]


class TurnsGuard(guards.PlainGuard):
    """Hides what begins with `hidden/`; counts in which turn of the loop it was asked how often."""

    def __init__(self, storage: opening.Storage) -> None:
        super().__init__(storage)
        self.turn = 0
        self.asked_in: Counter[int] = Counter()

    def ruling(self, bucket: model.BucketInfo, key: str) -> guard.Ruling:
        self.asked_in[self.turn] += 1
        on_delete: guard.OnDelete = "tombstone" if key.startswith("hidden/") else "remove"
        return guard.PlainRuling(bucket=bucket, on_delete=on_delete)

    @contextlib.asynccontextmanager
    async def counting_turns(self) -> AsyncIterator[None]:
        async def count() -> None:
            while True:
                self.turn += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(count())
        try:
            yield
        finally:
            task.cancel()


@pytest.mark.parametrize("folder", ["plain/", "hidden/"])
def test_a_thousand_keys_leave_others_their_turn(tmp_path: Path, folder: str) -> None:
    body = document(*(f"{folder}{number}" for number in range(1000)))
    turns: list[TurnsGuard] = []

    def make_guard(storage: opening.Storage) -> TurnsGuard:
        turns.append(TurnsGuard(storage))
        return turns[0]

    with kit.serve(tmp_path / "data", make_guard=make_guard) as place:
        (answers,) = turns
        kit.client(place).create_bucket(Bucket="raw")

        async def ask() -> kit.Answer:
            async with answers.counting_turns():
                return await asyncio.to_thread(
                    kit.call, place, "POST", "/raw?delete", with_md5(body), body
                )

        answer = place.run(ask())
    assert (answer.status, answer.body.count(b"<Deleted>")) == (200, 1000)
    assert answers.asked_in.total() >= 1000
    assert max(answers.asked_in.values()) <= 2 * deletes.KEYS_AT_ONCE


class RowRuling(guard.PlainRuling, frozen=True, kw_only=True):
    """Depends on one row of the index."""

    row: batch.Expect

    @property
    def expects(self) -> tuple[batch.Expect, ...]:
        return (self.row,)


class RegisteringGuard(guards.PlainGuard):
    """Hides what begins with `t/` once a row says so, as a registered table would.

    The row is written when every key was asked about once, before anything is deleted.
    """

    ROW = (batch.Store.META, b"registered")

    def __init__(self, storage: opening.Storage, *, registered_after: int) -> None:
        super().__init__(storage)
        self.left = registered_after

    def ruling(self, bucket: model.BucketInfo, key: str) -> guard.Ruling:
        database, row = self.ROW
        value = self.storage.index.get(database, row)
        self.left -= key != ""
        if self.left == 0:
            put = batch.Put(store=database, key=row, value=b"1")
            self.storage.index.commit_now(batch.Batch(writes=(put,)))
        is_hidden = value is not None and key.startswith("t/")
        return RowRuling(
            bucket=bucket,
            on_delete="tombstone" if is_hidden else "remove",
            row=batch.Expect(store=database, key=row, value=value),
        )


def test_files_of_a_table_registered_in_the_middle_are_only_hidden(tmp_path: Path) -> None:
    named = [f"{folder}/{number}" for number in range(50) for folder in ("t", "other")]
    kept = ("t/0", "t/49", "other/0", "other/49")

    def make_guard(storage: opening.Storage) -> RegisteringGuard:
        return RegisteringGuard(storage, registered_after=len(kept) + len(named))

    with kit.serve(tmp_path / "data", make_guard=make_guard) as place:
        client = kit.client(place)
        client.create_bucket(Bucket="raw")
        for key in kept:
            client.put_object(Bucket="raw", Key=key, Body=b"x")
        answer = kit.call(
            place, "POST", "/raw?delete", with_md5(document(*named)), document(*named)
        )
        assert (answer.status, answer.body.count(b"<Deleted>")) == (200, 100)
        assert "Contents" not in client.list_objects_v2(Bucket="raw")
        for number in ("0", "49"):
            assert kit.call(place, "GET", f"/raw/t/{number}").body == b"x"
            assert kit.call(place, "GET", f"/raw/other/{number}").status == 404
