"""Plans of queries that come again: kept where they may be, and used for nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sql import engine, engine_datafusion, ipc, kept_plans, limits

SCHEMA = pa.schema({"v": pa.int64(), "s": pa.string()})


class Planned:
    """A planner, and the texts that the library has planned for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planner = engine_datafusion.Planner(spill_directory=folder, in_thread=False)
        self.texts: list[str] = []
        usual = datafusion.SessionContext.sql_with_options

        def sql(context: Any, text: str, *arguments: Any) -> Any:
            self.texts.append(text)
            return usual(context, text, *arguments)

        monkeypatch.setattr(datafusion.SessionContext, "sql_with_options", sql)

    def answer(self, query: engine.EngineQuery) -> list[dict[str, Any]]:
        async def work() -> list[dict[str, Any]]:
            run = await self.planner.start(query)
            await run.prepare()
            batches = engine_datafusion.batches_again(self.planner, query, run)
            return [row async for batch in batches for row in batch.to_pylist()]

        return asyncio.run(work())


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planned]:
    return Planned(tmp_path, monkeypatch)


def relation(folder: Path, values: list[int], **more: Any) -> engine.Relation:
    folder.mkdir()
    rows = pa.table([values, [f"s{value}" for value in values]], schema=SCHEMA)
    pq.write_table(rows, folder / engine.file_name(0))
    schema = ipc.encode_schema(SCHEMA)
    group = engine.Group(directory=str(folder), schema=schema, **more)
    return engine.Relation(name="t", schema=schema, groups=(group,))


def summing(*relations: engine.Relation) -> engine.EngineQuery:
    return engine.EngineQuery(text='select sum("v") as n from t', relations=relations)


def test_a_query_that_comes_again_is_planned_once_whatever_its_names_are(
    planned: Planned, tmp_path: Path
) -> None:
    query = summing(relation(tmp_path / "one", [1, 2]))
    for number in range(3):
        again = dataclasses.replace(
            query, query_id=f"q{number}", owner=f"o{number}", warehouse=f"w{number}"
        )
        assert planned.answer(again) == [{"n": 3}]
    assert planned.texts == [query.text]


def test_the_same_text_over_other_files_is_planned_for_these(
    planned: Planned, tmp_path: Path
) -> None:
    first, second = (relation(tmp_path / name, values) for name, values in FILES)
    assert planned.answer(summing(first)) == [{"n": 3}]
    assert planned.answer(summing(second)) == [{"n": 70}]
    assert planned.answer(summing(first)) == [{"n": 3}]
    assert len(planned.texts) == 2


FILES = (("one", [1, 2]), ("two", [30, 40]))


def test_the_same_text_in_another_zone_is_planned_for_that_zone(planned: Planned) -> None:
    text = "select arrow_typeof(to_timestamp('2026-01-01T00:00:00Z')) as t"
    for zone in ("UTC", "+02:00", "UTC", "+02:00"):
        query = engine.EngineQuery(text=text, settings=engine.Settings(timezone=zone))
        assert planned.answer(query) == [{"t": f'Timestamp(ns, "{zone}")'}]
    assert planned.texts == [text, text]


def test_a_plan_that_comes_again_computes_anew(planned: Planned) -> None:
    query = engine.EngineQuery(text="select random() as r")
    assert planned.answer(query) != planned.answer(query)
    assert planned.texts == [query.text]


def test_a_query_that_failed_leaves_no_plan(planned: Planned) -> None:
    query = engine.EngineQuery(
        text="select _beyond(arrow_cast(value, 'Int64')) as n from generate_series(0, 1)",
        functions=("_beyond",),
    )
    for _ in range(2):
        with pytest.raises(engine.EngineFault) as caught:
            planned.answer(query)
        assert caught.value.cause == "value"
    assert planned.texts == [query.text, query.text]


def test_a_function_of_ours_is_called_from_a_plan_that_comes_again(planned: Planned) -> None:
    query = engine.EngineQuery(
        text="select _within(arrow_cast(value, 'Int64'), 0, 2) as n from generate_series(0, 2)",
        functions=("_within",),
    )
    for _ in range(3):
        assert [row["n"] for row in planned.answer(query)] == [0, 1, 2]
    assert planned.texts == [query.text]


def test_rows_and_deletes_and_written_files_are_in_no_kept_plan(tmp_path: Path) -> None:
    of_files = summing(relation(tmp_path / "one", [1]))
    assert kept_plans.key_of(of_files) is not None
    group = dataclasses.replace(
        of_files.relations[0].groups[0],
        projection=(("v", '"v"'), ("s", '"s"')),
        position_deletes=(engine.PositionDeletes(path="/p", form="parquet"),),
    )
    equal = dataclasses.replace(
        group,
        position_deletes=(),
        equality_deletes=(engine.EqualityDeletes(files=(), columns=(("v", 1),)),),
    )
    relations = [
        dataclasses.replace(of_files.relations[0], groups=(group,)),
        dataclasses.replace(of_files.relations[0], groups=(equal,)),
        dataclasses.replace(of_files.relations[0], rows=ipc.encode_rows(SCHEMA.empty_table())),
    ]
    for each in relations:
        assert kept_plans.key_of(summing(each)) is None
    order = engine.Write(directory="/d", schema=ipc.encode_schema(SCHEMA), checks=())
    assert kept_plans.key_of(dataclasses.replace(of_files, write=order)) is None
    assert kept_plans.key_of(dataclasses.replace(of_files, purpose="explain")) is None


def test_everything_but_names_and_time_is_in_the_key(tmp_path: Path) -> None:
    query = summing(relation(tmp_path / "one", [1]))
    different = {
        "text": "select 1",
        "relations": (),
        "functions": ("_beyond",),
        "settings": engine.Settings(timezone="Asia/Tokyo"),
        "limits": engine.QueryBounds(memory_bytes=5),
        "is_aggregate": True,
        "skipped_rules": ("optimize_unions",),
        "keeps_nested": True,
        "variants": (0,),
        "json_indent": 4,
    }
    keys = [
        kept_plans.key_of(dataclasses.replace(query, **{name: value}))
        for name, value in different.items()
    ]
    assert len({kept_plans.key_of(query), *keys}) == 1 + len(different)
    same = dataclasses.replace(
        query, query_id="q", owner="o", warehouse="w", limits=engine.QueryBounds(seconds=3)
    )
    assert kept_plans.key_of(same) == kept_plans.key_of(query)


def test_a_long_text_is_not_kept_and_many_make_room_for_each_other() -> None:
    text = "select 1" + " " * limits.PLAN_KEPT_BYTES_MAX
    assert kept_plans.key_of(engine.EngineQuery(text=text)) is None
    contexts = kept_plans.EngineContexts(settings="", planning=None, computing=None)
    plan = kept_plans.LogicalPlan(logical=None, schema=pa.schema([]))
    keys = [bytes([number]) * limits.PLAN_KEPT_BYTES_MAX for number in range(20)]
    for key in keys:
        contexts.keep(key, plan)
        contexts.keep(keys[0], plan)
    assert contexts.size_bytes == sum(map(len, contexts.plans)) <= limits.PLANS_KEPT_BYTES_MAX
    assert list(contexts.plans) == [*keys[5:], keys[0]]


@pytest.mark.parametrize("doublings", [1, 9])
def test_a_plan_much_larger_than_its_text_is_not_kept(
    planned: Planned, tmp_path: Path, doublings: int
) -> None:
    steps = ["c0 as (select * from t)"] + [
        f"c{number} as (select * from c{number - 1} union all select * from c{number - 1})"
        for number in range(1, doublings + 1)
    ]
    text = f'with {", ".join(steps)} select sum("v") as n from c{doublings} where "v" + 1 > 2'
    query = engine.EngineQuery(text=text, relations=(relation(tmp_path / "one", [1, 2]),))
    for _ in range(2):
        assert planned.answer(query) == [{"n": 2 << doublings}]
    assert len(planned.texts) == (1 if doublings == 1 else 2)


def test_a_plan_with_a_large_constant_is_not_kept(planned: Planned) -> None:
    for length, times in ((10, 1), (limits.PLAN_KEPT_BYTES_MAX, 2)):
        planned.texts.clear()
        query = engine.EngineQuery(
            text=f"select length(repeat('a', {length})) as n, repeat('a', {length}) as a"
        )
        for _ in range(2):
            assert planned.answer(query) == [{"n": length, "a": "a" * length}]
        assert len(planned.texts) == times


def test_contexts_that_were_unused_for_longest_make_room() -> None:
    resting = kept_plans.Resting()
    for number in range(limits.CONTEXTS_RESTING_MAX + 1):
        resting.put(kept_plans.EngineContexts(settings=f"{number}", planning=None, computing=None))
    assert resting.take("0") is None
    for number in range(1, limits.CONTEXTS_RESTING_MAX + 1):
        contexts = resting.take(f"{number}")
        assert contexts is not None
        assert contexts.settings == f"{number}"
        assert resting.take(f"{number}") is None


def test_the_rules_that_change_logical_plans_are_all_of_the_librarys() -> None:
    context = datafusion.SessionContext()
    for rule in engine_datafusion.LOGICAL_RULES:
        assert context.remove_optimizer_rule(rule), rule
    batches = context.sql("explain verbose select 1 as a").collect()
    steps = [str(step) for batch in batches for step in batch.column(0).to_pylist()]
    analysed = steps.index("analyzed_logical_plan")
    assert steps[analysed + 1 : analysed + 3] == ["logical_plan", "initial_physical_plan"]
