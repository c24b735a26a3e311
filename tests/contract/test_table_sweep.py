"""What tables leave behind returns to the disk: ingest, overwrite, expire, drop, sweep."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from tests.kit import folders
from tests.kit import server as server_kit

ROWS = 200_000
SETTINGS = """
[table_buckets.lake]
unreferenced_days = 1
noncurrent_days = 1
history_days = 1
dropped_table_days = 1
"""
LIMIT_SECONDS = 120
INDEXED_BYTES_MAX = 64 * 1024
"""Smaller bodies lie in the index."""


def call(server: server_kit.Running, method: str, query: str = "") -> dict[str, Any]:
    url = f"{server.url}/_api/v1/warehouses/lake/sweep{query}"
    secret = base64.b64encode(f"{server.access_key}:{server.secret_key}".encode()).decode()
    asking = urllib.request.Request(
        url, method=method, headers={"Authorization": f"Basic {secret}"}
    )
    with urllib.request.urlopen(asking) as answer:
        report: dict[str, Any] = json.loads(answer.read())
        return report


def sweep(server: server_kit.Running, query: str = "") -> dict[str, Any]:
    call(server, "POST", query)
    deadline = time.monotonic() + LIMIT_SECONDS
    while (report := call(server, "GET", query))["state"] != "done":
        assert report["state"] in ("waiting", "running"), report["error"]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return report


def blob_bytes(data: Path) -> int:
    return sum(path.stat().st_size for path in folders.files_of(data / "blobs"))


def catalog_of(server: server_kit.Running) -> Catalog:
    return load_catalog(
        "lake",
        type="rest",
        uri=server.iceberg,
        warehouse="lake",
        credential=f"{server.access_key}:{server.secret_key}",
    )


def numbers(seed: int) -> pa.Table:
    """Rows that no encoding makes small."""
    chosen = numpy.random.default_rng(seed).integers(0, 1 << 62, ROWS)
    return pa.table({"id": pa.array(chosen, pa.int64())})


def test_after_ingest_overwrite_expiry_drop_and_sweep_the_folder_holds_what_the_tables_need(
    tmp_path: Path,
) -> None:
    config = tmp_path / "mini.toml"
    config.write_text(SETTINGS)
    flags = ("--config", str(config), "--sweep-interval-seconds", "0")
    short_days = (*flags, "--lifecycle-day-seconds", "1")
    server = server_kit.start(tmp_path / "data", *flags)
    try:
        lake = catalog_of(server)
        lake.create_namespace("ns")
        for name in ("kept", "dropped", "purged"):
            table = lake.create_table(f"ns.{name}", schema=numbers(0).schema)
            for seed in range(3):
                table.append(numbers(seed))
        table = lake.load_table("ns.kept")
        final = numbers(9)
        table.overwrite(final)
        old = [each.snapshot_id for each in table.snapshots()]
        old.remove(table.current_snapshot().snapshot_id)
        table.maintenance.expire_snapshots().by_ids(old).commit()
        lake.purge_table("ns.purged")
        full = blob_bytes(server.data)

        dry = sweep(server, "?dry_run=true")
        purged = [row for row in dry["files"] if row["action"] == "free"]
        assert all(row["key"].startswith("ns/purged/") for row in purged)
        assert sum(row["size_bytes"] for row in purged) == dry["freed"]["size_bytes"]
        assert blob_bytes(server.data) == full

        wanted = {
            task.file.file_path: task.file.file_size_in_bytes
            for task in lake.load_table("ns.kept").scan().plan_files()
        }
        needed = sum(wanted.values())
        assert server.stop() == 0
        server = server_kit.start(tmp_path / "data", *short_days)
        # A drop fixes for how long the table is kept, so it comes when days are short.
        catalog_of(server).drop_table("ns.dropped")
        freed = 0
        deadline = time.monotonic() + LIMIT_SECONDS
        while freed < full - needed:
            assert time.monotonic() < deadline, f"{freed} bytes freed of {full - needed}"
            freed += sum(
                row["size_bytes"]
                for row in sweep(server)["files"]
                if row["action"] == "free" and row["size_bytes"] > INDEXED_BYTES_MAX
            )
            time.sleep(0.2)
        assert server.stop() == 0
        server = server_kit.start(tmp_path / "data", *short_days)  # a start frees what was released
        lake = catalog_of(server)
        assert lake.load_table("ns.kept").scan().to_arrow().sort_by("id") == final.sort_by("id")
        assert lake.list_tables("ns") == [("ns", "kept")]
        assert blob_bytes(server.data) == needed
        print(f"blobs: {full:,} bytes before the sweep, {needed:,} after; freed {freed:,}")
    finally:
        server.stop()
