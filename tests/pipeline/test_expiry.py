"""An expiry of snapshots happens also where the bytes that it frees cannot be counted."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from py4j.protocol import Py4JError

from pipeline import errors, expiry, settings

TABLE = settings.parse_table("lake.s.t")


class JavaList(list[Any]):
    """A list as py4j shows a Java one."""

    def iterator(self) -> Any:
        left = list(self)
        return Java(hasNext=lambda: bool(left), next=lambda: left.pop(0))


class Java:
    """An object with these methods."""

    def __init__(self, **methods: Any) -> None:
        self.__dict__ |= methods


class Table:
    """A session of Spark with one table, whose expiry keeps the latest snapshots and whose metadata
    tables cannot be read. reads: how often one was tried."""

    def __init__(self, *, snapshots: int, kept: int) -> None:
        self.ids = list(range(snapshots))
        self.kept = kept
        self.reads = 0
        self.session = Java(sql=self.sql, read=Java(table=self.read))

    def catalog(self, warehouse: str) -> Any:
        return Java(loadTable=lambda name: self)

    def identifier(self, table: settings.TargetTable) -> str:
        return table.full

    def counting(self, *, is_writing: bool) -> Any:
        return lambda: None

    def properties(self) -> Any:
        return Java(keySet=JavaList)

    def snapshots(self) -> JavaList:
        return JavaList(Java(snapshotId=lambda each=each: each) for each in self.ids)

    def expireSnapshots(self) -> Any:  # noqa: N802 - Iceberg's
        gone = self.ids[: -self.kept]
        return Java(
            apply=lambda: JavaList(Java(snapshotId=lambda each=each: each) for each in gone)
        )

    def sql(self, statement: str) -> Any:
        assert statement.startswith("CALL `lake`.system.expire_snapshots(")
        gone, self.ids = self.ids[: -self.kept], self.ids[-self.kept :]
        counts = {
            "deleted_data_files_count": 4,
            "deleted_position_delete_files_count": 1,
            "deleted_manifest_files_count": 3,
            "deleted_manifest_lists_count": len(gone),
        }
        return Java(collect=lambda: [Java(asDict=lambda: counts)])

    def read(self, name: str) -> Any:
        self.reads += 1
        raise Py4JError("Cannot find snapshot with ID 1")


@pytest.mark.parametrize(("kept", "reads"), [(1, 1), (10, 1), (11, 0)])
def test_an_expiry_whose_bytes_cannot_be_counted_happens(kept: int, reads: int) -> None:
    table = Table(snapshots=kept + 2, kept=kept)
    spark: Any = table
    done, counts = expiry.run(
        TABLE, older_than=None, retain_last=None, open_spark=lambda _: contextlib.nullcontext(spark)
    )
    assert len(table.ids) == kept
    assert done.sentence == (
        f"expired 2 snapshots and kept {kept}; 5 files of unknown size, 3 manifests and "
        "2 manifest lists are no longer referenced"
    )
    assert counts["deleted_data_files_count"] == 4
    assert table.reads == reads  # of many snapshots none is tried


def test_a_dry_run_that_cannot_count_says_so() -> None:
    spark: Any = Table(snapshots=3, kept=1)
    with pytest.raises(errors.SparkJobFailed, match="Cannot find snapshot with ID 1"):
        expiry.planned(
            TABLE,
            older_than=None,
            retain_last=None,
            open_spark=lambda _: contextlib.nullcontext(spark),
        )
