"""Columns of the logical type VARIANT in staged Parquet files, written by DuckDB and by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sql import errors, parquet_footers, variant_columns
from tests.kit import local_sql
from tests.sql.test_parquet_footers import with_footer

VALUES = (
    "{'n': 1, 'd': date '2024-01-02', 'at': timestamptz '2024-01-02 03:04:05.678901+00'}",
    "{'n': 2, 'd': null, 'at': null}",
    "[1, null]",
    "'text'",
    "1.50::decimal(5, 2)",
)
"""What DuckDB stores, in the rows from 1 on; the row after them has none."""

LOADED: list[Any] = [
    {"n": 1, "d": "2024-01-02", "at": "2024-01-02 03:04:05.678901 +0000"},
    {"n": 2, "d": None, "at": None},
    [1, None],
    "text",
    1.5,
    None,
]
READ = "@~/v.parquet (file_format => 'p')"
COPIED = "from @~/v.parquet file_format = (type = parquet)"


def shredded(path: Path, values: tuple[str, ...]) -> bytes:
    """A file with the columns `id` and `v`."""
    duck = duckdb.connect()
    duck.execute("set timezone = 'UTC'")
    rows = ", ".join(f"({at}, {value}::variant)" for at, value in enumerate(values, start=1))
    rows += f", ({len(values) + 1}, null)"
    duck.execute(f"copy (from (values {rows}) t(id, v)) to '{path}' (format parquet)")
    return path.read_bytes()


def by_hand(path: Path, values: list[dict[str, bytes] | None], *, depth: int = 0) -> bytes:
    """A file whose column `v` is not shredded. depth: in so many lists, then without the type."""
    group: pa.DataType = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    column: Any = pa.array(values, group)
    for _ in range(depth):
        column = pa.array([[value.as_py()] for value in column], pa.list_(column.type))
    pq.write_table(pa.table({"id": pa.array(range(len(values))), "v": column}), path)
    if not depth:
        data = path.read_bytes()
        length = int.from_bytes(data[-8:-4], "little")
        with_footer(path, parquet_footers.annotated(data[-8 - length : -8], ["v"]))
    return path.read_bytes()


async def prepared(local: local_sql.LocalSql, data: bytes) -> None:
    await local.run("create file format p type = parquet")
    await local_sql.put_file(local, "@~", "v.parquet", data)


@pytest.mark.parametrize("is_uniform", [True, False])
def test_a_shredded_column_is_read_and_loaded_by_its_values(
    tmp_path: Path, is_uniform: bool
) -> None:
    values = VALUES[:2] if is_uniform else VALUES
    expected = [*LOADED[: len(values)], None]
    data = shredded(tmp_path / "v.parquet", values)
    group = pq.ParquetFile(tmp_path / "v.parquet").schema_arrow.field("v").type
    assert "typed_value" in [each.name for each in group]

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local, data)
        read = await local.rows(f"select $1:id::int, to_json($1:v), $1:v is null from {READ}")
        shown = [None if text is None else json.loads(text) for _, text, _ in read]
        assert [at for at, *_ in read] == list(range(1, len(values) + 2))
        kept = [dict(each) if isinstance(each, dict) else each for each in expected]
        kept[0]["at"] = "2024-01-02 03:04:05.678 +0000"  # TO_JSON shows milliseconds
        assert shown == kept
        at = "'2024-01-02 03:04:05.678901 +0000'::timestamp_ltz"
        assert await local.rows(
            f"select typeof($1:v:d), typeof($1:v.at), $1:v:at::timestamp_ltz = {at}, $1:v:n + 1"
            f" from {READ} where $1:v:n = 1"
        ) == [("DATE", "TIMESTAMP_LTZ", True, 2)]
        await local.run("create table t (id int, v variant)")
        await local.run(f"copy into t {COPIED} match_by_column_name = case_insensitive")
        rows = await local.rows("select to_json(v) from t order by id")
        assert [None if text is None else json.loads(text) for (text,) in rows] == expected
        # Iceberg's own type keeps what JSON lacks.
        await local.run("create iceberg table i (id int, v variant) iceberg_version = 3")
        await local.run(f"copy into i from (select $1:id::int, $1:v from {READ})")
        assert await local.rows("select typeof(v:d), typeof(v:at) from i where v:n = 1") == [
            ("DATE", "TIMESTAMP_LTZ")
        ]
        # A whole row is one document.
        await local.run("create table whole (doc variant)")
        await local.run(f"copy into whole {COPIED}")
        rows = await local.rows("select to_json(doc:v) from whole order by doc:id::int")
        assert [None if text is None else json.loads(text) for (text,) in rows] == expected
        assert await local.rows(
            "select type from table(infer_schema(location => '@~', file_format => 'p'))"
        ) == [("NUMBER(19, 0)",), ("VARIANT",)]

    local_sql.run_local(tmp_path / "sql", work)


def test_files_whose_columns_differ_are_read_together(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7], "v": [[1, 2]]}), tmp_path / "list.parquet")
    pq.write_table(pa.table({"id": [8], "v": ["text"]}), tmp_path / "text.parquet")

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local, shredded(tmp_path / "v.parquet", VALUES[:1]))
        for name, at, value in (("list", 7, [1, 2]), ("text", 8, "text")):
            data = (tmp_path / f"{name}.parquet").read_bytes()
            await local_sql.put_file(local, f"@~/{name}", "v.parquet", data)
            rows = await local.rows(
                "select $1:id::int, $1:v from @~ (file_format => 'p', pattern =>"
                f" '(v|{name}/v).parquet') order by 1"
            )
            assert [row[0] for row in rows] == [1, 2, at]
            assert json.loads(rows[2][1]) == value
            assert "2024-01-02" in rows[0][1]

    local_sql.run_local(tmp_path / "sql", work)


def test_a_group_that_is_no_variant_stays_an_object(tmp_path: Path) -> None:
    group = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    table = pa.table({"v": pa.array([{"metadata": b"\x01", "value": b"\x02"}], group)})
    pq.write_table(table, tmp_path / "v.parquet")

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local, (tmp_path / "v.parquet").read_bytes())
        read = await local.one(f"select $1:v from {READ}")
        assert json.loads(read) == {"metadata": "01", "value": "02"}

    local_sql.run_local(tmp_path / "sql", work)


def test_a_damaged_value_and_one_inside_a_list_are_refused_by_name(tmp_path: Path) -> None:
    one = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}
    damaged = {"metadata": b"\x01\x00\x00", "value": b"\x18\x00"}

    async def refusal(local: local_sql.LocalSql) -> str:
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"select $1:v from {READ}")
        return caught.value.message

    async def work(local: local_sql.LocalSql) -> None:
        data = by_hand(tmp_path / "v.parquet", [one, None])
        await prepared(local, data)
        assert await local.rows(f"select $1:v from {READ}") == [("7",), (None,)]
        data = by_hand(tmp_path / "v.parquet", [one, damaged])
        await local_sql.put_file(local, "@~", "v.parquet", data)
        assert "Column v: A data file has a damaged variant" in await refusal(local)
        await local.run("create table t (v variant)")
        with pytest.raises(errors.SqlError, match="a damaged variant"):
            await local.run(f"copy into t {COPIED} match_by_column_name = case_insensitive")
        assert await local.one("select count(*) from t") == 0

    local_sql.run_local(tmp_path / "sql", work)


def test_footers_tell_columns_of_variant_from_columns_with_one_inside(tmp_path: Path) -> None:
    """The type of a part is that of a column whose tree is made one level deeper by hand."""
    path = tmp_path / "v.parquet"
    by_hand(path, [None])
    schema = parquet_footers.variants(_footer(path))
    assert schema == [parquet_footers.VariantColumn(name="v", is_whole=True)]
    shredded(path, VALUES[:1])
    assert parquet_footers.variants(_footer(path)) == schema
    by_hand(path, [{"metadata": b"\x01", "value": b"\x00"}], depth=1)
    assert parquet_footers.variants(_footer(path)) == []
    # list, its repeated group, and `element`, whose type is noted as that of a column is.
    footer = bytearray(_footer(path))
    element = footer.index(b"\x07element\x15") + len(b"\x07element")
    stop = footer.index(b"\x00", element)
    last_id = 5  # num_children, behind which an element of a struct ends
    noted = bytes([(10 - last_id) << 4 | 12]) + parquet_footers.VARIANT
    inside = bytes(footer[:stop]) + noted + bytes(footer[stop:])
    assert parquet_footers.variants(inside) == [
        parquet_footers.VariantColumn(name="v", is_whole=False)
    ]
    with_footer(path, inside)
    assert "Variant(1)" in str(pq.ParquetFile(path).schema)

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local, path.read_bytes())
        with pytest.raises(errors.SqlError, match="Column v: a VARIANT inside a nested type"):
            await local.rows(f"select $1:id from {READ}")

    local_sql.run_local(tmp_path / "sql", work)


def _footer(path: Path) -> bytes:
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


def test_a_group_of_another_form_is_refused_by_name(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([{"value": b"\x00"}], pa.struct([("value", pa.binary())]))})
    path = tmp_path / "v.parquet"
    pq.write_table(table, path)
    with_footer(path, parquet_footers.annotated(_footer(path), ["v"]))
    with pytest.raises(variant_columns.UnfitColumn):
        variant_columns.group_type(table.schema.field("v").type)

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local, path.read_bytes())
        with pytest.raises(errors.SqlError, match="Column v: it is of the type VARIANT"):
            await local.rows(f"select $1:v from {READ}")

    local_sql.run_local(tmp_path / "sql", work)


@pytest.mark.parametrize("is_shredded", [True, False])
def test_values_are_the_same_beside_files_whose_column_has_another_type(
    tmp_path: Path, is_shredded: bool
) -> None:
    objects = pa.table({"id": pa.array([1]), "v": pa.array([{"n": 1}])})
    if not is_shredded:
        pq.write_table(objects, tmp_path / "a.parquet")
    files = {"a": shredded(tmp_path / "a.parquet", ("{'n': 1}",)) if is_shredded else b""}
    others = {
        "b": pa.table({"id": pa.array([11, 12]), "v": pa.array([b"plain", b"\xff"])}),
        "c": pa.table({"id": pa.array([21, 22]), "v": pa.array([5, None])}),
        "d": pa.table({"id": pa.array([31]), "v": pa.array([None])}),
    }
    for name, table in others.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    for name in "abcd":
        files[name] = (tmp_path / f"{name}.parquet").read_bytes()
    names = ", ".join(f"'{name}.parquet'" for name in "abcd")
    more = "replace_invalid_characters = true"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create file format p type = parquet {more}")
        for name, data in files.items():
            await local_sql.put_file(local, "@~", f"{name}.parquet", data)
        await local.run("create table t (id int, v variant)")
        await local.run(
            f"copy into t from @~ files = ({names}) file_format = (format_name = 'p')"
            " match_by_column_name = case_insensitive"
        )
        loaded = await local.rows("select id, to_json(v) from t where v is not null order by id")
        expected = [(1, '{"n":1}'), (11, '"plain"'), (12, '"\ufffd"'), (21, "5")]
        assert [each for each in loaded if each[1] != "null"] == expected
        read = "select $1:id::int, to_json($1:v) from @~ (file_format => 'p') where $1:v <> 'null'"
        assert sorted(await local.rows(read)) == expected

    local_sql.run_local(tmp_path, work)
