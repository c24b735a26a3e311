"""Every type, read by each driver in a process of its own, as rows, as Arrow and as pandas."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.sql.rest import cells, drivers, served

LINES = """
connection = connect(
    session_parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": FORMAT}
)
cursor = connection.cursor()
for name in NAMES:
    fetched = cursor.execute("select " + name).fetchall()
    say(name, "rows", [row[0] for row in fetched])
    if FORMAT == "ARROW":
        table = cursor.execute("select " + name).fetch_arrow_all()
        say(name, "arrow", table.column_names, table.column(0).to_pylist())
        frame = cursor.execute("select " + name).fetch_pandas_all()
        say(name, "pandas", str(frame[name].dtype), [
            None if value is None or value != value else value for value in frame[name]
        ])
connection.close()
"""


@pytest.mark.parametrize("result_format", ["ARROW", "JSON"])
@pytest.mark.parametrize("driver", drivers.BOTH)
def test_every_cell_of_every_type_is_read_as_it_was_meant(
    face: served.Served, driver: str, result_format: str
) -> None:
    for case in cells.CASES:
        batch = pa.record_batch([case.array], names=["x"])
        face.statements.table(f"select {case.name}", [case.column], batch)
    setup = f"FORMAT, NAMES = {result_format!r}, {[case.name for case in cells.CASES]!r}\n"

    said = drivers.run(
        driver,
        setup + LINES,
        port=face.port,
        user=served.ACCESS_KEY,
        password=served.SECRET_KEY,
    ).checked()

    read: dict[tuple[str, str], list[Any]] = {(name, how): rest for name, how, *rest in said}
    for case in cells.CASES:
        (rows,) = read[case.name, "rows"]
        assert [_bytes(cell) for cell in rows] == case.rows, case.name
        if result_format == "JSON":
            continue
        expected = [_value(cell) for cell in case.utc_rows or case.rows]
        names, values = read[case.name, "arrow"]
        assert names == [case.name]
        assert [_value(cell) for cell in values] == expected, case.name
        dtype, values = read[case.name, "pandas"]
        assert case.pandas in ("", dtype), case.name
        if dtype == "float64":
            values = [None if value is None else float(value.split(":")[1]) for value in values]
            expected = [None if value is None else float(value) for value in expected]
            assert values == expected, case.name
        else:
            assert [_value(cell) for cell in values] == expected, case.name


@pytest.mark.parametrize("driver", drivers.BOTH)
def test_results_without_rows_and_with_empty_batches_are_read(
    face: served.Served, driver: str
) -> None:
    columns = [case.column for case in cells.CASES]
    empty = pa.RecordBatch.from_arrays(
        [case.array.slice(0, 0) for case in cells.CASES], names=[c.name for c in cells.CASES]
    )
    full = pa.RecordBatch.from_arrays(
        [case.array for case in cells.CASES], names=[c.name for c in cells.CASES]
    )
    face.statements.table("select nothing", columns, empty)
    face.statements.table("select no batch", columns)
    face.statements.table("select holes", columns, empty, full, empty, full, empty)

    said = drivers.run(
        driver,
        """
        cursor = connect().cursor()
        for text in ("select nothing", "select no batch", "select holes"):
            say(text, len(cursor.execute(text).fetchall()), len(cursor.description))
            say(text, len(cursor.execute(text).fetch_pandas_all()))
        """,
        port=face.port,
        user=served.ACCESS_KEY,
        password=served.SECRET_KEY,
    ).checked()

    width = f"int:{len(columns)}"
    assert said == [
        ["select nothing", "int:0", width],
        ["select nothing", "int:0"],
        ["select no batch", "int:0", width],
        ["select no batch", "int:0"],
        ["select holes", "int:8", width],
        ["select holes", "int:8"],
    ]


GO_LINES = """
import adbc_driver_snowflake.dbapi
connection = adbc_driver_snowflake.dbapi.connect(
    db_kwargs={
        "username": USER,
        "password": PASSWORD,
        "adbc.snowflake.sql.account": "test",
        "adbc.snowflake.sql.uri.host": "127.0.0.1",
        "adbc.snowflake.sql.uri.port": str(PORT),
        "adbc.snowflake.sql.uri.protocol": "http",
        "adbc.snowflake.sql.client_option.disable_telemetry": "true",
    },
    autocommit=True,
)
cursor = connection.cursor()
for name in NAMES:
    cursor.execute("select " + name)
    table = cursor.fetch_arrow_table()
    say(name, table.column_names, table.column(0).to_pylist())
cursor.close()
connection.close()
"""

GO_CANNOT = {"TIME_2", "TIME_4", "TIME_7"}
"""The Go driver itself takes any scale but 0, 3, 6 and 9 for another one."""


@pytest.mark.clients
def test_the_go_driver_reads_every_cell_as_it_was_meant(face: served.Served) -> None:
    readable = [case for case in cells.CASES if case.name not in GO_CANNOT]
    for case in readable:
        batch = pa.record_batch([case.array], names=["x"])
        face.statements.table(f"select {case.name}", [case.column], batch)

    said = drivers.run(
        "adbc",
        f"NAMES = {[case.name for case in readable]!r}\n" + GO_LINES,
        port=face.port,
        user=served.ACCESS_KEY,
        password=served.SECRET_KEY,
    ).checked()

    for case, (name, names, values) in zip(readable, said, strict=True):
        assert (name, names) == (case.name, [case.name])
        expected = [_value(cell) for cell in case.utc_rows or case.rows]
        assert [_value(cell) for cell in values] == expected, name


def _bytes(cell: Any) -> Any:
    # Rows hold bytearray where Arrow and pandas hold bytes.
    if not isinstance(cell, str):
        return cell
    return re.sub(r"^bytearray:bytearray\((.*)\)$", r"bytes:\1", cell)


def _value(cell: Any) -> Any:
    """A cell without the name of its Python type; numbers by value."""
    if not isinstance(cell, str) or ":" not in cell:
        return cell
    type_name, text = cell.split(":", 1)
    if type_name in ("int", "float", "Decimal"):
        return Decimal(text)
    return text if type_name in ("datetime", "Timestamp") else cell
