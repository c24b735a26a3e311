"""Measures what a hostile request costs all other clients: latency of `/_health`, memory.

A `Hostile` is one row of a table. `Campaign.run` sends it to a server that a user could have
started, while a second client, in a process of its own, asks `/_health` every 10 ms. A row fails
when one of these answers takes `LATENCY_MS_MAX` longer than the median of a quiet tenth of one,
when the serving process grows by more than the row declares, or when the server logs a traceback or
is gone.

From an answer's time is taken what the serving thread and the probe, ready to run, waited for a
processor: others may use the machine too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kit import server, users

LATENCY_MS_MAX: Final = 250.0
QUIET_SECONDS: Final = 0.1
AFTER_SECONDS: Final = 0.3
SAMPLE_SECONDS: Final = 0.02
MIB: Final = 1024 * 1024
ANONYMOUS: Final = "anonymous"
ROOT: Final = "root"

PROBE: Final = """
import json, socket, sys, threading, time
host, port, pid = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def waited():
    total = 0
    for path in ("/proc/%s/schedstat" % pid, "/proc/self/schedstat"):
        try:
            with open(path) as file:
                total += int(file.read().split()[1])
        except (OSError, IndexError):
            pass
    return total / 1e9
request = b"GET /_health HTTP/1.1\\r\\nhost: " + host.encode() + b"\\r\\n\\r\\n"
done = []
threading.Thread(target=lambda: done.append(sys.stdin.read()), daemon=True).start()
samples = []
connection = None
ended = False
while not ended:
    ended = bool(done)  # one more request: there is one that began after the row did
    before = waited()
    began = time.monotonic()
    try:
        if connection is None:
            connection = socket.create_connection((host, port), timeout=120)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        answer = b""
        while not answer.endswith(b"}"):
            part = connection.recv(65536)
            if not part:
                raise ConnectionError("closed")
            answer += part
        ok = answer.startswith(b"HTTP/1.1 200")
    except OSError:
        ok, connection = False, None
    took = time.monotonic() - began
    samples.append((began, took, ok, max(0.0, took - (waited() - before))))
    if len(samples) == 1:
        print(flush=True)
    time.sleep(0.01)
print(json.dumps(samples))
"""


def waited_seconds() -> float:
    """Return how long this thread, ready to run, has waited for a processor; 0 without Linux."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a row sends to: a server, and the key pair of the row's principal ("" for none).

    It has what `tests.kit.s3.call` and its like take. prepared: what the row's `prepare` returned.
    """

    running: server.Running
    access_key: str
    secret_key: str
    prepared: Any = None

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def host(self) -> str:
        return self.running.host

    @property
    def port(self) -> int:
        return self.running.port


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One row: a hostile request, or a burst of them.

    principal: ANONYMOUS, ROOT or a user of `tests.kit.users`. growth_mib: by how much the serving
    process may grow, at its peak, while the row runs. send: sends it all and waits for the answers;
    it asserts what they must be. prepare: makes what the row needs, as root, unmeasured. long: only
    run by `make test-long`.
    """

    name: str
    principal: str
    growth_mib: int
    send: Callable[[Target], object]
    prepare: Callable[[Target], Any] | None = None
    long: bool = False


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one row cost. worst_wall_ms: by the clock on the wall, with waits for a processor.
    tree_mib: the growth of the process and its children together.
    """

    name: str
    seconds: float
    baseline_ms: float
    worst_ms: float
    worst_wall_ms: float
    growth_mib: float
    growth_mib_max: int
    tree_mib: float
    lost_answers: int
    tracebacks: str

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, in words."""
        faults = []
        if self.worst_ms > self.baseline_ms + LATENCY_MS_MAX:
            faults.append(f"/_health took {self.worst_ms:.0f} ms beside {self.baseline_ms:.0f} ms")
        if self.growth_mib > self.growth_mib_max:
            faults.append(f"grew by {self.growth_mib:.0f} MiB, allowed are {self.growth_mib_max}")
        if self.lost_answers:
            faults.append(f"{self.lost_answers} requests for /_health were not answered with 200")
        if self.tracebacks:
            faults.append(f"the server logged:\n{self.tracebacks}")
        return faults

    def __str__(self) -> str:
        return (
            f"{self.name:<60} {self.seconds:6.1f} s  /_health {self.worst_ms:7.1f} ms "
            f"(quiet {self.baseline_ms:.1f}, wall {self.worst_wall_ms:.0f})  "
            f"+{self.growth_mib:6.1f} MiB of {self.growth_mib_max}  tree +{self.tree_mib:6.1f} MiB"
        )


@dataclass
class Campaign:
    """Runs rows against one server, which has the five users of `tests.kit.users`."""

    running: server.Running
    costs: list[Cost] = field(default_factory=list)

    def run(self, row: Hostile) -> Cost:
        """Send one row and return what it cost."""
        root = self.running
        pair = {ANONYMOUS: ("", ""), ROOT: (root.access_key, root.secret_key)}.get(row.principal)
        access_key, secret_key = pair or (
            users.access_key(row.principal),
            users.secret_key(row.principal),
        )
        prepared = None
        if row.prepare is not None:
            prepared = row.prepare(
                Target(running=root, access_key=root.access_key, secret_key=root.secret_key)
            )
        target = Target(
            running=root, access_key=access_key, secret_key=secret_key, prepared=prepared
        )
        logged = root.log.stat().st_size
        probe = _Probe(root)
        try:
            time.sleep(QUIET_SECONDS)
            memory = _Memory(root.pid)
            began = time.monotonic()
            try:
                row.send(target)
            finally:
                ended = time.monotonic()
                time.sleep(AFTER_SECONDS)
                growth_mib, tree_mib = memory.stop()
        finally:
            samples = probe.stop()
        quiet = [seconds for at, _, _, seconds in samples if at + seconds < began]
        during = [each for each in samples if each[0] + each[1] >= began]
        with root.log.open("rb") as log:
            log.seek(logged)
            text = log.read().decode(errors="replace")
        cost = Cost(
            name=row.name,
            seconds=ended - began,
            baseline_ms=statistics.median(quiet) * 1000,
            worst_ms=max(each[3] for each in during) * 1000,
            worst_wall_ms=max(each[1] for each in during) * 1000,
            growth_mib=growth_mib,
            growth_mib_max=row.growth_mib,
            tree_mib=tree_mib,
            lost_answers=sum(not ok for _, _, ok, _ in samples),
            tracebacks=text[-4000:] if "Traceback" in text else "",
        )
        self.costs.append(cost)
        return cost


class _Probe:
    """A second client, in a process of its own, so that no other thread of ours slows it."""

    def __init__(self, running: server.Running) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-c", PROBE),
                *(running.host, str(running.port), str(running.pid)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        # A busy machine takes its time to start a process; the quiet time begins when it asks.
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def stop(self) -> list[tuple[float, float, bool, float]]:
        """Return when each request began, how many seconds it took, whether it was answered, and
        its seconds without waits for a processor."""
        output, _ = self._process.communicate(timeout=150)
        return [tuple(each) for each in json.loads(output)]


class _Memory:
    """Watches the memory of a process and its children until it is stopped."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # Linux then begins its record of the largest size anew.
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = _status_kib(pid, "VmRSS")
        self._tree_before = self._tree_peak = _tree_kib(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[float, float]:
        """Return by how many MiB the process, and it with its children, grew at the peak."""
        self._ended.set()
        self._thread.join()
        peak = _status_kib(self._pid, "VmHWM")
        return (peak - self._before) / 1024, (self._tree_peak - self._tree_before) / 1024

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._tree_peak = max(self._tree_peak, _tree_kib(self._pid))


def _status_kib(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def _tree_kib(pid: int) -> int:
    total = 0
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        try:
            total += _status_kib(each, "VmRSS")
            for task in os.listdir(f"/proc/{each}/task"):  # noqa: PTH208 - sampled often
                children = Path(f"/proc/{each}/task/{task}/children").read_text()
                waiting += [int(child) for child in children.split()]
        except OSError:
            continue  # ended meanwhile
    return total
