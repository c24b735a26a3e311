"""The engine's own words of each fault that is recognised by them, provoked in the engine itself.

A release of the engine that spells a fault otherwise fails here, and not in a user's query.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import resource
from decimal import Decimal
from pathlib import Path

import datafusion
import pyarrow as pa
import pytest

from sql import engine, engine_datafusion, errors, faults, ipc
from tests.kit import sql_text

LARGE = Decimal("9" * 38)
TABLE = pa.table(
    {
        "i": pa.array([1, -5, None], pa.int64()),
        "b": pa.array([300, 2**62, None], pa.int64()),
        "m": pa.array([-(2**63), 0, None], pa.int64()),
        "z": pa.array([0, 0, None], pa.int64()),
        "w": pa.array([LARGE, LARGE.copy_negate(), None], pa.decimal128(38, 0)),
        "f": pa.array([1e300, -1e300, None], pa.float64()),
        "s": pa.array(["a", "[", None], pa.string()),
    }
)
MOMENT = "arrow_cast(b, 'Timestamp(Microsecond, None)')"
LATE = "arrow_cast(z + 9000000000000000000, 'Timestamp(Microsecond, None)')"

VALUES = [
    ("select cast(s as date) from t", "a"),
    ("select cast(s as timestamp) from t", "a"),
    ("select cast(s as bigint) from t", "a"),
    ("select cast(s as boolean) from t", "a"),
    ("select arrow_cast(f, 'Int64') from t", "1e300"),
    ("select arrow_cast(b, 'Decimal128(3, 0)') from t", str(2**62)),
    ("select w + w from t", f"{LARGE} + {LARGE}"),
    ("select arrow_cast(f, 'Decimal128(3, 0)') from t", "1e300"),
    ("select arrow_cast(w, 'Int64') from t", str(LARGE)),
    ("select make_date(-100000000, 1, 1)", "-100000000, 1, 1"),
    (f"select _months_between({LATE}, {LATE}) from t", "date value"),
    ("select chr(i) from t", "-5"),
    (
        "select arrow_cast(arrow_cast(b, 'Timestamp(Second, None)'), 'Timestamp(Nanosecond, None)')"
        " from t",
        str(2**62),
    ),
    (f"select date_trunc('year', {MOMENT}) from t", str(2**62)),
    (f"select {MOMENT} - interval '1000000 years' from t", "Timestamp"),
    ("select abs(-9223372036854775807 - z - 1) from t", str(-(2**63))),
    ("select (select i from t)", "Scalar subquery returned more than one row"),
    ("select power(z, -1) from t", "zero raised to a negative power"),
    ("select lpad(s, 9223372036854775807) from t", "9223372036854775807"),
    ("select s ~ s from t", None),
    ("select regexp_replace(s, '(', '') from t", None),
    ("select s ~ 'a{1000}{1000}{1000}' from t", "CompiledTooBig"),
    ("select regexp_count(s, '(') from t", "("),
]
"""For each of VALUE_FAULTS: a query in the engine's language, and the value that its words name."""

PLANS = [
    "select string_agg(s, ',') over (order by i rows between 1 preceding and current row) from t",
    f"select {'(' * 600}1{')' * 600}",
    "select i from t where exists (select 1 from t u where t.i in (select i from t))",
    "select i from t where exists"
    " (select 1 from t u where exists (select 1 from t v where t.i = v.b))",
    "select i, count(*) from t",
    "select grouping(i) from t",
    "select i[1] from t",
]
"""For each of PLAN_FAULTS, a query in the engine's language."""


def words_of(text: str, folder: Path) -> tuple[engine.EngineFault, str]:
    """Return the fault of a query, and what the engine says of it."""
    relation = engine.Relation(
        name="t", schema=ipc.encode_schema(TABLE.schema), rows=ipc.encode_rows(TABLE)
    )
    functions = tuple(re.findall(r"_months_between", text))
    query = engine.EngineQuery(
        text=text,
        relations=(relation,),
        functions=functions,
        settings=engine.Settings(timezone="UTC", partitions=1),
    )

    async def work() -> None:
        planner = engine_datafusion.Planner(spill_directory=folder, in_thread=False)
        run = await planner.start(query)
        async for _ in run.batches():
            pass

    with pytest.raises(engine.EngineFault) as caught:
        asyncio.run(work())
    return caught.value, str(caught.value.__cause__)


@pytest.mark.parametrize("place", range(len(engine_datafusion.VALUE_FAULTS)))
def test_each_fault_of_a_value_is_recognised_by_the_engines_words(
    place: int, tmp_path: Path
) -> None:
    pattern, code = engine_datafusion.VALUE_FAULTS[place]
    (text, value), *_ = VALUES[place:]
    fault, words = words_of(text, tmp_path)
    matching = next(each for each, _ in engine_datafusion.VALUE_FAULTS if each.search(words))
    assert matching is pattern, words
    assert (fault.cause, fault.code) == ("value", code)
    if value is not None:
        assert fault.message == value
    assert faults.of_engine(fault, query_id="q").code != "000603"


@pytest.mark.parametrize("place", range(len(engine_datafusion.PLAN_FAULTS)))
def test_each_fault_of_a_plan_is_recognised_by_the_engines_words(
    place: int, tmp_path: Path
) -> None:
    fault, words = words_of(PLANS[place], tmp_path)
    matching = next(each for each in engine_datafusion.PLAN_FAULTS if each.search(words))
    assert matching is engine_datafusion.PLAN_FAULTS[place], words
    assert fault.cause == "plan"
    assert faults.of_engine(fault, query_id="q").code != "000603"


def test_each_fault_has_a_query() -> None:
    assert len(VALUES) == len(engine_datafusion.VALUE_FAULTS)
    assert len(PLANS) == len(engine_datafusion.PLAN_FAULTS)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("select i, count(*) from t", faults.UNGROUPED),
        ("select i, count(*) from t", re.compile(r"t\.i")),
        ("select i from t where exists (select 1 from t u where t.i in (select i from t))",
         faults.SUBQUERY),
        ("select i from t where exists"
         " (select 1 from t u where exists (select 1 from t v where t.i = v.b))", faults.SUBQUERY),
        (PLANS[0], re.compile("retract_batch")),
        ("select i / z from t", re.compile("(?i)divide by zero")),
    ],
)  # fmt: skip
def test_the_words_that_choose_an_error_are_the_engines(
    text: str, pattern: re.Pattern[str], tmp_path: Path
) -> None:
    _, words = words_of(text, tmp_path)
    assert pattern.search(words), words


def test_a_query_beyond_its_memory_is_recognised(tmp_path: Path) -> None:
    query = engine.EngineQuery(
        text="select value % 1000003, count(*) from generate_series(0, 3000000) group by 1",
        settings=engine.Settings(timezone="UTC", partitions=1),
        limits=engine.QueryBounds(seconds=60, memory_bytes=100_000),
    )

    async def work() -> None:
        planner = engine_datafusion.Planner(spill_directory=tmp_path, in_thread=False)
        run = await planner.start(query)
        async for _ in run.batches():
            pass

    with pytest.raises(engine.EngineFault) as caught:
        asyncio.run(work())
    assert "Resources exhausted" in str(caught.value.__cause__)
    assert caught.value.cause == "resources"


def test_a_spill_that_the_disk_refuses_fails_in_the_systems_words(tmp_path: Path) -> None:
    """A limit of a file's size is another refusal than a full disk, of the same form."""
    query = engine.EngineQuery(
        text="select value, random() from generate_series(0, 100000) order by 2",
        settings=engine.Settings(timezone="UTC", partitions=1),
        limits=engine.QueryBounds(seconds=60, memory_bytes=13 << 20),
    )

    async def work() -> None:
        planner = engine_datafusion.Planner(spill_directory=tmp_path, in_thread=False)
        run = await planner.start(query)
        async for _ in run.batches():
            pass

    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, usual[1]))
    try:
        with pytest.raises(engine.EngineFault) as caught:
            asyncio.run(work())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    words = str(caught.value.__cause__)
    limit, *full = map(os.strerror, (errno.EFBIG, errno.ENOSPC, errno.EDQUOT))
    assert limit in words
    for refusal in full:
        fault = engine_datafusion.fault_of(OSError(words.replace(limit, refusal)))
        assert fault.cause == "disk_full"
        assert faults.of_engine(fault, query_id="q").code == errors.disk_full().code


def test_a_kernel_without_memory_is_recognised_by_its_exceptions_class() -> None:
    def kernel(column: pa.Array) -> pa.Array:
        raise MemoryError

    context = datafusion.SessionContext()
    function = datafusion.udf(kernel, [pa.int64()], pa.int64(), "volatile", name="without_memory")
    context.register_udf(function)
    with pytest.raises(Exception, match="MemoryError") as caught:
        context.sql("select without_memory(1)").collect()
    assert engine_datafusion.fault_of(caught.value).cause == "resources"


@pytest.mark.parametrize(
    ("text", "pattern", "reason"),
    [
        ("select s ~ '(' from t", "(", "unclosed group"),
        ("select s ~ 'b[c' from t", "b[c", "unclosed character class"),
        ("select s ~ 'a{1000}{1000}{1000}' from t", "", "it is too large when it is compiled"),
        ("select regexp_replace(s, 'a{1000}{1000}{1000}', '') from t", "",
         "it is too large when it is compiled"),
    ],
)  # fmt: skip
def test_a_pattern_and_its_mistake_are_read_from_the_engines_words(
    text: str, pattern: str, reason: str, tmp_path: Path
) -> None:
    fault, words = words_of(text, tmp_path)
    error = faults.of_engine(fault, query_id="q")
    assert error.code == "100048"
    assert pattern in error.message, words
    assert reason in error.message, words


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select abs(m) from t", "100039"),
        ("select to_timestamp(i) - interval '1000000 years' from t", "100039"),
        (
            "select i from t where i = (select max(b) from t u where u.i in"
            " (select i from t v where v.b = t.b))",
            "002031",
        ),
    ],
)
def test_faults_that_were_internal_errors_have_snowflakes_numbers(text: str, code: str) -> None:
    with pytest.raises(engine.EngineFault) as caught:
        sql_text.answer(text, {"t": TABLE})
    assert faults.of_engine(caught.value, query_id="q").code == code
