"""engine: runs of pipelines, and the table of the lake that keeps them: `system.pipeline_runs`.

A run is one load. Its row is written when it ends, into the warehouse of its target, and any client
may read the table. A run that is killed leaves no row, and changes nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline import catalogs, errors, files, ingest, jobs, progress, session, settings

NAMESPACE, TABLE = "system", "pipeline_runs"
RETRY_SECONDS = 2.0
"""The wait before the second attempt; it doubles with each further one."""
RETRIED = (
    errors.NoServer, errors.OutcomeUnknown, errors.Overtaken, errors.SourceChanged,
    errors.SparkFailed,
)  # fmt: skip
"""Failures that another attempt may not meet; a load is exactly once, however often it runs."""
APPENDS_MAX = 5
"""How often a run's row is written again because another run's came first."""
HISTORY_AGES = tuple(datetime.timedelta(days=days) for days in (1, 7, 30))
"""The times that a history reads, one after the other until it has enough runs, then all."""
_PROPERTIES = {"commit.manifest-merge.enabled": "true"}
"""Each run is a commit; without this each would add a manifest that every reader opens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineRun:
    """One run of a pipeline as the table keeps it; times are in UTC.

    status: succeeded, nothing (there was nothing to load) or failed. detail: of checks, as JSON.
    """

    run_id: str
    pipeline: str
    target: str
    status: str
    started_at: datetime.datetime
    seconds: float
    attempts: int
    sources: int
    rows: int
    files: int
    snapshot_id: int | None
    engine: str
    error: str | None
    detail: str


def run(
    server: settings.ServerEndpoint,
    pipeline: files.Pipeline,
    *,
    open_spark: session.Open,
    say: progress.Say,
    wait: Callable[[float], None] = time.sleep,
    run_id: str | None = None,
) -> tuple[PipelineRun, jobs.Loaded]:
    """Run a pipeline and keep the run. Raises PipelineError, as `ingest.run`, after keeping it.

    run_id: that of the server's list of runs; None for a new one.
    """
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    attempts = 0

    def keep(status: str, loaded: jobs.Loaded | None, error: str | None) -> PipelineRun:
        kept = PipelineRun(
            run_id=run_id or uuid.uuid4().hex,
            pipeline=pipeline.name,
            target=pipeline.load.table.full,
            status=status,
            started_at=started,
            seconds=round(time.monotonic() - clock, 3),
            attempts=attempts,
            sources=loaded.sources if loaded else 0,
            rows=loaded.rows if loaded else 0,
            files=loaded.files if loaded else 0,
            snapshot_id=loaded.snapshot_id if loaded else None,
            engine=loaded.engine if loaded else "none",
            error=error,
            detail=_detail(loaded),
        )
        try:
            _append(server, pipeline.load.table.warehouse, kept)
        except errors.PipelineError as failure:
            say(f"the run could not be kept in {NAMESPACE}.{TABLE}: {failure}")
            return kept
        if pipeline.keep_runs_days is not None:
            before = started - datetime.timedelta(days=pipeline.keep_runs_days)
            try:
                _expire(
                    server, pipeline.load.table.warehouse, pipeline=pipeline.name, before=before
                )
            except errors.PipelineError as failure:
                say(f"older runs could not be deleted from {NAMESPACE}.{TABLE}: {failure}")
        return kept

    while True:
        attempts += 1
        try:
            loaded = ingest.run(server, pipeline.load, open_spark=open_spark, say=say)
        except errors.PipelineError as error:
            if attempts <= pipeline.retries and isinstance(error, RETRIED):
                pause = RETRY_SECONDS * 2 ** (attempts - 1)
                say(f"attempt {attempts} failed: {error}; the next one follows in {pause:.0f} s")
                wait(pause)
                continue
            keep("failed", None, str(error))
            raise
        return keep("nothing" if loaded.snapshot_id is None else "succeeded", loaded, None), loaded


def history(
    server: settings.ServerEndpoint, warehouse: str, *, pipeline: str | None, limit: int
) -> list[Mapping[str, Any]]:
    """Return the latest runs, the newest first. Raises PipelineError."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg import expressions

    equal, since = _untyped(expressions.EqualTo), _untyped(expressions.GreaterThanOrEqual)
    condition: Any = equal("pipeline", pipeline) if pipeline else expressions.AlwaysTrue()
    now = datetime.datetime.now(datetime.UTC)
    conditions = [
        expressions.And(condition, since("started_at", (now - age).isoformat()))
        for age in HISTORY_AGES
    ]
    rows: list[Mapping[str, Any]] = []
    for each in (*conditions, condition):
        rows = _rows(server, warehouse, each)
        if len(rows) >= limit:
            break
    return sorted(rows, key=lambda row: row["started_at"], reverse=True)[:limit]


def find(server: settings.ServerEndpoint, warehouse: str, run_id: str) -> Mapping[str, Any]:
    """Return one run. Raises PipelineError."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg import expressions

    rows = _rows(server, warehouse, _untyped(expressions.EqualTo)("run_id", run_id))
    if not rows:
        raise errors.BadArgument(f"there is no run {run_id} in {warehouse}.{NAMESPACE}.{TABLE}")
    return rows[0]


def _detail(loaded: jobs.Loaded | None) -> str:
    if loaded is None:
        return "{}"
    detail: dict[str, Any] = {"skipped": loaded.skipped, "columns_added": loaded.columns_added}
    if loaded.merged is not None:
        counts = loaded.merged
        detail |= {
            "inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted
        }  # fmt: skip
    if loaded.rejected:
        detail["rejected"] = loaded.rejected
    detail["checks"] = [
        {"name": each.name, "severity": each.severity, "rows": each.count, "first": each.rows}
        for each in loaded.checks
    ]
    return json.dumps(detail, ensure_ascii=False)


def _schema() -> Any:
    # Imported here: jobs of Spark need none of it.
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    fields: list[tuple[str, Any]] = [
        ("run_id", text),
        ("pipeline", text),
        ("target", text),
        ("status", text),
        ("started_at", pa.timestamp("us", tz="UTC")),
        ("seconds", pa.float64()),
        ("attempts", number),
        ("sources", number),
        ("rows", number),
        ("files", number),
        ("snapshot_id", number),
        ("engine", text),
        ("error", text),
        ("detail", text),
    ]
    return pa.schema(fields)


def _append(server: settings.ServerEndpoint, warehouse: str, kept: PipelineRun) -> None:
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

    with _failures():
        catalog = catalogs.opened(server, warehouse)
        catalog.create_namespace_if_not_exists(NAMESPACE)
        row = {name: getattr(kept, name) for name in _schema().names}
        rows = pa.Table.from_pylist([row], schema=_schema())
        for number in range(APPENDS_MAX):
            try:
                with contextlib.suppress(TableAlreadyExistsError):
                    if not catalog.table_exists((NAMESPACE, TABLE)):
                        catalog.create_table(
                            (NAMESPACE, TABLE), schema=_schema(), properties=_PROPERTIES
                        )
                catalog.load_table((NAMESPACE, TABLE)).append(rows)
                return
            except CommitFailedException:
                if number + 1 == APPENDS_MAX:
                    raise


def _expire(
    server: settings.ServerEndpoint, warehouse: str, *, pipeline: str, before: datetime.datetime
) -> None:
    """Delete a pipeline's runs that started earlier; without one, nothing is committed.

    A commit that another run's overtakes is left out: the next run of the pipeline does it.
    """
    # Imported here: jobs of Spark need none of them.
    from pyiceberg import expressions
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    equal, earlier = _untyped(expressions.EqualTo), _untyped(expressions.LessThan)
    expired = expressions.And(
        equal("pipeline", pipeline), earlier("started_at", before.isoformat())
    )
    with _failures():
        table = catalogs.opened(server, warehouse).load_table((NAMESPACE, TABLE))
        if table.scan(row_filter=expired, selected_fields=("run_id",), limit=1).to_arrow().num_rows:
            with contextlib.suppress(CommitFailedException, ValidationException):
                table.delete(expired)


def _untyped(expression: Any) -> Any:
    """Return a class of PyIceberg's expressions; what it takes beside its fields has no types."""
    return expression


def _rows(
    server: settings.ServerEndpoint, warehouse: str, condition: Any
) -> list[Mapping[str, Any]]:
    """Return the runs for which a condition holds; none if there is no table of runs."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import NoSuchTableError

    with _failures():
        try:
            table = catalogs.opened(server, warehouse).load_table((NAMESPACE, TABLE))
        except NoSuchTableError:
            return []
        rows: list[Mapping[str, Any]] = table.scan(row_filter=condition).to_arrow().to_pylist()
        return rows


@contextlib.contextmanager
def _failures() -> Any:
    """Turn what PyIceberg raises in the block into the pipeline's own errors."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow
    import requests
    from pyiceberg.exceptions import (
        CommitFailedException,
        NoSuchNamespaceError,
        NoSuchTableError,
        RESTError,
    )

    try:
        yield
    except requests.RequestException as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error
    except (RESTError, CommitFailedException, OSError, pyarrow.ArrowException) as error:
        raise errors.PipelineError(f"the server refused: {error}") from error
    except (NoSuchNamespaceError, NoSuchTableError, ValueError) as error:
        # A table of this name that has other columns, or that was dropped meanwhile.
        reason = " ".join(str(error).split())
        raise errors.PipelineError(f"{NAMESPACE}.{TABLE} cannot be used: {reason}") from error
