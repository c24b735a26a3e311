"""Sessions on a Spark Connect server: what it says, as a job says it."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import sys
from typing import Any

import pytest

from pipeline import connect, errors, masters, session, settings
from tests.kit import server as server_kit

HERE = masters.ConnectServer(host="127.0.0.1", port=15002, url="sc://127.0.0.1:15002")
SERVER = settings.ServerEndpoint(
    url="http://127.0.0.1:1", access_key="A", secret_key="s", region="r"
)
STACK = """org.apache.spark.SparkException
\tat org.apache.spark.Here.run(Here.scala:1)
Caused by: org.apache.spark.SparkException: Encountered error while reading file \
s3-0123456789abcdef://raw/in/a.csv.\x20
\tat org.apache.spark.There.run(There.scala:2)
Caused by: java.lang.RuntimeException: two lines
of a message
\tat java.base/java.lang.Thread.run(Thread.java:3)"""


class ServersError(Exception):
    """As PySpark raises one: only these methods are used."""

    def __init__(self, message: str, stack: str) -> None:
        super().__init__(message)
        self._stack = stack

    def getGrpcStatusCode(self) -> int:  # noqa: N802 - PySpark's name
        return 13

    def getStackTrace(self) -> str:  # noqa: N802 - PySpark's name
        return self._stack


def test_an_error_of_the_server_says_its_inmost_cause_and_the_file_as_the_user_names_it() -> None:
    error = ServersError(f"[FAILED] Job aborted.\n\nJVM stacktrace:\n{STACK}", STACK)
    assert connect.causes(error) == [
        ("SparkException", "[FAILED] Job aborted."),
        (
            "SparkException",
            "Encountered error while reading file s3-0123456789abcdef://raw/in/a.csv.",
        ),
        ("RuntimeException", "two lines\nof a message"),
    ]
    assert session.thrown(error) == ("SparkException", "[FAILED] Job aborted.")
    assert session.reason(error) == "s3://raw/in/a.csv: two lines of a message"
    failed = errors.SparkJobFailed("x")
    failed.__cause__ = error
    assert session.is_caused_by(failed, {"RuntimeException"})
    assert not session.is_caused_by(failed, {"ValidationException"})


def test_an_error_of_this_process_has_no_causes_of_the_server() -> None:
    assert connect.causes(ValueError("x")) == []


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("ClassNotFoundException: org.apache.iceberg.spark.SparkCatalog", "Iceberg's runtime"),
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "of hadoop-aws;"),
        ("NoClassDefFoundError: software/amazon/awssdk/core/SdkClient", "the AWS SDK"),
        ("Failed to find data source: avro. Make sure ...", "spark-avro"),
    ],
)
def test_jars_that_the_server_lacks_are_named(message: str, words: str) -> None:
    sentence = connect.missing(message)
    assert sentence is not None
    assert words in sentence
    assert connect.missing("something else") is None


@dataclasses.dataclass(frozen=True)
class Stage:
    """As PySpark's client reports one."""

    stage_id: int
    num_completed_tasks: int
    num_tasks: int
    num_bytes_read: int


def test_tasks_are_counted_from_when_the_counting_began() -> None:
    tasks = connect.RemoteTasks()
    tasks([Stage(1, 4, 4, 100)], 0, "operation", True)
    counters = tasks.counting()
    assert (counters().done, counters().total) == (0, 0)
    tasks([Stage(2, 1, 3, 10)], 1, operation_id="other", done=False)
    tasks([Stage(2, 2, 3, 20), Stage(3, 0, 5, 0)], 1, operation_id="other", done=False)
    tasks(None, 0, "other", True)
    counted: Any = counters()
    assert (counted.done, counted.total, counted.read_bytes, counted.rows) == (2, 8, 20, None)


def test_a_server_elsewhere_cannot_reach_an_address_of_this_machine() -> None:
    elsewhere = dataclasses.replace(HERE, host="spark.example.org")
    with pytest.raises(errors.BadArgument, match=r"cannot reach http://127\.0\.0\.1:1, .*--url"):
        connect.check_reach(elsewhere, SERVER)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost", "[::1]"])
def test_a_server_on_this_machine_reaches_an_address_of_it(host: str) -> None:
    connect.check_reach(dataclasses.replace(HERE, host=host), SERVER)


def test_an_address_where_nothing_listens_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        nowhere = dataclasses.replace(HERE, port=port)
        with pytest.raises(errors.SparkFailed, match=f"answers at sc://127.0.0.1:{port}: "):
            connect.check(nowhere)


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "PACKAGE", "no_such_package")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = dataclasses.replace(HERE, port=listening.getsockname()[1])
        with pytest.raises(errors.SparkFailed, match="is not installed; run `make setup-all`"):
            connect.check(here)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "./x", "--to", "lake.a.b"], "cannot read ./x, a file of this machine"),
        (["--from", "s3://raw/", "--to", "lake.a.b", "--spark-ui"], "--spark-ui: the pages"),
        (["--from", "s3://raw/", "--to", "lake.a.b", "--cores", "2"], "--cores is for a Spark"),
        (["--from", "kafka:t", "--bootstrap", "h:1", "--to", "lake.a.b"], "cannot read; use"),
        (["--from", "s3://raw/", "--to", "lake.a.b", "--on-error", "reject"], "cannot; use"),
        (
            ["--from", "jdbc:x:y", "--jdbc-table", "t", "--jdbc-jar", "d.jar", "--to", "lake.a.b"],
            "the driver d.jar is a file of this machine, which the Spark Connect server at",
        ),
    ],
)
def test_what_a_connect_server_cannot_do_is_refused_by_name(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "ingest", *words, "--url", "http://127.0.0.1:1",
         "--master", "sc://127.0.0.1:1", "--engine", "spark"],
        env={**server_kit.client_environment(), "BOATHOUSE_ACCESS_KEY": "A",
             "BOATHOUSE_SECRET_KEY": "s"},
        capture_output=True, text=True, check=False, cwd=server_kit.ROOT,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
