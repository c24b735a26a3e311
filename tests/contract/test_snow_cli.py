"""The snow CLI, in its own environment, against the process a user starts."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.kit import environments
from tests.kit import server as server_kit

TIMEOUT_SECONDS = 300


class Snow:
    """The program with one connection, in a home folder of its own."""

    def __init__(self, server: server_kit.Running, folder: Path, schema: str) -> None:
        self._python = environments.python("snowcli")
        self._settings = folder / "config.toml"
        self._settings.write_text(
            f"""
[cli.logs]
save_logs = false
[connections.lake]
account = "boathouse"
host = "127.0.0.1"
port = {server.port}
protocol = "http"
user = "{server.access_key}"
password = "{server.secret_key}"
database = "lake"
schema = "{schema}"
warehouse = "local"
"""
        )
        self._settings.chmod(0o600)
        self._environment = {
            **server_kit.client_environment(),
            "HOME": str(folder),
            "SNOWFLAKE_HOME": str(folder),
        }

    def __call__(self, *arguments: str) -> Any:
        """Run a command, and return its JSON."""
        done = subprocess.run(
            [
                *(str(self._python), "-m", "snowflake.cli._app"),
                *("--config-file", str(self._settings)),
                *arguments,
                *("--connection", "lake", "--format", "json"),
            ],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return json.loads(done.stdout)


def opened(server: server_kit.Running, folder: Path) -> tuple[Snow, Any]:
    """Return the program with a table `t` in a schema of its own, and what its statements answer.

    A start of the program costs seconds, so one start executes them all.
    """
    schema = f"cli_{uuid.uuid4().hex[:8]}"
    snow = Snow(server, folder, schema)
    statements = (
        f"create schema {schema}; create table t (a int not null, b varchar(3));"
        " insert into t values (1, 'x'), (2, null); select * from t order by a; describe table t"
    )
    return snow, snow("sql", "--query", statements)


def test_snow_runs_statements_and_describes_a_table(
    server: server_kit.Running, tmp_path: Path
) -> None:
    _, answers = opened(server, tmp_path)
    *_, inserted, rows, columns = answers
    assert inserted == [{"number of rows inserted": 2}]
    assert rows == [{"A": 1, "B": "x"}, {"A": 2, "B": None}]
    assert [(each["name"], each["type"], each["null?"]) for each in columns] == [
        ("A", "NUMBER(38,0)", "N"),
        ("B", "VARCHAR(3)", "Y"),
    ]


@pytest.mark.clients
def test_snow_lists_objects_and_moves_files_of_a_stage(
    server: server_kit.Running, tmp_path: Path
) -> None:
    snow, _ = opened(server, tmp_path)
    assert snow("connection", "test")["Status"] == "OK"
    assert [(each["name"], each["rows"]) for each in snow("object", "list", "table")] == [("T", 2)]
    snow("stage", "create", "st", "--encryption", "SNOWFLAKE_SSE")
    (tmp_path / "f.csv").write_text("1,2\n")
    assert snow("stage", "copy", str(tmp_path / "f.csv"), "@st")[0]["status"] == "UPLOADED"
    assert [each["name"] for each in snow("stage", "list-files", "st")] == ["st/f.csv"]
    assert [each["name"] for each in snow("stage", "list")] == ["ST"]
    assert snow("stage", "remove", "st", "f.csv")["result"] == "removed"
    assert snow("stage", "list-files", "st") == []
    snow("stage", "drop", "st")
    assert snow("object", "drop", "table", "t") == [{"status": "T successfully dropped."}]
    assert snow("object", "list", "table") == []
