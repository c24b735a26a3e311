"""A ruling holds where the write happens: what a table created meanwhile does to a request.

The guard of these tests creates the table right after it has ruled on a key, so that every request
is decided in one state of the index and carried out in another.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from catalog import guard as table_guard
from catalog import idents, namespaces, records, store, tables
from server import config
from server.s3 import engines, guard
from storage import batch, index, opening
from tests.kit import lakes
from tests.kit import s3 as kit

Work = Callable[[], Coroutine[Any, Any, object]]
FILE = "x/t/data/f.parquet"
INSIDE = "x/t/z/data/f.parquet"
"""Fits the layout until a table is at x/t."""


class MeanwhileGuard(table_guard.TableGuard):
    """Does what `pending` says of a key once, after it has ruled on the key."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        super().__init__(store=store, region=kit.REGION, account_id=kit.ACCOUNT)
        self.pending: dict[str, Work] = {}

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> guard.Ruling:
        ruling = super().at(bucket, key, reading)
        work = self.pending.pop(key, None)
        if work is not None:
            # The loop of the server waits here: nothing else of the request can come in between.
            thread = threading.Thread(target=lambda: asyncio.run(work()))  # type: ignore[arg-type] - a coroutine
            thread.start()
            thread.join()
        return ruling


@dataclass(frozen=True, kw_only=True)
class Lake:
    """A running server with the table bucket `lake`, the general bucket `raw` and a namespace x."""

    place: kit.ObjectStore
    guard: MeanwhileGuard
    store: store.CatalogStore
    tables: tables.Tables
    s3: Any

    def meanwhile(self, key: str, work: Work) -> None:
        self.guard.pending[key] = work

    async def create_table(self) -> None:
        ident = idents.TableIdent(table_bucket="lake", namespace=("x",), name="t")
        # Asked for by name, since files may lie there already.
        await self.tables.create(
            ident,
            schema=lakes.SCHEMA,
            location="s3://lake/x/t",
            by=lakes.BY,
            permit=lakes.permit_all,
        )

    def table_meanwhile(self, key: str) -> None:
        self.meanwhile(key, self.create_table)

    def put(self, key: str, body: bytes = b"before") -> None:
        self.s3.put_object(Bucket="lake", Key=key, Body=body)

    def shown(self, prefix: str) -> list[str]:
        page = self.s3.list_objects_v2(Bucket="lake", Prefix=prefix)
        return [row["Key"] for row in page.get("Contents", [])]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    stores: list[store.CatalogStore] = []

    def make_store(storage: opening.Storage) -> store.CatalogStore:
        return store.CatalogStore(
            index=storage.index,
            buckets=storage.buckets,
            objects=storage.objects,
            blobs=storage.blobs,
            now_ms=lakes.Clock(),
            new_id=lakes.ids(10 * len(stores) + 1),
        )

    guards: list[MeanwhileGuard] = []

    def make_guard(storage: opening.Storage) -> MeanwhileGuard:
        stores.append(make_store(storage))
        guards.append(MeanwhileGuard(store=stores[0]))
        return guards[0]

    with kit.serve(tmp_path / "data", make_guard=make_guard, users=USERS) as place:
        storage = place.storage
        place.run(
            storage.buckets.create(
                "raw", bucket_type="general", owner=kit.ACCOUNT, region=kit.REGION
            )
        )
        other = make_store(storage)
        place.run(namespaces.Namespaces(store=other).create("lake", ("x",), by=lakes.BY))
        yield Lake(
            place=place,
            guard=guards[0],
            store=other,
            tables=tables.Tables(store=other),
            s3=kit.client(place),
        )


ALLOWED_OUTSIDE_X = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {
            "Effect": "Deny",
            "Action": "*",
            "Resource": "*",
            "Condition": {"StringEquals": {"s3tables:namespace": "x"}},
        },
    ],
}
USERS = (
    config.User(
        name="bob",
        access_key="BOBSKEYBOBSKEYBOBSKE",
        secret_key="bobs-secret-bobs-secret",
        policies=(ALLOWED_OUTSIDE_X,),
    ),
)
BOB = {"access_key": USERS[0].access_key, "secret_key": USERS[0].secret_key}


def refused(answer: kit.Answer, rule: str) -> bool:
    return (answer.status, answer.headers.get("x-boathouse-layout-rule")) == (403, rule)


def rows(storage: opening.Storage, *stores: batch.Store) -> int:
    with storage.index.view() as view:
        return sum(len(list(view.scan(each, b""))) for each in stores)


@pytest.mark.parametrize("size_bytes", [10, 100_000])
def test_put_object_is_refused_by_the_layout_of_a_table_created_meanwhile(
    lake: Lake, size_bytes: int
) -> None:
    lake.table_meanwhile(INSIDE)
    answer = kit.call(lake.place, "PUT", f"/lake/{INSIDE}", body=b"b" * size_bytes)
    assert refused(answer, "no-anchor")
    assert kit.call(lake.place, "GET", f"/lake/{INSIDE}").status == 404
    assert list((lake.place.storage.path / "blobs").glob("*/*")) == []


def test_put_object_over_a_file_of_a_table_created_meanwhile_is_refused(lake: Lake) -> None:
    lake.put(FILE)
    lake.table_meanwhile(FILE)
    answer = kit.call(lake.place, "PUT", f"/lake/{FILE}", body=b"after!")
    assert refused(answer, "write-once")
    assert kit.call(lake.place, "GET", f"/lake/{FILE}").body == b"before"


def test_copy_object_is_refused_by_the_layout_of_a_table_created_meanwhile(lake: Lake) -> None:
    lake.s3.put_object(Bucket="raw", Key="k", Body=b"b")
    lake.table_meanwhile(INSIDE)
    headers = {"x-amz-copy-source": "raw/k"}
    assert refused(kit.call(lake.place, "PUT", f"/lake/{INSIDE}", headers), "no-anchor")
    lake.put(FILE)
    assert refused(kit.call(lake.place, "PUT", f"/lake/{FILE}", headers), "write-once")
    assert lake.shown("x/t/z") == []


def test_create_multipart_upload_is_refused_by_a_table_created_meanwhile(lake: Lake) -> None:
    lake.table_meanwhile(INSIDE)
    answer = kit.call(lake.place, "POST", f"/lake/{INSIDE}?uploads")
    assert refused(answer, "no-anchor")
    assert "Uploads" not in lake.s3.list_multipart_uploads(Bucket="lake")


@pytest.mark.parametrize("key", [INSIDE, FILE])
@pytest.mark.parametrize("when", ["before complete", "in complete"])
def test_complete_multipart_upload_is_judged_by_a_table_created_meanwhile(
    lake: Lake, key: str, when: str
) -> None:
    if key == FILE:
        lake.put(FILE)
    call = {"Bucket": "lake", "Key": key}
    call["UploadId"] = lake.s3.create_multipart_upload(**call)["UploadId"]
    etag = lake.s3.upload_part(PartNumber=1, Body=b"after!", **call)["ETag"]
    if when == "in complete":
        lake.table_meanwhile(key)
    else:
        lake.place.run(lake.create_table())
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        lake.s3.complete_multipart_upload(MultipartUpload=parts, **call)
    rule = "no-anchor" if key == INSIDE else "write-once"
    assert caught.value.response["Error"]["Rule"] == rule
    read = kit.call(lake.place, "GET", f"/lake/{key}")
    assert (read.status, read.body) == (200, b"before") if key == FILE else read.status == 404
    # The upload is still there, and can be ended.
    lake.s3.abort_multipart_upload(**call)
    assert rows(lake.place.storage, batch.Store.UPLOADS, batch.Store.PARTS) == 0


@pytest.mark.parametrize("how", ["single", "conditional", "many"])
def test_a_delete_hides_a_file_of_a_table_created_meanwhile(lake: Lake, how: str) -> None:
    lake.put(FILE)
    lake.table_meanwhile(FILE)
    if how == "many":
        named = [{"Key": FILE}, {"Key": "other/t/data/f.parquet"}]
        answer = lake.s3.delete_objects(Bucket="lake", Delete={"Objects": named})
        assert [row["Key"] for row in answer["Deleted"]] == [row["Key"] for row in named]
    else:
        etag = hashlib.md5(b"before").hexdigest()
        headers = {"if-match": f'"{etag}"'} if how == "conditional" else {}
        assert kit.call(lake.place, "DELETE", f"/lake/{FILE}", headers).status == 204
    assert lake.shown(FILE) == []
    assert kit.call(lake.place, "GET", f"/lake/{FILE}").body == b"before"


@pytest.mark.parametrize("how", ["put", "copy", "upload", "delete", "delete many", "tags"])
def test_rights_are_those_on_the_table_created_meanwhile(lake: Lake, how: str) -> None:
    if how != "upload":
        lake.put(FILE)
    bob = kit.client(lake.place, **BOB)
    lake.s3.put_object(Bucket="raw", Key="k", Body=b"after!")
    lake.table_meanwhile(FILE)
    target: dict[str, Any] = {"Bucket": "lake", "Key": FILE}
    tagging = {"TagSet": [{"Key": "a", "Value": "1"}]}
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: bob.put_object(Body=b"after!", **target),
        "copy": lambda: bob.copy_object(CopySource="raw/k", **target),
        "upload": lambda: bob.create_multipart_upload(**target),
        "delete": lambda: bob.delete_object(**target),
        "tags": lambda: bob.put_object_tagging(Tagging=tagging, **target),
    }
    if how == "delete many":
        answer = bob.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": FILE}]})
        assert [row["Code"] for row in answer["Errors"]] == ["AccessDenied"]
    else:
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            calls[how]()
        assert caught.value.response["Error"]["Code"] == "AccessDenied"
        assert "Rule" not in caught.value.response["Error"]
    if how != "upload":
        assert lake.shown(FILE) == [FILE]
        assert kit.call(lake.place, "GET", f"/lake/{FILE}").body == b"before"
        assert lake.s3.get_object_tagging(**target)["TagSet"] == []


def test_a_body_is_looked_at_again_in_a_bucket_made_strict_meanwhile(lake: Lake) -> None:
    async def make_strict() -> None:
        await lake.place.storage.buckets.update("lake", {table_guard.LAYOUT: "strict"})

    lake.meanwhile(FILE, make_strict)
    answer = kit.call(lake.place, "PUT", f"/lake/{FILE}", body=b"no parquet")
    assert refused(answer, "content-magic")
    assert kit.call(lake.place, "GET", f"/lake/{FILE}").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_key_whose_rows_never_stop_changing_is_given_up_as_a_conflict(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    lake.put(FILE)
    at = lake.guard.at
    changes = 0

    def changing(bucket: str, key: str, reading: object = None) -> guard.Ruling:
        async def change() -> None:
            nonlocal changes
            changes += 1
            await lake.place.storage.buckets.update("lake", {"changes": changes})

        lake.meanwhile(key, change)
        return at(bucket, key)

    monkeypatch.setattr(lake.guard, "at", changing)
    body = b"b" * 100_000 if method == "PUT" else b""
    answer = kit.call(lake.place, method, f"/lake/{FILE}", body=body)
    assert (answer.status, answer.code) == (409, "OperationAborted")
    assert changes == engines.ATTEMPTS_MAX
    monkeypatch.undo()
    assert kit.call(lake.place, "GET", f"/lake/{FILE}").body == b"before"
    assert list((lake.place.storage.path / "blobs").glob("*/*")) == []


def test_a_bucket_deleted_meanwhile_takes_nothing(lake: Lake) -> None:
    async def delete_bucket() -> None:
        await lake.place.storage.buckets.delete("raw")

    for method in ("PUT", "POST"):
        lake.meanwhile("k", delete_bucket)
        query = "" if method == "PUT" else "?uploads"
        answer = kit.call(lake.place, method, f"/raw/k{query}", body=b"x" if not query else b"")
        assert (answer.status, answer.code) == (404, "NoSuchBucket")
        assert rows(lake.place.storage, batch.Store.OBJECTS, batch.Store.UPLOADS) == 0
        lake.s3.create_bucket(Bucket="raw")


def test_a_table_created_elsewhere_makes_no_request_try_again(lake: Lake) -> None:
    async def create_another() -> None:
        ident = idents.TableIdent(table_bucket="lake", namespace=("x",), name="other")
        await lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY)

    lake.place.run(lake.create_table())
    looked_up: list[str] = []
    at = lake.guard.at

    def counting(bucket: str, key: str, reading: object = None) -> guard.Ruling:
        looked_up.append(key)
        return at(bucket, key)

    lake.guard.at = counting  # type: ignore[method-assign] - counts calls
    lake.meanwhile(FILE, create_another)
    assert kit.call(lake.place, "PUT", f"/lake/{FILE}", body=b"x").status == 200
    assert looked_up == [FILE]


@pytest.mark.parametrize(
    ("bucket", "key", "put", "get", "delete"),
    [("raw", "k", 2, 1, 2), ("lake", FILE, 2, 1, 2)],
)
def test_a_request_looks_its_bucket_up_as_often_as_it_must(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    bucket: str,
    key: str,
    put: int,
    get: int,
    delete: int,
) -> None:
    """Once to rule on the key, unless it is in memory since the last change of a bucket; in the
    transaction once by the object, once by the ruling's rows."""
    lake.place.run(lake.create_table())
    seen: list[bytes] = []

    def count(reader: type[index.ReadView] | type[index.Index]) -> None:
        read = reader.get

        def get(self: Any, store: batch.Store, row: bytes) -> bytes | None:
            if store is batch.Store.BUCKETS:
                seen.append(row)
            return read(self, store, row)

        monkeypatch.setattr(reader, "get", get)

    count(index.ReadView)
    count(index.Index)

    def looks(method: str, body: bytes = b"") -> int:
        seen.clear()
        assert kit.call(lake.place, method, f"/{bucket}/{key}", body=body).status < 300
        return len(seen)

    assert (looks("PUT", b"x"), looks("GET"), looks("DELETE")) == (put, get, delete)


def test_a_ruling_names_the_rows_it_was_made_of(lake: Lake) -> None:
    lake.place.run(lake.create_table())
    ruling = lake.guard.at("lake", FILE)
    with lake.place.storage.index.view() as view:
        assert all(view.get(each.store, each.key) == each.value for each in ruling.expects)
    assert [each.store for each in ruling.expects] == [
        batch.Store.BUCKETS,
        batch.Store.SETTINGS,
        *[batch.Store.LOCATIONS] * 3,
        batch.Store.POINTERS,
    ]
    assert ruling.bucket is not None
    locations = [
        records.location_key(ruling.bucket.bucket_id, path) for path in (FILE, "x/t/data", "x/t")
    ]
    assert [each.key for each in ruling.expects[2:5]] == locations
    (row,) = lake.guard.at("raw", "k").expects
    assert (row.store, row.key) == (batch.Store.BUCKETS, b"raw")
    assert row.value == lake.place.storage.index.get(row.store, row.key)
