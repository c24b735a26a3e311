"""A sweep over a lake, and what lies in its buckets."""

from __future__ import annotations

import asyncio

from catalog import files, guard, idents
from catalog.commits import LoadedTable
from catalog.sweep import retention, sweeping
from tests.kit import datafiles, lakes

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


async def commit_snapshot_of(bench: datafiles.Bench, loaded: LoadedTable) -> idents.TableIdent:
    """Let the table ns.t of the bucket `other` name a table's files; make both if need be."""
    lake = bench.lake
    snapshot = loaded.metadata.current_snapshot()
    assert snapshot is not None
    ident = await create_other(lake)
    await lake.tables.commit(
        ident,
        [],
        [
            {"action": "add-snapshot", "snapshot": {**snapshot, "sequence-number": 1}},
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": snapshot["snapshot-id"],
            },
        ],
        by=lakes.BY,
    )
    return ident


async def create_other(lake: lakes.Lake) -> idents.TableIdent:
    """Make the table ns.t of the bucket `other`, unless it is there."""
    ident = idents.TableIdent(table_bucket="other", namespace=("ns",), name="t")
    if "other" not in {each.name for each in lake.storage.buckets.list()}:
        await lake.storage.buckets.create(
            "other", bucket_type="table", owner=lakes.ACCOUNT, region="us-east-1"
        )
        await lake.namespaces.create("other", ("ns",), {}, by=lakes.BY)
        await lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY)
    return ident
