"""Offsets of TIMESTAMP_TZ, by Snowflake's connector, beside Spark, DuckDB and PyIceberg."""

from __future__ import annotations

import datetime

import pytest

from tests.kit import engines as engines_kit
from tests.kit import line_programs
from tests.kit import server as server_kit
from tests.kit.engines import Engines

pytestmark = pytest.mark.spark

TABLE = "zoned.t"
SPARK_TABLE = f"{engines_kit.SPARK_CATALOG}.{TABLE}"
NEW_YEAR = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SHOWN = f"select a, to_char(z, 'YYYY-MM-DD HH24:MI TZH:TZM') from {TABLE} order by a"


def test_other_engines_read_instants_and_write_beside_sql(
    server: server_kit.Running, engines: Engines
) -> None:
    with line_programs.running(server, "snowflake5", engines_kit.CONNECTOR_PROGRAM) as connector:
        connector.ask("create schema zoned")
        connector.ask(f"create table {TABLE} (a int, z timestamp_tz) partition by (day(z))")
        connector.ask(f"insert into {TABLE} values (1, '2024-01-01 00:00:00 +0000')")
        connector.ask(f"insert into {TABLE} values (2, '2024-01-01 00:00:00 -0800'), (3, null)")
        ((_, zoned),) = connector.ask(f"select a, z::text from {TABLE} where a = 2")
        assert zoned == "2024-01-01 00:00:00.000 -0800"
        west = NEW_YEAR + datetime.timedelta(hours=8)
        stored = [(1, NEW_YEAR, None), (2, west, -480), (3, None, None)]
        micros = [
            (a, None if z is None else int(z.timestamp()) * 1_000_000, minutes)
            for a, z, minutes in stored
        ]
        columns = ("a", "z", "z__offset_minutes")
        read = engines.catalog.load_table(TABLE).scan(selected_fields=columns).to_arrow()
        rows = sorted(read.to_pylist(), key=lambda row: int(row["a"]))
        assert [tuple(row[column] for column in columns) for row in rows] == stored
        order = "z__offset_minutes FROM {} ORDER BY a"
        assert engines.duckdb(f"SELECT a, epoch_us(z), {order.format(f'lake.{TABLE}')}") == micros
        engines.spark(f"REFRESH TABLE {SPARK_TABLE}")
        assert engines.spark(f"SELECT a, unix_micros(z), {order.format(SPARK_TABLE)}") == micros

        engines.spark(
            f"INSERT INTO {SPARK_TABLE} (a, z) VALUES (4, TIMESTAMP '2024-01-01 00:00:00+00:00')"
        )
        engines.spark(
            f"INSERT INTO {SPARK_TABLE} VALUES (5, TIMESTAMP '2024-01-01 00:00:00+00:00', 60)"
        )
        engines.spark(f"UPDATE {SPARK_TABLE} SET a = 20 WHERE a = 2")
        engines.spark(f"DELETE FROM {SPARK_TABLE} WHERE a = 3")
        expected = [
            [1, "2024-01-01 00:00 +00:00"],
            [4, "2024-01-01 00:00 +00:00"],
            [5, "2024-01-01 01:00 +01:00"],
            [20, "2024-01-01 00:00 -08:00"],
        ]
        assert connector.ask(SHOWN) == expected
        engines.spark(
            f"CALL {engines_kit.SPARK_CATALOG}.system.rewrite_data_files(table => '{TABLE}',"
            " options => map('rewrite-all', 'true'))"
        )
        engines.spark(f"ALTER TABLE {SPARK_TABLE} RENAME COLUMN z__offset_minutes TO minutes")
        assert connector.ask(SHOWN) == expected
        connector.ask(f"insert into {TABLE} values (30, '2024-06-01 00:00:00 +0530')")
        expected.append([30, "2024-06-01 00:00 +05:30"])
        assert connector.ask(SHOWN) == expected
        assert [row[0] for row in connector.ask(f"describe table {TABLE}")] == ["A", "Z"]
        engines.spark(f"REFRESH TABLE {SPARK_TABLE}")
        engines.spark(f"ALTER TABLE {SPARK_TABLE} DROP COLUMN minutes")
        assert connector.ask(SHOWN) == [
            [1, "2024-01-01 00:00 +00:00"],
            [4, "2024-01-01 00:00 +00:00"],
            [5, "2024-01-01 00:00 +00:00"],
            [20, "2024-01-01 08:00 +00:00"],
            [30, "2024-05-31 18:30 +00:00"],
        ]
        connector.ask(f"insert into {TABLE} values (40, '2024-06-01 00:00:00 +0530')")
        assert connector.ask(SHOWN)[-1] == [40, "2024-06-01 00:00 +05:30"]
