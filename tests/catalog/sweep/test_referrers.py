"""A table bucket goes only if no table of another one references a file in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from catalog import decoding, errors, idents, manifests, owners, records, store, table_buckets
from catalog.commits import LoadedTable
from catalog.sweep import marking, referrers
from server.access import errors as access_errors
from storage import model
from tests.kit import datafiles, lakes, manifestfiles, sweeps, waits

BY = lakes.BY


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": "x"} for number in numbers]


def key_of(uri: str) -> str:
    return uri.removeprefix("s3://lake/")


def table_buckets_of(
    bench: datafiles.Bench,
    new_decoder: Callable[[], decoding.ChildDecoder] = decoding.ChildDecoder,
) -> table_buckets.TableBuckets:
    catalog_store = bench.lake.store
    return table_buckets.TableBuckets(
        store=catalog_store,
        namespaces=bench.lake.namespaces,
        referrers=referrers.Referrers(
            store=catalog_store, files=bench.files, new_decoder=new_decoder
        ),
        region="us-east-1",
        seeds={},
    )


async def delete_lake(
    bench: datafiles.Bench,
    how: str,
    *,
    judge: owners.Recheck = lambda: None,
    new_decoder: Callable[[], decoding.ChildDecoder] = decoding.ChildDecoder,
) -> None:
    """Delete the table bucket `lake`, or replace it by an empty one."""
    buckets = table_buckets_of(bench, new_decoder)
    lake = bench.lake.storage.buckets.get("lake")
    if how == "replace":
        await buckets.create(
            "lake",
            owner=lakes.ACCOUNT,
            namespace=None,
            comment="",
            by=BY,
            via="sql",
            judge=lambda: None,
            replaces=lake,
            receipt=None,
        )
    elif how == "nothing":
        await buckets.delete(lake, losing="nothing", may_purge=True, judge=lambda: None)
    else:
        await buckets.delete(lake, losing="everything", may_purge=True, judge=judge)


@pytest.mark.parametrize("how", ["nothing", "everything", "replace"])
def test_a_table_bucket_with_a_file_that_another_bucket_references_is_not_deleted(
    bench: datafiles.Bench, how: str
) -> None:
    lake = bench.lake

    async def work() -> None:
        # The refusal is not about a bucket that another account has.
        await lake.storage.buckets.create(
            "another", bucket_type="table", owner="999999999999", region="us-east-1"
        )
        mine = await bench.add(await bench.create("ns.mine"), rows(1))
        other = await sweeps.commit_snapshot_of(bench, mine)
        if how != "everything":
            await lake.tables.drop(mine.ident, purge=True, by=BY)
            await lake.namespaces.drop("lake", ("ns",), by=BY)
            await sweeps.sweep_of(lake).sweep(["lake"])
        with pytest.raises(errors.FilesReferenced, match=r"of the table ns\.t of other, such as"):
            await delete_lake(bench, how)
        shared = await manifestfiles.live_files(bench.scans, bench.reader(lake.load(other)))
        assert len(shared) == 1
        assert lake.storage.objects.head("lake", key_of(shared[0].file_path)).size_bytes > 0

        await lake.tables.drop(other, by=BY)
        with pytest.raises(errors.FilesReferenced, match=r"the dropped table ns\.t of other"):
            await delete_lake(bench, how)
        await lake.tables.undrop(other, by=BY)
        await lake.tables.drop(other, purge=True, by=BY)
        before = lake.storage.buckets.get("lake").bucket_id
        await delete_lake(bench, how)
        left = {each.name: each.bucket_id for each in lake.storage.buckets.list()}
        assert left.get("lake") != before

    lake.run(work())


@pytest.mark.parametrize("meanwhile", ["references the file", "commits something else"])
def test_a_commit_between_look_and_deletion_of_a_table_bucket_is_read_first(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    lake = bench.lake
    hold = referrers.Look.hold
    looks: list[referrers.Look] = []

    async def work() -> None:
        mine = await bench.add(await bench.create("ns.mine"), rows(1))
        other = await sweeps.create_other(lake)

        async def look_and_commit(look: referrers.Look) -> Any:
            held = await hold(look)
            looks.append(look)
            if len(looks) == 1 and meanwhile == "references the file":
                await sweeps.commit_snapshot_of(bench, mine)
            elif len(looks) == 1:
                update = {"action": "set-properties", "updates": {"a": "b"}}
                await lake.tables.commit(other, [], [update], by=BY)
            return held

        monkeypatch.setattr(referrers.Look, "hold", look_and_commit)
        if meanwhile == "references the file":
            with pytest.raises(errors.FilesReferenced):
                await delete_lake(bench, "everything")
            shared = await manifestfiles.live_files(bench.scans, bench.reader(lake.load(other)))
            lake.storage.objects.head("lake", key_of(shared[0].file_path))
        else:
            await delete_lake(bench, "everything")
            assert len(looks) == 2
            assert [each.name for each in lake.storage.buckets.list()] == ["other"]
        # Commits that waited for the deletion go on.
        await lake.tables.commit(
            other, [], [{"action": "set-properties", "updates": {"c": "d"}}], by=BY
        )

    lake.run(work())


def test_a_table_bucket_without_objects_is_deleted_without_reading_other_buckets(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        await sweeps.create_other(bench.lake)
        await delete_lake(bench, "nothing")

    monkeypatch.delattr(marking.Mark, "run")
    bench.lake.run(work())
    assert [each.name for each in bench.lake.storage.buckets.list()] == ["other"]


def test_a_deletion_that_is_refused_for_the_buckets_contents_reads_no_other_bucket(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bench.lake

    def deny(ident: idents.TableIdent, pointer: records.Pointer) -> None:
        raise access_errors.AccessDenied("no", action="a", resource="r")

    async def work() -> None:
        await bench.add(await bench.create(), rows(1))
        await sweeps.create_other(lake)
        with pytest.raises(errors.TableBucketNotEmpty):
            await delete_lake(bench, "nothing")
        info = lake.storage.buckets.get("lake")
        with pytest.raises(access_errors.AccessDenied):
            await table_buckets_of(bench).delete(
                info, losing="everything", may_purge=True, judge=lambda: None, check=deny
            )

    monkeypatch.delattr(marking.Mark, "run")
    lake.run(work())
    assert [each.name for each in lake.storage.buckets.list()] == ["lake", "other"]


def test_a_right_that_is_withdrawn_while_other_buckets_are_read_deletes_nothing(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bench.lake
    withdrawn: list[bool] = []
    run = marking.Mark.run

    async def run_and_withdraw(mark: marking.Mark, **more: Any) -> None:
        await run(mark, **more)
        withdrawn.append(True)

    def judge() -> None:
        if withdrawn:
            raise access_errors.AccessDenied("no", action="a", resource="r")

    async def work() -> None:
        await bench.add(await bench.create(), rows(1))
        with pytest.raises(access_errors.AccessDenied):
            await delete_lake(bench, "everything", judge=judge)

    monkeypatch.setattr(marking.Mark, "run", run_and_withdraw)
    lake.run(work())
    assert withdrawn == [True]
    assert [each.name for each in lake.storage.buckets.list()] == ["lake"]


@pytest.mark.parametrize("absent_max", [1_000, 0], ids=["few", "too many to remember"])
def test_a_file_that_appears_between_look_and_deletion_is_seen(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch, absent_max: int
) -> None:
    """Metadata of another bucket names it already: no commit tells of it."""
    lake = bench.lake
    hold = referrers.Look.hold
    looks: list[referrers.Look] = []

    async def work() -> None:
        mine = await bench.add(await bench.create("ns.mine"), rows(1))
        await bench.add(await bench.create("ns.kept"), rows(1))
        key = key_of(mine.metadata.current_snapshot()["manifest-list"])
        await sweeps.commit_snapshot_of(bench, mine)
        await lose(bench, mine)

        async def look_and_put(look: referrers.Look) -> Any:
            held = await hold(look)
            looks.append(look)
            received = await lake.storage.blobs.store(b"body", digests=frozenset({"md5"}))
            await lake.storage.objects.put(
                "lake", key, received, attributes=model.ObjectAttributes()
            )
            return held

        monkeypatch.setattr(referrers.Look, "hold", look_and_put)
        with pytest.raises(errors.FilesReferenced):
            await delete_lake(bench, "everything")
        assert lake.storage.objects.head("lake", key).size_bytes == 4

    monkeypatch.setattr(referrers, "ABSENT_MAX", absent_max)
    lake.run(work())
    assert len(looks) == 1


def test_a_file_that_other_metadata_names_and_that_does_not_exist_holds_no_table_bucket(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def work() -> None:
        mine = await bench.add(await bench.create("ns.mine"), rows(1))
        await bench.add(await bench.create("ns.kept"), rows(1))
        await sweeps.commit_snapshot_of(bench, mine)
        await lose(bench, mine)
        await delete_lake(bench, "everything")

    lake.run(work())
    assert [each.name for each in lake.storage.buckets.list()] == ["other"]


def test_a_table_bucket_stays_if_a_file_of_another_one_is_not_decoded_in_time(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bench.lake
    ended: list[bool] = []

    class Busy(decoding.ChildDecoder):
        async def close(self) -> None:
            ended.append(True)
            await super().close()

    async def catch_up(mark: marking.Mark) -> None:
        mark.interruption = errors.DecodingInterrupted("try again")

    async def work() -> None:
        await bench.add(await bench.create(), rows(1))
        await sweeps.create_other(lake)
        with pytest.raises(errors.DecodingInterrupted):
            await delete_lake(bench, "everything", new_decoder=Busy)

    monkeypatch.setattr(marking.Mark, "catch_up", catch_up)
    lake.run(work())
    assert ended == [True]
    assert [each.name for each in lake.storage.buckets.list()] == ["lake", "other"]


@pytest.mark.parametrize(
    ("undecoded", "error"),
    [
        ("metadata", errors.DecodingInterrupted),
        ("manifest list", errors.DecodingInterrupted),
        ("manifest", errors.DecodingInterrupted),
        ("manifest list", manifests.InvalidManifest),
        ("manifest", manifests.InvalidManifest),
    ],
)
def test_a_table_bucket_stays_while_a_state_of_another_one_is_not_decoded(
    bench: datafiles.Bench,
    monkeypatch: pytest.MonkeyPatch,
    undecoded: str,
    error: type[Exception],
) -> None:
    """One that is damaged for good keeps no other table bucket."""
    lake = bench.lake
    manifest_list = "s3://other/ns/t/metadata/snap-1.avro"
    manifest = "s3://other/ns/t/metadata/m0.avro"

    class Busy(decoding.ChildDecoder):
        async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
            if undecoded == "manifest list":
                raise error("try again")
            return [
                manifests.ManifestFile(
                    manifest_path=manifest, manifest_length=1, partition_spec_id=0
                )
            ]

        async def decode(self, *arguments: Any) -> Any:
            raise error("try again")

    async def examine_metadata(*arguments: Any) -> Any:
        raise error("try again")

    async def work() -> None:
        await bench.add(await bench.create(), rows(1))
        ident = await sweeps.create_other(lake)
        for uri in (manifest_list, manifest):
            received = await lake.storage.blobs.store(b"x", digests=frozenset({"md5"}))
            key = uri.removeprefix("s3://other/")
            await lake.storage.objects.put(
                "other", key, received, attributes=model.ObjectAttributes()
            )
        snapshot = {
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": lakes.NOW_MS,
            "summary": {"operation": "append"},
            "manifest-list": manifest_list,
            "schema-id": 0,
        }
        update = {"action": "add-snapshot", "snapshot": snapshot}
        await lake.tables.commit(ident, [], [update], by=BY)
        if undecoded == "metadata":
            monkeypatch.setattr(store.CatalogStore, "examine_metadata", examine_metadata)
        if error is not errors.DecodingInterrupted:
            await delete_lake(bench, "everything", new_decoder=Busy)
            return
        with pytest.raises(errors.DecodingInterrupted):
            await delete_lake(bench, "everything", new_decoder=Busy)

    lake.run(work())
    stays = ["lake"] if error is errors.DecodingInterrupted else []
    assert [each.name for each in lake.storage.buckets.list()] == [*stays, "other"]


def test_commits_wait_for_the_second_look_of_a_deletion(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "COMMITS_HELD_SECONDS_MAX", 3600)
    lake = bench.lake
    hold = referrers.Look.hold
    looks: list[referrers.Look] = []
    waiting: list[asyncio.Task[Any]] = []

    async def work() -> None:
        await bench.add(await bench.create("ns.mine"), rows(1))
        other = await sweeps.create_other(lake)

        def commit(value: str) -> Any:
            update = {"action": "set-properties", "updates": {"a": value}}
            return lake.tables.commit(other, [], [update], by=BY)

        async def look_and_commit(look: referrers.Look) -> Any:
            held = await hold(look)
            looks.append(look)
            task = asyncio.ensure_future(commit(str(len(looks))))
            if len(looks) == 1:
                await asyncio.wait_for(task, waits.WAIT_SECONDS)
            else:
                waiting.append(task)
                done, _ = await asyncio.wait({task}, timeout=0.2)
                assert not done
            return held

        monkeypatch.setattr(referrers.Look, "hold", look_and_commit)
        await delete_lake(bench, "everything")
        await asyncio.gather(*waiting)
        assert lake.load(other).metadata.properties["a"] == "2"

    lake.run(work())
    assert len(looks) == 2
    assert [each.name for each in lake.storage.buckets.list()] == ["other"]


def test_two_deletions_read_the_other_buckets_one_after_the_other(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bench.lake
    run = marking.Mark.run
    running: list[marking.Mark] = []
    most: list[int] = []

    async def run_slowly(mark: marking.Mark, **more: Any) -> None:
        running.append(mark)
        most.append(len(running))
        await asyncio.sleep(0.05)
        await run(mark, **more)
        running.remove(mark)

    async def work() -> None:
        await bench.add(await bench.create(), rows(1))
        await sweeps.create_other(lake)
        buckets = table_buckets_of(bench)
        await asyncio.gather(
            *(
                buckets.delete(info, losing="everything", may_purge=True, judge=lambda: None)
                for info in lake.storage.buckets.list()
            )
        )

    monkeypatch.setattr(marking.Mark, "run", run_slowly)
    lake.run(work())
    assert most == [1, 1]
    assert lake.storage.buckets.list() == []


async def lose(bench: datafiles.Bench, loaded: LoadedTable) -> None:
    """Purge a table of the bucket `lake`, and remove its files at once."""
    lake = bench.lake
    prefix = "/".join((*loaded.ident.namespace, loaded.ident.name))
    await lake.tables.drop(loaded.ident, purge=True, by=BY)
    for key in sweeps.keys_in(lake, prefix):
        await lake.storage.objects.delete("lake", key)
    assert sweeps.keys_in(lake, prefix) == set()
