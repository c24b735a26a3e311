"""engine: the audit log: who was refused, who changed what, and how it ended.

JSON lines in `DIR/audit`, one file at a time, the oldest removed beyond a number of files. A line
is appended to memory where it happens and written off the event loop a moment later, together with
what came meanwhile. Lines hold names, actions and outcomes; never a secret, a token, a body or a
query. While the log cannot be written, writes are refused before any effect; reads and deletes go
on, so that somebody can make room, and wait in memory for theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from server import limits
from server.access import errors, model
from storage import model as storage_model

GATHER_SECONDS: Final = 0.1
PREFIX: Final = "audit-"
SUFFIX: Final = ".jsonl"


class Disk(Protocol):
    """What this module needs of `storage.disk.Disk`."""

    def make_folder(self, path: Path) -> None: ...

    def create(self, path: Path, *, mode: int = ...) -> int: ...

    def write(self, descriptor: int, data: bytes | memoryview) -> None: ...

    def fsync(self, descriptor: int) -> None: ...

    def close(self, descriptor: int) -> None: ...

    def names(self, path: Path) -> list[str]: ...

    def unlink(self, path: Path) -> None: ...


class Entry:
    """One request as its lines name it. recorded: whether any line was written for it."""

    __slots__ = ("credential_id", "face", "recorded", "request_id")

    def __init__(self, request_id: str, face: str) -> None:
        self.request_id = request_id
        self.face = face
        self.credential_id = ""
        self.recorded = False


class Audit:
    """The log of one server. `record` is given to the Authoriser, the rest is the exchange's."""

    def __init__(self, *, folder: Path, disk: Disk, now_ms: storage_model.NowMs) -> None:
        self._folder = folder
        self._disk = disk
        self._now_ms = now_ms
        self._entry: contextvars.ContextVar[Entry | None] = contextvars.ContextVar(
            "audit-entry", default=None
        )
        self._waiting: list[dict[str, Any]] = []
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._stopping = False
        self._descriptor = -1
        self._written_bytes = 0
        self._fault: str | None = None
        self._writing = asyncio.Lock()
        self._lost = 0

    async def start(self) -> None:
        """Begin to write what is recorded."""
        self._disk.make_folder(self._folder)
        self._writer = asyncio.create_task(self._write_for_ever())

    async def stop(self) -> None:
        """Write what waits and close the file."""
        if self._writer is not None:
            # Not cancelled: a write may be under way in its thread.
            self._stopping = True
            self._wake.set()
            await self._writer
            self._writer = None
            self._stopping = False
        await self._write_waiting()
        if self._descriptor >= 0:
            self._disk.fsync(self._descriptor)
            self._disk.close(self._descriptor)
            self._descriptor = -1

    def begin(self, request_id: str, face: str) -> Entry:
        """Name the request that this task serves."""
        entry = Entry(request_id, face)
        self._entry.set(entry)
        return entry

    def record(
        self, principal: model.Principal, demand: model.Demand, decision: model.Decision
    ) -> None:
        """Take down a denial, or a write that is allowed and about to happen.

        Raises AuditUnavailable for a write, deletes apart, while the log cannot be written.
        """
        if decision.allow and self._fault is not None:
            self._wake.set()
            if not demand.action.partition(":")[2].lower().startswith(("delete", "abort")):
                raise errors.AuditUnavailable(
                    f"the audit log cannot be written, so nothing may be changed: {self._fault}"
                )
        line: dict[str, Any] = {
            "event": "allow" if decision.allow else "deny",
            "principal": principal.arn,
            "action": demand.action,
            "resource": demand.resource,
            "reason": decision.reason,
        }
        if decision.statements:
            line["statements"] = decision.statements
        if demand.place:
            line["place"] = demand.place
        address = principal.context.get("aws:SourceIp")
        if address:
            line["ip"] = address
        self._append(line)

    def record_refusal(self, entry: Entry, reason: str, *, client_ip: str) -> None:
        """Take down a proof of identity that was refused; reason is the fact's name."""
        self._append({"event": "refuse", "reason": reason, "ip": client_ip}, entry)

    def record_outcome(self, entry: Entry, status: int, *, duration_ns: int) -> None:
        """Take down how a request ended that has lines already."""
        self._append(
            {"event": "outcome", "status": status, "ms": round(duration_ns / 1e6, 3)}, entry
        )

    def _append(self, line: dict[str, Any], entry: Entry | None = None) -> None:
        entry = entry or self._entry.get()
        if entry is not None:
            entry.recorded = True
            line["request_id"] = entry.request_id
            line["face"] = entry.face
            if entry.credential_id:
                line["credential"] = entry.credential_id
        if len(self._waiting) >= limits.AUDIT_WAITING_MAX:
            self._lost += 1
            return
        line["at_ms"] = self._now_ms()
        self._waiting.append(line)
        self._wake.set()

    async def _write_for_ever(self) -> None:
        while not self._stopping:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            await self._write_waiting()

    async def _write_waiting(self) -> None:
        async with self._writing:
            count, lost = len(self._waiting), self._lost
            lines = self._waiting[:]
            if lost:
                # A gap must be seen.
                lines.append({"event": "lost", "lines": lost, "at_ms": self._now_ms()})
            if not lines:
                return
            try:
                await asyncio.to_thread(self._write, lines)
            except Exception as error:  # noqa: BLE001 - whatever it is, the log must go on
                self._fault = str(error) or type(error).__name__
                self._abandon_file()
            else:
                self._fault = None
                self._lost -= lost
                del self._waiting[:count]

    def _write(self, lines: list[dict[str, Any]]) -> None:
        if self._descriptor < 0 or self._written_bytes >= limits.AUDIT_FILE_BYTES_MAX:
            self._open_next()
        data = b"".join(_encode(line) + b"\n" for line in lines)
        self._disk.write(self._descriptor, data)
        self._written_bytes += len(data)

    def _open_next(self) -> None:
        if self._descriptor >= 0:
            self._disk.fsync(self._descriptor)
            self._disk.close(self._descriptor)
            self._descriptor = -1
        names = sorted(
            name
            for name in self._disk.names(self._folder)
            if name.startswith(PREFIX) and name.endswith(SUFFIX)
        )
        for name in names[: max(0, len(names) - limits.AUDIT_FILES_MAX + 1)]:
            self._disk.unlink(self._folder / name)
        number = int(names[-1][len(PREFIX) : -len(SUFFIX)]) + 1 if names else 1
        self._descriptor = self._disk.create(self._folder / f"{PREFIX}{number:010d}{SUFFIX}")
        self._written_bytes = 0

    def _abandon_file(self) -> None:
        # A torn line may stand at its end; the next attempt begins a file of its own.
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._disk.close(self._descriptor)
            self._descriptor = -1


def _encode(line: dict[str, Any]) -> bytes:
    dated = _dated(line)
    try:
        return orjson.dumps(dated)
    except TypeError:
        # A key that is not UTF-8 came with surrogates, which JSON cannot hold.
        return orjson.dumps({name: _shown(value) for name, value in dated.items()})


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _dated(line: dict[str, Any]) -> dict[str, Any]:
    at_ms = line["at_ms"]
    rest = {name: value for name, value in line.items() if name != "at_ms"}
    return {"time": f"{_second(at_ms // 1000)}.{at_ms % 1000:03d}+00:00", **rest}


@functools.lru_cache(1)
def _second(seconds: int) -> str:
    # Lines come by the thousand within a second, and formatting it costs more than the rest of one.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
