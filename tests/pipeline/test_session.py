"""What Spark's errors become: one sentence for people."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import session
from tests.kit import s3
from tests.kit import server as server_kit
from tests.pipeline import lake

MALFORMED = (
    "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record "
    "parsing: [2,b].\nParse Mode: FAILFAST.  SQLSTATE: 22023"
)


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        (
            [
                (
                    "SparkException",
                    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
                    "s3a://raw/in/a.csv.  SQLSTATE: KD001",
                ),
                ("SparkException", MALFORMED),
                (
                    "SparkRuntimeException",
                    "[MALFORMED_CSV_RECORD] Malformed CSV record: 2,b,c SQLSTATE: KD000",
                ),
            ],
            "s3://raw/in/a.csv: Malformed CSV record: 2,b,c",
        ),
        (
            [("RuntimeException", "s3a://raw/a.parquet is not a Parquet file. Expected magic")],
            "s3a://raw/a.parquet is not a Parquet file. Expected magic",
        ),
        ([("SparkException", "Job aborted"), ("OutOfMemoryError", "Java heap space")],
         "Java heap space"),
        ([("ClassNotFoundException", "org.example.Missing")],
         "ClassNotFoundException: org.example.Missing"),
        ([("NullPointerException", "None")], "NullPointerException: None"),
        ([("SparkException", "Malformed CSV record: \x00\n\x1b[31m\x07 \x00")],
         "Malformed CSV record: ? ?[31m? ?"),
    ],
)  # fmt: skip
def test_a_failure_is_one_printable_line_that_names_the_file(
    causes: list[tuple[str, str]], said: str
) -> None:
    assert session._sentence(causes) == said


def test_a_failure_of_any_length_is_cut() -> None:
    assert len(session._sentence([("SparkException", "a word " * 1000)])) == session.REASON_MAX


@pytest.mark.spark
def test_spark_serves_its_pages_and_its_log_is_kept_without_secrets(
    server: server_kit.Running, tmp_path: Path
) -> None:
    log, temporary = tmp_path / "spark.log", tmp_path / "temporary"
    temporary.mkdir()
    lines = [
        "import os, pathlib, sys, time, urllib.request",
        "from pipeline import resources, servers, session",
        "said = []",
        "server = servers.find(url=None, data=sys.argv[1], environment={}, region=None)",
        "gets = resources.SparkResources(master='local[1]')",
        "log = lambda: pathlib.Path(sys.argv[2])",
        "options = {'gets': gets, 'ui': True, 'new_log': log}",
        "with session.started(server, 'lake', say=said.append, **options) as spark:",
        "    address = said[-1].partition('pages: ')[2]",
        "    print(address, urllib.request.urlopen(address).status)",
        "    spark.session.sql('CREATE NAMESPACE IF NOT EXISTS lake.pages')",
        "    spark.session.sql('CREATE OR REPLACE TABLE lake.pages.t (a int)')",
        "    spark.session.sql('INSERT INTO lake.pages.t VALUES (1)')",
        "    assert list(pathlib.Path(os.environ['TMPDIR']).glob('*/blockmgr-*'))",
        "    stopping = time.monotonic()",
        "print(time.monotonic() - stopping)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), str(server.data), str(log)],
        capture_output=True, text=True, check=False, cwd=server_kit.ROOT,
        env={**server_kit.client_environment(), "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert done.stdout.startswith("http://127.0.0.1:"), done.stderr
    answered, seconds = done.stdout.splitlines()
    assert answered.endswith(" 200")
    # Neither the ten seconds that Iceberg's threads would wait, nor a file.
    assert float(seconds) < 10
    assert not list(temporary.iterdir())
    assert "WARN" in log.read_text()
    assert server.secret_key not in log.read_text()


def said_in_a_session(server: server_kit.Running, path: Path, conf: str, *block: str) -> list[str]:
    """Return the words that a process prints whose session has this block, and another path."""
    lines = [
        "import pathlib, sys",
        "from pipeline import resources, servers, session",
        "server = servers.find(url=None, data=sys.argv[1], environment={}, region=None)",
        "path = pathlib.Path(sys.argv[2])",
        f"gets = resources.SparkResources(master='local[1]', conf={conf})",
        "options = {'gets': gets, 'say': lambda line: None}",
        *block,
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), str(server.data), str(path)],
        capture_output=True, text=True, check=False, cwd=server_kit.ROOT,
        env=server_kit.client_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.spark
def test_an_interrupted_jvm_deletes_its_files(server: server_kit.Running, tmp_path: Path) -> None:
    path = tmp_path / "of the interrupted call"
    path.touch()
    said = said_in_a_session(
        server, path, "{}",
        "try:",
        "    with session.started(server, 'lake', **options) as spark:",
        # Java deletes it as the JVM exits, and not if the JVM is killed.
        "        spark.jvm.java.io.File(str(path)).deleteOnExit()",
        "        raise KeyboardInterrupt",
        "except KeyboardInterrupt:",
        "    print(path.exists())",
    )  # fmt: skip
    assert said == ["False"]


@pytest.mark.spark
@pytest.mark.long
def test_spark_leaves_no_folder_in_one_that_the_user_names(
    server: server_kit.Running, tmp_path: Path
) -> None:
    said = said_in_a_session(
        server, tmp_path, "{'spark.local.dir': str(path)}",
        "count = lambda: len(list(path.glob('spark-*')))",
        "with session.started(server, 'lake', **options):",
        "    print(count())",
        "print(count())",
    )  # fmt: skip
    assert said == ["1", "0"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("local[nonsense]", "Could not parse Master URL: 'local[nonsense]'"),
        pytest.param(
            "yarn", "HADOOP_CONF_DIR or YARN_CONF_DIR must be set", marks=pytest.mark.long
        ),
    ],
)
def test_an_invalid_spark_master_fails_with_one_sentence(
    server: server_kit.Running, tmp_path: Path, master: str, reason: str
) -> None:
    raw = lake.Raw(s3.client(server), f"masters-{master[:4]}")
    raw.put("a.csv", "a\n1\n")
    arguments = ("ingest", "--from", raw.uri("a.csv"), "--to", "lake.masters.t")
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments, "--engine", "spark", "--master", master,
         "--data", str(server.data)],
        cwd=server_kit.ROOT,
        env={**server_kit.client_environment(), "BOATHOUSE_LOGS": str(tmp_path / "logs")},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (log,) = (tmp_path / "logs").iterdir()
    assert reason in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    _, place, sentence = done.stderr.splitlines()
    assert place == f"pipeline: Spark's log: {log}"
    assert sentence.startswith("pipeline: ingest failed: Spark")
    assert reason in sentence
