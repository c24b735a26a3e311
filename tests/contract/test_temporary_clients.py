"""Temporary tables as clients make them, each client in its own environment."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.kit import server as server_kit
from tests.sql.rest import drivers

SNOWPARK = """
import pandas
from snowflake.snowpark import Session, functions as F
session = Session.builder.configs({
    "host": "127.0.0.1", "port": PORT, "protocol": "http", "account": "test", "user": USER,
    "password": PASSWORD, "database": "lake",
}).create()
session.sql(f"create schema {SCHEMA}").collect()
session.sql(f"use schema {SCHEMA}").collect()

def rows(frame):
    return [list(row) for row in frame.collect()]

frame = session.create_dataframe([[1, "a"], [2, "b"], [3, "a"]], schema=["k", "v"])
cached = frame.filter(F.col("k") > 1).cache_result()
say(rows(cached.sort("k")))
say(rows(cached.group_by("v").count().sort("v")))
cached.drop_table()
read = session.create_dataframe(pandas.DataFrame({"A": [1, 2], "B": ["x", None]}))
say(rows(read.sort('"A"')))
frame.write.save_as_table("kept", table_type="temp")
frame.write.save_as_table("kept", table_type="temporary", mode="append")
say(session.table("kept").count())
session.table("kept").update({"v": F.lit("z")}, F.col("k") == 1)
session.table("kept").delete(F.col("k") == 2)
say(rows(session.table("kept").sort("k", "v")))
pandas_frame = pandas.DataFrame({"A": [1, 2], "B": ["x", None]})
written = session.write_pandas(pandas_frame, "PANDAS", auto_create_table=True, table_type="temp")
say(rows(written.sort("A")))
shown = [[row["name"], row["kind"]] for row in session.sql("show tables").collect()]
say(sorted(each for each in shown if not each[0].startswith("SNOWPARK_TEMP_TABLE_")))
frame.write.save_as_table("transient_one", table_type="transient")
frame.create_or_replace_temp_view("seen")
say(session.table("seen").count())
session.close()
with connect(database="lake", schema=SCHEMA) as other:
    say([row[1] for row in other.cursor().execute("show tables").fetchall()])
"""

SQLALCHEMY = """
import sqlalchemy as sa
from snowflake.sqlalchemy import URL
with connect(database="lake") as plain_connection:
    plain_connection.cursor().execute(f"create schema {SCHEMA}")
url = URL(account="test", user=USER, password=PASSWORD, host="127.0.0.1", port=PORT,
          database="lake", schema=SCHEMA)
lake = sa.create_engine(url, connect_args={"protocol": "http"})
metadata = sa.MetaData()
rows = sa.Table(
    "passing", metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.String(20)),
    prefixes=["TEMPORARY"],
)
with lake.begin() as connection:
    metadata.create_all(connection)
    connection.execute(rows.insert(), [{"name": "a"}, {"name": "b"}])
    connection.execute(rows.update().where(rows.c.name == "b").values(name="c"))
    say([list(row) for row in connection.execute(sa.select(rows.c.id, rows.c.name).order_by("id"))])
    say(sa.inspect(connection).get_temp_table_names())
    rows.drop(connection)
"""

WRITE_PANDAS = """
import pandas
from snowflake.connector import pandas_tools
with connect(database="lake") as connection:
    cursor = connection.cursor()
    cursor.execute(f"create schema {SCHEMA}")
    frame = pandas.DataFrame({"A": [1, 2, 3], "B": ["x", None, "z"]})
    done = pandas_tools.write_pandas(
        connection, frame, "FRAME", auto_create_table=True, table_type="temp"
    )
    say(done[0], done[2])
    say(cursor.execute("select count(*), max(b) from frame").fetchall())
    say([row[4] for row in cursor.execute("show tables").fetchall()])
with connect(database="lake", schema=SCHEMA) as connection:
    say(connection.cursor().execute("show tables").fetchall())
"""


def answers_of(server: server_kit.Running, driver: str, lines: str) -> list[Any]:
    schema = f"temp_{uuid.uuid4().hex[:8]}"
    return drivers.run(
        driver,
        f"SCHEMA = {schema!r}\n" + lines,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
        timeout_seconds=300,
    ).checked()


@pytest.mark.parametrize("driver", [drivers.PY4, drivers.PY5])
def test_write_pandas_makes_a_temporary_table(server: server_kit.Running, driver: str) -> None:
    assert answers_of(server, driver, WRITE_PANDAS) == [
        [True, "int:3"],
        [[["int:3", "z"]]],
        [["TEMPORARY"]],
        [[]],
    ]


def test_sqlalchemy_makes_a_temporary_table(server: server_kit.Running) -> None:
    said = answers_of(server, "sqlalchemy", SQLALCHEMY)
    assert said[0] == [[["int:1", "a"], ["int:2", "c"]]]


def test_snowpark_caches_results_and_makes_temporary_tables(server: server_kit.Running) -> None:
    assert answers_of(server, "snowpark", SNOWPARK) == [
        [[["int:2", "b"], ["int:3", "a"]]],
        [[["a", "int:1"], ["b", "int:1"]]],
        [[["int:1", "x"], ["int:2", None]]],
        ["int:6"],
        [[["int:1", "z"], ["int:1", "z"], ["int:3", "a"], ["int:3", "a"]]],
        [[["int:1", "x"], ["int:2", None]]],
        [[["KEPT", "TEMPORARY"], ["PANDAS", "TEMPORARY"]]],
        ["int:3"],
        [["TRANSIENT_ONE"]],
    ]
