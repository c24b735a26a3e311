"""kill -9 of jobs that rewrite a table: it is as before or as after, and a repeat completes it.

The kit is that of `test_killed`: a job as its user starts it, against a door that closes at the
chosen request as the process group is killed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import expiry, files, maintenance, runs, settings
from tests.kit import server as server_kit
from tests.pipeline import wire
from tests.pipeline.lake import Lake, Raw, Small
from tests.pipeline.test_killed import (
    Job,
    _commits,
    _reads_a_source,
    _writes_a_manifest,
    _writes_data,
)

SIZES = ("files", "snapshots", "manifests")


@dataclass(frozen=True, kw_only=True)
class TableState:
    """What a reader sees of a table: its rows, and how many files, snapshots and manifests."""

    rows: list[tuple[int, str]]
    files: int
    snapshots: int
    manifests: int


BEFORE = TableState(rows=[(0, "a"), (1, "a"), (2, "a")], files=3, snapshots=3, manifests=3)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A job: its arguments, what it changes of a table, and the names of moments to kill it at."""

    arguments: Callable[[str, Raw], tuple[str, ...]]
    changes: dict[str, object]
    moments: tuple[str, ...]
    engine: settings.Engine = "spark"


def deletes_files(method: str, path: str) -> bool:
    """Say whether a request deletes files of the table."""
    return (method == "POST" and "delete" in path.partition("?")[2]) or method == "DELETE"


MOMENTS = {
    "as it reads a source": (_reads_a_source, "before", False),
    "with a data file written": (_writes_data, "after", False),
    "ahead of a manifest": (_writes_a_manifest, "before", False),
    "with its commit on the way": (_commits, "before", False),
    "with its commit made and the answer lost": (_commits, "after", True),
    "as it deletes files": (deletes_files, "before", True),
}
"""By name the request at which a job is killed, whether before or after the server took it, and
whether its commit was made by then."""
LOADING = tuple(MOMENTS)[:5]


def loading(*options: str) -> Callable[[str, Raw], tuple[str, ...]]:
    return lambda table, raw: (
        "ingest", "--from", raw.uri("in/next"), "--to", f"lake.{table}", *options
    )  # fmt: skip


OPERATIONS = {
    "merge": Operation(
        arguments=loading("--mode", "merge", "--key", "id", "--engine", "spark"),
        changes={"rows": [(0, "a"), (1, "a"), (2, "b"), (3, "b")]},
        moments=LOADING,
    ),
    "merge without Spark": Operation(
        arguments=loading("--mode", "merge", "--key", "id", "--engine", "arrow"),
        changes={"rows": [(0, "a"), (1, "a"), (2, "b"), (3, "b")]},
        moments=LOADING,
        engine="arrow",
    ),
    "replace": Operation(
        arguments=loading("--mode", "replace", "--engine", "spark"),
        changes={"rows": [(2, "b"), (3, "b")]},
        moments=LOADING,
    ),
    "replace without Spark": Operation(
        arguments=loading("--mode", "replace", "--engine", "arrow"),
        changes={"rows": [(2, "b"), (3, "b")]},
        moments=LOADING,
        engine="arrow",
    ),
    "checks": Operation(
        arguments=lambda table, raw: ("run", "checked"),
        changes={"rows": [(0, "a"), (1, "a"), (2, "a"), (2, "b"), (3, "b")]},
        moments=LOADING,
    ),
    "compact": Operation(
        arguments=lambda table, raw: (
            "compact", "--table", f"lake.{table}", "--min-input-files", "2"
        ),
        changes={"files": 1},
        moments=tuple(MOMENTS)[1:5],
    ),
    "expire": Operation(
        arguments=lambda table, raw: (
            "expire", "--table", f"lake.{table}", "--older-than", "0h", "--retain-last", "1"
        ),
        changes={"snapshots": 1},
        moments=tuple(MOMENTS)[3:],
    ),
    "manifests": Operation(
        arguments=lambda table, raw: ("manifests", "--table", f"lake.{table}"),
        changes={"manifests": 1},
        moments=tuple(MOMENTS)[2:5],
    ),
}  # fmt: skip
EVERY_RUN = {
    ("compact", "with its commit made and the answer lost"),
    ("merge without Spark", "ahead of a manifest"),
    ("replace without Spark", "with a data file written"),
    ("replace without Spark", "with its commit made and the answer lost"),
}
FURTHER = ("replace without Spark", "with a data file written")
"""One of EVERY_RUN that `make test` leaves out."""


def marks(name: str, moment: str) -> list[pytest.MarkDecorator]:
    of_spark = [pytest.mark.spark] * (OPERATIONS[name].engine == "spark")
    further = [pytest.mark.further] * ((name, moment) == FURTHER)
    return of_spark + further + [pytest.mark.long] * ((name, moment) not in EVERY_RUN)


CASES = [
    pytest.param(name, moment, marks=marks(name, moment))
    for name, operation in OPERATIONS.items()
    for moment in operation.moments
]


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_a_job_killed_at_any_moment_leaves_the_table_as_before_or_after_and_a_repeat_completes_it(
    request: pytest.FixtureRequest,
    server: server_kit.Running,
    small: Small,
    raw: Raw,
    tmp_path: Path,
    name: str,
    moment: str,
) -> None:
    operation = OPERATIONS[name]
    matches, side, committed = MOMENTS[moment]
    number = [case.values for case in CASES].index((name, moment))
    table = f"killed_tables_{number}.t"
    for row in range(3):
        raw.put(f"in/{row}.csv", f"id,name\n{row},a\n")
        small.ingest(raw, table, prefix=f"in/{row}.csv")
    assert state(small, table) == BEFORE
    raw.put("in/next.csv", "id,name\n2,b\n3,b\n")
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    text = pipeline_text(table, raw)
    (pipelines / "checked.toml").write_text(text)

    job = Job(tmp_path, server, engine=operation.engine)

    def strike(method: str, path: str) -> bool:
        if not matches(method, path):
            return False
        # First the door: between the kill and its closing another request could still pass.
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    with wire.door(server.url, **watches) as door:
        arguments = operation.arguments(table, raw)
        here = ("--pipelines", str(pipelines)) if arguments[0] == "run" else ()
        master = () if operation.engine == "arrow" else ("--master", "local[2]")
        said = job.run_command(*arguments, *here, "--url", door.url, *master)
        assert door.closed.is_set(), f"the moment never came:\n{said}\n{door.passed}"
    if operation.engine == "spark":
        job.wait_until_gone()
    assert job.secrets_left() == []

    killed = state(small, table)
    if committed:
        assert_after(killed, operation)
    else:
        assert killed == BEFORE

    lake = None if operation.engine == "arrow" else request.getfixturevalue("lake")
    repeat(name, table, raw, text, small, lake)
    assert_after(state(small, table), operation)


def assert_after(seen: TableState, operation: Operation) -> None:
    """Fail unless a table is as the operation leaves it."""
    assert seen.rows == operation.changes.get("rows", BEFORE.rows)
    for size in SIZES:
        if size in operation.changes:
            assert getattr(seen, size) == operation.changes[size]


def state(small: Small, table: str) -> TableState:
    loaded = small.catalog.load_table(table)
    snapshot = loaded.current_snapshot()
    rows = loaded.scan().to_arrow().to_pylist()
    return TableState(
        rows=sorted((row["id"], row["name"]) for row in rows),
        files=len(list(loaded.scan().plan_files())),
        snapshots=len(loaded.metadata.snapshots),
        manifests=len(snapshot.manifests(loaded.io)),
    )


def pipeline_text(table: str, raw: Raw) -> str:
    return (
        f'target = "lake.{table}"\n[source]\nfrom = ["{raw.uri("in/next")}"]\n'
        '[[transform]]\nname = "t"\nsql = "select id, name from source"\n'
        '[[check]]\nname = "ids"\nsql = "select * from target where id is null"\n'
    )


def repeat(name: str, table: str, raw: Raw, text: str, small: Small, lake: Lake | None) -> None:
    """Do the killed job again, in the session of the tests."""
    merge = files.merge("merge", key=("id",), order_by=None, delete_flag=None, names=files.FLAGS)
    if lake is None:
        is_merge = name.startswith("merge")
        changes = {"mode": "merge", "merge": merge} if is_merge else {"mode": "replace"}
        small.ingest(raw, table, prefix="in/next", **changes)
        return
    target = settings.parse_table(f"lake.{table}")
    now = datetime.datetime.now(datetime.UTC)
    match name:
        case "merge":
            lake.ingest(raw, table, prefix="in/next", mode="merge", merge=merge)
        case "replace":
            lake.ingest(raw, table, prefix="in/next", mode="replace")
        case "checks":
            pipeline = files.parse("checked", text)
            runs.run(lake.server, pipeline, open_spark=lake.open_spark, say=lake.said.append)
        case "compact":
            maintenance.compact(
                target,
                target_file_size_mib=512,
                min_input_files=2,
                open_spark=lake.open_spark,
                say=lake.said.append,
            )
        case "expire":
            expiry.run(target, older_than=now, retain_last=1, open_spark=lake.open_spark)
        case "manifests":
            maintenance.rewrite_manifests(target, open_spark=lake.open_spark)
