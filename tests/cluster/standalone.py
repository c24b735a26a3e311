"""A Spark standalone cluster on this machine: a master and its workers, of PySpark's own jars."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from pipeline import java
from tests.kit import server as server_kit

MASTER, WORKER = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
START_SECONDS = 600
HANG_SECONDS = 1_500
"""When a job, or what a connector runs, is taken for one that hangs. No test measures by it."""
TEST_SECONDS = 1_800
HOST = "127.0.0.1"
JARS = Path(pyspark.__file__).parent / "jars"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A running cluster. url: of its master. folder: its logs and work directories."""

    url: str
    folder: Path

    def executors(self) -> int:
        """Return how many executors the workers have started."""
        return len(self._launched())

    def executor_heaps(self) -> set[str]:
        """Return Java's option for the heap of each executor that was started."""
        return {word for line in self._launched() for word in re.findall(r"-Xmx\w+", line)}

    def _launched(self) -> list[str]:
        logs = (self.folder / f"worker-{number}.log" for number in (1, 2))
        lines = (line for log in logs for line in log.read_text().splitlines())
        return [line for line in lines if "Launch command:" in line]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Start a master and two workers of one core and 1 GiB each; end them with the block."""
    runtime = java.find(os.environ)
    folder.mkdir()
    scala = next(JARS.glob("spark-core_*.jar")).name.removeprefix("spark-core_").split("-")[0]
    variables = {
        **os.environ,
        "SPARK_HOME": str(JARS.parent),
        "SPARK_LOCAL_IP": HOST,
        # Spark's launcher looks for it in the folder of a build, which PySpark is not.
        "SPARK_SCALA_VERSION": scala,
    }

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        words = [str(runtime.home / "bin" / "java"), "-Xmx256m", "-cp", f"{JARS}/*", *arguments]
        words += ["--host", HOST, "--port", "0", "--webui-port", "0"]
        with (folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(words, env=variables, stdout=log, stderr=log, cwd=folder)

    with contextlib.ExitStack() as stack:
        stack.callback(end, processes := [start("master", MASTER)])
        url = wait_for(folder / "master.log", rf"spark://{re.escape(HOST)}:\d+")
        for number in (1, 2):
            sizes = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / str(number)))
            processes.append(start(f"worker-{number}", WORKER, *sizes, url))
        for number in (1, 2):
            wait_for(folder / f"worker-{number}.log", "Successfully registered with master")
        yield Cluster(url=url, folder=folder)


def wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        match = re.search(pattern, log.read_text())
        if match is not None:
            return match[0]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not say {pattern}: {log.read_text()[-2000:]}")


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()


def run_pipeline(running: server_kit.Running, cluster: Cluster, *arguments: str) -> None:
    """Run one job on the cluster."""
    done = subprocess.run(
        command(running, cluster.url, *arguments),
        env=environment(running),
        cwd=server_kit.ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def command(running: server_kit.Running, master: str, *arguments: str) -> list[str]:
    """Return the command of a job on a master."""
    words = [sys.executable, "-m", "pipeline", *arguments]
    return [*words, "--url", running.url, "--master", master]


def environment(running: server_kit.Running) -> dict[str, str]:
    """Return the environment of a job, with the keys of the server."""
    return {
        **os.environ,
        "BOATHOUSE_ACCESS_KEY": running.access_key,
        "BOATHOUSE_SECRET_KEY": running.secret_key,
    }
