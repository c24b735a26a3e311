"""engine: the audit log: denials, changes, reads if a setting wants them, and their outcomes.

JSON lines in `DIR/audit`, one file at a time; the oldest files are removed beyond a maximum number.
A line is appended in memory and written shortly after, off the event loop, together with later
ones. Lines hold names, actions and outcomes; never a secret, a token, a body or a query. A line has
at most `limits.AUDIT_RECORD_BYTES_MAX`; a text that is cut for that ends in an ellipsis.

Lines about clients without a proven identity have their own, fewer files (`anonymous-*`) and a
rate limit, so that they never remove lines about others; lines about allowed reads have their own
files too (`reads-*`), so that they never remove lines about changes. While the log cannot be
written, writes are refused before any effect, with DiskFull if the disk is full; reads and deletes
continue, so that space can be freed, and their lines wait in memory.

Denials are counted by principal and action since the start. The latest lines of each topic stay in
memory, for the native API. Lines about changes of policies, users and roles say `changes_access`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import functools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import orjson

from server import limits
from server.access import decide, errors, model
from storage import errors as storage_errors
from storage import model as storage_model

GATHER_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 1.0
Topic: TypeAlias = Literal["audit", "anonymous", "reads"]
"""What lines are about: proven callers, clients without a proven identity, allowed reads of the
former."""
TOPICS: Final[tuple[Topic, ...]] = ("audit", "anonymous", "reads")
LONG_TEXTS: Final = ("resource", "place")
"""Fields that keep more of their text than others when a line is cut."""
LONG_TEXT_BYTES_MAX: Final = 480
TEXT_BYTES_MAX: Final = 120
STATEMENTS_MAX: Final = 4
CUT: Final = "\u2026"
SUFFIX: Final = ".jsonl"
OTHERS: Final = "others"
"""Principal and action of the denials beyond `limits.AUDIT_DENIALS_MAX`, in their count."""


class AuditDisk(Protocol):
    """The methods of `storage.disk.Disk` that this module uses."""

    def make_folder(self, path: Path) -> None: ...

    def create(self, path: Path, *, mode: int = ...) -> int: ...

    def write(self, descriptor: int, data: bytes | memoryview) -> None: ...

    def fsync(self, descriptor: int) -> None: ...

    def close(self, descriptor: int) -> None: ...

    def names(self, path: Path) -> list[str]: ...

    def unlink(self, path: Path) -> None: ...


class Entry:
    """The fields of one request's lines. topic: of its lines, None while it has none."""

    __slots__ = ("credential_id", "face", "request_id", "topic")

    def __init__(self, request_id: str, face: str) -> None:
        self.request_id = request_id
        self.face = face
        self.credential_id = ""
        self.topic: Topic | None = None


class _Files:
    """The files of one prefix, and the lines waiting for them. Mutable.

    `write` is called by one thread at a time; the rest belongs to the event loop.
    """

    def __init__(
        self,
        *,
        folder: Path,
        disk: AuditDisk,
        topic: Topic,
        now_ms: storage_model.NowMs,
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._prefix = f"{topic}-"
        self._anonymous = topic == "anonymous"
        self._now_ms = now_ms
        self._path = folder
        self._descriptor = -1
        self._written_bytes = 0
        self._tokens = float(limits.AUDIT_ANONYMOUS_BURST)
        self._tokens_at_ms = 0
        self.waiting: list[dict[str, Any]] = []
        self.latest: collections.deque[bytes] = collections.deque(maxlen=limits.AUDIT_LATEST_MAX)
        self.lost = 0

    def append(self, line: dict[str, Any]) -> None:
        """Queue a line; count it as lost if the queue is full or the rate is exceeded."""
        if len(self.waiting) >= limits.AUDIT_WAITING_MAX or (
            self._anonymous and not self._is_within_rate(line["at_ms"])
        ):
            self.lost += 1
        else:
            self.waiting.append(line)

    async def write_waiting(self) -> None:
        """Write the queued lines. Raises the disk's errors; then all lines stay queued."""
        count, lost = len(self.waiting), self.lost
        lines = self.waiting[:]
        if lost:
            # Lost lines are reported in the log.
            lines.append({"event": "lost", "lines": lost, "at_ms": self._now_ms()})
        if not lines:
            return
        try:
            await asyncio.to_thread(self._write, lines)
        except BaseException:
            self._abandon()
            raise
        self.lost -= lost
        del self.waiting[:count]

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            self._disk.fsync(self._descriptor)
            self._disk.close(self._descriptor)
            self._descriptor = -1

    def _is_within_rate(self, now_ms: int) -> bool:
        passed_ms = max(0, now_ms - self._tokens_at_ms)
        self._tokens_at_ms = now_ms
        self._tokens = min(
            float(limits.AUDIT_ANONYMOUS_BURST),
            self._tokens + passed_ms * limits.AUDIT_ANONYMOUS_LINES_PER_SECOND / 1000,
        )
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _write(self, lines: list[dict[str, Any]]) -> None:
        bytes_max = (
            limits.AUDIT_ANONYMOUS_FILE_BYTES_MAX
            if self._anonymous
            else limits.AUDIT_FILE_BYTES_MAX
        )
        if self._descriptor < 0 or self._written_bytes >= bytes_max:
            self._open_next()
        encoded = [_encode(line) for line in lines]
        data = b"".join(line + b"\n" for line in encoded)
        self._disk.write(self._descriptor, data)
        self._written_bytes += len(data)
        self.latest.extend(encoded)

    def _open_next(self) -> None:
        self.close()
        names = sorted(
            name
            for name in self._disk.names(self._folder)
            if name.startswith(self._prefix) and name.endswith(SUFFIX)
        )
        files_max = limits.AUDIT_ANONYMOUS_FILES_MAX if self._anonymous else limits.AUDIT_FILES_MAX
        for name in names[: max(0, len(names) - files_max + 1)]:
            self._disk.unlink(self._folder / name)
        number = int(names[-1][len(self._prefix) : -len(SUFFIX)]) + 1 if names else 1
        self._path = self._folder / f"{self._prefix}{number:010d}{SUFFIX}"
        self._written_bytes = 0
        self._descriptor = self._disk.create(self._path)

    def _abandon(self) -> None:
        """Close a file that may end in a torn line; the next attempt opens another. A file without
        a whole line is removed, so that attempts on a full disk do not accumulate files."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._disk.close(self._descriptor)
        self._descriptor = -1
        if self._written_bytes == 0:
            with contextlib.suppress(OSError):
                self._disk.unlink(self._path)


class Audit:
    """The log of one server. The Authoriser calls `record`, the exchange the other methods."""

    def __init__(self, *, folder: Path, disk: AuditDisk, now_ms: storage_model.NowMs) -> None:
        self._folder = folder
        self._disk = disk
        self._now_ms = now_ms
        self._entry: contextvars.ContextVar[Entry | None] = contextvars.ContextVar(
            "audit-entry", default=None
        )
        self._logs = {
            topic: _Files(folder=folder, disk=disk, topic=topic, now_ms=now_ms) for topic in TOPICS
        }
        self._wake = asyncio.Event()
        self._is_woken = False
        """Whether `_wake` is set, or about to be; read for each line, without a call."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._writer: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._fault: Exception | None = None
        self._denials: dict[tuple[str, str], int] = {}
        self._writing = asyncio.Lock()

    @property
    def is_stuck(self) -> bool:
        """Whether the last write of the log failed, so that writes are refused."""
        return self._fault is not None

    async def start(self) -> None:
        """Start writing the queued lines."""
        self._disk.make_folder(self._folder)
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._writer = asyncio.create_task(self._write_for_ever())

    async def stop(self) -> None:
        """Write the queued lines and close the file."""
        if self._writer is not None:
            # Not cancelled: its thread may be writing.
            self._stopping.set()
            self._wake.set()
            await self._writer
            self._writer = None
            self._stopping.clear()
        await self._write_waiting()
        for log in self._logs.values():
            log.close()

    def begin(self, request_id: str, face: str) -> Entry:
        """Return the entry of the request that this task serves."""
        entry = Entry(request_id, face)
        self._entry.set(entry)
        return entry

    def record(
        self, principal: model.Principal, demand: model.Demand, decision: model.Decision
    ) -> None:
        """Record a denial, or a write that is allowed and about to run.

        Raises DiskFull or AuditUnavailable for a write, except deletes, while the log cannot be
        written.
        """
        if decision.allow and self._fault is not None:
            self._wake_writer()
            if not demand.action.partition(":")[2].lower().startswith(("delete", "abort")):
                if isinstance(self._fault, storage_errors.DiskReadOnly):
                    raise storage_errors.DiskReadOnly(
                        "the audit log cannot be written: the disk takes no writes"
                    )
                if isinstance(self._fault, storage_errors.DiskFull):
                    raise storage_errors.DiskFull("the disk has no room left for the audit log")
                raise errors.AuditUnavailable(
                    f"the audit log cannot be written, so nothing may be changed: {self._fault!r}"
                )
        if not decision.allow:
            self._count_denial(principal, demand.action)
        topic: Topic = "anonymous" if principal.type == "anonymous" else "audit"
        self._append(self._judged(principal, demand, decision), topic)

    def record_read(
        self, principal: model.Principal, demand: model.Demand, decision: model.Decision
    ) -> None:
        """Record a read that is allowed and about to run."""
        topic: Topic = "anonymous" if principal.type == "anonymous" else "reads"
        self._append(self._judged(principal, demand, decision), topic)

    def format_metrics(self) -> Iterator[str]:
        """Yield the lines of `/_metrics`: how often each principal was denied something."""
        yield "# HELP boathouse_denials_total Actions that a principal was denied."
        yield "# TYPE boathouse_denials_total counter"
        by_principal: collections.Counter[str] = collections.Counter()
        for name, _, count in self.denials():
            by_principal[name] += count
        for name, count in by_principal.items():
            label = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            yield f'boathouse_denials_total{{principal="{label}"}} {count}'

    def denials(self) -> Iterator[tuple[str, str, int]]:
        """Yield principal, action and count of the denials since the start."""
        # The writer thread counts what a transaction denies, so that the rows are copied at once.
        for (name, action), count in tuple(self._denials.items()):
            yield name, action, count

    async def latest(self, topic: Topic) -> list[bytes]:
        """Return the latest lines of a topic as JSON, oldest first: those that are written."""
        await self._write_waiting()
        return list(self._logs[topic].latest)

    def _count_denial(self, principal: model.Principal, action: str) -> None:
        pair = (_shown(principal.arn or principal.type), _shown(action))
        if pair not in self._denials and len(self._denials) >= limits.AUDIT_DENIALS_MAX:
            pair = (OTHERS, OTHERS)
        self._denials[pair] = self._denials.get(pair, 0) + 1

    def _judged(
        self, principal: model.Principal, demand: model.Demand, decision: model.Decision
    ) -> dict[str, Any]:
        line: dict[str, Any] = {
            "event": "allow" if decision.allow else "deny",
            "principal": principal.arn,
            "action": demand.action,
            "resource": demand.resource[:LONG_TEXT_BYTES_MAX],
            "reason": decision.reason,
        }
        if decide.changes_access(demand.action):
            line["changes_access"] = True
        if decision.statements:
            line["statements"] = decision.statements
        if demand.place:
            line["place"] = demand.place[:LONG_TEXT_BYTES_MAX]
        if demand.referenced_by:
            line["referenced_by"] = demand.referenced_by[:LONG_TEXT_BYTES_MAX]
        address = principal.context.get("aws:SourceIp")
        if address:
            line["ip"] = address
        return line

    def record_refusal(self, entry: Entry, reason: str, *, client_ip: str) -> None:
        """Record that an authentication failed; reason is the error's name."""
        self._append({"event": "refuse", "reason": reason, "ip": client_ip}, "anonymous", entry)

    def record_outcome(self, entry: Entry, status: int, *, duration_ns: int) -> None:
        """Record the outcome of a request that has lines already, among these."""
        line = {"event": "outcome", "status": status, "ms": round(duration_ns / 1e6, 3)}
        self._append(line, entry.topic or "audit", entry)

    def _append(self, line: dict[str, Any], topic: Topic, entry: Entry | None = None) -> None:
        entry = entry or self._entry.get()
        if entry is not None:
            if entry.topic is None or topic != "reads":  # the outcome of a copy is that of a change
                entry.topic = topic
            line["request_id"] = entry.request_id
            line["face"] = entry.face
            if entry.credential_id:
                line["credential"] = entry.credential_id[:TEXT_BYTES_MAX]
        line["at_ms"] = self._now_ms()
        self._logs[topic].append(line)
        if not self._is_woken:
            self._wake_writer()

    def _wake_writer(self) -> None:
        """Wake the task that writes; from any thread, because transactions deny too."""
        if self._is_woken:
            return
        self._is_woken = True
        if self._loop is None or threading.get_ident() == self._thread_id:
            self._wake.set()
        else:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _write_for_ever(self) -> None:
        while not self._stopping.is_set():
            # Without this a log that failed would only be tried again by the next, refused, write.
            with contextlib.suppress(TimeoutError):
                retry_seconds = RETRY_SECONDS if self._fault is not None else None
                async with asyncio.timeout(retry_seconds):
                    await self._wake.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._stopping.wait()
            self._is_woken = False
            self._wake.clear()
            await self._write_waiting()

    async def _write_waiting(self) -> None:
        async with self._writing:
            try:
                await self._logs["audit"].write_waiting()
            except Exception as error:  # noqa: BLE001 - the log must continue after any error
                self._fault = error.with_traceback(None)
            else:
                self._fault = None
            # A failed write of the others does not refuse writes.
            for topic in ("anonymous", "reads"):
                with contextlib.suppress(Exception):
                    await self._logs[topic].write_waiting()


def _encode(line: dict[str, Any]) -> bytes:
    dated = _dated(line)
    data = _dumps(dated)
    if len(data) > limits.AUDIT_RECORD_BYTES_MAX:
        data = _dumps({name: _cut(name, value) for name, value in dated.items()})
    assert len(data) <= limits.AUDIT_RECORD_BYTES_MAX
    return data


def _dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # A key that is not UTF-8 has surrogates, which JSON cannot represent.
        return orjson.dumps({name: _shown(each) for name, each in value.items()})


def _cut(name: str, value: Any) -> Any:
    """Return a value whose JSON has a bounded length."""
    if isinstance(value, str):
        bytes_max = LONG_TEXT_BYTES_MAX if name in LONG_TEXTS else TEXT_BYTES_MAX
        return _cut_text(_shown(value), bytes_max)
    if isinstance(value, list | tuple):
        return [_cut_text(_shown(each), TEXT_BYTES_MAX // 2) for each in value[:STATEMENTS_MAX]]
    return value


def _cut_text(text: str, bytes_max: int) -> str:
    if len(orjson.dumps(text)) <= bytes_max:
        return text
    low, high = 0, min(len(text), bytes_max)
    while low < high:
        middle = (low + high + 1) // 2
        if len(orjson.dumps(text[:middle] + CUT)) <= bytes_max:
            low = middle
        else:
            high = middle - 1
    return text[:low] + CUT


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return value


def _dated(line: dict[str, Any]) -> dict[str, Any]:
    at_ms = line["at_ms"]
    dated = {"time": f"{_second(at_ms // 1000)}.{at_ms % 1000:03d}+00:00", **line}
    del dated["at_ms"]
    return dated


@functools.lru_cache(1)
def _second(seconds: int) -> str:
    # Thousands of lines share a second, and formatting it costs more than the rest of a line.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
