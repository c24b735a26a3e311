"""Reading statements: small ones here, large ones in a child that can be killed."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
import pytest

from sql import bindings, compiler, errors, inputs, ipc, limits
from sql.dialect import expressions, operations, shapes, sqltypes
from tests.kit import sql_text

SMALL = "select a, 1 as b from t where a > 1"
LARGE = f"select a, 1 as b from t where a in ({', '.join(map(str, range(2_000)))})"


def environment(columns: int = 1, **more: Any) -> shapes.Environment:
    shape = shapes.TableShape(
        relation="0:T",
        path=("lake", "ns", "t"),
        columns=tuple(
            shapes.ShapeColumn(name=f"a{n}" if n else "a", type=sqltypes.integer())
            for n in range(columns)
        ),
    )
    return shapes.Environment(
        context=sql_text.context(),
        tables=(shape,),
        columns_max=limits.COLUMNS_HERE_MAX,
        **more,
    )


def with_compiler(
    work: Callable[[compiler.Compiler], Coroutine[Any, Any, Any]],
    *,
    children: int = 1,
    **more: Any,
) -> Any:
    async def inside() -> Any:
        sql_compiler = compiler.Compiler(children=children, **more)
        try:
            return await work(sql_compiler)
        finally:
            await sql_compiler.close()

    return asyncio.run(inside())


async def bound(sql_compiler: compiler.Compiler, text: str, around: shapes.Environment) -> Any:
    compiled = await sql_compiler.compile(text, owner="root")
    try:
        needs = await compiled.needs(around)
        return needs, await compiled.bind_query(around)
    finally:
        await compiled.close()


def test_a_small_statement_is_read_here_and_starts_no_child() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        needs, compiled = await bound(sql_compiler, SMALL, environment())
        assert [use.name[-1].folded for use in needs.uses] == ["T"]
        assert [column.name for column in compiled.columns] == ["A", "B"]
        assert await sql_compiler.split("select 1; select ';'", owner="root") == [
            "select 1",
            "select ';'",
        ]
        assert sql_compiler.process_ids == ()

    with_compiler(work)


@pytest.mark.parametrize(
    ("text", "columns"), [(LARGE, 1), ("select * from t", 2_000), ("select * from t", 10_000)]
)
def test_a_large_statement_is_read_in_a_child_with_the_same_result(text: str, columns: int) -> None:
    async def work(sql_compiler: compiler.Compiler) -> Any:
        around = environment(
            columns,
            binds={"1": expressions.binding_literal("date", datetime.date(2024, 1, 2))},
            variables={"X": expressions.binding_literal("fixed", 7)},
        )
        compiled = await bound(sql_compiler, text, around)
        assert len(sql_compiler.process_ids) == 1
        return compiled

    async def here(sql_compiler: compiler.Compiler) -> Any:
        return await bound(sql_compiler, text, environment(columns))

    assert with_compiler(work) == with_compiler(here, children=0)


def test_columns_that_multiply_in_a_small_text_are_bound_in_a_child() -> None:
    parts = ["c0 as (select a from t)"]
    parts += [f"c{n} as (select x.*, x.* from c{n - 1} x)" for n in range(1, 12)]
    text = f"with {', '.join(parts)} select count(*) as n from c11"

    async def work(sql_compiler: compiler.Compiler) -> None:
        _, compiled = await bound(sql_compiler, text, environment())
        assert [column.name for column in compiled.columns] == ["N"]
        assert len(sql_compiler.process_ids) == 1

    assert len(text) < limits.TEXT_HERE_LENGTH_MAX
    with_compiler(work)


def test_many_binds_are_bound_in_a_child() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        values = {str(n): expressions.binding_literal("text", f"v{n}") for n in range(1, 1_001)}
        _, compiled = await bound(sql_compiler, "select ?", environment(binds=values))
        assert compiled.bind_count == 1
        assert len(sql_compiler.process_ids) == 1

    with_compiler(work)


def test_a_fault_of_a_large_statement_has_its_place() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await sql_compiler.compile(f"{LARGE}\nand and", owner="root")
        assert (caught.value.code, caught.value.line, caught.value.position) == ("001003", 2, 4)
        assert caught.value.phase == "COMPILATION"
        with pytest.raises(errors.SqlError) as caught:
            await bound(sql_compiler, LARGE.replace("select a", "select nosuch"), environment())
        assert caught.value.code == "000904"
        assert len(sql_compiler.process_ids) == 1

    with_compiler(work)


def test_every_operation_with_a_tree_is_read_in_a_child() -> None:
    texts = {
        operations.Query: LARGE,
        operations.Explain: f"explain {LARGE}",
        operations.Insert: f"insert into u {LARGE}",
        operations.CreateTable: f"create table u as {LARGE}",
        operations.SetVariables: f"set x = (select max(a) from ({LARGE}) q)",
    }

    async def work(sql_compiler: compiler.Compiler) -> None:
        for operation_type, text in texts.items():
            compiled = await sql_compiler.compile(text, owner="root")
            assert type(compiled.operation) is operation_type
            assert len((await compiled.needs(environment())).uses) == 1
            target = (
                [sqltypes.TEXT]
                if operation_type is operations.SetVariables
                else [sqltypes.TEXT] * 2
            )
            assert (await compiled.bind_into(environment(), target)).types[0] == sqltypes.TEXT
            await compiled.close()

    with_compiler(work)


def test_a_large_change_of_rows_is_read_in_a_child_with_the_same_result() -> None:
    condition = " or ".join(f"a = '{number}'" for number in range(200))
    text = f"update t set a = ? where {condition}"

    async def work(sql_compiler: compiler.Compiler) -> Any:
        row = shapes.ShapeColumn(name=shapes.ROW, type=sqltypes.integer(19))
        around = environment(binds={"1": expressions.binding_literal("text", "x")})
        (table,) = around.tables
        table = dataclasses.replace(table, columns=(*table.columns, row))
        compiled = await sql_compiler.compile(text, owner="root")
        assert isinstance(compiled.operation, operations.ChangeRows)
        assert [use.is_target for use in (await compiled.needs(around)).uses] == [True]
        around = dataclasses.replace(around, tables=(table,))
        bound_query = await compiled.bind_changes(around, [sqltypes.TEXT])
        await compiled.close()
        return bound_query

    assert not compiler.is_small(text)
    assert with_compiler(work) == with_compiler(work, children=0)


def test_reading_that_takes_too_long_ends_with_its_process() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        text = f"select {', '.join(['1'] * 100_000)}"
        with pytest.raises(errors.SqlError) as caught:
            await sql_compiler.compile(text, owner="root")
        assert caught.value.sqlstate == "54001"
        assert "longer than 0.2 seconds" in caught.value.message
        assert sql_compiler.process_ids == ()

    with_compiler(work, seconds_max=0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS keeps no RLIMIT_AS")
def test_reading_beyond_its_memory_is_refused_and_the_next_one_is_read() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        text = f"select {', '.join(['1'] * 100_000)}"
        with pytest.raises(errors.SqlError) as caught:
            await sql_compiler.compile(text, owner="root")
        assert caught.value.sqlstate == "54001"
        _, compiled = await bound(sql_compiler, LARGE, environment())
        assert len(compiled.columns) == 2

    with_compiler(work, growth_bytes=30 << 20)


def test_a_cancelled_reading_ends_its_child_and_the_next_one_is_read() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        reading = asyncio.create_task(
            sql_compiler.compile(f"select {', '.join(['1'] * 100_000)}", owner="root")
        )
        started = time.monotonic()
        while not sql_compiler.process_ids and time.monotonic() - started < 20:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        (process_id,) = sql_compiler.process_ids
        reading.cancel()
        await asyncio.wait({reading})
        _, compiled = await bound(sql_compiler, LARGE, environment())
        assert len(compiled.columns) == 2
        assert process_id not in sql_compiler.process_ids

    with_compiler(work)


def test_a_text_beyond_any_bound_is_refused_unread() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        for step in (sql_compiler.compile, sql_compiler.split):
            with pytest.raises(errors.SqlError) as caught:
                await step("x" * ((1 << 20) + 1), owner="root")
            assert caught.value.sqlstate == "54001"
        assert sql_compiler.process_ids == ()

    with_compiler(work)


def test_more_statements_or_tokens_than_a_request_may_have_are_refused() -> None:
    async def work(sql_compiler: compiler.Compiler) -> None:
        for text in ("select 1;" * 10_001, "1;" * 250_000):
            with pytest.raises(errors.SqlError) as caught:
                await sql_compiler.split(text, owner="root")
            assert caught.value.sqlstate == "54001"

    with_compiler(work)


@pytest.mark.alone
def test_reading_in_a_child_leaves_the_loop_to_others() -> None:
    async def work(sql_compiler: compiler.Compiler) -> float:
        await bound(sql_compiler, LARGE, environment())
        reading = asyncio.create_task(
            bound(sql_compiler, f"select {', '.join(['1'] * 10_000)}", environment())
        )
        worst = 0.0
        while not reading.done():
            before = time.thread_time()
            await asyncio.sleep(0)
            worst = max(worst, time.thread_time() - before)
        await reading
        return worst

    gc.collect()
    gc.freeze()  # as the program does at its start: a collection need not look at all of pytest
    try:
        assert with_compiler(work) < 0.05
    finally:
        gc.unfreeze()


BOUND: dict[str, list[str | None]] = {
    "FIXED": ["1", None, "-7"],
    "FIXED ": ["1.25", None, "90000000000000000000"],
    "REAL": ["1.5", "nan", None],
    "TEXT": ["a", "\u20ac", None],
    "BOOLEAN": ["true", "0", None],
    "BINARY": ["00ff", None, ""],
    "DATE": ["86400000", None, "0"],
    "TIME": ["1000", None, "86399999999000"],
    "TIMESTAMP_NTZ": ["1500000000000000000", None, "-1000"],
    "TIMESTAMP_LTZ": ["1500000000000000000", None, "-1000"],
    "TIMESTAMP_TZ": ["1500000000000000000 1500", None, "0"],
    "ANY": [None, None, None],
}


@pytest.mark.parametrize("children", [0, 1])
def test_large_binds_are_read_to_the_same_rows_as_small_ones(children: int) -> None:
    raw: dict[str, Any] = {
        str(n): {"type": name.strip(), "value": values}
        for n, (name, values) in enumerate(BOUND.items(), 1)
    }
    raw["one"] = {"type": "FIXED", "value": "5"}

    async def work(sql_compiler: compiler.Compiler) -> Any:
        return await sql_compiler.read_binds(orjson.dumps(raw), owner="root")

    large = with_compiler(work, children=children)
    small = bindings.parse(raw)
    assert [large[name].rows for name in raw] == [small[name].rows for name in raw]
    assert large["one"] == small["one"]
    for name in raw:
        assert inputs.bind_column(name, large[name]) == inputs.bind_column(name, small[name])
    for zone in ("UTC", "Asia/Tokyo"):
        rows = [ipc.encode_rows(inputs.bound_rows(binds, zone)) for binds in (large, small)]
        tables = [ipc.read_rows(each or b"") for each in rows]
        assert tables[0].schema == tables[1].schema
        assert [str(row) for row in tables[0].to_pylist()] == [
            str(row) for row in tables[1].to_pylist()
        ]


@pytest.mark.parametrize("children", [0, 1])
@pytest.mark.parametrize(
    ("document", "code"),
    [
        (b"[]", "391902"),
        (b'{"1": ', "391902"),
        (b'{"1": {"type": "FIXED", "value": ["x"]}}', "002049"),
        (b'{"1": {"type": "TEXT", "value": [[], []]}}', "002049"),
    ],
)
def test_large_binds_that_cannot_be_read_are_refused(
    document: bytes, code: str, children: int
) -> None:
    async def work(sql_compiler: compiler.Compiler) -> Any:
        return await sql_compiler.read_binds(document, owner="root")

    with pytest.raises(errors.SqlError) as caught:
        with_compiler(work, children=children)
    assert caught.value.code == code


COUNTED = """
import gc, pickle, socket
from sql import compiling_child

rows = ", ".join(f"({number} + 1, 'n{number}')" for number in range(4_000))
request = pickle.dumps(("parse", (f"select * from values {rows}",)))
ours, theirs = socket.socketpair()
ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
ours.sendall(compiling_child.LENGTH.pack(len(request)) + request)
ours.shutdown(socket.SHUT_WR)
phases = []
gc.callbacks.append(lambda phase, _: phases.append(phase))
compiling_child.main([str(theirs.detach()), str(1 << 30)])
answer = ours.makefile("rb").read()
succeeded, operation, _ = pickle.loads(answer[compiling_child.LENGTH.size:])
print(succeeded, phases.count("start"))
"""


def test_a_child_seldom_looks_for_cycles_while_it_reads() -> None:
    run = subprocess.run(
        [sys.executable, "-c", COUNTED], check=True, capture_output=True, text=True, timeout=60
    )
    succeeded, searches = run.stdout.split()
    assert succeeded == "True"
    assert int(searches) <= 10  # with Python's own thresholds 171
