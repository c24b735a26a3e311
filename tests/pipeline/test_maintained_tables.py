"""Every reader sees the same rows before and after maintenance, whichever writer wrote the table.

A row of WRITERS makes a table; then files are compacted and snapshots expired. PyIceberg reads no
equality deletes: such a table it reads once maintenance has applied them.
"""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import partitioning, schema, transforms, types

from pipeline import expiry, maintenance, settings, sources
from tests.kit import duck as duck_kit
from tests.kit import lake_client
from tests.kit.server import Running
from tests.pipeline import handwritten
from tests.pipeline.lake import Lake

pytestmark = pytest.mark.spark

NAMESPACE = "maintained"
MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read'"
)


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What a writer has. name: of the table that it makes, in NAMESPACE."""

    lake: Lake
    duck: Any
    name: str

    @property
    def full(self) -> str:
        return f"lake.{NAMESPACE}.{self.name}"

    @property
    def ident(self) -> str:
        return f"{NAMESPACE}.{self.name}"

    def spark(self, *statements: str) -> None:
        for statement in statements:
            self.lake.spark.session.sql(statement.format(t=self.full)).collect()


@pytest.fixture(scope="module")
def duck(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    connection = duck_kit.attached(server, tmp_path_factory.mktemp("duckdb"))
    yield connection
    connection.close()


@pytest.fixture
def writing(lake: Lake, duck: Any) -> Writing:
    lake.catalog.create_namespace_if_not_exists(NAMESPACE)
    return Writing(lake=lake, duck=duck, name=f"t_{uuid.uuid4().hex[:8]}")


# Writers: each makes a table of id and name, and returns its rows.


def by_spark(version: int, *, is_partitioned: bool = False) -> Callable[[Writing], dict[int, str]]:
    def write(writing: Writing) -> dict[int, str]:
        modes = f", {MERGE_ON_READ}" if version > 1 else ""
        partitioned = "partitioned by (bucket(2, id))" if is_partitioned else ""
        writing.spark(
            f"create table {{t}} (id bigint, name string) using iceberg {partitioned} "
            f"tblproperties ('format-version'='{version}'{modes})"
        )
        for start in (0, 10, 20):
            values = ", ".join(f"({start + each}, 'n{start + each}')" for each in range(10))
            writing.spark(f"insert into {{t}} values {values}")
        writing.spark("delete from {t} where id in (3, 4, 15)")
        writing.spark("update {t} set name = 'changed' where id in (5, 25)")
        writing.spark("delete from {t} where id = 16")
        return changed()

    return write


def by_spark_over_specs(version: int) -> Callable[[Writing], dict[int, str]]:
    def write(writing: Writing) -> dict[int, str]:
        writing.spark(
            "create table {t} (id bigint, name string) using iceberg "
            f"tblproperties ('format-version'='{version}', {MERGE_ON_READ})",
            "insert into {t} select id, concat('n', id) from range(10)",
            "delete from {t} where id = 3",
            "alter table {t} add partition field bucket(2, id)",
            "insert into {t} select id, concat('n', id) from range(10, 20)",
            "delete from {t} where id in (4, 15, 16)",
            "alter table {t} drop partition field bucket(2, id)",
            "alter table {t} add partition field truncate(1, name)",
            "insert into {t} select id, concat('n', id) from range(20, 30)",
            "update {t} set name = 'changed' where id in (5, 25)",
        )
        return changed()

    return write


def by_spark_upgraded(writing: Writing) -> dict[int, str]:
    """Formats 1 to 3, and delete files of formats 2 and 3."""
    writing.spark(
        "create table {t} (id bigint, name string) using iceberg "
        f"tblproperties ('format-version'='1', {MERGE_ON_READ})",
        "insert into {t} select id, concat('n', id) from range(0, 10, 1, 1)",
        "alter table {t} set tblproperties ('format-version'='2')",
        "insert into {t} select id, concat('n', id) from range(10, 20, 1, 1)",
        "delete from {t} where id in (3, 15)",
        "alter table {t} set tblproperties ('format-version'='3')",
        "insert into {t} select id, concat('n', id) from range(20, 30, 1, 1)",
        "delete from {t} where id in (4, 16)",
        "update {t} set name = 'changed' where id in (5, 25)",
    )
    return changed()


def by_duckdb(version: int) -> Callable[[Writing], dict[int, str]]:
    def write(writing: Writing) -> dict[int, str]:
        writing.spark(
            "create table {t} (id bigint, name string) using iceberg "
            f"tblproperties ('format-version'='{version}', {MERGE_ON_READ})"
        )
        run = writing.duck.execute
        for start in (0, 10, 20):
            run(
                f"insert into {writing.full} select range + {start}, "
                f"'n' || (range + {start}) from range(10)"
            )
        run(f"delete from {writing.full} where id in (3, 4, 15)")
        run(f"delete from {writing.full} where id = 16")
        run(f"update {writing.full} set name = 'changed' where id in (5, 25)")
        return changed()

    return write


def by_pyiceberg(version: int) -> Callable[[Writing], dict[int, str]]:
    def write(writing: Writing) -> dict[int, str]:
        table = writing.lake.catalog.create_table(
            writing.ident,
            schema=COLUMNS,
            properties={"format-version": str(version)},
        )
        for start in (0, 10, 20):
            table.append(arrow(range(start, start + 10)))
        table.delete("id in (3, 4, 5, 15, 16, 25)")
        table.append(arrow((5, 25), name="changed"))
        return changed()

    return write


def in_trinos_shape(writing: Writing) -> dict[int, str]:
    """One file of position deletes for the data files of a partition, of two commits."""
    s3, catalog = sources.client(writing.lake.server), writing.lake.catalog
    table = catalog.create_table(
        writing.ident, schema=COLUMNS, partition_spec=by_name(), properties=V2
    )
    own = {"spec_id": 0, "partition": {"name_trunc": "n"}}
    data = [put_rows(s3, table, range(start, start + 10), **own) for start in (0, 10, 20)]
    commit = lambda *files: handwritten.commit(s3, catalog, table, files, BY_NAME)  # noqa: E731
    commit(data[0], data[1])
    commit(data[2])
    commit(put_deletes(s3, table, [(data[0], 3), (data[0], 4), (data[1], 5), (data[1], 6)], **own))
    commit(
        put_deletes(s3, table, [(data[0], 5), (data[2], 5)], **own),
        put_rows(s3, table, (5, 25), name="changed", spec_id=0, partition={"name_trunc": "c"}),
    )
    return changed()


def in_flinks_shape(writing: Writing) -> dict[int, str]:
    """Equality deletes of a partition, and upserts of the same commit, which they spare."""
    s3, catalog = sources.client(writing.lake.server), writing.lake.catalog
    table = catalog.create_table(writing.ident, schema=COLUMNS, properties=V2)
    commit = lambda *files: handwritten.commit(s3, catalog, table, files)  # noqa: E731
    for start in (0, 10, 20):
        commit(put_rows(s3, table, range(start, start + 10)))
    commit(put_keys(s3, table, (3, 4, 15, 16)))
    commit(put_keys(s3, table, (5, 25)), put_rows(s3, table, (5, 25), name="changed"))
    return changed()


def equality_deletes_for_all_partitions(writing: Writing) -> dict[int, str]:
    """An equality delete without a partition removes rows of every partition and spec."""
    s3, catalog = sources.client(writing.lake.server), writing.lake.catalog
    table = catalog.create_table(writing.ident, schema=COLUMNS, properties=V2)
    commit = lambda *files: handwritten.commit(s3, catalog, table, files, BY_NAME)  # noqa: E731
    commit(put_rows(s3, table, range(10)))
    with table.update_spec() as change:
        change.add_field("name", transforms.TruncateTransform(1), "name_trunc")
    commit(put_rows(s3, table, range(10, 20), spec_id=1, partition={"name_trunc": "n"}))
    commit(put_rows(s3, table, range(20, 30), spec_id=1, partition={"name_trunc": "n"}))
    commit(put_keys(s3, table, (3, 4, 15, 16)))
    commit(
        put_keys(s3, table, (5, 25)),
        put_rows(s3, table, (5, 25), name="changed", spec_id=1, partition={"name_trunc": "c"}),
    )
    return changed()


WRITERS: dict[str, Callable[[Writing], dict[int, str]]] = {
    "spark, format 1": by_spark(1),
    "spark, format 2, position deletes": by_spark(2),
    "spark, format 2, partitioned": by_spark(2, is_partitioned=True),
    "spark, format 3, deletion vectors": by_spark(3),
    "spark, format 3, partitioned": by_spark(3, is_partitioned=True),
    "spark, format 2, three specs": by_spark_over_specs(2),
    "spark, format 3, three specs": by_spark_over_specs(3),
    "spark, upgraded from format 1 to 3": by_spark_upgraded,
    "duckdb, format 2": by_duckdb(2),
    "duckdb, format 3": by_duckdb(3),
    "pyiceberg, format 1": by_pyiceberg(1),
    "pyiceberg, format 2": by_pyiceberg(2),
    "trino's manifests, one delete file for many": in_trinos_shape,
    "flink's manifests, equality deletes": in_flinks_shape,
    "equality deletes for all partitions": equality_deletes_for_all_partitions,
}
LONG_RUNS = {
    "spark, format 1",
    "spark, format 2, position deletes",
    "spark, format 2, partitioned",
    "spark, format 3, deletion vectors",
    "spark, format 3, partitioned",
    "spark, format 2, three specs",
    "duckdb, format 2",
    "pyiceberg, format 1",
    "pyiceberg, format 2",
}
"""Writers whose sorts of files and deletes other writers have too: by `make test-long` alone."""
WITH_EQUALITY_DELETES = {
    "flink's manifests, equality deletes",
    "equality deletes for all partitions",
}
"""PyIceberg reads these only once no equality delete is left."""
KEPT_DELETES = {"equality deletes for all partitions"}
"""Iceberg's compaction applies such deletes, and leaves their files where specs differ."""


ORDERS: dict[maintenance.Strategy, str] = {"sort": "id", "z-order": "id, name"}
"""The sort order that a table gets for a strategy."""
SORTED: dict[tuple[str, maintenance.Strategy], bool] = {
    ("spark, upgraded from format 1 to 3", "sort"): False,
    ("equality deletes for all partitions", "z-order"): False,
    ("spark, upgraded from format 1 to 3", "z-order"): True,
    ("spark, format 2, position deletes", "sort"): True,
    ("spark, format 3, deletion vectors", "z-order"): True,
    ("spark, format 3, three specs", "sort"): True,
    ("spark, format 3, three specs", "z-order"): True,
    ("flink's manifests, equality deletes", "sort"): True,
    ("equality deletes for all partitions", "sort"): True,
}
"""Tables that are arranged anew, and whether by `make test-long` alone."""
ARRANGED = {writer for (writer, _), is_long in SORTED.items() if not is_long}
"""Writers whose tables every run arranges; as they lie, `make test-long` alone compacts them."""
MAINTAINED: list[tuple[str, maintenance.Strategy, bool]] = [
    *((writer, "auto", writer in LONG_RUNS or writer in ARRANGED) for writer in WRITERS),
    *((writer, strategy, is_long) for (writer, strategy), is_long in SORTED.items()),
]


@pytest.mark.parametrize(
    ("writer", "strategy"),
    [
        pytest.param(
            writer,
            strategy,
            marks=[pytest.mark.long] * is_long,
        )
        for writer, strategy, is_long in MAINTAINED
    ],
)
def test_rows_are_the_same_for_every_reader_after_compaction_and_expiry(
    writing: Writing, server: Running, writer: str, strategy: maintenance.Strategy
) -> None:
    expected = sorted(WRITERS[writer](writing).items())
    readers = [each for each in READERS if each != "pyiceberg" or writer not in KEPT_DELETES]
    first = [each for each in readers if each != "pyiceberg" or writer not in WITH_EQUALITY_DELETES]
    assert read(writing, server, first) == dict.fromkeys(first, expected)
    if strategy in ORDERS:
        writing.spark(f"alter table {{t}} write ordered by {ORDERS[strategy]}")
    lineage = row_ids(writing)
    table = settings.parse_table(writing.full)
    open_spark = writing.lake.open_spark
    before = ids_by_file(writing)

    counts = maintenance.compact(
        table, target_file_size_mib=None, min_input_files=2, strategy=strategy,
        open_spark=open_spark, say=print,
    )  # fmt: skip
    assert counts["rewritten_data_files_count"] > counts["added_data_files_count"] > 0
    if strategy == "sort":
        # A file that is alone in its partition stays as its writer wrote it.
        written = [ids for path, ids in ids_by_file(writing).items() if path not in before]
        assert len(written) == counts["added_data_files_count"]
        assert written == [sorted(ids) for ids in written]
    assert read(writing, server, readers) == dict.fromkeys(readers, expected)
    assert row_ids(writing) == lineage

    maintenance.rewrite_manifests(table, open_spark=open_spark)
    assert read(writing, server, readers) == dict.fromkeys(readers, expected)
    assert row_ids(writing) == lineage

    now = datetime.datetime.now(datetime.UTC)
    expiry.run(table, older_than=now, retain_last=1, open_spark=open_spark)
    assert len(writing.lake.catalog.load_table(writing.ident).metadata.snapshots) == 1
    assert read(writing, server, readers) == dict.fromkeys(readers, expected)
    assert row_ids(writing) == lineage


READERS = ("spark", "duckdb", "pyiceberg", "sql")


def read(
    writing: Writing, server: Running, readers: Sequence[str]
) -> dict[str, list[tuple[int, str]]]:
    """Return the rows by reader, in order of their ids."""
    writing.spark("refresh table {t}")
    by_spark = writing.lake.spark.session.sql(f"select id, name from {writing.full}").collect()
    rows = {
        "spark": sorted(tuple(row) for row in by_spark),
        "duckdb": sorted(writing.duck.execute(f"select id, name from {writing.full}").fetchall()),
    }
    if "pyiceberg" in readers:
        scanned = writing.lake.catalog.load_table(writing.ident).scan().to_arrow().to_pylist()
        rows["pyiceberg"] = sorted((row["id"], row["name"]) for row in scanned)
    with lake_client.session(server, NAMESPACE) as session:
        rows["sql"] = sorted(session.rows(f"select id, name from {writing.name}"))
    return rows


def ids_by_file(writing: Writing) -> dict[str, list[int]]:
    """Return the ids of each data file's rows, in their order there, by its path."""
    statement = f"select _file, _pos, id from {writing.full} order by _file, _pos"
    stored = writing.lake.spark.session.sql(statement).collect()
    files = itertools.groupby(stored, key=lambda row: row[0])
    return {path: [row[2] for row in rows] for path, rows in files}


def row_ids(writing: Writing) -> list[tuple[int, ...]] | None:
    """Return id, `_row_id` and `_last_updated_sequence_number` of each row; None below format 3."""
    if writing.lake.catalog.load_table(writing.ident).metadata.format_version < 3:
        return None
    statement = f"select id, _row_id, _last_updated_sequence_number from {writing.full}"
    return sorted(tuple(row) for row in writing.lake.spark.session.sql(statement).collect())


# What the writers share.

V2 = {"format-version": "2"}
COLUMNS = schema.Schema(
    types.NestedField(1, "id", types.LongType()),
    types.NestedField(2, "name", types.StringType()),
)
BY_NAME = ({"name": "name_trunc", "field-id": 1000, "type": ["null", "string"], "default": None},)


def changed() -> dict[int, str]:
    """The rows that every writer leaves."""
    rows = {number: f"n{number}" for number in range(30) if number not in {3, 4, 15, 16}}
    return {**rows, 5: "changed", 25: "changed"}


def by_name() -> partitioning.PartitionSpec:
    return partitioning.PartitionSpec(
        partitioning.PartitionField(2, 1000, transforms.TruncateTransform(1), "name_trunc")
    )


def arrow(ids: Any, name: str = "") -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "name": [name or f"n{number}" for number in ids]}
    )


def put_rows(s3: Any, table: Any, ids: Any, *, name: str = "", **more: Any) -> handwritten.File:
    rows = [(number, name or f"n{number}") for number in ids]
    columns = (handwritten.LONG, handwritten.TEXT)
    return handwritten.put(s3, table, columns, rows, content=handwritten.DATA, **more)


def put_deletes(
    s3: Any, table: Any, deleted: list[tuple[handwritten.File, int]], **more: Any
) -> handwritten.File:
    columns = (handwritten.DELETED_PATH, handwritten.DELETED_AT)
    rows = sorted((file.uri, at) for file, at in deleted)
    return handwritten.put(s3, table, columns, rows, content=handwritten.POSITIONS, **more)


def put_keys(s3: Any, table: Any, ids: Any) -> handwritten.File:
    rows = [(number,) for number in ids]
    more: dict[str, Any] = {"content": handwritten.EQUALITY, "equality_ids": [1]}
    return handwritten.put(s3, table, (handwritten.LONG,), rows, **more)
