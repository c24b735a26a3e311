"""`python -m pipeline shell`: several jobs in one session of Spark."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import errors, serving
from tests.kit import server as server_kit
from tests.pipeline.lake import Raw


def shell(
    server: server_kit.Running, *lines: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Type lines into a shell."""
    command = [sys.executable, "-m", "pipeline", "shell", "--data", str(server.data), *options]
    return subprocess.run(
        command,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=server_kit.ROOT,
        check=False,
    )


def test_a_shell_does_its_lines_and_ends_at_exit(
    server: server_kit.Running, tmp_path: Path
) -> None:
    (empty := tmp_path / "no pipelines").mkdir()
    done = shell(server, "", "# a remark", f"list --pipelines '{empty}'", "help", "exit", "list")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"0 pipelines in {empty}") == 1
    assert done.stdout.startswith("usage: python -m pipeline")
    assert "did 2 jobs in " in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("compact --table lake.a.b --master local", "--master stands before the shell"),
        ("list --data=elsewhere", "--data stands before the shell"),
        ("list --dat elsewhere", "--data stands before the shell"),
        ("serve", "serve is no job of a shell"),
        ("shell", "shell is no job of a shell"),
        ("compact --table nowhere", "nowhere"),
        ("list 'open", "No closing quotation"),
        ("orphan", "invalid choice: 'orphan'"),
        ("list --pipelines nowhere", "there is no folder nowhere; --pipelines names another"),
    ],
)
def test_a_wrong_line_says_why_and_the_next_one_is_done(
    server: server_kit.Running, tmp_path: Path, line: str, said: str
) -> None:
    done = shell(server, line, f"list --pipelines {tmp_path}")
    assert done.returncode == 1
    assert said in done.stderr
    assert f"0 pipelines in {tmp_path}" in done.stderr
    assert "shell failed: 1 of 2 jobs failed" in done.stderr


class ASpark:
    """A session as far as a shell knows it. survives: whether it answers after an error."""

    def __init__(self, *, survives: bool) -> None:
        self.survives = survives

    def outlives(self, error: errors.SparkJobFailed) -> bool:
        return self.survives


@pytest.mark.parametrize(
    ("survives", "answers", "outcomes", "sessions"),
    [
        (True, True, "xox", 1),  # a job that is done forgives the failure before it
        (True, True, "xxo", 2),
        (False, True, "xo", 2),
        (True, False, "xo", 2),
    ],
)
def test_a_session_stays_after_one_failed_job_if_it_and_the_server_answer(
    survives: bool, answers: bool, outcomes: str, sessions: int
) -> None:
    opened: list[str] = []

    @contextlib.contextmanager
    def open_spark(warehouse: str) -> Iterator[Any]:
        opened.append(warehouse)
        yield ASpark(survives=survives)

    warm = serving.WarmSession(open_spark, server_answers=lambda: answers)
    for outcome in outcomes:
        with contextlib.suppress(errors.SparkJobFailed), warm.opened("lake"):
            if outcome == "x":
                raise errors.SparkJobFailed("no such table")
    assert opened == ["lake"] * sessions
    warm.close()


@pytest.mark.spark
def test_jobs_of_a_shell_share_one_session_also_after_jobs_with_a_wrong_source(
    server: server_kit.Running, raw: Raw
) -> None:
    raw.put("in/1.csv", "id,name\n1,a\n2,b\n")
    raw.put("bad/1.csv", "id,name\n3,c\n3,d\n")
    raw.put("in2/2.csv", "id,name\n2,B\n3,c\n")
    raw.put("torn/1.parquet", "PAR1 and no more")
    load = "ingest --engine spark --to lake.shells.t --mode merge --key id --from"
    done = shell(
        server,
        f"{load} {raw.uri('in/')}",
        f"{load} {raw.uri('bad/')}",
        f"{load} {raw.uri('in2/')}",
        f"ingest --engine spark --to lake.shells.u --format parquet --from {raw.uri('torn/')}",
        "compact --table lake.shells.t --min-input-files 2",
        options=("--master", "local[2]", "--json"),
    )
    assert done.returncode == 1, done.stderr
    assert "2 different rows with id = 3" in done.stderr
    assert "torn/1.parquet is not a Parquet file" in done.stderr
    assert "2 of 5 jobs failed" in done.stderr
    assert done.stderr.count("Spark's log: ") == 2, done.stderr
    assert done.stderr.count("starting Spark") == 1, done.stderr
    first, second, third = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["merged"] == {"inserted": 2, "updated": 0, "deleted": 0}
    assert second["merged"] == {"inserted": 1, "updated": 1, "deleted": 0}
    assert third["added_data_files_count"] == 1
    starts = [
        step["seconds"]
        for job in (first, second)
        for step in job["steps"]
        if step["name"] == "start Spark"
    ]
    # The second job gets the session that is there; a JVM would take seconds.
    assert len(starts) == 2
    assert starts[1] < 1
