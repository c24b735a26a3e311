"""wiring: `python -m pipeline ingest | compact | expire | orphans | replicate | run | list |
history | show | ...`.

The outcome is one line on standard error and, with `--json`, one JSON object on standard output.
PySpark is installed at first use. Exit codes: 0 done, 1 the job failed and changed nothing (or its
message says that the outcome is unknown), 2 wrong arguments, 130 interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import dataclasses
import gc
import json
import logging
import os
import shlex
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from pipeline import (
    commandline,
    errors,
    expiry,
    files,
    following,
    ingest,
    installing,
    interrupts,
    jobs,
    leases,
    loads,
    logs,
    machine,
    maintenance,
    masters,
    native,
    orphans,
    previews,
    progress,
    reading,
    records,
    rejects,
    replicas,
    replication,
    resources,
    runs,
    samples,
    servers,
    serving,
    session,
    settings,
    sources,
    workfolders,
)

INTERRUPTED = 130
LOOPBACK = "127.0.0.1,localhost,::1"
ROW_CHARACTERS_MAX = 500
"""Characters that a plan shows of a row."""

ORPHANS_SHOWN = 20
"""Files that `orphans` names; with --json it names the first thousand."""

NAMES_CHARACTERS_MAX = 300
"""Characters of the names of pipelines in an error."""

RATED_BYTES_MIN = 1_000_000
"""Of a smaller load the rate says how long a job takes to start."""
COMMAND_CHARACTERS_MAX = 300
"""Characters that a log has of a server's job."""

SHELL_OPTIONS = frozenset({
    "--data", "--url", "--region", "--master", "--spark-ui", "--driver-memory", "--cores",
    "--executor-memory", "--executor-cores", "--conf",
})  # fmt: skip
"""Options of the shell, which its jobs share."""

JOB_LOG_VARIABLE = "BOATHOUSE_JOB_LOG"
"""By it a server tells its child where the child's own output is."""

COLLECTOR_THRESHOLDS = (200_000, 10, 10)
"""When Python looks for cycles: after so many new objects. By its default of 700 it looks 400 times
while a small load imports PyIceberg and boto3, whose objects all stay."""


def main(arguments: list[str], interruption: interrupts.Interrupts) -> int:
    """Run one job; return the exit code. interruption: the process's answer to SIGINT, SIGTERM."""
    options = commandline.parser().parse_args(arguments)
    options.spark_logs, options.interruption = [], interruption
    say = progress.speaker()
    started = time.monotonic()
    _reach_this_machine_without_proxy()
    try:
        with interruption.of_the_process():
            if options.job in LOCAL_JOBS:
                outcome, sentence = LOCAL_JOBS[options.job](options, say)
            else:
                workfolders.remove_abandoned()
                options.gets = _resources(options)
                server = _server(options)
                outcome, sentence = JOBS[options.job](options, server, interruption.before(say))
    except errors.PipelineError as error:
        if not isinstance(error, errors.JobsFailed):
            _say_log(options, say)
        say(f"{options.job} failed: {error}")
        return 2 if isinstance(error, errors.BadArgument) else 1
    except OSError as error:  # such as a full disk
        _say_log(options, say)
        say(f"{options.job} failed: {error}")
        return 1
    except KeyboardInterrupt:
        say(f"{options.job} was interrupted; run the same command again to finish it")
        return INTERRUPTED
    seconds = time.monotonic() - started
    say(_timed(sentence, outcome, seconds))
    if options.json:
        print(json.dumps({**outcome, "seconds": round(seconds, 3)}, default=str))  # noqa: T201
    return 0


def _timed(sentence: str, outcome: Mapping[str, Any], seconds: float) -> str:
    """Return a job's closing sentence with its time, and the rate at which it read."""
    read_bytes = outcome.get("bytes_read") or 0
    is_told = read_bytes >= RATED_BYTES_MIN and seconds > 0
    rate = f", {progress.sized(read_bytes / seconds)}/s" if is_told else ""
    return f"{sentence} in {seconds:.1f} s{rate}"


def _ingest(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    target = settings.parse_table(options.to)
    relation = files.relation(
        options.source,
        target,
        of_files={
            "--option": bool(options.option),
            "--schema": options.schema is not None,
            "--on-error reject": options.on_error != "fail",
        },
        jdbc=files.JdbcArguments(
            table=options.jdbc_table,
            query=options.jdbc_query,
            watermark=options.watermark,
            jar=options.jdbc_jar,
            properties=options.jdbc_properties,
            timeout=options.jdbc_timeout,
        ),
        kafka=files.KafkaArguments(
            bootstrap=options.bootstrap,
            properties=options.kafka_properties,
            columns=options.kafka_columns,
            lost_records=options.lost_records,
            max_records=options.max_records,
            avro_schema=options.avro_schema,
        ),
        file_format=options.format,
        names=files.FLAGS_OF_SOURCES,
    )
    is_topic = isinstance(relation, settings.KafkaSource)
    file_format = options.format or ("json" if is_topic else "csv")
    places = (
        files.places(options.source, commandline.read_list, "--from") if relation is None else ()
    )
    if options.format is None:
        _check_default_format(places)
    load = jobs.Load(
        places=places,
        relation=relation,
        reader=files.reader_of(relation, file_format, commandline.reader_options(options.option)),
        table=target,
        partitions=settings.parse_partitions(options.partition_by)
        if options.partition_by is not None
        else (),
        mode=options.mode,
        merge=files.merge(
            options.mode,
            key=options.key.split(",") if options.key is not None else (),
            order_by=options.order_by,
            delete_flag=options.delete_flag,
            names=files.FLAGS,
        ),
        engine=options.engine,
        types={}
        if options.schema is None
        else commandline.schema(server, options.schema, file_format),
        on_error=options.on_error,
    )
    load = records.prepared(load)
    _check_engine(options)
    _check_readable(load, options)
    _check_rejectable(load, options.master)
    if options.follow:
        return _followed(options, server, load, say)
    if options.every is not None or options.broken_sources is not None:
        raise errors.BadArgument("--every and --broken-sources go with --follow")
    open_spark = _opener(options, server, say)
    if options.dry_run:
        return _planned(server, load, open_spark, say)
    with _noted(options, server, "ingest", load.table) as own:
        done = ingest.run(server, load, open_spark=open_spark, say=own.heard(say))
        own.answer = dataclasses.asdict(done)
        own.state = "nothing" if done.snapshot_id is None else "succeeded"
    return dataclasses.asdict(done), _loaded_sentence(load, done)


def _planned(
    server: settings.ServerEndpoint, load: jobs.Load, open_spark: session.Open, say: progress.Say
) -> tuple[dict[str, Any], str]:
    """Say what a load would do; write nothing."""
    plan = ingest.plan(server, load, open_spark=open_spark, say=say)
    if plan is None:
        return {"plan": None}, "would load nothing: everything was loaded before"
    for line in _plan_lines(plan, load):
        say(line)
    return {"plan": dataclasses.asdict(plan)}, "planned the load, wrote nothing,"


def _followed(
    options: argparse.Namespace,
    server: settings.ServerEndpoint,
    load: jobs.Load,
    say: progress.Say,
) -> tuple[dict[str, Any], str]:
    """Load new sources as they arrive, until the process is interrupted."""
    if options.warm is not None:
        raise errors.BadArgument("ingest --follow has no end, so it is no job of a shell")
    if options.dry_run:
        raise errors.BadArgument("--follow and --dry-run exclude each other")
    following.check(load)
    is_topic = isinstance(load.relation, settings.KafkaSource)
    if is_topic and options.broken_sources is not None:
        raise errors.BadArgument(
            "--broken-sources is for files; --on-error reject sets records apart"
        )
    with _noted(options, server, "ingest", load.table) as own:
        heard = own.heard(say)
        done = following.run(
            server,
            load,
            every_seconds=following.parse_every(
                following.EVERY if options.every is None else options.every
            ),
            ends_on_error=options.broken_sources == "fail",
            open_spark=_opener(options, server, say),
            say=heard,
            loaded=lambda done: heard(_loaded_sentence(load, done)),
        )
        own.state, own.answer = "succeeded", dataclasses.asdict(done)
    of_files = f"from {progress.counted(done.sources, 'object')} "
    sentence = (
        f"followed until it was interrupted: loaded {progress.counted(done.rows, 'row')} "
        f"{'' if is_topic else of_files}in {progress.counted(done.loads, 'load')}"
    )
    if done.left_out:
        sentence += f", left out {progress.counted(len(done.left_out), 'object')},"
    return dataclasses.asdict(done), sentence


@contextlib.contextmanager
def _noted(
    options: argparse.Namespace,
    server: settings.ServerEndpoint,
    task: leases.Task,
    table: settings.TargetTable,
) -> Iterator[leases.OwnRun]:
    """Enter a job into the server's list for the time of the block, if the server has not."""
    if options.is_served:
        yield leases.OwnRun("")
        return
    with leases.noted(server, task, table.full, give_up=options.give_up) as own:
        yield own


def _check_engine(options: argparse.Namespace) -> None:
    """Raise BadArgument for an option of Spark of a load that is to start none."""
    if options.engine != "arrow" or options.warm is not None:
        return
    values = {
        "--master": options.master if options.master != resources.THIS_MACHINE else None,
        "--spark-ui": options.spark_ui or None,
        "--driver-memory": options.driver_memory,
        "--cores": options.cores,
        "--executor-memory": options.executor_memory,
        "--executor-cores": options.executor_cores,
        "--conf": options.conf or None,
    }
    named = [name for name, value in values.items() if value is not None]
    if named:
        raise errors.BadArgument(f"{named[0]} is for Spark, which --engine arrow does not start")


def _check_default_format(places: Sequence[settings.Place]) -> None:
    """Raise BadArgument for a file that by its name is not CSV, the format of a load without one.

    Spark would be installed and started to read it as CSV.
    """
    for place in places:
        text = str(place)
        by_name = reading.format_by_name(text.rpartition("/")[2])
        if place.wildcards is not None or by_name in (None, "csv"):
            continue
        if not (isinstance(place, settings.LocalPath) and Path(place.path).is_dir()):
            raise errors.BadArgument(
                f"{text} looks like {by_name}: add --format {by_name}, or --format csv if it is CSV"
            )


def _check_readable(load: jobs.Load, options: argparse.Namespace) -> None:
    """Raise BadArgument for files of this machine that Spark would read on other machines."""
    if isinstance(load.relation, settings.KafkaSource) and options.warm is None:
        installing.ensure_kafka(progress.speaker())
    if options.master.startswith("local") or load.engine == "arrow":
        return
    address = masters.parse_connect(options.master)
    if isinstance(load.relation, settings.JdbcSource) and address is not None:
        raise errors.BadArgument(
            f"the driver {load.relation.jar} is a file of this machine, which the Spark Connect "
            f"server at {address} cannot load; use --master 'local[*]'"
        )
    if isinstance(load.relation, settings.KafkaSource):
        raise errors.BadArgument(
            f"{load.relation} is read into a file of this machine, which a Spark cluster cannot "
            "read; use --master 'local[*]'"
        )
    for place in load.places:
        if isinstance(place, settings.LocalPath):
            raise errors.BadArgument(
                f"a Spark cluster cannot read {place}, a file of this machine; put it into a "
                "bucket, or use --master 'local[*]'"
            )


def _check_rejectable(load: jobs.Load, master: str) -> None:
    """Raise BadArgument if rows of the load cannot be rejected."""
    if load.on_error == "fail":
        return
    reading.check_rejectable(load.reader)
    if not master.startswith("local"):
        raise errors.BadArgument(
            "--on-error reject reads copies on this machine, which a Spark cluster cannot; "
            "use --master 'local[*]'"
        )


def _loaded_sentence(load: jobs.Load, done: jobs.Loaded) -> str:
    if done.snapshot_id is None:
        return f"loaded nothing ({progress.counted(done.skipped, load.noun)} loaded before)"
    columns = f", new columns {', '.join(done.columns_added)}" if done.columns_added else ""
    if done.merged is not None:
        columns += (
            f" ({done.merged.inserted:,} new, {done.merged.updated:,} changed, "
            f"{done.merged.deleted:,} removed)"
        )
    if done.rejected:
        rejected = progress.counted(done.rejected, "row")
        columns += f", rejected {rejected} into {rejects.table_of(load).full}"
    read = "" if done.bytes_read is None else f" of {progress.sized(done.bytes_read)}"
    return (
        f"loaded {progress.counted(done.rows, 'row')} "
        f"from {progress.counted(done.sources, load.noun)}{read} into {load.table.full} "
        f"as {progress.counted(done.files, 'file')} of {progress.sized(done.bytes_written)}"
        f"{columns}"
    )


def _run(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    pipeline = _pipeline(options.name, Path(options.pipelines))
    _check_readable(pipeline.load, options)
    _check_rejectable(pipeline.load, options.master)
    if options.dry_run:
        return _planned(server, pipeline.load, _opener(options, server, say), say)

    def run(
        run_id: str, say: progress.Say, around: runs.Surroundings
    ) -> tuple[runs.PipelineRun, jobs.Loaded]:
        open_spark = _opener(options, server, say)
        return runs.run(
            server, pipeline, open_spark=open_spark, say=say, run_id=run_id, around=around
        )

    def remember(answer: Mapping[str, Any]) -> None:
        options.answer = answer

    if options.run_id is not None:  # the server began the run
        around = runs.Surroundings(
            ended=remember,
            log=lambda: _log_of(options),
            earlier=lambda: [runs.EndedRun(**run) for run in json.loads(options.earlier)],
            interrupted_as=lambda: leases.interrupted_as(server, options.run_id),
        )
        kept, done = run(options.run_id, say, around)
    else:
        target = pipeline.load.table.full
        with leases.held(server, pipeline.name, target, give_up=options.give_up) as own:
            say(f"run {own.run_id} of {pipeline.name} into {target}")
            around = runs.Surroundings(
                ended=own.keep,
                log=lambda: _log_of(options),
                earlier=lambda: leases.earlier(server, pipeline.name, target, own.run_id),
            )
            kept, done = run(own.run_id, own.heard(say), around)
            own.state = kept.status
    return dict(kept.answer), f"run {kept.run_id}: {_loaded_sentence(pipeline.load, done)}"


def _cancel(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    run = leases.cancel(server, options.run_id)
    return dict(run), f"asked run {run['run_id']} of {run['name']} to end"


def _serve(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    """Do the jobs that a server sends, until it closes standard input."""
    os.chdir(options.folder)
    wire_in, wire_out = serving.own_streams()
    wire, waiting = serving.Wire(wire_out), serving.JobQueue(wire_in)
    reporting: Any = serving.ReportingStream(sys.stderr, lambda line: wire.send({"progress": line}))
    sys.stderr = reporting  # what a job prints is its progress
    warm = serving.WarmSession(
        lambda warehouse: session.started(
            server,
            warehouse,
            gets=options.gets,
            say=say,
            may_fetch=False,
            new_log=_logger(options, say),
        ),
        server_answers=lambda: servers.answers(server),
    )
    waiting.start()
    count = 0
    with contextlib.closing(warm):
        for arguments in waiting:
            wire.send(_served(arguments, server, warm, child=options))
            count += 1
    return {"jobs": count}, f"did {progress.counted(count, 'job')}"


def _served(
    arguments: list[str],
    server: settings.ServerEndpoint,
    warm: serving.WarmSession,
    *,
    child: argparse.Namespace,
) -> dict[str, Any]:
    """Do one job; return its answer, of a run that failed with what it did. An interruption passes
    on, without an answer."""
    say = progress.speaker()
    options = argparse.Namespace(answer={})
    say(("$ " + " ".join(arguments))[:COMMAND_CHARACTERS_MAX])
    try:
        options = commandline.parser().parse_args(arguments)
        options.warm, options.spark_logs, options.is_served = warm, child.spark_logs, True
        outcome, sentence = JOBS[options.job](options, server, say)
    except errors.PipelineError as error:
        _say_log(child, say)
        say(f"failed: {error}")
        return {"code": 1, "error": str(error), "outcome": options.answer}
    except SystemExit:
        return {"code": 2, "error": f"the job {arguments} has wrong arguments"}
    except Exception as error:  # noqa: BLE001 - the job's answer; the next job may go well
        sys.stderr.write("".join(traceback.format_exception(error)))
        failure = f"{type(error).__name__}: {error}"
        return {"code": 1, "error": failure, "outcome": options.answer}
    say(sentence)
    return {"code": 0, "outcome": outcome}


def _shell(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    """Do the jobs that standard input names, a line each, in one session of Spark.

    A job that fails or is cancelled ends none of the others; its session stays unless Spark itself
    failed, or the job was cancelled.
    """
    warm = serving.WarmSession(
        _opener(options, server, say), server_answers=lambda: servers.answers(server)
    )
    count = failed = 0
    with contextlib.closing(warm):
        for line in _lines(sys.stdin):
            count += 1
            failed += not _typed(line, server, warm, say, shell=options)
    but = f", {failed} of them failed," if failed else ""
    if failed and not sys.stdin.isatty():
        raise errors.JobsFailed(f"{failed} of {progress.counted(count, 'job')} failed")
    return {"jobs": count, "failed": failed}, f"did {progress.counted(count, 'job')}{but}"


def _lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines that name a job, until `exit` or the end; a terminal gets a prompt."""
    while True:
        if stream.isatty():
            print("pipeline> ", end="", file=sys.stderr, flush=True)  # noqa: T201
        line = stream.readline()
        if not line or line.strip() in {"exit", "quit"}:
            return
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def _typed(
    line: str,
    server: settings.ServerEndpoint,
    warm: serving.WarmSession,
    say: progress.Say,
    *,
    shell: argparse.Namespace,
) -> bool:
    """Do the job of one line of the shell; return whether it was done."""
    started = time.monotonic()
    try:
        words = shlex.split(line)
        if words in (["help"], ["?"]):
            words = ["--help"]
        named = sorted(_of_shell(words))
        if named:
            raise errors.BadArgument(f"{', '.join(named)} stands before the shell, not in it")
        options = commandline.parser().parse_args(words)
        options.warm, options.master = warm, shell.master
        options.spark_logs = shell.spark_logs
        options.give_up = interrupts.cancel_one_job
        if options.job in LOCAL_JOBS:
            outcome, sentence = LOCAL_JOBS[options.job](options, say)
        elif options.job in {"serve", "shell"}:
            raise errors.BadArgument(f"{options.job} is no job of a shell")
        else:
            with shell.interruption.of_one_job():
                outcome, sentence = JOBS[options.job](options, server, say)
    except interrupts.JobCancelled:
        say("the job was cancelled; the same line again does what it left")
        return False
    except SystemExit as ended:  # argparse has said why, or has printed the help
        return not ended.code
    except (errors.PipelineError, OSError, ValueError) as error:
        if not isinstance(error, errors.BadArgument):
            _say_log(shell, say)
        say(f"failed: {error}")
        return False
    seconds = time.monotonic() - started
    say(_timed(sentence, outcome, seconds))
    if shell.json or options.json:
        print(json.dumps({**outcome, "seconds": round(seconds, 3)}, default=str), flush=True)  # noqa: T201
    return True


def _of_shell(words: Iterable[str]) -> set[str]:
    """Return the options of the shell that a line names, also by a beginning as argparse does."""
    names = {word.partition("=")[0] for word in words}
    return {
        option
        for option in SHELL_OPTIONS
        for name in names
        if len(name) > len("--") and option.startswith(name)
    }


def _list(options: argparse.Namespace, say: progress.Say) -> tuple[dict[str, Any], str]:
    folder = Path(options.pipelines)
    if not folder.is_dir():
        raise errors.BadArgument(f"there is no folder {folder}; --pipelines names another")
    names = sorted(path.stem for path in folder.glob("*.toml"))
    refused = _refused_by_server(options, folder)
    listed: list[dict[str, Any]] = []
    broken = 0
    for name in names:
        try:
            pipeline = _pipeline(name, folder)
        except errors.BadArgument as error:
            say(f"{name}: cannot be run: {error}")
            listed.append({"name": name, "error": str(error)})
            broken += 1
            continue
        if refusal := refused.get(name):
            say(f"{name}: the server does not run it: {refusal}")
            listed.append({"name": name, "error": refusal})
            broken += 1
            continue
        target, mode = pipeline.load.table.full, pipeline.load.mode
        when = f", {pipeline.schedule}" if pipeline.schedule else ""
        description = f": {pipeline.description}" if pipeline.description else ""
        say(f"{name}: {mode} into {target}{when}{description}")
        listed.append(
            {"name": name, "target": target, "mode": mode, "schedule": pipeline.schedule or None}
        )
    but = f", {broken} of them cannot be run," if broken else ""
    return {"pipelines": listed}, f"{progress.counted(len(names), 'pipeline')} in {folder}{but}"


def _server(options: argparse.Namespace) -> settings.ServerEndpoint:
    """Return the server to work with, whose certificate this process trusts from now on. Raises
    BadArgument, NoServer."""
    if options.url is None:
        servers.trust(options.data, os.environ)
    return servers.find(
        url=options.url, data=options.data, environment=os.environ, region=options.region
    )


def _refused_by_server(options: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Return why the server does not run pipelines of a folder, by name: a wrong schedule, or a
    circle of those that follow each other. None where no server answers that has the folder."""
    try:
        server = _server(options)
        answer = native.ask(server, "GET", "pipelines")
        served = answer.get("folder")  # an older server does not say
        if served is None or not folder.samefile(served):
            return {}
    except (errors.PipelineError, OSError):
        return {}
    return {each["name"]: each["error"] for each in answer["pipelines"] if each["error"]}


def _history(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    commandline.check_least(options, "--limit")
    limit = options.limit + 1  # whether there is one more
    rows = runs.history(server, options.warehouse, pipeline=options.name, limit=limit)
    rows = [{**row, "task": "pipeline", "progress": None} for row in rows]
    try:
        listed = leases.listed(server, options.warehouse, pipeline=options.name)
    except errors.PipelineError as error:
        say(f"runs that go on and those without a row are not shown: {error}")
        listed = []
    rows += leases.without_row(listed, rows, limit=limit)
    rows = sorted(rows, key=lambda row: row["started_at"], reverse=True)
    has_more, rows = len(rows) > options.limit, rows[: options.limit]
    for row in rows:
        said = row["error"] or row["progress"]
        if not said and row["status"] != "running":
            counts = [(row["rows"], "row"), (row["files"], "file")]
            said = next((progress.counted(*each) for each in counts if each[0] is not None), "")
        said = f": {said}" if said else ""
        name = row["pipeline"] or f"{row['task']} of {row['target']}"
        took = "for" if row["status"] == "running" else "in"
        say(
            f"{row['started_at']:%Y-%m-%d %H:%M:%S} {row['run_id']} {name} "
            f"{row['status']} {took} {row['seconds']:.1f} s{said}"
        )
    shown = progress.counted(len(rows), "run")
    if has_more:
        shown = f"the latest {shown}, --limit shows more,"
    return {"runs": rows, "has_more": has_more}, shown


def _show(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    try:
        row = runs.find(server, options.warehouse, options.run_id)
    except errors.BadArgument:  # it goes on, or its process could not write a row
        listed = leases.find(server, options.run_id)
        if listed is None:
            raise
        row = listed
    for name, value in row.items():
        say(f"{name}: {value}")
    return dict(row), f"run {options.run_id}"


def _pipeline(name: str, folder: Path) -> files.Pipeline:
    files.check_name(name)
    path = folder / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        names = ", ".join(sorted(each.stem for each in folder.glob("*.toml"))) or "none"
        raise errors.BadArgument(
            f"there is no pipeline {name}; {folder} has {names[:NAMES_CHARACTERS_MAX]}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadArgument(f"{path} cannot be read: {error}") from error

    def read_list(name: str) -> str:
        listed = folder / name
        if listed.stat().st_mode & stat.S_IWOTH:
            raise errors.BadArgument(f"every user may write {listed}; run `chmod o-w` on it")
        return listed.read_text(encoding="utf-8")

    return files.parse(name, text, read_list)


def _plan_lines(plan: jobs.LoadPlan, load: jobs.Load) -> list[str]:
    """Return a plan for a reader: engine, sources, table, columns, partitions and first rows."""
    what = progress.counted(plan.sources, load.noun)
    rows = "" if plan.rows is None else f", {progress.counted(plan.rows, 'row')}"
    to_table = {"append": "appends to", "replace": "replaces", "merge": "merges into"}[plan.mode]
    how = "creates" if plan.creates_table else to_table
    lines = [
        f"{plan.engine} reads {what}, {progress.sized(plan.size_bytes)}{rows}; "
        f"{plan.skipped} loaded before",
        f"{how} {load.table.full}, partitioned by {', '.join(plan.partitions) or 'nothing'}",
    ]
    width = max((len(column.name) for column in plan.columns), default=0)
    for column in plan.columns:
        change = f"  ({column.change})" if column.change else ""
        lines.append(f"  {column.name:<{width}}  {column.type}{change}")
    if plan.rejected:
        rejected = progress.counted(plan.rejected, "row")
        lines.append(f"rejects {rejected} into {rejects.table_of(load).full}")
    if load.checks:
        checks = progress.counted(len(load.checks), "check")
        lines.append(f"{checks} would decide about the commit; none was done")
    lines.append("first rows:" if plan.first_rows else "no rows")
    for row in plan.first_rows:
        text = json.dumps(dict(row), default=str, ensure_ascii=False)
        lines.append(
            "  " + (text if len(text) <= ROW_CHARACTERS_MAX else text[:ROW_CHARACTERS_MAX] + "...")
        )
    return lines


def _compact(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    table = settings.parse_table(options.table)
    commandline.check_least(options, "--target-file-size-mib", "--min-input-files")
    loads.check_table(server, table)
    size_mib, strategy = options.target_file_size_mib, options.strategy
    if size_mib is None or strategy is None:
        configured = maintenance.configured(
            sources.client(server, "s3tables"), table, for_expiry=False
        )
        size_mib = configured.target_file_size_mib if size_mib is None else size_mib
        strategy = configured.strategy if strategy is None else strategy
    if options.dry_run:
        compaction = previews.compaction(
            table,
            target_file_size_mib=size_mib,
            min_input_files=options.min_input_files,
            strategy=strategy,
            open_spark=_opener(options, server, say),
        )
        return dataclasses.asdict(compaction), compaction.sentence
    with _noted(options, server, "compaction", table) as own:
        counts = maintenance.compact(
            table,
            target_file_size_mib=size_mib,
            min_input_files=options.min_input_files,
            strategy=strategy,
            open_spark=_opener(options, server, say),
            say=own.heard(say),
        )
        own.state, own.answer = "succeeded", dict(counts)
    sentence = (
        f"rewrote {counts['rewritten_data_files_count']} files "
        f"into {counts['added_data_files_count']}"
    )
    if counts["left_data_files_count"]:
        left = progress.counted(counts["left_data_files_count"], "file")
        sentence += f", and left {left} to writers that came first,"
    return dict(counts), sentence


def _expire(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    table = settings.parse_table(options.table)
    older_than = None if options.older_than is None else commandline.moment(options.older_than)
    retain_last = options.retain_last
    commandline.check_least(options, "--retain-last")
    loads.check_table(server, table)
    if older_than is None or retain_last is None:
        configured = maintenance.configured(
            sources.client(server, "s3tables"), table, for_expiry=True
        )
        if older_than is None and configured.max_age is not None:
            older_than = commandline.ago(configured.max_age)
        retain_last = configured.retain_last if retain_last is None else retain_last
    if options.dry_run:
        plan = expiry.planned(
            table,
            older_than=older_than,
            retain_last=retain_last,
            open_spark=_opener(options, server, say),
        )
        return dataclasses.asdict(plan), plan.sentence
    with _noted(options, server, "snapshots", table) as own:
        done, counts = expiry.run(
            table,
            older_than=older_than,
            retain_last=retain_last,
            open_spark=_opener(options, server, say),
        )
        own.state, own.answer = "succeeded", {**counts, **dataclasses.asdict(done)}
    return dict(own.answer), done.sentence


def _manifests(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    table = settings.parse_table(options.table)
    loads.check_table(server, table)
    if options.dry_run:
        manifests = previews.manifests(table, open_spark=_opener(options, server, say))
        return dataclasses.asdict(manifests), manifests.sentence
    with _noted(options, server, "manifests", table) as own:
        counts = maintenance.rewrite_manifests(table, open_spark=_opener(options, server, say))
        own.state, own.answer = "succeeded", dict(counts)
    sentence = (
        f"rewrote {counts.get('rewritten_manifests_count', 0)} manifests "
        f"into {counts.get('added_manifests_count', 0)}"
    )
    return dict(counts), sentence


def _statistics(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    table = settings.parse_table(options.table)
    columns = options.columns.split(",") if options.columns is not None else ()
    loads.check_table(server, table)
    present = loads.columns(server, table) if columns else {}
    for name in columns:
        if "." not in name and name not in present:  # Iceberg itself finds parts of columns
            raise errors.no_column("--columns", name, present)
    if options.dry_run:
        statistics = previews.statistics(
            table, columns=columns, open_spark=_opener(options, server, say)
        )
        return dataclasses.asdict(statistics), statistics.sentence
    with _noted(options, server, "statistics", table) as own:
        stored = maintenance.compute_statistics(
            table, columns=columns, open_spark=_opener(options, server, say)
        )
        own.state, own.answer = "succeeded" if stored else "nothing", dict(stored)
    if not stored:
        return {}, f"computed nothing: {table.full} has no snapshot"
    return dict(stored), f"stored statistics in {stored['statistics_file']}"


def _orphans(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    table = settings.parse_table(options.table)
    done = orphans.run(
        server, table, dry_run=options.dry_run, say=say, now_ms=int(time.time() * 1000)
    )
    for line in done.lines(ORPHANS_SHOWN):
        say(line)
    return dataclasses.asdict(done), done.sentence


def _replicate(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    table = settings.parse_table(options.table)
    to = replicas.parse(
        options.to,
        os.environ,
        warehouse=options.to_warehouse,
        location=options.location,
        s3_endpoint=options.s3_endpoint,
        namespace=options.to_namespace,
        name=options.to_table,
    )
    if not options.master.startswith("local"):
        raise errors.BadArgument(
            "replicate writes files of this machine, which a Spark cluster cannot; "
            "use --master 'local[*]'"
        )
    with _noted(options, server, "replication", table) as own:
        done = replication.run(
            server, table, to, open_spark=_opener(options, server, say), say=own.heard(say)
        )
        own.state = "nothing" if done is None else "succeeded"
        own.answer = {"files": 0} if done is None else dataclasses.asdict(done)
        own.answer = {"to": str(to), **own.answer}
    if done is None:
        return {"files": 0}, f"copied nothing: {to} has the newest version of {table.full}"
    return dataclasses.asdict(done), (
        f"copied {progress.counted(done.files, 'file')}, {progress.sized(done.size_bytes)}, "
        f"of {table.full} to {to}"
    )


def _samples(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> tuple[dict[str, Any], str]:
    rows = samples.load(server, options.warehouse)
    return {"rows": rows, "table": samples.TABLE}, f"loaded {rows} rows into {samples.TABLE}"


JOBS = {
    "ingest": _ingest,
    "compact": _compact,
    "expire": _expire,
    "manifests": _manifests,
    "statistics": _statistics,
    "orphans": _orphans,
    "replicate": _replicate,
    "samples": _samples,
    "run": _run,
    "history": _history,
    "show": _show,
    "cancel": _cancel,
    "serve": _serve,
    "shell": _shell,
}
LOCAL_JOBS = {"list": _list}
"""The jobs that need no running server."""


def _opener(
    options: argparse.Namespace, server: settings.ServerEndpoint, say: progress.Say
) -> session.Open:
    """Return the function by which a job starts Spark, once it has work for it."""

    warm: serving.WarmSession | None = options.warm

    def open_spark(warehouse: str) -> AbstractContextManager[session.Spark]:
        if warm is not None:
            if not installing.is_installed("pyspark"):
                raise errors.SparkFailed("Spark is not installed; run `make setup-all`")
            return warm.opened(warehouse)
        installing.ensure_spark(say)
        installing.ensure_connect(options.master, say)
        return session.started(
            server,
            warehouse,
            gets=options.gets,
            say=say,
            ui=options.spark_ui,
            new_log=_logger(options, say),
        )

    return open_spark


def _logger(options: argparse.Namespace, say: progress.Say) -> Callable[[], Path | None]:
    """Return the function that makes the log of a JVM; the job remembers it."""

    def new_log() -> Path | None:
        folder = logs.folder(os.environ) if options.logs is None else Path(options.logs)
        path = logs.new(folder)
        if path is not None:
            options.spark_logs.append(path)
            if options.verbose:
                _say_log(options, say)
        return path

    return new_log


def _log_of(options: argparse.Namespace) -> str | None:
    """Return where a run's output is: that of its Spark, else of a server's child, else none."""
    for path in options.spark_logs[-1:]:
        return str(path.absolute())
    return os.environ.get(JOB_LOG_VARIABLE)


def _say_log(options: argparse.Namespace, say: progress.Say) -> None:
    """Say where the output of the job's Spark is, if it had one."""
    for path in options.spark_logs[-1:]:
        say(f"Spark's log: {path}")


def _resources(options: argparse.Namespace) -> resources.SparkResources | None:
    """Return what Spark gets by the options; None for a job that has none of them."""
    if not hasattr(options, "master"):
        return None
    address = masters.parse_connect(options.master)
    if address is not None and options.spark_ui:
        raise errors.BadArgument(f"--spark-ui: the pages of the Spark at {address} are its own")
    memory = options.driver_memory
    if options.job == "serve" and options.memory_mib is not None:
        if memory is not None:
            raise errors.BadArgument("--memory-mib and --driver-memory are the same; name one")
        memory = f"{options.memory_mib}m"
    return resources.resolve(
        resources.Wishes(
            master=options.master,
            driver_memory=memory,
            cores=options.cores,
            executor_memory=options.executor_memory,
            executor_cores=options.executor_cores,
            conf=tuple(options.conf),
        ),
        os.environ,
        machine.this(),
        is_served=options.job == "serve",
    )


def _reach_this_machine_without_proxy() -> None:
    """Except loopback addresses from a proxy that the environment names."""
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if spared.strip() != "*":
        for name in ("no_proxy", "NO_PROXY"):
            os.environ[name] = f"{spared},{LOOPBACK}" if spared else LOOPBACK


if __name__ == "__main__":
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    # Python would look for cycles among all objects before the process ends: a third of a second.
    atexit.register(gc.freeze)
    # A job prints its own errors; its libraries would log tracebacks at Ctrl-C.
    logging.disable(logging.CRITICAL)
    # SIGTERM ends a job like Ctrl-C does, so that its JVM and temporary files go with it.
    interruption = interrupts.Interrupts()
    interruption.install()
    sys.exit(main(sys.argv[1:], interruption))
