"""Files that writes make: shape, size, partitions, and that nothing is left of a failure."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import errors as catalog_errors
from catalog import layout, records
from sql import (
    bindings,
    engine,
    errors,
    ipc,
    limits,
    parquet_files,
    partitioning,
    tabletypes,
    writes,
)
from sql.dialect import names, operations, parse, sqltypes
from storage import batch
from tests.kit import lakes, local_sql


def ident(text: str, *, quoted: bool = False) -> names.Ident:
    return names.Ident(text=text, quoted=quoted)


def new(text: str) -> writes.NewTable:
    statement = parse.parse(text)
    assert isinstance(statement, operations.CreateTable)
    columns = [
        writes.NewColumn(
            name=column.name.stored,
            type=column.type or sqltypes.TEXT,
            required=column.required,
            comment=column.comment,
        )
        for column in statement.columns
    ]
    return writes.new_table(statement, columns)


def test_create_table_becomes_what_a_rest_client_would_send() -> None:
    request = new(
        "create table t (id int not null comment 'k', v varchar(5), n number(9,2), at timestamp, "
        "x binary(4)) comment = 'c' partition by (month(at), bucket(8, id), v, truncate(4, v)) "
        "cluster by (id, v)"
    )

    assert request.schema["fields"] == [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "k"},
        {"id": 2, "name": "v", "required": False, "type": "string"},
        {"id": 3, "name": "n", "required": False, "type": "decimal(9,2)"},
        {"id": 4, "name": "at", "required": False, "type": "timestamp"},
        {"id": 5, "name": "x", "required": False, "type": "binary"},
    ]
    assert request.partition_spec is not None
    assert [
        (item["source-id"], item["name"], item["transform"])
        for item in request.partition_spec["fields"]
    ] == [
        (4, "at_month", "month"),
        (1, "id_bucket", "bucket[8]"),
        (2, "v", "identity"),
        (2, "v_trunc", "truncate[4]"),
    ]
    assert request.sort_order is not None
    assert [item["source-id"] for item in request.sort_order["fields"]] == [1, 2]
    assert request.properties["comment"] == "c"
    assert json.loads(request.properties[tabletypes.DECLARED]) == {
        "1": "NUMBER(38,0)",
        "2": "VARCHAR(5)",
        "5": "BINARY(4)",
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("create table t (a int, A int)", "002025"),
        ("create table t (a int) cluster by (b)", "000904"),
        ("create table t (a int) partition by (b)", "000904"),
    ],
)
def test_columns_that_do_not_fit_are_refused(text: str, code: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        new(text)
    assert caught.value.code == code


TYPES = [
    ("int", "long", "NUMBER(38,0)"),
    ("bigint", "long", "NUMBER(38,0)"),
    ("number", "decimal(38,0)", None),
    ("number(10,2)", "decimal(10,2)", None),
    ("decimal(5)", "decimal(5,0)", None),
    ("float", "double", None),
    ("double precision", "double", None),
    ("varchar", "string", None),
    ("varchar(7)", "string", "VARCHAR(7)"),
    ("string", "string", None),
    ("char(3)", "string", "VARCHAR(3)"),
    ("boolean", "boolean", None),
    ("date", "date", None),
    ("time", "time", None),
    ("timestamp", "timestamp", None),
    ("timestamp_ntz(6)", "timestamp", "TIMESTAMP_NTZ(6)"),
    ("datetime", "timestamp", None),
    ("timestamp_ltz", "timestamptz", None),
    ("binary", "binary", None),
    ("binary(16)", "binary", "BINARY(16)"),
]


@pytest.mark.parametrize(("declared", "stored", "remembered"), TYPES)
def test_declared_types_become_iceberg_types(
    declared: str, stored: str, remembered: str | None
) -> None:
    statement = parse.parse(f"create table t (a {declared})")
    assert isinstance(statement, operations.CreateTable)
    column_type = statement.columns[0].type
    assert column_type is not None

    assert tabletypes.iceberg_type(column_type) == stored
    assert tabletypes.declared_text(column_type) == remembered
    shown = sqltypes.shown(tabletypes.sql_type(stored, remembered))
    assert shown == (remembered or sqltypes.shown(column_type))


@pytest.mark.parametrize(
    ("transform", "source_type", "values", "expected"),
    [
        ("identity", "string", ["a", None], ["a", None]),
        ("year", "date", [datetime.date(1969, 12, 31), datetime.date(2024, 5, 1)], [-1, 54]),
        ("month", "date", [datetime.date(1969, 12, 31), datetime.date(1970, 2, 1)], [-1, 1]),
        ("day", "timestamp",
         [datetime.datetime.fromisoformat("1969-12-31T23:59:59"), None],
         [datetime.date(1969, 12, 31), None]),
        ("hour", "timestamp",
         [datetime.datetime.fromisoformat("1969-12-31T23:59:59"),
          datetime.datetime.fromisoformat("1970-01-01T01:00:00")], [-1, 1]),
        # The published examples of Iceberg's 32-bit hash: 34 is 2017239379, "iceberg" 1210000089.
        ("bucket[100]", "long", [34, None], [2017239379 % 100, None]),
        ("bucket[100]", "string", ["iceberg"], [1210000089 % 100]),
        ("truncate[10]", "long", [1, -1], [0, -10]),
        ("truncate[3]", "string", ["iceberg"], ["ice"]),
        ("truncate[50]", "decimal(9,2)", [Decimal("10.65")], [Decimal("10.50")]),
        ("void", "long", [1], [None]),
    ],
)  # fmt: skip
def test_partition_values_are_icebergs(
    transform: str, source_type: str, values: list[Any], expected: list[Any]
) -> None:
    column = pa.array(values, tabletypes.stored_type(source_type))

    transformed = partitioning.apply_transform(transform, source_type, column)

    assert transformed.to_pylist() == expected


def write(order: engine.Write, *tables: pa.Table) -> engine.Finished:
    async def stream() -> AsyncIterator[pa.RecordBatch]:
        for table in tables:
            for each in table.to_batches(max_chunksize=100_000):
                yield each

    return asyncio.run(parquet_files.write(stream(), order))


def order(
    tmp_path: Path,
    fields: Sequence[pa.Field[Any]],
    *,
    checks: Sequence[engine.ColumnConstraint] = (),
    **more: Any,
) -> engine.Write:
    return engine.Write(
        directory=str(tmp_path),
        schema=ipc.encode_schema(pa.schema(list(fields))),
        checks=tuple(checks) or tuple(engine.ColumnConstraint(name=field.name) for field in fields),
        **more,
    )


def test_files_are_split_by_partition_and_closed_at_their_size(tmp_path: Path) -> None:
    fields = [pa.field("k", pa.string()), pa.field("v", pa.int64())]
    partition = engine.PartitionField(
        name="0", column=0, transform="identity", source_type="string"
    )
    rows = pa.table({"k": ["b", "a", None, "b"], "v": [1, 2, 3, 4]})

    written = write(order(tmp_path, fields, partition=(partition,)), rows)

    assert written.rows == 4
    by_partition = {
        ipc.read_rows(file.partition).column(0)[0].as_py(): pq.read_table(file.path).to_pylist()
        for file in written.files
    }
    assert by_partition == {
        "a": [{"k": "a", "v": 2}],
        "b": [{"k": "b", "v": 1}, {"k": "b", "v": 4}],
        None: [{"k": None, "v": 3}],
    }

    assert all(Path(file.path).stat().st_size == file.size_bytes for file in written.files)


def test_a_file_is_closed_once_it_has_its_size(tmp_path: Path) -> None:
    fields = [pa.field("v", pa.int64())]
    rows = pa.table({"v": pa.array(range(6_000_000), pa.int64())})

    written = write(order(tmp_path, fields, file_size_bytes=1 << 20, compression="none"), rows)

    assert len(written.files) > 1
    assert sum(file.rows for file in written.files) == 6_000_000


def test_more_partitions_than_open_files_are_all_written(tmp_path: Path) -> None:
    count = limits.OPEN_FILES_MAX * 2 + 3
    fields = [pa.field("k", pa.int64())]
    partition = engine.PartitionField(name="0", column=0, transform="identity", source_type="long")
    rows = pa.table({"k": pa.array(range(count), pa.int64())})

    written = write(order(tmp_path, fields, partition=(partition,)), rows)

    assert len(written.files) == count
    assert sum(file.rows for file in written.files) == count


WIDTHS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DECIMALS = [
    (precision, scale)
    for precision in (1, 3, 5, 9, 10, 18, 19, 20, 38)
    for scale in (0, 2, 3, 17, 37)
    if scale <= precision
]


@pytest.mark.parametrize(("precision", "scale"), DECIMALS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_integers_fill_a_decimal_to_its_last_digit_and_not_beyond(
    tmp_path: Path, bits: str, precision: int, scale: int
) -> None:
    width = int(bits.removeprefix("u").removeprefix("int"))
    lowest = 0 if bits[0] == "u" else -(2 ** (width - 1))
    highest = lowest + 2**width - 1
    limit = 10 ** (precision - scale) - 1
    inside = [max(lowest, -limit), min(highest, limit), None, 0]
    outside = [value for value in (limit + 1, -limit - 1) if lowest <= value <= highest]
    wanted = pa.field("n", pa.decimal128(precision, scale))

    written = write(order(tmp_path, [wanted]), pa.table({"n": pa.array(inside, bits)}))

    read = pq.read_table(written.files[0].path).column("n")
    assert read.type == wanted.type
    assert read.to_pylist() == inside
    for value in outside:
        with pytest.raises(engine.EngineFault) as caught:
            write(order(tmp_path, [wanted]), pa.table({"n": pa.array([0, value], bits)}))
        assert (caught.value.code, Decimal(caught.value.message)) == ("100039", value)


@pytest.mark.parametrize(
    ("array", "field", "check", "code"),
    [
        (pa.array([1, None]), pa.field("a", pa.int64()),
         engine.ColumnConstraint(name="A", required=True), "100072"),
        (pa.array(["abcd"]), pa.field("a", pa.string()),
         engine.ColumnConstraint(name="A", length_max=3), "100078"),
        (pa.array(["äöüß"]), pa.field("a", pa.string()),
         engine.ColumnConstraint(name="A", length_max=3), "100078"),
        (pa.array([2**40]), pa.field("a", pa.int32()), engine.ColumnConstraint(name="A"), "100039"),
        (pa.array([Decimal("99999999999999999999")]), pa.field("a", pa.int64()),
         engine.ColumnConstraint(name="A"), "100039"),
        (pa.array([1.0, -1e300]), pa.field("a", pa.float32()),
         engine.ColumnConstraint(name="A"), "100039"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused_before_they_are_written(
    tmp_path: Path, array: Any, field: Any, check: engine.ColumnConstraint, code: str
) -> None:
    with pytest.raises(engine.EngineFault) as caught:
        write(order(tmp_path, [field], checks=[check]), pa.table([array], names=["a"]))

    assert (caught.value.cause, caught.value.code) == ("value", code)


def test_a_commit_that_fails_takes_its_files_along(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        commit = local.appends.commit_files

        async def failing(*arguments: Any, **more: Any) -> Any:
            raise catalog_errors.CommitFailed("lost the race")

        local.appends.commit_files = failing  # type: ignore[method-assign]
        with pytest.raises(errors.SqlError):
            await local.run("insert into t values (1)")
        objects = local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects
        assert objects == ()
        local.appends.commit_files = commit  # type: ignore[method-assign]
        await local.run("insert into t values (2)")
        assert await local.rows("select a from t") == [(2,)]

    local_sql.run_local(tmp_path, work)


def keys_below(local: local_sql.LocalSql, prefix: str) -> list[str]:
    return [info.key for info in local.lake.storage.objects.list("lake", prefix=prefix).objects]


PARTITION_VALUES = ["v", "", ".v", "..", "a/b", "a\\b", "\n", "ü" * 10, "=", "%2F", "l" * 1500]


def test_every_partition_of_an_odd_column_lies_where_the_layout_lets_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for name, column in (("t1", ".hidden"), ("t2", ".."), ("t3", "a=b/c"), ("t4", "ü\n")):
            await local.run(
                f'create table {name} ("{column}" text, v int) partition by ("{column}")'
            )
            rows = ", ".join(f"($${value}$$, {at})" for at, value in enumerate(PARTITION_VALUES))
            await local.run(f"insert into {name} values {rows}, (null, -1)")
            await local.run(
                f'create table copy_{name} partition by ("{column}") as select * from {name}'
            )
            for each in (name, f"copy_{name}"):
                keys = keys_below(local, f"ns/{each}/data/")
                assert len(keys) == len(PARTITION_VALUES) + 1
                for key in keys:
                    verdict = layout.judge(key, location=layout.Location(path=f"ns/{each}"))
                    assert verdict.role == "data"
                folders = {key.split("/")[3] for key in keys if key.count("/") == 4}
                assert len(folders) == len(PARTITION_VALUES), "all but the one that is too long"
                in_order = await local.rows(f'select "{column}", v from {each} order by v')
                assert in_order == [(None, -1), *((v, n) for n, v in enumerate(PARTITION_VALUES))]
                for at, value in enumerate(PARTITION_VALUES):
                    where = f'select v from {each} where "{column}" = $${value}$$'
                    assert await local.rows(where) == [(at,)]

    local_sql.run_local(tmp_path, work)


def test_a_file_that_the_layout_refuses_fails_the_statement_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, b text) partition by (b)")
        before = keys_below(local, "")
        # Another program has made the table's location a view's, below which no data may lie.
        place = local.lake.store.place("lake")
        key = records.location_key(place.bucket_id, "ns/t")
        with local.lake.storage.index.view() as view:
            value = view.get(batch.Store.LOCATIONS, key)
        assert value is not None
        row = msgspec.structs.replace(
            records.decode(value, records.LocationRow), object_type="view"
        )
        put = batch.Put(store=batch.Store.LOCATIONS, key=key, value=records.encode(row))
        await local.lake.storage.index.commit(batch.Batch(writes=(put,)))
        with pytest.raises(errors.SqlError, match="layout rule view-data") as caught:
            await local.run(f"insert into t values (1, 'x'), (2, '{'y' * 100_000}')")
        assert caught.value.code == "001008"
        assert keys_below(local, "") == before
        assert list((tmp_path / "blobs").glob("*/*")) == []
        assert list((tmp_path / "tmp").iterdir()) == []

    local_sql.run_local(tmp_path, work)


def test_a_table_at_an_s3a_location_takes_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        ident = local.lake.ident("ns.far")
        await local.lake.tables.create(
            ident, schema=lakes.SCHEMA, location="s3a://lake/ns/far", by=lakes.BY
        )
        await local.run("insert into far values (1, 'one')")
        await local.run("insert into far values (2, 'two')")
        assert await local.rows("select id, name from far order by id") == [(1, "one"), (2, "two")]
        assert len(keys_below(local, "ns/far/data/")) == 2
        with pytest.raises(errors.SqlError):
            await local.run("insert into far values (null, 'three')")
        assert len(keys_below(local, "ns/far/data/")) == 2

    local_sql.run_local(tmp_path, work)


def test_an_unknown_outcome_keeps_the_files(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run(
            "create view t_rows as select 1 as one from table(generator(rowcount => 50000))"
        )

        async def unknown(*arguments: Any, **more: Any) -> Any:
            raise catalog_errors.CommitStateUnknown("who knows")

        local.appends.commit_files = unknown  # type: ignore[method-assign]
        with pytest.raises(errors.SqlError):  # its file is too large to wait for the commit
            await local.run("insert into t select random() from t_rows")
        assert len(local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects) == 1

    local_sql.run_local(tmp_path, work)


def test_a_commit_that_succeeds_and_is_reported_unknown_has_its_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        commit_files = local.appends.commit_files

        async def unknown(*arguments: Any, **more: Any) -> Any:
            await commit_files(*arguments, **more)
            raise catalog_errors.CommitStateUnknown("who knows")

        local.appends.commit_files = unknown  # type: ignore[method-assign]
        with pytest.raises(errors.SqlError):
            await local.run("insert into t values (1)")
        assert await local.rows("select a from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_small_statements_are_one_index_transaction_each(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, b varchar)")
        await local.run("create table u (a int)")
        disk = local.lake.storage.disk
        transact, transacted = disk.transact, []

        def counted(commit: Any) -> None:
            transacted.append(commit)
            transact(commit)

        disk.transact = counted  # type: ignore[method-assign]
        for text in (
            "insert into t values (1, 'a'), (2, 'b')",
            "insert into t values (3, 'c')",
            "update t set b = 'd' where a = 1",
            "delete from t where a = 2",
            "merge into t using (select 3 as a union all select 4) s on t.a = s.a"
            " when matched then update set b = 'e' when not matched then insert values (s.a, 'f')",
            "insert all into t values (a, b) into u values (a) select 7 as a, 'g' as b",
            "insert overwrite into u select a + 1 from u",
            "truncate table u",
        ):
            transacted.clear()
            await local.run(text)
            assert len(transacted) == 1, text
        assert await local.rows("select a, b from t order by a") == [
            (1, "d"),
            (3, "e"),
            (4, "f"),
            (7, "g"),
        ]
        assert await local.rows("select a from u") == []

    local_sql.run_local(tmp_path, work)


def test_a_cancelled_insert_leaves_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        text = (
            "insert into t with recursive n as (select 1 i union all select i + 1 from n "
            "where i < 100000000) select i from n"
        )
        running = asyncio.create_task(local.run(text))
        await asyncio.wait({running}, timeout=1.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects == ()
        assert list((tmp_path / "tmp").iterdir()) == []
        assert await local.rows("select count(*) from t") == [(0,)]

    local_sql.run_local(tmp_path, work, workers=1)


def test_rows_made_for_a_table_that_is_replaced_meanwhile_go_nowhere(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        commit_files = local.appends.commit_files

        async def replaced(*arguments: Any, **more: Any) -> Any:
            await local.lake.tables.drop(local.lake.ident("ns.t"), by=lakes.BY)
            await local.lake.tables.create(
                local.lake.ident("ns.t"), schema=lakes.SCHEMA, by=lakes.BY
            )
            return await commit_files(*arguments, **more)

        local.appends.commit_files = replaced  # type: ignore[method-assign]
        with pytest.raises(errors.SqlError) as raised:
            await local.run("insert into t values (1)")
        assert raised.value.code == "002003"
        assert await local.rows("select * from t") == []
        assert [key for key in keys_below(local, "ns/t") if "/metadata/0000" not in key] == []

    local_sql.run_local(tmp_path, work)


def test_default_in_values_is_each_columns_own_default(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create sequence numbers start 50")
        await local.run(
            "create table t (a int, b int default 7, c varchar default upper('x'), "
            "d int autoincrement, e int default numbers.nextval, f varchar)"
        )
        await local.run("insert into t values (1, default, default, default, default, default)")
        assert await local.rows("select * from t") == [(1, 7, "X", 1, 50, None)]
        await local.run(
            "insert overwrite into t (b, a, c) values (default, 2, 'k'), (4, 3, default)"
        )
        assert await local.rows("select a, b, c from t order by a") == [(2, 7, "k"), (3, 4, "X")]
        await local.run(
            "insert overwrite into t (d, a) values (100, 1), (default, 2), (default, 3)"
        )
        numbers = [row[0] for row in await local.rows("select d from t order by a")]
        assert numbers[0] == 100
        assert len(set(numbers)) == 3
        bound = {"1": bindings.Binding(type="fixed", values=(9,))}
        await local.run("insert overwrite into t (b, a) values (default, ?)", bindings=bound)
        assert await local.rows("select a, b from t") == [(9, 7)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("insert into t (a, b) values (1, default, 3)", "002020"),
        ("insert into t values (1)", "002020"),
        ("insert into t values (default)", "002020"),
        ("insert into t (a, b) values (1, default), (default)", "002020"),
        ("insert into t (a, b) select 1, default", "000904"),
        ("insert into t (a, b) values (1, default + 1)", "001003"),
        ("insert into t (b, a) values (1, default)", "100072"),
    ],
)
def test_default_in_the_wrong_place_is_refused(tmp_path: Path, text: str, code: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int not null, b int default 7)")
        with pytest.raises(errors.SqlError) as raised:
            await local.run(text)
        assert raised.value.code == code
        assert await local.rows("select * from t") == []

    local_sql.run_local(tmp_path, work)
