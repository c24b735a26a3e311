"""The sweep of tables: what nothing retained reaches goes, in its time; all else stays."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from catalog import decoding, errors, manifests, store
from catalog.commits import LoadedTable
from catalog.sweep import marking, retention, sweeping
from server import errors as server_errors
from storage import batch, model, objects
from tests.kit import datafiles, lakes, manifestfiles, sweeps

BY = lakes.BY
ROOT = lakes.ROOT


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": "x"} for number in numbers]


def key_of(uri: str) -> str:
    return uri.removeprefix("s3://lake/")


async def replace_all(bench: datafiles.Bench, loaded: LoadedTable, *numbers: int) -> LoadedTable:
    """Overwrite a table, as a compaction does."""
    live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
    added = await bench.write(loaded, rows(*numbers))
    return await bench.appends.commit_files(
        loaded.ident,
        [added],
        operation="overwrite",
        removed=live,
        based_on=loaded.metadata.current_snapshot_id,
        principal=ROOT,
    )


async def expire(bench: datafiles.Bench, loaded: LoadedTable) -> LoadedTable:
    """Drop every snapshot but the current one."""
    current = loaded.metadata.current_snapshot_id
    old = [each for each in loaded.metadata.snapshot_ids if each != current]
    return await bench.lake.tables.commit(
        loaded.ident, [], [{"action": "remove-snapshots", "snapshot-ids": old}], by=BY
    )


async def live_keys(bench: datafiles.Bench, loaded: LoadedTable) -> set[str]:
    live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
    return {key_of(each.file_path) for each in live}


def test_what_compaction_and_expiry_left_is_hidden_then_freed_after_its_days(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[LoadedTable, set[str]]:
        loaded = await bench.add(await bench.create(), rows(1, 2))
        replaced = await live_keys(bench, loaded)
        loaded = await expire(bench, await replace_all(bench, loaded, 1, 2))
        return loaded, replaced

    loaded, replaced = asyncio.run(prepare())
    before = sweeps.keys_in(lake)

    sweeps.pass_days(lake, 6.9)
    report = sweeps.run(lake)
    assert (report.hidden.files, report.freed.files) == (0, 0), "the history window holds it all"

    sweeps.pass_days(lake, 0.2)
    report = sweeps.run(lake)
    assert report.freed.files == 0
    listed = {each.key for each in report.listed if each.action == "hide"}
    # The replaced data file; manifest list and manifest of the first snapshot; the manifest that
    # the overwrite wrote anew is the second snapshot's own.
    assert replaced < listed
    assert all("/data/" in key or key.endswith(".avro") for key in listed)
    assert sweeps.keys_in(lake) == before, "hidden files are still there"
    shown = {info.key for info in lake.storage.objects.list("lake").objects}
    assert before - shown == listed

    sweeps.pass_days(lake, 9.9)
    assert sweeps.run(lake).freed.files == 0
    sweeps.pass_days(lake, 0.2)
    report = sweeps.run(lake)
    assert report.freed.files == len(listed)
    assert sweeps.keys_in(lake) == before - listed
    again = asyncio.run(live_keys(bench, lake.load(loaded.ident)))
    assert again <= sweeps.keys_in(lake)
    assert sweeps.run(lake).freed.files == 0, "a repeated sweep has nothing to do"


def test_a_dry_run_lists_files_and_bytes_and_changes_nothing(bench: datafiles.Bench) -> None:
    lake = bench.lake

    async def prepare() -> LoadedTable:
        return await bench.add(await bench.create(), rows(1))

    loaded = asyncio.run(prepare())
    asyncio.run(lake.tables.drop(loaded.ident, purge=True, by=BY))
    before = sweeps.keys_in(lake)
    sizes = {key: lake.storage.objects.head("lake", key).size_bytes for key in before}

    dry = sweeps.run(lake, dry_run=True)
    assert sweeps.keys_in(lake) == before
    assert {each.key: each.size_bytes for each in dry.listed} == sizes
    assert (dry.freed.files, dry.freed.size_bytes) == (len(sizes), sum(sizes.values()))

    report = sweeps.run(lake)
    assert (report.freed.files, report.freed.size_bytes) == (len(sizes), sum(sizes.values()))
    assert sweeps.keys_in(lake) == set()


def test_a_dry_run_lists_what_was_dropped_long_enough_ago_and_keeps_its_row(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> LoadedTable:
        loaded = await bench.add(await bench.create(), rows(1))
        await lake.tables.drop(loaded.ident, by=BY)
        return loaded

    loaded = asyncio.run(prepare())
    sweeps.pass_days(lake, 29.9)
    assert sweeps.run(lake, dry_run=True).listed == []
    sweeps.pass_days(lake, 0.2)
    dry = sweeps.run(lake, dry_run=True)
    assert {each.key for each in dry.listed} == sweeps.keys_in(lake)
    assert lake.tables.dropped(loaded.ident).pointer.object_uuid == loaded.pointer.object_uuid
    assert sweeps.run(lake).listed == dry.listed


def test_a_table_dropped_without_purge_is_kept_for_its_days_and_an_unregistered_one_for_good(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[set[str], set[str]]:
        kept: list[set[str]] = []
        for name in ("ns.dropped", "ns.unregistered"):
            loaded = await bench.add(await bench.create(name), rows(1))
            kept.append(sweeps.keys_in(lake, key_of(loaded.metadata.location)))
            if name == "ns.dropped":
                await lake.tables.drop(loaded.ident, by=BY)
            else:
                await lake.tables.unregister(loaded.ident, by=BY)
        return kept[0], kept[1]

    dropped, unregistered = asyncio.run(prepare())
    sweeps.pass_days(lake, 29.9)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 0.2)
    report = sweeps.run(lake)
    assert {each.key for each in report.listed} == dropped
    sweeps.pass_days(lake, 10)
    assert sweeps.run(lake).freed.files == len(dropped)
    sweeps.pass_days(lake, 1_000)
    sweeps.run(lake)
    assert sweeps.keys_in(lake) == unregistered


def test_a_dropped_table_keeps_its_files_though_another_took_its_location_and_was_purged(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[LoadedTable, set[str]]:
        loaded = await bench.add(await bench.create(), rows(1))
        await lake.tables.drop(loaded.ident, by=BY)
        taker = await bench.create(
            "ns.taker", location=loaded.metadata.location, permit=lakes.permit_all
        )
        taker = await bench.add(taker, rows(2))
        taken = await live_keys(bench, taker)
        await lake.tables.drop(taker.ident, purge=True, by=BY)
        return loaded, taken

    loaded, taken = asyncio.run(prepare())
    sweeps.pass_days(lake, 20)
    sweeps.run(lake)
    assert not taken & sweeps.keys_in(lake)
    lake.run(lake.tables.undrop(loaded.ident, by=BY, permit=lakes.permit_all))
    sweeps.run(lake)
    restored = asyncio.run(live_keys(bench, lake.load(loaded.ident)))
    assert restored == {f"ns/t/data/{0:05}.parquet"} <= sweeps.keys_in(lake)


def test_a_file_that_another_table_references_outlives_its_own_purged_table(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> str:
        mine = await bench.add(await bench.create("ns.mine"), rows(1))
        other = await bench.create("ns.other")
        shared = await manifestfiles.live_files(bench.scans, bench.reader(mine))
        await bench.appends.commit_files(
            other.ident, list(shared), operation="append", principal=ROOT
        )
        await lake.tables.drop(mine.ident, purge=True, by=BY)
        return key_of(shared[0].file_path)

    shared = asyncio.run(prepare())
    sweeps.run(lake)
    assert sweeps.keys_in(lake, "ns/mine") == {shared}
    assert asyncio.run(live_keys(bench, lake.load(lake.ident("ns.other")))) == {shared}


def test_a_file_that_a_table_of_another_bucket_references_stays(bench: datafiles.Bench) -> None:
    lake = bench.lake

    async def prepare() -> set[str]:
        mine = await bench.add(await bench.create("ns.mine"), rows(1))
        await sweeps.commit_snapshot_of(bench, mine)
        await lake.tables.drop(mine.ident, purge=True, by=BY)
        return {
            key for key in sweeps.keys_in(lake, "ns/mine") if not key.endswith(".metadata.json")
        }

    shared = asyncio.run(prepare())
    assert len(shared) == 3, "data file, manifest, manifest list"
    sweeps.run(lake)
    assert sweeps.keys_in(lake, "ns/mine") == shared


def test_unreferenced_uploads_go_with_age_and_what_is_no_tables_file_stays(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake
    put = {
        "ns/t/data/orphan.parquet",
        "ns/t/data/",
        "ns/t/metadata/version-hint.text",
        "ns/t/data/trino-tmp-files/sorting-file-writer-1",
        "ns/t-more/data/a.parquet",
        "raw/data.csv",
    }

    async def prepare() -> None:
        await bench.create()
        for key in put:
            data = b"" if key.endswith("/") else b"body"
            received = await lake.storage.blobs.store(data, digests=frozenset({"md5"}))
            await lake.storage.objects.put(
                "lake", key, received, attributes=model.ObjectAttributes()
            )

    asyncio.run(prepare())
    table = sweeps.keys_in(lake) - put
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 1)
    report = sweeps.run(lake)
    scratch = "ns/t/data/trino-tmp-files/sorting-file-writer-1"
    assert [(each.action, each.key, each.size_bytes) for each in report.listed] == [
        ("free", scratch, 4)
    ]
    sweeps.pass_days(lake, 2)
    assert [(each.action, each.key) for each in sweeps.run(lake).listed] == [
        ("hide", "ns/t/data/orphan.parquet")
    ]
    sweeps.pass_days(lake, 10)
    assert sweeps.run(lake).freed.files == 1
    sweeps.pass_days(lake, 1_000)
    sweeps.run(lake)
    left = put - {scratch, "ns/t/data/orphan.parquet"}
    assert sweeps.keys_in(lake) == table | left


def test_a_transaction_frees_a_bounded_number_of_segments(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each segment costs the writer a count; commits wait for it."""
    monkeypatch.setattr(sweeping, "SEGMENTS_AT_ONCE", 4)
    uploads = bench.lake.storage.uploads
    monkeypatch.setattr(uploads, "_part_bytes_min", 1)
    sizes: list[int] = []
    free_seen = objects.Objects.free_seen

    async def note(self: Any, bucket: Any, seen: Any, **options: Any) -> Any:
        sizes.append(len(seen))
        return await free_seen(self, bucket, seen, **options)

    monkeypatch.setattr(objects.Objects, "free_seen", note)

    async def prepare() -> None:
        await bench.create()
        for number, count in enumerate((2, 2, 1, 6, 3, 1, 1)):
            key = f"ns/t/data/trino-tmp-files/sorting-file-writer-{number}"
            upload = await uploads.create("lake", key, attributes=model.ObjectAttributes())
            parts = []
            for part_number in range(1, count + 1):
                received = await bench.lake.storage.blobs.store(
                    b"%d %d" % (number, part_number), digests=frozenset({"md5"})
                )
                part = await uploads.put_part("lake", key, upload.upload_id, part_number, received)
                parts.append((part_number, part.etag))
            await uploads.complete("lake", key, upload.upload_id, parts)

    asyncio.run(prepare())
    sweeps.pass_days(bench.lake, 1)
    assert sweeps.run(bench.lake).freed.files == 7
    assert sizes == [2, 1, 1, 2, 1]


def test_a_staged_create_keeps_its_place(bench: datafiles.Bench) -> None:
    lake = bench.lake

    async def prepare() -> None:
        staged = await bench.create("ns.t", stage=True)
        await bench.write(staged, rows(1), name="a.parquet")

    asyncio.run(prepare())
    before = sweeps.keys_in(lake)
    sweeps.pass_days(lake, 0.9)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 3)
    assert [each.key for each in sweeps.run(lake).listed] == ["ns/t/data/a.parquet"]
    assert sweeps.keys_in(lake) == before


def test_a_table_that_wants_no_collection_is_left_alone_purged_or_not(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> LoadedTable:
        loaded = await bench.create(properties={"gc.enabled": "false"})
        await bench.write(loaded, rows(1))
        return loaded

    loaded = asyncio.run(prepare())
    before = sweeps.keys_in(lake)
    sweeps.pass_days(lake, 1_000)
    assert sweeps.run(lake).listed == []
    asyncio.run(lake.tables.drop(loaded.ident, purge=True, by=BY))
    assert sweeps.run(lake).listed == []
    assert sweeps.keys_in(lake) == before


def test_a_purged_table_keeps_its_files_while_its_metadata_cannot_be_decoded(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata may say gc.enabled=false; only the process that decodes it has died."""
    lake = bench.lake
    monkeypatch.setattr(store, "SMALL_BYTES", 100)
    monkeypatch.setattr(decoding, "SECONDS_MAX", 0.001)

    async def prepare() -> None:
        loaded = await bench.create(properties={"gc.enabled": "false"})
        await bench.write(loaded, rows(1))
        await lake.tables.drop(loaded.ident, purge=True, by=BY)

    asyncio.run(prepare())
    before = sweeps.keys_in(lake)
    sweeps.pass_days(lake, 1_000)
    report = sweeps.run(lake)
    assert report.listed == []
    assert report.problems_count == 1
    assert sweeps.keys_in(lake) == before


def test_files_a_client_deleted_go_only_once_nothing_references_them(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> str:
        loaded = await bench.add(await bench.create(), rows(1))
        orphan = await bench.write(loaded, rows(2))
        (used,) = await live_keys(bench, loaded)
        for key in (used, key_of(orphan.file_path)):
            await lake.store.tombstone("lake", key, by=BY)
        return used

    used = asyncio.run(prepare())
    sweeps.pass_days(lake, 9.9)
    assert sweeps.run(lake).freed.files == 0
    sweeps.pass_days(lake, 0.2)
    report = sweeps.run(lake)
    assert report.freed.files == 1
    assert report.shown.files == 0, "a client's tombstone stays"
    assert used in sweeps.keys_in(lake)


@pytest.mark.parametrize("damaged", ["manifest-list", "manifest", "metadata"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_table_with_a_file_that_cannot_be_read_keeps_its_files_and_stops_no_other(
    bench: datafiles.Bench, damaged: str, moved: bool
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[LoadedTable, str]:
        gone = await bench.add(await bench.create("ns.gone"), rows(1))
        await lake.tables.drop(gone.ident, purge=True, by=BY)
        loaded = await bench.add(await bench.create("ns.broken"), rows(1))
        await bench.write(loaded, rows(2))
        snapshot = loaded.metadata.current_snapshot()
        assert snapshot is not None
        uri = {
            "manifest-list": snapshot["manifest-list"],
            "manifest": bench_manifest(lake, snapshot["manifest-list"]),
            "metadata": loaded.metadata_location,
        }[damaged]
        if moved:
            update = {"action": "set-location", "location": "s3://lake/ns/elsewhere"}
            await lake.tables.commit(loaded.ident, [], [update], by=BY, permit=lakes.permit_all)
        return loaded, uri

    _, uri = asyncio.run(prepare())
    before = sweeps.keys_in(lake, "ns/broken")
    damage(lake, uri)
    sweeps.pass_days(lake, 5)
    sweep = sweeps.sweep_of(lake)
    (dry,) = asyncio.run(sweep.sweep(["lake"], dry_run=True))
    report = sweeps.run(lake, sweep=sweep)
    for each in (dry, report):
        assert each.problems_count == 1
        assert each.problems[0].startswith(f"{uri} cannot be read: ")
    assert "boathouse_sweep_unreadable_files 1" in list(sweeping.format_metrics(sweep.totals))
    assert sweeps.keys_in(lake, "ns/gone") == set()
    assert sweeps.keys_in(lake, "ns/broken") == before
    shown = {info.key for info in lake.storage.objects.list("lake").objects}
    assert before <= shown, "nothing of the table is hidden"
    asyncio.run(lake.tables.drop(lake.ident("ns.broken"), purge=True, by=BY))
    report = sweeps.run(lake, sweep=sweep)
    assert report.problems_count == 0
    assert sweeps.keys_in(lake) == set()


def bench_manifest(lake: lakes.Lake, manifest_list: str) -> str:
    data = lake.storage.objects.read(lake.storage.objects.head("lake", key_of(manifest_list)))
    (listed,) = manifests.decode_manifest_list(data)
    return listed.manifest_path


def damage(lake: lakes.Lake, uri: str) -> None:
    """Replace the bytes of a table's file, as a failing disk might."""

    async def replace() -> None:
        received = await lake.storage.blobs.store(b"garbage", digests=frozenset({"md5"}))
        await lake.storage.objects.put(
            "lake", key_of(uri), received, attributes=model.ObjectAttributes()
        )

    asyncio.run(replace())


def test_a_sweep_under_steady_commits_frees_what_it_found(bench: datafiles.Bench) -> None:
    lake = bench.lake

    async def sweep_meanwhile() -> tuple[sweeping.Report, int]:
        for number in range(5):
            gone = await bench.add(await bench.create(f"ns.gone{number}"), rows(1))
            await lake.tables.drop(gone.ident, purge=True, by=BY)
        busy = [await bench.create(f"ns.busy{number}") for number in range(6)]
        done = asyncio.Event()
        counts = [0] * len(busy)

        async def commit_steadily(number: int) -> None:
            while not done.is_set():
                update = {"action": "set-properties", "updates": {"n": str(counts[number])}}
                await lake.tables.commit(busy[number].ident, [], [update], by=BY)
                counts[number] += 1
                await asyncio.sleep(0)

        writers = [asyncio.create_task(commit_steadily(n)) for n in range(len(busy))]
        try:
            (report,) = await sweeps.sweep_of(lake).sweep(["lake"])
        finally:
            done.set()
            await asyncio.gather(*writers)
        return report, sum(counts)

    report, commits = asyncio.run(sweep_meanwhile())
    assert report.state == "done", report.error
    assert commits > 12
    assert report.deferred.files == 0
    assert sweeps.keys_in(lake, "ns/gone") == set()


def test_commits_are_not_held_for_longer_than_their_bound(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "COMMITS_HELD_SECONDS_MAX", 0.05)

    async def commit_meanwhile() -> LoadedTable:
        loaded = await bench.create("ns.t")
        update = {"action": "set-properties", "updates": {"a": "b"}}
        with bench.lake.store.commits_held():
            return await bench.lake.tables.commit(loaded.ident, [], [update], by=BY)

    assert asyncio.run(commit_meanwhile()).metadata.properties["a"] == "b"


def test_a_table_whose_manifest_list_is_missing_keeps_its_files_and_stops_no_other(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> None:
        gone = await bench.add(await bench.create("ns.gone"), rows(1))
        await lake.tables.drop(gone.ident, purge=True, by=BY)
        loaded = await bench.create("ns.broken")
        await bench.write(loaded, rows(1))
        uri = f"{loaded.metadata.location}/metadata/snap-1.avro"
        await lake.tables.commit(loaded.ident, [], [snapshot_update(uri)], by=BY)

    asyncio.run(prepare())
    kept = sweeps.keys_in(lake, "ns/broken")
    sweeps.pass_days(lake, 1_000)
    report = sweeps.run(lake)
    assert report.problems == ["s3://lake/ns/broken/metadata/snap-1.avro does not exist"]
    assert sweeps.keys_in(lake) == kept


@pytest.mark.parametrize("damaged", ["manifest list", "manifest"])
def test_a_damaged_file_that_many_states_name_is_decoded_once(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    lake = bench.lake

    async def prepare() -> str:
        loaded = await bench.add(await bench.create("ns.broken"), rows(1))
        snapshot = loaded.metadata.current_snapshot()
        assert snapshot is not None
        for number in range(15):
            update = {"action": "set-properties", "updates": {"n": str(number)}}
            await lake.tables.commit(loaded.ident, [], [update], by=BY)
        uri = str(snapshot["manifest-list"])
        if damaged == "manifest":
            uri = bench_manifest(lake, uri)
            for number in range(15):  # each has a list of its own
                loaded = await bench.add(loaded, rows(2 + number))
        return uri

    uri = asyncio.run(prepare())
    damage(lake, uri)
    decoded: list[int] = []
    name = "decode_manifest_list" if damaged == "manifest list" else "live_entries"
    decode = getattr(manifests, name)

    def counting(data: bytes, *arguments: Any, **options: Any) -> Any:
        if data == b"garbage":
            decoded.append(len(data))
        return decode(data, *arguments, **options)

    monkeypatch.setattr(manifests, name, counting)
    report = sweeps.run(lake)
    assert report.metadata_files_read > 15
    assert report.problems_count == 1
    assert len(decoded) == 1


def snapshot_update(manifest_list: str) -> dict[str, Any]:
    return {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": lakes.NOW_MS,
            "summary": {"operation": "append"},
            "manifest-list": manifest_list,
            "schema-id": 0,
        },
    }


# What comes between mark and free.


class Between(sweeping.TableSweep):
    """A sweep between whose mark and whose changes something happens, once."""

    def __init__(self, lake: lakes.Lake, happening: Any) -> None:
        inner = sweeps.sweep_of(lake)
        super().__init__(store=lake.store, files=inner._files)
        self.happening = happening

    async def _change(self, *arguments: Any, **named: Any) -> None:
        if self.happening is not None:
            happening, self.happening = self.happening, None
            await happening()
        await super()._change(*arguments, **named)


def purged(bench: datafiles.Bench) -> LoadedTable:
    async def prepare() -> LoadedTable:
        loaded = await bench.add(await bench.create("ns.t"), rows(1))
        await bench.lake.tables.drop(loaded.ident, purge=True, by=BY)
        return loaded

    return asyncio.run(prepare())


def test_a_table_registered_between_mark_and_free_keeps_every_file(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake
    loaded = purged(bench)
    before = sweeps.keys_in(lake)

    async def register() -> None:
        assert loaded.pointer.metadata_location is not None
        await lake.tables.register(
            lake.ident("ns.again"),
            loaded.pointer.metadata_location,
            by=BY,
            permit=lakes.permit_all,
        )

    report = sweeps.run(lake, sweep=Between(lake, register))
    assert report.freed.files == 0
    assert sweeps.keys_in(lake) >= before
    again = lake.load(lake.ident("ns.again"))
    assert asyncio.run(live_keys(bench, again)) <= sweeps.keys_in(lake)
    sweeps.pass_days(lake, 100)
    sweeps.run(lake)
    assert asyncio.run(live_keys(bench, lake.load(again.ident))) <= sweeps.keys_in(lake)


def test_a_commit_of_an_old_file_between_mark_and_free_keeps_it(bench: datafiles.Bench) -> None:
    lake = bench.lake
    loaded = purged(bench)

    async def take_over() -> None:
        other = await bench.create("ns.other")
        shared = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
        await bench.appends.commit_files(
            other.ident, list(shared), operation="append", principal=ROOT
        )

    report = sweeps.run(lake, sweep=Between(lake, take_over))
    assert report.freed.files == 4, "two metadata files, a manifest list, a manifest"
    shared = asyncio.run(live_keys(bench, lake.load(lake.ident("ns.other"))))
    assert shared == sweeps.keys_in(lake, "ns/t/")


def test_an_upload_of_the_same_bytes_between_mark_and_free_brings_the_file_back(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[str, bytes]:
        loaded = await bench.create()
        orphan = await bench.write(loaded, rows(1))
        key = key_of(orphan.file_path)
        await lake.store.tombstone("lake", key, by=BY)
        return key, lake.storage.objects.read(lake.storage.objects.head("lake", key))

    key, data = asyncio.run(prepare())
    sweeps.pass_days(lake, 20)

    async def put_again() -> None:
        await bench.files.write(f"s3://lake/{key}", data, table_bucket="lake", owner=lakes.ACCOUNT)

    report = sweeps.run(lake, sweep=Between(lake, put_again))
    assert (report.freed.files, report.deferred.files) == (0, 1)
    assert key in {info.key for info in lake.storage.objects.list("lake").objects}


def test_a_location_that_changes_hands_between_mark_and_free_keeps_its_files(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake
    loaded = purged(bench)
    before = sweeps.keys_in(lake)

    async def stage() -> None:
        await lake.tables.create(
            lake.ident("ns.new"),
            schema=lakes.SCHEMA,
            location=loaded.metadata.location,
            stage=True,
            by=BY,
            permit=lakes.permit_all,
        )

    report = sweeps.run(lake, sweep=Between(lake, stage))
    assert report.freed.files == 0
    assert report.deferred.files > 0
    assert sweeps.keys_in(lake) == before


@pytest.mark.parametrize(
    ("setting", "value"),
    [(retention.REMOVES_UNREFERENCED, False), (retention.UNREFERENCED_DAYS, 90)],
)
def test_a_file_stays_listed_if_its_buckets_settings_keep_it_since_the_mark(
    bench: datafiles.Bench, setting: str, value: object
) -> None:
    lake = bench.lake

    async def prepare() -> None:
        await bench.write(await bench.create(), rows(1))

    async def keep() -> None:
        await lake.storage.buckets.change("lake", lambda settings: {**settings, setting: value})

    asyncio.run(prepare())
    before = {info.key for info in lake.storage.objects.list("lake").objects}
    sweeps.pass_days(lake, 20)
    report = sweeps.run(lake, sweep=Between(lake, keep))
    assert (report.hidden.files, report.deferred.files) == (0, 1)
    assert {info.key for info in lake.storage.objects.list("lake").objects} == before


def test_unrelated_commits_between_mark_and_free_delay_nothing(bench: datafiles.Bench) -> None:
    lake = bench.lake
    purged(bench)

    async def commit() -> None:
        await bench.add(await bench.create("ns.other"), rows(1))

    report = sweeps.run(lake, sweep=Between(lake, commit))
    assert report.deferred.files == 0
    assert sweeps.keys_in(lake, "ns/t/") == set()


def test_requests_are_answered_while_the_sweep_runs(bench: datafiles.Bench) -> None:
    """The sweep gives way: each of its steps is short, by the time that the loop's thread computes.

    What a step waits for is no part of it: a busy machine, and a slow disk, make any wait long.
    """
    lake = bench.lake
    longest, turns = 0.0, 0

    async def work() -> None:
        nonlocal longest, turns
        loaded = await bench.create()
        files = [await bench.write(loaded, rows(number)) for number in range(300)]
        await bench.appends.commit_files(loaded.ident, files, operation="append", principal=ROOT)
        await lake.tables.drop(loaded.ident, purge=True, by=BY)
        done = asyncio.ensure_future(sweeps.sweep_of(lake).sweep(["lake"]))
        while not done.done():
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)
            turns += 1
        (report,) = await done
        assert report.freed.files > 300

    asyncio.run(work())
    assert longest < 0.5
    assert turns > 20
    assert sweeps.keys_in(lake) == set()


def test_a_mark_reads_each_manifest_once(bench: datafiles.Bench) -> None:
    lake = bench.lake

    class Counting(manifestfiles.InlineDecoder):
        count = 0
        lists = 0

        async def decode(self, *arguments: Any) -> Any:
            Counting.count += 1
            return await super().decode(*arguments)

        async def decode_list(self, *arguments: Any) -> Any:
            Counting.lists += 1
            return await super().decode_list(*arguments)

    async def work() -> marking.Mark:
        loaded = await bench.create()
        for number in range(5):
            loaded = await bench.add(loaded, rows(number))
        mark = marking.Mark(
            store=lake.store,
            files=bench.files,
            decoder=Counting(),
            logs={},
            salt=b"s" * 16,
            day_ms=sweeps.DAY_MS,
        )
        await mark.run(now_ms=lake.clock())
        return mark

    mark = asyncio.run(work())
    assert (Counting.count, mark.manifests_count) == (5, 5)
    assert Counting.lists == 5
    assert mark.metadata_count == 6, "every state of the history window, each once"


@pytest.mark.timeout(60)
def test_a_mark_ends_though_a_bucket_is_deleted_while_it_catches_up(bench: datafiles.Bench) -> None:
    lake = bench.lake

    class Deleting(marking.Mark):
        async def _note_heads(self) -> None:
            await super()._note_heads()
            with lake.storage.index.view() as view:
                keys = [key for key, _ in view.scan(batch.Store.LOG, b"")]
            gone = [batch.Delete(store=batch.Store.LOG, key=key) for key in keys]
            await lake.storage.index.commit(batch.Batch(writes=gone))

    async def work() -> None:
        loaded = await bench.create()
        mark = Deleting(
            store=lake.store,
            files=bench.files,
            decoder=manifestfiles.InlineDecoder(),
            logs={},
            salt=b"s" * 16,
            day_ms=sweeps.DAY_MS,
        )
        await mark.run(now_ms=lake.clock())
        await bench.add(loaded, rows(1))
        await mark.catch_up()

    asyncio.run(work())


def test_a_sweep_of_no_table_bucket_is_refused(lake: lakes.Lake) -> None:
    with pytest.raises(errors.NoSuchWarehouse):
        asyncio.run(sweeps.sweep_of(lake).sweep(["nowhere"]))


# Views.


def test_superseded_metadata_of_a_view_is_hidden_then_freed_and_the_rest_stays(
    lake: lakes.Lake,
) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    ident = lake.ident("ns.v")

    async def prepare() -> tuple[str, str]:
        first = await lake.views.create(
            ident, schema=lakes.SCHEMA, view_version=lakes.VIEW_VERSION, by=BY
        )
        update = {"action": "set-properties", "updates": {"a": "1"}}
        second = await lake.views.replace(ident, [], [update], by=BY)
        return key_of(first.metadata_location), key_of(second.metadata_location)

    first, second = asyncio.run(prepare())
    sweeps.pass_days(lake, 6.9)
    assert sweeps.run(lake).hidden.files == 0, "the history window holds it"
    sweeps.pass_days(lake, 0.2)
    report = sweeps.run(lake)
    assert [each.key for each in report.listed if each.action == "hide"] == [first]
    sweeps.pass_days(lake, 10.1)
    assert sweeps.run(lake).freed.files == 1
    assert sweeps.keys_in(lake) == {second}
    assert asyncio.run(lake.views.fetch(ident)).metadata_location == f"s3://lake/{second}"


def test_the_file_of_a_dropped_view_is_kept_for_its_days_and_then_freed(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    ident = lake.ident("ns.v")
    created = lake.run(
        lake.views.create(ident, schema=lakes.SCHEMA, view_version=lakes.VIEW_VERSION, by=BY)
    )
    lake.run(lake.views.drop(ident, by=BY))
    sweeps.pass_days(lake, 29.9)
    assert sweeps.run(lake).hidden.files == 0
    restored = lake.run(
        lake.views.register(ident, created.metadata_location, by=BY, permit=lakes.permit_all)
    )
    assert restored.pointer.object_uuid == created.pointer.object_uuid
    sweeps.pass_days(lake, 30.2)
    assert sweeps.run(lake).hidden.files == 0, "it stands again"
    lake.run(lake.views.drop(ident, by=BY))
    sweeps.pass_days(lake, 30.1)
    assert sweeps.run(lake).hidden.files == 1
    sweeps.pass_days(lake, 10.1)
    assert sweeps.run(lake).freed.files == 1
    assert sweeps.keys_in(lake) == set()


def test_the_result_of_a_sweep_is_known_after_a_restart(tmp_path: Path) -> None:
    clock = lakes.Clock()
    with lakes.opened(tmp_path / "d", clock=clock) as lake:
        sweep = sweeps.sweep_of(lake)
        assert sweep.finished("lake") is None
        sweeps.run(lake, sweep=sweep, dry_run=True)
        assert sweeps.sweep_of(lake).finished("lake") is None
        clock.now_ms += 1_000
        sweeps.run(lake, sweep=sweep)
    with lakes.opened(tmp_path / "d", clock=clock) as lake:
        report = sweeps.sweep_of(lake).finished("lake")
        assert report is not None
        assert (report.state, report.error) == ("done", None)
        assert report.started_at_ms == report.ended_at_ms == lakes.NOW_MS + 1_000


STATISTICS = ("statistics", "partition-statistics")


def test_a_sweep_keeps_statistics_files_as_long_as_the_table_names_them(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake
    loaded = asyncio.run(bench.add(asyncio.run(bench.create()), rows(1)))
    snapshot_id = loaded.metadata.current_snapshot_id
    home = key_of(loaded.metadata.location)
    keys = {
        "statistics": f"{home}/metadata/0001-a.stats",
        "partition-statistics": f"{home}/metadata/partition-stats-0001-a.parquet",
    }

    async def put(key: str) -> None:
        received = await lake.storage.blobs.store(b"PFA1", digests=frozenset({"md5"}))
        await lake.storage.objects.put("lake", key, received, attributes=model.ObjectAttributes())

    for key in keys.values():
        asyncio.run(put(key))
    file = {"snapshot-id": snapshot_id, "file-size-in-bytes": 4}
    more = {"file-footer-size-in-bytes": 4, "blob-metadata": []}
    updates = [
        {
            "action": f"set-{name}",
            name: {
                **file,
                "statistics-path": f"s3://lake/{keys[name]}",
                **(more if name == "statistics" else {}),
            },
        }
        for name in STATISTICS
    ]
    asyncio.run(lake.tables.commit(loaded.ident, [], updates, by=BY))
    for _ in range(3):
        sweeps.pass_days(lake, 15)
        sweeps.run(lake)
    shown = {info.key for info in lake.storage.objects.list("lake").objects}
    assert set(keys.values()) <= shown

    removals = [{"action": f"remove-{name}", "snapshot-id": snapshot_id} for name in STATISTICS]
    asyncio.run(lake.tables.commit(loaded.ident, [], removals, by=BY))
    for _ in range(3):
        sweeps.pass_days(lake, 15)
        sweeps.run(lake)
    assert not set(keys.values()) & sweeps.keys_in(lake)
    assert asyncio.run(live_keys(bench, lake.load(loaded.ident))) <= sweeps.keys_in(lake)


async def start(sweep: sweeping.TableSweep, object_uuid: str, *, dry_run: bool) -> sweeping.Report:
    """Sweep one table on demand, and wait for the end."""
    report = sweep.start("lake", dry_run=dry_run, object_uuid=object_uuid)
    while report.state in ("waiting", "running"):  # noqa: ASYNC110 - a client polls, too
        await asyncio.sleep(0)
    assert report.state == "done", report.error
    assert sweep.report("lake", dry_run=dry_run, object_uuid=object_uuid) is report
    return report


def test_a_sweep_of_one_table_leaves_the_others_and_says_what_waits_and_how_old_it_is(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake
    sweep = sweeps.sweep_of(lake)
    orphan, others = "ns/t/data/orphan.parquet", "ns/u/data/orphan.parquet"

    async def prepare() -> str:
        loaded = await bench.add(await bench.create("ns.t"), rows(1))
        await bench.add(await bench.create("ns.u"), rows(1))
        for key in (orphan, others):
            received = await lake.storage.blobs.store(b"body", digests=frozenset({"md5"}))
            await lake.storage.objects.put(
                "lake", key, received, attributes=model.ObjectAttributes()
            )
        return lake.tables.pointer(loaded.ident).object_uuid

    object_uuid = asyncio.run(prepare())
    before, put_at_ms = sweeps.keys_in(lake), lake.clock.now_ms

    def expect(action: str, *, hidden_at_ms: int | None) -> list[sweeping.ListedFile]:
        return [
            sweeping.ListedFile(
                action=action, key=orphan, size_bytes=4, modified_at_ms=put_at_ms,
                hidden_at_ms=hidden_at_ms,
            )
        ]  # fmt: skip

    report = asyncio.run(start(sweep, object_uuid, dry_run=False))
    assert report.waiting_listed == expect("wait", hidden_at_ms=None)
    assert (report.waiting.files, report.hidden.files, report.listed) == (1, 0, [])

    sweeps.pass_days(lake, 3)
    report = asyncio.run(start(sweep, object_uuid, dry_run=True))
    assert report.listed == expect("hide", hidden_at_ms=None)
    assert others in {info.key for info in lake.storage.objects.list("lake").objects}
    assert orphan in {info.key for info in lake.storage.objects.list("lake").objects}

    hidden_at_ms = lake.clock.now_ms
    asyncio.run(start(sweep, object_uuid, dry_run=False))
    shown = {info.key for info in lake.storage.objects.list("lake").objects}
    assert shown == before - {orphan}
    sweeps.pass_days(lake, 9.9)
    report = asyncio.run(start(sweep, object_uuid, dry_run=True))
    assert report.waiting_listed == expect("wait", hidden_at_ms=hidden_at_ms)
    sweeps.pass_days(lake, 0.2)
    report = asyncio.run(start(sweep, object_uuid, dry_run=False))
    assert report.listed == expect("free", hidden_at_ms=hidden_at_ms)
    assert report.freed == sweeping.Tally(files=1, size_bytes=4)
    assert sweeps.keys_in(lake) == before - {orphan}
    assert sweep.finished("lake") is None, "it is no sweep of the table bucket"
    # A sweep of all lists no file that waits, and counts it.
    whole = sweeps.run(lake, sweep=sweep)
    assert [each.key for each in whole.listed if "orphan" in each.key] == [others]
    assert whole.waiting_listed == []


def test_a_sweep_of_one_dropped_table_leaves_what_a_restore_needs(bench: datafiles.Bench) -> None:
    """A sweep of its bucket alone ends the time in which it can be restored."""
    lake = bench.lake

    async def prepare() -> LoadedTable:
        loaded = await bench.add(await bench.create(), rows(1))
        await lake.tables.drop(loaded.ident, by=BY)
        return loaded

    loaded = asyncio.run(prepare())
    sweeps.pass_days(lake, 40)
    sweep = sweeps.sweep_of(lake)
    report = asyncio.run(start(sweep, loaded.pointer.object_uuid, dry_run=False))
    assert (report.state, report.listed) == ("done", [])
    asyncio.run(lake.tables.undrop(loaded.ident, by=BY))
    shown = {info.key for info in lake.storage.objects.list("lake").objects}
    assert asyncio.run(live_keys(bench, lake.load(loaded.ident))) <= shown


def test_totals_count_what_sweeps_did_and_no_dry_run(bench: datafiles.Bench) -> None:
    lake = bench.lake
    sweep = sweeps.sweep_of(lake)

    async def prepare() -> None:
        await bench.write(await bench.create(), rows(1))

    def totals() -> tuple[int, int, int]:
        return sweep.totals.runs["done"], sweep.totals.hidden.files, sweep.totals.freed.files

    asyncio.run(prepare())
    sweeps.pass_days(lake, 20)
    dry = sweeps.run(lake, sweep=sweep, dry_run=True)
    assert (dry.hidden.files, dry.objects_seen) == (1, len(sweeps.keys_in(lake)))
    assert totals() == (0, 0, 0)
    sweeps.run(lake, sweep=sweep)
    assert totals() == (1, 1, 0)
    sweeps.pass_days(lake, 20)
    sweeps.run(lake, sweep=sweep)
    assert totals() == (2, 1, 1)


def test_reports_of_tables_are_bounded_and_the_oldest_that_is_over_goes(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TABLE_REPORTS_MAX", 2)
    sweep = sweeps.sweep_of(lake)

    def state(object_uuid: str) -> str:
        return sweep.report("lake", dry_run=True, object_uuid=object_uuid).state

    async def scenario() -> None:
        for object_uuid in ("a", "b", "c"):
            await start(sweep, object_uuid, dry_run=True)
        assert [state(each) for each in "abc"] == ["never run", "done", "done"]
        for object_uuid in ("d", "e"):
            sweep.start("lake", dry_run=True, object_uuid=object_uuid)
        with pytest.raises(server_errors.ServerBusy):
            sweep.start("lake", dry_run=True, object_uuid="f")
        await sweep.stop()

    asyncio.run(scenario())
