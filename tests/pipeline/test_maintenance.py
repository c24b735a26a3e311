"""Compact and expire change files and snapshots, never rows, and never what was taken in."""

from __future__ import annotations

import datetime

import pytest

from pipeline import errors, maintenance, settings
from tests.pipeline.lake import Lake, Raw

pytestmark = pytest.mark.spark


def test_compact_and_expire_keep_every_row_and_a_further_ingest_loads_nothing(
    lake: Lake, raw: Raw
) -> None:
    for number in range(3):
        raw.put(f"in/{number}.csv", f"id\n{number}\n")
        assert lake.ingest(raw, "kept.t").rows == 1
    rows, taken = lake.rows("kept.t"), lake.taken("kept.t")
    assert [row["id"] for row in rows] == [0, 1, 2]
    table = settings.parse_table("lake.kept.t")

    compacted = maintenance.compact(
        table, target_file_size_mib=64, min_input_files=2, open_spark=lake.open_spark
    )
    assert compacted["rewritten_data_files_count"] == 3
    assert compacted["added_data_files_count"] == 1
    loaded = lake.catalog.load_table("kept.t")
    assert [len(list(loaded.scan().plan_files())), len(loaded.metadata.snapshots)] == [1, 4]
    assert (lake.rows("kept.t"), lake.taken("kept.t")) == (rows, taken)

    expired = maintenance.expire(
        table,
        older_than=datetime.datetime.now(datetime.UTC),
        retain_last=1,
        open_spark=lake.open_spark,
    )
    assert expired["deleted_data_files_count"] == 3
    loaded = lake.catalog.load_table("kept.t")
    assert [one.snapshot_id for one in loaded.metadata.snapshots] == [
        loaded.metadata.current_snapshot_id
    ]
    assert loaded.current_snapshot().summary["operation"].value == "replace"
    assert "boathouse.loads" not in loaded.current_snapshot().summary.additional_properties
    assert (lake.rows("kept.t"), lake.taken("kept.t")) == (rows, taken)
    assert len(lake.data_files("kept.t")) == 1

    before = lake.state("kept.t")
    done = lake.ingest(raw, "kept.t")
    assert (done.rows, done.skipped, done.snapshot_id) == (0, 3, None)
    assert lake.state("kept.t") == before


def test_expire_by_default_keeps_what_is_young(lake: Lake, raw: Raw) -> None:
    for number in range(2):
        raw.put(f"in/{number}.csv", f"id\n{number}\n")
        lake.ingest(raw, "young.t")
    before = lake.state("young.t")
    table = settings.parse_table("lake.young.t")
    counts = maintenance.expire(
        table, older_than=None, retain_last=None, open_spark=lake.open_spark
    )
    assert set(counts.values()) == {0}
    assert lake.state("young.t") == before


def test_maintenance_of_a_table_that_is_not_there_names_it(lake: Lake) -> None:
    table = settings.parse_table("lake.absent.t")
    with pytest.raises(errors.SparkFailed, match=r"absent.*t"):
        maintenance.compact(
            table, target_file_size_mib=None, min_input_files=None, open_spark=lake.open_spark
        )
    with pytest.raises(errors.SparkFailed, match=r"absent.*t"):
        maintenance.expire(table, older_than=None, retain_last=2, open_spark=lake.open_spark)


def test_names_with_capitals_and_dashes_reach_the_procedures(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    lake.ingest(raw, "odd_names.t-1")
    table = settings.parse_table("lake.odd_names.t-1")
    counts = maintenance.compact(
        table, target_file_size_mib=None, min_input_files=None, open_spark=lake.open_spark
    )
    assert counts["rewritten_data_files_count"] == 0
