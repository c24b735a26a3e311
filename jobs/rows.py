"""rule: the rows of jobs in the index: runs, pipelines, and the maintenance of tables.

docs/ON_DISK.md describes each. Rows of the whole server are below bucket id 0, which no bucket has;
those of a table are below its bucket's id, and are removed with the bucket. A value is one byte for
its format and a MessagePack array, as in the catalog's stores.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, Literal, TypeAlias

import msgspec

from catalog import records
from storage import batch

RUNS_MAX: Final = 1_000
"""Runs that are kept; the oldest that have ended go first."""

State: TypeAlias = Literal["running", "succeeded", "nothing", "failed", "cancelled", "interrupted"]
Task: TypeAlias = Literal[
    "pipeline", "compaction", "snapshots", "manifests", "statistics", "ingest", "replication"
]
"""What a run does. `ingest` is a load that a client began without a pipeline's file, and
`replication` a client's copy of a table into another catalog."""

_SERVER: Final = b"\x00\x00\x00\x00"
_MAINTENANCE: Final = b"m"
_TASKS: Final = {"compaction": b"c", "snapshots": b"s", "manifests": b"m", "statistics": b"t"}
_INTEGER: Final = struct.Struct(">I").pack
_LONG: Final = struct.Struct(">Q").pack


class RunRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A run of a job. by: the ARN of the principal whose rights it has. by_server: the server
    started it; else a client did, and the run counts as ended at lease_until_ms unless the client
    prolongs it. is_cancelled: the client is asked to end it. answer: JSON text, as the job printed
    it, "" without.
    """

    run_id: str
    task: Task
    name: str
    target: str
    by: str
    by_server: bool
    state: State
    started_at_ms: int
    ended_at_ms: int | None = None
    error: str | None = None
    answer: str = ""
    lease_until_ms: int | None = None
    is_cancelled: bool = False
    progress: str = ""


class PipelineRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is stored of a pipeline. rule: that of its file when handled_ms was set; what came due
    until handled_ms is not due any more. crashes: runs in a row that ended without an answer.
    retry_at_ms: when such a run is due again. asked_at_ms: when a run was asked for."""

    rule: str
    handled_ms: int
    succeeded_at_ms: int | None = None
    crashes: int = 0
    retry_at_ms: int | None = None
    asked_at_ms: int | None = None


class MaintenanceRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The latest maintenance of one table, of one task. failure: why it failed, "" if it did not.
    failures: how often in a row; retry_at_ms: not before."""

    started_at_ms: int
    ended_at_ms: int
    failure: str = ""
    failures: int = 0
    retry_at_ms: int = 0


def pipeline_key(name: str) -> bytes:
    """Return the key in JOBS of a pipeline."""
    return _SERVER + b"p" + name.encode()


def run_key(started_at_ms: int, run_id: str) -> bytes:
    """Return the key in JOBS of a run; keys of runs sort by their start."""
    return _SERVER + b"r" + _LONG(started_at_ms) + bytes.fromhex(run_id)


def runs_range() -> bytes:
    """Return the prefix of the keys of all runs."""
    return _SERVER + b"r"


def lock_key(task: Task, name: str, target: str) -> bytes:
    """Return the key in JOBS of the one run of a job that has not ended; its value is a run key.

    A pipeline's target counts: with the right to write to another table no client can keep it from
    running. A table keeps its maintenance under another name.
    """
    digest = hashlib.sha256(target.encode()).digest() if task == "pipeline" else b""
    return _SERVER + b"l" + task.encode() + b"\x00" + name.encode() + b"\x00" + digest


def maintenance_key(bucket_id: int, object_uuid: str, task: Task) -> bytes:
    """Return the key in JOBS of a table's maintenance."""
    return maintenance_range(bucket_id) + bytes.fromhex(object_uuid.replace("-", "")) + _TASKS[task]


def maintenance_range(bucket_id: int) -> bytes:
    """Return the prefix of the keys of a bucket's tables' maintenance."""
    return _INTEGER(bucket_id) + _MAINTENANCE


def uuid_of(key: bytes) -> str:
    """Return the object uuid, 32 hexadecimal digits, of a key of `maintenance_key`."""
    return key[len(_SERVER) + 1 : -1].hex()


def find_maintenance(
    reading: batch.Lookup, bucket_id: int, object_uuid: str, task: Task
) -> MaintenanceRow | None:
    """Return what is stored of a table's maintenance; None if it never ran."""
    value = reading.get(batch.Store.JOBS, maintenance_key(bucket_id, object_uuid, task))
    return None if value is None else records.decode(value, MaintenanceRow)


def find_pipeline(reading: batch.Lookup, name: str) -> PipelineRow | None:
    """Return what is stored of a pipeline; None before it was seen."""
    value = reading.get(batch.Store.JOBS, pipeline_key(name))
    return None if value is None else records.decode(value, PipelineRow)


def put_pipeline(name: str, row: PipelineRow) -> batch.Put:
    """Return the write of a pipeline's row."""
    key = pipeline_key(name)
    return batch.Put(store=batch.Store.JOBS, key=key, value=records.encode(row))
