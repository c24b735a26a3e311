"""Scan planning: the right files of one snapshot, pruned, cached, whatever else is committed."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from catalog import (
    errors,
    expressions,
    files,
    guard,
    manifests,
    pruning,
    scan_pages,
    scans,
    values,
)
from catalog.commits import LoadedTable
from catalog.metadata import model
from tests.kit import datafiles, lakes, manifestfiles

BY = lakes.BY
ROOT = lakes.ROOT
PARTITIONED = {
    "fields": [{"source-id": 1, "field-id": 1000, "name": "id_bucket", "transform": "truncate[10]"}]
}


@pytest.fixture
def bench(lake: lakes.Lake) -> datafiles.Bench:
    return datafiles.bench(lake)


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in numbers]


def records(plan: scans.ScanPlan) -> int:
    return sum(task.data_file.record_count for task in plan.tasks)


class Counting(files.Files):
    """Counts what is read."""

    def __init__(self, lake: lakes.Lake) -> None:
        rules = guard.TableGuard(store=lake.store, region="us-east-1", account_id=lakes.ACCOUNT)
        super().__init__(objects=lake.storage.objects, blobs=lake.storage.blobs, guard=rules)
        self.read_uris: list[str] = []

    def read(self, file: files.OpenedFile) -> bytes:
        self.read_uris.append(file.uri)
        return super().read(file)


def test_plan_of_a_table_without_snapshots_is_empty(bench: datafiles.Bench) -> None:
    async def work() -> scans.ScanPlan:
        return await bench.scans.plan(bench.reader(await bench.create()))

    plan = asyncio.run(work())
    assert (plan.snapshot_id, plan.tasks, plan.manifests_total) == (None, (), 0)
    assert plan.schema == lakes.SCHEMA


def test_plan_prunes_manifests_by_partition_and_files_by_bounds(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, list[scans.ScanPlan]]:
        loaded = await bench.create(partition_spec=PARTITIONED)
        for decade in (0, 10, 20):
            low, high = [
                await bench.write(loaded, rows(*numbers), partition=(decade,))
                for numbers in ((decade, decade + 1), (decade + 8, decade + 9))
            ]
            loaded = await bench.appends.commit_files(
                loaded.ident, [low, high], operation="append", principal=ROOT
            )
        plans = [
            await bench.scans.plan(bench.reader(loaded), predicate=predicate)
            for predicate in (
                pruning.ALWAYS,
                pruning.Comparison(op="eq", column=1, value=11),
                pruning.Comparison(op="gt", column=1, value=18),
                pruning.Comparison(op="lt", column=1, value=0),
                pruning.Membership(column=1, values=(0, 29)),
            )
        ]
        return loaded, plans

    _, plans = asyncio.run(work())
    assert [
        (plan.manifests_total, plan.manifests_read, plan.files_considered, len(plan.tasks))
        for plan in plans
    ] == [(3, 3, 6, 6), (3, 1, 2, 1), (3, 2, 4, 3), (3, 0, 0, 0), (3, 2, 4, 2)]


def test_plan_of_an_older_snapshot_sees_what_it_saw_with_its_own_schema(
    bench: datafiles.Bench,
) -> None:
    async def work() -> tuple[scans.ScanPlan, scans.ScanPlan]:
        loaded = await bench.create()
        first = await bench.add(loaded, rows(1, 2))
        wider = {"id": 3, "name": "more", "required": False, "type": "int"}
        await bench.lake.tables.commit(
            first.ident,
            [],
            [
                {
                    "action": "add-schema",
                    "schema": {"fields": [*lakes.SCHEMA["fields"], wider]},
                },
                {"action": "set-current-schema", "schema-id": -1},
            ],
            by=BY,
        )
        second = await bench.add(bench.lake.load(first.ident), rows(3))
        old = await bench.scans.plan(
            bench.reader(second), snapshot_id=first.metadata.current_snapshot_id
        )
        return old, await bench.scans.plan(bench.reader(second))

    old, new = asyncio.run(work())
    assert (records(old), old.schema) == (2, lakes.SCHEMA)
    assert records(new) == 3
    assert [column["name"] for column in new.schema["fields"]] == ["id", "name", "more"]


def test_entries_of_a_large_manifest_are_put_in_chunks_in_a_thread(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    parts_of = scans.parts_of

    def noting(*values: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return parts_of(*values)

    monkeypatch.setattr(scans, "parts_of", noting)

    async def work() -> None:
        loaded = await bench.add(await bench.create(), rows(1))
        for here_max, is_main in ((1, True), (0, False)):
            monkeypatch.setattr(scans, "ENTRIES_HERE_MAX", here_max)
            threads.clear()
            planner = scans.Scans(files=bench.files, decoder=manifestfiles.InlineDecoder())
            plan = await planner.plan(bench.reader(loaded))
            assert (records(plan), threads) == (1, [is_main])

    bench.lake.run(work())


class PackingDecoder(manifestfiles.InlineDecoder):
    """Leaves metrics packed, as the decoding child does."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        return manifests.unpack_entries(
            manifests.pack_entries(await super().decode(data, manifest))
        )


def test_entries_with_large_metrics_are_filtered_few_at_once(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = range(1, 1_001)
    wide = manifests.Metrics(
        value_counts=dict.fromkeys(columns, 1),
        null_value_counts=dict.fromkeys(columns, 0),
        lower_bounds=dict.fromkeys(columns, b"12345678"),
        upper_bounds=dict.fromkeys(columns, b"12345678"),
    )
    schema = {
        "type": "struct",
        "fields": [
            {"id": column, "name": f"c{column}", "required": False, "type": "long"}
            for column in columns
        ],
    }

    planner = scans.Scans(files=bench.files, decoder=PackingDecoder())

    async def work() -> tuple[tuple[manifests.ManifestEntry, ...], list[int]]:
        loaded = await bench.create(schema=schema)
        location = loaded.metadata.location
        data_files = [
            manifests.DataFile(
                file_path=f"{location}/data/{number:05}.parquet",
                file_format="PARQUET",
                record_count=1,
                file_size_in_bytes=1,
                metrics=wide,
            )
            for number in range(10)
        ]
        loaded = await bench.appends.commit_files(
            loaded.ident, data_files, operation="append", principal=ROOT
        )
        reader = bench.reader(loaded)
        snapshot_id = loaded.metadata.current_snapshot_id
        assert snapshot_id is not None
        names = expressions.ColumnNames(schema, case_sensitive=True)
        (manifest,) = await planner.manifests_of(reader, snapshot_id)
        live = await planner.entries_of(manifest, reader)
        packed_bytes = live[0].data_file.metrics.packed_bytes
        assert packed_bytes > 10_000
        monkeypatch.setattr(scans, "METRICS_BYTES_AT_ONCE", 3 * packed_bytes)
        scan = scan_pages.Scan(
            snapshot_id=snapshot_id,
            after=None,
            filter=expressions.parse({"type": "not-null", "term": "c1"}, names),
            schema=schema,
        )
        fresh = scans.Scans(files=bench.files, decoder=PackingDecoder())
        pages = scan_pages.ScanPages(scans=fresh)
        listing = await pages.list(reader, scan)
        steps = pages.read(
            reader, scan, listing, start=scan_pages.Position(), end=len(listing.data)
        )
        return live, [step.entries async for step in steps]

    live, entries = bench.lake.run(work())
    assert entries == [3, 3, 3, 1]
    parts = scans.parts_of(live, 2, start=5)
    assert list(parts) == [range(5, 7), range(7, 9), range(9, 10)]


def test_a_second_page_of_a_manifest_reads_no_metrics_again(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "CHUNK_ENTRIES", 4)
    schema = {
        "type": "struct",
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    unpacks = 0
    unpacked = manifests.Metrics.unpacked

    def counting(metrics: manifests.Metrics) -> tuple[Any, ...]:
        nonlocal unpacks
        unpacks += 1
        return unpacked(metrics)

    async def work() -> list[tuple[list[int], list[int], bool]]:
        nonlocal unpacks
        loaded = await bench.create(schema=schema)
        data_files = [
            manifests.DataFile(
                file_path=f"{loaded.metadata.location}/data/{number:05}.parquet",
                file_format="PARQUET",
                record_count=1,
                file_size_in_bytes=number,
                metrics=manifests.Metrics(
                    value_counts={1: 1},
                    null_value_counts={1: 0},
                    lower_bounds={1: values.to_bytes("long", number)},
                    upper_bounds={1: values.to_bytes("long", number)},
                ),
            )
            for number in range(1, 11)
        ]
        loaded = await bench.appends.commit_files(
            loaded.ident, data_files, operation="append", principal=ROOT
        )
        reader = bench.reader(loaded)
        assert loaded.metadata.current_snapshot_id is not None
        names = expressions.ColumnNames(schema, case_sensitive=True)
        fresh = scans.Scans(files=bench.files, decoder=PackingDecoder())
        pages = scan_pages.ScanPages(scans=fresh)
        monkeypatch.setattr(manifests.Metrics, "unpacked", counting)
        outcomes = []
        for least, entry in ((7, 0), (6, 6), (11, 0)):
            scan = scan_pages.Scan(
                snapshot_id=loaded.metadata.current_snapshot_id,
                after=None,
                filter=expressions.parse({"type": "gt-eq", "term": "id", "value": least}, names),
                schema=schema,
            )
            listing = await pages.list(reader, scan)
            start = scan_pages.Position(manifest=0, entry=entry)
            steps = [step async for step in pages.read(reader, scan, listing, start=start, end=1)]
            sizes = [task.data_file.file_size_in_bytes for step in steps for task, _ in step.tasks]
            outcomes.append((sizes, [step.after.entry for step in steps], unpacks > 0))
            unpacks = 0
        return outcomes

    assert bench.lake.run(work()) == [
        ([7, 8, 9, 10], [4, 8, 10], True),
        ([7, 8, 9, 10], [8, 10], False),
        ([], [10], False),
    ]


def test_a_plan_of_manifests_that_filters_have_read_waits_for_nothing(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "CHUNK_ENTRIES", 4)
    compiled = 0
    metrics_filter = pruning.MetricsFilter

    def counting(*values: Any) -> pruning.MetricsFilter:
        nonlocal compiled
        compiled += 1
        return metrics_filter(*values)

    async def work() -> tuple[list[str], list[str]]:
        nonlocal compiled
        loaded = await bench.create()
        for first in (0, 20):
            files = [await bench.write(loaded, rows(first + number)) for number in range(20)]
            loaded = await bench.appends.commit_files(
                loaded.ident, files, operation="append", principal=ROOT
            )
        snapshot_id = loaded.metadata.current_snapshot_id
        assert snapshot_id is not None
        names = expressions.ColumnNames(lakes.SCHEMA, case_sensitive=True)
        scanned = scan_pages.Scan(
            snapshot_id=snapshot_id,
            after=None,
            filter=expressions.parse({"type": "in", "term": "id", "values": [9, 31]}, names),
            schema=lakes.SCHEMA,
        )
        pages = scan_pages.ScanPages(scans=bench.scans)

        async def plan() -> list[str]:
            reader = bench.reader(loaded)
            listing = await pages.list(reader, scanned)
            start, end = scan_pages.Position(), len(listing.data)
            return [
                task.data_file.file_path.rpartition("/")[2]
                async for step in pages.read(reader, scanned, listing, start=start, end=end)
                for task, _ in step.tasks
            ]

        cold = await plan()
        monkeypatch.setattr(pruning, "MetricsFilter", counting)
        warm = plan()
        with pytest.raises(StopIteration) as done:
            warm.send(None)  # a coroutine that waits would yield what it waits for
        return cold, done.value.value

    cold, warm = bench.lake.run(work())
    assert sorted(cold) == sorted(warm) == ["00009.parquet", "00031.parquet"]
    assert compiled == 1, "one plan compiles its filter once"


def test_ranges_that_filters_of_many_columns_leave_are_bounded(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "CHUNK_ENTRIES", 4)
    monkeypatch.setattr(scans, "RANGES_KEPT_MAX", 40)
    columns = range(1, 21)
    schema = {
        "type": "struct",
        "fields": [
            {"id": column, "name": f"c{column}", "required": False, "type": "long"}
            for column in columns
        ],
    }

    async def work() -> list[tuple[int, int]]:
        loaded = await bench.create(schema=schema)
        data_files = [
            manifests.DataFile(
                file_path=f"{loaded.metadata.location}/data/{number:05}.parquet",
                file_format="PARQUET",
                record_count=1,
                file_size_in_bytes=1,
            )
            for number in range(10)
        ]
        loaded = await bench.appends.commit_files(
            loaded.ident, data_files, operation="append", principal=ROOT
        )
        reader = bench.reader(loaded)
        assert loaded.metadata.current_snapshot_id is not None
        fresh = scans.Scans(files=bench.files, decoder=PackingDecoder())
        (manifest,) = await fresh.manifests_of(reader, loaded.metadata.current_snapshot_id)
        outcomes = []
        for first in (1, 6, 11, 16):
            predicate = pruning.And(
                parts=tuple(
                    pruning.Comparison(op="eq", column=column, value=7)
                    for column in range(first, first + 5)
                )
            )
            plan = await fresh.plan(reader, predicate=predicate)
            (chunks,) = await fresh.chunks_of((manifest,), reader)
            kept = sum(len(chunk.ranges) * len(chunk.entries) for chunk in chunks)
            outcomes.append((len(plan.tasks), kept))
        return outcomes

    assert all(files == 10 and 0 < kept <= 40 for files, kept in bench.lake.run(work()))


def test_plan_of_an_unknown_snapshot_is_refused(bench: datafiles.Bench) -> None:
    async def work() -> None:
        with pytest.raises(errors.NoSuchSnapshot, match="Snapshot does not exist: 99"):
            await bench.scans.plan(bench.reader(await bench.create()), snapshot_id=99)

    asyncio.run(work())


def test_plan_twice_reads_no_file_twice(bench: datafiles.Bench) -> None:
    counting = Counting(bench.lake)
    planner = scans.Scans(files=counting, decoder=manifestfiles.InlineDecoder())

    async def work() -> None:
        loaded = await bench.create()
        loaded = await bench.add(loaded, rows(1))
        loaded = await bench.add(loaded, rows(2))
        await planner.plan(bench.reader(loaded))
        assert len(counting.read_uris) == len(set(counting.read_uris)) == 3
        again = await planner.plan(bench.reader(loaded))
        assert len(counting.read_uris) == 3
        assert records(again) == 2
        loaded = await bench.add(loaded, rows(3))
        await planner.plan(bench.reader(loaded))
        assert len(counting.read_uris) == 5  # a new list, a new manifest

    asyncio.run(work())


def test_plans_at_the_same_time_read_each_file_once(bench: datafiles.Bench) -> None:
    counting = Counting(bench.lake)
    planner = scans.Scans(files=counting, decoder=manifestfiles.InlineDecoder())

    async def work() -> None:
        loaded = await bench.add(await bench.create(), rows(1))
        await asyncio.gather(*(planner.plan(bench.reader(loaded)) for _ in range(8)))
        manifests_read = [uri for uri in counting.read_uris if uri.endswith("-m0.avro")]
        assert len(manifests_read) <= scans.READS_AT_ONCE_MAX

    asyncio.run(work())


def test_what_is_cached_stays_within_its_bound(bench: datafiles.Bench) -> None:
    counting = Counting(bench.lake)
    planner = scans.Scans(
        files=counting, decoder=manifestfiles.InlineDecoder(), cache_bytes_max=2 * scans.ENTRY_BYTES
    )

    async def work() -> None:
        loaded = await bench.create()
        for number in range(4):
            loaded = await bench.add(loaded, rows(number))
        for _ in range(2):
            assert records(await planner.plan(bench.reader(loaded))) == 4
        assert planner._cache._bytes <= 2 * scans.ENTRY_BYTES
        assert len(counting.read_uris) > 5

    asyncio.run(work())


def test_a_missing_manifest_is_named_in_the_error(bench: datafiles.Bench) -> None:
    async def work() -> None:
        loaded = await bench.add(await bench.create(), rows(1))
        (name,) = [key for key in bench.keys(loaded) if key.endswith("-m0.avro")]
        uri = f"{loaded.metadata.location}/metadata/{name}"
        await bench.files.remove(uri, table_bucket="lake")
        with pytest.raises(errors.MetadataFileMissing, match=f"file: {uri}$"):
            await bench.scans.plan(bench.reader(loaded))

    asyncio.run(work())


def test_a_malformed_manifest_is_named_in_the_error(bench: datafiles.Bench) -> None:
    async def work() -> None:
        loaded = await bench.create()
        uri = f"{loaded.metadata.location}/metadata/snap-1-1-x.avro"
        await bench.files.write(uri, b"no avro", table_bucket="lake", owner=lakes.ACCOUNT)
        snapshot = {
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": lakes.NOW_MS,
            "manifest-list": uri,
            "summary": {"operation": "append"},
        }
        loaded = await bench.lake.tables.commit(
            loaded.ident, [], [{"action": "add-snapshot", "snapshot": snapshot}], by=BY
        )
        with pytest.raises(errors.InvalidMetadataFile, match="not an Avro container file"):
            await bench.scans.plan(bench.reader(loaded), snapshot_id=1)

    asyncio.run(work())


def test_what_is_no_object_here_is_not_opened(bench: datafiles.Bench) -> None:
    reader = bench.reader(asyncio.run(bench.create()))
    for uri in (
        "file:///etc/passwd",
        "/etc/passwd",
        "s3://other/x.avro",
        "s3:///x",
        "s3://lake/",
        "s3://lake",
        "s3://lake/\ud800",
        "s3://" + "b" * 70_000 + "/x",
        "s3://lake/" + "k" * 70_000,
    ):
        with pytest.raises(errors.MetadataFileMissing):
            bench.files.open(reader.file(uri))


def test_snapshots_of_v1_that_list_their_manifests_are_read(bench: datafiles.Bench) -> None:
    async def work() -> scans.ScanPlan:
        loaded = await bench.create(properties={"format-version": "1"})
        loaded = await bench.add(loaded, rows(1, 2))
        snapshot = loaded.metadata.current_snapshot()
        assert snapshot is not None
        listed = await bench.scans.manifests_of(bench.reader(loaded), snapshot["snapshot-id"])
        document = json.loads(model.encode(loaded.metadata))
        (old,) = document["snapshots"]
        del old["manifest-list"]
        old["manifests"] = [manifest.manifest_path for manifest in listed]
        aged = LoadedTable(
            ident=loaded.ident,
            pointer=loaded.pointer,
            metadata=model.decode(json.dumps(document).encode()),
            data=b"",
        )
        return await bench.scans.plan(bench.reader(aged))

    plan = asyncio.run(work())
    assert records(plan) == 2
    assert [task.sequence_number for task in plan.tasks] == [0]


def test_live_files_are_data_and_deletes_alike(bench: datafiles.Bench) -> None:
    async def work() -> list[manifests.Content]:
        loaded = await bench.create()
        data = await bench.write(loaded, rows(1))
        equality = manifests.DataFile(
            file_path=f"{loaded.metadata.location}/data/eq.parquet",
            file_format="PARQUET",
            record_count=1,
            file_size_in_bytes=1,
            content=manifests.Content.EQUALITY_DELETES,
            equality_ids=(1,),
        )
        loaded = await bench.appends.commit_files(
            loaded.ident, [data, equality], operation="overwrite", principal=ROOT
        )
        return sorted(
            file.content
            for file in await manifestfiles.live_files(bench.scans, bench.reader(loaded))
        )

    assert asyncio.run(work()) == [manifests.Content.DATA, manifests.Content.EQUALITY_DELETES]
