"""TIMESTAMP_TZ: an instant and its offset, in expressions, results and writes."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from sql import errors, zoned_kernels
from tests.kit import local_sql


def test_values_are_packed_by_arithmetic_and_unpacked_to_the_same() -> None:
    chosen = random.Random(4)
    ends = (0, 1, -1, 253_402_300_799_999_999, -62_135_596_800_000_000, 4095, 4096, -4096)
    micros: list[int | None] = [*ends, *(chosen.randrange(-(10**17), 10**17) for _ in range(500))]
    minutes: list[int | None] = [chosen.randrange(-1439, 1440) for _ in micros]
    minutes[:4] = [0, -1439, 1439, 345]
    micros.append(None)
    minutes.append(None)
    packed = zoned_kernels.pack(pa.array(micros, pa.int64()), pa.array(minutes, pa.int64()))
    assert packed.to_pylist() == [
        None if at is None or shift is None else at * 4096 + shift + 1440
        for at, shift in zip(micros, minutes, strict=True)
    ]
    for whole in (packed, packed.slice(3), packed.slice(2, 100)):
        start = packed.index(whole[0]).as_py()
        ours, shifts = zoned_kernels.unpack(whole)
        assert ours.to_pylist() == micros[start : start + len(whole)]
        assert shifts.to_pylist() == minutes[start : start + len(whole)]


@dataclass(frozen=True, kw_only=True)
class Shell:
    """SQL in this process, in the zone of New York."""

    loop: asyncio.Runner
    local: local_sql.LocalSql

    def run(self, text: str) -> Any:
        return self.loop.run(self.local.run(text))

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return self.loop.run(self.local.rows(text))

    def one(self, text: str) -> Any:
        return self.loop.run(self.local.one(text))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with asyncio.Runner() as loop:
        opened = local_sql.opened_inline(tmp_path_factory.mktemp("zoned"))
        shell = Shell(loop=loop, local=loop.run(opened.__aenter__()))
        shell.run("alter session set timezone = 'America/New_York'")
        yield shell
        loop.run(opened.__aexit__(None, None, None))


X = "'2024-01-31 01:10:00 +05:30'::timestamp_tz"
SAME = "'2024-01-30 19:40:00 Z'::timestamp_tz"
CASES: tuple[tuple[str, Any], ...] = (
    ("'2024-01-31 01:10:00-0'::timestamp_tz::varchar", "2024-01-31 01:10:00.000 +0000"),
    ("'2024-01-31 01:10:00 -5'::timestamp_tz::varchar", "2024-01-31 01:10:00.000 -0500"),
    ("'2024-01-31 01:10:00+5:45'::timestamp_tz::varchar", "2024-01-31 01:10:00.000 +0545"),
    ("'2024-01-31 01:10:00+0545'::timestamp_tz::varchar", "2024-01-31 01:10:00.000 +0545"),
    ("'2024-01-31 01:10:00+05'::timestamp_tz::varchar", "2024-01-31 01:10:00.000 +0500"),
    (f"{X}::varchar", "2024-01-31 01:10:00.000 +0530"),
    ("'2024-07-01 10:00:00'::timestamp_tz::varchar", "2024-07-01 10:00:00.000 -0400"),
    ("'1950-07-01 10:00:00.5 -03:30'::timestamp_tz::varchar", "1950-07-01 10:00:00.500 -0330"),
    (f"to_char({X}, 'YYYY-MM-DD\"T\"HH24:MI:SSTZH:TZM')", "2024-01-31T01:10:00+05:30"),
    ("null::timestamp_tz", None),
    ("try_to_timestamp_tz('x')", None),
    ("try_cast('x' as timestamp_tz)", None),
    ("to_timestamp_tz(0)::varchar", "1970-01-01 00:00:00.000 +0000"),
    ("to_timestamp_tz(1500, 3)::varchar", "1970-01-01 00:00:01.500 +0000"),
    ("to_timestamp_tz('2024-02-03', 'YYYY-MM-DD')::varchar", "2024-02-03 00:00:00.000 -0500"),
    ("to_timestamp_tz('2024-01-01'::date)::varchar", "2024-01-01 00:00:00.000 -0500"),
    ("to_timestamp_tz('3.2.2024 10:00 +05:30', 'DD.MM.YYYY HH24:MI TZH:TZM')::varchar",
     "2024-02-03 10:00:00.000 +0530"),
    ("try_to_timestamp_tz('3.2.2024', 'DD.MM.YYYY TZHTZM')", None),
    # 10:00 at +05:30 is 04:30 in UTC, and 23:30 of the day before in New York.
    ("to_timestamp_ltz('3.2.2024 10:00 +05:30', 'DD.MM.YYYY HH24:MI TZH:TZM')::varchar",
     "2024-02-02 23:30:00.000 -0500"),
    ("to_timestamp_ntz('3.2.2024 10:00 +05:30', 'DD.MM.YYYY HH24:MI TZH:TZM')::varchar",
     "2024-02-03 10:00:00.000"),
    ("'2024-07-01 10:00:00'::timestamp_ltz::timestamp_tz::varchar",
     "2024-07-01 10:00:00.000 -0400"),
    (f"{X}::timestamp_ntz::varchar", "2024-01-31 01:10:00.000"),
    (f"{X}::timestamp_ltz::varchar", "2024-01-30 14:40:00.000 -0500"),
    (f"{X}::date::varchar", "2024-01-31"),
    (f"{X}::time::varchar", "01:10:00"),
    ("timestamp_tz_from_parts(2024, 1, 2, 3, 4, 5, 0, 'Europe/Zurich')::varchar",
     "2024-01-02 03:04:05.000 +0100"),
    ("timestamp_tz_from_parts(2024, 7, 2, 3, 4, 5)::varchar", "2024-07-02 03:04:05.000 -0400"),
    ("convert_timezone('UTC', '2024-01-01 10:00:00'::timestamp_ntz)::varchar",
     "2024-01-01 15:00:00.000 +0000"),
    ("convert_timezone('Asia/Kolkata', '2024-01-01 10:00:00 +0000'::timestamp_tz)::varchar",
     "2024-01-01 15:30:00.000 +0530"),
    ("convert_timezone('UTC', '2024-01-01 10:00:00 +0200')::varchar",
     "2024-01-01 08:00:00.000 +0000"),
    ("convert_timezone('Europe/Zurich', to_timestamp_ltz(1711846800))::varchar",
     "2024-03-31 03:00:00.000 +0200"),
    ("convert_timezone('Asia/Kolkata', '2024-01-01 10:00:00 -0700'::timestamp_tz)"
     "::timestamp_ntz::varchar", "2024-01-01 22:30:00.000"),
    ("convert_timezone('UTC', '2024-01-01 23:00:00 -0700')::date::varchar", "2024-01-02"),
    ("to_timestamp_ntz(convert_timezone('UTC', '2024-01-01 23:00:00 -0700'))::varchar",
     "2024-01-02 06:00:00.000"),
    ("to_char(convert_timezone('UTC', '2024-01-01 23:00:00 -0700'), 'DD HH24')", "02 06"),
    # The second 01:30 of the night in which New York's clocks are set back.
    ("convert_timezone('UTC', to_timestamp_ltz(1730615400))::timestamp_ntz::varchar",
     "2024-11-03 06:30:00.000"),
    (f"{X} = {SAME}", True),
    (f"{X} <> {SAME}", False),
    (f"{X} < '2024-01-30 19:40:01 Z'::timestamp_tz", True),
    (f"{X} = '2024-01-30 14:40:00'::timestamp_ntz", True),
    (f"{X} = '2024-01-30 19:40:00 Z'", True),
    (f"{X} in ('2024-01-30'::date, {SAME})", True),
    (f"{X} in (select {SAME})", True),
    (f"{X} not in (select {SAME})", False),
    (f"{X} between {SAME} and {SAME}", True),
    (f"nullif({X}, {SAME})", None),
    (f"decode({X}, {SAME}, 1, 2)", 1),
    (f"(select count(*) from (select {X} x) a join (select {SAME} x) b using (x))", 1),
    (f"hour({X}) * 100 + day({X})", 131),
    (f"date_part(tzh, {X}) * 100 + date_part(timezone_minute, {X})", 530),
    (f"date_part(epoch_second, {X})", 1706643600),
    (f"dateadd(day, 1, {X})::varchar", "2024-02-01 01:10:00.000 +0530"),
    (f"dateadd(month, 1, {X})::varchar", "2024-02-29 01:10:00.000 +0530"),
    (f"dateadd(minute, -70, {X})::varchar", "2024-01-31 00:00:00.000 +0530"),
    (f"({X} + interval '1 day')::varchar", "2024-02-01 01:10:00.000 +0530"),
    (f"add_months({X}, 1)::varchar", "2024-02-29 01:10:00.000 +0530"),
    (f"date_trunc(day, {X})::varchar", "2024-01-31 00:00:00.000 +0530"),
    (f"date_trunc(hour, {X})::varchar", "2024-01-31 01:00:00.000 +0530"),
    (f"date_trunc(week, {X})::varchar", "2024-01-29 00:00:00.000 +0530"),
    (f"time_slice({X}, 2, 'hour')::varchar", "2024-01-31 00:00:00.000 +0530"),
    (f"last_day({X})::varchar", "2024-01-31"),
    (f"datediff(hour, {X}, {SAME})", 0),
    (f"datediff(day, {SAME}, {X})", 1),
    (f"coalesce(null, {X})::varchar", "2024-01-31 01:10:00.000 +0530"),
    (f"iff(true, '2024-01-01'::date, {X})::varchar", "2024-01-01 00:00:00.000 -0500"),
    (f"greatest({X}, '2024-01-30 20:00:00 Z'::timestamp_tz)::varchar",
     "2024-01-30 20:00:00.000 +0000"),
    ("(select max(column1::timestamp_tz)::varchar from values "
     "('2024-01-01 00:00:00 +0100'), ('2024-01-01 00:30:00 +0200'))",
     "2024-01-01 00:00:00.000 +0100"),
)  # fmt: skip


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_zoned_moment_keeps_its_offset_and_compares_by_its_instant(
    shell: Shell, expression: str, expected: Any
) -> None:
    assert shell.one(f"select {expression}") == expected
    # The same of a column's value, which no literal stands for.
    text = expression.replace("::timestamp_tz", "::varchar::timestamp_tz")
    assert shell.one(f"select {text}") == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("create iceberg table z (a timestamp_tz)", "000002"),
        (f"select to_variant({X})", "000002"),
        (f"set z = {X}", "000002"),
        ("select 'x'::timestamp_tz", "100035"),
        (f"select convert_timezone('UTC', 'UTC', {X})", "001044"),
        ("select convert_timezone('No/Where', current_timestamp())", "100094"),
        ("select convert_timezone('No/Where', 'UTC', '2024-01-01'::timestamp_ntz)", "100094"),
        ("select to_timestamp_tz('2024 0100', 'YYYY TZHTZM')", "100035"),
    ],
)
def test_what_a_zoned_moment_cannot_do_is_refused_by_name(
    shell: Shell, text: str, code: str
) -> None:
    with pytest.raises(errors.SqlError) as raised:
        shell.rows(text)
    assert raised.value.code == code


def test_a_zoned_moment_is_stored_as_its_instant_or_as_its_clock(
    shell: Shell,
) -> None:
    shell.run("create table stored (a timestamp_ltz, b timestamp_ntz)")
    shell.run(f"insert into stored select {X}, {X}")
    assert shell.rows(
        f"select a::varchar, b::varchar from stored where a = {SAME} and a in ({SAME})"
    ) == [("2024-01-30 14:40:00.000 -0500", "2024-01-31 01:10:00.000")]


def test_result_scan_reads_zoned_moments_back(shell: Shell) -> None:
    text = f"select {X} x union all select null union all select '0001-01-01 00:00 Z'::timestamp_tz"
    outcome = shell.run(text)
    shell.loop.run(shell.local.results.keep("scanned", outcome))
    assert shell.rows(
        "select x::varchar, x = '2024-01-30 19:40:00 Z' from table(result_scan('scanned')) "
        "order by x nulls last"
    ) == [
        ("0001-01-01 00:00:00.000 +0000", False),
        ("2024-01-31 01:10:00.000 +0530", True),
        (None, None),
    ]


def test_timestamp_means_zoned_where_the_session_says_so(shell: Shell) -> None:
    shell.run("alter session set timestamp_type_mapping = 'TIMESTAMP_TZ'")
    shell.run("alter session set timestamp_tz_output_format = 'YYYY TZH:TZM'")
    try:
        outcome = shell.run("select '2024-01-01 00:00:00 +0100'::timestamp")
        assert [(column.type, column.scale) for column in outcome.columns] == [("timestamp_tz", 6)]
        text = "select to_timestamp('2024-01-01 00:00:00 +0100')::varchar"
        assert shell.one(text) == "2024 +01:00"
    finally:
        shell.run("alter session unset timestamp_type_mapping")
        shell.run("alter session unset timestamp_tz_output_format")


MOMENTS_OF_TIES = (
    "(select column1 as id, column2::timestamp_tz as x from values"
    " (2, '2024-01-01 00:00:00 +0000'), (1, '2024-01-01 01:00:00 +0100'),"
    " (3, '2024-01-01 00:30:00 +0100'))"
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("select id, x from {t} order by x, id", [3, 1, 2]),
        ("select id, x from {t} order by 2 desc, 1", [1, 2, 3]),
        ("select id, x from {t} union all select id + 3, x from {t} order by x, id desc",
         [6, 3, 5, 4, 2, 1]),
        ("select rank() over (order by x) from {t} order by id", [2, 2, 1]),
        ("select row_number() over (order by x, id) from {t} order by id", [2, 3, 1]),
        ("select count(*) over (partition by x) from {t} order by id", [2, 2, 1]),
        ("select count(distinct x) + count(distinct x, id) from {t}", [5]),
        ("select listagg(id, '') within group (order by x, id) from {t}", ["312"]),
    ],
)  # fmt: skip
def test_moments_of_one_instant_are_ties_whatever_their_offsets(
    shell: Shell, text: str, ids: list[Any]
) -> None:
    rows = shell.rows(text.format(t=MOMENTS_OF_TIES))
    assert [row[0] for row in rows] == ids


A, B, LATE = (
    "2024-01-01 00:00:00.000 +0000",
    "2024-01-01 01:00:00.000 +0100",
    "2024-01-01 00:30:00.000 +0100",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select x::varchar, count(*), min(id) from {t} group by x order by x",
         [(LATE, 1, 3), (A, 2, 1)]),
        ("select x::varchar, count(*) from {t} group by 1 order by 1", [(A, 1), (LATE, 1), (B, 1)]),
        ("select x, id % 2 as odd from {t} where id < 3 group by all order by odd", [(A,), (B,)]),
        ("select count(*) from {t} group by x having x < '2024-01-01 00:00 Z' order by x", [(1,)]),
        ("select max(x)::varchar from {t} group by x order by x", [(LATE,), (B,)]),
        ("select listagg(id, '') within group (order by id) from {t} group by x order by x",
         [("3",), ("12",)]),
        ("select x::date, rank() over (order by x) from {t} group by x order by x desc",
         [(datetime.date(2024, 1, 1), 2), (datetime.date(2024, 1, 1), 1)]),
        ("select x, grouping(x), count(*) from {t} group by rollup (x) order by x nulls last",
         [(LATE, 0, 1), (A, 0, 2), (None, 1, 3)]),
        ("select x, id from {t} group by grouping sets ((x), (id)) order by x nulls last, id",
         [(LATE, None), (A, None), (None, 1), (None, 2), (None, 3)]),
        ("select distinct x from {t} order by x desc", [(A,), (LATE,)]),
        ("select distinct x y, 1 from {t} order by y", [(LATE,), (A,)]),
        ("select count(*) from (select distinct x from {t})", [(2,)]),
        ("select distinct x, count(*) from {t} group by x, id order by 1", [(LATE, 1), (A, 1)]),
        ("select x from {t} where id = 1 union select x from {t} order by x", [(LATE,), (A,)]),
        ("select x from {t} where id = 1 intersect select x from {t} where id = 2", [(B,)]),
        ("select x from {t} except select x from {t} where id = 2", [(LATE,)]),
        ("select x from {t} except select x from {t} limit 1", []),
        ("select x from {t} union all select x from {t} order by x limit 1", [(LATE,)]),
        ("select approx_count_distinct(x) from {t}", [(2,)]),
        ("select count(*) from {t} a join {t} b on a.x = b.x", [(5,)]),
        ("select count(*) from {t} where x in (select x from {t} where id = 1)", [(2,)]),
        ("select count(*) from {t} join {t} using (x)", [(5,)]),
    ],
)  # fmt: skip
def test_moments_of_one_instant_are_one_group_which_shows_the_least_offset(
    shell: Shell, text: str, expected: list[tuple[Any, ...]]
) -> None:
    shown = [tuple(map(_text, row)) for row in shell.rows(text.format(t=MOMENTS_OF_TIES))]
    assert [row[: len(cells)] for row, cells in zip(shown, expected, strict=True)] == expected


THREE_MOMENTS = (
    "(select to_timestamp_tz(column1 || ' +0000') t, to_timestamp_ntz(column1) n from values"
    " ('2024-01-01 12:00:00'), ('2024-01-02 11:00:00'), ('2024-01-02 12:00:00'))"
)


@pytest.mark.parametrize(
    "text",
    [
        "select {t}::date, count(*) from {rows} group by rollup ({t}::date, {t}) order by 1, 2",
        "select {t}::date, count(*) from {rows} group by grouping sets (({t}::date), ({t}))"
        " order by 1, 2",
        "select year({t}), count(*) from {rows} group by cube (year({t}), {t}) order by 1, 2",
        "select year({t}), grouping(year({t}), {t}), count(*) from {rows}"
        " group by cube (year({t}), {t}) order by 1, 2, 3",
        "select hour({t}) + 1, count(*) from {rows} group by hour({t}), {t}::date"
        " having hour({t}) > 11 order by 1, {t}::date",
        "select max({t})::date from {rows} group by {t}::date, {t} having {t}::date > '2024-01-01'",
    ],
)
def test_a_key_that_is_computed_of_another_key_stays_itself(shell: Shell, text: str) -> None:
    """At one offset, groups are those of TIMESTAMP_NTZ."""
    answers = [shell.rows(text.format(t=column, rows=THREE_MOMENTS)) for column in "tn"]
    assert answers[0] == answers[1]
    assert len(answers[0]) > 1


def test_a_clock_beside_its_moment_is_a_key_of_its_own(shell: Shell) -> None:
    text = "select hour(x), count(*) from {t} where id < 3 group by x, hour(x) order by 1"
    assert shell.rows(text.format(t=MOMENTS_OF_TIES)) == [(0, 1), (1, 1)]


def test_aggregates_of_a_key_see_the_values_of_all_rows(shell: Shell) -> None:
    """What is inside an aggregate function is not the value that its group shows."""
    calls = (
        "count(x), count(distinct x), count(distinct x, id), count_if(x::varchar like '%+0100'),"
        " max(x)::varchar, max_by(id, x::varchar), sum(hour(x)), avg(hour(x)), median(hour(x)),"
        " listagg(hour(x)) within group (order by id), any_value(x) = x, bitor_agg(hour(x)),"
        " booland_agg(hour(x) = 0), stddev_pop(hour(x)), corr(hour(x), hour(x)), mode(hour(x)),"
        " approx_percentile(hour(x), 0.9), array_size(array_agg(hour(x))), grouping(x)"
    )
    group = f"(select * from {MOMENTS_OF_TIES} where id < 3)"
    (row,) = shell.rows(f"select {calls} from {group} group by x")
    half = decimal.Decimal("0.5")
    assert row == (2, 1, 2, 1, B, 1, 1, half, half, "10", True, 1, False, 0.5, 1.0, 0, 1.0, 2, 0)


def _text(cell: Any) -> Any:
    """Return a cell with a packed value of TIMESTAMP_TZ as its text."""
    if not isinstance(cell, decimal.Decimal):
        return cell
    micros, minutes = divmod(int(cell), 4096)
    shown = datetime.timezone(datetime.timedelta(minutes=minutes - 1440))
    moment = datetime.datetime.fromtimestamp(micros // 1_000_000, shown)
    return f"{moment:%Y-%m-%d %H:%M:%S.000 %z}"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("percentile_cont(0.5) within group (order by x)", "000002"),
        ("percentile_cont(0.5) within group (order by id, x)", "001044"),
        ("percentile_disc(0.5) within group (order by id, x)", "001044"),
    ],
)
def test_a_percentile_takes_one_key_of_its_type(shell: Shell, call: str, code: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        shell.rows(f"select {call} from {MOMENTS_OF_TIES}")
    assert caught.value.code == code


TWICE = "'2024-11-03 05:30:00 Z'::timestamp_tz::timestamp_ltz"
"""01:30 -0400, an hour before the clocks show 01:30 again."""
AGAIN = "'2024-11-03 06:30:00 Z'::timestamp_tz::timestamp_ltz"
SKIPPED = "2024-03-10 02:30:00"
"""A local time that the clocks leave out: 02:30 -0500 is 03:30 -0400."""
TURNS: tuple[tuple[str, Any], ...] = (
    ("'2024-03-10 02:30:00'::timestamp_ltz::varchar", "2024-03-10 03:30:00.000 -0400"),
    (f"'{SKIPPED}'::timestamp_tz::varchar", "2024-03-10 03:30:00.000 -0400"),
    ("timestamp_tz_from_parts(2024, 3, 10, 2, 30, 0)::varchar", "2024-03-10 03:30:00.000 -0400"),
    ("timestamp_tz_from_parts(2024, 3, 10, 2, 30, 0, 0, 'America/New_York')::varchar",
     "2024-03-10 03:30:00.000 -0400"),
    ("timestamp_tz_from_parts(2024, 3, 31, 2, 30, 0, 0, 'Europe/Berlin')::varchar",
     "2024-03-31 03:30:00.000 +0200"),
    ("convert_timezone('Europe/Berlin', 'UTC', '2024-03-31 02:30:00'::timestamp_ntz)::varchar",
     "2024-03-31 01:30:00.000"),
    (f"convert_timezone('America/New_York', 'UTC', '{SKIPPED}'::timestamp_ntz)::varchar",
     "2024-03-10 07:30:00.000"),
    ("convert_timezone('Europe/Berlin', 'UTC', '2024-10-27 02:30:00'::timestamp_ntz)::varchar",
     "2024-10-27 00:30:00.000"),
    (f"datediff(second, {TWICE}, {AGAIN})", 3600),
    (f"datediff(minute, {AGAIN}, {TWICE})", -60),
    (f"datediff(hour, {TWICE}, {AGAIN})", 1),
    (f"datediff(millisecond, {TWICE}, dateadd(millisecond, 7, {AGAIN}))", 3_600_007),
    (f"datediff(nanosecond, {TWICE}, {AGAIN})", 3_600_000_000_000),
    (f"datediff(day, {TWICE}, {AGAIN})", 0),
    ("datediff(minute, '2024-03-10 01:59:00'::timestamp_ltz, '2024-03-10 03:01:00'::timestamp_ltz)",
     2),
    ("datediff(hour, '2024-11-03'::date, '2024-11-04'::timestamp_ltz)", 25),
    ("datediff(hour, '2024-03-10 00:00:00'::timestamp_ntz, '2024-03-11'::timestamp_ltz)", 23),
    ("datediff(hour, '2024-07-01 10:59:59'::timestamp_ltz, '2024-07-01 11:00:00'::timestamp_ltz)",
     1),
    (f"time_slice({AGAIN}, 1, 'hour')::varchar", "2024-11-03 01:00:00.000 -0500"),
    (f"time_slice({TWICE}, 1, 'hour')::varchar", "2024-11-03 01:00:00.000 -0400"),
    (f"time_slice({AGAIN}, 15, 'minute', 'end')::varchar", "2024-11-03 01:45:00.000 -0500"),
    (f"time_slice({TWICE}, 1, 'hour', 'end')::varchar", "2024-11-03 01:00:00.000 -0500"),
    (f"time_slice({AGAIN}, 1, 'day')::varchar", "2024-11-03 00:00:00.000 -0400"),
    (f"time_slice({AGAIN}, 1, 'hour') = date_trunc('hour', {AGAIN})", True),
)  # fmt: skip


@pytest.mark.parametrize(("expression", "expected"), TURNS, ids=[case[0] for case in TURNS])
def test_hours_that_clocks_repeat_or_leave_out_follow_one_rule(
    shell: Shell, expression: str, expected: Any
) -> None:
    assert shell.one(f"select {expression}") == expected
    # The same of a column's value.
    text = expression.replace(
        "::timestamp_tz::timestamp_ltz", "::varchar::timestamp_tz::timestamp_ltz"
    )
    assert shell.one(f"select {text}") == expected


def test_hours_of_a_zone_with_half_an_hour_begin_on_its_own_clock(shell: Shell) -> None:
    shell.run("alter session set timezone = 'Asia/Kolkata'")
    try:
        late, early = (f"'2024-07-01 {at}'::timestamp_ltz" for at in ("11:01:00", "10:59:00"))
        assert shell.one(f"select datediff(hour, {early}, {late})") == 1
        assert shell.one(f"select datediff(hour, {late}, dateadd(minute, 30, {late}))") == 0
    finally:
        shell.run("alter session set timezone = 'America/New_York'")
