"""What `mini.py connect` prints really runs, pasted as it is, against a running server."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit import duck, environments, rest
from tests.kit import server as servers

RUN_SECONDS = 120


@pytest.fixture(scope="module", autouse=True)
def table(server: servers.Running) -> None:
    """Something to be seen: a namespace with a table.

    It is there already where one process has run the other half of this file.
    """
    with rest.Client(server) as client:
        if client.ask("GET", "namespaces/pasted/tables/seen")[0] != 200:
            client.make_table("pasted", "seen")


def snippet(server: servers.Running, client: str, *flags: str) -> str:
    done = subprocess.run(
        [sys.executable, "mini.py", "connect", client, "--data", str(server.data), *flags],
        cwd=servers.ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )
    return done.stdout


def pasted(python: Path | str, text: str, folder: Path) -> list[str]:
    """Run a snippet as a file in an empty folder; return the lines it prints."""
    place = folder / "pasted.py"
    place.write_text(text)
    done = subprocess.run(
        [str(python), place.name],
        cwd=folder,
        env=servers.client_environment(),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_pyiceberg_snippet_lists_the_namespaces(
    server: servers.Running, tmp_path: Path
) -> None:
    text = snippet(server, "pyiceberg")
    assert text.startswith('# pip install "pyiceberg[pyarrow,pyiceberg-core]"\n')
    assert {"pyarrow", "pyiceberg-core"} <= set(
        importlib.metadata.metadata("pyiceberg").get_all("Provides-Extra")
    )
    (printed,) = pasted(sys.executable, text, tmp_path)
    assert ("pasted",) in ast.literal_eval(printed)


def test_the_boto3_snippet_lists_buckets_of_both_kinds(
    server: servers.Running, tmp_path: Path
) -> None:
    _, tables = pasted(sys.executable, snippet(server, "boto3"), tmp_path)
    assert "lake" in ast.literal_eval(tables)


def test_the_duckdb_snippet_shows_the_tables(server: servers.Running, tmp_path: Path) -> None:
    text = snippet(server, "duckdb")
    # The extensions come from their packages here, so that no test needs a network.
    installs = [line for line in text.splitlines() if line.startswith("INSTALL ")]
    assert installs == ["INSTALL httpfs; LOAD httpfs;", "INSTALL iceberg; LOAD iceberg;"]
    for line in installs:
        text = text.replace(line, line.partition("; ")[2])
    connection = duck.opened(tmp_path)
    shown = connection.execute(text).fetchall()
    connection.close()
    assert ("lake", "pasted", "seen") in [row[:3] for row in shown]


def test_the_sqlalchemy_snippet_lists_the_schemas(server: servers.Running, tmp_path: Path) -> None:
    python = environments.python("sqlalchemy")
    (printed,) = pasted(python, snippet(server, "sqlalchemy"), tmp_path)
    assert "'pasted'" in printed


def test_the_snowflake_snippet_asks_for_the_version(
    server: servers.Running, tmp_path: Path
) -> None:
    python = environments.python("snowflake5")
    (printed,) = pasted(python, snippet(server, "snowflake"), tmp_path)
    ((version,),) = ast.literal_eval(printed)
    assert isinstance(version, str)


def test_the_trino_snippet_is_a_properties_file(server: servers.Running) -> None:
    lines = [line for line in snippet(server, "trino").splitlines() if not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines)
    assert len(settings) == len(lines)
    assert settings["connector.name"] == "iceberg"
    assert settings["iceberg.rest-catalog.uri"] == server.iceberg


def spark_words(server: servers.Running) -> list[str]:
    """The arguments that a shell gives spark-sql when the snippet is pasted."""
    done = subprocess.run(
        ["bash", "-eu"],
        input="spark-sql() { printf '%s\\n' \"$@\"; }\n" + snippet(server, "spark"),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_spark_snippet_is_one_command(server: servers.Running) -> None:
    words = spark_words(server)
    assert words[-2:] == ["-e", "SHOW NAMESPACES IN lake"]
    assert f"spark.sql.catalog.lake.uri={server.iceberg}" in words
    assert len([word for word in words if word == "--conf"]) == 8


@pytest.mark.spark
@pytest.mark.smoke
def test_the_settings_of_the_spark_snippet_open_the_catalog(
    server: servers.Running, spark: Any
) -> None:
    """Under a name of their own, since the session has a catalog `lake` already."""
    settings_found = 0
    for word in spark_words(server):
        name, _, value = word.partition("=")
        if name.startswith("spark.sql.catalog.lake"):
            name = name.replace("spark.sql.catalog.lake", "spark.sql.catalog.pasted_catalog", 1)
            spark.session.conf.set(name, value)
            settings_found += 1
    assert settings_found == 7
    rows = spark.session.sql("SHOW NAMESPACES IN pasted_catalog").collect()
    assert ("pasted",) in [tuple(row) for row in rows]


def test_the_awscli_snippet_lists_buckets_of_both_kinds(
    server: servers.Running, tmp_path: Path
) -> None:
    program = environments.program("awscli", "aws")
    environment = servers.client_environment()
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    environment["AWS_CONFIG_FILE"] = str(tmp_path / "none")
    done = subprocess.run(
        ["bash", "-eu"],
        input=snippet(server, "awscli"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"name": "lake"' in done.stdout


def test_the_dbt_snippet_is_a_profile(server: servers.Running) -> None:
    lines = [line for line in snippet(server, "dbt").splitlines() if ": " in line]
    settings = {name.strip(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert settings["host"] == server.host
    assert int(settings["port"]) == server.port
    assert settings["password"] == server.secret_key
    assert settings["type"] == "snowflake"


def test_snippets_name_the_catalog_by_a_word_that_engines_take(server: servers.Running) -> None:
    assert "ATTACH 'my-lake' AS my_lake (" in snippet(server, "duckdb", "--warehouse", "my-lake")
    assert "catalog.my_lake.warehouse=my-lake" in snippet(server, "spark", "--warehouse", "my-lake")
    assert "ATTACH '2024' AS _2024 (" in snippet(server, "duckdb", "--warehouse", "2024")
