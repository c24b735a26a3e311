"""face: the native API's jobs and pipelines: what runs, ran and is due; start, cancel.

`jobs.visibility` says which runs a caller sees and cancels. A client that runs a pipeline by itself
begins a run here, which the server refuses while another run of the pipeline goes on, prolongs it,
and ends it. So does a client that loads, maintains or copies a table by itself, which excludes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import msgspec

from catalog import access, idents, rights
from jobs import errors, rows, runs, scheduler, schedules, visibility
from server import asgi, calls, native
from server.access import errors as access_errors
from server.access import model

TARGET_MAX: Final = 1_000
"""Characters of the name of a run's table."""
RUNS_LISTED: Final = 1
"""Runs of each pipeline in the list of all, without a limit."""
BODY_BYTES_MAX: Final = 64 * 1024
ENDED: Final = tuple(state for state in get_args(rows.State) if state != "running")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsServices:
    """The services of this module's handlers."""

    runs: runs.Runs
    scheduler: scheduler.Scheduler
    access: access.Access


class _Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client says of its run. state: of a run that has ended; absent of one that goes on."""

    progress: str = ""
    state: str | None = None
    error: str | None = None
    answer: dict[str, Any] = {}


async def list_jobs(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Answer the latest runs that the caller may see, the newest first."""
    chosen = _chosen(call)
    is_visible = visibility.shown_to(call.principal, services.access)
    name = native.parameters_of(call).get("pipeline")

    def is_shown(run: rows.RunRow) -> bool:
        is_named = name is None or (run.task == "pipeline" and run.name == name)
        return is_named and is_visible(run)

    listed = services.runs.latest(rows.RUNS_MAX, is_shown=is_shown)
    listed = [run for run in listed if chosen.state in (None, run.state)][: chosen.limit]
    return asgi.json_response({"jobs": [_shown(run) for run in listed]})


async def get_job(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Answer one run."""
    return asgi.json_response(_shown(_run_of(services, call)))


async def begin_job(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Begin a run of a pipeline, or a load, maintenance or copy of a table, in the caller's
    process."""
    parameters = native.parameters_of(call)
    target, task = parameters.get("target", ""), parameters.get("task", "pipeline")
    if task not in get_args(rows.Task):
        raise errors.BadJobRequest(f"task is one of {', '.join(get_args(rows.Task))}")
    is_pipeline = task == "pipeline"
    name = parameters.get("pipeline", "") if is_pipeline else target
    if is_pipeline and schedules.NAME.fullmatch(name) is None:
        raise errors.BadJobRequest(f"{name[:100]!r} is no pipeline's name")
    bucket, *namespace, table = target.split(".") if target.count(".") >= 2 else ("", "", "")
    if not (bucket and all(namespace) and table) or len(target) > TARGET_MAX:
        raise errors.BadJobRequest(f"{target[:200]!r} is no table like lake.sales.orders")
    ident = idents.TableIdent(table_bucket=bucket, namespace=tuple(namespace), name=table)
    if task == "replication":
        demands = services.access.on_table(ident, rights.READ_ACTIONS)
    else:
        demands, _ = services.access.on_commit(ident, creates=task in ("pipeline", "ingest"))
    services.access.check(call.principal, demands)
    run = await services.runs.begin(
        task=cast(rows.Task, task),
        name=name,
        target=target,
        by=call.principal.arn,
        by_server=False,
        is_alone=is_pipeline,
    )
    return asgi.json_response(_shown(run), 201)


async def report_job(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Prolong a run of the caller's own, or end it; answer whether it was cancelled."""
    try:
        report = msgspec.json.decode(call.body, type=_Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise errors.BadJobRequest(f"the body cannot be read: {error}") from None
    run = _run_of(services, call)
    if not visibility.is_own(run, call.principal):
        raise access_errors.AccessDenied(
            f"run {run.run_id} is not one of {call.principal.arn}",
            action="lake:Admin",
            resource=run.run_id,
        )
    if report.state is None:
        run = await services.runs.prolong(run, report.progress)
    elif report.state in ENDED:
        answer = msgspec.json.encode(report.answer).decode()
        state = cast(rows.State, report.state)
        run = await services.scheduler.end(
            run,
            state,
            error=report.error,
            answer=answer,
            may_ask=services.access.permits(call.principal, (visibility.ADMIN,)),
        )
    else:
        raise errors.BadJobRequest(f"state {report.state[:100]!r} is none of {', '.join(ENDED)}")
    return asgi.json_response(_shown(run))


async def cancel_job(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Cancel a run."""
    run = await services.scheduler.cancel(_run_of(services, call))
    return asgi.json_response(_shown(run), 202)


async def list_pipelines(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Answer the pipelines of the server's folder, each with its latest runs."""
    chosen = _chosen(call, limit=RUNS_LISTED)
    statuses = await services.scheduler.pipelines()
    return asgi.json_response(
        {
            "folder": services.scheduler.folder_path,
            "pipelines": [_pipeline(each, services.runs, chosen) for each in statuses],
        }
    )


async def get_pipeline(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Answer one pipeline, with its latest runs."""
    chosen = _chosen(call)
    name = call.value["pipeline"]
    for status in await services.scheduler.pipelines():
        if status.pipeline.name == name:
            return asgi.json_response(_pipeline(status, services.runs, chosen))
    raise errors.NoSuchPipeline(f"there is no pipeline {name[:100]!r}")


async def run_pipeline(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Make a pipeline due now."""
    await services.scheduler.ask(call.value["pipeline"])
    return asgi.json_response({"asked": call.value["pipeline"]}, 202)


async def check_maintenance(services: JobsServices, call: calls.Call) -> asgi.Response:
    """Make a check of every table's maintenance due now."""
    services.scheduler.check_maintenance()
    return asgi.json_response({"asked": "maintenance"}, 202)


def _demand_admin(services: JobsServices, call: calls.Call) -> tuple[model.Demand, ...]:
    return (visibility.ADMIN,)


def _run_of(services: JobsServices, call: calls.Call) -> rows.RunRow:
    """Return the run that a path names. Raises NoSuchRun, also for one that is not shown."""
    run = services.runs.find(call.value["job"])
    if not visibility.shown_to(call.principal, services.access)(run):
        raise errors.NoSuchRun(f"there is no run {run.run_id!r}; the latest 1,000 are kept")
    return run


def _shown(run: rows.RunRow) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "task": run.task,
        "name": run.name,
        "target": run.target,
        "by": run.by,
        "by_server": run.by_server,
        "state": run.state,
        "is_cancelled": run.is_cancelled,
        "started_at_ms": run.started_at_ms,
        "ended_at_ms": run.ended_at_ms,
        "progress": run.progress,
        "error": run.error,
        "answer": msgspec.json.decode(run.answer) if run.answer else {},
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chosen:
    """Which runs an answer lists: of one state, None for each; how many."""

    state: str | None
    limit: int


def _chosen(call: calls.Call, *, limit: int = visibility.RUNS_SHOWN) -> _Chosen:
    """Return which runs a call asks for. limit: without one. Raises BadJobRequest."""
    parameters = native.parameters_of(call)
    state, text = parameters.get("state"), parameters.get("limit", str(limit))
    if state is not None and state not in get_args(rows.State):
        states = ", ".join(get_args(rows.State))
        raise errors.BadJobRequest(f"state {state[:100]!r} is none of {states}")
    if not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise errors.BadJobRequest(f"limit {text[:100]!r} is not a whole number below 10,000")
    return _Chosen(state=state, limit=min(int(text), rows.RUNS_MAX))


def _pipeline(status: scheduler.PipelineStatus, kept: runs.Runs, chosen: _Chosen) -> dict[str, Any]:
    listed = kept.of_pipeline(status.pipeline.name, chosen.limit, state=chosen.state)
    pipeline = status.pipeline
    return {
        "name": pipeline.name,
        "target": pipeline.target,
        "schedule": pipeline.schedule or None,
        "after": pipeline.after,
        "run_as": pipeline.run_as,
        "error": pipeline.error,
        "due_at_ms": status.due_at_ms,
        "is_running": status.is_running,
        "runs": [_shown(run) for run in listed],
    }


WIRE_ERRORS: Final[native.ErrorTable] = {
    errors.NoSuchPipeline: (404, "NoSuchPipeline"),
    errors.NoSuchRun: (404, "NoSuchJob"),
    errors.AlreadyRunning: (409, "AlreadyRunning"),
    errors.NotRunning: (409, "NotRunning"),
    errors.BadSchedule: (400, "BadPipeline"),
    errors.BadJobRequest: (400, "BadRequest"),
}

JOB: Final = native.object_of(
    run_id=native.TEXT,
    task=native.TEXT,
    name=native.TEXT,
    target=native.TEXT,
    by=native.TEXT,
    by_server=native.FLAG,
    state=native.TEXT,
    is_cancelled=native.FLAG,
    started_at_ms=native.WHOLE,
    ended_at_ms=native.WHOLE_OR_NULL,
    progress=native.TEXT,
    error=native.TEXT_OR_NULL,
    answer=native.ANY_OBJECT,
)
PIPELINE: Final = native.object_of(
    name=native.TEXT,
    target=native.TEXT,
    schedule=native.TEXT_OR_NULL,
    after=native.TEXT_OR_NULL,
    run_as=native.TEXT_OR_NULL,
    error=native.TEXT_OR_NULL,
    due_at_ms=native.WHOLE_OR_NULL,
    is_running=native.FLAG,
    runs=native.list_of(JOB),
)
_RUNS: Final = (
    native.QueryParameter(name="state", meaning="of runs of this state alone"),
    native.QueryParameter(name="limit", meaning="how many runs at most", schema=native.WHOLE),
)
ASKED: Final = native.object_of(asked=native.TEXT)


def _row(
    method: Literal["GET", "POST", "PATCH", "DELETE"],
    path: str,
    name: str,
    handler: calls.Handler,
    summary: str,
    *,
    answer: native.Schema,
    demands: calls.Demanding = _demand_admin,
    status: int = 200,
    parameters: tuple[native.QueryParameter, ...] = (),
    body_bytes_max: int = calls.NO_BODY,
) -> native.NativeRow:
    return native.NativeRow(
        method=method,
        template=f"/_api/v1/{path}",
        operation=calls.Operation(
            name=name, handler=handler, demands=demands, body_bytes_max=body_bytes_max
        ),
        summary=summary,
        answer=answer,
        status=status,
        parameters=parameters,
    )


_NOTHING: Final = calls.demand_nothing
ROWS: Final = (
    _row(
        "GET", "jobs", "listJobs", list_jobs, "The latest runs of jobs",
        answer=native.object_of(jobs=native.list_of(JOB)), demands=_NOTHING,
        parameters=(
            native.QueryParameter(name="pipeline", meaning="of runs of this pipeline alone"),
            *_RUNS,
        ),
    ),
    _row("GET", "jobs/{job}", "getJob", get_job, "One run", answer=JOB, demands=_NOTHING),
    _row(
        "POST", "jobs", "beginJob", begin_job, "Begin a run of a job in a client's process",
        answer=JOB, demands=_NOTHING, status=201,
        parameters=(
            native.QueryParameter(name="pipeline", meaning="the name of a pipeline that is run"),
            native.QueryParameter(name="target", meaning="the job's table", required=True),
            native.QueryParameter(
                name="task", meaning="what the job does; without it, it is a pipeline"
            ),
        ),
    ),
    _row(
        "PATCH", "jobs/{job}", "reportJob", report_job, "Prolong or end a run of a client",
        answer=JOB, demands=_NOTHING, body_bytes_max=BODY_BYTES_MAX,
    ),
    _row(
        "DELETE", "jobs/{job}", "cancelJob", cancel_job, "Cancel a run",
        answer=JOB, demands=_NOTHING, status=202,
    ),
    _row(
        "GET", "pipelines", "listPipelines", list_pipelines, "The server's pipelines",
        answer=native.object_of(
            folder=native.TEXT_OR_NULL, pipelines=native.list_of(PIPELINE)
        ),
        parameters=_RUNS,
    ),
    _row(
        "GET", "pipelines/{pipeline}", "getPipeline", get_pipeline, "One pipeline",
        answer=PIPELINE, parameters=_RUNS,
    ),
    _row(
        "POST", "pipelines/{pipeline}/run", "runPipeline", run_pipeline, "Run a pipeline now",
        answer=ASKED, status=202,
    ),
    _row(
        "POST", "maintenance", "checkMaintenance", check_maintenance,
        "Look at every table's maintenance now", answer=ASKED, status=202,
    ),
)  # fmt: skip
"""Every operation of jobs in the native API."""
