"""engine: runs of pipelines, and the table of the lake that keeps them: `system.pipeline_runs`.

A run is one load. Its row is written when it ends, into the warehouse of its target, and any client
may read the table. A run that is killed leaves no row; the next run of its pipeline writes it, from
the server's list of runs, with nulls for what is not known of it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import (
    catalogs,
    errors,
    files,
    ingest,
    jobs,
    progress,
    retries,
    session,
    settings,
    steps,
)

NAMESPACE, TABLE = "system", "pipeline_runs"
RETRY_SECONDS = 2.0
"""The wait before the second attempt; it doubles with each further one."""
RETRIED = (
    errors.NoServer, errors.OutcomeUnknown, errors.Overtaken, errors.SourceChanged,
    errors.SparkFailed,
)  # fmt: skip
"""Failures that another attempt may not meet; a load is exactly once, however often it runs."""
WITH_RESULT = frozenset({"succeeded", "nothing"})
HAS_ROW = "has_row"
"""In the server's list, what a run did names by this that the table of runs has it."""
OUTPUT_LINES_MAX = 200
"""Lines that are kept of what a run says; the first ones go."""
OUTPUT_CHARACTERS_MAX = 500
"""Characters that are kept of each."""
APPENDS_MAX = 5
"""How often a run's row is written again because another run's came first."""
CLOCKS_AGREE = datetime.timedelta(days=1)
"""More than the clocks of a job and of the server differ: requests of a job that is hours off are
refused."""
HISTORY_AGES = tuple(datetime.timedelta(days=days) for days in (1, 7, 30))
"""The times that a history reads, one after the other until it has enough runs, then all."""
ADDED = frozenset({"bytes_read", "bytes_written", "steps", "log", "output"})
"""Columns that a table of an earlier release lacks."""
_PROPERTIES = {"commit.manifest-merge.enabled": "true"}
"""Each run is a commit; without this each would add a manifest that every reader opens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineRun:
    """One run of a pipeline as the table keeps it; times are in UTC.

    status: succeeded, nothing (there was nothing to load), failed, cancelled or interrupted.
    detail: of checks, as JSON; steps: what they are, as JSON. log: where the output of Spark or of
    the server's process is. output: what the run said, each line with its time of day. None stands
    for what is not known of a run that was killed.
    """

    run_id: str
    pipeline: str
    target: str
    status: str
    started_at: datetime.datetime
    seconds: float
    attempts: int | None = None
    sources: int | None = None
    rows: int | None = None
    files: int | None = None
    snapshot_id: int | None = None
    engine: str | None = None
    error: str | None = None
    detail: str = "{}"
    bytes_read: int | None = None
    bytes_written: int | None = None
    steps: str = "[]"
    log: str | None = None
    output: str | None = None

    @property
    def answer(self) -> Mapping[str, Any]:
        """The run as the server's list keeps it: without its output."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "output"}


class RunOutput:
    """What a run has said so far. Mutable: it gains each line."""

    def __init__(self, say: progress.Say) -> None:
        self._say = say
        self._lines: collections.deque[str] = collections.deque(maxlen=OUTPUT_LINES_MAX)
        self._count = 0

    def say(self, line: str) -> None:
        """Keep a line, and say it."""
        now = datetime.datetime.now(datetime.UTC)
        self._lines.append(f"{now:%H:%M:%S} {line[:OUTPUT_CHARACTERS_MAX]}")
        self._count += 1
        self._say(line)

    @property
    def text(self) -> str:
        """The lines that are kept."""
        left_out = self._count - len(self._lines)
        first = [f"... {progress.counted(left_out, 'line')} before ..."] if left_out else []
        return "\n".join([*first, *self._lines])


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedRun:
    """A run as the server's list has it. state: as the status of a run; times in milliseconds."""

    run_id: str
    state: str
    started_at_ms: int
    ended_at_ms: int | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a run asks of its process. log: where its output is. earlier: the runs before it that
    may have no row. interrupted_as: the status of a run that is interrupted. ended: called with
    what the run did once it has ended, however it did, and again once it has its row."""

    log: Callable[[], str | None] = lambda: None
    earlier: Callable[[], Sequence[EndedRun]] = tuple
    interrupted_as: Callable[[], str] = lambda: "cancelled"
    ended: Callable[[Mapping[str, Any]], None] = lambda answer: None


def run(
    server: settings.ServerEndpoint,
    pipeline: files.Pipeline,
    *,
    open_spark: session.Open,
    say: progress.Say,
    wait: Callable[[float], None] = time.sleep,
    run_id: str | None = None,
    around: Surroundings | None = None,
) -> tuple[PipelineRun, jobs.Loaded]:
    """Run a pipeline and keep the run. Raises PipelineError, as `ingest.run`, after keeping it.

    run_id: that of the server's list of runs; None for a new one.
    """
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    attempts = 0
    output = RunOutput(say)
    taken = steps.Steps(output.say)
    around = around or Surroundings()

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
            bytes_read=loaded.bytes_read if loaded else 0,
            bytes_written=loaded.bytes_written if loaded else 0,
            steps=_steps(taken.done),
            log=around.log(),
            output=output.text,
        )
        around.ended(kept.answer)
        try:
            _append(server, pipeline.load.table.warehouse, kept, _lost(pipeline, around.earlier()))
        except errors.PipelineError as failure:
            say(f"the run could not be kept in {NAMESPACE}.{TABLE}: {failure}")
            return kept
        around.ended({**kept.answer, HAS_ROW: True})
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
        taken = steps.Steps(output.say)
        try:
            with _systems_errors():
                loaded = ingest.run(
                    server, pipeline.load, open_spark=open_spark, say=output.say, taken=taken
                )
        except KeyboardInterrupt:
            # What a job says after an interruption raises it again.
            with contextlib.suppress(KeyboardInterrupt):
                keep(around.interrupted_as(), None, "the run was interrupted")
            raise
        except errors.PipelineError as error:
            if attempts <= pipeline.retries and isinstance(error, RETRIED):
                pause = RETRY_SECONDS * 2 ** (attempts - 1)
                output.say(
                    f"attempt {attempts} failed: {error}; the next one follows in {pause:.0f} s"
                )
                wait(pause)
                continue
            keep("failed", None, str(error))
            raise
        return keep("nothing" if loaded.snapshot_id is None else "succeeded", loaded, None), loaded


def without_result(listed: Iterable[Mapping[str, Any]], *, but: str) -> list[EndedRun]:
    """Return the runs that may have no row, of a pipeline's runs in the server's list.

    listed: the newest first. Runs that had ended when the newest one with a result began have their
    rows, which it wrote; one beside which it ran may have none. A run that failed says itself that
    it has one. but: the run that asks, which goes on.
    """
    runs = [run for run in listed if run["run_id"] != but]
    since_ms = next((run["started_at_ms"] for run in runs if run["state"] in WITH_RESULT), 0)
    fields = [field.name for field in dataclasses.fields(EndedRun)]
    return [
        EndedRun(**{name: run[name] for name in fields})
        for run in runs
        if run["state"] not in {"running", *WITH_RESULT}
        and not run["answer"].get(HAS_ROW)
        and (run["ended_at_ms"] is None or run["ended_at_ms"] >= since_ms)
    ]


def history(
    server: settings.ServerEndpoint, warehouse: str, *, pipeline: str | None, limit: int
) -> list[Mapping[str, Any]]:
    """Return the latest runs, the newest first, without what they said, which may be long.

    Raises PipelineError.
    """
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
        rows = _rows(server, warehouse, each, but=("output",))
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


def _steps(done: Sequence[jobs.StepDone]) -> str:
    """Return the steps of a run as JSON, each with what it counted alone."""
    described: list[dict[str, Any]] = []
    for step in done:
        counted = {"rows": step.rows, "bytes": step.size_bytes, "failed": step.has_failed or None}
        described.append(
            {"step": step.name, "seconds": step.seconds}
            | {name: value for name, value in counted.items() if value is not None}
        )
    return json.dumps(described, ensure_ascii=False)


def _lost(pipeline: files.Pipeline, earlier: Sequence[EndedRun]) -> list[PipelineRun]:
    """Return the rows of runs of which the server alone knows how they ended."""
    return [
        PipelineRun(
            run_id=run.run_id,
            pipeline=pipeline.name,
            target=pipeline.load.table.full,
            status=run.state,
            started_at=_moment(run.started_at_ms),
            seconds=((run.ended_at_ms or run.started_at_ms) - run.started_at_ms) / 1000,
            error=run.error,
        )
        for run in earlier
    ]


def _moment(at_ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)


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
        ("bytes_read", number),
        ("bytes_written", number),
        ("steps", text),
        ("log", text),
        ("output", text),
    ]
    return pa.schema(fields)


def _append(
    server: settings.ServerEndpoint,
    warehouse: str,
    kept: PipelineRun,
    lost: Sequence[PipelineRun] = (),
) -> None:
    """Add the row of a run, and those of lost ones that the table does not have.

    The run's own row replaces the one of another run that took it for lost. A table of an earlier
    release gains the columns that it lacks.
    """
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    from pyiceberg.exceptions import (
        CommitFailedException,
        TableAlreadyExistsError,
        ValidationException,
    )

    with _failures():
        catalog = catalogs.opened(server, warehouse)
        catalog.create_namespace_if_not_exists(NAMESPACE)
        schema = _schema()
        for number in range(APPENDS_MAX):
            try:
                with contextlib.suppress(TableAlreadyExistsError):
                    if not catalog.table_exists((NAMESPACE, TABLE)):
                        catalog.create_table(
                            (NAMESPACE, TABLE), schema=schema, properties=_PROPERTIES
                        )
                table = catalog.load_table((NAMESPACE, TABLE))
                retries.forget(table)
                lacking = set(schema.names) - set(table.schema().column_names)
                if lacking and lacking <= ADDED:  # else it is another table of this name
                    with table.update_schema() as update:
                        update.union_by_name(schema)
                    retries.forget(table)  # the commit has loaded the metadata again
                present = _ids(table, _of_runs([kept, *lost]))
                rows = [kept, *(run for run in lost if run.run_id not in present)]
                columns = [{name: getattr(run, name) for name in schema.names} for run in rows]
                added = pa.Table.from_pylist(columns, schema=schema)
                if kept.run_id in present:
                    table.overwrite(added, _of_runs([kept]))
                else:
                    table.append(added)
                return
            except (CommitFailedException, ValidationException):
                if number + 1 == APPENDS_MAX:
                    raise


def _of_runs(wanted: Sequence[PipelineRun]) -> Any:
    """Return the condition of the rows of runs. The times of rows are the job's or the server's."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg import expressions

    ids, since = _untyped(expressions.In), _untyped(expressions.GreaterThanOrEqual)
    first = min(run.started_at for run in wanted) - CLOCKS_AGREE
    return expressions.And(
        ids("run_id", [run.run_id for run in wanted]), since("started_at", first.isoformat())
    )


def _ids(table: Any, condition: Any) -> set[str]:
    """Return the ids of the runs for which a condition holds."""
    scanned = table.scan(row_filter=condition, selected_fields=("run_id",))
    return set(scanned.to_arrow()["run_id"].to_pylist())


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
        retries.forget(table)
        if table.scan(row_filter=expired, selected_fields=("run_id",), limit=1).to_arrow().num_rows:
            with contextlib.suppress(CommitFailedException, ValidationException):
                table.delete(expired)


def _untyped(expression: Any) -> Any:
    """Return a class of PyIceberg's expressions; what it takes beside its fields has no types."""
    return expression


def _rows(
    server: settings.ServerEndpoint, warehouse: str, condition: Any, *, but: Sequence[str] = ()
) -> list[Mapping[str, Any]]:
    """Return the runs for which a condition holds; none if there is no table of runs.

    but: columns that are not read.
    """
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import NoSuchTableError

    with _failures():
        try:
            table = catalogs.opened(server, warehouse).load_table((NAMESPACE, TABLE))
        except NoSuchTableError:
            return []
        names = tuple(name for name in table.schema().column_names if name not in but)
        scanned = table.scan(row_filter=condition, selected_fields=names)
        rows: list[Mapping[str, Any]] = scanned.to_arrow().to_pylist()
        return rows


@contextlib.contextmanager
def _systems_errors() -> Iterator[None]:
    """Turn an error of the system in the block, such as a full disk, into PipelineError."""
    try:
        yield
    except OSError as error:
        raise errors.PipelineError(str(error)) from error


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
