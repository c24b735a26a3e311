"""Appends: snapshots whose files are there, whose totals are exact, and that race well."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from catalog import appends, errors, manifest_encoding, manifests, scans
from catalog.commits import LoadedTable
from catalog.manifests import Content, DataFile
from catalog.metadata import errors as metadata_errors
from tests.kit import datafiles, lakes, manifestfiles

BY = lakes.BY
ROOT = lakes.ROOT
PARTITIONED = {
    "fields": [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}]
}


@pytest.fixture
def bench(lake: lakes.Lake) -> datafiles.Bench:
    return datafiles.bench(lake)


def rows(*numbers: int, name: str | None = "x") -> list[dict[str, Any]]:
    return [{"id": number, "name": name} for number in numbers]


def summary_of(loaded: LoadedTable) -> dict[str, str]:
    snapshot = loaded.metadata.current_snapshot()
    assert snapshot is not None
    summary: dict[str, str] = snapshot["summary"]
    return summary


def by_id(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


async def live_paths(bench: datafiles.Bench, loaded: LoadedTable) -> list[str]:
    plan = await bench.scans.plan(bench.reader(loaded))
    return sorted(task.data_file.file_path.rpartition("/")[2] for task in plan.tasks)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_append_is_read_by_other_engines(
    bench: datafiles.Bench, version: int, tmp_path: Path
) -> None:
    async def work() -> LoadedTable:
        loaded = await bench.create(
            properties={"format-version": str(version)}, partition_spec=PARTITIONED
        )
        await bench.add(loaded, rows(1, 2, name="a"), partition=("a",))
        await bench.add(loaded, rows(3, name=None), partition=(None,))
        return await bench.add(loaded, rows(4, 5, name="b"), partition=("b",))

    loaded = asyncio.run(work())
    metadata_file = bench.export(loaded, tmp_path / "out")
    expected = [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "a"},
        {"id": 3, "name": None},
        {"id": 4, "name": "b"},
        {"id": 5, "name": "b"},
    ]
    read = datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out")
    assert sorted(read, key=lambda row: row["id"]) == expected
    read = datafiles.rows_by_duckdb(metadata_file, tmp_path / "extensions")
    assert sorted(read, key=lambda row: row["id"]) == expected


def test_append_builds_a_snapshot_as_the_specification_wants_it(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, LoadedTable]:
        created = await bench.create(properties={"format-version": "3"})
        first = await bench.add(created, rows(1, 2))
        return first, await bench.add(first, rows(3))

    first, second = asyncio.run(work())
    one, two = first.metadata.current_snapshot(), second.metadata.current_snapshot()
    assert one is not None
    assert two is not None
    assert one["manifest-list"].startswith(f"s3://lake/ns/t/metadata/snap-{one['snapshot-id']}-1-")
    assert "parent-snapshot-id" not in one
    assert two["parent-snapshot-id"] == one["snapshot-id"]
    assert [one["sequence-number"], two["sequence-number"]] == [1, 2]
    assert [one["first-row-id"], one["added-rows"]] == [0, 2]
    assert [two["first-row-id"], two["added-rows"]] == [2, 1]
    assert second.metadata.next_row_id == 3
    assert one["schema-id"] == 0
    assert one["timestamp-ms"] == lakes.NOW_MS
    assert 0 < one["snapshot-id"] < 2**63


def test_append_keeps_totals_exact(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, list[DataFile]]:
        loaded = await bench.create()
        files = [await bench.write(loaded, rows(*range(n))) for n in (3, 4)]
        await bench.appends.commit_files(loaded.ident, files, operation="append", principal=ROOT)
        files.append(await bench.write(loaded, rows(9)))
        return await bench.appends.commit_files(
            loaded.ident,
            files[2:],
            operation="append",
            summary={"engine-name": "boathouse", "total-records": "no", "operation": "no"},
            principal=ROOT,
        ), files

    loaded, files = asyncio.run(work())
    sizes = [file.file_size_in_bytes for file in files]
    assert summary_of(loaded) == {
        "operation": "append",
        "engine-name": "boathouse",
        "added-data-files": "1",
        "added-records": "1",
        "added-files-size": str(sizes[2]),
        "changed-partition-count": "1",
        "total-data-files": "3",
        "total-records": "8",
        "total-files-size": str(sum(sizes)),
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_totals_are_counted_where_the_parent_does_not_state_them(bench: datafiles.Bench) -> None:
    async def work() -> LoadedTable:
        loaded = await bench.create()
        loaded = await bench.add(loaded, rows(1, 2, 3))
        head = loaded.metadata.current_snapshot()
        assert head is not None
        bare = {**head, "snapshot-id": 5, "sequence-number": 2, "summary": {"operation": "append"}}
        await bench.lake.tables.commit(
            loaded.ident,
            [],
            [
                {"action": "add-snapshot", "snapshot": bare},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": 5,
                },
            ],
            by=BY,
        )
        return await bench.add(loaded, rows(4))

    summary = summary_of(asyncio.run(work()))
    assert (summary["total-records"], summary["total-data-files"]) == ("4", "2")


# --- removing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_overwrite_removes_files_and_adds_others_in_one_snapshot(
    bench: datafiles.Bench, version: int, tmp_path: Path
) -> None:
    async def work() -> LoadedTable:
        loaded = await bench.create(properties={"format-version": str(version)})
        old = [await bench.write(loaded, rows(n), name=f"{n}.parquet") for n in (1, 2, 3)]
        loaded = await bench.appends.commit_files(
            loaded.ident, old, operation="append", principal=ROOT
        )
        new = await bench.write(loaded, rows(20, 21), name="20.parquet")
        return await bench.appends.commit_files(
            loaded.ident,
            [new],
            operation="overwrite",
            removed=[old[1]],
            based_on=loaded.metadata.current_snapshot_id,
            principal=ROOT,
        )

    loaded = asyncio.run(work())
    assert asyncio.run(live_paths(bench, loaded)) == ["1.parquet", "20.parquet", "3.parquet"]
    summary = summary_of(loaded)
    assert {name: summary[name] for name in summary if "records" in name} == {
        "added-records": "2",
        "deleted-records": "1",
        "total-records": "4",
    }
    assert summary["deleted-data-files"] == "1"
    assert (summary["operation"], summary["total-data-files"]) == ("overwrite", "3")
    metadata_file = bench.export(loaded, tmp_path)
    assert by_id(datafiles.rows_by_pyiceberg(metadata_file, tmp_path)) == [1, 3, 20, 21]


def test_rewritten_manifests_keep_each_files_own_numbers(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, list[scans.FileTask], list[manifests.ManifestEntry]]:
        loaded = await bench.create(properties={"format-version": "3"})
        old = [await bench.write(loaded, rows(n, n + 1), name=f"{n}.parquet") for n in (1, 3, 5)]
        loaded = await bench.appends.commit_files(
            loaded.ident, old, operation="append", principal=ROOT
        )
        first = loaded.metadata.current_snapshot_id
        loaded = await bench.appends.commit_files(
            loaded.ident,
            [],
            operation="delete",
            removed=[old[0]],
            based_on=first,
            principal=ROOT,
        )
        plan = await bench.scans.plan(bench.reader(loaded))
        (listed,) = await bench.scans.manifests_of(bench.reader(loaded), plan.snapshot_id or 0)
        data = bench.read(loaded, listed.manifest_path)
        entries = manifests.inherit(manifests.decode_manifest(data), listed)
        return loaded, list(plan.tasks), entries

    loaded, tasks, entries = asyncio.run(work())
    assert [(task.sequence_number, task.data_file.first_row_id) for task in tasks] == [
        (1, 2),
        (1, 4),
    ]
    (gone,) = [entry for entry in entries if not entry.is_live]
    assert gone.data_file.file_path.endswith("/1.parquet")
    assert gone.snapshot_id == loaded.metadata.current_snapshot_id
    assert (gone.sequence_number, gone.data_file.first_row_id) == (1, 0)
    assert loaded.metadata.next_row_id == 6  # nothing new, so no new row ids


def test_removing_all_files_leaves_an_empty_table(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, scans.ScanPlan]:
        loaded = await bench.create()
        await bench.add(loaded, rows(1))
        loaded = await bench.add(loaded, rows(2))
        loaded = await bench.appends.commit_files(
            loaded.ident,
            [],
            operation="delete",
            removed=await manifestfiles.live_files(bench.scans, bench.reader(loaded)),
            based_on=loaded.metadata.current_snapshot_id,
            principal=ROOT,
        )
        loaded = await bench.add(loaded, rows(3))
        return loaded, await bench.scans.plan(bench.reader(loaded))

    loaded, plan = asyncio.run(work())
    assert [task.data_file.record_count for task in plan.tasks] == [1]
    assert plan.manifests_total == 1  # manifests that hold only removed files are left out
    assert summary_of(loaded)["total-records"] == "1"


def test_removing_a_file_that_is_not_live_is_refused_and_leaves_no_file(
    bench: datafiles.Bench,
) -> None:
    async def work() -> tuple[list[str], list[str]]:
        loaded = await bench.create()
        stranger = await bench.write(loaded, rows(9))
        loaded = await bench.add(loaded, rows(1))
        before = bench.keys(loaded)
        with pytest.raises(errors.InvalidCatalogRequest, match="it is not in the snapshot"):
            await bench.appends.commit_files(
                loaded.ident,
                [],
                operation="delete",
                removed=[stranger],
                based_on=loaded.metadata.current_snapshot_id,
                principal=ROOT,
            )
        return before, bench.keys(loaded)

    before, after = asyncio.run(work())
    assert before == after


# --- deletes ------------------------------------------------------------------------------------


def vector(file: DataFile, number: int = 1) -> DataFile:
    return DataFile(
        file_path=f"s3://lake/ns/t/data/deletes-{number}.puffin",
        file_format="PUFFIN",
        record_count=1,
        file_size_in_bytes=100,
        content=Content.POSITION_DELETES,
        referenced_data_file=file.file_path,
        content_offset=4,
        content_size_in_bytes=40,
    )


def test_deletion_vectors_are_attached_replaced_and_go_with_their_file(
    bench: datafiles.Bench,
) -> None:
    async def work() -> list[list[tuple[str, list[str]]]]:
        loaded = await bench.create(properties={"format-version": "3"})
        one, two = [await bench.write(loaded, rows(n, -n), name=f"{n}.parquet") for n in (1, 2)]
        seen = []

        async def commit(added: list[DataFile], removed: list[DataFile]) -> None:
            nonlocal loaded
            loaded = await bench.appends.commit_files(
                loaded.ident,
                added,
                operation="overwrite",
                removed=removed,
                based_on=loaded.metadata.current_snapshot_id,
                principal=ROOT,
            )
            plan = await bench.scans.plan(bench.reader(loaded))
            seen.append(
                [
                    (
                        task.data_file.file_path.rpartition("/")[2],
                        [one.file_path.rpartition("/")[2] for one in task.deletes],
                    )
                    for task in plan.tasks
                ]
            )

        await commit([one, two], [])
        await commit([vector(one)], [])
        await commit([vector(one, 2)], [vector(one)])
        await commit([], [one])
        assert summary_of(loaded)["removed-dvs"] == "1"
        assert summary_of(loaded)["total-delete-files"] == "0"
        assert summary_of(loaded)["total-position-deletes"] == "0"
        return seen

    assert asyncio.run(work()) == [
        [("1.parquet", []), ("2.parquet", [])],
        [("1.parquet", ["deletes-1.puffin"]), ("2.parquet", [])],
        [("1.parquet", ["deletes-2.puffin"]), ("2.parquet", [])],
        [("2.parquet", [])],
    ]


@pytest.mark.parametrize(
    ("version", "change", "message"),
    [
        (1, {"content": Content.EQUALITY_DELETES, "equality_ids": (1,)}, "format version 2"),
        (3, {"content": Content.POSITION_DELETES}, "accepts only deletion vectors as deletes"),
        (
            2,
            {
                "content": Content.POSITION_DELETES,
                "file_format": "PUFFIN",
                "referenced_data_file": "x",
                "content_offset": 1,
                "content_size_in_bytes": 1,
            },
            "need a table of format version 3",
        ),
        (2, {"spec_id": 7}, "does not fit a partition spec"),
        (2, {"partition": ("x",)}, "does not fit a partition spec"),
    ],
)
def test_files_a_table_cannot_hold_are_refused(
    bench: datafiles.Bench, version: int, change: dict[str, Any], message: str
) -> None:
    async def work() -> None:
        loaded = await bench.create(properties={"format-version": str(version)})
        file = DataFile(
            **{
                "file_path": "s3://lake/ns/t/data/f",
                "file_format": "PARQUET",
                "record_count": 1,
                "file_size_in_bytes": 1,
                **change,
            }
        )
        with pytest.raises(errors.InvalidCatalogRequest, match=message):
            await bench.appends.commit_files(
                loaded.ident, [file], operation="append", principal=ROOT
            )
        assert not [key for key in bench.keys(loaded) if key.endswith(".avro")]

    asyncio.run(work())


# --- races --------------------------------------------------------------------------------------


def test_appends_that_race_all_go_in(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, scans.ScanPlan, list[str]]:
        loaded = await bench.create(properties={"format-version": "3"})
        await asyncio.gather(*(bench.add(loaded, rows(n)) for n in range(8)))
        loaded = bench.lake.load(loaded.ident)
        return loaded, await bench.scans.plan(bench.reader(loaded)), bench.keys(loaded)

    loaded, plan, keys = asyncio.run(work())
    assert len(plan.tasks) == 8
    assert sorted(task.data_file.first_row_id or 0 for task in plan.tasks) == list(range(8))
    assert summary_of(loaded)["total-records"] == "8"
    assert loaded.metadata.last_sequence_number == 8
    # what lost attempts wrote is gone: one manifest and one list for each snapshot
    assert len([key for key in keys if key.endswith("-m0.avro")]) == 8
    assert len([key for key in keys if key.startswith("snap-")]) == 8


def test_a_change_that_removes_files_is_a_conflict_once_the_branch_moved(
    bench: datafiles.Bench,
) -> None:
    async def work() -> tuple[list[str], list[str]]:
        loaded = await bench.create()
        loaded = await bench.add(loaded, rows(1))
        (old,) = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
        based_on = loaded.metadata.current_snapshot_id
        moved = await bench.add(loaded, rows(2))
        before = bench.keys(moved)
        with pytest.raises(
            metadata_errors.RequirementFailed,
            match=rf"branch main has changed: expected id {based_on} !=",
        ):
            await bench.appends.commit_files(
                loaded.ident,
                [],
                operation="delete",
                removed=[old],
                based_on=based_on,
                principal=ROOT,
            )
        return before, bench.keys(moved)

    before, after = asyncio.run(work())
    assert before == after


def test_append_to_a_branch_leaves_main_alone(bench: datafiles.Bench) -> None:
    async def work() -> LoadedTable:
        loaded = await bench.create()
        loaded = await bench.add(loaded, rows(1))
        file = await bench.write(loaded, rows(2))
        return await bench.appends.commit_files(
            loaded.ident, [file], operation="append", branch="audit", principal=ROOT
        )

    loaded = asyncio.run(work())
    audit = loaded.metadata.refs["audit"]["snapshot-id"]
    assert audit != loaded.metadata.current_snapshot_id
    snapshot = loaded.metadata.snapshot(audit)
    assert snapshot is not None
    assert "parent-snapshot-id" not in snapshot
    assert snapshot["summary"]["total-records"] == "1"


def test_a_staged_table_is_created_with_its_files_or_not_at_all(bench: datafiles.Bench) -> None:
    async def work() -> tuple[LoadedTable, bool]:
        staged = await bench.create("ns.made", stage=True, partition_spec=PARTITIONED)
        absent = not bench.lake.tables.exists(staged.ident)
        file = await bench.write(staged, rows(1, 2, name="a"), partition=("a",))
        created = await bench.appends.commit_files(
            staged.ident, [file], operation="append", staged=staged, principal=ROOT
        )
        with pytest.raises(metadata_errors.RequirementFailed, match="table already exists"):
            await bench.appends.commit_files(
                staged.ident, [file], operation="append", staged=staged, principal=ROOT
            )
        return created, absent

    created, absent = asyncio.run(work())
    assert absent
    assert created.metadata.current_schema() == lakes.SCHEMA
    assert created.metadata.default_spec()["fields"] == PARTITIONED["fields"]
    assert summary_of(created)["total-records"] == "2"


# --- merging ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_small_manifests_are_merged_once_there_are_many(
    bench: datafiles.Bench, version: int, tmp_path: Path
) -> None:
    async def work() -> tuple[LoadedTable, scans.ScanPlan]:
        loaded = await bench.create(
            properties={
                "format-version": str(version),
                appends.MERGE_COUNT_MIN: "4",
            }
        )
        for number in range(6):
            loaded = await bench.add(loaded, rows(number))
        return loaded, await bench.scans.plan(bench.reader(loaded))

    loaded, plan = asyncio.run(work())
    assert len(plan.tasks) == 6
    assert plan.manifests_total < 6
    assert sorted(task.sequence_number for task in plan.tasks) == [1, 2, 3, 4, 5, 6]
    if version == 3:
        assert sorted(task.data_file.first_row_id or 0 for task in plan.tasks) == list(range(6))
        assert loaded.metadata.next_row_id == 6
    metadata_file = bench.export(loaded, tmp_path)
    assert by_id(datafiles.rows_by_pyiceberg(metadata_file, tmp_path)) == [0, 1, 2, 3, 4, 5]


def test_manifests_of_many_values_are_written_in_a_thread(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, bool]] = []
    encode_manifest = manifest_encoding.encode_manifest

    def noting(entries: Any, **named: Any) -> Any:
        written.append((len(entries), threading.current_thread() is threading.main_thread()))
        return encode_manifest(entries, **named)

    monkeypatch.setattr(manifest_encoding, "encode_manifest", noting)

    async def work() -> None:
        loaded = await bench.create(properties={appends.MERGE_COUNT_MIN: "3"})
        columns = len(loaded.metadata.current_schema()["fields"])
        monkeypatch.setattr(appends, "VALUES_HERE_MAX", 2 * (1 + columns))
        for number in range(4):
            loaded = await bench.add(loaded, rows(number))
        # A merged one of three files is long, one of a single file is not.
        assert written == [(1, True)] * 4 + [(3, False)]
        written.clear()
        files = [await bench.write(loaded, rows(number)) for number in (5, 6, 7)]
        loaded = await bench.appends.commit_files(
            loaded.ident, files, operation="append", principal=lakes.ROOT
        )
        assert written == [(3, False)]
        written.clear()
        plan = await bench.scans.plan(bench.reader(loaded))
        assert len(plan.tasks) == 7

    asyncio.run(work())


def test_manifests_stay_apart_where_merging_is_off(bench: datafiles.Bench) -> None:
    async def work() -> scans.ScanPlan:
        loaded = await bench.create(
            properties={appends.MERGE_COUNT_MIN: "2", appends.MERGE_ENABLED: "false"}
        )
        for number in range(4):
            loaded = await bench.add(loaded, rows(number))
        return await bench.scans.plan(bench.reader(loaded))

    assert asyncio.run(work()).manifests_total == 4


def test_files_of_several_specs_go_into_manifests_of_their_own(bench: datafiles.Bench) -> None:
    async def work() -> list[tuple[int, int]]:
        loaded = await bench.create()
        plain = await bench.write(loaded, rows(1))
        loaded = await bench.lake.tables.commit(
            loaded.ident,
            [],
            [{"action": "add-spec", "spec": PARTITIONED}],
            by=BY,
        )
        parted = await bench.write(loaded, rows(2), spec_id=1, partition=("x",))
        loaded = await bench.appends.commit_files(
            loaded.ident, [plain, parted], operation="append", principal=ROOT
        )
        head = loaded.metadata.current_snapshot_id or 0
        listed = await bench.scans.manifests_of(bench.reader(loaded), head)
        return [(one.partition_spec_id, one.added_files_count or 0) for one in listed]

    assert sorted(asyncio.run(work())) == [(0, 1), (1, 1)]


def test_manifests_of_a_spec_whose_source_column_is_gone_can_be_rewritten(
    bench: datafiles.Bench,
) -> None:
    async def work() -> tuple[list[str], list[Any]]:
        loaded = await bench.create(partition_spec=PARTITIONED)
        old = [
            await bench.write(loaded, rows(n, name="x"), partition=("x",), name=f"{n}.parquet")
            for n in (1, 2)
        ]
        await bench.appends.commit_files(loaded.ident, old, operation="append", principal=ROOT)
        loaded = await bench.lake.tables.commit(
            loaded.ident,
            [],
            [
                {"action": "add-spec", "spec": {"fields": []}},
                {"action": "set-default-spec", "spec-id": -1},
                {"action": "add-schema", "schema": {"fields": lakes.SCHEMA["fields"][:1]}},
                {"action": "set-current-schema", "schema-id": -1},
            ],
            by=BY,
        )
        loaded = await bench.appends.commit_files(
            loaded.ident,
            [],
            operation="delete",
            removed=[old[0]],
            based_on=loaded.metadata.current_snapshot_id,
            principal=ROOT,
        )
        plan = await bench.scans.plan(bench.reader(loaded))
        return await live_paths(bench, loaded), [task.data_file.partition for task in plan.tasks]

    assert asyncio.run(work()) == (["2.parquet"], [("x",)])
