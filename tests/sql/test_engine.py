"""The engine's one interface: children and in-process alike, limits, cancelling, and the traps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from server import children
from sql import chunk_memory, engine, engine_datafusion, engine_inline, frames, ipc, outcomes
from storage import disk
from storage import errors as storage_errors
from tests.kit import processes
from tests.kit.waits import WAIT_SECONDS

ROWS = 20_000
POOL = chunk_memory.Pool(free_bytes_max=0)
SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("s", pa.string_view())]
)
HEAVY = "select count(*) from t a, t b, t c where (a.id * 7 + b.id * 11 + c.id * 13) % 1000003 = 5"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(2):
        start = number * ROWS // 2
        ids = range(start, start + ROWS // 2)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "v": pa.array([item % 10 for item in ids], pa.int64()),
                "s": pa.array([f"s{item % 3}" for item in ids]),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def relation(files: Path, name: str = "t") -> engine.Relation:
    schema = ipc.encode_schema(SCHEMA)
    group = engine.Group(directory=str(files), schema=schema)
    return engine.Relation(name=name, schema=schema, groups=(group,))


def with_engine(
    tmp_path: Path,
    work: Callable[[Any], Coroutine[Any, Any, Any]],
    *,
    workers: int = 1,
    **more: Any,
) -> Any:
    async def inside() -> Any:
        spill = tmp_path / "spill"
        spill.mkdir(exist_ok=True)
        query_engine: Any = (
            engine.WorkerEngine(workers=workers, spill_directory=spill, disk=disk.Disk(), **more)
            if workers
            else engine_inline.InlineEngine(spill_directory=spill)
        )
        try:
            return await work(query_engine)
        finally:
            await query_engine.close()

    return asyncio.run(inside())


def counting(files: Path) -> engine.EngineQuery:
    return engine.EngineQuery(text="select count(*) as n from t", relations=(relation(files),))


async def collected(query_engine: engine.Engine, query: engine.EngineQuery) -> list[dict[str, Any]]:
    table, _ = await engine.collect(await query_engine.run(query))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


async def fault_of(query_engine: engine.Engine, query: engine.EngineQuery) -> engine.EngineFault:
    with pytest.raises(engine.EngineFault) as caught:
        await collected(query_engine, query)
    return caught.value


async def computes(query_engine: engine.WorkerEngine, *running: asyncio.Task[Any]) -> None:
    """Return once a child has computed for as long as a query takes that is not heavy at all."""
    begun: dict[int, float] = {}
    while True:
        for process_id in query_engine.process_ids:
            spent = processes.cpu_seconds(process_id)
            if spent - begun.setdefault(process_id, spent) > 0.3:
                return
        assert not any(task.done() for task in running)
        await asyncio.sleep(0.01)


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("workers", [0, 1])
def test_a_query_over_files_gives_their_rows(tmp_path: Path, files: Path, workers: int) -> None:
    text = 'select "s", count(*) as n, sum("v") as v from t group by "s" order by "s"'

    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(text=text, relations=(relation(files),))
        expected = [
            {
                "s": f"s{rest}",
                "n": len(range(rest, ROWS, 3)),
                "v": sum(item % 10 for item in range(rest, ROWS, 3)),
            }
            for rest in range(3)
        ]
        assert await collected(query_engine, query) == expected

    with_engine(tmp_path, work, workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_describe_gives_the_schema_and_no_rows(tmp_path: Path, files: Path, workers: int) -> None:
    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(
            text='select "id", "s" from t', relations=(relation(files),), purpose="describe"
        )
        table, finished = await engine.collect(await query_engine.run(query))
        assert table.schema == pa.schema([("id", pa.int64()), ("s", pa.string())])
        assert (table.num_rows, finished.rows) == (0, 0)

    with_engine(tmp_path, work, workers=workers)


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (1, 2, 'x')",
        "update t set id = 1",
        "delete from t",
        "create table x as select 1",
        "create view x as select 1",
        "create external table x stored as parquet location '/etc'",
        "drop table t",
        "set datafusion.execution.batch_size = 1",
        "copy t to '/tmp/x.parquet'",
        "prepare p as select 1",
        "begin",
    ],
)
def test_whatever_is_no_query_is_refused_and_changes_nothing(
    tmp_path: Path, files: Path, text: str
) -> None:
    """Trap 1: the engine's own INSERT would put a file into the directory."""
    before = {path.name: path.read_bytes() for path in files.iterdir()}

    async def work(query_engine: engine.Engine) -> None:
        fault = await fault_of(
            query_engine, engine.EngineQuery(text=text, relations=(relation(files),))
        )
        assert fault.cause == "plan"

    with_engine(tmp_path, work, workers=0)

    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "file:///etc/passwd", "https://localhost/x.parquet", "secret.parquet"]
)
def test_a_path_as_a_table_name_reads_nothing(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "secret.parquet")

    async def work(query_engine: engine.Engine) -> None:
        target = str(tmp_path / name) if name == "secret.parquet" else name
        fault = await fault_of(query_engine, engine.EngineQuery(text=f'select * from "{target}"'))
        assert fault.cause == "plan"
        assert str(tmp_path) not in fault.message
        assert "/etc" not in fault.message

    with_engine(tmp_path, work, workers=0)


def test_a_schema_names_columns_in_the_files_own_case(tmp_path: Path) -> None:
    """Trap 2: another letter case reads NULL without a word; groups carry the files' own."""
    folder = tmp_path / "cased"
    folder.mkdir()
    pq.write_table(pa.table({"Id": pa.array([7], pa.int64())}), folder / "0.parquet")
    wrong, right = pa.schema([("id", pa.int64())]), pa.schema([("Id", pa.int64())])

    async def work(query_engine: engine.Engine) -> None:
        for schema, projection, expected in (
            (wrong, (), None),
            (right, (("id", '"Id"'),), 7),
        ):
            group = engine.Group(
                directory=str(folder), schema=ipc.encode_schema(schema), projection=projection
            )
            made_relation = engine.Relation(
                name="t", schema=ipc.encode_schema(wrong), groups=(group,)
            )
            query = engine.EngineQuery(text='select "id" from t', relations=(made_relation,))
            assert await collected(query_engine, query) == [{"id": expected}]

    with_engine(tmp_path, work, workers=0)


def test_groups_and_rows_of_one_relation_are_one_table(tmp_path: Path, files: Path) -> None:
    folder = tmp_path / "renamed"
    folder.mkdir()
    pq.write_table(pa.table({"old": pa.array([1, 2], pa.int32())}), folder / "0.parquet")
    groups = (
        relation(files).groups[0],
        engine.Group(
            directory=str(folder),
            schema=ipc.encode_schema(pa.schema([("old", pa.int64())])),
            projection=(("id", '"old"'), ("v", "arrow_cast(NULL, 'Int64')"), ("s", "'new'")),
        ),
    )
    rows = pa.table({"id": [-1], "v": [0], "s": pa.array(["row"], pa.string_view())})
    made_relation = engine.Relation(
        name="t",
        schema=ipc.encode_schema(SCHEMA),
        groups=groups,
        rows=ipc.encode_rows(rows),
    )

    async def work(query_engine: engine.Engine) -> None:
        text = 'select "id", "s" from t where "s" in (\'new\', \'row\') order by "id"'
        assert await collected(
            query_engine, engine.EngineQuery(text=text, relations=(made_relation,))
        ) == [
            {"id": -1, "s": "row"},
            {"id": 1, "s": "new"},
            {"id": 2, "s": "new"},
        ]
        count = engine.EngineQuery(text="select count(*) as n from t", relations=(made_relation,))
        assert await collected(query_engine, count) == [{"n": ROWS + 3}]

    with_engine(tmp_path, work, workers=0)


def test_a_child_answers_many_queries_and_stays_one_process(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        for _ in range(3):
            query = engine.EngineQuery(
                text="select count(*) as n from t", relations=(relation(files),)
            )
            assert await collected(query_engine, query) == [{"n": ROWS}]
        (process_id,) = query_engine.process_ids
        assert is_alive(process_id)
        await query_engine.close()
        assert not is_alive(process_id)

    with_engine(tmp_path, work)


def test_no_child_is_started_before_the_first_query(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        assert query_engine.process_ids == ()

    with_engine(tmp_path, work)


def test_as_many_children_as_there_are_workers_run_at_once(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        mine, other, last = (
            engine.EngineQuery(
                text='select * from t order by "id"',
                query_id=f"of {owner}",
                owner=owner,
                warehouse=warehouse,
                relations=(relation(files),),
            )
            for owner, warehouse in (("alice", "W"), ("bob", "V"), ("carol", "W"))
        )
        assert query_engine.counts() == engine.QueryCounts()
        first, second = await query_engine.run(mine), await query_engine.run(other)
        assert len(query_engine.process_ids) == 2
        waiting = asyncio.create_task(query_engine.run(last))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        assert query_engine.counts() == engine.QueryCounts(
            running={"W": 1, "V": 1}, waiting={"W": 1}, waiting_ids=frozenset({"of carol"})
        )
        await first.close()
        third = await asyncio.wait_for(waiting, WAIT_SECONDS)
        assert len(query_engine.process_ids) == 2
        await second.close()
        assert query_engine.counts().running == {"W": 1}
        await third.close()

    with_engine(tmp_path, work, workers=2)


LONG = "select count(*) from generate_series(1, 1000000000000) as g(n) where n % 7 = 9"


@pytest.mark.alone
@pytest.mark.parametrize(
    ("workers", "text"), [(0, LONG), (1, LONG), pytest.param(1, HEAVY, marks=pytest.mark.further)]
)
def test_an_overrunning_query_ends_and_the_next_one_runs(
    tmp_path: Path, files: Path, workers: int, text: str
) -> None:
    async def work(query_engine: engine.Engine) -> None:
        heavy = engine.EngineQuery(
            text=text, relations=(relation(files),), limits=engine.QueryBounds(seconds=0.5)
        )
        light = engine.EngineQuery(text="select 1 as a")
        assert await collected(query_engine, light) == [{"a": 1}], "starts the child, unmeasured"
        started = time.monotonic()
        fault = await fault_of(query_engine, heavy)
        assert fault.cause == "timed_out"
        assert time.monotonic() - started < 15
        assert await collected(query_engine, light) == [{"a": 1}]

    with_engine(tmp_path, work, workers=workers)


def test_a_query_that_will_not_stop_ends_with_its_process(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        await collected(query_engine, engine.EngineQuery(text="select 1 as a"))
        (before,) = query_engine.process_ids
        os.kill(before, 19)  # SIGSTOP: nothing it is asked will be heard
        heavy = engine.EngineQuery(
            text="select 1 as a", query_id="stuck", limits=engine.QueryBounds(seconds=0.2)
        )
        fault = await fault_of(query_engine, heavy)
        assert fault.cause == "timed_out"
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]
        assert query_engine.process_ids != (before,)
        assert not is_alive(before)

    with_engine(tmp_path, work)


def test_cancel_by_id_ends_the_query_and_says_whether_there_was_one(
    tmp_path: Path, files: Path
) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        query = engine.EngineQuery(text=HEAVY, query_id="q1", relations=(relation(files),))
        running = asyncio.create_task(fault_of(query_engine, query))
        assert not await query_engine.cancel("other")
        while not await query_engine.cancel("q1"):
            await asyncio.wait({running}, timeout=0.01)
        assert (await asyncio.wait_for(running, WAIT_SECONDS)).cause == "canceled"
        assert await collected(query_engine, engine.EngineQuery(text="select 1 as a")) == [{"a": 1}]

    with_engine(tmp_path, work)


def test_closing_half_read_results_frees_the_child(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        query = engine.EngineQuery(
            text="select a.* from t a, t b", relations=(relation(files),), query_id="big"
        )
        results = await query_engine.run(query)
        async for batch in results.batches():
            assert batch.num_rows
            break
        await results.close()
        await results.close()
        assert await collected(query_engine, engine.EngineQuery(text="select 1 as a")) == [{"a": 1}]

    with_engine(tmp_path, work)


MANY = "select g.n as a from generate_series(1, {}) as g(n)"
NUMBERS = (outcomes.Column(name="A", type="fixed", precision=19, scale=0),)


async def encoding(query_engine: engine.WorkerEngine, rows: int, **more: Any) -> engine.Results:
    query = engine.EngineQuery(text=MANY.format(rows), **more)
    results = await query_engine.run(query)
    results.encode(NUMBERS)
    return results


async def first_chunk(groups: Any) -> outcomes.EncodedRows:
    async for group in groups:
        if isinstance(group, outcomes.EncodedRows):
            return group
    raise AssertionError("no chunk came")


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_that_may_be_encoded_are_the_same_rows(tmp_path: Path, workers: int) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        results = await encoding(query_engine, 700_000)
        numbers: list[int] = []
        chunks = 0
        async for group in results.row_groups():
            if isinstance(group, outcomes.EncodedRows):
                chunks += 1
                with pa.ipc.open_stream(group.data) as stream:
                    table = stream.read_all()
                assert table.num_rows == group.rows
                numbers += table.column("A").to_pylist()
            else:
                numbers += group.column(0).to_pylist()
        assert numbers == list(range(1, 700_001))
        assert results.finished.rows == 700_000
        assert bool(chunks) == bool(workers)

    with_engine(tmp_path, work, workers=workers)


def test_batches_are_batches_where_nothing_was_said_of_encoding(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        query = engine.EngineQuery(text=MANY.format(300_000))
        table, _ = await engine.collect(await query_engine.run(query))
        assert table.num_rows == 300_000

    with_engine(tmp_path, work)


def test_chunks_that_are_not_read_leave_the_child_to_the_next_query(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        results = await encoding(query_engine, 10**12)
        groups = results.row_groups()
        await first_chunk(groups)
        before = query_engine.process_ids
        await asyncio.wait_for(results.close(), WAIT_SECONDS)
        assert await collected(query_engine, engine.EngineQuery(text="select 1 as a")) == [{"a": 1}]
        assert query_engine.process_ids == before

    with_engine(tmp_path, work)


def test_a_task_that_is_cancelled_while_chunks_come_leaves_them_whole(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        for _ in range(5):
            results = await encoding(query_engine, 10**12)
            came = asyncio.Event()

            async def read(results: engine.Results = results, came: asyncio.Event = came) -> None:
                async with contextlib.aclosing(results.row_groups()) as groups:  # type: ignore[type-var]  # it is a generator
                    async for group in groups:
                        if isinstance(group, outcomes.EncodedRows):
                            came.set()

            reading = asyncio.create_task(read())
            await asyncio.wait_for(came.wait(), WAIT_SECONDS)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(reading, WAIT_SECONDS)
        table, _ = await engine.collect(
            await query_engine.run(engine.EngineQuery(text=MANY.format(300_000)))
        )
        assert table.column(0).to_pylist() == list(range(1, 300_001))

    with_engine(tmp_path, work)


def test_a_child_that_dies_while_chunks_come_is_a_fault(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        results = await encoding(query_engine, 10**12)
        groups = results.row_groups()
        await first_chunk(groups)
        (process_id,) = query_engine.process_ids
        os.kill(process_id, 9)
        with pytest.raises(engine.EngineFault) as caught:
            async for _ in groups:
                pass
        assert caught.value.cause == "crashed"
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]

    with_engine(tmp_path, work)


def test_a_fault_after_chunks_is_the_querys(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        text = f"select 1 / (n - 600000) as a from ({MANY.format(10**7).replace('as a', 'as n')})"
        results = await query_engine.run(engine.EngineQuery(text=text))
        results.encode(NUMBERS)
        with pytest.raises(engine.EngineFault) as caught:
            async for _ in results.row_groups():
                pass
        assert (caught.value.cause, caught.value.code) == ("value", "100051")
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]

    with_engine(tmp_path, work)


def test_an_engine_closes_while_a_child_sends_a_chunk(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        results = await encoding(query_engine, 10**12)
        await first_chunk(results.row_groups())
        (process_id,) = query_engine.process_ids
        await asyncio.wait_for(query_engine.close(), WAIT_SECONDS)
        assert not is_alive(process_id)

    with_engine(tmp_path, work)


def test_a_cancelled_task_frees_the_child(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        query = engine.EngineQuery(text=HEAVY, relations=(relation(files),))
        running = asyncio.create_task(collected(query_engine, query))
        await computes(query_engine, running)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        again = collected(query_engine, engine.EngineQuery(text="select 1 as a"))
        assert await asyncio.wait_for(again, WAIT_SECONDS) == [{"a": 1}]

    with_engine(tmp_path, work)


def test_a_dying_child_is_a_fault_and_is_replaced(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        await collected(query_engine, engine.EngineQuery(text="select 1 as a"))
        (process_id,) = query_engine.process_ids
        query = engine.EngineQuery(text=HEAVY, relations=(relation(files),))
        running = asyncio.create_task(fault_of(query_engine, query))
        await computes(query_engine, running)
        os.kill(process_id, 9)
        assert (await asyncio.wait_for(running, WAIT_SECONDS)).cause == "crashed"
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]

    with_engine(tmp_path, work)


def doubling(levels: int) -> str:
    """A query whose plan has 2 ** levels relations, from a text that names two in each level."""
    parts = ["c0 as (select 1 a)"]
    parts += [f"c{n} as (select x.a from c{n - 1} x, c{n - 1} y)" for n in range(1, levels + 1)]
    return f"with {', '.join(parts)} select count(*) as n from c{levels}"


def test_planning_beyond_memory_is_a_fault_and_the_child_is_replaced(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        fault = await fault_of(query_engine, engine.EngineQuery(text=doubling(24)))
        assert (fault.cause, fault.message) == ("resources", "not enough memory for this query")
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]

    with_engine(tmp_path, work, memory_bytes=64 << 20)


@pytest.mark.campaign
@pytest.mark.alone
def test_planning_that_takes_too_long_ends_with_its_process(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        await collected(query_engine, engine.EngineQuery(text="select 1 as a"))
        started = time.monotonic()
        fault = await fault_of(query_engine, engine.EngineQuery(text=doubling(18)))
        assert (fault.cause, fault.message) == ("planning", "planning took longer than 2 seconds")
        assert time.monotonic() - started < 5
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]

    with_engine(tmp_path, work, planning_seconds_max=2)


def test_the_time_limit_of_a_query_covers_its_planning(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        await collected(query_engine, engine.EngineQuery(text="select 1 as a"))
        query = engine.EngineQuery(text=doubling(16), limits=engine.QueryBounds(seconds=0.5))
        assert (await fault_of(query_engine, query)).cause == "timed_out"

    with_engine(tmp_path, work)


def test_queries_of_one_owner_leave_a_child_to_others(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        heavy = [
            engine.EngineQuery(
                text=HEAVY, owner="alice", query_id=f"heavy{n}", relations=(relation(files),)
            )
            for n in range(3)
        ]
        running = [asyncio.create_task(fault_of(query_engine, query)) for query in heavy]
        await computes(query_engine, *running)
        for n in range(2):
            light = engine.EngineQuery(text=f"select {n} as a", owner="bob")
            assert await asyncio.wait_for(collected(query_engine, light), WAIT_SECONDS) == [
                {"a": n}
            ]
        assert not any(task.done() for task in running)
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    with_engine(tmp_path, work, workers=2)


def test_turns_are_given_in_order_of_arrival_but_for_an_owner_with_enough() -> None:
    async def work() -> None:
        turns = engine.Turns(3)
        order: list[str] = []

        async def take(owner: str) -> None:
            await turns.take(owner)
            order.append(owner)

        waiting = [asyncio.create_task(take(owner)) for owner in ("a", "a", "a", "b", "b", "c")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["a", "a", "b"]
        turns.give_back("b")
        await asyncio.sleep(0)
        assert order == ["a", "a", "b", "b"]
        waiting[2].cancel()
        await asyncio.wait({waiting[2]})
        turns.give_back("a")
        await asyncio.sleep(0)
        assert order == ["a", "a", "b", "b", "c"]

    asyncio.run(work())


def test_an_owner_with_too_many_waiting_queries_is_refused_and_others_are_not() -> None:
    async def work() -> None:
        turns = engine.Turns(1)
        await turns.take("alice")
        waiting = [asyncio.create_task(turns.take("alice")) for _ in range(100)]
        await asyncio.sleep(0)
        with pytest.raises(engine.EngineFault) as caught:
            await turns.take("alice")
        assert caught.value.cause == "busy"
        other = asyncio.create_task(turns.take("bob"))
        await asyncio.sleep(0)
        assert not other.done()
        for task in (*waiting, other):
            task.cancel()
        await asyncio.wait((*waiting, other))

    asyncio.run(work())


class HeldDisk(disk.Disk):
    """Makes a folder when it is let, so that a start can be caught in its middle."""

    def __init__(self) -> None:
        self.is_asked, self.may = threading.Event(), threading.Event()

    def make_folder(self, path: Path) -> None:
        self.is_asked.set()
        assert self.may.wait(WAIT_SECONDS)
        super().make_folder(path)


class KeepingDisk(disk.Disk):
    """Cannot remove anything."""

    def remove_tree(self, path: Path) -> None:
        raise PermissionError(f"{path.name} stays")


def test_a_child_that_starts_while_the_engine_closes_does_not_outlive_it(tmp_path: Path) -> None:
    held = HeldDisk()

    async def work() -> None:
        query_engine = engine.WorkerEngine(workers=1, spill_directory=tmp_path, disk=held)
        running = asyncio.create_task(
            fault_of(query_engine, engine.EngineQuery(text="select 1 as a"))
        )
        assert await asyncio.to_thread(held.is_asked.wait, 20)
        await query_engine.close()
        held.may.set()
        try:
            assert (await asyncio.wait_for(running, WAIT_SECONDS)).cause == "canceled"
            assert query_engine.process_ids == ()
        finally:
            await query_engine.close()

    asyncio.run(work())
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_cannot_be_started_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))

    async def work(query_engine: engine.WorkerEngine) -> None:
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                await query_engine.run(engine.EngineQuery(text="select 1 as a"))

    with_engine(tmp_path, work)
    assert list((tmp_path / "spill").iterdir()) == []


def test_an_engine_closes_all_children_though_a_folder_cannot_be_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        query_engine = engine.WorkerEngine(workers=2, spill_directory=tmp_path, disk=KeepingDisk())
        queries = [
            engine.EngineQuery(text="select 1 as a", owner=owner) for owner in ("alice", "bob")
        ]
        running = [await query_engine.run(query) for query in queries]
        process_ids = query_engine.process_ids
        for results in running:
            await engine.collect(results)
        await query_engine.close()
        assert len(process_ids) == 2
        assert not any(is_alive(process_id) for process_id in process_ids)

    asyncio.run(work())
    messages = sorted(
        record.getMessage() for record in caplog.records if record.name == "boathouse.sql.engine"
    )
    assert messages == [
        "folder sql-1 could not be removed: sql-1 stays",
        "folder sql-2 could not be removed: sql-2 stays",
    ]


def test_a_child_started_ahead_runs_the_first_query(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> tuple[Any, ...]:
        query_engine.start_ahead()
        query_engine.start_ahead()
        while not (ahead := query_engine.process_ids):  # noqa: ASYNC110 - a process offers no event
            await asyncio.sleep(0.01)
        rows = await collected(query_engine, counting(files))
        query_engine.start_ahead()
        return ahead, query_engine.process_ids, rows

    ahead, after, rows = with_engine(tmp_path, work, workers=2)
    assert len(ahead) == 1
    assert (after, rows) == (ahead, [{"n": ROWS}])


def test_no_child_is_started_ahead_beside_one_that_a_query_starts(
    tmp_path: Path, files: Path
) -> None:
    async def work(query_engine: engine.WorkerEngine) -> tuple[int, ...]:
        running = asyncio.ensure_future(collected(query_engine, counting(files)))
        await asyncio.sleep(0)
        query_engine.start_ahead()
        await running
        return query_engine.process_ids

    assert len(with_engine(tmp_path, work)) == 1


def test_a_child_is_started_ahead_where_the_others_have_died(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> list[dict[str, Any]]:
        query_engine.start_ahead()
        while not (first := query_engine.process_ids):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        os.kill(*first, 9)
        while is_alive(*first):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        query_engine.start_ahead()
        while not set(query_engine.process_ids) - set(first):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        return await collected(query_engine, counting(files))

    assert with_engine(tmp_path, work) == [{"n": ROWS}]


def test_a_query_that_comes_while_a_child_is_started_ahead_waits_for_that_child(
    tmp_path: Path, files: Path
) -> None:
    async def work(query_engine: engine.WorkerEngine) -> tuple[Any, ...]:
        query_engine.start_ahead()
        rows = await collected(query_engine, counting(files))
        return query_engine.process_ids, rows

    process_ids, rows = with_engine(tmp_path, work, workers=2)
    assert (len(process_ids), rows) == (1, [{"n": ROWS}])


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_an_engine_that_is_closed_while_it_starts_a_child_ahead_leaves_none(
    tmp_path: Path, seconds: float
) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        query_engine.start_ahead()
        await asyncio.sleep(seconds)

    with_engine(tmp_path, work)
    listed = ["ps", "-axo", "args="]
    shown = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in shown


def test_a_child_that_cannot_be_started_ahead_is_started_by_the_first_query(
    tmp_path: Path, files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError("no more processes")]

    async def work(query_engine: engine.WorkerEngine) -> list[dict[str, Any]]:
        start = query_engine._start

        async def start_or_fail(folder: Path) -> children.Child:
            if failures:
                raise failures.pop()
            return await start(folder)

        query_engine._start = start_or_fail
        query_engine.start_ahead()
        return await collected(query_engine, counting(files))

    assert with_engine(tmp_path, work) == [{"n": ROWS}]
    assert "no more processes" in caplog.text


def test_a_child_that_died_at_rest_costs_no_query(tmp_path: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        for number in range(5):
            query = engine.EngineQuery(text=f"select {number} as a")
            assert await collected(query_engine, query) == [{"a": number}]
            (process_id,) = query_engine.process_ids
            os.kill(process_id, 9)
            # The loop shall hear of it only with the next query.
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - as said

    with_engine(tmp_path, work)


def test_the_event_loop_goes_on_while_a_query_runs(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.WorkerEngine) -> None:
        await collected(query_engine, engine.EngineQuery(text="select 1 as a"))
        query = engine.EngineQuery(
            text=HEAVY, relations=(relation(files),), limits=engine.QueryBounds(seconds=60)
        )
        running = asyncio.create_task(fault_of(query_engine, query))
        await computes(query_engine, running)
        for _ in range(100):
            await asyncio.sleep(0.005)
            # A loop that waits for the query makes its next step when the query's time is over.
            assert not running.done()
        running.cancel()
        await asyncio.wait({running})

    with_engine(tmp_path, work)


WIDE_ROWS = 800_000


def wide_relation(tmp_path: Path) -> engine.Relation:
    folder = tmp_path / "wide"
    folder.mkdir()
    table = pa.table(
        {
            "id": pa.array(range(WIDE_ROWS), pa.int64()),
            "text": pa.array(
                [f"{(item * 7919) % WIDE_ROWS:012d}" * 4 for item in range(WIDE_ROWS)]
            ),
        }
    )
    pq.write_table(table, folder / "0.parquet", row_group_size=50_000)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string_view())])
    group = engine.Group(directory=str(folder), schema=ipc.encode_schema(schema))
    return engine.Relation(name="t", schema=ipc.encode_schema(schema), groups=(group,))


@pytest.mark.parametrize(
    "memory_mib", [24, *(pytest.param(more, marks=pytest.mark.long) for more in (44, 64))]
)
def test_a_sort_beyond_the_memory_pool_spills_and_answers(tmp_path: Path, memory_mib: int) -> None:
    made_relation = wide_relation(tmp_path)

    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(
            text='select "id" from t order by "text"',
            relations=(made_relation,),
            limits=engine.QueryBounds(memory_bytes=memory_mib << 20),
        )
        table, finished = await engine.collect(await query_engine.run(query))
        assert finished.rows == WIDE_ROWS
        ordered = [(item * 7919) % WIDE_ROWS for item in table["id"].to_pylist()]
        assert ordered == list(range(WIDE_ROWS))

    with_engine(tmp_path, work)


@pytest.mark.parametrize("deaf", [False, True])
def test_what_a_killed_query_spilled_to_disk_goes_with_its_process(
    tmp_path: Path, deaf: bool
) -> None:
    made_relation = wide_relation(tmp_path)
    spill = tmp_path / "spill"

    async def work(query_engine: engine.WorkerEngine) -> None:
        query = engine.EngineQuery(
            text='select * from t order by "text"',
            query_id="big",
            relations=(made_relation,),
            limits=engine.QueryBounds(memory_bytes=24 << 20),
        )
        results = await query_engine.run(query)
        async for _ in results.batches():
            break
        assert any(path.is_file() and path.stat().st_size for path in spill.rglob("*"))
        (before,) = query_engine.process_ids
        if deaf:
            os.kill(before, 19)  # SIGSTOP: it hears no cancelling, and is killed for that
            await query_engine.cancel("big")
        else:
            os.kill(before, 9)
        await results.close()
        while holds_files(spill):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
        assert await collected(query_engine, engine.EngineQuery(text="select 2 as a")) == [{"a": 2}]
        await query_engine.close()
        assert list(spill.iterdir()) == []

    with_engine(tmp_path, lambda query_engine: asyncio.wait_for(work(query_engine), WAIT_SECONDS))


def holds_files(folder: Path) -> bool:
    """Say whether a folder that is being removed still holds a file."""
    try:
        return any(path.is_file() for path in folder.rglob("*"))
    except FileNotFoundError:
        return True  # a folder went while it was being read: look again


def test_too_little_memory_is_a_fault_of_its_own(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(
            text='select count(*) from t a join t b on a."id" = b."id" join t c on b."v" = c."v"',
            relations=(relation(files),),
            limits=engine.QueryBounds(memory_bytes=1 << 10),
        )
        assert (await fault_of(query_engine, query)).cause == "resources"

    with_engine(tmp_path, work, workers=0)


def test_more_rows_than_allowed_are_a_fault(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(
            text="select * from t",
            relations=(relation(files),),
            limits=engine.QueryBounds(rows_max=100),
        )
        assert (await fault_of(query_engine, query)).cause == "resources"

    with_engine(tmp_path, work, workers=0)


def test_footers_tell_columns_with_their_field_ids(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    field = pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"})
    pq.write_table(pa.table([[1]], schema=pa.schema([field])), path)

    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(purpose="footers", paths=(str(path),))
        (row,) = await collected(query_engine, query)
        schema = pa.ipc.read_schema(pa.py_buffer(row["schema"]))
        assert row["path"] == str(path)
        assert schema.field("a").metadata[b"PARQUET:field_id"] == b"7"

    with_engine(tmp_path, work, workers=1)
    with_engine(tmp_path, work, workers=0)


def test_an_explained_plan_shows_no_path(tmp_path: Path, files: Path) -> None:
    async def work(query_engine: engine.Engine) -> None:
        query = engine.EngineQuery(
            text='select * from t where "id" = 5', relations=(relation(files),), purpose="explain"
        )
        text = "\n".join(row["plan"] for row in await collected(query_engine, query))
        assert "DataSourceExec" in text
        assert "predicate" in text
        assert str(files).strip("/") not in text

    with_engine(tmp_path, work, workers=0)


def test_nested_values_come_back_as_json_text(tmp_path: Path) -> None:
    folder = tmp_path / "nested"
    folder.mkdir()
    struct_type = pa.struct([("b", pa.int64()), ("a", pa.list_(pa.string()))])
    rows = pa.array([{"b": 1, "a": ["x", None]}, None], struct_type)
    pq.write_table(pa.table({"n": rows}), folder / "0.parquet")
    schema = pa.schema([("n", struct_type)])
    group = engine.Group(directory=str(folder), schema=ipc.encode_schema(schema))

    async def work(query_engine: engine.Engine) -> None:
        made_relation = engine.Relation(name="t", schema=ipc.encode_schema(schema), groups=(group,))
        query = engine.EngineQuery(text='select "n" from t', relations=(made_relation,))
        rows = await collected(query_engine, query)
        assert rows == [{"n": '{"a":["x",null],"b":1}'}, {"n": None}]

    with_engine(tmp_path, work, workers=0)


def test_a_child_starts_though_its_disk_is_full_and_leaves_no_folder(
    tmp_path: Path, files: Path
) -> None:
    spares: list[Path] = []

    class FullDisk(disk.Disk):
        def make_folder(self, path: Path) -> None:
            raise storage_errors.DiskFull("no room")

        def spare_folder(self) -> Path:
            spares.append(super().spare_folder())
            return spares[-1]

    async def work() -> None:
        query_engine = engine.WorkerEngine(
            workers=1, spill_directory=tmp_path / "full", disk=FullDisk()
        )
        try:
            query = engine.EngineQuery(
                text='select count(*) as "n" from t', relations=(relation(files),)
            )
            (row,) = await collected(query_engine, query)
            assert row["n"] > 0
        finally:
            await query_engine.close()

    asyncio.run(work())
    (spare,) = spares
    assert not spare.exists()


class PanicException(BaseException):
    """As the execution library raises it: no Exception."""


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_panic_while_a_query_is_planned_is_a_fault_of_its_form(in_thread: bool) -> None:
    class Frame:
        def execute_stream(self) -> None:
            raise PanicException("internal error: entered unreachable code")

    async def work() -> engine.EngineFault:
        query = engine.EngineQuery(text="select 1", purpose="run")
        run = engine_datafusion.Run(
            query, Frame(), pa.schema([]), in_thread=in_thread, at_end=lambda: None
        )
        with pytest.raises(engine.EngineFault) as caught:
            await run.prepare()
        return caught.value

    assert asyncio.run(work()).cause == "plan"


def test_a_panic_while_a_query_runs_is_a_fault() -> None:
    fault = engine_datafusion.fault_of(PanicException("attempt to subtract with overflow"))
    assert fault.cause == "panicked"


@pytest.mark.parametrize("step", ["death", "close"])
def test_child_whose_process_ends_while_its_waiter_is_cancelled_lets_the_cancel_through(
    step: str,
) -> None:
    async def inside() -> bool:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        class Process:
            returncode = 0

            async def wait(self) -> int:
                return await ended

        class Writer:
            def close(self) -> None: ...

        child: Any = children.Child(
            process=Process(),  # type: ignore[arg-type]  # ends when the test says so
            reader=asyncio.StreamReader(),
            writer=Writer(),  # type: ignore[arg-type]  # no socket
        )
        waiting = asyncio.create_task(getattr(engine._Child(child, POOL), step)())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.set_result(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert asyncio.run(inside())


def test_a_socket_stays_open_while_a_thread_receives_a_chunk_of_a_child_that_ended() -> None:
    async def inside() -> tuple[bool, bool]:
        class Process:
            returncode = -9

            async def wait(self) -> int:
                return self.returncode

        reader = asyncio.StreamReader()
        ours, theirs = socket.socketpair()
        ended: Any = engine._Child(
            children.Child(
                process=Process(),  # type: ignore[arg-type]  # has ended
                reader=reader,
                writer=None,  # type: ignore[arg-type]  # nothing is sent
                bulk=ours,
            ),
            POOL,
        )
        for piece in frames.encode(frames.FrameType.CHUNK, msgspec.msgpack.encode((1, 9))):
            reader.feed_data(bytes(piece))
        receiving = asyncio.create_task(ended.next())
        await asyncio.sleep(0)
        assert ended._arriving is not None
        receiving.cancel()
        waiting = asyncio.create_task(ended.wait())
        await asyncio.wait([waiting], timeout=0.1)
        is_open = ours.fileno() >= 0
        theirs.close()
        await asyncio.wait_for(waiting, WAIT_SECONDS)
        with pytest.raises(ConnectionError):
            await ended.next()
        return is_open, ours.fileno() < 0

    assert asyncio.run(inside()) == (True, True)
