"""wiring: the commands `recover` and `fsck`, on a data folder that no server holds.

What they find is printed to standard output, a line each, and progress to standard error. The
checks themselves are `storage.repair`, `storage.fsck` and `catalog.history`.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

from catalog import history
from program import identities
from server import config
from storage import disk, fsck, opening, repair
from storage import errors as storage_errors

RECOVERY_LINES_MAX = 5
FINDINGS_SHOWN_MAX = 1_000
PROGRESS_SECONDS = 5
"""How often `fsck` says on standard error how far it is."""


def recover(folder: Path, *, is_confirmed: bool, holder: str) -> str | None:
    """Print what a repair of folder would do, and broken logs; if confirmed, repair it.

    holder: what to add to the message that another process holds the folder. Returns None, or why
    the folder could not be examined.
    """
    try:
        plan = repair.plan(folder, disk=disk.Disk())
        with repair.examining(folder, disk=disk.Disk()) as view:
            logs = history.check(view)
        lines = [*_repair_lines(folder, plan), *_log_lines(logs)]
        if is_confirmed and plan.changes_anything:
            opening.open_storage(
                folder,
                disk=disk.Disk(),
                now_ms=identities.now_ms,
                new_id=identities.Ids(),
                repair=True,
            ).close()
    except (storage_errors.StorageError, OSError) as error:
        return _refusal(error, folder, holder)
    if not plan.changes_anything:
        lines.append("nothing to repair")
    elif is_confirmed:
        lines.append("done")
    else:
        lines.append("nothing was changed; `mini.py recover --yes` repairs the folder")
    sys.stdout.write(f"Boathouse {config.VERSION}  recover {folder}\n")
    sys.stdout.write("".join(f"  {line}\n" for line in lines))
    return None


def check(folder: Path, *, repairs: bool, holder: str) -> bool | str:
    """Check folder, repair it if told to, and print each damage.

    Returns whether the folder is sound now, or why it could not be checked.
    """
    findings = _Findings()
    sys.stdout.write(f"Boathouse {config.VERSION}  fsck {folder}\n")
    try:
        result = fsck.check(
            folder, disk=disk.Disk(), mend=repairs, report=findings.report, tell=findings.tell
        )
        with repair.examining(folder, disk=disk.Disk()) as view:
            logs = history.check(view)
    except (storage_errors.StorageError, OSError) as error:
        return _refusal(error, folder, holder)
    lines = _fsck_lines(result, findings.count, logs)
    sys.stdout.write("".join(f"  {line}\n" for line in lines))
    return result.is_sound and not logs.breaks


class _Findings:
    """Prints damages up to a bound, counts all, and prints progress from time to time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said_at = monotonic()
        self.count = 0

    def report(self, finding: fsck.Finding) -> None:
        """Print a damage; `fsck.check` calls it for each."""
        self.count += 1
        if self.count <= FINDINGS_SHOWN_MAX:
            sys.stdout.write(f"  {finding.damage}  {finding.where}: {finding.detail}\n")

    def tell(self, progress: fsck.Progress) -> None:
        """Print how far the check is, at most every PROGRESS_SECONDS."""
        if self._monotonic() - self._said_at < PROGRESS_SECONDS:
            return
        self._said_at = self._monotonic()
        share = 100 * progress.bodies // max(1, progress.bodies_all)
        text = f"{progress.bodies} of {progress.bodies_all} bodies, {share} %"
        if progress.phase == "names":
            text = "names and counts"
        sys.stderr.write(f"fsck: {text}, {progress.read_bytes >> 20} MiB read\n")


def _refusal(error: storage_errors.StorageError | OSError, folder: Path, holder: str) -> str:
    """Return why a folder could not be examined."""
    if isinstance(error, storage_errors.FolderInUse):
        return f"{error}{holder}; stop it first."
    if isinstance(error, storage_errors.StorageError):
        return str(error)
    return f"{error.filename or folder}: {error.strerror or error}"


def _fsck_lines(result: fsck.CheckResult, shown: int, logs: history.Check) -> list[str]:
    """Describe the result of a check of a data folder."""
    lines = []
    if shown > FINDINGS_SHOWN_MAX:
        lines.append(f"and {shown - FINDINGS_SHOWN_MAX} more")
    lines.append(
        f"checked  {result.bodies} bodies, {result.files} blob files, {result.read_bytes} bytes"
    )
    lines += _log_lines(logs)
    for damage, count in result.findings.items():
        repaired = result.repaired[damage]
        if repaired:
            end = "repaired"
        elif damage in result.repairable:
            end = "`mini.py fsck --repair` repairs it"
        else:
            end = "cannot be repaired: put the data back from a backup, or write it anew"
        lines.append(f"{damage}  {count}, {end}")
    if result.why_not_repaired is not None:
        lines.append(f"not repaired: {result.why_not_repaired}")
    if result.is_sound and not logs.breaks:
        lines.append("sound")
    return lines


def _repair_lines(folder: Path, plan: repair.Plan) -> list[str]:
    """Describe a repair of a folder, one line per action."""
    lines = [f"blobs    {plan.files_count} files, {plan.files_bytes} bytes"]
    if plan.writes_format:
        lines.append(f"format   write {folder / 'format.json'} from the index")
    if plan.makes_blobs:
        lines.append(f"folders  create {folder / 'blobs'}, empty: every body in it is lost")
    if plan.unnamed_count:
        share = 100 * plan.unnamed_count / plan.files_count
        lines.append(
            f"unnamed  remove {plan.unnamed_count} files, {plan.unnamed_bytes} bytes, "
            f"{share:.1f} % of all: {plan.settled_count} were named by the index before, "
            f"{plan.arriving_count} were being received"
        )
    if plan.missing:
        lines.append(
            f"missing  {len(plan.missing)} objects have lost their bodies; they stay listed:"
        )
    lines += [
        f"         {each.bucket}/{each.key} (blob {each.blob})"
        for each in plan.missing[:RECOVERY_LINES_MAX]
    ]
    return lines


def _log_lines(logs: history.Check) -> list[str]:
    """Describe the commit logs of table buckets, and each break, which no repair mends."""
    if not logs.table_buckets:
        return []
    lines = [f"logs     {logs.commits} commits in {logs.table_buckets} table buckets"]
    if logs.breaks:
        lines.append(
            f"broken   {len(logs.breaks)} logs; no repair mends a log: put index/ back from a "
            "backup"
        )
    lines += [
        f"         {table_bucket}: {broken}"
        for table_bucket, broken in itertools.islice(logs.breaks.items(), RECOVERY_LINES_MAX)
    ]
    return lines
