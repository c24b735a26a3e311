"""What tables leave behind returns to the disk: ingest, overwrite, expire, drop, sweep."""

from __future__ import annotations

import base64
import json
import random
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from pipeline import __main__ as command
from pipeline import interrupts
from tests.kit import folders
from tests.kit import s3 as s3_kit
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
ONE = pa.table({"id": pa.array([1], pa.int64())})
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
    drawn = pa.py_buffer(random.Random(seed).randbytes(8 * ROWS))
    return pa.table({"id": pa.Array.from_buffers(pa.int64(), ROWS, [None, drawn])})


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


def test_the_pipelines_orphans_are_hidden_and_freed_by_the_server_for_one_table_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mini.toml"
    config.write_text(SETTINGS)
    flags = ("--config", str(config), "--sweep-interval-seconds", "0")
    server = server_kit.start(tmp_path / "data", *flags, "--lifecycle-day-seconds", "1")
    catalog = catalog_of(server)
    s3 = s3_kit.client(server)
    catalog.create_namespace("ns")
    for name in ("t", "u"):
        catalog.create_table(f"ns.{name}", schema=ONE.schema).append(ONE)
        s3.put_object(Bucket="lake", Key=f"ns/{name}/data/orphan.parquet", Body=b"x" * 1_500)

    def orphans(*options: str, table: str = "lake.ns.t") -> tuple[int, dict[str, Any], str]:
        capsys.readouterr()
        code = command.main(
            ["orphans", "--table", table, "--json", "--data", str(server.data), *options],
            interrupts.Interrupts(),
        )
        said = capsys.readouterr()
        return code, json.loads(said.out or "{}"), said.err

    def until(tally: str, *options: str) -> str:
        """Ask until a file is counted there: a day has a second."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            code, done, said = orphans(*options)
            assert code == 0, said
            if done[tally]["files"]:
                assert done[tally] == {"files": 1, "size_bytes": 1_500}
                assert [file["key"] for file in done["files"]] == ["ns/t/data/orphan.parquet"]
                return said
            assert time.monotonic() < deadline

    def keys() -> list[str]:
        listed = s3.list_objects_v2(Bucket="lake", Prefix="ns/")["Contents"]
        return [each["Key"] for each in listed if "orphan" in each["Key"]]

    both = ["ns/t/data/orphan.parquet", "ns/u/data/orphan.parquet"]
    said = until("hidden", "--dry-run")
    assert "would hide  ns/t/data/orphan.parquet  1.5 kB, " in said
    assert "would free 0 files of 0 bytes, would hide 1 file of 1.5 kB; 0 files of 0 bytes" in said
    assert "hidden 1 days after they were written, and freed 1 days later" in said
    assert keys() == both
    assert "hid 1 file of 1.5 kB" in until("hidden")
    assert keys() == both[1:]
    assert "freed 1 file of 1.5 kB" in until("freed")
    assert keys() == both[1:]
    assert catalog.load_table("ns.t").scan().to_arrow() == ONE
    code, _, said = orphans(table="lake.ns.nowhere")
    assert (code, said) == (
        1, "pipeline: orphans failed: Table does not exist: ns.nowhere\n"
    )  # fmt: skip
    assert server.stop() == 0
