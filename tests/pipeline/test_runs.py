"""Runs of pipelines: transforms, checks, retries, and the table that keeps the runs."""

from __future__ import annotations

import dataclasses
import datetime
import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline import __main__ as command
from pipeline import (
    catalogs,
    errors,
    files,
    ingest,
    interrupts,
    jobs,
    leases,
    runs,
    settings,
    sources,
)
from tests.kit import server as server_kit
from tests.pipeline.lake import Lake, Raw, Small, no_spark


def pipeline_of(raw: Raw, name: str, text: str = "", **top: str) -> files.Pipeline:
    """Return a pipeline from the test's bucket into lake.runs.NAME."""
    lines = "".join(f"{key} = {value}\n" for key, value in top.items())
    whole = f'target = "lake.runs.{name}"\n{lines}[source]\nfrom = ["{raw.uri("in/")}"]\n{text}'
    return files.parse(name, whole)


CLEAN = """
[[transform]]
name = "clean"
sql = "select id, amount, upper(name) as name from source where id is not null"
[[transform]]
name = "latest"
sql = "select id, sum(amount) as amount, max(name) as name from clean group by id"
"""
CHECKED = """
[[check]]
name = "ids are unique"
sql = "select id, count(*) as n from target group by id having count(*) > 1"
[[check]]
name = "small amounts"
sql = "select * from target where amount > 100"
severity = "warn"
"""


def test_a_run_without_queries_needs_no_spark_and_is_kept(
    small: Small, raw: Raw, server: server_kit.Running
) -> None:
    raw.put("in/1.csv", "id\n1\n2\n")
    said: list[str] = []
    pipeline = pipeline_of(raw, "plain")
    kept, done = runs.run(small.server, pipeline, open_spark=no_spark, say=said.append)
    assert (kept.status, kept.rows, kept.attempts, done.rows) == ("succeeded", 2, 1, 2)
    again, _ = runs.run(small.server, pipeline, open_spark=no_spark, say=said.append)
    assert (again.status, again.rows) == ("nothing", 0)
    rows = runs.history(small.server, "lake", pipeline="plain", limit=10)
    assert [row["run_id"] for row in rows] == [again.run_id, kept.run_id]
    assert runs.find(small.server, "lake", kept.run_id)["snapshot_id"] == done.snapshot_id
    with pytest.raises(errors.BadArgument, match="there is no run none"):
        runs.find(small.server, "lake", "none")


def test_a_dry_run_shows_the_rows_of_the_pipeline_and_writes_nothing(
    small: Small,
    raw: Raw,
    server: server_kit.Running,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raw.put("in/1.csv", "id,name\n1,a\n2,b\n")
    source = f'[source]\nfrom = ["{raw.uri("in/")}"]\n'
    (tmp_path / "dry.toml").write_text(f'target = "lake.runs.dry"\n{source}')
    line = ["run", "dry", "--dry-run", "--pipelines", str(tmp_path), "--data", str(server.data)]
    assert command.main(line, interrupts.Interrupts()) == 0
    said = capsys.readouterr().err
    assert "pipeline: creates lake.runs.dry, partitioned by nothing" in said
    assert 'pipeline:   {"id": 2, "name": "b"}' in said
    assert "planned the load, wrote nothing, in " in said
    assert not small.catalog.table_exists("runs.dry")
    assert runs.history(small.server, "lake", pipeline="dry", limit=10) == []


@pytest.mark.spark
def test_a_plan_of_a_pipeline_has_the_columns_and_rows_of_its_last_transform(
    lake: Lake, raw: Raw
) -> None:
    raw.put("in/1.csv", "id,amount,name\n1,5,a\n1,6,b\n,7,c\n")
    load = pipeline_of(raw, "planned", CLEAN + CHECKED).load
    plan = ingest.plan(lake.server, load, open_spark=lake.open_spark, say=lake.said.append)
    assert plan is not None
    assert [(column.name, column.type) for column in plan.columns] == [
        ("id", "int"), ("amount", "long"), ("name", "string"),
    ]  # fmt: skip
    assert plan.first_rows == ({"id": 1, "amount": 11, "name": "B"},)
    assert not lake.catalog.table_exists("runs.planned")


def test_runs_older_than_the_pipeline_keeps_leave_the_table(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")

    def run(name: str, **top: str) -> runs.PipelineRun:
        pipeline = pipeline_of(raw, name, **top)
        return runs.run(small.server, pipeline, open_spark=no_spark, say=small.said.append)[0]

    def ids(name: str) -> set[str]:
        rows = runs.history(small.server, "lake", pipeline=name, limit=10)
        return {row["run_id"] for row in rows}

    now = datetime.datetime.now(datetime.UTC)
    kept = run("short")
    ages = {"day": 1, "month": 29, "old": 31, "older": 400}
    for name, days in ages.items():
        started = now - datetime.timedelta(days=days)
        for pipeline in ("short", "other"):
            old = dataclasses.replace(
                kept, run_id=f"{pipeline}-{name}", pipeline=pipeline, started_at=started
            )
            runs._append(small.server, "lake", old)
    everything = {f"short-{name}" for name in ages}
    assert ids("short") == everything | {kept.run_id}
    second = run("short")
    assert ids("short") == everything | {kept.run_id, second.run_id}
    third = run("short", keep_runs_days="30")
    remaining = {"short-day", "short-month", kept.run_id, second.run_id, third.run_id}
    assert ids("short") == remaining
    assert ids("other") == {f"other-{name}" for name in ages}
    assert not [line for line in small.said if "could not be" in line]


def test_a_history_leaves_out_runs_whose_rows_were_deleted() -> None:
    noon = datetime.datetime(2026, 8, 1, 12, tzinfo=datetime.UTC)

    def run(run_id: str, hour: int, status: str, name: str | None = "p") -> dict[str, Any]:
        started = noon + datetime.timedelta(hours=hour)
        task = "pipeline" if name else "compaction"
        return {
            "run_id": run_id, "started_at": started, "status": status, "pipeline": name,
            "task": task,
        }  # fmt: skip

    rows = [run("3", 3, "succeeded"), run("2", 2, "succeeded")]
    listed = [
        run("going", 5, "running"),
        run("lost", 4, "interrupted"),
        *rows,
        run("deleted", 1, "succeeded"),
        run("deleted lost", 1, "interrupted"),
        run("slow", 0, "running"),
        run("compaction", 0, "succeeded", None),
        run("other's", 0, "failed", "without any row"),
    ]
    shown = [each["run_id"] for each in leases.without_row(listed, rows, limit=20)]
    assert shown == ["going", "lost", "slow", "compaction", "other's"]
    # The table may have more rows than are read.
    shown = [each["run_id"] for each in leases.without_row(listed, rows, limit=2)]
    assert shown == ["going", "lost"]


def test_a_failed_run_is_tried_again_and_kept(small: Small, raw: Raw) -> None:
    raw.put("in/1.json", "{")
    waited: list[float] = []
    pipeline = pipeline_of(raw, "fails", 'format = "json"\n', retries="2")
    with pytest.raises(errors.BadSource):  # another attempt would read the same file
        runs.run(
            small.server, pipeline, open_spark=no_spark, say=small.said.append, wait=waited.append
        )
    rows = runs.history(small.server, "lake", pipeline="fails", limit=1)
    assert (rows[0]["status"], rows[0]["attempts"], waited) == ("failed", 1, [])
    assert "1.json" in rows[0]["error"]


def test_a_run_keeps_its_bytes_its_steps_and_where_its_output_is(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n2\n")
    around = runs.Surroundings(log=lambda: "/logs/spark-1.log")
    pipeline = pipeline_of(raw, "measured")
    kept, done = runs.run(
        small.server, pipeline, open_spark=no_spark, say=small.said.append, around=around
    )
    row = runs.find(small.server, "lake", kept.run_id)
    assert (row["bytes_read"], row["log"]) == (7, "/logs/spark-1.log")
    assert row["bytes_written"] == done.bytes_written > 0
    steps = json.loads(row["steps"])
    assert [step["step"] for step in steps] == [
        "list sources", "open table", "read", "inspect", "write", "commit",
    ]  # fmt: skip
    assert (steps[4]["rows"], steps[4]["bytes"]) == (2, done.bytes_written)
    assert all(step["seconds"] >= 0 and "failed" not in step for step in steps)
    said = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in row["output"].splitlines()]
    assert said == small.said[-len(said) :]
    assert said[0] == "loading 1 object, 7 bytes; 0 loaded before"
    (listed,) = runs.history(small.server, "lake", pipeline="measured", limit=9)
    assert listed == {name: value for name, value in row.items() if name != "output"}
    # The server's list shows no output, which may be long.
    assert "output" not in kept.answer


def test_of_a_run_that_says_much_the_last_lines_are_kept() -> None:
    said: list[str] = []
    output = runs.RunOutput(said.append)
    for number in range(runs.OUTPUT_LINES_MAX + 3):
        output.say(f"{number} {'x' * 600}")
    first, *lines = output.text.splitlines()
    assert first == "... 3 lines before ..."
    assert len(lines) == 200
    assert lines[0].partition(" ")[2] == f"3 {'x' * 498}"
    assert len(said[0]) == 602


def test_a_failed_run_keeps_the_step_that_failed(small: Small, raw: Raw) -> None:
    raw.put("in/1.json", "{")
    pipeline = pipeline_of(raw, "broken", 'format = "json"\n')
    with pytest.raises(errors.BadSource):
        runs.run(small.server, pipeline, open_spark=no_spark, say=small.said.append)
    (row,) = runs.history(small.server, "lake", pipeline="broken", limit=9)
    steps = json.loads(row["steps"])
    assert [(step["step"], step.get("failed")) for step in steps] == [
        ("list sources", None), ("open table", None), ("read", True)
    ]  # fmt: skip


def test_a_run_that_meets_a_full_disk_is_kept(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> jobs.Loaded:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/part")

    monkeypatch.setattr(runs.ingest, "run", full)
    pipeline = pipeline_of(raw, "full", retries="2")
    said = "[Errno 28] No space left on device: '/tmp/part'"
    with pytest.raises(errors.PipelineError) as caught:
        runs.run(small.server, pipeline, open_spark=no_spark, say=small.said.append)
    assert str(caught.value) == said
    (row,) = runs.history(small.server, "lake", pipeline="full", limit=9)
    assert (row["status"], row["attempts"], row["error"]) == ("failed", 1, said)


def test_an_interrupted_run_is_kept_as_what_it_was(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> jobs.Loaded:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs.ingest, "run", interrupt)
    for status in ("cancelled", "interrupted"):
        around = runs.Surroundings(interrupted_as=lambda status=status: status)
        with pytest.raises(KeyboardInterrupt):
            runs.run(
                small.server,
                pipeline_of(raw, status),
                open_spark=no_spark,
                say=small.said.append,
                around=around,
            )
        (row,) = runs.history(small.server, "lake", pipeline=status, limit=9)
        assert (row["status"], row["error"]) == (status, "the run was interrupted")


def test_the_next_run_keeps_those_that_were_killed_once(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    listed = [
        {"run_id": "now", "state": "running", "started_at_ms": 9, "ended_at_ms": None},
        {"run_id": "k2", "state": "cancelled", "started_at_ms": 5_000, "ended_at_ms": 5_250},
        {"run_id": "k1", "state": "interrupted", "started_at_ms": 1_000, "ended_at_ms": None},
        {"run_id": "ok", "state": "nothing", "started_at_ms": 2, "ended_at_ms": 3},
        {"run_id": "old", "state": "failed", "started_at_ms": 0, "ended_at_ms": 1},
    ]
    listed = [{**run, "error": "gone", "answer": {}} for run in listed]
    earlier = runs.without_result(listed, but="now")
    around = runs.Surroundings(earlier=lambda: earlier)
    for _ in range(2):
        runs.run(
            small.server,
            pipeline_of(raw, "lost"),
            open_spark=no_spark,
            say=small.said.append,
            around=around,
        )
    rows = runs.history(small.server, "lake", pipeline="lost", limit=9)
    assert [row["status"] for row in rows] == ["nothing", "succeeded", "cancelled", "interrupted"]
    killed = rows[2]
    assert (killed["run_id"], killed["seconds"], killed["error"]) == ("k2", 0.25, "gone")
    assert killed["started_at"] == datetime.datetime.fromtimestamp(5, datetime.UTC)
    unknown = ("attempts", "rows", "files", "snapshot_id", "engine", "bytes_read", "log")
    assert [killed[name] for name in unknown] == [None] * len(unknown)


def test_a_run_that_was_killed_after_another_beside_it_had_a_result_gets_its_row() -> None:
    def run(run_id: str, state: str, started_at_ms: int, ended_at_ms: int | None) -> dict[str, Any]:
        return {
            "run_id": run_id, "state": state, "started_at_ms": started_at_ms,
            "ended_at_ms": ended_at_ms, "error": None, "answer": {},
        }  # fmt: skip

    listed = [
        run("now", "running", 90, None),
        run("second", "succeeded", 50, 60),  # it began beside `long`, which was a day old
        run("first", "failed", 40, 49),
        run("long", "interrupted", 10, 70),
        run("before", "failed", 0, 5),
    ]
    assert [each.run_id for each in runs.without_result(listed, but="now")] == ["long"]


def test_however_many_runs_were_killed_each_gets_its_row(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    killed = [
        {
            "run_id": f"often-{at}", "state": "interrupted", "started_at_ms": at,
            "ended_at_ms": at + 1, "error": "gone", "answer": {},
        }
        for at in range(300, 0, -1)
    ]  # fmt: skip
    failed = [
        {**killed[0], "run_id": f"failed-{at}", "state": "failed",
         "answer": {"has_row": at in (0, 2)}}
        for at in range(4)
    ]  # fmt: skip
    earlier = runs.without_result([*failed, *killed], but="now")
    without = ["failed-1", "failed-3", *(run["run_id"] for run in killed)]
    assert [run.run_id for run in earlier] == without
    runs.run(
        small.server,
        pipeline_of(raw, "often"),
        open_spark=no_spark,
        say=small.said.append,
        around=runs.Surroundings(earlier=lambda: earlier),
    )
    rows = runs.history(small.server, "lake", pipeline="often", limit=1_000)
    assert sorted(row["run_id"] for row in rows[1:]) == sorted(run.run_id for run in earlier)


def test_a_run_that_failed_says_that_it_has_its_row(small: Small, raw: Raw) -> None:
    answers: list[Any] = []
    with pytest.raises(errors.PipelineError, match="no objects at"):
        runs.run(
            small.server,
            pipeline_of(raw, "absent"),
            open_spark=no_spark,
            say=small.said.append,
            around=runs.Surroundings(ended=answers.append),
        )
    assert [(each["status"], each.get("has_row")) for each in answers] == [
        ("failed", None), ("failed", True)
    ]  # fmt: skip


def test_a_run_that_was_taken_for_lost_and_goes_on_has_one_row(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.put("in/1.csv", "id\n1\n")
    pipeline, ingest_run = pipeline_of(raw, "suspended"), runs.ingest.run
    now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)

    def run(run_id: str, around: runs.Surroundings | None = None) -> None:
        runs.run(
            small.server,
            pipeline,
            open_spark=no_spark,
            say=small.said.append,
            run_id=run_id,
            around=around,
        )

    def ended(run_id: str, started_at_ms: int) -> runs.Surroundings:
        lost = runs.EndedRun(
            run_id=run_id, state="interrupted", started_at_ms=started_at_ms, ended_at_ms=None,
            error="gone",
        )  # fmt: skip
        return runs.Surroundings(earlier=lambda: [lost])

    def overtaken(*arguments: Any, **options: Any) -> jobs.Loaded:
        monkeypatch.setattr(runs.ingest, "run", ingest_run)
        run("next", ended("slow", now_ms - 1000))
        return ingest_run(*arguments, **options)

    def statuses() -> list[tuple[str, str]]:
        rows = runs.history(small.server, "lake", pipeline="suspended", limit=9)
        return sorted((row["run_id"], row["status"]) for row in rows)

    monkeypatch.setattr(runs.ingest, "run", overtaken)
    run("slow")
    assert statuses() == [("next", "succeeded"), ("slow", "nothing")]
    # The server's clock is ahead of the job's.
    run("third", ended("slow", now_ms + 600_000))
    assert statuses() == [("next", "succeeded"), ("slow", "nothing"), ("third", "nothing")]
    assert not [line for line in small.said if "could not be" in line]


def test_a_table_of_runs_of_an_earlier_release_gains_the_columns_it_lacks(
    small: Small, raw: Raw
) -> None:
    import pyarrow as pa

    sources.client(small.server, "s3tables").create_table_bucket(name="earlier-runs")
    catalog = catalogs.opened(small.server, "earlier-runs")
    catalog.create_namespace("system")
    schema = pa.schema([field for field in runs._schema() if field.name not in runs.ADDED])
    table = catalog.create_table("system.pipeline_runs", schema=schema)
    table.append(pa.Table.from_pylist([{"run_id": "old", "pipeline": "p"}], schema=schema))
    now = datetime.datetime.now(datetime.UTC)
    for run_id in ("new", "newer"):
        runs._append(
            small.server,
            "earlier-runs",
            runs.PipelineRun(
                run_id=run_id, pipeline="p", target="t", status="failed", started_at=now,
                seconds=1.0, bytes_read=5, steps="[1]", log="/l",
            ),
        )  # fmt: skip
    rows = catalog.load_table("system.pipeline_runs").scan().to_arrow().to_pylist()
    assert sorted((row["run_id"], row["bytes_read"], row["log"]) for row in rows) == [
        ("new", 5, "/l"), ("newer", 5, "/l"), ("old", None, None)
    ]  # fmt: skip
    assert len(catalog.load_table("system.pipeline_runs").schemas()) == 2


def test_an_attempt_that_another_may_follow_waits_longer_each_time(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.put("in/1.csv", "id\n1\n")
    answers: list[Exception | None] = [errors.Overtaken("x"), errors.NoServer("y"), None]
    loads = runs.ingest.run

    def run(*arguments: Any, **options: Any) -> jobs.Loaded:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return loads(*arguments, **options)

    monkeypatch.setattr(runs.ingest, "run", run)
    waited: list[float] = []
    kept, _ = runs.run(
        small.server,
        pipeline_of(raw, "again", retries="2"),
        open_spark=no_spark,
        say=small.said.append,
        wait=waited.append,
    )
    assert (kept.status, kept.attempts, waited) == ("succeeded", 3, [2.0, 4.0])


@pytest.mark.spark
def test_transforms_are_loaded_and_checks_pass_before_anything_is_visible(
    lake: Lake, raw: Raw
) -> None:
    def run(text: str = CLEAN + CHECKED, **top: str) -> tuple[runs.PipelineRun, jobs.Loaded]:
        pipeline = pipeline_of(raw, "orders", text, **top)
        return runs.run(lake.server, pipeline, open_spark=lake.open_spark, say=lake.said.append)

    raw.put("in/1.csv", "id,amount,name\n1,5,a\n1,6,b\n2,200,c\n,7,d\n")
    kept, done = run()
    rows = [{"id": 1, "amount": 11, "name": "B"}, {"id": 2, "amount": 200, "name": "C"}]
    assert lake.rows("runs.orders") == rows
    assert [(each.name, each.count) for each in done.checks] == [
        ("ids are unique", 0), ("small amounts", 1)
    ]  # fmt: skip
    assert json.loads(kept.detail)["checks"][1]["first"] == [
        '{"id": 2, "amount": 200, "name": "C"}'
    ]

    # The check reads the table as it would be: id 2 is there already.
    before = lake.state("runs.orders")
    raw.put("in/2.csv", "id,amount,name\n2,1,x\n3,1,y\n")
    with pytest.raises(errors.CheckFailed, match="ids are unique returns 1 row"):
        run()
    assert lake.state("runs.orders") == before
    latest = runs.history(lake.server, "lake", pipeline="orders", limit=1)[0]
    assert (latest["status"], latest["rows"]) == ("failed", 0)

    # As a merge the same rows pass.
    _, done = run(mode='"merge"', key='["id"]')
    assert done.merged == jobs.MergeCounts(inserted=1, updated=1, deleted=0)
    assert [row["amount"] for row in lake.rows("runs.orders")] == [11, 1, 1]

    # A replacing run takes the same sources again when its transforms have changed.
    _, done = run(mode='"replace"')
    assert done.rows == 3
    assert run(mode='"replace"')[0].status == "nothing"
    changed = CLEAN.replace("sum(amount)", "min(amount)")
    assert run(changed, mode='"replace"')[1].rows == 3
    assert [row["amount"] for row in lake.rows("runs.orders")] == [5, 1, 1]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("drop table lake.runs.safe", "transform bad is no SELECT"),
        ("insert into lake.runs.safe select 9", "transform bad is no SELECT"),
        ("with x as (select 1) insert into lake.runs.safe select * from x", "is no SELECT"),
        ("cache table lake.runs.safe", "transform bad is no SELECT"),
        ("call lake.system.expire_snapshots('runs.safe')", "transform bad is no SELECT"),
        ("execute immediate 'drop table lake.runs.safe'", "transform bad is no SELECT"),
        ("begin drop table lake.runs.safe; end", "transform bad is no SELECT"),
        ("from source insert into lake.runs.safe select 9", "transform bad is no SELECT"),
        ("selct 1", "transform bad: "),
        ("select nothing from source", "transform bad: "),
    ],
)
def test_a_transform_can_only_select(lake: Lake, raw: Raw, sql: str, words: str) -> None:
    raw.put("in/0.csv", "id\n7\n")
    if not lake.catalog.table_exists("runs.safe"):
        lake.ingest(raw, "runs.safe")
    before = lake.state("runs.safe")
    text = f'[[transform]]\nname = "bad"\nsql = "{sql}"\n'
    with pytest.raises(errors.BadArgument) as raised:
        runs.run(
            lake.server,
            pipeline_of(raw, "bad", text),
            open_spark=lake.open_spark,
            say=lake.said.append,
        )
    assert words in str(raised.value)
    assert lake.state("runs.safe") == before
    assert not lake.catalog.table_exists("runs.bad")


@pytest.mark.spark
def test_a_commit_after_the_checks_makes_the_run_check_again(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id,amount\n1,1\n")
    raw.put("other/2.csv", "id,amount\n1,2\n")
    lake.ingest(raw, "runs.raced", prefix="other/")
    raw.put("other/3.csv", "id,amount\n5,2\n")
    said: list[str] = []

    def say(sentence: str) -> None:
        said.append(sentence)
        if sentence.startswith("committing") and len(lake.rows("runs.raced")) == 1:
            lake.ingest(raw, "runs.raced", prefix="other/")

    text = '[[check]]\nname = "few"\nsql = "select count(*) from target having count(*) > 2"\n'
    with pytest.raises(errors.CheckFailed, match="few"):
        runs.run(lake.server, pipeline_of(raw, "raced", text), open_spark=lake.open_spark, say=say)
    assert [row["id"] for row in lake.rows("runs.raced")] == [1, 5]


@pytest.mark.spark
def test_a_transform_spells_columns_as_the_table_does(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id,amount\n1,1\n")
    lake.ingest(raw, "runs.spelled")
    raw.put("in/2.csv", "id,amount\n2,2\n")
    text = '[[transform]]\nname = "t"\nsql = "select id as ID, amount as Amount from source;"\n'
    _, done = runs.run(
        lake.server,
        pipeline_of(raw, "spelled", text),
        open_spark=lake.open_spark,
        say=lake.said.append,
    )
    assert done.columns_added == ()
    assert lake.rows("runs.spelled") == [{"id": 1, "amount": 1}, {"id": 2, "amount": 2}]


@pytest.mark.spark
def test_a_deletion_after_the_checks_makes_the_run_check_again(lake: Lake, raw: Raw) -> None:
    raw.put("other/1.csv", "id\n1\n")
    lake.ingest(raw, "runs.emptied", prefix="other/")
    raw.put("in/2.csv", "id\n2\n")

    def say(sentence: str) -> None:
        if sentence.startswith("committing"):
            lake.catalog.load_table("runs.emptied").delete()

    text = '[[check]]\nname = "all"\nsql = "select count(*) from target having count(*) < 2"\n'
    with pytest.raises(errors.CheckFailed, match="all"):
        runs.run(
            lake.server, pipeline_of(raw, "emptied", text), open_spark=lake.open_spark, say=say
        )
    assert lake.rows("runs.emptied") == []


@pytest.mark.spark
def test_a_check_that_is_wrong_leaves_no_file(lake: Lake, raw: Raw) -> None:
    raw.put("other/1.csv", "id\n1\n")
    lake.ingest(raw, "runs.wrong", prefix="other/")
    before = lake.state("runs.wrong")
    raw.put("in/2.csv", "id\n2\n")
    text = '[[check]]\nname = "typo"\nsql = "select nothing from target"\n'
    with pytest.raises(errors.BadArgument, match="check typo: "):
        runs.run(
            lake.server,
            pipeline_of(raw, "wrong", text),
            open_spark=lake.open_spark,
            say=lake.said.append,
        )
    assert lake.state("runs.wrong") == before


def test_the_places_of_a_file_are_those_of_a_command(raw: Raw) -> None:
    assert pipeline_of(raw, "places").load.places == (settings.parse_place(raw.uri("in/")),)


def test_a_history_reads_older_runs_only_for_as_many_as_it_wants(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(raw, "recent")
    raw.put("in/1.csv", "id\n1\n")
    kept, _ = runs.run(small.server, pipeline, open_spark=no_spark, say=small.said.append)
    run_ids = [kept.run_id]
    for days in (2, 3, 40):
        older = kept.started_at - datetime.timedelta(days=days)
        run_ids.append(f"recent-{days}")
        row = dataclasses.replace(kept, run_id=run_ids[-1], started_at=older)
        runs._append(small.server, "lake", row)

    def latest(limit: int) -> list[str]:
        rows = runs.history(small.server, "lake", pipeline="recent", limit=limit)
        return [row["run_id"] for row in rows]

    assert [latest(limit) for limit in (1, 2, 3, 4, 9)] == [
        run_ids[:1], run_ids[:2], run_ids[:3], run_ids, run_ids
    ]  # fmt: skip
    read: list[Any] = []
    rows = runs._rows

    def counted(*arguments: Any, **options: Any) -> Any:
        read.append(rows(*arguments, **options))
        return read[-1]

    monkeypatch.setattr(runs, "_rows", counted)
    assert latest(1) == run_ids[:1]
    assert [len(each) for each in read] == [1]
    properties = small.catalog.load_table("system.pipeline_runs").properties
    assert properties["commit.manifest-merge.enabled"] == "true"


def test_a_table_of_runs_that_does_not_fit_fails_no_run(small: Small, raw: Raw) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    sources.client(small.server, "s3tables").create_table_bucket(name="elsewhere-runs")
    catalog = load_catalog(
        "elsewhere-runs", **{**small.catalog.properties, "warehouse": "elsewhere-runs"}
    )
    catalog.create_namespace("system")
    catalog.create_table("system.pipeline_runs", Schema(NestedField(1, "id", LongType())))
    raw.put("in/1.csv", "id\n1\n")
    text = f'target = "elsewhere-runs.a.b"\n[source]\nfrom = ["{raw.uri("in/")}"]\n'
    said: list[str] = []
    answers: list[Any] = []
    kept, _ = runs.run(
        small.server,
        files.parse("p", text),
        open_spark=no_spark,
        say=said.append,
        around=runs.Surroundings(ended=answers.append),
    )
    assert kept.status == "succeeded"
    assert [each.get("has_row") for each in answers] == [None]
    assert said[-1].startswith(
        "the run could not be kept in system.pipeline_runs: system.pipeline_runs cannot be used: "
    )
