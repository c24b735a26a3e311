"""`python -m pipeline ingest --follow`: files that arrive are loaded once, whatever happens."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import __main__ as command
from pipeline import following, interrupts
from tests.kit import examples
from tests.kit import server as server_kit
from tests.pipeline import wire
from tests.pipeline.lake import Raw, Small
from tests.pipeline.test_arrow import parquet

WAIT_SECONDS = 120
ASK_SECONDS = 1


class Follower:
    """A follower as its user starts it, in a process group of its own."""

    def __init__(
        self, folder: Path, server: server_kit.Running, *arguments: str, url: str | None = None
    ) -> None:
        self.log, self.output = folder / "follower.log", folder / "follower.json"
        environment = {
            **server_kit.client_environment(),
            "BOATHOUSE_ACCESS_KEY": server.access_key,
            "BOATHOUSE_SECRET_KEY": server.secret_key,
        }
        with self.log.open("ab") as log, self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pipeline", "ingest", "--follow", "--every", "1s",
                 "--url", url or server.url, "--json", *arguments],
                cwd=server_kit.ROOT, env=environment, start_new_session=True,
                stdout=output, stderr=log,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that comes true by what the follower does.

        It is asked after each line of the follower, and once a second: most of them read a table.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            size_bytes = self.log.stat().st_size
            if condition():
                return
            assert time.monotonic() < deadline, self.said
            assert self.process.poll() is None or condition(), self.said
            ask_at = time.monotonic() + ASK_SECONDS
            while self.log.stat().st_size == size_bytes and time.monotonic() < ask_at:
                time.sleep(0.05)

    def wait_until_said(self, text: str, *, times: int = 1) -> None:
        self.wait_for(lambda: self.said.count(text) >= times)

    def end(self, number: signal.Signals = signal.SIGTERM) -> dict[str, Any]:
        """Interrupt the follower; return its outcome."""
        self.process.send_signal(number)
        assert self.process.wait(WAIT_SECONDS) == 0, self.said
        outcome: dict[str, Any] = json.loads(self.output.read_text())
        return outcome


@contextlib.contextmanager
def follower(
    folder: Path, server: server_kit.Running, *arguments: str, url: str | None = None
) -> Iterator[Follower]:
    folder.mkdir(exist_ok=True)
    started = Follower(folder, server, *arguments, url=url)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def ids(small: Small, table: str) -> list[int]:
    if not small.catalog.table_exists(table):
        return []
    return sorted(row["id"] for row in small.rows(table))


def place(raw: Raw, table: str) -> tuple[str, ...]:
    return ("--from", raw.uri("in/"), "--to", f"lake.{table}", "--engine", "arrow")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_files_that_arrive_are_loaded_until_a_signal_ends_the_job(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path, number: signal.Signals
) -> None:
    table = f"followed_{number}.t"
    with follower(tmp_path, server, *place(raw, table)) as job:
        job.wait_until_said("following s3://")  # the prefix is empty
        for one in range(3):
            raw.put(f"in/{one}.csv", f"id,name\n{one},a\n")
            job.wait_for(lambda: ids(small, table) == list(range(one + 1)))  # noqa: B023 - at once
        raw.put("in/_SUCCESS", "")
        outcome = job.end(number)
    assert {name: outcome[name] for name in ("loads", "rows", "sources", "left_out")} == {
        "loads": 3,
        "rows": 3,
        "sources": 3,
        "left_out": {},
    }
    assert "followed until it was interrupted: loaded 3 rows from 3 objects in 3 loads" in job.said
    assert small.ingest(raw, table).snapshot_id is None, "the record of loads is the same one"


def test_idle_rounds_commit_nothing(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/1.csv", "id\n1\n")
    with follower(tmp_path, server, *place(raw, "idle.t")) as job:
        job.wait_until_said("loaded 1 row")
        before = small.state("idle.t")
        time.sleep(3)
        assert small.state("idle.t") == before
        assert job.end()["loads"] == 1
    assert job.said.count("pipeline: ") == 5, job.said


def _commits(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/tables/t")


@pytest.mark.parametrize("side", examples.short(["before", "after"], "after"))
def test_a_follower_killed_at_its_commit_loads_each_row_once_when_started_again(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path, side: str
) -> None:
    table = f"follow_killed_{side}.t"
    raw.put("in/0.csv", "id\n0\n")
    commits = threading.Semaphore(2)
    jobs: list[Follower] = []

    def strike(method: str, path: str) -> bool:
        if not _commits(method, path) or commits.acquire(blocking=False):
            return False
        door.closed.set()
        jobs[0].process.kill()
        return True

    with wire.door(server.url, **{side: strike}) as door:
        with follower(tmp_path, server, *place(raw, table), url=door.url) as job:
            jobs.append(job)
            for one in range(1, 5):
                job.wait_for(
                    lambda: job.process.poll() is not None or len(ids(small, table)) == one  # noqa: B023 - at once
                )
                raw.put(f"in/{one}.csv", f"id,day\n{one},2026-01-01\n")
            assert job.process.wait(WAIT_SECONDS) == -signal.SIGKILL
        assert door.closed.is_set()
    assert ids(small, table) == ([0, 1, 2] if side == "after" else [0, 1])

    with follower(tmp_path, server, *place(raw, table)) as job:
        count = 2 if side == "after" else 3
        job.wait_until_said(f"loaded {count} rows")
        outcome = job.end()
    assert ids(small, table) == [0, 1, 2, 3, 4]
    assert outcome["sources"] == count
    assert small.ingest(raw, table).snapshot_id is None


def test_new_columns_and_wider_types_of_later_files_change_the_table(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/1.csv", "id,size\n1,7\n")
    with follower(tmp_path, server, *place(raw, "follow_wider.t")) as job:
        job.wait_for(lambda: ids(small, "follow_wider.t") == [1])
        raw.put("in/2.csv", "id,size,name\n2,5000000000,x\n")
        job.wait_until_said("new columns name")
        raw.put("in/3.csv", "id\n3\n")
        job.wait_for(lambda: ids(small, "follow_wider.t") == [1, 2, 3])
        job.end()
    assert small.types("follow_wider.t") == {"id": "int", "size": "long", "name": "string"}
    assert small.rows("follow_wider.t") == [
        {"id": 1, "size": 7, "name": None},
        {"id": 2, "size": 5000000000, "name": "x"},
        {"id": 3, "size": None, "name": None},
    ]


def test_a_broken_file_is_named_and_left_out_and_holds_up_no_other(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    good = [number for number in range(9) if number not in {2, 7}]
    for number in good:
        raw.put(f"in/{number}.csv", f"id,name\n{number},a\n")
    broken = [raw.uri("in/2.csv"), raw.uri("in/7.json")]
    raw.put("in/2.csv", "id,name\n2,a,b,c\n")
    raw.put("in/7.json", "no table")
    with follower(tmp_path, server, *place(raw, "follow_broken.t")) as job:
        job.wait_for(lambda: ids(small, "follow_broken.t") == good)
        for name in broken:
            job.wait_until_said(f"left out {name}, to be tried again in 2 s: {name}")
        # Later files pass it by, and it is tried again, later each time.
        raw.put("in/9.csv", "id,name\n9,a\n")
        job.wait_for(lambda: ids(small, "follow_broken.t") == [*good, 9])
        job.wait_until_said(f"left out {broken[0]}, to be tried again in 4 s: ")
        # Written again, it is another file; deleted, it is none.
        raw.put("in/2.csv", "id,name\n2,mended\n")
        raw.s3.delete_object(Bucket=raw.bucket, Key="in/7.json")
        job.wait_for(lambda: ids(small, "follow_broken.t") == sorted([2, *good, 9]))
        raw.put("in/a.csv", "id,name\nx\n")
        job.wait_until_said(f"left out {raw.uri('in/a.csv')}")
        outcome = job.end()
    assert list(outcome["left_out"]) == [raw.uri("in/a.csv")]
    assert outcome["rows"] == 9
    assert "left out 1 object, in " in job.said


@pytest.mark.further("test_a_broken_file_is_named_and_left_out_and_holds_up_no_other")
def test_with_broken_sources_fail_a_broken_file_ends_the_job_and_its_round_loads_nothing(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    arguments = (*place(raw, "follow_fails.t"), "--broken-sources", "fail")
    raw.put("in/0.csv", "id,name\n0,a\n")
    with follower(tmp_path, server, *arguments) as job:
        job.wait_for(lambda: ids(small, "follow_fails.t") == [0])
        raw.put("in/1.csv", "id,name\n1,a,b,c\n")
        assert job.process.wait(WAIT_SECONDS) == 1
    assert f"pipeline: ingest failed: {raw.uri('in/1.csv')}" in job.said
    assert ids(small, "follow_fails.t") == [0]


def test_two_followers_of_one_prefix_load_each_file_once(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    arguments = place(raw, "followed_twice.t")
    with (
        follower(tmp_path / "a", server, *arguments) as first,
        follower(tmp_path / "b", server, *arguments) as second,
    ):
        for job in (first, second):
            job.wait_until_said("following s3://")
        for number in range(12):
            raw.put(f"in/{number:02d}.csv", f"id\n{number}\n")
            time.sleep(0.4)
        first.wait_for(lambda: len(ids(small, "followed_twice.t")) >= 12)
        time.sleep(3)
        outcomes = [first.end(), second.end()]
    assert ids(small, "followed_twice.t") == list(range(12))
    assert sum(outcome["sources"] for outcome in outcomes) == 12
    assert [outcome["left_out"] for outcome in outcomes] == [{}, {}]


def test_a_follower_waits_for_a_server_that_does_not_answer(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/0.csv", "id\n0\n")
    silent = threading.Event()

    def drops(method: str, path: str) -> bool:
        return silent.is_set()

    with (
        wire.door(server.url, before=drops) as door,
        follower(tmp_path, server, *place(raw, "follow_waits.t"), url=door.url) as job,
    ):
        job.wait_for(lambda: ids(small, "follow_waits.t") == [0])
        silent.set()
        raw.put("in/1.csv", "id\n1\n")
        job.wait_until_said("trying again in 2 s: the server does not answer")
        silent.clear()
        door.closed.clear()
        job.wait_until_said("loaded 1 row", times=2)
        assert ids(small, "follow_waits.t") == [0, 1]
        assert job.end()["sources"] == 2


@pytest.mark.parametrize("change", examples.short(["dropped", "replaced"], "replaced"))
def test_a_follower_loads_again_what_the_record_of_loads_no_longer_has(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path, change: str
) -> None:
    table = f"follow_{change}.t"
    raw.put("in/0.csv", "id\n0\n")
    with follower(tmp_path, server, *place(raw, table)) as job:
        job.wait_for(lambda: ids(small, table) == [0])
        if change == "dropped":
            small.catalog.drop_table(table)
        else:
            raw.put("other/5.csv", "id\n5\n")
            assert small.ingest(raw, table, prefix="other/", mode="replace").rows == 1
        raw.put("in/1.csv", "id\n1\n")
        job.wait_for(lambda: 1 in ids(small, table))
        job.end()
    running = ids(small, table)
    small.ingest(raw, table)  # a follower that is started again would load the same
    assert running == ids(small, table)


@pytest.mark.spark
def test_loads_of_a_follower_share_one_session_of_spark(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    arguments = (*place(raw, "follow_spark.t")[:-1], "spark", "--master", "local[2]")
    raw.put("in/1.csv", "id,name\n1,a\n")
    with follower(tmp_path, server, *arguments) as job:
        job.wait_for(lambda: ids(small, "follow_spark.t") == [1])
        raw.put("in/2.csv", "id,name\n2,a,b,c\n")
        raw.put("in/3.csv", "id,name\n3,a\n")
        job.wait_for(lambda: ids(small, "follow_spark.t") == [1, 3])
        outcome = job.end()
    assert job.said.count("starting Spark") == 1, job.said
    assert list(outcome["left_out"]) == [raw.uri("in/2.csv")]


@pytest.mark.further("test_a_follower_loads_again_what_the_record_of_loads_no_longer_has")
def test_a_renamed_table_keeps_its_record_and_its_old_name_is_a_new_table(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/1.csv", "id,name\n1,a\n")
    with follower(tmp_path, server, *place(raw, "follow_renamed.t")) as job:
        job.wait_for(lambda: ids(small, "follow_renamed.t") == [1])
        small.catalog.rename_table("follow_renamed.t", "follow_renamed.u")
        raw.put("in/2.csv", "id,name\n2,a\n")
        job.wait_for(lambda: ids(small, "follow_renamed.t") == [1, 2])
        assert ids(small, "follow_renamed.u") == [1]
        assert job.end()["left_out"] == {}
    done = small.ingest(raw, "follow_renamed.u")
    assert (done.sources, done.skipped) == (1, 1)
    assert ids(small, "follow_renamed.u") == [1, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--every", "0s"), "--every '0s' is not a time like 10s, 5m or 1h"),
        (("--every", "10"), "--every '10' is not a time like 10s, 5m or 1h"),
        (("--mode", "replace"), "--follow appends or merges; --mode replace takes all sources"),
        (("--mode", "merge", "--key", "id"), "--follow with --mode merge needs --order-by"),
        (("--dry-run",), "--follow and --dry-run exclude each other"),
        (("--from", "."), "--follow does not take ., a file or folder of this machine"),
        (("--from", "kafka://broker/topic"), "does not name a topic"),
        (("--from", "kafka:topic"), "needs --bootstrap"),
        (("--from", "s3://no-such-bucket-to-follow/"), "there is no bucket"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_reason(
    server: server_kit.Running,
    raw: Raw,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    arguments = ["ingest", "--follow", *place(raw, "refused.t"), *options]
    assert command.main([*arguments, "--data", str(server.data)], interrupts.Interrupts()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("options", [("--every", "5s"), ("--broken-sources", "retry")])
def test_options_of_a_follower_are_refused_without_follow(
    server: server_kit.Running,
    raw: Raw,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    arguments = ["ingest", *place(raw, "refused.t"), *options, "--data", str(server.data)]
    assert command.main(arguments, interrupts.Interrupts()) == 2
    assert "--every and --broken-sources go with --follow" in capsys.readouterr().err


def test_wrong_arguments_end_a_follower_in_its_first_round(
    server: server_kit.Running, small: Small, raw: Raw, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(8):
        raw.put(f"in/{number}.csv", "id\n1\n")
    arguments = ["ingest", "--follow", *place(raw, "follow_wrong.t"), "--partition-by", "day"]
    assert command.main([*arguments, "--data", str(server.data)], interrupts.Interrupts()) == 2
    assert "--partition-by names 'day', but the columns are: id" in capsys.readouterr().err
    assert small.state("follow_wrong.t") is None


@pytest.mark.parametrize(
    "name", examples.short(["an empty file", "another format", "a broken line"], "a broken line")
)
def test_a_first_round_with_a_file_that_cannot_be_loaded_waits_for_others(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path, name: str
) -> None:
    key, body = {
        "an empty file": ("in/0.csv", ""),
        "another format": ("in/0.json", "{}"),
        "a broken line": ("in/0.csv", "id\n1,2\n"),
    }[name]
    table = f"follow_first_{name.replace(' ', '_')}.t"
    raw.put(key, body)
    with follower(tmp_path, server, *place(raw, table)) as job:
        job.wait_until_said(f"left out {raw.uri(key)}, to be tried again in 2 s: ")
        raw.put("in/1.csv", "id\n1\n")
        job.wait_for(lambda: ids(small, table) == [1])
        outcome = job.end()
    assert (outcome["rows"], list(outcome["left_out"])) == (1, [raw.uri(key)])


@pytest.mark.spark
def test_a_first_round_with_a_file_that_spark_cannot_read_waits_for_others(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/0.parquet", b"PAR1 broken PAR1")
    arguments = ("--from", raw.uri("in/"), "--to", "lake.follow_spark.u", "--format", "parquet")
    with follower(tmp_path, server, *arguments) as job:
        job.wait_until_said(f"left out {raw.uri('in/0.parquet')}, to be tried again in 2 s: ")
        raw.put("in/1.parquet", parquet({"id": [1]}))
        job.wait_for(lambda: ids(small, "follow_spark.u") == [1])
        outcome = job.end()
    assert (outcome["rows"], list(outcome["left_out"])) == (1, [raw.uri("in/0.parquet")])


@pytest.mark.further(
    "tests/pipeline/test_rejects.py::"
    "test_rows_that_cannot_be_read_are_rejected_with_line_reason_and_text",
    "test_files_that_arrive_are_loaded_until_a_signal_ends_the_job",
)
def test_a_follower_rejects_rows_that_cannot_be_read(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    arguments = (*place(raw, "follow_rejects.t"), "--on-error", "reject")
    raw.put("in/0.csv", "id,n\n0,a\n1\n")
    with follower(tmp_path, server, *arguments) as job:
        job.wait_until_said("rejected 1 row into lake.follow_rejects.t__rejected")
        raw.put("in/1.csv", "id,n\n2\n3,b\n")
        job.wait_for(lambda: ids(small, "follow_rejects.t") == [0, 3])
        assert job.end()["left_out"] == {}
    rejected = small.catalog.load_table("follow_rejects.t__rejected").scan().to_arrow()
    assert sorted(rejected["raw"].to_pylist()) == ["1", "2"]


def test_a_time_has_a_unit() -> None:
    assert [following.parse_every(text) for text in ("10s", "5m", "1h")] == [10, 300, 3600]
