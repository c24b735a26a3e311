"""What a write relies on is looked at again in its own transaction.

Each test lets another write in between the moment in which a write is planned and its transaction.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from catalog import commit, emptiness, errors, idents, records, tables
from catalog.metadata import creation
from catalog.store import CatalogStore
from catalog.views import Views
from s3tables.labels import Labels, TableKey
from storage import batch, model, settings
from storage import errors as storage_errors
from tests.kit import lakes

BY = lakes.BY
ROUNDS = 40


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    return lake


@contextmanager
def meanwhile(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Awaitable[Any]]
) -> Iterator[list[int]]:
    """Let work happen right before the next transaction; count the transactions after it."""
    index = lake.storage.index
    commit_batch, decide = index.commit, index.decide
    tries: list[int] = []

    async def intervene() -> None:
        tries.append(1)
        if len(tries) > 1:
            return
        with pytest.MonkeyPatch.context() as undisturbed:
            undisturbed.setattr(index, "commit", commit_batch)
            undisturbed.setattr(index, "decide", decide)
            await work()

    async def commit_later(planned: batch.Batch) -> None:
        await intervene()
        await commit_batch(planned)

    async def decide_later(decision: Any, **more: Any) -> Any:
        await intervene()
        return await decide(decision, **more)

    with monkeypatch.context() as patched:
        patched.setattr(index, "commit", commit_later)
        patched.setattr(index, "decide", decide_later)
        yield tries


def ident(name: str = "t") -> idents.TableIdent:
    return idents.TableIdent(table_bucket="lake", namespace=("ns",), name=name)


def test_a_commit_after_a_change_of_policies_is_planned_once(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ns.run(ns.tables.create(ident(), schema=lakes.SCHEMA, by=BY))
    bucket_id = ns.store.bucket("lake").bucket_id

    numbers = itertools.count()

    async def nothing() -> None:
        pass

    def plans_of_commit(work: Callable[[], Awaitable[Any]]) -> int:
        updates = [{"action": "set-properties", "updates": {"n": str(next(numbers))}}]
        with meanwhile(ns, monkeypatch, work) as tries:
            ns.run(ns.tables.commit(ident(), (), updates, by=BY))
        return len(tries)

    for policy in ("{}", None, '{"Version":"2012-10-17"}'):
        changed = settings.plan_policy(bucket_id, table.pointer.object_uuid, policy)
        ns.run(ns.storage.index.commit(changed))
        assert [plans_of_commit(nothing), plans_of_commit(nothing)] == [1, 1]
        # One that changes between the plan and its transaction makes it be planned again.
        assert plans_of_commit(functools.partial(ns.storage.index.commit, changed)) == 2


def put_metadata(lake: lakes.Lake, *, name: str = "r", **changes: Any) -> str:
    """Put metadata of a table to be registered; return its URI."""
    source = lake.run(lake.tables.create(ident(f"{name}_source"), schema=lakes.SCHEMA, by=BY))
    home = f"s3://lake/imported/{name}"
    data = json.dumps({**json.loads(source.data), "location": home, **changes}).encode()
    key = f"imported/{name}/metadata/v1.metadata.json"
    put = lake.storage.objects.plan_put(
        lake.store.bucket("lake"), key, data, attributes=model.ObjectAttributes(), now_ms=1
    )
    lake.run(lake.storage.index.commit(put))
    return f"s3://lake/{key}"


def drop_bucket(lake: lakes.Lake) -> Awaitable[None]:
    """Delete the table bucket as DeleteTableBucket does, if it is empty."""
    bucket = lake.store.bucket("lake")

    def check(reading: batch.Reading) -> tuple[batch.Write, ...]:
        emptiness.check_empty(reading, bucket)
        return ()

    deletion = lake.storage.buckets.plan_delete("lake", discard=True, bucket_id=bucket.bucket_id)
    return lake.storage.index.commit(batch.merge((batch.Batch(derive=(check,)), deletion)))


# Registered metadata files.


def test_register_of_a_file_that_is_removed_meanwhile_finds_no_file(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = put_metadata(ns)

    async def remove() -> None:
        await ns.storage.objects.delete("lake", uri.removeprefix("s3://lake/"))

    with meanwhile(ns, monkeypatch, remove), pytest.raises(errors.MetadataFileMissing):
        ns.run(ns.tables.register(ident(), uri, by=BY, permit=lakes.permit_all))
    assert not ns.tables.exists(ident())


def test_register_of_a_file_that_is_replaced_meanwhile_takes_the_new_one(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = put_metadata(ns, properties={"a": "old"})
    key = uri.removeprefix("s3://lake/")
    info = ns.storage.objects.head("lake", key)
    data = json.loads(ns.storage.objects.read(info))

    async def replace() -> None:
        await ns.storage.objects.delete("lake", key)
        body = json.dumps({**data, "properties": {"a": "new"}}).encode()
        await ns.storage.index.commit(
            ns.storage.objects.plan_put(
                ns.store.bucket("lake"),
                key,
                body,
                attributes=model.ObjectAttributes(),
                now_ms=1,
            )
        )

    with meanwhile(ns, monkeypatch, replace):
        loaded = ns.run(ns.tables.register(ident(), uri, by=BY, permit=lakes.permit_all))
    assert loaded.metadata.properties == {"a": "new"}
    assert ns.load(ident()).metadata.properties == {"a": "new"}


def test_a_pointer_moved_to_a_file_that_is_removed_meanwhile_stays(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ns.run(ns.tables.create(ident(), schema=lakes.SCHEMA, by=BY))
    key = "ns/t/metadata/next.metadata.json"
    put = ns.storage.objects.plan_put(
        ns.store.bucket("lake"), key, table.data, attributes=model.ObjectAttributes(), now_ms=1
    )
    ns.run(ns.storage.index.commit(put))

    async def remove() -> None:
        await ns.storage.objects.delete("lake", key)

    with meanwhile(ns, monkeypatch, remove), pytest.raises(errors.MetadataFileMissing):
        ns.run(
            ns.tables.set_metadata_location(
                ident(),
                f"s3://lake/{key}",
                version_token=records.version_token(table.pointer),
                by=BY,
            )
        )
    assert ns.tables.pointer(ident()) == table.pointer


# Table buckets and namespaces.


def test_a_namespace_is_not_created_in_a_table_bucket_deleted_meanwhile(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket_id = lake.store.place("lake").bucket_id

    async def remove() -> None:
        await drop_bucket(lake)

    with meanwhile(lake, monkeypatch, remove), pytest.raises(errors.NoSuchWarehouse):
        lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    with lake.storage.index.view() as view:
        start, stop = bucket_id.to_bytes(4, "big"), (bucket_id + 1).to_bytes(4, "big")
        for store in (batch.Store.POINTERS, batch.Store.NAMESPACES, batch.Store.LOG):
            assert list(view.scan(store, start, stop)) == []


def test_a_namespace_is_not_created_in_a_table_bucket_replaced_meanwhile(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket_id = lake.store.place("lake").bucket_id

    async def replace() -> None:
        await drop_bucket(lake)
        await lake.storage.buckets.create(
            "lake", bucket_type="table", owner=lakes.ACCOUNT, region="us-east-1"
        )

    with meanwhile(lake, monkeypatch, replace), pytest.raises(errors.NoSuchWarehouse):
        lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    assert lake.store.place("lake").bucket_id != bucket_id
    assert not lake.namespaces.exists("lake", ("ns",))
    with lake.storage.index.view() as view:
        for store in (batch.Store.POINTERS, batch.Store.NAMESPACES, batch.Store.LOG):
            assert list(view.scan(store, b"")) == []


def test_a_table_bucket_with_a_namespace_created_meanwhile_is_not_deleted(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create() -> None:
        await lake.namespaces.create("lake", ("ns",), by=BY)

    with meanwhile(lake, monkeypatch, create), pytest.raises(errors.TableBucketNotEmpty):
        lake.run(_awaited(drop_bucket(lake)))
    assert lake.namespaces.exists("lake", ("ns",))


def test_a_deletion_of_a_table_bucket_does_not_meet_another_one_of_its_name(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create_anew() -> None:
        await drop_bucket(lake)
        await lake.storage.buckets.create(
            "lake", bucket_type="table", owner=lakes.ACCOUNT, region="us-east-1"
        )
        await lake.namespaces.create("lake", ("ns",), by=BY)

    with meanwhile(lake, monkeypatch, create_anew), pytest.raises(storage_errors.NoSuchBucket):
        lake.run(_awaited(drop_bucket(lake)))
    assert lake.namespaces.exists("lake", ("ns",))


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


async def create(ns: lakes.Lake) -> Any:
    return await ns.tables.create(ident("new"), schema=lakes.SCHEMA, by=BY)


async def stage(ns: lakes.Lake) -> Any:
    return await ns.tables.create(ident("new"), schema=lakes.SCHEMA, stage=True, by=BY)


async def create_empty(ns: lakes.Lake) -> Any:
    return await ns.tables.create_empty(ident("new"), by=BY)


async def register(ns: lakes.Lake) -> Any:
    uri = "s3://lake/imported/r/metadata/v1.metadata.json"
    return await ns.tables.register(ident("new"), uri, by=BY, permit=lakes.permit_all)


async def rename(ns: lakes.Lake) -> Any:
    source = idents.TableIdent(table_bucket="lake", namespace=("other",), name="t")
    return await ns.tables.rename(source, ident("new"), by=BY)


async def create_child(ns: lakes.Lake) -> Any:
    return await ns.namespaces.create("lake", ("ns", "child"), by=BY)


WAYS_IN = (create, stage, create_empty, register, rename, create_child)


@pytest.fixture
def peopled(lake: lakes.Lake) -> lakes.Lake:
    """An empty namespace `ns`, a table `other.t`, and metadata to register."""
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    put_metadata(lake)
    source = ident("r_source")
    lake.run(lake.tables.drop(source, by=BY))
    lake.run(lake.namespaces.create("lake", ("other",), by=BY))
    other = idents.TableIdent(table_bucket="lake", namespace=("other",), name="t")
    lake.run(lake.tables.create(other, schema=lakes.SCHEMA, by=BY))
    return lake


@pytest.mark.parametrize("way", WAYS_IN, ids=lambda way: way.__name__)
def test_nothing_moves_into_a_namespace_that_is_dropped_meanwhile(
    peopled: lakes.Lake, monkeypatch: pytest.MonkeyPatch, way: Callable[[lakes.Lake], Any]
) -> None:
    async def drop() -> None:
        await peopled.namespaces.drop("lake", ("ns",), by=BY)

    with meanwhile(peopled, monkeypatch, drop), pytest.raises(errors.NoSuchNamespace):
        peopled.run(way(peopled))
    assert not peopled.namespaces.exists("lake", ("ns",))
    assert peopled.broken_chain() is None


@pytest.mark.parametrize(
    "way",
    # What is only staged is nothing yet, and keeps no namespace.
    [way for way in WAYS_IN if way is not stage],
    ids=lambda way: way.__name__,
)
def test_a_namespace_that_something_moves_into_meanwhile_is_not_dropped(
    peopled: lakes.Lake, monkeypatch: pytest.MonkeyPatch, way: Callable[[lakes.Lake], Any]
) -> None:
    async def enter() -> None:
        await way(peopled)

    with meanwhile(peopled, monkeypatch, enter), pytest.raises(errors.NamespaceNotEmpty):
        peopled.run(peopled.namespaces.drop("lake", ("ns",), by=BY))
    assert peopled.namespaces.exists("lake", ("ns",))


@pytest.mark.parametrize("way", WAYS_IN, ids=lambda way: way.__name__)
def test_properties_of_a_namespace_that_change_meanwhile_are_no_conflict(
    peopled: lakes.Lake, monkeypatch: pytest.MonkeyPatch, way: Callable[[lakes.Lake], Any]
) -> None:
    async def update() -> None:
        await peopled.namespaces.update("lake", ("ns",), updates={"a": "b"}, removals=(), by=BY)

    with meanwhile(peopled, monkeypatch, update) as tries:
        peopled.run(way(peopled))
    assert len(tries) == 1
    assert peopled.namespaces.load("lake", ("ns",)).properties == {"a": "b"}


# What hangs on a table.


@pytest.mark.parametrize("what", ["tags", "report"])
def test_tags_and_reports_of_a_table_dropped_meanwhile_are_refused(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    labels = Labels(index=ns.storage.index, buckets=ns.storage.buckets)
    place = ns.store.place("lake")
    pointer = ns.run(ns.tables.create_empty(ident(), by=BY))

    async def drop() -> None:
        await ns.tables.drop(ident(), by=BY)

    async def change() -> None:
        if what == "tags":
            await labels.change_table(place, pointer.object_uuid, lambda _: {"a": "b"})
        else:
            await ns.tables.report_metrics(ident(), b"{}", by=BY)

    with meanwhile(ns, monkeypatch, drop), pytest.raises(errors.NoSuchTable):
        ns.run(change())
    key = TableKey(bucket_id=place.bucket_id, object_uuid=pointer.object_uuid)
    assert labels.of_table(key) == {}
    with ns.storage.index.view() as view:
        assert list(view.scan(batch.Store.METRICS, b"")) == []


def test_tags_of_a_table_bucket_are_not_given_to_another_one_of_its_name(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = Labels(index=lake.storage.index, buckets=lake.storage.buckets)
    bucket = lake.store.bucket("lake")

    async def create_anew() -> None:
        await drop_bucket(lake)
        await lake.storage.buckets.create(
            "lake", bucket_type="table", owner="111122223333", region="us-east-1"
        )

    with meanwhile(lake, monkeypatch, create_anew), pytest.raises(storage_errors.NoSuchBucket):
        lake.run(labels.change_bucket(bucket, lambda _: {"a": "b"}))
    assert labels.of_bucket("lake") == {}


def test_one_of_several_creators_gives_a_table_its_first_metadata(ns: lakes.Lake) -> None:
    async def first(name: str) -> Any:
        return await ns.tables.create(ident(name), schema=lakes.SCHEMA, adopts=True, by=BY)

    async def staged(name: str) -> Any:
        table = await ns.tables.create(
            ident(name), schema=lakes.SCHEMA, adopts=True, stage=True, by=BY
        )
        updates = creation.creating_updates(table.metadata)
        create = [{"type": "assert-create"}]
        return await ns.tables.commit(ident(name), create, updates, by=BY)

    async def one_round(number: int) -> None:
        name = f"t{number}"
        empty = await ns.tables.create_empty(ident(name), by=BY)
        answers = await asyncio.gather(
            first(name), staged(name), first(name), staged(name), return_exceptions=True
        )
        done = [each for each in answers if isinstance(each, tables.LoadedTable)]
        assert len(done) == 1, answers
        now = ns.load(ident(name))
        assert now.pointer == done[0].pointer
        assert now.pointer.object_uuid == empty.object_uuid

    async def rounds() -> None:
        for number in range(ROUNDS):
            await one_round(number)

    ns.run(rounds())
    assert ns.broken_chain() is None


def test_a_hold_is_on_the_namespace_and_not_on_its_name(ns: lakes.Lake) -> None:
    place = ns.store.place("lake")
    with ns.storage.index.view() as view:
        holder = ns.store.namespace(view, place, ("ns",)).holder
    ns.run(ns.storage.index.commit(commit.hold(place, holder)))
    ns.run(ns.namespaces.drop("lake", ("ns",), by=BY))
    ns.run(ns.namespaces.create("lake", ("ns",), by=BY))
    with pytest.raises(storage_errors.ExpectationFailed):
        ns.run(ns.storage.index.commit(commit.hold(place, holder)))


# A table bucket and the objects that come into it.


async def _put(lake: lakes.Lake, key: str) -> model.ObjectInfo:
    bucket = lake.store.bucket("lake")
    received = await lake.storage.blobs.store(b"body of " + key.encode())
    return await lake.storage.objects.put(
        bucket, key, received, attributes=model.ObjectAttributes(etag="e" * 32)
    )


async def _upload(lake: lakes.Lake, key: str) -> model.UploadInfo:
    bucket = lake.store.bucket("lake")
    return await lake.storage.uploads.create(bucket, key, attributes=model.ObjectAttributes())


async def _make_bucket(lake: lakes.Lake) -> None:
    await lake.storage.buckets.create(
        "lake", bucket_type="table", owner=lakes.ACCOUNT, region="us-east-1"
    )


def _rows(lake: lakes.Lake, bucket_id: int, *stores: batch.Store) -> list[bytes]:
    start, stop = bucket_id.to_bytes(4, "big"), (bucket_id + 1).to_bytes(4, "big")
    with lake.storage.index.view() as view:
        return [key for store in stores for key, _ in view.scan(store, start, stop)]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("write", [_put, _upload])
def test_nothing_is_written_into_a_table_bucket_deleted_meanwhile(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch, write: Any, anew: bool
) -> None:
    bucket_id = lake.store.bucket("lake").bucket_id

    async def remove() -> None:
        await drop_bucket(lake)
        if anew:
            await _make_bucket(lake)

    with meanwhile(lake, monkeypatch, remove), pytest.raises(storage_errors.NoSuchBucket):
        lake.run(write(lake, "a/b"))
    assert _rows(lake, bucket_id, batch.Store.OBJECTS, batch.Store.UPLOADS) == []
    if anew:
        assert lake.storage.objects.list("lake").objects == ()
        assert lake.storage.uploads.list("lake").uploads == ()


def test_a_table_bucket_with_an_object_put_meanwhile_is_not_deleted(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put() -> None:
        await _put(lake, "a/b")

    with meanwhile(lake, monkeypatch, put), pytest.raises(errors.TableBucketNotEmpty):
        lake.run(_awaited(drop_bucket(lake)))
    assert [each.key for each in lake.storage.objects.list("lake").objects] == ["a/b"]


def test_an_upload_of_a_table_bucket_deleted_meanwhile_neither_grows_nor_ends(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = lake.run(_upload(lake, "a/b"))

    async def part() -> Any:
        receiver = lake.storage.blobs.receive(size_hint=4, digests=frozenset({"md5"}))
        await receiver.write(b"part")
        return await lake.storage.uploads.put_part(
            "lake", "a/b", upload.upload_id, 1, await receiver.finish()
        )

    async def remove() -> None:
        await drop_bucket(lake)
        await _make_bucket(lake)

    lake.run(part())
    with meanwhile(lake, monkeypatch, remove), pytest.raises(storage_errors.NoSuchUpload):
        lake.run(part())
    assert lake.storage.objects.list("lake").objects == ()


def test_no_table_is_made_in_a_table_bucket_deleted_meanwhile(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ns.store.place("lake")

    async def remove() -> None:
        await ns.namespaces.drop("lake", ("ns",), by=BY)
        await drop_bucket(ns)
        await _make_bucket(ns)
        await ns.namespaces.create("lake", ("ns",), by=BY)

    with meanwhile(ns, monkeypatch, remove), pytest.raises(errors.CatalogError):
        ns.run(ns.tables.create_empty(ident(), by=BY))
    # The sweep of the deleted bucket removes what its dropped namespace has left.
    left = _rows(ns, place.bucket_id, batch.Store.POINTERS, batch.Store.LOCATIONS)
    dropped = records.dropped_namespace_range(place)
    assert [key for key in left if not key.startswith(dropped)] == []
    assert not ns.tables.exists(ident())


def test_a_put_and_the_deletion_of_its_table_bucket_do_not_both_succeed(lake: lakes.Lake) -> None:
    async def one_round(number: int) -> None:
        bucket_id = lake.store.bucket("lake").bucket_id
        works: list[Awaitable[Any]] = [_put(lake, f"k{number}"), _awaited(drop_bucket(lake))]
        if number % 2:
            works.reverse()
        answers = await asyncio.gather(*works, return_exceptions=True)
        refused = [each for each in answers if isinstance(each, Exception)]
        assert len(refused) == 1, answers
        assert isinstance(refused[0], storage_errors.NoSuchBucket | errors.TableBucketNotEmpty)
        if isinstance(refused[0], storage_errors.NoSuchBucket):
            assert _rows(lake, bucket_id, batch.Store.OBJECTS) == []
            await _make_bucket(lake)
        else:
            assert lake.storage.objects.list("lake").objects
            await lake.storage.objects.delete("lake", f"k{number}")

    async def rounds() -> None:
        for number in range(ROUNDS):
            await one_round(number)

    lake.run(rounds())


# Views.


def make_view(lake: lakes.Lake, name: str = "t") -> Awaitable[Any]:
    return other_views(lake).create(
        ident(name), schema=lakes.SCHEMA, view_version=lakes.VIEW_VERSION, by=BY
    )


def make_table(lake: lakes.Lake, name: str = "t") -> Awaitable[Any]:
    return lake.tables.create(ident(name), schema=lakes.SCHEMA, by=BY)


def test_a_name_that_becomes_a_views_meanwhile_is_no_tables(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        meanwhile(ns, monkeypatch, lambda: make_view(ns)),
        pytest.raises(errors.ViewAlreadyExists, match=r"^View with same name already exists: ns.t"),
    ):
        ns.run(make_table(ns))
    assert not ns.tables.exists(ident())


def test_a_name_that_becomes_a_tables_meanwhile_is_no_views(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        meanwhile(ns, monkeypatch, lambda: make_table(ns)),
        pytest.raises(errors.TableAlreadyExists, match=r"^Table with same name already exists"),
    ):
        ns.run(
            ns.views.create(ident(), schema=lakes.SCHEMA, view_version=lakes.VIEW_VERSION, by=BY)
        )
    with pytest.raises(errors.NoSuchView):
        ns.views.pointer(ident())


@pytest.mark.parametrize("what", ["table", "view"])
def test_a_rename_to_a_name_that_is_taken_meanwhile_is_refused(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    ns.run(make_view(ns, "v"))
    taking = {"table": make_table, "view": make_view}[what]
    refusal = {"table": errors.TableAlreadyExists, "view": errors.ViewAlreadyExists}[what]
    with meanwhile(ns, monkeypatch, lambda: taking(ns)), pytest.raises(refusal):
        ns.run(ns.views.rename(ident("v"), ident(), by=BY))
    assert ns.views.pointer(ident("v"))


def test_a_view_replaced_meanwhile_keeps_both_replacements(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ns.run(make_view(ns))

    def set_property(name: str) -> Awaitable[Any]:
        update = {"action": "set-properties", "updates": {name: "1"}}
        return ns.views.replace(ident(), [], [update], by=BY)

    with meanwhile(
        ns,
        monkeypatch,
        lambda: other_views(ns).replace(
            ident(), [], [{"action": "set-properties", "updates": {"b": "1"}}], by=BY
        ),
    ) as tries:
        ns.run(set_property("a"))
    assert len(tries) == 2, "planned again on what came first"
    loaded = ns.run(ns.views.fetch(ident()))
    assert json.loads(loaded.data)["properties"] == {"a": "1", "b": "1"}


def other_views(lake: lakes.Lake) -> Views:
    """Views over a store of their own: a writer that is under way does not hold up its writers."""
    return Views(
        store=CatalogStore(
            index=lake.storage.index,
            buckets=lake.storage.buckets,
            objects=lake.storage.objects,
            blobs=lake.storage.blobs,
            now_ms=lake.clock,
            new_id=lake.store.new_id,
        )
    )


def test_a_view_dropped_meanwhile_is_not_replaced(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ns.run(make_view(ns))
    update = {"action": "set-properties", "updates": {"a": "1"}}
    with (
        meanwhile(ns, monkeypatch, lambda: other_views(ns).drop(ident(), by=BY)),
        pytest.raises(errors.NoSuchView),
    ):
        ns.run(ns.views.replace(ident(), [], [update], by=BY))


def test_a_location_taken_meanwhile_is_not_a_views(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "s3://lake/here/it/is"
    with (
        meanwhile(
            ns,
            monkeypatch,
            lambda: ns.tables.create(ident("x"), schema=lakes.SCHEMA, location=place, by=BY),
        ),
        pytest.raises(errors.InvalidLocation),
    ):
        ns.run(
            ns.views.create(
                ident(), schema=lakes.SCHEMA, view_version=lakes.VIEW_VERSION, location=place, by=BY
            )
        )


def test_a_view_is_not_made_in_a_namespace_that_is_dropped_meanwhile(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = lambda: ns.namespaces.drop("lake", ("ns",), by=BY)  # noqa: E731 - one argument
    with meanwhile(ns, monkeypatch, drop), pytest.raises(errors.NoSuchNamespace):
        ns.run(make_view(ns))


def test_a_view_that_comes_into_a_namespace_dropped_whole_goes_with_it(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ns.run(make_view(ns, "first"))
    with meanwhile(ns, monkeypatch, lambda: make_view(ns)) as tries:
        ns.run(ns.namespaces.drop_whole("lake", ("ns",), check=lambda *_: None, by=BY))
    assert len(tries) == 2
    assert not ns.namespaces.exists("lake", ("ns",))
    assert ns.broken_chain() is None
