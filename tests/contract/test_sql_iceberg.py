"""SQL over Iceberg tables that other engines wrote, and the other way round.

PyIceberg writes through the REST face of the running server; the SQL answers, over the wire, are
compared with DuckDB's over the very rows that were written. What SQL writes, PyIceberg reads.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg import expressions, partitioning, schema, transforms, types

from sql import shell
from tests.kit import lake_client
from tests.kit import server as server_kit

ROWS = 5_000
STAMP = datetime.datetime
CARRIERS = ["UA", "AA", "B6", None]


@pytest.fixture(scope="module")
def trips() -> pa.Table:
    """Rows of many types, NULLs among them; each value can be computed by hand."""
    numbers = range(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "carrier": pa.array([CARRIERS[item % 4] for item in numbers], pa.string()),
            "delay": pa.array([None if item % 7 == 0 else item % 60 - 10 for item in numbers],
                              pa.int32()),
            "fare": pa.array([Decimal(item % 1000) / 8 for item in numbers], pa.decimal128(9, 3)),
            "ratio": pa.array([item / 3 for item in numbers], pa.float64()),
            "day": pa.array([datetime.date(2024, 1 + item % 6, 1 + item % 28) for item in numbers],
                            pa.date32()),
            "moment": pa.array([STAMP(2024, 1, 1) + datetime.timedelta(minutes=item * 7)
                            for item in numbers], pa.timestamp("us")),
            "ok": pa.array([None if item % 11 == 0 else item % 2 == 0 for item in numbers],
                           pa.bool_()),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def namespace(server: server_kit.Running) -> str:
    name = f"sql_{uuid.uuid4().hex[:8]}"
    lake_client.catalog(server).create_namespace(name)
    return name


@pytest.fixture(scope="module")
def written(server: server_kit.Running, namespace: str, trips: pa.Table) -> str:
    """The rows as a table partitioned by carrier, in four commits."""
    catalog = lake_client.catalog(server)
    fields = schema.Schema(
        types.NestedField(1, "id", types.LongType()),
        types.NestedField(2, "carrier", types.StringType()),
        types.NestedField(3, "delay", types.IntegerType()),
        types.NestedField(4, "fare", types.DecimalType(9, 3)),
        types.NestedField(5, "ratio", types.DoubleType()),
        types.NestedField(6, "day", types.DateType()),
        types.NestedField(7, "moment", types.TimestampType()),
        types.NestedField(8, "ok", types.BooleanType()),
    )
    table = catalog.create_table(
        f"{namespace}.trips",
        schema=fields,
        partition_spec=partitioning.PartitionSpec(
            partitioning.PartitionField(2, 1000, transforms.IdentityTransform(), "carrier")
        ),
    )
    for start in range(0, ROWS, ROWS // 4):
        table.append(trips.slice(start, ROWS // 4))
    return f"{namespace}.trips"


@pytest.fixture
def sql(server: server_kit.Running, namespace: str) -> Iterator[lake_client.Session]:
    with lake_client.session(server, namespace) as session:
        yield session


BOTH = [
    "select count(*), count(delay), min(id), max(id) from trips",
    "select carrier, count(*), sum(delay), min(delay), max(fare) from trips group by carrier "
    "order by carrier nulls last",
    "select carrier, count(distinct day) from trips where ok group by carrier having count(*) > 10 "
    "order by 1 nulls last",
    "select id, carrier, delay, fare, ratio, day, moment, ok from trips "
    "where id between 100 and 130 order by id",
    "select id from trips where day = date '2024-03-15' and delay > 20 order by id",
    "select count(*) from trips where day >= date '2024-02-01' and day < date '2024-04-01'",
    "select count(*) from trips where carrier is null or carrier in ('UA', 'B6')",
    "select count(*) from trips where not (delay > 0)",
    "select id, row_number() over (partition by carrier order by fare desc, id) as r from trips "
    "qualify r <= 2 order by id",
    "select day, count(*) as n, sum(count(*)) over (order by day) as running from trips "
    "group by day order by day limit 40",
    "with d as (select carrier, max(delay) as m from trips group by carrier) "
    "select t.id from trips t join d on t.carrier = d.carrier and t.delay = d.m "
    "order by t.id limit 50",
    "select a.id, b.id from trips a left join trips b on a.id = b.id + 4990 where a.id > 4985 "
    "order by a.id",
    "select carrier, sum(fare) from trips where id in (select id from trips where delay = 5) "
    "group by carrier order by carrier nulls last",
    "select case when delay is null then 'none' when delay > 15 then 'late' else 'ok' end as c, "
    "count(*) from trips group by 1 order by 1",
    "select upper(carrier) || '-' || cast(id as varchar) as k from trips where id < 5 order by id",
    "select coalesce(delay, -99) as d, id from trips order by d, id limit 20",
    "select carrier from trips where id < 8 union select carrier from trips where id < 2 "
    "order by 1 nulls last",
    "select id from trips where id < 10 except select id from trips where id % 2 = 0 order by id",
    "select count(*) from (select distinct carrier, ok from trips) x",
    "select date_trunc('month', moment) as m, count(*) from trips group by 1 order by 1",
    "select year(day), month(day), count(*) from trips group by 1, 2 order by 1, 2",
    "select carrier, grouping(carrier) as g, count(*) from trips group by rollup(carrier) "
    "order by g, carrier nulls last",
]


@pytest.mark.parametrize("text", BOTH, ids=[text[:70] for text in BOTH])
def test_sql_and_duckdb_agree_on_a_table_that_pyiceberg_wrote(
    sql: lake_client.Session, written: str, trips: pa.Table, text: str
) -> None:
    expected = duckdb.connect().register("trips", trips).execute(text).fetchall()

    assert [_plain(row) for row in sql.rows(text)] == [_plain(row) for row in expected]


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    # DuckDB sums integers as HUGEINT and truncates a month of a TIMESTAMP to a DATE: same values.
    return tuple(
        STAMP(item.year, item.month, item.day) if type(item) is datetime.date else item
        for item in row
    )


def test_evolved_schemas_and_deleted_rows_read_as_pyiceberg_reads_them(
    server: server_kit.Running, namespace: str, sql: lake_client.Session
) -> None:
    table = lake_client.catalog(server).create_table(
        f"{namespace}.evolved",
        schema=schema.Schema(
            types.NestedField(1, "id", types.IntegerType()),
            types.NestedField(2, "old", types.StringType()),
            types.NestedField(3, "gone", types.StringType()),
        ),
    )
    first = pa.table(
        {
            "id": pa.array(range(10), pa.int32()),
            "old": [f"o{item}" for item in range(10)],
            "gone": ["x"] * 10,
        }
    )
    table.append(first)
    before = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.rename_column("old", "new")
        update.delete_column("gone")
        update.update_column("id", types.LongType())
        update.add_column("gone", types.DoubleType())
    table.append(
        pa.table(
            {
                "id": pa.array([2**40], pa.int64()),
                "new": ["big"],
                "gone": pa.array([1.5], pa.float64()),
            }
        )
    )
    table.delete(expressions.In("id", [3, 4]))

    expected = [
        (row["id"], row["new"], row["gone"])
        for row in table.scan().to_arrow().sort_by("id").to_pylist()
    ]
    assert sql.rows("select id, new, gone from evolved order by id") == expected
    assert len(expected) == 9
    assert sql.rows(f"select id, old, gone from evolved at(version => {before}) order by id") == [
        (item, f"o{item}", "x") for item in range(10)
    ]


def test_what_sql_writes_pyiceberg_and_duckdb_read(
    server: server_kit.Running, namespace: str, sql: lake_client.Session
) -> None:
    sql.rows(
        "create table made (id int not null, name varchar(20), fare number(9,2), day date, "
        "at timestamp_ltz, ok boolean, ratio float, raw binary) partition by (month(day)) "
        "cluster by (id)"
    )
    assert sql.rows(
        "insert into made values (2, 'zwei', 2.345, '2024-02-29', '2024-02-29 12:00:00 +02:00', "
        "true, 0.5, x'00ff'), (1, null, -1, '1969-12-31', null, false, null, null)"
    ) == [(2,)]
    assert sql.rows("insert into made (id, day) select id + 10, day from made") == [(2,)]

    table = lake_client.catalog(server).load_table(f"{namespace}.made")
    rows = table.scan().to_arrow()
    expected = [
        (1, None, Decimal("-1.00"), datetime.date(1969, 12, 31), None, False, None, None),
        (
            2,
            "zwei",
            Decimal("2.35"),
            datetime.date(2024, 2, 29),
            datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC),
            True,
            0.5,
            b"\x00\xff",
        ),
        (11, None, None, datetime.date(1969, 12, 31), None, None, None, None),
        (12, None, None, datetime.date(2024, 2, 29), None, None, None, None),
    ]
    assert [tuple(row.values()) for row in rows.sort_by("id").to_pylist()] == expected
    assert len(table.metadata.snapshots) == 2
    assert table.scan(row_filter="day = '2024-02-29'").to_arrow().num_rows == 2
    duck = duckdb.connect().register("made", rows)
    assert duck.execute("select count(*), max(id) from made").fetchall() == [(4, 12)]
    assert sql.rows("select count(*), max(id) from made") == [(4, 12)]


def test_nested_values_that_pyiceberg_wrote_are_read_and_inserted_around(
    server: server_kit.Running, namespace: str, sql: lake_client.Session
) -> None:
    table = lake_client.catalog(server).create_table(
        f"{namespace}.nested",
        schema=schema.Schema(
            types.NestedField(1, "id", types.LongType()),
            types.NestedField(2, "tags", types.ListType(5, types.StringType(), False)),
            types.NestedField(
                3, "counts", types.MapType(6, types.StringType(), 7, types.LongType(), False)
            ),
            types.NestedField(4, "key", types.FixedType(3)),
        ),
    )
    rows = {
        "id": [1],
        "tags": pa.array([["a", None]], pa.large_list(pa.large_string())),
        "counts": pa.array([[("x", 1), ("y", None)]], pa.map_(pa.large_string(), pa.int64())),
        "key": pa.array([b"abc"], pa.binary(3)),
    }
    table.append(pa.table(rows))

    assert sql.rows("insert into nested (id, key) values (2, x'646566')") == [(1,)]
    assert sql.rows("select id, tags, counts, key from nested order by id") == [
        (1, '["a",null]', '{"x":1,"y":null}', b"abc"),
        (2, None, None, b"def"),
    ]
    assert sql.rows(
        "select tags[0], counts['x'] + 1, array_size(tags), counts['y'] from nested order by id"
    ) == [("a", 2, 2, None), (None, None, None, None)]
    assert sql.rows("select f.value from nested, lateral flatten(counts) f where f.key = 'x'") == [
        (1,)
    ]
    table.refresh()
    read = table.scan().to_arrow().sort_by("id")
    assert read["key"].to_pylist() == [b"abc", b"def"]
    assert read["tags"].to_pylist() == [["a", None], None]


def test_both_writers_commits_are_one_history(
    server: server_kit.Running, namespace: str, sql: lake_client.Session
) -> None:
    sql.rows("create table shared as select 1 as a")
    table = lake_client.catalog(server).load_table(f"{namespace}.shared")
    table.append(pa.table({"a": pa.array([2], pa.int64())}, schema=table.schema().as_arrow()))
    sql.rows("insert into shared values (3)")
    table.refresh()

    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [1, 2, 3]
    assert [len(table.metadata.snapshots), sql.rows("select sum(a) from shared")] == [3, [(6,)]]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select * from nosuch", "002003"),
        ("select * from '/etc/passwd'", "000002"),
        ("select input_file_name() from trips", "002140"),
        ("grant ownership on table trips to role r", "000002"),
        ("selec 1", "001003"),
        ("select 1/0", "100051"),
    ],
)
def test_refusals_reach_the_client_with_their_number(
    sql: lake_client.Session, written: str, text: str, code: str
) -> None:
    with pytest.raises(shell.ShellError) as caught:
        sql.rows(text)

    assert str(caught.value).startswith(code)
