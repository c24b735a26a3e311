"""Polars, Daft and DataFusion read tables through the catalog, in an environment of their own.

They know the catalog's address and a key pair alone: the S3 endpoint, the region and the table's
credentials are those that loadTable answers.
"""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
import pytest

from tests.kit import client_programs, environments, lake_client
from tests.kit.server import Running

LOAD = """
import json, os, sys
from pyiceberg.catalog import load_catalog

table = load_catalog(
    "boathouse",
    type="rest",
    uri=os.environ["URL"] + "/iceberg",
    warehouse="lake",
    credential=os.environ["KEY"] + ":" + os.environ["SECRET"],
).load_table(sys.argv[1])
"""

POLARS = """
import polars as pl

rows = pl.scan_iceberg(table).filter(pl.col("id") < 3).sort("id").collect().rows()
"""

# Without the package polars-iceberg, Polars hands its reader the options of the call alone.
POLARS_WITHOUT_PLUGIN = """
import polars as pl

options = {name: text for name, text in table.io.properties.items() if name.startswith("s3.")}
frame = pl.scan_iceberg(table, storage_options=options)
rows = frame.filter(pl.col("id") < 3).sort("id").collect().rows()
"""

DAFT = """
import daft

columns = daft.read_iceberg(table).where(daft.col("id") < 3).sort("id").to_pydict()
rows = list(zip(*columns.values()))
"""

# PyIceberg 0.12 puts an object among the properties of its FileIO, and iceberg-rust takes texts.
DATAFUSION = """
from datafusion import SessionContext

table.io.properties.pop("auth.manager")
context = SessionContext()
context.register_table("t", table)
columns = context.sql("select id, name from t where id < 3 order by id").to_pydict()
rows = list(zip(*columns.values()))
"""


def read(server: Running, program: str, *, planner: str = "") -> list[tuple[int, str]]:
    """Return the rows with id below 3 that a reader's program finds in a table of two snapshots."""
    lake = lake_client.catalog(server)
    name = ("readers", f"t_{uuid.uuid4().hex[:8]}")
    lake.create_namespace_if_not_exists("readers")
    rows = pa.table({"id": pa.array(range(1000)), "name": [f"n {n}" for n in range(1000)]})
    table = lake.create_table(name, rows.schema)
    table.append(rows)
    table.append(rows.slice(2, 1))
    script = LOAD + program + "print('ROWS' + json.dumps(rows))"
    command = ["env", "DAFT_ANALYTICS_ENABLED=0", "DO_NOT_TRACK=true"]
    command += [f"POLARS_ICEBERG_PLANNER={planner}"] if planner else []
    command += [str(environments.python("readers")), "-c", script, ".".join(name)]
    _, mark, answer = client_programs.run(server, command).rpartition("ROWS")
    assert mark
    return [tuple(row) for row in json.loads(answer)]


EXPECTED = [(0, "n 0"), (1, "n 1"), (2, "n 2"), (2, "n 2")]


def test_polars_reads_a_table_with_what_the_catalog_answers(server: Running) -> None:
    assert read(server, POLARS) == EXPECTED


@pytest.mark.clients
def test_polars_reads_a_table_without_its_plugin(server: Running) -> None:
    assert read(server, POLARS_WITHOUT_PLUGIN, planner="pyiceberg") == EXPECTED


@pytest.mark.clients
def test_daft_reads_a_table(server: Running) -> None:
    assert read(server, DAFT) == EXPECTED


def test_datafusion_reads_a_table_with_iceberg_rust(server: Running) -> None:
    assert read(server, DATAFUSION) == EXPECTED
