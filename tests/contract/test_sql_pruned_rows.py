"""Random conditions on a table of several specs, in zones that set their clocks: no row is lost.

PRUNED_SEED and PRUNED_CONDITIONS (for each zone) make a longer run.
"""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyiceberg import transforms

from tests.kit import examples, lake_client
from tests.kit import server as server_kit

SCHEMA = "pruned_rows"
ROWS = 400
APPENDS = 10
CONDITIONS = int(os.environ.get("PRUNED_CONDITIONS", "12"))
ZONES = ("UTC", "America/New_York", "Pacific/Kiritimati", "Pacific/Apia", "Australia/Lord_Howe")
NOTABLE = (
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - no zone
    datetime.datetime(1969, 12, 31),  # noqa: DTZ001 - no zone
    datetime.datetime(2024, 3, 10, 2, 30),  # noqa: DTZ001 - clocks set forward in New York
    datetime.datetime(2024, 11, 3, 1, 30),  # noqa: DTZ001 - clocks set back in New York
    datetime.datetime(2011, 12, 30),  # noqa: DTZ001 - a day that Apia did not have
    datetime.datetime(2024, 4, 7, 1, 45),  # noqa: DTZ001 - clocks set back in Lord Howe
)
TEXTS = ("", "a", "ab", "abc" * 9, "abc" * 9 + "z", "b%", "\U0010ffff" * 20, "Ωmega", "ωmega", "_")
FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.1, -1.5, 1e300)


def moment(chance: random.Random) -> datetime.datetime:
    steps = (0, 1, -1, 3600, -3600, 86_400, -86_400, 50_000, -50_000)
    micros = chance.choice((0, 0, 1, -1))
    return chance.choice(NOTABLE) + datetime.timedelta(
        seconds=chance.choice(steps), microseconds=micros
    )


def rows(chance: random.Random) -> pa.Table:
    def column(draw: Callable[[], object]) -> list[object]:
        return [None if chance.random() < 0.1 else draw() for _ in range(ROWS)]

    moments = sorted(moment(chance) for _ in range(ROWS))
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "n": pa.array(column(lambda: chance.randint(-9, 9)), pa.int64()),
            "s": pa.array(sorted(chance.choice(TEXTS) for _ in range(ROWS)), pa.string()),
            "f": pa.array(column(lambda: chance.choice(FLOATS)), pa.float64()),
            "ts": pa.array(
                [None if chance.random() < 0.05 else each for each in moments], pa.timestamp("us")
            ),
            "tz": pa.array(
                [
                    None if chance.random() < 0.05 else each.replace(tzinfo=datetime.UTC)
                    for each in moments
                ],
                pa.timestamp("us", "UTC"),
            ),
            "d": pa.array([each.date() for each in moments], pa.date32()),
        }
    )


@pytest.fixture(scope="module")
def session(server: server_kit.Running) -> Iterator[lake_client.Session]:
    chance = random.Random(int(os.environ.get("PRUNED_SEED", "1")))
    catalog = lake_client.catalog(server)
    catalog.create_namespace_if_not_exists(SCHEMA)
    table_rows = rows(chance)
    specs = (
        (),
        (("ts", transforms.DayTransform()),),
        (("tz", transforms.HourTransform()), ("n", transforms.TruncateTransform(4))),
        (("d", transforms.MonthTransform()), ("s", transforms.TruncateTransform(2))),
    )
    catalog.create_table(f"{SCHEMA}.source", schema=table_rows.schema).append(table_rows)
    table = catalog.create_table(f"{SCHEMA}.t", schema=table_rows.schema)
    size = ROWS // APPENDS
    with lake_client.session(server, SCHEMA) as opened:
        for number in range(APPENDS):
            if number and number % 3 == 0:
                with table.update_spec() as update:
                    for old in table.spec().fields:
                        update.remove_field(old.name)
                with table.update_spec() as update:
                    for source, transform in specs[number // 3]:
                        update.add_field(source, transform, f"{source}_{number}")
            opened.answer(f"insert into t select * from source where floor(id / {size}) = {number}")
            table = catalog.load_table(f"{SCHEMA}.t")
        yield opened


def condition(chance: random.Random, depth: int = 0) -> str:
    draw = chance.random()
    if depth < 3 and draw < 0.3:
        connective = chance.choice(("and", "or"))
        return f"({condition(chance, depth + 1)} {connective} {condition(chance, depth + 1)})"
    if depth < 3 and draw < 0.4:
        return f"not ({condition(chance, depth + 1)})"
    operator = chance.choice(("=", "<>", "<", "<=", ">", ">="))
    at = moment(chance)
    offset = chance.choice(("+0000", "-0500", "+1400", "-1000", "+1030"))
    zoned = f"'{at} {offset}'::{chance.choice(('timestamp_ltz', 'timestamp_tz'))}"
    plain = f"'{at}'::timestamp_ntz"
    day = f"'{at.date()}'::date"
    column = chance.choice(("ts", "tz"))
    operand = chance.choice((zoned, plain, day, f"'{at}'"))
    days = chance.choice((f"{column}::date", f"to_date({column})", f"date({column})", "d"))
    text = chance.choice(TEXTS)
    number = chance.choice(("0", "0.1", "-1.5", "'nan'::float", "'inf'::float"))
    leaves = (
        f"{column} {operator} {operand}",
        f"{operand} {operator} {column}",
        f"{days} {operator} {chance.choice((day, plain, zoned))}",
        f"{day} {operator} {days}",
        f"{days} {chance.choice(('', 'not '))}in ({day}, '{moment(chance).date()}')",
        f"{days} {chance.choice(('', 'not '))}in ({day}, {chance.choice((plain, 'null'))})",
        f"{column} {chance.choice(('', 'not '))}in ({operand}, {chance.choice((plain, zoned))})",
        f"{column} between {plain} and {zoned}",
        f"d {operator} {chance.choice((operand, zoned))}",
        f"{chance.choice(('ts', 'tz', 'n', 'f', 's', 'd'))} is {chance.choice(('', 'not '))}null",
        f"n {operator} {chance.choice((-9, -4, -1, 0, 3, 8, '1.5', 'null'))}",
        f"n {chance.choice(('', 'not '))}in (-4, 3, {chance.choice(('7', 'null', '2.5'))})",
        f"f {operator} {number}",
        f"s {operator} '{text}'",
        f"s {chance.choice(('', 'not '))}like '{text}{chance.choice(('', '%', '_', '%b'))}'",
        f"startswith(s, '{text}')",
    )
    return chance.choice(leaves)


@pytest.mark.parametrize("zone", examples.further(ZONES, "America/New_York", "Australia/Lord_Howe"))
def test_conditions_on_files_of_several_specs_lose_no_row(
    session: lake_client.Session, zone: str
) -> None:
    chance = random.Random(f"{os.environ.get('PRUNED_SEED', '1')} {zone}")
    session.answer(f"alter session set timezone = '{zone}'")
    try:
        for _ in range(CONDITIONS):
            where = condition(chance)
            pruned = session.rows(f"select id from t where {where} order by id")
            # The engine computes this condition for each row, and no file is left out.
            plain = session.rows(f"select id from t where iff({where}, id, -1) = id order by id")
            assert pruned == plain, where
    finally:
        session.answer("alter session unset timezone")
