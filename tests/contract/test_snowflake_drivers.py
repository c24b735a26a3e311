"""Snowflake's drivers for Java, JavaScript, Go and ADBC, in programs of their own, which assert."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import environments
from tests.kit import server as server_kit

TIMEOUT_SECONDS = 300


@pytest.mark.clients
@pytest.mark.timeout(900)  # a compiler builds the driver of Go first
@pytest.mark.parametrize(
    ("prepare", "package"),
    [
        (environments.java, "java-snowflake"),
        (environments.node, "node-snowflake"),
        (environments.go, "go-snowflake"),
    ],
    ids=["java", "node", "go"],
)
def test_a_driver_reads_writes_and_moves_files(
    prepare: Callable[[str], list[str]],
    package: str,
    server: server_kit.Running,
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        prepare(package),
        env={
            **server_kit.client_environment(),
            "URL": server.url,
            "HOST": server.host,
            "PORT": str(server.port),
            "KEY": server.access_key,
            "SECRET": server.secret_key,
            "SCHEMA": f"driver_{uuid.uuid4().hex[:8]}",
            "FOLDER": str(tmp_path),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-4000:]


INGESTING = """
import os
import adbc_driver_snowflake.dbapi
import pyarrow as pa

connection = adbc_driver_snowflake.dbapi.connect(
    db_kwargs={
        "username": os.environ["KEY"],
        "password": os.environ["SECRET"],
        "adbc.snowflake.sql.account": "test",
        "adbc.snowflake.sql.uri.host": os.environ["HOST"],
        "adbc.snowflake.sql.uri.port": os.environ["PORT"],
        "adbc.snowflake.sql.uri.protocol": "http",
        "adbc.snowflake.sql.client_option.disable_telemetry": "true",
    },
    autocommit=True,
)
cursor = connection.cursor()
schema = os.environ["SCHEMA"]
cursor.execute(f"create schema lake.{schema}")
cursor.execute(f"use schema lake.{schema}")
rows = pa.table({"ID": pa.array([1, 2], pa.int64()), "NAME": ["a", None]})

def stored():
    cursor.execute("select id, name from people order by id")
    return cursor.fetchall()

assert cursor.adbc_ingest("PEOPLE", rows, mode="create") == 2
assert stored() == [(1, "a"), (2, None)], stored()
assert cursor.adbc_ingest("PEOPLE", rows.slice(0, 1), mode="append") == 1
assert stored() == [(1, "a"), (1, "a"), (2, None)], stored()
assert cursor.adbc_ingest("PEOPLE", rows.slice(1), mode="replace") == 1
assert stored() == [(2, None)], stored()
cursor.close()
connection.close()
"""


@pytest.mark.clients
def test_adbc_ingests_arrow_tables(server: server_kit.Running, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(environments.python("adbc")), "-c", INGESTING],
        env={
            **server_kit.client_environment(),
            "HOST": server.host,
            "PORT": str(server.port),
            "KEY": server.access_key,
            "SECRET": server.secret_key,
            "SCHEMA": f"adbc_{uuid.uuid4().hex[:8]}",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-4000:]
