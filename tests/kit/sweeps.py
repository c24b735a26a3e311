"""A sweep over a lake, and what lies in its buckets."""

from __future__ import annotations

import asyncio

from catalog import files, guard
from catalog.sweep import retention, sweeping
from tests.kit import lakes

DAY_MS = retention.DAY_MS


def sweep_of(lake: lakes.Lake) -> sweeping.TableSweep:
    """The sweep that mini.py wires."""
    rules = guard.TableGuard(store=lake.store, region="us-east-1", account_id=lakes.ACCOUNT)
    return sweeping.TableSweep(
        store=lake.store,
        files=files.Files(objects=lake.storage.objects, blobs=lake.storage.blobs, guard=rules),
    )


def run(
    lake: lakes.Lake,
    *,
    dry_run: bool = False,
    sweep: sweeping.TableSweep | None = None,
    bucket: str = "lake",
) -> sweeping.Report:
    """Sweep a bucket once; return the report of a run that succeeded."""
    sweep = sweep or sweep_of(lake)
    (report,) = asyncio.run(sweep.sweep([bucket], dry_run=dry_run))
    assert report.state == "done", report.error
    return report


def keys_in(lake: lakes.Lake, prefix: str = "", bucket: str = "lake") -> set[str]:
    """Every object of a bucket, hidden ones too."""
    keys: set[str] = set()
    after: str | None = ""
    while after is not None:
        page = lake.storage.objects.list(
            bucket, prefix=prefix, start_after=after, include_tombstoned=True
        )
        keys |= {info.key for info in page.objects}
        after = page.next_after
    return keys


def pass_days(lake: lakes.Lake, days: float) -> None:
    """Let time pass."""
    lake.clock.now_ms += int(days * DAY_MS)
