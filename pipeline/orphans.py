"""engine: a table's orphan files, those that nothing retained references, as the server's sweep
finds and frees them.

The sweep is the only program that removes files of tables: it first hides a file whose days are
over, and frees it later, in transactions that no commit can overtake. A job asks for a sweep of one
table, and waits for its report.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from pipeline import errors, native, progress, settings

POLL_SECONDS: Final = 0.2
WAIT_SECONDS_MAX: Final = 3600.0
DAY_MS: Final = 24 * 60 * 60 * 1000
ACTIONS: Final = {
    True: {"free": "would free", "hide": "would hide", "wait": "waits"},
    False: {"free": "freed", "hide": "hid", "wait": "waits"},
}
"""Words for what the sweep does to a file, by whether it is a dry run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphanCount:
    """Files and their bytes."""

    files: int
    size_bytes: int

    def __str__(self) -> str:
        return f"{progress.counted(self.files, 'file')} of {progress.sized(self.size_bytes)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphanFile:
    """One file. action: `free`, `hide` or `wait`. age_days: since it was written. hidden_days:
    since it was hidden, None if it was not before this sweep."""

    action: str
    key: str
    size_bytes: int
    age_days: float
    hidden_days: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphans:
    """What a sweep of one table did, or would do. waiting: unreferenced files, hidden ones too,
    whose days are not over. files: the first thousand, those that wait last. problems: files of the
    table bucket that cannot be read; the table that names one keeps all its files."""

    dry_run: bool
    freed: OrphanCount
    hidden: OrphanCount
    waiting: OrphanCount
    files: Sequence[OrphanFile]
    problems: Sequence[str]
    unreferenced_days: int
    noncurrent_days: int
    removes_unreferenced: bool

    @property
    def sentence(self) -> str:
        words = ACTIONS[self.dry_run]
        return (
            f"{words['free']} {self.freed}, {words['hide']} {self.hidden}; "
            f"{self.waiting} {'waits' if self.waiting.files == 1 else 'wait'},"
        )

    def lines(self, count: int) -> list[str]:
        """Return the rule of the table bucket, and a line for each of the first `count` files."""
        rule = (
            f"files that nothing references are hidden {self.unreferenced_days} days after they "
            f"were written, and freed {self.noncurrent_days} days later"
        )
        if not self.removes_unreferenced:
            rule = "the table bucket keeps files that nothing references"
        words = ACTIONS[self.dry_run]
        lines = [rule, *(f"cannot be read, and keeps files: {each}" for each in self.problems)]
        for file in self.files[:count]:
            hidden = "" if file.hidden_days is None else f", hidden for {file.hidden_days:.1f}"
            lines.append(
                f"  {words[file.action]}  {file.key}  {progress.sized(file.size_bytes)}, "
                f"{file.age_days:.1f} days old{hidden}"
            )
        if len(self.files) > count:
            lines.append(f"  and more; --json lists the first {len(self.files):,}")
        return lines


def run(
    server: settings.ServerEndpoint,
    table: settings.TargetTable,
    *,
    dry_run: bool,
    say: progress.Say,
    now_ms: int,
) -> Orphans:
    """Let the server sweep one table; return what it did. dry_run: what it would do.

    now_ms: Unix milliseconds, for ages. Raises PipelineError if the server refuses or its sweep
    fails, NoServer.
    """
    warehouse = f"warehouses/{quote(table.warehouse, safe='')}"
    query = urlencode({"table": table.dotted, "dry_run": str(dry_run).lower()})
    days = native.ask(server, "GET", warehouse)["settings"]
    report = native.ask(server, "POST", f"{warehouse}/sweep?{query}")
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    latest = ""
    while report["state"] in ("waiting", "running"):
        phase = {"mark": "reading what tables reference", "walk": f"looking at {table.full}"}.get(
            report["phase"], "waiting for another sweep"
        )
        if phase != latest:
            say(phase)
            latest = phase
        if time.monotonic() > deadline:
            raise errors.PipelineError(
                f"the server's sweep did not end within {WAIT_SECONDS_MAX / 60:.0f} minutes; it "
                "goes on, and the same command waits for it again"
            )
        time.sleep(POLL_SECONDS)
        report = native.ask(server, "GET", f"{warehouse}/sweep?{query}")
    if report["state"] != "done":
        why = report["error"] or "the server was started again"
        raise errors.PipelineError(f"the sweep of {table.full} did not end: {why}")
    return Orphans(
        dry_run=dry_run,
        freed=OrphanCount(**report["freed"]),
        hidden=OrphanCount(**report["hidden"]),
        waiting=OrphanCount(**report["waiting"]),
        files=tuple(_file(each, now_ms) for each in report["files"]),
        problems=tuple(report["problems"]),
        unreferenced_days=days["unreferenced_days"],
        noncurrent_days=days["noncurrent_days"],
        removes_unreferenced=report["removes_unreferenced"],
    )


def _file(listed: Mapping[str, Any], now_ms: int) -> OrphanFile:
    hidden_at_ms = listed["hidden_at_ms"]
    return OrphanFile(
        action=listed["action"],
        key=listed["key"],
        size_bytes=listed["size_bytes"],
        age_days=round((now_ms - listed["modified_at_ms"]) / DAY_MS, 3),
        hidden_days=None if hidden_at_ms is None else round((now_ms - hidden_at_ms) / DAY_MS, 3),
    )
