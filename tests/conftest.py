"""Fixtures that every test may use."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest import runner

from tests.kit import removal, workers
from tests.kit import server as server_kit
from tests.kit.workers import TESTS

ODD_FOLDER = "my data [1] *?%20'ü"
RUN_VARIABLE = "BOATHOUSE_TEST_RUN"
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
WORKERS_VARIABLE = "PYTEST_XDIST_WORKER_COUNT"
RUN = uuid.uuid4().hex
"""Stands in the environment of every process that a test starts, and of theirs."""

PROCESSES = Path("/proc")
END_SECONDS = 60

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 6 << 30
"""What a machine must have free, in that folder and in all, for the folders of tests."""
ROOT_VARIABLE = "PYTEST_DEBUG_TEMPROOT"

os.environ[RUN_VARIABLE] = RUN
os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
# Spark's tests are short: code compiled for long runs costs them twice the CPU. A seventh of what
# is left goes to Java's search for compiled code that it may forget.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions -XX:-MethodFlushing"
    " -XX:ReservedCodeCacheSize=240m",
)
# Several processes with tests share one machine: none takes what a job alone would.
os.environ.setdefault("BOATHOUSE_DRIVER_MEMORY", "1g")


def has_memory_to_spare() -> bool:
    """Return whether what tests write can lie in memory: tests wait for no disk then."""
    try:
        status = os.statvfs(MEMORY)
        lines = (PROCESSES / "meminfo").read_text().splitlines()
    except OSError:
        return False
    free_bytes = [status.f_bavail * status.f_frsize]
    free_bytes += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")]
    return os.access(MEMORY, os.W_OK) and min(free_bytes) >= MEMORY_BYTES_MIN


if has_memory_to_spare():
    os.environ.setdefault(ROOT_VARIABLE, str(MEMORY))

NAME_LENGTH_MAX = 30

CYCLES_THRESHOLDS = (50_000, 50, 100)
"""After how many new objects, and searches, Python looks for cycles among the young and the old."""

# All that a collection of tests makes stays to the end: a search for cycles finds nothing in it.
gc.disable()


def has_terminal() -> bool:
    """Return whether a person has started this run, at a terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


# An example that a busy machine was slow at is no failure. New examples are tried wherever a person
# looks at them; a machine that only says yes or no tries the same ones each time.
hypothesis.settings.register_profile(
    "boathouse",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ or not has_terminal(),
)
hypothesis.settings.load_profile("boathouse")


ORDER = (
    "test_tidy", "test_docs", "test_workers", "storage", "server", "catalog", "s3tables", "sql",
    "pipeline", "fuzz", "model", "test_provision", "test_mini", "contract", "campaign", "crash",
)  # fmt: skip
"""Quick and local tests first, those that start processes and clients last."""


def pytest_collection(session: pytest.Session) -> None:
    """Import the files of a whole run, each worker beginning at another one.

    pytest rewrites the assertions of each file once and keeps the result: 19 CPU seconds for all in
    a fresh clone, which workers that collect in the same order would all spend.
    """
    worker = os.environ.get(WORKER_VARIABLE, "")
    if not worker or [Path(place).resolve() for place in session.config.args] != [TESTS]:
        return
    files = sorted(TESTS.rglob("test_*.py"))
    first = len(files) * int(worker.removeprefix("gw")) // int(os.environ[WORKERS_VARIABLE])
    for path in files[first:] + files[:first]:
        name = ".".join(path.relative_to(server_kit.ROOT).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run fast tests first; within a place the order stays as it is.

    Several workers of one run begin with the checks and then the longest instead, so that none of
    them is left with a long one at the end.
    """

    def place(item: pytest.Item) -> int:
        parts = item.path.relative_to(TESTS).with_suffix("").parts
        return ORDER.index(parts[0]) if parts[0] in ORDER else len(ORDER)

    if WORKER_VARIABLE in os.environ:
        spark = workers.files_with_spark()
        checks = {server_kit.ROOT / check for check in workers.CHECKS}
        items.sort(key=lambda item: (item.path not in checks, item.path not in spark, -place(item)))
    else:
        items.sort(key=place)


def pytest_collection_finish() -> None:
    """Let Python look for cycles again, rarely, and not among what was collected.

    Syntax trees of a thousand files cost 12 CPU seconds by Python's own thresholds, and 6 by these.
    """
    gc.freeze()
    gc.set_threshold(*CYCLES_THRESHOLDS)
    gc.enable()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In one process of several, report what the process that shows results has a use for.

    pytest-xdist sends six messages a test, of which two say something. `--durations` needs those
    of each part of a test, `--maxfail` those of a call before what follows it.
    """
    asks = any(map(item.config.getoption, ("durations", "maxfail")))
    if WORKER_VARIABLE not in os.environ or asks:
        return None
    for report in runner.runtestprotocol(item, log=False, nextitem=nextitem):
        if workers.says_something(report):
            item.ihook.pytest_runtest_logreport(report=report)
    return True


FAILED = pytest.StashKey[bool]()


def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    node.stash[FAILED] = True


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder of the test's own, removed at once if the test passes.

    Pytest's own fixture takes three times as long to remove a data folder.
    """
    path = tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:NAME_LENGTH_MAX])
    yield path
    if FAILED not in request.node.stash:
        removal.remove(path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> workers.Workers | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.pluginmanager.register(workers.Checks(config))
    return workers.Workers(config, log)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """When all is done, no process that a test started is still there."""
    yield
    deadline = time.monotonic() + END_SECONDS
    while left := processes_of_this_run():
        assert time.monotonic() < deadline, f"left running: {left}"
        time.sleep(0.05)


def processes_of_this_run() -> list[str]:
    """The command lines of this run's processes but this one, where /proc tells."""
    mark = f"{RUN_VARIABLE}={RUN}".encode()
    command_lines = []
    for folder in PROCESSES.glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                command_lines.append(f"{folder.name}: {command}")
        except OSError:
            continue  # ended meanwhile, or not ours to see
    return command_lines


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    """One server for the whole run, with table bucket `lake`. Use names of your own in it.

    Its data folder is told by a relative path, as by default, and holds characters that mean
    something to glob patterns, URLs and SQL.
    """
    folder = tmp_path_factory.mktemp("server")
    running = server_kit.start(folder / ODD_FOLDER, working_folder=folder)
    yield running
    code = running.stop()
    assert code == 0, f"the server ended with {code}:\n{running.log.read_text()[-4000:]}"


@pytest.fixture(scope="session")
def spark(server: server_kit.Running) -> Iterator[Any]:
    """One Spark session (a `pipeline.session.Spark`) for the whole run, on warehouse `lake`."""
    from pipeline import resources, servers, session

    endpoint = servers.find(url=None, data=str(server.data), environment={}, region=None)
    gets = resources.SparkResources(master="local[2]")
    with session.started(endpoint, "lake", gets=gets, say=print) as started:
        yield started


@pytest.fixture(scope="session")
def trino(server: server_kit.Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Trino (a `tests.kit.trino.Trino`) for the whole run, on warehouse `lake`."""
    from tests.kit import trino as trino_kit

    with trino_kit.started(server, tmp_path_factory.mktemp("trino")) as started:
        yield started
