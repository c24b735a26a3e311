"""kill -9 of a real job at chosen requests on its wire; the next run loads exactly what is missing.

A job runs as its user starts it, in a process group of its own, against a door before the server.
At the chosen request the group is killed and the door closes, so that the JVM, should it outlive
Python by a moment, reaches nothing either: as if the machine had lost its power.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline import servers, settings
from tests.kit import examples
from tests.kit import server as server_kit
from tests.pipeline import wire
from tests.pipeline.lake import Lake, Raw, Small

JOB_TIMEOUT_SECONDS = 240
LEAVE_TIMEOUT_SECONDS = 60
FILES = 4


def _reads_a_source(method: str, path: str) -> bool:
    return method == "GET" and path.startswith("/pipeline-raw-") and "/in/" in path


def _writes_data(method: str, path: str) -> bool:
    return method == "PUT" and "/data/" in path and path.split("?")[0].endswith(".parquet")


def _writes_a_manifest(method: str, path: str) -> bool:
    return method == "PUT" and "/metadata/" in path and path.split("?")[0].endswith(".avro")


def _commits(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/tables/t")


# name -> (which request, how many of them there are, before or after the server took it,
#          into a live table or a new one, whether the commit was made by then)
MOMENTS = {
    "as it reads a source": (_reads_a_source, FILES, "before", "live", False),
    "with some data files written": (_writes_data, FILES, "after", "new", False),
    "ahead of a manifest": (_writes_a_manifest, 2, "before", "live", False),
    "with its commit on the way": (_commits, 1, "before", "new", False),
    "with its commit made and the answer lost": (_commits, 1, "after", "live", True),
}
EVERY_RUN = "with its commit made and the answer lost"
FURTHER = "with some data files written"
"""Of a job with Spark, in `make test-all`. Loads of other sources, of rejected rows and merges by
Spark end in the same commit: `make test-long` kills them too, `make test` cuts those of databases
and tables off."""
CASES = [
    pytest.param(
        name,
        seed,
        marks=[pytest.mark.spark]
        + [pytest.mark.smoke] * (name == EVERY_RUN)
        + [pytest.mark.long] * (name not in (EVERY_RUN, FURTHER)),
    )
    for seed, name in enumerate(MOMENTS, start=2013)
]


@pytest.mark.parametrize(("moment", "seed"), CASES)
def test_a_job_killed_at_any_moment_loads_each_row_once_when_run_again(
    server: server_kit.Running, lake: Lake, raw: Raw, tmp_path: Path, moment: str, seed: int
) -> None:
    matches, count, side, target, committed = MOMENTS[moment]
    chosen = random.Random(seed).randint(1, count)
    namespace = f"killed_{seed}"
    table = f"{namespace}.t"
    day = settings.parse_partitions("day")
    expected = []
    if target == "live":
        raw.put("in/0.csv", "id,day\n0,2026-01-09\n")
        lake.ingest(raw, table, partitions=day)
        expected.append(0)
    for number in range(1, FILES + 1):
        raw.put(f"in/{number}.csv", f"id,day,more\n{number},2026-01-{number:02d},x\n")
        expected.append(number)
    before = lake.state(table)

    job = Job(tmp_path, server)
    seen = threading.Semaphore(chosen - 1)

    def strike(method: str, path: str) -> bool:
        if not matches(method, path) or seen.acquire(blocking=False):
            return False
        # First the door: between the kill and its closing another request could still pass.
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    with wire.door(server.url, **watches) as door:
        said = job.run(door.url, raw.uri("in/"), f"lake.{table}")
        assert door.closed.is_set(), f"the moment never came:\n{said}\n{door.passed}"
        job.wait_until_gone()
    assert job.secrets_left() == []

    # A killed job can leave files that nothing names, but no other trace.
    after = lake.state(table)
    if not committed:
        assert without_files(after) == without_files(before)
    done = lake.ingest(raw, table, partitions=day)
    assert done.sources == (0 if committed else FILES)
    assert [row["id"] for row in lake.rows(table)] == expected
    assert len(lake.catalog.load_table(table).metadata.snapshots) == (2 if target == "live" else 1)
    assert lake.ingest(raw, table).snapshot_id is None


SMALL_MOMENTS = {
    "as it reads a source": (_reads_a_source, FILES, "before", "live", False),
    "with some data files written": (_writes_data, FILES, "after", "new", False),
    "ahead of a manifest": (_writes_a_manifest, 2, "before", "live", False),
    "with its commit on the way": (_commits, 1, "before", "new", False),
    "with its commit made and the answer lost": (_commits, 1, "after", "live", True),
}


@pytest.mark.parametrize(
    "moment",
    examples.further(
        SMALL_MOMENTS,
        "with its commit on the way",
        "with its commit made and the answer lost",
    ),
)
def test_a_small_load_killed_at_any_moment_loads_each_row_once_when_run_again(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path, moment: str
) -> None:
    number = list(SMALL_MOMENTS).index(moment)
    matches, count, side, target, committed = SMALL_MOMENTS[moment]
    chosen = random.Random(number).randint(1, count)
    table = f"killed_small_{number}.t"
    day = settings.parse_partitions("day")
    ids = list(range(1, FILES + 1))
    if target == "live":
        raw.put("in/0.csv", "id,day\n0,2026-01-09\n")
        small.ingest(raw, table, partitions=day)
        ids.insert(0, 0)
    for one in range(1, FILES + 1):
        raw.put(f"in/{one}.csv", f"id,day,more\n{one},2026-01-{one:02d},x\n")

    job = Job(tmp_path, server, engine="arrow")
    seen = threading.Semaphore(chosen - 1)

    def strike(method: str, path: str) -> bool:
        if not matches(method, path) or seen.acquire(blocking=False):
            return False
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    with wire.door(server.url, **watches) as door:
        said = job.run(door.url, raw.uri("in/"), f"lake.{table}")
        assert door.closed.is_set(), f"the moment never came:\n{said}\n{door.passed}"
    assert job.children == [], "a small load starts no other process"
    assert job.secrets_left() == []

    done = small.ingest(raw, table, partitions=day)
    assert done.sources == (0 if committed else FILES)
    assert [row["id"] for row in small.rows(table)] == ids
    assert len(small.catalog.load_table(table).metadata.snapshots) == (2 if target == "live" else 1)
    assert small.ingest(raw, table).snapshot_id is None


def _commits_both(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/transactions/commit")


REJECTING_MOMENTS = {
    "with its commit on the way": (_commits_both, "before"),
    "with a file of rejected rows written": (
        lambda method, path: _writes_data(method, path) and "/t__rejected/" in path, "after",
    ),
    "with its commit made and the answer lost": (_commits_both, "after"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("moment", "engine"),
    [
        ("with its commit on the way", "arrow"),
        pytest.param("with a file of rejected rows written", "arrow", marks=pytest.mark.further),
        ("with its commit made and the answer lost", "arrow"),
        *(
            pytest.param(
                moment,
                "spark",
                marks=[pytest.mark.spark, pytest.mark.long],
            )
            for moment in REJECTING_MOMENTS
        ),
    ],
)
def test_a_job_killed_as_it_rejects_rows_rejects_each_once_when_run_again(
    server: server_kit.Running,
    small: Small,
    raw: Raw,
    tmp_path: Path,
    moment: str,
    engine: settings.Engine,
) -> None:
    matches, side = REJECTING_MOMENTS[moment]
    table = f"killed_rejecting_{engine}_{list(REJECTING_MOMENTS).index(moment)}.t"
    raw.put("in/1.csv", "id,day\n1,2026-01-09\n2\n")
    raw.put("in/2.csv", "id,day\n3,2026-01-09\n4,x,y\n")
    job = Job(tmp_path, server, engine=engine)

    def strike(method: str, path: str) -> bool:
        if not matches(method, path):
            return False
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    with wire.door(server.url, **watches) as door:
        said = job.run(door.url, raw.uri("in/"), f"lake.{table}", "--on-error", "reject")
        assert door.closed.is_set(), f"the moment never came:\n{said}\n{door.passed}"
    if engine == "spark":
        job.wait_until_gone()
    committed = moment == "with its commit made and the answer lost"
    assert small.catalog.table_exists(table) == committed
    assert small.catalog.table_exists(f"{table}__rejected") == committed

    done = small.ingest(raw, table, on_error="reject")
    assert (done.sources, done.rejected) == ((0, 0) if committed else (2, 2))
    assert [row["id"] for row in small.rows(table)] == [1, 3]
    rejected = small.catalog.load_table(f"{table}__rejected").scan().to_arrow().to_pylist()
    assert sorted(row["raw"] for row in rejected) == ["2", "4,x,y"]


@pytest.mark.spark
def test_a_job_interrupted_in_the_middle_of_its_work_says_so_in_one_sentence(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/1.csv", "id,day\n1,2026-01-09\n")
    job = Job(tmp_path, server)
    struck = threading.Event()

    def strike(method: str, path: str) -> bool:
        if _reads_a_source(method, path) and job.has_jvm() and not struck.is_set():
            struck.set()
            job.interrupt()
        return False

    with wire.door(server.url, before=strike) as door:
        said = job.run(door.url, raw.uri("in/"), "lake.interrupted.t").splitlines()
        assert struck.is_set(), said
    job.wait_until_gone()
    assert job.process is not None
    assert job.process.returncode == 130
    assert said[-1] == ("pipeline: ingest was interrupted; run the same command again to finish it")
    assert all(line.startswith("pipeline: ") for line in said), said
    assert small.state("interrupted.t") is None
    assert list(job.temporary.glob("boathouse-*")) == []


@pytest.mark.spark
def test_a_job_whose_server_has_died_ends_soon_and_says_so_in_one_sentence(
    server: server_kit.Running, small: Small, raw: Raw, tmp_path: Path
) -> None:
    raw.put("in/1.csv", "id,day\n1,2026-01-09\n")
    job = Job(tmp_path, server)
    died: list[float] = []

    def dies(method: str, path: str) -> bool:
        if not died and _writes_data(method, path):
            died.append(time.monotonic())
        return bool(died)

    with wire.door(server.url, before=dies) as door:
        said = job.run(door.url, raw.uri("in/"), "lake.deserted.t").splitlines()
        ended = time.monotonic()
    assert died, said
    assert job.process is not None
    assert job.process.returncode == 1
    assert said[-1] == (
        f"pipeline: ingest failed: the server at {door.url} does not answer; start it and "
        "run the same command again: it continues with what is missing"
    )
    assert ended - died[0] < servers.SILENCE_SECONDS + LEAVE_TIMEOUT_SECONDS
    assert all(line.startswith("pipeline: ") for line in said), said
    assert small.state("deserted.t") is None


class CutOff(Exception):
    """Ends a load inside the test's own process."""


def cut_off_at_the_commit(line: str) -> None:
    """A load's `say` that ends it when all is written and nothing committed."""
    if line.startswith("committing"):
        raise CutOff


def without_files(state: object) -> object:
    """Return a table's state as a load leaves it that ended: with files that nothing names."""
    return {**state, "files": None} if isinstance(state, dict) else state


class Job:
    """`python -m pipeline` in a process group of its own, to be killed."""

    def __init__(
        self, folder: Path, server: server_kit.Running, *, engine: settings.Engine = "spark"
    ) -> None:
        self.engine = engine
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.log = folder / "job.log"
        self.secret = server.secret_key
        self.environment = {
            **server_kit.client_environment(),
            "BOATHOUSE_ACCESS_KEY": server.access_key,
            "BOATHOUSE_SECRET_KEY": server.secret_key,
            "TMPDIR": str(self.temporary),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.children: list[int] = []

    def run(self, url: str, source: str, table: str, *more: str) -> str:
        """Load a source, as `run_command` does."""
        master = () if self.engine == "arrow" else ("--master", "local[2]")
        return self.run_command(
            "ingest", "--url", url, "--from", source, "--to", table, "--partition-by", "day",
            *master, "--engine", self.engine, *more,
        )  # fmt: skip

    def run_command(self, *arguments: str) -> str:
        """Start the job and wait until it ends, or is ended; return what it said."""
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pipeline", *arguments],
                cwd=server_kit.ROOT, env=self.environment, start_new_session=True,
                stdout=output, stderr=output,
            )  # fmt: skip
            try:
                self.process.wait(JOB_TIMEOUT_SECONDS)
            finally:
                if self.process.poll() is None:
                    self.kill()
        return self.log.read_text()

    def kill(self) -> None:
        """kill -9 of the whole group. The JVM is in another one and must leave by itself."""
        assert self.process is not None
        self.children = _children_of(self.process.pid)
        os.killpg(self.process.pid, signal.SIGKILL)

    def has_jvm(self) -> bool:
        """Say whether Spark was started by now."""
        return self.process is not None and bool(_children_of(self.process.pid))

    def interrupt(self) -> None:
        """Ctrl-C, which the JVM in its own session does not see."""
        assert self.process is not None
        self.children = _children_of(self.process.pid)
        os.killpg(self.process.pid, signal.SIGINT)

    def wait_until_gone(self) -> None:
        """Wait for the JVM to notice that its standard input is closed."""
        assert self.children, "the job had no JVM"
        deadline = time.monotonic() + LEAVE_TIMEOUT_SECONDS
        while left := [pid for pid in self.children if _alive(pid)]:
            assert time.monotonic() < deadline, f"left running: {left}"
            time.sleep(0.05)

    def secrets_left(self) -> list[Path]:
        """Return the files below the job's temporary folder that hold the secret key."""
        secret = self.secret.encode()
        files = [path for path in self.temporary.rglob("*") if path.is_file()]
        return [path for path in files if secret in path.read_bytes()]


def _children_of(parent: int) -> list[int]:
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            children.append(int(stat.parent.name))
    return children


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
