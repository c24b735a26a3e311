"""Rows of the bench for what grows: tables in a table bucket, and bytes on disk per commit.

The stand-in of a row with many tables is the same work in a table bucket with few, so that its
ratio is the growth factor. A row of bytes has no ratio: its line is what the data folder grew by.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3

from tests.bench import machines
from tests.bench.cases import SCHEMA, Bench, Case, Pair, Rest
from tests.kit import server as server_kit

FEW, MANY = 100, 100_000
NAMESPACE = "grown"
FILLED_AT_ONCE = 5_000
WORKED_ON = 500
"""Tables that one round creates, or commits to."""
SNAPSHOTS = 1_000
COMMITS = 500
BYTES_NAME = "bytes per commit, 1,000 snapshots"
BYTES_GOAL = 100_000


def cases() -> tuple[Case, ...]:
    """Creating, loading and committing in a table bucket with 100,000 tables."""
    return tuple(
        Case(
            name=f"{name}, {MANY:,} tables",
            stand_in=f"{FEW:,} tables",
            target=">= .9",
            run=lambda bench, work=work: _grown(bench, work),
        )
        for name, work in (("create table", _create), ("loadTable", _load), ("commit", _commit))
    )


def _grown(bench: Bench, work: Callable[[Bench, Rest], machines.Figure]) -> Pair:
    few, many = (work(bench, _filled(bench.running, count)) for count in (FEW, MANY))
    return many, few


def _filled(running: server_kit.Running, count: int) -> Rest:
    """Return a client of a table bucket with this many tables; it is filled once."""
    name = f"tables-{count}"
    s3tables = boto3.client(
        "s3tables",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )
    present = s3tables.list_table_buckets(prefix=name)["tableBuckets"]
    rest = Rest(running)
    rest.prefix = f"/v1/{name}"
    if any(bucket["name"] == name for bucket in present):
        return rest
    s3tables.create_table_bucket(name=name)
    rest.namespace(NAMESPACE)
    for first in range(0, count, FILLED_AT_ONCE):
        numbers = range(first, min(first + FILLED_AT_ONCE, count))
        _drive(running, [_creation(rest, f"t{number:06d}") for number in numbers])
    return rest


def _creation(rest: Rest, name: str) -> bytes:
    path = f"{rest.prefix}/namespaces/{NAMESPACE}/tables"
    return rest.request(path, {"name": name, "schema": SCHEMA})


def _drive(running: server_kit.Running, requests: list[bytes]) -> machines.Figure:
    return machines.drive(
        running.url, running.pid, requests, connections=16, seconds=600, cycle=False
    )


def _create(bench: Bench, rest: Rest) -> machines.Figure:
    number = next(bench.uniques)
    requests = [_creation(rest, f"new{number}_{index}") for index in range(WORKED_ON)]
    return _drive(bench.running, requests)


def _load(bench: Bench, rest: Rest) -> machines.Figure:
    headers = {"Authorization": f"Bearer {rest.token}"}
    requests = [
        machines.raw_request("GET", f"{rest.base}{path}", headers) for path in _worked_on(rest)
    ]
    return machines.drive(
        bench.running.url, bench.running.pid, requests, connections=16, seconds=bench.seconds
    )


def _commit(bench: Bench, rest: Rest) -> machines.Figure:
    update = {"action": "set-properties", "updates": {"round": str(next(bench.uniques))}}
    body = {"requirements": [], "updates": [update]}
    return _drive(bench.running, [rest.request(path, body) for path in _worked_on(rest)])


def _worked_on(rest: Rest) -> list[str]:
    """Return paths of as many tables as the small bucket has, which lie apart; each five times."""
    step = int(rest.prefix.rpartition("-")[2]) // FEW
    names = [f"t{index * step:06d}" for index in range(FEW)]
    paths = [f"{rest.prefix}/namespaces/{NAMESPACE}/tables/{name}" for name in names]
    return paths * (WORKED_ON // FEW)


def measure(root: Path, *, only: str) -> list[dict[str, Any]]:
    """Print what one commit adds to the data folder of a table of 1,000 snapshots."""
    if only not in BYTES_NAME:
        return []
    with tempfile.TemporaryDirectory(dir=root) as temporary:
        running = server_kit.start(Path(temporary) / "data")
        try:
            rest = Rest(running)
            rest.namespace("bench")
            table = rest.table("bench", "bytes")
            rest.add_snapshots(table, SNAPSHOTS)
            before = _allocated(running.data)
            for step in range(SNAPSHOTS, SNAPSHOTS + COMMITS):
                rest.post(table, rest.commit_body(table, step))
            per_commit = (_allocated(running.data) - before) / COMMITS
        finally:
            running.stop()
    print(f"{BYTES_NAME:34} {per_commit / 1000:8.1f} KB  target <= {BYTES_GOAL / 1000:.0f} KB")
    return [{"case": BYTES_NAME, "bytes": per_commit, "target": f"<= {BYTES_GOAL}"}]


def _allocated(folder: Path) -> int:
    """Return the bytes of the blocks that the files of a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
