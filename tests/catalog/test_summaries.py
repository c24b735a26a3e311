"""Snapshot summaries: every count of what was added and removed, totals that follow."""

from __future__ import annotations

from typing import Any

import pytest

from catalog import summaries
from catalog.manifests import Content, DataFile

ZERO = dict.fromkeys(summaries.TOTALS, 0)


def file(content: Content = Content.DATA, **more: Any) -> DataFile:
    fields: dict[str, Any] = {
        "file_path": "f",
        "file_format": "PARQUET",
        "record_count": 10,
        "file_size_in_bytes": 100,
        "content": content,
    }
    return DataFile(**{**fields, **more})


DATA = file()
POSITIONS = file(Content.POSITION_DELETES, record_count=3)
EQUALITIES = file(Content.EQUALITY_DELETES, record_count=4, equality_ids=(1,))
VECTOR = file(
    Content.POSITION_DELETES,
    file_format="PUFFIN",
    record_count=5,
    file_size_in_bytes=900,
    content_offset=4,
    content_size_in_bytes=40,
    referenced_data_file="f",
)


def test_summarise_counts_each_kind_added() -> None:
    summary = summaries.summarise(
        operation="overwrite",
        added=[DATA, DATA, POSITIONS, EQUALITIES, VECTOR],
        removed=[],
        totals_before=ZERO,
        extra={},
    )
    assert summary == {
        "operation": "overwrite",
        "added-data-files": "2",
        "added-records": "20",
        "added-delete-files": "3",
        "added-position-delete-files": "1",
        "added-equality-delete-files": "1",
        "added-dvs": "1",
        "added-position-deletes": "8",
        "added-equality-deletes": "4",
        "added-files-size": "440",
        "changed-partition-count": "1",
        "total-data-files": "2",
        "total-delete-files": "3",
        "total-records": "20",
        "total-files-size": "440",
        "total-position-deletes": "8",
        "total-equality-deletes": "4",
    }


def test_summarise_counts_each_kind_removed_and_ends_where_it_began() -> None:
    files = [DATA, POSITIONS, EQUALITIES, VECTOR]
    summary = summaries.summarise(
        operation="delete",
        added=[],
        removed=files,
        totals_before=summaries.counted(files),
        extra={},
    )
    assert {name: summary[name] for name in summaries.TOTALS} == dict.fromkeys(
        summaries.TOTALS, "0"
    )
    assert {name: number for name, number in summary.items() if name not in summaries.TOTALS} == {
        "operation": "delete",
        "deleted-data-files": "1",
        "deleted-records": "10",
        "removed-delete-files": "3",
        "removed-position-delete-files": "1",
        "removed-equality-delete-files": "1",
        "removed-dvs": "1",
        "removed-position-deletes": "8",
        "removed-equality-deletes": "4",
        "removed-files-size": "340",
        "changed-partition-count": "1",
    }


def test_summarise_counts_partitions_once() -> None:
    summary = summaries.summarise(
        operation="append",
        added=[file(partition=("a",)), file(partition=("a",)), file(partition=(None,))],
        removed=[file(partition=("b",))],
        totals_before={**ZERO, "total-data-files": 1},
        extra={},
    )
    assert summary["changed-partition-count"] == "3"


@pytest.mark.parametrize(
    "summary",
    [
        None,
        {},
        {"total-records": "5"},
        {**dict.fromkeys(summaries.TOTALS, "1"), "total-records": "x"},
    ],
)
def test_totals_count_only_if_all_are_stated(summary: dict[str, str] | None) -> None:
    assert summaries.totals_of(summary) is None
    whole = {**dict.fromkeys(summaries.TOTALS, "3"), "operation": "append"}
    assert summaries.totals_of(whole) == dict.fromkeys(summaries.TOTALS, 3)
