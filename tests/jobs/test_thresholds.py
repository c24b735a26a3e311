"""Which maintenance is due: small files by partition, snapshots by branch, tag and age."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog import deletes, manifests
from jobs import thresholds
from pipeline import maintenance

MIB = 1024 * 1024
TARGET = 100 * MIB


def files(*sizes_mib: float, partition: tuple[Any, ...] = ()) -> list[manifests.DataFile]:
    """Return data files of a hundred rows."""
    return [
        manifests.DataFile(
            file_path="s3://lake/f",
            file_format="PARQUET",
            record_count=100,
            file_size_in_bytes=int(size * MIB),
            partition=partition,
        )
        for size in sizes_mib
    ]


def rewritten(*groups: list[manifests.DataFile]) -> int:
    return thresholds.files_to_rewrite(
        [(file, deletes.NONE) for group in groups for file in group], target_bytes=TARGET
    )


def marks(*rows: int, content: manifests.Content = manifests.Content.POSITION_DELETES) -> Any:
    """Return delete files that remove so many rows each."""
    return [
        manifests.DataFile(
            file_path=f"s3://lake/d{number}",
            file_format="PARQUET",
            content=content,
            record_count=count,
            file_size_in_bytes=1,
        )
        for number, count in enumerate(rows)
    ]


def worn(*pairs: tuple[manifests.DataFile, deletes.Applying]) -> int:
    return thresholds.files_to_rewrite(pairs, target_bytes=TARGET)


def test_five_small_files_of_a_partition_are_rewritten_and_four_are_not() -> None:
    assert rewritten(files(1, 1, 1, 1, 1)) == 5
    assert rewritten(files(1, 1, 1, 1)) == 0
    assert rewritten(files(1, 1, 1, partition=(1,)), files(1, 1, 1, partition=(2,))) == 0
    assert rewritten(files(*[1] * 5, partition=(1,)), files(1, partition=(2,))) == 5


def test_files_near_the_target_stay_and_others_with_enough_bytes_are_rewritten() -> None:
    assert rewritten(files(*[75] * 50), files(*[180] * 50)) == 0
    assert rewritten(files(60, 60)) == 2
    assert rewritten(files(50, 50)) == 0
    assert rewritten(files(181)) == 1
    assert rewritten(files(74, 74, 74, 74, 74, 100)) == 5


def test_a_file_is_rewritten_with_its_deletes_from_three_rows_of_ten_on() -> None:
    (large,) = files(100)
    assert worn((large, deletes.Applying(exact=tuple(marks(29))))) == 0
    assert worn((large, deletes.Applying(exact=tuple(marks(30))))) == 2
    assert worn((large, deletes.Applying(exact=tuple(marks(10, 10, 10))))) == 4
    # Ten large files, each with a vector of a third of its rows: twenty files would go.
    assert (
        worn(*[(file, deletes.Applying(exact=tuple(marks(33)))) for file in files(*[100] * 10)])
        == 20
    )


def test_a_file_is_rewritten_from_ten_delete_files_on_whatever_they_remove() -> None:
    (large,) = files(100)
    assert worn((large, deletes.Applying(exact=tuple(marks(*[1] * 9))))) == 0
    assert worn((large, deletes.Applying(exact=tuple(marks(*[1] * 10))))) == 11
    shared = deletes.DeleteList()
    for mark in marks(*[1] * 12, content=manifests.Content.EQUALITY_DELETES):
        shared.add(5, mark)
    applying = deletes.Applying(everywhere=shared.after(1))
    # Delete files that data files share go once.
    assert worn((large, applying)) == 11
    assert worn(*[(file, applying) for file in files(100, 100, 100)]) == 13


def test_the_check_and_the_compaction_have_the_same_threshold_of_delete_files() -> None:
    assert thresholds.DELETE_FILES_MIN == maintenance.DELETE_FILES_MIN


def test_a_summary_with_few_files_settles_it() -> None:
    def may(**summary: str) -> bool:
        return thresholds.may_need_compaction(
            {name.replace("_", "-"): value for name, value in summary.items()}, target_bytes=TARGET
        )

    assert not may(total_data_files="19", total_files_size="19")
    assert may(total_data_files="20", total_files_size="20")
    assert may(total_data_files="10", total_delete_files="10", total_files_size="20")
    assert may()
    assert may(total_data_files="x", total_files_size="20")


def test_the_mean_decides_for_a_table_with_too_many_files() -> None:
    summary = {"total-data-files": "1000", "total-files-size": str(1000 * 10 * MIB)}
    assert thresholds.files_by_mean(summary, target_bytes=TARGET) == 1000
    assert thresholds.files_by_mean(summary, target_bytes=10 * MIB) == 0
    assert thresholds.files_by_mean({}, target_bytes=TARGET) == 0
    large = {**summary, "total-records": "1000", "total-position-deletes": "300"}
    assert thresholds.files_by_mean(large, target_bytes=10 * MIB) == 1000
    large["total-position-deletes"] = "299"
    assert thresholds.files_by_mean(large, target_bytes=10 * MIB) == 0


KIB = 1024


def listed(*lengths_kib: int, spec_id: int = 0, **more: Any) -> list[manifests.ManifestFile]:
    return [
        manifests.ManifestFile(
            manifest_path="s3://lake/m",
            manifest_length=length * KIB,
            partition_spec_id=spec_id,
            added_snapshot_id=1,
            added_files_count=1,
            **more,
        )
        for length in lengths_kib
    ]


def rewrites(manifest_files: list[manifests.ManifestFile], **properties: str) -> int:
    return thresholds.manifests_to_rewrite(
        manifest_files,
        {name.replace("__", "."): value for name, value in properties.items()},
        spec_id=0,
        manifests_max=3,
    )


def test_manifests_are_rewritten_once_more_than_the_setting_are_small() -> None:
    assert rewrites(listed(7, 7, 7)) == 0
    assert rewrites(listed(7, 7, 7, 7)) == 4
    # Those of an earlier spec stay as they are: Iceberg rewrites the manifests of one.
    assert rewrites([*listed(7, 7, 7), *listed(7, 7, spec_id=1)]) == 0
    # Halves of the target size are not small.
    assert rewrites(listed(*[4096] * 8)) == 0
    assert rewrites(listed(*[4] * 8)) == 8
    assert rewrites(listed(*[4] * 8), **{"commit__manifest__target-size-bytes": "4096"}) == 0


def test_manifests_are_rewritten_if_half_of_them_would_go() -> None:
    deleting = manifests.ManifestContent.DELETES
    # The target is 8,192 KiB: eight of just below half of it become four, and two with two of
    # deletes one of each; four that are full stay as many, beside four small ones that become one.
    assert rewrites(listed(*[4095] * 8)) == 8
    assert rewrites([*listed(8192, 8192, 8192, 8192), *listed(7, 7, 7, 7)]) == 0
    assert rewrites([*listed(7, 7), *listed(7, 7, content=deleting)]) == 4


def line(*operations: str) -> dict[int, dict[str, Any]]:
    """Return snapshots 1, 2, ... of a line by their ids."""
    return {
        number: {
            "summary": {"operation": operation},
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
        }
        for number, operation in enumerate(operations, 1)
    }


def test_statistics_age_by_snapshots_that_change_rows() -> None:
    def changes(snapshots: dict[int, dict[str, Any]], *stored: int) -> int:
        return thresholds.changes_since_statistics(
            snapshots.get, len(snapshots), set(stored), changes_max=3
        )

    history = line("append", "append", "replace", "overwrite", "replace", "delete")
    assert [changes(history, number) for number in (6, 5, 4, 3, 2, 1)] == [0, 1, 1, 2, 2, 3]
    # Without statistics of an ancestor they are due: none yet, or expired, or of another branch.
    assert changes(history) == 3
    assert changes(line("append")) == 3
    del history[2]
    assert changes(history, 1) == 3


HOUR = thresholds.HOUR_MS


def snapshots(*ages_h: int) -> list[dict[str, Any]]:
    """Return a line of snapshots 1, 2, ..., the newest last; each with its age in hours."""
    return [
        {
            "snapshot-id": number,
            "timestamp-ms": 1000 * HOUR - age * HOUR,
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
        }
        for number, age in enumerate(ages_h, 1)
    ]


def branch(snapshot_id: int, **more: int) -> dict[str, Any]:
    options = {name.replace("_", "-"): value for name, value in more.items()}
    return {"snapshot-id": snapshot_id, "type": "branch", **options}


def expired(
    line: list[dict[str, Any]],
    refs: dict[str, dict[str, Any]],
    *,
    keep: int = 1,
    age_h: int = 10,
    **properties: str,
) -> thresholds.SnapshotExpiry:
    return thresholds.expiry(
        line, refs, {name.replace("__", "."): value for name, value in properties.items()},
        snapshots_min=keep, age_ms=age_h * HOUR, now_ms=1000 * HOUR,
    )  # fmt: skip


def test_snapshots_beyond_the_number_and_the_age_expire() -> None:
    line = snapshots(40, 30, 20, 9, 1)
    main = {"main": branch(5)}
    assert expired(line, main).snapshot_ids == (1, 2, 3)
    assert expired(line, main, keep=4).snapshot_ids == (1,)
    assert expired(line, main, age_h=100).snapshot_ids == ()
    # The next one expires when it is ten hours old, which is in one.
    assert expired(line, main).next_at_ms == 1001 * HOUR
    assert expired(line, main, keep=2).next_at_ms is None


def test_the_current_snapshot_is_kept_however_old_it_is() -> None:
    assert expired(snapshots(500), {"main": branch(1)}).snapshot_ids == ()


def test_a_tag_a_branch_and_its_own_settings_keep_snapshots() -> None:
    line = snapshots(40, 30, 20, 15, 1)
    refs = {"main": branch(5), "v1": {"snapshot-id": 2, "type": "tag"}}
    assert expired(line, refs).snapshot_ids == (1, 3, 4)
    refs = {"main": branch(5), "dev": branch(3, min_snapshots_to_keep=2)}
    assert expired(line, refs).snapshot_ids == (1, 4)
    refs = {"main": branch(5, max_snapshot_age_ms=25 * HOUR)}
    assert expired(line, refs).snapshot_ids == (1, 2)


def test_a_snapshot_of_no_branch_is_kept_for_its_age() -> None:
    line = [*snapshots(40, 1), {"snapshot-id": 8, "timestamp-ms": 995 * HOUR},
            {"snapshot-id": 9, "timestamp-ms": 900 * HOUR}]  # fmt: skip
    assert expired(line, {"main": branch(2)}).snapshot_ids == (1, 9)


def test_properties_of_the_table_may_only_keep_more() -> None:
    line, main = snapshots(40, 30, 20, 1), {"main": branch(4)}
    keeps = {"history__expire__min-snapshots-to-keep": "3"}
    assert expired(line, main, **keeps).snapshot_ids == (1,)
    keeps = {"history__expire__max-snapshot-age-ms": str(35 * HOUR)}
    assert expired(line, main, **keeps).snapshot_ids == (1,)
    assert expired(
        line, main, **{"history__expire__max-snapshot-age-ms": "1"}, age_h=35
    ).snapshot_ids == (1,)
    assert expired(line, main, gc__enabled="false").snapshot_ids == ()


@given(
    ages=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    keep=st.integers(1, 5),
    age_h=st.integers(1, 40),
    tagged=st.integers(1, 12),
)
def test_an_expiry_leaves_nothing_for_a_second_one_and_keeps_what_refs_name(
    ages: list[int], keep: int, age_h: int, tagged: int
) -> None:
    line = snapshots(*sorted(ages, reverse=True))
    tagged = min(tagged, len(line))
    refs = {"main": branch(len(line)), "tag": {"snapshot-id": tagged, "type": "tag"}}
    gone = set(expired(line, refs, keep=keep, age_h=age_h).snapshot_ids)
    assert not gone & {len(line), tagged}
    assert len(line) - len(gone) >= min(keep, len(line))
    assert all(line[number - 1]["timestamp-ms"] <= (1000 - age_h) * HOUR for number in gone)
