"""Columns of Iceberg's `variant`: files of every form read, and what SQL writes."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import manifests
from sql import (
    engine,
    errors,
    ipc,
    kernels,
    parquet_files,
    tabletypes,
    variant_columns,
    variant_encoding,
    variants,
)
from tests.kit import examples, local_sql, tablefiles
from tests.kit.tablefiles import IDS, field, make

V3 = {"format-version": "3"}
FIELDS = [field(1, "id", "long"), field(2, "v", "variant")]
PLAIN = variant_columns.STORED


def column(arrow_type: pa.DataType) -> dict[int, tuple[str, pa.DataType]]:
    return {1: ("id", pa.int64()), 2: ("v", arrow_type)}


def of_json(text: str) -> dict[str, bytes]:
    """Return the group of a JSON value."""
    value = variants.loads(text)
    metadata, data = variant_encoding.encode(value, variant_encoding.value_bytes)
    return {"metadata": metadata, "value": data}


def primitive(number: int, body: bytes) -> dict[str, bytes]:
    return {"metadata": b"\x01\x00\x00", "value": bytes([number << 2]) + body}


async def stored_rows(local: local_sql.LocalSql, name: str = "ns.t") -> list[dict[str, Any]]:
    """Return the rows of a table's live data files as PyArrow reads them."""
    rows: list[dict[str, Any]] = []
    for path in await live_paths(local, name):
        rows += pq.read_table(path).to_pylist()
    return sorted(rows, key=lambda row: row["id"] or 0)


async def live_paths(local: local_sql.LocalSql, name: str = "ns.t") -> list[Path]:
    loaded = local.lake.load(local.lake.ident(name))
    live = await local.appends.live_files(loaded, principal=local_sql.ROOT)
    paths = []
    for file in live:
        if file.content is manifests.Content.DATA:
            bucket, _, key = file.file_path.removeprefix("s3://").partition("/")
            info = local.lake.storage.objects.head(bucket, key)
            paths.append(local.lake.storage.links.path_of(info))
    return paths


# Reading

PART = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
LIST = pa.list_(pa.field("element", PART))


def shredded(typed: pa.DataType, *, has_value: bool = True) -> pa.DataType:
    own = [("value", pa.binary())] if has_value else []
    return pa.struct([("metadata", pa.binary()), *own, ("typed_value", typed)])


def test_files_of_one_table_are_shredded_in_their_own_ways(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS, properties=V3)
        names = b"\x01\x03\x00\x01\x02\x03abc"
        three = variant_encoding.value_bytes(3)
        residual = variant_encoding.encode({"c": True}, variant_encoding.value_bytes)[1]
        # The name `c` has the id 2 in the dictionary of this file.
        residual = residual[:2] + b"\x02" + residual[3:]
        members = pa.struct([("a", PART), ("b", pa.struct([("typed_value", LIST)]))])
        files = [
            (PLAIN, [(1, of_json('{"a":1,"b":[2]}')), (2, None), (3, of_json("null"))]),
            (pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), [
                (4, of_json('"in another order"')),
                (5, {"metadata": names, "value": None}),
            ]),
            (pa.struct([("metadata", pa.large_binary()), ("value", pa.binary_view())]), [
                (18, of_json('{"large":1}')),
            ]),
            (shredded(pa.large_string()), [
                (19, {"metadata": names, "value": None, "typed_value": "large"}),
            ]),
            (shredded(pa.string_view()), [
                (20, {"metadata": names, "value": None, "typed_value": "view"}),
            ]),
            (shredded(pa.int64()), [
                (6, {"metadata": names, "value": None, "typed_value": 7}),
                (7, {"metadata": names, "value": b"\x05x", "typed_value": None}),
                (8, None),
            ]),
            (shredded(pa.string(), has_value=False), [
                (9, {"metadata": names, "typed_value": "\x01d"}),
                (10, {"metadata": names, "typed_value": None}),
            ]),
            (shredded(LIST), [
                (11, {"metadata": names, "value": None, "typed_value": [
                    {"value": None, "typed_value": 1}, {"value": b"\x00", "typed_value": None},
                    {"value": three, "typed_value": None}, {"value": None, "typed_value": None},
                    None,
                ]}),
                (12, {"metadata": names, "value": None, "typed_value": []}),
                (13, {"metadata": names, "value": b"\x04", "typed_value": None}),
            ]),
            (shredded(members), [
                (14, {"metadata": names, "value": residual, "typed_value": {
                    "a": {"value": None, "typed_value": 1},
                    "b": {"typed_value": [{"value": None, "typed_value": 5}]},
                }}),
                (15, {"metadata": names, "value": None, "typed_value": {
                    "a": {"value": None, "typed_value": None}, "b": {"typed_value": None},
                }}),
                (16, {"metadata": names, "value": three, "typed_value": None}),
                (17, {"metadata": names, "value": None, "typed_value": {
                    "a": {"value": b"\x05q", "typed_value": None}, "b": None,
                }}),
            ]),
        ]  # fmt: skip
        for arrow_type, rows in files:
            await maker.commit(await maker.data_file(column(arrow_type), rows))
        text = "select id, to_json(v), typeof(v), v is null from t order by id"
        assert await local.rows(text) == [
            (1, '{"a":1,"b":[2]}', "OBJECT", False),
            (2, None, None, True),
            (3, "null", "NULL_VALUE", False),
            (4, '"in another order"', "VARCHAR", False),
            (5, "null", "NULL_VALUE", False),
            (6, "7", "INTEGER", False),
            (7, '"x"', "VARCHAR", False),
            (8, None, None, True),
            (9, '"\\u0001d"', "VARCHAR", False),
            (10, "null", "NULL_VALUE", False),
            (11, "[1,null,3,null,null]", "ARRAY", False),
            (12, "[]", "ARRAY", False),
            (13, "true", "BOOLEAN", False),
            (14, '{"a":1,"b":[5],"c":true}', "OBJECT", False),
            (15, "{}", "OBJECT", False),
            (16, "3", "INTEGER", False),
            (17, '{"a":"q"}', "OBJECT", False),
            (18, '{"large":1}', "OBJECT", False),
            (19, '"large"', "VARCHAR", False),
            (20, '"view"', "VARCHAR", False),
        ]
        assert await local.rows("select id from t where v:a::varchar = '1' order by id") == [
            (1,),
            (14,),
        ]
        assert await local.rows("select sum(v:b[0]::int) from t") == [(7,)]
        # A change writes the rows of all its files anew, with the types that they have.
        await local.run("update t set id = id + 100")
        moved = text.replace("select id", "select id - 100")
        assert await local.rows(moved) == await local.rows(text.replace("id,", "id - 100,"))
        kept = {row["id"] - 100: row["v"] for row in await stored_rows(local)}
        assert kept[1] == of_json('{"a":1,"b":[2]}')
        assert kept[6]["value"] == b"\x18" + struct.pack("<q", 7)  # an int64, as it was
        assert kept[2] is None

    local_sql.run_local(tmp_path, work)


TYPED: dict[str, tuple[pa.DataType, Any, str]] = {
    "boolean": (pa.bool_(), False, "false"),
    "int8": (pa.int8(), -1, "-1"),
    "int16": (pa.int16(), 300, "300"),
    "int32": (pa.int32(), 7, "7"),
    "int64": (pa.int64(), 1 << 62, str(1 << 62)),
    "float": (pa.float32(), 0.5, "0.5e0"),
    "double": (pa.float64(), 0.1, "0.1e0"),
    "decimal4": (pa.decimal128(9, 2), decimal.Decimal("1.50"), "1.5"),
    "decimal8": (pa.decimal128(18, 0), decimal.Decimal(10**17), "1" + "0" * 17),
    "decimal16": (pa.decimal128(38, 37), decimal.Decimal(3), "3"),
    "date": (pa.date32(), datetime.date(2026, 1, 2), '"\\u0001d2026-01-02"'),
    "timestamp": (
        pa.timestamp("us", "UTC"), 1, '"\\u0001l1970-01-01 09:00:00.000001 +0900"',
    ),
    "timestamp in nanoseconds": (
        pa.timestamp("ns", "UTC"), 1, '"\\u0001l1970-01-01 09:00:00.000000001 +0900"',
    ),
    "local timestamp": (pa.timestamp("us"), 1, '"\\u0001n1970-01-01 00:00:00.000001"'),
    "local timestamp in nanoseconds": (
        pa.timestamp("ns"), -1, '"\\u0001n1969-12-31 23:59:59.999999999"',
    ),
    "time": (pa.time64("us"), 1, '"\\u0001t00:00:00.000001"'),
    "string": (pa.string(), "é" * 40, '"' + "é" * 40 + '"'),
    "binary": (pa.binary(), b"\x00\xff", '"\\u0001b00FF"'),
    "uuid": (pa.uuid(), uuid.UUID(int=1).bytes, f'"{uuid.UUID(int=1)}"'),
}  # fmt: skip
"""A typed column, a value in it, and its canonical text in the zone Asia/Tokyo."""


@pytest.mark.parametrize("name", TYPED)
def test_each_type_of_a_typed_value_becomes_the_value_that_its_binary_form_has(name: str) -> None:
    arrow_type, value, text = TYPED[name]
    stored = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    typed = pa.array([value, None], stored)
    group = variant_columns.group_type(
        pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", arrow_type)])
    )
    array = pa.StructArray.from_arrays(
        [pa.array([b"\x01\x00\x00"] * 2), pa.array([None, b"\x04"], pa.binary()), typed],
        fields=list(group),
    )
    assert texts_of(array, "Asia/Tokyo") == [text, "true"]
    packed = kernels.kernel(f"_v_packed_group_{variant_columns.encoded(array.type)}")
    unshredded = variant_columns.unpacked(packed.function(array))
    assert texts_of(unshredded, "Asia/Tokyo") == [text, "true"]


def texts_of(array: Any, zone: str = "UTC") -> list[str | None]:
    array = array.cast(variant_columns.group_type(array.type))
    name = f"_v_of_group_{variant_columns.encoded(array.type)}"
    texts: list[str | None] = kernels.kernel(name, zone=zone).function(array).to_pylist()
    return texts


INSTANTS = {
    "local mean time": (12, -3786825599500000, "1850-01-01 09:18:59.500000 +091859"),
    "its nanoseconds": (18, -9223372036854775808, "1677-09-21 09:31:42.145224192 +091859"),
    "the last of all": (12, (1 << 63) - 1, "294247-01-10 13:00:54.775807 +0900"),
    "the first of all": (12, -1 << 63, "-290308-12-22 05:18:04.224192 +091859"),
}
"""The number of a type, an instant, and its text in the zone Asia/Tokyo."""


@pytest.mark.parametrize("name", INSTANTS)
def test_an_instant_of_any_year_and_offset_reads_back_as_it_was(name: str) -> None:
    number, instant, text = INSTANTS[name]
    row = primitive(number, struct.pack("<q", instant))
    (shown,) = texts_of(pa.array([row], PLAIN), "Asia/Tokyo")
    assert shown == f'"\\u0001l{text}"'
    packed = kernels.kernel("_v_packed").function(pa.array([shown]))
    assert variant_columns.unpacked(packed).to_pylist()[0]["value"] == row["value"]


def test_instants_of_before_time_zones_stay_the_same_from_column_to_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (id int, v variant) iceberg_version = 3")
        await local.run("alter session set timezone = 'Asia/Tokyo'")
        moment = "'1850-01-01 00:00:00.5 +0000'::timestamp_ltz"
        await local.run(f"insert into t select 1, to_variant({moment})")
        await local.run("insert into t select 2, v from t")
        text = (
            f"select v::timestamp_ltz = {moment}, v::timestamp_ntz = {moment}::timestamp_ntz,"
            " v::varchar from t"
        )
        assert await local.rows(text) == [(True, True, "1850-01-01 09:18:59.500 +0918")] * 2
        assert await local.rows("select count(distinct v) from t") == [(1,)]
        # A TIMESTAMP_TZ has whole minutes, and the same instant.
        for text in ("'1850-01-01 09:18:59.5 +091859'", "(select '1850-01-01 09:18:59.5 +091859')"):
            assert await local.rows(
                f"select {text}::timestamp_tz = {moment}, {text}::timestamp_tz::varchar"
            ) == [(True, "1850-01-01 09:18:00.500 +0918")]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("is_listed", [False, True])
def test_values_that_are_much_larger_than_their_columns_are_refused_at_once(
    is_listed: bool,
) -> None:
    name = "n" * 1_000_000
    members = pa.struct([(name, pa.struct([("typed_value", pa.int64())]))])
    member = {name: {"typed_value": 1}}
    row: dict[str, Any] = {"metadata": b"\x01\x00\x00", "value": None, "typed_value": member}
    typed, rows = members, [row] * 2_000
    if is_listed:
        typed = pa.list_(pa.struct([("typed_value", members)]))
        rows = [{**row, "typed_value": [{"typed_value": member}] * 2_000}]
    array = pa.array(rows, shredded(typed))
    for of in ("of", "packed"):
        kernel = kernels.kernel(f"_v_{of}_group_{variant_columns.encoded(array.type)}", zone="UTC")
        with pytest.raises(ValueError, match="Resources exhausted"):
            kernel.function(array)


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.binary(),
        pa.struct([("metadata", pa.binary())]),
        pa.struct([("value", pa.binary()), ("typed_value", pa.int64())]),
        pa.struct([("metadata", pa.string()), ("value", pa.binary())]),
        pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("more", pa.binary())]),
        pa.struct([("metadata", pa.binary()), ("metadata", pa.binary())]),
        shredded(pa.timestamp("ms")),
        shredded(pa.uint32()),
        shredded(pa.struct([("a", pa.int64())])),
        shredded(pa.struct([("a", PART), ("a", PART)])),
        shredded(pa.list_(pa.int64())),
        shredded(pa.map_(pa.string(), pa.int64())),
    ],
)
def test_a_file_whose_column_is_no_group_of_a_variant_is_refused_by_name(
    tmp_path: Path, arrow_type: pa.DataType
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS, properties=V3)
        await maker.commit(await maker.data_file(column(arrow_type), [(1, None)]))
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select v from t")
        assert caught.value.code == "000002"
        assert "column v of Iceberg type variant, which a file holds as" in caught.value.message

    local_sql.run_local(tmp_path, work)


def test_a_file_that_is_shredded_too_deeply_is_refused_by_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS, properties=V3)
        path = tmp_path / "deep.parquet"
        deep = "[" * 60 + "]" * 60
        text = deep.replace("[]", "[1]")
        query = f"SELECT 1 id, '{text}'::JSON::VARIANT v"
        duckdb.connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        data = path.read_bytes()
        file = manifests.DataFile(
            file_path=await maker.put("deep.parquet", data),
            file_format="PARQUET",
            record_count=1,
            file_size_in_bytes=len(data),
        )
        await maker.commit(file)
        with pytest.raises(errors.SqlError, match="data files of deeply nested columns") as caught:
            await local.rows("select id from t")
        assert caught.value.code == "000002"

    local_sql.run_local(tmp_path, work)


DAMAGED = {
    "no metadata": {"metadata": None, "value": b"\x00"},
    "a version that is not there": {"metadata": b"\x02\x00\x00", "value": b"\x00"},
    "a value that ends early": {"metadata": b"\x01\x00\x00", "value": b"\x18\x00"},
    "an empty value": {"metadata": b"\x01\x00\x00", "value": b""},
    "names that are not there": {"metadata": b"\x01\x00\x00", "value": b"\x02\x01\x00\x00\x01\x00"},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_variant_fails_the_queries_that_read_it_alone(tmp_path: Path, name: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS, properties=V3)
        loose = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
        rows = [(1, of_json("1")), (2, DAMAGED[name])]
        await maker.commit(await maker.data_file(column(loose), rows))
        with pytest.raises(errors.SqlError, match="a damaged variant") as caught:
            await local.rows("select v from t")
        assert caught.value.code == "091364"
        assert await local.rows("select id from t order by id") == [(1,), (2,)]
        assert await local.rows("select v::int from t where id = 1") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_a_typed_value_beside_what_it_stands_for_is_damage() -> None:
    members = pa.struct([("a", PART)])
    one = {"a": {"value": None, "typed_value": 1}}
    for value in (b"\x04", of_json('{"a":2}')["value"]):
        row = {"metadata": b"\x01\x01\x00\x01a", "value": value, "typed_value": one}
        with pytest.raises(ValueError, match=r"091364.*beside its typed value"):
            texts_of(pa.array([row], shredded(members)))


def test_a_number_with_more_digits_than_its_column_has_is_damage() -> None:
    number = pa.py_buffer((10**37).to_bytes(16, "little"))
    typed = pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, number])
    columns = [pa.array([b"\x01\x00\x00"]), pa.nulls(1, pa.binary()), typed]
    array = pa.StructArray.from_arrays(columns, ["metadata", "value", "typed_value"])
    for of in ("of", "packed"):
        kernel = kernels.kernel(f"_v_{of}_group_{variant_columns.encoded(array.type)}", zone="UTC")
        with pytest.raises(ValueError, match=r"091364.*more than 5 digits"):
            kernel.function(array)


def test_what_a_variant_of_sql_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS, properties=V3)
        rows = [
            (1, primitive(40, b"")),
            (2, primitive(19, struct.pack("<q", 1))),
            (3, primitive(10, b"\x26" + (10**37 + 1).to_bytes(16, "little"))),
        ]
        await maker.commit(await maker.data_file(column(PLAIN), rows))
        for number, words in ((1, "primitive type 40"), (3, "too many digits")):
            with pytest.raises(errors.SqlError, match=words) as caught:
                await local.rows(f"select v from t where id = {number}")
            assert caught.value.code == "000002"
        # Nanoseconds are there until a value of microseconds is wanted.
        ((shown, order),) = await local.rows("select v, v = v from t where id = 2")
        assert (shown, order) == ('"1970-01-01 00:00:00.000"', True)
        with pytest.raises(errors.SqlError, match="digits below a microsecond"):
            await local.rows("select v::timestamp_ntz from t where id = 2")
        # All of them stay as they are where other rows of their file change.
        await local.run("insert into t (id) values (4)")
        await local.run("update t set id = id + 10")
        assert [row["v"] for row in await stored_rows(local)] == [each for _, each in rows] + [None]

    local_sql.run_local(tmp_path, work)


# DuckDB as the oracle

plain_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 62), 1 << 62),
        st.floats(allow_nan=False, allow_infinity=False).filter(lambda each: each != int(each)),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=70),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=9),
            inner,
            min_size=1,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """Return a value of JSON or of DuckDB with floats for numbers."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    is_number = isinstance(value, int | decimal.Decimal) and not isinstance(value, bool)
    return float(value) if is_number else value


@examples.at_most(120)
@given(st.lists(plain_json, min_size=1, max_size=8))
def test_duckdb_reads_the_values_that_are_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("written")
    path = written(folder, [variants.parse_json(json.dumps(row)) for row in rows])
    read = duckdb.connect().execute(f"SELECT v FROM '{path}' ORDER BY id").fetchall()
    assert [plain(value) for (value,) in read] == [plain(row) for row in rows]


def written(folder: Path, texts: list[str]) -> str:
    """Write VARIANTs as the engine's process does; return the file."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={IDS: "1"}),
            pa.field("v", variant_columns.STORED, metadata={IDS: "2"}),
        ]
    )
    order = engine.Write(
        directory=str(folder),
        schema=ipc.encode_schema(schema),
        checks=(
            engine.ColumnConstraint(name="id"),
            engine.ColumnConstraint(name="v", is_packed=True),
        ),
    )
    packed = kernels.kernel("_v_packed").function(pa.array(texts, pa.string()))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(texts)), pa.int64()), packed], names=["id", "v"]
    )

    async def stream() -> Any:
        yield batch

    async def write() -> engine.Finished:
        return await parquet_files.write(stream(), order)

    return asyncio.run(write()).files[0].path


@examples.at_most(120)
@given(st.lists(plain_json, min_size=1, max_size=8), st.booleans())
def test_the_values_that_duckdb_shreds_are_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], are_alike: bool
) -> None:
    path = tmp_path_factory.mktemp("shredded") / "file.parquet"
    texts = [json.dumps({"k": row, "n": 1} if are_alike else row) for row in rows]
    duck = duckdb.connect()
    duck.execute("CREATE TABLE t (id INT, j VARCHAR)")
    duck.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(texts)))
    duck.execute(f"COPY (SELECT id, j::JSON::VARIANT v FROM t ORDER BY id) TO '{path}'")
    oracle = duck.execute(f"SELECT v FROM '{path}' ORDER BY id").fetchall()
    read = texts_of(pq.read_table(path).column("v").combine_chunks())
    values = [plain(json.loads(text or "null")) for text in read]
    assert values == [plain(value) for (value,) in oracle]
    assert values == [plain(json.loads(text)) for text in texts]


# Writing

BEYOND_JSON = {
    "'2026-01-02'::date": ("DATE", '"2026-01-02"', 11),
    "'01:02:03.456789'::time": ("TIME", '"01:02:03"', 17),
    "'2026-01-02 03:04:05.678901'::timestamp_ntz": (
        "TIMESTAMP_NTZ", '"2026-01-02 03:04:05.678"', 13,
    ),
    "'2026-01-02 03:04:05.678901 +0000'::timestamp_ltz": (
        "TIMESTAMP_LTZ", '"2026-01-02 03:04:05.678 +0000"', 12,
    ),
    "to_binary('00AB', 'hex')": ("BINARY", '"00AB"', 15),
    "1.5::float": ("DOUBLE", "1.500000000000000e+00", 7),
    "'NaN'::float": ("DOUBLE", "NaN", 7),
    "1.50": ("DECIMAL", "1.5", 8),
    "12345678901.5": ("DECIMAL", "12345678901.5", 9),
    "99999999999999999999": ("INTEGER", "99999999999999999999", 10),
    "7": ("INTEGER", "7", 3),
    "true": ("BOOLEAN", "true", 1),
}  # fmt: skip
"""A value: its type in SQL, how it is shown, and the number of its primitive type."""


def test_a_variant_keeps_the_types_that_json_lacks(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (id int, v variant) iceberg_version = 3")
        await local.run("create table plain (id int, v variant)")
        for number, text in enumerate(BEYOND_JSON):
            for name in ("t", "plain"):
                await local.run(f"insert into {name} select {number}, to_variant({text})")
        read = await local.rows("select typeof(v), v from t order by id")
        assert read == [each[:2] for each in BEYOND_JSON.values()]
        assert [row["v"]["value"][0] >> 2 for row in await stored_rows(local)] == [
            number for *_, number in BEYOND_JSON.values()
        ]
        same = [
            await local.one(f"select v = to_variant({text}) from t where id = {number}")
            for number, text in enumerate(BEYOND_JSON)
        ]
        assert same == [True] * len(BEYOND_JSON)
        # As texts they come back from a column of strings.
        names = {name for (name,) in await local.rows("select distinct typeof(v) from plain")}
        assert names == {"VARCHAR", "DOUBLE", "DECIMAL", "INTEGER", "BOOLEAN"}

    local_sql.run_local(tmp_path, work)


def test_every_statement_that_writes_rows_writes_variants(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (id int, v variant) iceberg_version = 3")
        await local.run("insert into t select 1, parse_json('{\"a\": [1, 2.5]}')")
        await local.run("insert into t select column1, to_variant(column2) from values (2, 2)")
        await local.run("insert into t values (3, null)")
        await local.run("insert into t (id) values (4)")
        day = "to_variant('2026-01-02'::date)"
        await local.run(f"update t set v = {day} where id = 4")
        await local.run(
            "merge into t using (select 1 id union all select 5) s on t.id = s.id"
            f" when matched then update set v = {day}"
            " when not matched then insert (id, v) values (s.id, parse_json('[true]'))"
        )
        await local.run("delete from t where id = 2")
        await local.run(f"insert all into t (id, v) values (n, x) select 6 n, {day} x")
        await local.run("create stage s")
        await local.run("copy into @s/rows from (select object_construct('n', 7))")
        await local.run(
            "copy into t (id, v) from (select 7, $1 from @s/rows) file_format = (type = json)"
        )
        expected = [
            (1, "DATE", '"2026-01-02"'), (3, None, None), (4, "DATE", '"2026-01-02"'),
            (5, "ARRAY", "[true]"), (6, "DATE", '"2026-01-02"'), (7, "OBJECT", '{"n":7}'),
        ]  # fmt: skip
        text = "select id, typeof(v), to_json(v) from {} order by id"
        assert await local.rows(text.format("t")) == expected
        await local.run("create iceberg table u iceberg_version = 3 as select * from t")
        await local.run("create table c clone t")
        await local.run("create table l like t")
        await local.run("insert overwrite into l select * from t")
        for name in ("u", "c", "l"):
            assert await local.rows(text.format(name)) == expected
            loaded = local.lake.load(local.lake.ident(f"ns.{name}"))
            assert loaded.metadata.current_schema()["fields"][1]["type"] == "variant"
        for name in ("ns.t", "ns.u", "ns.c", "ns.l"):
            for path in await live_paths(local, name):
                schema = str(pq.read_metadata(path).schema)
                assert "optional group field_id=2 v (Variant(1)) {" in schema
            loaded = local.lake.load(local.lake.ident(name))
            for file in await local.appends.live_files(loaded, principal=local_sql.ROOT):
                assert 2 not in {*file.metrics.lower_bounds, *file.metrics.upper_bounds}

    local_sql.run_local(tmp_path, work)


def test_merge_on_read_leaves_variants_where_they_are(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create iceberg table t (id int, v variant) iceberg_version = 3"
            " enable_iceberg_merge_on_read = true"
        )
        await local.run(
            "insert into t select seq4(), to_variant(1.5) from table(generator(rowcount => 100))"
        )
        before = set(await live_paths(local))
        await local.run("update t set v = to_variant(true) where id = 7")
        await local.run("delete from t where id = 8")
        assert before < set(await live_paths(local))
        counts = await local.rows("select typeof(v), count(*) from t group by 1 order by 1")
        assert counts == [("BOOLEAN", 1), ("DECIMAL", 98)]

    local_sql.run_local(tmp_path, work)


def test_a_required_column_takes_json_null_and_refuses_null(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (id int, v variant not null) iceberg_version = 3")
        for refused in ("insert into t (id) values (1)", "insert into t values (1, null)"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(refused)
            assert caught.value.code == "100072"
        await local.run("insert into t select 2, parse_json('null')")
        assert await local.rows("select id, v, typeof(v) from t") == [(2, "null", "NULL_VALUE")]

    local_sql.run_local(tmp_path, work)


# Which tables have columns of `variant`


async def types_of(local: local_sql.LocalSql, name: str = "ns.t") -> list[str]:
    loaded = local.lake.load(local.lake.ident(name))
    return [each["type"] for each in loaded.metadata.current_schema()["fields"]]


def test_columns_are_of_variant_in_iceberg_tables_created_with_version_3_alone(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        columns = "(v variant, o object, a array)"
        for statement, stored in {
            f"create iceberg table t {columns} iceberg_version = 3": "variant",
            f"create or replace iceberg table t {columns} iceberg_version = 3": "variant",
            f"create or replace table t {columns}": "string",
            f"create or replace iceberg table t {columns}": "string",
            f"create iceberg table u {columns} iceberg_version = 2": "string",
            f"create table w {columns}": "string",
            "create iceberg table x iceberg_version = 3 as select parse_json('1') v, {} o, [] a": (
                "variant"
            ),
            "create table y as select v, o, a from x": "string",
        }.items():
            await local.run(statement)
            name = statement.split(" table ")[1].split()[0]
            assert await types_of(local, f"ns.{name}") == [stored, "string", "string"], statement
            described = [row[1] for row in await local.rows(f"describe table {name}")]
            assert described == ["VARIANT", "OBJECT", "ARRAY"]
            text = (
                "select data_type from information_schema.columns where table_schema = 'NS'"
                f" and table_name = upper('{name}') order by ordinal_position"
            )
            assert [row[0] for row in await local.rows(text)] == ["VARIANT", "OBJECT", "ARRAY"]

    local_sql.run_local(tmp_path, work)


def test_a_new_column_is_of_the_type_that_the_table_says(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (id int) iceberg_version = 3")
        await local.run("insert into t values (1)")
        await local.run("alter table t add column v variant")
        maker = tablefiles.Maker(local=local, ident=local.lake.ident("ns.t"))
        for word in ("text", "variant"):
            updates = {tabletypes.VARIANTS: word}
            await maker.update({"action": "set-properties", "updates": updates})
            await local.run(f"alter table t add column {word}_column variant")
        await maker.update({"action": "remove-properties", "removals": [tabletypes.VARIANTS]})
        await local.run("alter table t add column like_others variant")
        assert await types_of(local) == ["long", "variant", "string", "variant", "variant"]
        assert await local.rows("select * from t") == [(1, None, None, None, None)]
        await local.run("update t set v = to_variant('2026-01-01'::date), like_others = v")
        assert await local.rows("select typeof(v), like_others from t") == [("DATE", None)]
        await local.run("alter table t drop column like_others")
        await local.run("alter table t rename column v to w")
        assert await local.rows("select w from t") == [('"2026-01-01"',)]

        await local.run("create table plain (id int)")
        other = tablefiles.Maker(local=local, ident=local.lake.ident("ns.plain"))
        await other.update(
            {"action": "set-properties", "updates": {tabletypes.VARIANTS: "variant"}}
        )
        await local.run("alter table plain add column v variant")
        await other.update({"action": "upgrade-format-version", "format-version": 3})
        await local.run("alter table plain add column w variant")
        assert await types_of(local, "ns.plain") == ["long", "string", "variant"]

    local_sql.run_local(tmp_path, work)


def test_a_variant_is_no_key_of_partitions_clusters_and_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for clause in ("cluster by (v)", "partition by (v)", "partition by (bucket(4, v))"):
            with pytest.raises(errors.SqlError, match="variant"):
                await local.run(f"create iceberg table t (v variant) {clause} iceberg_version = 3")
        await local.run("create iceberg table t (v variant primary key) iceberg_version = 3")
        loaded = local.lake.load(local.lake.ident("ns.t"))
        assert "identifier-field-ids" not in loaded.metadata.current_schema()

    local_sql.run_local(tmp_path, work)


def test_a_default_of_a_variant_is_kept_beside_icebergs_schema(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create iceberg table t (id int, v variant default parse_json('{\"a\": 1}'))"
            " iceberg_version = 3"
        )
        await local.run("insert into t (id) values (1)")
        await local.run("update t set v = default where id = 1")
        assert await local.rows("select id, to_json(v) from t") == [(1, '{"a":1}')]
        loaded = local.lake.load(local.lake.ident("ns.t"))
        assert "write-default" not in loaded.metadata.current_schema()["fields"][1]

    local_sql.run_local(tmp_path, work)
