"""Answers where the engine's own would differ from what Snowflake documents, without an error."""

from __future__ import annotations

import datetime
import math
import statistics
from decimal import ROUND_HALF_UP, Decimal, localcontext
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

from sql import errors
from tests.kit import local_sql, sql_text

NINES = "9" * 38
BERLIN = ZoneInfo("Europe/Berlin")


def naive(*fields: int) -> datetime.datetime:
    return datetime.datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001 - TIMESTAMP_NTZ


def answers(tmp_path: Path, cases: dict[str, Any], *before: str) -> None:
    """Compare each text's one row, or its error's code, with what is expected."""

    async def work(local: local_sql.LocalSql) -> None:
        for text in before:
            await local.run(text)
        for text, expected in cases.items():
            try:
                rows: Any = await local.rows(text)
            except errors.SqlError as error:
                rows = error.code
            else:
                rows = rows[0] if len(rows) == 1 else rows
            assert rows == expected, text

    local_sql.run_local(tmp_path, work)


def test_sums_of_wide_numbers_are_exact_or_out_of_range(tmp_path: Path) -> None:
    twice = f"(values ({NINES}), ({NINES})) t(a)"
    half = int(NINES) // 2
    answers(
        tmp_path,
        {
            f"select sum(a) from {twice}": "100039",
            f"select avg(a) from {twice}": "100039",
            f"select sum(a) over () from {twice}": "100039",
            f"select sum(a) from (values ({half}), ({half}), (1)) t(a)": (Decimal(NINES),),
            "select sum(a), sum(-a) from n": (Decimal(3 * 10**37), Decimal(-3 * 10**37)),
            "select sum(a * 10) from n": "100039",
            "select sum(a) over (order by a rows 1 preceding) from n": [
                (Decimal(10**37),),
                (Decimal(2 * 10**37),),
                (Decimal(2 * 10**37),),
            ],
        },
        "create table n (a number(38,0))",
        f"insert into n values ({10**37}), ({10**37}), ({10**37})",
    )


def test_a_sum_over_the_rows_of_a_cube_counts_each_grouping_set(tmp_path: Path) -> None:
    big = (1 << 62) - 1
    inner = "select sum(v) v from t group by cube (a, b)"
    answers(
        tmp_path,
        {
            # One row is a group of each of the four sets.
            f"select sum(v) from ({inner})": (Decimal(4 * big),),
            "select sum(v) from (select sum(v) v from t group by rollup (a, b))": (
                Decimal(3 * big),
            ),
            "select sum(v) from (select sum(v) v from t group by grouping sets (a, b, (), ()))": (
                Decimal(4 * big),
            ),
            "select sum(v) from (select sum(v) v from t group by a, cube (b))": (Decimal(2 * big),),
            "select count(*) from (select sum(v) v from t where a > 5 group by cube (a, b))": (1,),
        },
        "create table t (a int, b int, v int)",
        f"insert into t values (1, 2, {big})",
    )


def test_text_is_added_up_as_floating_point(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select sum(a), avg(a) from (values ('1.1234567'), ('2.0000001')) t(a)": (
                1.1234567 + 2.0000001,
                (1.1234567 + 2.0000001) / 2,
            ),
            "select sum(a) from (values ('1e3'), ('x')) t(a)": "100038",
            "select median(a) from (values ('1.234567891'), ('2.000000002')) t(a)": (
                (1.234567891 + 2.000000002) / 2,
            ),
            "select median(a) from (values ('1e-9'), ('3e-9')) t(a)": (2e-9,),
            "select max(a) from (select ratio_to_report(a) over () a"
            " from (values ('0.000001'), ('0.000003')) t(a))": (0.75,),
            "select var_pop(a) from (values ('0.000001'), ('0.000003')) t(a)": (1e-12,),
            "select corr(a, a) from (values ('0.000001'), ('0.000003')) t(a)": (1.0,),
        },
    )


def test_a_quotient_and_a_median_of_38_digits_are_exact(tmp_path: Path) -> None:
    most = 10**32 - 1
    answers(
        tmp_path,
        {
            "select w / w, w / 4, v / v from t": (
                Decimal(1),
                Decimal("2" + "4" + "9" * 30 + ".75"),
                Decimal(1),
            ),
            "select w / n from t": (Decimal("3" + "9" * 31 + ".6"),),
            "select w / 0.01 from t": "100039",
            "select w / (n - n) from t": "100051",
            "select median(w), median(b), median(v) from (select * from t union all"
            " select w - 1, n, b - 1, v from t)": (
                Decimal("9" * 31 + "8.5"),
                Decimal("999999999999999998.5"),
                Decimal("1e-37"),
            ),
        },
        "create table t (w number(38), n number(10, 2), b number(18), v number(38, 37))",
        f"insert into t values ({most}, 2.5, 999999999999999999, {Decimal('1e-37'):f})",
    )


def test_quotients_and_averages_of_many_decimal_places_are_exact(tmp_path: Path) -> None:
    places = Decimal("1." + "0" * 37)
    answers(
        tmp_path,
        {
            "select v / v, v / 2 from t order by v": [
                (places, Decimal("0.125")),
                (places, Decimal("3.75")),
            ],
            "select avg(v) over () from t": [(Decimal("3.875"),)] * 2,
            "select avg(v) from t": (Decimal("3.875"),),
            "select avg(m), avg(v / 10) from t": (Decimal("49.5"), Decimal("0.3875")),
            "select v / w from t where v > 1": "100039",
        },
        "create table t (v number(38, 37), m number(38, 36), w number(38, 37))",
        f"insert into t values (7.5, 99, {Decimal('1e-37'):f}), (0.25, 0, 1)",
    )


def test_the_variance_of_numbers_is_an_exact_number(tmp_path: Path) -> None:
    whole = [10**18 + 1, 10**18 + 2, 10**18 + 4, 10**18 + 8]
    parts = [Decimal(f"{number}.25") for number in (3, 5, 10**13)]
    with localcontext(prec=80):
        mean = sum(parts) / 3
        of_parts = sum((part - mean) ** 2 for part in parts) / 2
        shown = of_parts.quantize(Decimal("1e-10"), ROUND_HALF_UP)
    answers(
        tmp_path,
        {
            "select variance(i), var_pop(i) from t": (
                Decimal(statistics.variance(whole)).quantize(Decimal("1e-6")),
                Decimal(statistics.pvariance(whole)),
            ),
            "select n, variance(i), var_pop(i) from t group by n order by n": [
                (number, None, 0) for number in range(1, 5)
            ],
            "select variance(distinct i - 1000000000000000000) from (select i from t union all"
            " select i from t)": (Decimal("9.583333"),),
            "select variance(i) over (order by n rows 1 preceding) from t": [
                *[(None,), (Decimal("0.5"),), (Decimal(2),), (Decimal(8),)],
            ],
            "select variance(i), var_pop(i) from t where n > 4": (None, None),
            "select variance(column1) from values "
            + ", ".join(f"({part}::number(21, 2))" for part in parts): (shown,),
            "select variance(column1 * 1000) from values (1e16::number(38, 0)), (0)": "100039",
        },
        "create table t (i int, n int)",
        "insert into t values "
        + ", ".join(f"({number}, {place})" for place, number in enumerate(whole, 1)),
    )


def test_a_date_moved_beyond_64_bits_is_out_of_range_in_the_words_of_moments(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for moved in ("'2020-01-01'::date", "column1"):
            text = f"select dateadd(day, {(1 << 63) - 1}, {moved}) from values ('2020-01-01'::date)"
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert (caught.value.code, "outside the years" in caught.value.message) == (
                "100039",
                True,
            )

    local_sql.run_local(tmp_path, work)


def test_moments_moved_beyond_the_calendar_are_out_of_range(tmp_path: Path) -> None:
    most = (1 << 63) - 1
    at = "'2020-01-01'::timestamp"
    answers(
        tmp_path,
        {
            f"select dateadd(microsecond, {most}, {at})": "100039",
            f"select dateadd(day, {most}, {at})": "100039",
            f"select dateadd(hour, {-most}, {at})": "100039",
            f"select dateadd(hour, {most}, {at}::timestamp_ltz)": "100039",
            f"select dateadd(second, v, {at}) from t": "100039",
            f"select dateadd(second, v - {most}, {at}) from t": (naive(2020, 1, 1),),
            f"select dateadd(second, {most} - v - 60, {at}::timestamp_ltz) from t": (
                datetime.datetime(2019, 12, 31, 23, 59, tzinfo=datetime.UTC),
            ),
            f"select dateadd(day, {most}, '2020-01-01'::date)": "100039",
            # Whole days change no TIME: 2^63 - 1 hours are 7 hours beyond them.
            f"select dateadd(hour, {most}, '01:00'::time)": (datetime.time(8),),
            f"select dateadd(hour, {-most}, '08:00'::time)": (datetime.time(1),),
        },
        "create table t (v int)",
        f"insert into t values ({most})",
    )


def test_random_numbers_have_64_random_bits(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        series = ", ".join(["(1)"] * 200)
        rows = await local.rows(f"select random() from (values {series}) t(a)")
        numbers = [number % (1 << 64) for (number,) in rows]
        assert len(set(numbers)) == 200
        for bit in range(64):
            ones = sum(number >> bit & 1 for number in numbers)
            assert 40 < ones < 160, bit  # eight standard deviations around a hundred

    local_sql.run_local(tmp_path, work)


def test_aggregates_of_nulls_alone_are_null(tmp_path: Path) -> None:
    keys = "(values (1, null::int), (2, null)) t(a, k)"
    answers(
        tmp_path,
        {
            f"select max_by(a, k), min_by(a, k) from {keys}": (None, None),
            "select max_by(a, k), min_by(a, k) from (values (1, 5), (2, null), (3, 7)) t(a, k)": (
                3,
                1,
            ),
            "select max_by(a, k) from (values (null, 9), (2, 5)) t(a, k)": (None,),
            f"select boolxor_agg(k) from {keys}": (None,),
            "select boolxor_agg(a) from (values (true)) t(a) where not a": (None,),
            "select boolxor_agg(a) from (values (true), (false), (null)) t(a)": (True,),
            "select boolxor_agg(a) from (values (true), (true)) t(a)": (False,),
            "select boolxor_agg(a) from (values (false), (null)) t(a)": (False,),
        },
    )


def test_words_begin_after_the_documented_delimiters(tmp_path: Path) -> None:
    marks = 'a!b?c@d"e^f#g$h&i~j_k,l.m:n;o+p-q*r%s/t|u\\\\v[w]x(y)z{a}b<c>d e'
    answers(
        tmp_path,
        {
            f"select initcap('{marks}')": (marks.replace("\\\\", "\\").title(),),
            "select initcap('o''clock a=b 1AB ÉTÉ')": ("O'clock A=b 1ab Été",),
            "select initcap('the QUICK-brown fox', '-')": ("The quick-Brown fox",),
            "select initcap('apple is僉sweetandballIsROUND', '僉a b')": (
                "aPple Is僉SweetaNdbaLlisround",
            ),
            "select initcap('the QUICK fox', '')": ("The quick fox",),
            "select initcap(null), initcap('a', null)": (None, None),
        },
    )


def test_a_dollar_in_a_replacement_is_itself(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select regexp_replace('abc', '(b)', '$1')": ("a$1c",),
            "select regexp_replace('abc', '(b)', '[\\\\1]$$')": ("a[b]$$c",),
            "select regexp_replace('abc', '(b)', r) from (values ('$0 \\\\1')) t(r)": ("a$0 bc",),
        },
    )


def test_text_that_looks_like_a_call_of_ours_is_text(tmp_path: Path) -> None:
    text = " _to_fixed_99_5("
    answers(
        tmp_path,
        {
            f"select '{text}' || a from (values ('x')) t(a)": (f"{text}x",),
            f"""select a as "{text}" from (values ('it''s{text}')) t(a)""": (f"it's{text}",),
        },
    )


def test_times_that_the_clocks_show_twice_or_never_are_computed(tmp_path: Path) -> None:
    """In Berlin, 02:30 is shown never on 2024-03-31 and twice on 2024-10-27."""
    never, twice = "'2024-03-31 02:30:00'", "'2024-10-27 02:30:00'"
    after_gap = datetime.datetime(2024, 3, 31, 3, 30, tzinfo=BERLIN)
    first = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)
    second_text = "'2024-10-27 02:30:00 +01:00'"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("alter session set timezone = 'Europe/Berlin'")
        await local.run("create table t (s varchar, n timestamp_ntz(6))")
        await local.run(f"insert into t values ({never}, {never}), ({twice}, {twice})")
        for text, expected in {
            f"select {never}::timestamp_ltz, {twice}::timestamp_ltz": [(after_gap, first)],
            f"select {second_text}::timestamp_ltz": [(second,)],
            "select s::timestamp_ltz from t order by s": [(after_gap,), (first,)],
            "select try_cast(s as timestamp_ltz) from t order by s": [(after_gap,), (first,)],
            "select n::timestamp_ltz from t order by s": [(after_gap,), (first,)],
            "select dateadd(day, 1, dateadd(day, -1, n::timestamp_ltz)) from t order by s": [
                (after_gap,),
                (first,),
            ],
            "select date_trunc(hour, n::timestamp_ltz) from t order by s": [
                (after_gap.replace(minute=0),),
                (first.replace(minute=0),),
            ],
            # Within the second of two equal hours it stays that one.
            f"select date_trunc(hour, {second_text}::timestamp_ltz)": [(second.replace(minute=0),)],
            f"select date_trunc(day, {second_text}::timestamp_ltz)": [
                (datetime.datetime(2024, 10, 27, tzinfo=BERLIN),)
            ],
            f"select dateadd(hour, 1, {twice}::timestamp_ltz) = {second_text}::timestamp_ltz": [
                (True,)
            ],
        }.items():
            assert at_utc(await local.rows(text)) == at_utc(expected), text

    local_sql.run_local(tmp_path, work)


def at_utc(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    """Return rows with each moment in UTC: two of one zone are compared by what it shows."""
    return [
        [
            cell.astimezone(datetime.UTC) if isinstance(cell, datetime.datetime) else cell
            for cell in row
        ]
        for row in rows
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_a_number_or_its_text_is_an_instant_in_every_zone(tmp_path: Path, zone: str) -> None:
    instant = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    answers(
        tmp_path,
        {
            "select to_timestamp_ltz(1700000000)": (instant,),
            "select to_timestamp_ltz(1700000000, 0)": (instant,),
            "select to_timestamp_ltz(1700000000000, 3)": (instant,),
            "select to_timestamp_ltz('1700000000')": (instant,),
            "select to_timestamp_ltz(s) from (values ('1700000000')) t(s)": (instant,),
            "select to_timestamp_ltz(1700000000.25)": (instant.replace(microsecond=250_000),),
            "select to_timestamp_ntz(1700000000)": (instant.replace(tzinfo=None),),
            "select to_timestamp_ltz(0)": (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),),
        },
        f"alter session set timezone = '{zone}'",
    )


def test_sums_and_products_of_more_than_38_digits_are_out_of_range(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            f"select {NINES} + 1": "100039",
            f"select {NINES} + 1 - 1": (Decimal(NINES),),
            f"select -{NINES} - 1": "100039",
            f"select {5 * 10**37} * 3": "100039",
            f"select {5 * 10**37} * -1": (Decimal(-5 * 10**37),),
            "select a + a from w": "100039",
            "select a - a + b from w": (Decimal("1.5"),),
            "select b + 0.0000000001 from w": (Decimal("1.5000000001"),),
            f"select {' + '.join(['b'] * 900)} from w": (Decimal(1350),),
        },
        "create table w (a number(38,0), b number(38,10))",
        f"insert into w values ({9 * 10**37}, 1.5)",
    )


def test_products_of_columns_are_exact_up_to_38_digits_and_out_of_range_beyond(
    tmp_path: Path,
) -> None:
    most, root = Decimal("9999999999999999.99"), 31622776601683794
    cases: dict[str, Any] = {
        "select a * b, a * -b, -a * -b from m": (
            Decimal("99999999999999999900.0000"),
            Decimal("-99999999999999999900.0000"),
            Decimal("99999999999999999900.0000"),
        ),
        "select most * 9999999999999999.99 from m": (
            Decimal("99999999999999999800000000000000.0001"),
        ),
        "select a * none, (a * b) is null from m": (None, False),
        "select sum(a * b) from m": (Decimal("99999999999999999900.0000"),),
    }
    # Products of 39 digits: within 127 bits and beyond them.
    for factor in (12, -12, 34, -34):
        cases[f"select (c * {factor}) * c from m"] = "100039"
        cases[f"select 1 from m where (c * {factor}) * c = 0"] = "100039"
        cases[f"select sum((c * {factor}) * c) from m"] = "100039"
    cases["select (c * 9) * c, (c * -9) * c from m"] = (
        Decimal(9 * root**2),
        Decimal(-9 * root**2),
    )
    answers(
        tmp_path,
        cases,
        "create table m (a number(20,2), b number(20,2), c number(30,2), most number(30,2), "
        "none number(20,2))",
        f"insert into m values (9999999999999999.99, 10000, {root}, {most}, null)",
    )


def test_times_in_small_units_do_not_wrap(tmp_path: Path) -> None:
    start, end = "'1900-01-01'::timestamp", "'2262-05-01'::timestamp"
    days = (datetime.date(2262, 5, 1) - datetime.date(1900, 1, 1)).days
    answers(
        tmp_path,
        {
            f"select datediff(nanosecond, {start}, {end})": (Decimal(days * 86_400 * 10**9),),
            f"select datediff(microsecond, {start}, {end})": (days * 86_400 * 10**6,),
            f"select to_timestamp({(1 << 63) - 1}, 0)": "100039",
            f"select to_timestamp(v, 3) from (values ({(1 << 63) - 1})) t(v)": "100039",
        },
    )


def test_a_value_that_is_used_twice_is_drawn_once(tmp_path: Path) -> None:
    rows = ", ".join(["(1)"] * 60)
    thirds = "when 0 then 1 when 1 then 1 when -1 then 1 when 2 then 1 when -2 then 1"
    answers(
        tmp_path,
        {
            "select s from (select uuid_string() u, u = u s)": (True,),
            "select s - r from (select random() % 9 r, r + 1 s)": (1,),
            "select count(a) from t where random() between 1 and 2": (0,),
            "select sign(random()) in (-1, 0, 1)": (True,),
            "select greatest(nullif(random(), 0), 1) >= 1": (True,),
            "select decode(random(), null, 1)": (None,),
            "select count(*), uuid_string() u, u = u from t": "000002",
            "select u = u from (select uuid_string() u)": (True,),
            f"select sum(case random() % 3 {thirds} end) from (values {rows}) t(a)": (60,),
            f"select count(decode(random() % 2, 0, 1, 1, 1, -1, 1)) from (values {rows}) t(a)": (
                60,
            ),
            "select nullif(random(), 5) is null, nullif(uuid_string(), 'a') is null": (
                False,
                False,
            ),
            f"select sum(n) from (select random() % 2 r, count(*) n from (values {rows}) t(a) "
            "group by r)": (60,),
            "select least(random(), null) is null": (True,),
        },
        "create table t (a int)",
    )


def test_a_subquery_that_cannot_be_joined_is_refused_by_its_own_number(tmp_path: Path) -> None:
    inner = "from (values (1), (2)) u(b) where"
    answers(
        tmp_path,
        {
            f"select (select max(b) {inner} b <= t.a or t.a is null) from t": "002031",
            f"select (select max(b) {inner} b <= coalesce(t.a, 9)) from t": "002031",
            f"select (select iff(count(*) = 0, 5, null) {inner} b < t.a) from t": "002031",
            f"select (select max(b + t.a) {inner} b < t.a) from t": "002031",
            f"select (select max(b) {inner} b < t.f) from t": "002031",
            # An a of 0 would fail although the query around leaves it out.
            f"select (select max(b) {inner} b < 10 / t.a) from t where a > 0": "002031",
            f"select (select max(b) {inner} b < mod(9, t.a)) from t": "002031",
            f"select (select max(b) {inner} b <= t.a and b < 2 * t.a - 1) from t": (2,),
            f"select (select max(b) {inner} b < t.a) from (select a from t) t": "002031",
            # The rows of such a query may be others when it is read again.
            f"with r as (select a from t limit 1) select (select max(b) {inner} b < r.a) from r": (
                "002031"
            ),
            f"select (select max(b) {inner} b < t.a) from t sample (100)": "002031",
            # So may those of which several aggregates stand beside an outer column.
            "select (select t.a + max(r) - min(r) from (select random() r from t)) from t": (
                "002031"
            ),
            "select (select t.a + count(*) - sum(1) from t u sample (50)) from t": "002031",
            "select (select t.a + count(*) - sum(1) from t u where random() > 0) from t": "002031",
            "with r as (select random() b from t), s as (select b from r)"
            " select (select t.a + max(s.b) - min(s.b) from s) from t": "002031",
            "with r as (select a from t limit 1)"
            " select (select t.a + max(r.a) - min(r.a) from r) from t": "002031",
            "select (select t.a + max(b) - min(b) from v) from t": "002031",
            "with r as (select a from t) select (select t.a + max(r.a) - min(r.a) from r) from t": (
                2,
            ),
            "select (select 0 * t.a + max(r) is null from (select random() r from t)) from t": (
                False,
            ),
            f"select (select max(b) {inner} b = t.a) from t": (2,),
            f"select (select max(b) {inner} b <= t.a), (select min(b) {inner} b > t.a) from t": (
                *(2, None),
            ),
        },
        "create table t (a int, f float)",
        "insert into t values (2, 2)",
        "create view v as select random() b from t",
    )


def test_a_scalar_subquery_without_rows_is_null(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select (select 1 where 1 = 0)": (None,),
            "select a, (select 'x' from t where a > 100) from t": (2, None),
            "select coalesce((select 1 from t where a > 100), 5), 1 + (select 1 from t limit 0)": (
                *(5, None),
            ),
            "select a from t where (select 1 from t where a > 100) is null": (2,),
            "select (select 1 from t having count(*) > 9), (select 1 union select 1)": (None, 1),
            "with c as (select 1 as x) select (with d as (select x from c) select x from d"
            " where x > 1), (select x from c)": (None, 1),
            "select (select count(*) from t where a > 100)": (0,),
            "select (select column1 from values (1), (2))": "090150",
        },
        "create table t (a int)",
        "insert into t values (2)",
    )


UNEQUAL = (
    "select a, (select max(b) from t u where u.a < t.a) from t",
    "select a, (select count(*) from t u where u.a <= t.a) from t",
    "select a, (select count(distinct b) from t u where u.a <> t.a and u.b = t.b) from t",
    "select a, (select sum(u.b) + 1 from t u where u.a >= t.a and u.b = t.b) from t",
    "select a, (select max(c) from (values (1), (2)) u(c) where c <= t.a) from t",
    "select a, exists (select 1 from t u where u.a < t.a) from t",
    "select a, not exists (select 1 from t u where u.a < t.a and u.d > t.d) from t",
    "select a, b in (select u.b from t u where u.a < t.a) from t",
    "select a from t where a > (select avg(u.a) from t u where u.d < t.d)",
    "select b, (select max(u.a) from t u where u.a < t.b) from t group by b",
    "select x.a, (select max(u.a) from t u where u.a < x.a), (select min(u.a) from t u"
    " where u.a > y.b) from t x left join t y on x.a = y.b + 1",
    "select a, (select max(u.b) from t u join t v on u.a = v.a where v.a < t.a) from t",
    "select d, (select sum(u.b) from t u where u.d between '2024-01-01' and t.d) from t",
)


OF_OUTER_ROWS = (
    "select a, (select max(u.b) from t u where t.a = 1) from t",
    "select a, (select count(*) from t u where t.b > 1 and u.a = t.a) from t",
    "select a, (select coalesce(max(u.b), -1) from t u where t.a is null) from t",
    "select a, (select count(*) + t.a from t u where u.a = t.a) from t",
    "select a, (select t.a + max(u.b) * count(*) from t u where u.b = t.b and t.a < 3) from t",
    "select a, exists (select 1 from t u where t.a = 3) from t",
    "select a, a in (select u.b from t u where t.a > 1) from t",
    "select a from t where (select count(*) from t u where t.a = 3 and u.a > 2) = 3",
    "select b, (select max(u.a) from t u where t.b = 1) from t group by b",
    "select a, (select max(u.a) from t u where u.a < t.a and 10 / t.a > 4) from t where a > 0",
    "select (select t.a), (select t.a where t.b = 2) from t",
    "select v, (select max(u.a) from t u where v = 2) from (select a + 1 as v from t) x",
)


@pytest.mark.parametrize("texts", [UNEQUAL, OF_OUTER_ROWS])
def test_a_scalar_subquery_may_read_rows_around_it_otherwise_than_by_equality(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    before = (
        "create table t (a int, b int, d date)",
        "insert into t values (1, 1, '2024-01-01'), (2, 1, '2024-01-02'), (3, 2, '2024-01-03'),"
        " (3, 2, '2024-01-03'), (4, 2, '2024-01-01'), (null, 5, null), (0, null, '2024-02-01')",
    )

    async def work(local: local_sql.LocalSql) -> None:
        with duckdb.connect(":memory:") as other:
            for text in before:
                await local.run(text)
                other.execute(text)
            for text in texts:
                rows = await local.rows(text)
                assert sorted(rows, key=repr) == sorted(other.execute(text).fetchall(), key=repr)

    local_sql.run_local(tmp_path, work)


def test_columns_by_number_order_by_all_and_the_schema_public(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select $1, $2 from lake..t order by $1 desc": [(2, "x"), (1, "y")],
            "select t.$2 from lake.public.t where $1 = 1": ("y",),
            "select b.$2 from lake..t a join lake..t b on a.$1 = b.$1 + 1": ("y",),
            "select lake..t.a, x.b from lake..t join lake..t x on x.a = lake..t.a"
            " where lake..t.a > 1": (2, "x"),
            "select lake..t.* from lake..t where LAKE..T.a = 1": (1, "y"),
            "select lake..t.a from lake..t as x": "000904",
            "select lake..t from lake..t": "000904",
            "select $3 from lake..t": "000904",
            "select $1 from lake..t a, lake..t b": "002028",
            "select b, a from lake..t order by all": [("x", 2), ("y", 1)],
            "select b, a from lake..t order by all desc": [("y", 1), ("x", 2)],
            "select a, b from lake..t union all select 0, 'z' order by all": [
                (0, "z"),
                (1, "y"),
                (2, "x"),
            ],
            "select 2 as a union all select 1 order by all": [(1,), (2,)],
            'select a as "ALL", b from lake..t order by all': [(1, "y"), (2, "x")],
            "drop table lake..t": ("T successfully dropped.",),
        },
        "create schema public",
        "create table lake..t (a int, b varchar)",
        "insert into lake..t values (1, 'y'), (2, 'x')",
        "use schema ns",
    )


def weeks_from_2024(day: datetime.date) -> int:
    """Return how many Mondays day is after that of 2024-01-01, or before."""
    return (day - datetime.timedelta(days=day.weekday()) - datetime.date(2024, 1, 1)).days // 7


def test_every_day_of_the_calendar_can_be_cut_to_a_unit(tmp_path: Path) -> None:
    """Nanoseconds in 64 bits reach from 1677 to 2262 only; tables end in 9999-12-31."""
    date = datetime.date
    answers(
        tmp_path,
        {
            "select date_trunc(month, d), date_trunc(month, s) from t order by 1": [
                (date(1, 1, 1), naive(1, 1, 1)),
                (date(1969, 12, 1), naive(1969, 12, 1)),
                (date(9999, 12, 1), naive(9999, 12, 1)),
            ],
            "select date_trunc(week, d), date_trunc(quarter, d), trunc(d, 'year') from t "
            "order by 1": [
                (date(1, 1, 1), date(1, 1, 1), date(1, 1, 1)),
                (date(1969, 12, 29), date(1969, 10, 1), date(1969, 1, 1)),
                (date(9999, 12, 27), date(9999, 10, 1), date(9999, 1, 1)),
            ],
            "select date_trunc(day, s), date_trunc(minute, s), date_trunc(millisecond, s) from t "
            "order by 1": [
                (naive(1, 1, 1), naive(1, 1, 1, 23, 59), naive(1, 1, 1, 23, 59, 59, 999_000)),
                (
                    naive(1969, 12, 31),
                    naive(1969, 12, 31, 23, 59),
                    naive(1969, 12, 31, 23, 59, 59, 999_000),
                ),
                (
                    naive(9999, 12, 31),
                    naive(9999, 12, 31, 23, 59),
                    naive(9999, 12, 31, 23, 59, 59, 999_000),
                ),
            ],
            "select last_day(d), last_day(d, 'year') from t order by 1": [
                (date(1, 1, 31), date(1, 12, 31)),
                (date(1969, 12, 31), date(1969, 12, 31)),
                (date(9999, 12, 31), date(9999, 12, 31)),
            ],
            "select datediff(week, '2024-01-01', d), datediff(hour, '2024-01-01', s) from t "
            "order by 1": [
                (weeks_from_2024(day), 24 * (day - date(2024, 1, 1)).days + 23)
                for day in (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31))
            ],
            "select '9999-12-31 23:00:00 -05:00'::timestamp_ltz": "100039",
            "select try_cast('9999-12-31 23:00:00 -05:00' as timestamp_ltz)": (None,),
            f"select dateadd(month, {(1 << 63) - 1}, d) from t": "100039",
        },
        "create table t (d date, s timestamp_ntz)",
        "insert into t values ('0001-01-01', '0001-01-01 23:59:59.999999'), "
        "('1969-12-31', '1969-12-31 23:59:59.999999'), "
        "('9999-12-31', '9999-12-31 23:59:59.999999')",
    )


def test_a_condition_over_a_right_join_reads_the_column_of_its_own_table(tmp_path: Path) -> None:
    big = "(select column1 k, column2 v from values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'))"
    answers(
        tmp_path,
        {
            # No row of few has a partner with v: both of its rows stay, whatever their own v is.
            "select few.v from many right join few on many.k = few.k + 10 "
            "where coalesce(many.v, '') = '' order by 1": [("x",), ("y",)],
            "select few.v, many.v from many right join few on many.k = few.k + 10 "
            "where coalesce(many.v, '') = '' order by 1": [("x", None), ("y", None)],
            "select few.v, many.v from many right join few on many.k = few.k "
            "where many.v like '%' order by 1": [("x", "a"), ("y", "b")],
            "select few.v, many.v from many right join few on many.k = few.k + 10 "
            "where not (many.v = 'z' and few.v not like '%q%')": [],
            f"select few.v, b.v from many join {big} b on many.k = b.k right join few "
            "on b.k = few.k + 1 where coalesce(b.v, '') <> 'b' order by 1": ("y", "c"),
            "select few.*, many.* from many right join few using (k) where k > 1": (
                2,
                "y",
                2,
                "b",
            ),
        },
        "create table many (k int, v varchar)",
        "insert into many values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f')",
        "create table few (k int, v varchar)",
        "insert into few values (1, 'x'), (2, 'y')",
    )


def test_floor_and_ceil_of_the_largest_digits_have_one_digit_more(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select floor(-m), ceil(m), floor(-m, 0) from n": (-1000, 1000, -1000),
            "select floor(m), ceil(-m) from n": (999, -999),
        },
        "create table n (m number(5, 2))",
        "insert into n values (999.99)",
    )


def test_a_list_of_in_may_hold_choices_that_read_columns(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select a from t where iff(a > 1, b, a) in (null, least(a, b)) order by 1": [
                (1,),
                (2,),
            ],
            "select a from t where a + 1 in (null, iff(b = 2, null, a) + 1)": (1,),
            "select a from t where a + 1 not in (9, iff(b = 2, 9, a) + 1)": (2,),
        },
        "create table t (a int, b int)",
        "insert into t values (1, 1), (2, 2)",
    )


FINE = "2024-01-01 00:00:00.123456789"
REFUSED = "000002"


def test_digits_below_a_microsecond_are_refused_unless_a_type_names_fewer(tmp_path: Path) -> None:
    moment = naive(2024, 1, 1, 0, 0, 0, 123456)
    answers(
        tmp_path,
        {
            f"select '{FINE}'::timestamp": REFUSED,
            f"select timestamp '{FINE}'": REFUSED,
            f"select '{FINE}'::timestamp_ltz": REFUSED,
            f"select '{FINE}'::timestamp_tz": REFUSED,
            "select '12:00:00.123456789'::time": REFUSED,
            "select s::timestamp from t": REFUSED,
            "select try_to_timestamp(s) from t": REFUSED,
            "select try_cast(s as timestamp_ltz) from t": REFUSED,
            "select try_cast(s as timestamp_tz) from t": REFUSED,
            "select parse_json(v):a::timestamp from t": REFUSED,
            f"select to_timestamp('{FINE}', 'YYYY-MM-DD HH24:MI:SS.FF9')": REFUSED,
            f"select case when 1 = 2 then '{FINE}'::timestamp end": (None,),
            "select to_timestamp('2024-01-01 00:00:00.123456000')": (moment,),
            "select to_timestamp('2024-01-01 00:00:00.123456000', 'YYYY-MM-DD HH24:MI:SS.FF9')": (
                moment,
            ),
            "select s::date, try_to_date(s) from t": (moment.date(), moment.date()),
            "select s::timestamp_ntz(6), try_cast(s as timestamp_ntz(3)) from t": (
                moment,
                moment.replace(microsecond=123000),
            ),
            "select parse_json(v):a::timestamp_ntz(6) from t": (moment,),
            "select '1960-01-01 00:00:00.9'::timestamp_ntz(0)": (naive(1960, 1, 1),),
            "select s::timestamp_tz(3)::varchar from t": ("2024-01-01 00:00:00.123 +0000",),
            "select '12:00:00.123456789'::time(2)": (datetime.time(12, 0, 0, 120000),),
            "select to_timestamp('1704067200123456789')": REFUSED,
            "select to_timestamp('1704067200123456000')": (moment,),
            "select dateadd(nanosecond, 123456000, '2024-01-01'::timestamp)": (moment,),
            "select dateadd(nanosecond, 1, '2024-01-01'::timestamp)": REFUSED,
        },
        "create table t (s varchar, v varchar)",
        f"""insert into t values ('{FINE}', '{{"a": "{FINE}"}}')""",
    )


def test_a_write_cuts_to_the_digits_that_its_column_names(tmp_path: Path) -> None:
    moment = naive(2024, 1, 1, 0, 0, 0, 123456)
    answers(
        tmp_path,
        {
            "select count(*) from t where a = c and b = '12:00:00.123456'": (3,),
            "select distinct a from t": (moment,),
        },
        "create table t (a timestamp_ntz(6), b time(6), c timestamp_ntz(6), s varchar)",
        f"insert into t values ('{FINE}', '12:00:00.123456789', '{FINE}', '{FINE}')",
        "insert into t select s, '12:00:00.123456789', s, s from t",
        """insert into t select o:a, '12:00:00.123456', o:a, o:a
           from (select object_construct('a', s) o from t limit 1)""",
        "update t set a = s",
    )


def test_a_write_refuses_digits_that_its_column_names_and_does_not_have(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            **{
                f"insert into t (s, {column}) {rows}": REFUSED
                for column in ("a", "b", "c", "d")
                for rows in (f"values ('', '{FINE}')", "select '', s from t")
            },
            f"insert into t (e) values ('{FINE[11:]}')": REFUSED,
            "insert into t (a) select o:a from (select object_construct('a', s) o from t)": REFUSED,
            "update t set a = s": REFUSED,
            "merge into t using (select 1 i) o on false when not matched then"
            f" insert (a) values ('{FINE}')": REFUSED,
            "create table u as select s::timestamp as a from t": REFUSED,
            "insert into t (s, a) select 'cut', s::timestamp_ntz(6) from t": (1,),
            "create table u as select s::timestamp_ntz(6) as a from t where s <> 'cut'": (
                "Table U successfully created.",
            ),
            f"insert into u values ('{FINE}')": (1,),
            "select distinct t.a, u.a, count(*) from t, u where t.a = u.a group by all": (
                naive(2024, 1, 1, 0, 0, 0, 123456),
                naive(2024, 1, 1, 0, 0, 0, 123456),
                2,
            ),
            "select count(*) from t": (2,),
        },
        "create table t (a timestamp_ntz(9), b timestamp, c timestamp_ltz, d timestamp_tz, e time,"
        " s varchar)",
        f"insert into t (s) values ('{FINE}')",
    )


def test_a_comparison_with_a_literal_of_nanoseconds_is_exact(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            f"select count(*) from t where a < '{FINE}'": (1,),
            f"select count(*) from t where a <= '{FINE}'": (1,),
            f"select count(*) from t where a > '{FINE}'": (0,),
            f"select count(*) from t where a >= '{FINE}'": (0,),
            f"select count(*) from t where '{FINE}' > a and '{FINE}' >= a": (1,),
            f"select count(*) from t where '{FINE}' < a or '{FINE}' <= a": (0,),
            f"select count(*) from t where a between '2024-01-01' and '{FINE}'::timestamp": (1,),
            f"select count(*) from t where a = '{FINE}'": REFUSED,
        },
        "create table t (a timestamp_ntz(6))",
        f"insert into t values ('{FINE}')",
    )


PAIR_STATISTICS = (
    *("corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept"),
    *("regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
)
STATISTICS = ("median", "bitxor_agg", "mode")


def test_distinct_is_refused_by_aggregates_that_would_ignore_it(tmp_path: Path) -> None:
    calls = [f"{name}(distinct i, i)" for name in PAIR_STATISTICS]
    calls += [f"{name}(distinct i)" for name in STATISTICS]
    calls.append("approx_percentile(distinct i, 0.5)")
    answers(
        tmp_path,
        {
            **{f"select {each} from t": REFUSED for each in calls},
            **{f"select g, {each} from t group by g": REFUSED for each in calls},
            "select bitor_agg(distinct i), bitand_agg(distinct i) from t": (7, 0),
            "select boolxor_agg(i = 1), boolxor_agg(distinct i = 1) from t": (False, True),
            "select g, boolxor_agg(distinct i = 1) from t group by g order by g": [
                (1, True),
                (2, False),
            ],
        },
        "create table t (g int, i int)",
        "insert into t values (1, 1), (1, 1), (1, 2), (2, 4), (2, 4), (2, null)",
    )


def test_spreads_of_distinct_values_count_each_once(tmp_path: Path) -> None:
    first = [1.0, 2.0, 4.5]
    samples = (statistics.stdev(first), statistics.variance(first))
    populations = (statistics.pstdev(first), statistics.pvariance(first))
    calls = ", ".join(f"{name}(distinct f)" for name in ("stddev", "variance"))
    of_population = "stddev_pop(distinct f), var_pop(distinct f)"
    answers(
        tmp_path,
        {
            f"select {calls}, {of_population} from t where g = 1": (*samples, *populations),
            f"select g, {calls}, var_pop(distinct f) from t where g <= 3 group by g order by g": [
                (1, *samples, populations[1]),
                (2, None, None, 0.0),
                (3, None, None, None),
            ],
            "select max(s), count(*) from (select variance(distinct f) over (partition by g) s"
            " from t where g = 1)": (samples[1], 6),
            "select to_varchar(variance(distinct f)), to_varchar(var_pop(distinct f)) from t"
            " where g = 4": ("NaN", "NaN"),
            "select var_pop(distinct f) from t where g = 5": (0.0,),
        },
        "create table t (g int, f double)",
        "insert into t values (1, 1), (1, 1), (1, 1), (1, 2), (1, 4.5), (1, null), (2, 7), (2, 7),"
        " (3, null), (4, 'inf'), (4, 1), (5, 0.0), (5, -0.0)",
    )


def test_a_scalar_subquery_may_compare_what_it_computes_with_rows_around_it(
    tmp_path: Path,
) -> None:
    counted = "(select count(*) from t u where upper(u.s) = upper(t.s) and u.i > 1)"
    joined = "select sum(u.i + v.i) from t u join t v on u.i = v.i"
    values = "(values (1, 'A'), (5, 'B')) v(a, b)"
    flattened = "t u, lateral flatten(input => array_construct(1)) f"
    answers(
        tmp_path,
        {
            f"select i, {counted} from t order by i": [(1, 1), (2, 1), (5, 1), (7, 0)],
            "select i, (select max(i) from t u where u.z = t.z) from t order by i": [
                *[(1, 2), (2, 2), (5, 5), (7, 7)],
            ],
            "select i from t where i = (select max(i) from t u where lower(u.s) = lower(t.s))"
            " order by i": [(2,), (5,)],
            f"select ({joined} where lower(u.s) = lower(t.s) and v.i + 1 = t.i + 1) from t"
            " order by i": [(2,), (4,), (10,), (None,)],
            f"select (select max(a) from {values} where lower(v.b) = lower(t.s)) from t"
            " order by i": [(1,), (1,), (5,), (None,)],
            f"select (select max(u.i) from {flattened} where u.i + f.value = t.i + 1) from t"
            " order by i": [(1,), (2,), (5,), (7,)],
            "select exists (select 1 from t u where upper(u.s) = t.s and u.i > 1) from t"
            " order by i": [(False,), (True,), (False,), (False,)],
        },
        "create table t (i int, s varchar, z timestamp_tz)",
        "insert into t values (1, 'a', '2024-01-01 00:00:00 Z'), (2, 'A', '2024-01-01 00:00:00 Z'),"
        " (5, 'b', '2024-02-01 00:00:00 Z'), (7, null, '2024-03-01 00:00:00 Z')",
    )


def test_queries_inside_a_select_read_the_zoned_keys_of_its_groups(tmp_path: Path) -> None:
    first, second = "2024-01-01 00:00:00.000 +0000", "2024-02-01 00:00:00.000 +0000"
    own = "from t u where u.z = t.z"
    lists = "listagg(i, ',') within group (order by i), listagg(i) within group (order by i desc)"
    answers(
        tmp_path,
        {
            f"select z::varchar, count(*) from t group by z having count(*) = (select count(*)"
            f" {own}) order by 1": [(first, 2), (second, 1)],
            "select z::varchar from t group by z having exists"
            " (select 1 from t u where u.z > t.z)": (first,),
            f"select z::varchar, (select min(i) {own}) from t group by z order by 1": [
                (first, 1),
                (second, 5),
            ],
            f"select z::varchar, sum(i) from t group by z having sum(i) > (select max(i) {own})"
            " order by sum(i) desc": (first, 3),
            f"select z::varchar, i, count(*) from t group by rollup(z, i) having exists (select 1"
            f" {own}) order by 1, 2": [
                *[(first, 1, 1), (first, 2, 1), (first, None, 2)],
                *[(second, 5, 1), (second, None, 1)],
            ],
            f"select dateadd(day, 1, z)::date, grouping(z), {lists}, row_number() over (order by z)"
            f" from t group by cube(z) having z is null or exists (select 1 {own}) order by 1": [
                (datetime.date(2024, 1, 2), 0, "1,2", "21", 1),
                (datetime.date(2024, 2, 2), 0, "5", "5", 2),
                (None, 1, "1,2,5", "521", 3),
            ],
            f"select distinct z::varchar from t group by z, i having exists (select 1 {own} and"
            " u.i > t.i)": (first,),
            "select z from t group by z having exists"
            " (select 1 from t u where u.i = t.i)": "002031",
        },
        "create table t (z timestamp_tz, i int)",
        "insert into t values ('2024-01-01 00:00:00 Z', 1), ('2024-01-01 00:00:00 Z', 2),"
        " ('2024-02-01 00:00:00 Z', 5)",
    )


def test_the_extremes_of_a_group_take_nan_for_the_greatest_wherever_it_stands(
    tmp_path: Path,
) -> None:
    shown = "to_varchar(min(f)), to_varchar(max(f))"
    greatest = "to_varchar((select max(f) from t where t.g = o.g))"
    answers(
        tmp_path,
        {
            f"select g, {shown} from t group by g order by g": [
                (1, "1.5", "NaN"),
                (2, "1.5", "NaN"),
                (3, "NaN", "NaN"),
                (4, None, None),
            ],
            f"select {shown} from t": ("1.5", "NaN"),
            f"select {shown} from t where g > 4": (None, None),
            f"select {greatest} from (select 1 g union all select 2) o": [("NaN",), ("NaN",)],
            "select g from t group by g having min(f) > 2 order by min(f)": (3,),
        },
        "create table t (g int, f float)",
        "insert into t select * from values (1, 'NaN'::float), (1, 1.5), (2, 1.5), (2, 'NaN'),"
        " (3, 'NaN'), (3, null), (4, null)",
    )


def test_the_extremes_of_a_group_of_infinities_are_infinite(tmp_path: Path) -> None:
    shown = "to_varchar(min(f)), to_varchar(max(f))"
    answers(
        tmp_path,
        {
            f"select g, {shown} from t group by g order by g": [
                (1, "-inf", "-inf"),
                (2, "inf", "inf"),
                (3, "-inf", "inf"),
                (4, "-inf", "NaN"),
                (5, "inf", "NaN"),
                (6, "-inf", "1.5"),
                (7, "1.5", "inf"),
            ],
            f"select {shown} from t where g = 1": ("-inf", "-inf"),
            "select g, to_varchar(max(distinct f)) from t where g < 3 group by g order by g": [
                (1, "-inf"),
                (2, "inf"),
            ],
        },
        "create table t (g int, f float)",
        "insert into t select * from values (1, '-inf'::float), (1, null), (2, 'inf'), (2, 'inf'),"
        " (3, 'inf'), (3, '-inf'), (4, '-inf'), (4, 'NaN'), (5, 'NaN'), (5, 'inf'),"
        " (6, '-inf'), (6, 1.5), (7, 1.5), (7, 'inf')",
    )


def test_a_small_number_beside_numbers_beyond_64_bits_is_one_of_them(tmp_path: Path) -> None:
    large = Decimal(NINES)
    least = large.copy_negate()
    answers(
        tmp_path,
        {
            "select case when n = 1 then 1 else w end from t order by n": [(1,), (large,)],
            "select decode(n, 1, '2024-02-01'::date - '2024-01-01'::date, w) from t order by n": [
                (31,),
                (large,),
            ],
            "select iff(n = 1, row_number() over (order by n), w) from t order by n": [
                (1,),
                (large,),
            ],
            "select 1 union all select w from t order by 1": [
                (least,),
                (1,),
                (large,),
            ],
            f"select w from t intersect select -{NINES}": (least,),
            "select count(*) from t where n in (select w from t)": (0,),
        },
        "create table t (n int, w number(38, 0))",
        f"insert into t values (1, -{NINES}), (2, {NINES})",
    )


def test_a_float_that_is_rounded_to_zero_meets_zero_in_joins(tmp_path: Path) -> None:
    rounded = "ceil(f), round(f), trunc(f), round(f, n), floor(f + 0.25, 0)"
    joined = ", ".join(
        f"(select count(*) from (select {each} z from t) a join o on a.z = o.z)"
        for each in ("ceil(f)", "round(f)", "trunc(f)", "round(f, n)", "floor(f + 0.25)")
    )
    answers(
        tmp_path,
        {
            f"select {joined}": (1, 1, 1, 1, 1),
            f"select {rounded} from t": (0.0, 0.0, 0.0, 0.0, 0.0),
            "select count(*) over (partition by z) from"
            " (select ceil(f) z from t union all select z from o)": [(2,), (2,)],
        },
        "create table t (f float, n int)",
        "insert into t values (-0.25, 0)",
        "create table o (z float)",
        "insert into o values (0)",
    )


def test_a_negated_pattern_is_a_key_of_rollup_and_cube(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            f"select s {word} 'a%' c, count(*) from t group by {sets} ((s {word} 'a%'))"
            " order by c nulls last": [(False, 2), (True, 1), (None, 3)]
            for word in ("not like", "not ilike")
            for sets in ("rollup", "cube")
        },
        "create table t (s varchar)",
        "insert into t values ('ab'), ('ac'), ('b')",
    )


def test_lists_of_one_select_have_each_their_own_order(tmp_path: Path) -> None:
    def listed(column: str, order: str, *, distinct: bool = False, over: str = "") -> str:
        word = "distinct " if distinct else ""
        return f"listagg({word}{column}, ',') within group (order by {order}) {over}"

    up, down = listed("a", "a"), listed("b", "b desc")
    in_group, in_all = (
        listed("a", "n desc", over="over (partition by g)"),
        listed("b", "b", over="over ()"),
    )
    windowed = f"select n, {in_group}, {in_all} from t order by n"
    answers(
        tmp_path,
        {
            f"select {up}, {down} from t": ("x,x,y,z", "9,7,5"),
            f"select {up}, {down}, {listed('a', 'n desc')} from t": (
                "x,x,y,z",
                "9,7,5",
                "z,x,y,x",
            ),
            f"select g, {up}, {down} from t group by g having {up} <> {down} order by {down}": [
                (2, "x,z", "5"),
                (1, "x,y", "9,7"),
            ],
            f"select {up}, {listed('a', 'a desc', distinct=True)} from t": ("x,x,y,z", "z,y,x"),
            f"select {listed('a', 'a', distinct=True)}, {listed('b', 'b desc', distinct=True)},"
            " array_to_string(array_agg(n) within group (order by n desc), '') from t": (
                "x,y,z",
                "9,7,5",
                "4321",
            ),
            f"select {up}, {down} from t where n > 4": ("", ""),
            windowed: [
                (1, "y,x", "5,7,9"),
                (2, "y,x", "5,7,9"),
                (3, "z,x", "5,7,9"),
                (4, "z,x", "5,7,9"),
            ],
            windowed.replace("over ()", "over (order by n)"): REFUSED,
            f"select {listed('a', 'n', distinct=True)} from t": REFUSED,
        },
        "create table t (n int, g int, a varchar, b varchar)",
        "insert into t values (1, 1, 'x', '7'), (2, 1, 'y', '9'), (3, 2, 'x', null),"
        " (4, 2, 'z', '5')",
    )


def test_a_group_by_case_whose_condition_is_never_true_is_answered(tmp_path: Path) -> None:
    chosen = "case when not (null::boolean or contains(s, 'b')) then n else 5 end"
    answers(
        tmp_path,
        {
            f"select distinct {chosen} from t": (5,),
            f"select {chosen}, count(*), sum({chosen}) from t group by 1": (5, 2, 10),
        },
        "create table t (n int, s varchar)",
        "insert into t values (1, 'abc'), (null, 'def')",
    )


def test_minus_nan_is_nan(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select f = -f, -f > 1, nullif(f, -f) from t": (True, True, None),
            "select -g, -(-g) from t": (-1.5, 1.5),
        },
        "create table t (f float, g float)",
        "insert into t values ('NaN'::float, 1.5)",
    )


@pytest.mark.parametrize("value", ["1.5", "2.5"], ids=["as the others", "of its own"])
def test_nan_beside_other_values_of_a_file_is_read_and_compared(tmp_path: Path, value: str) -> None:
    """Statistics of a Parquet file leave NaN out. Snowflake: NaN is greater than every value."""
    answers(
        tmp_path,
        {
            "select i, to_varchar(f) from t where i < 3 order by i": [(1, "1.5"), (2, "NaN")],
            "select to_varchar(max(f)), min(f), count(f) from t": ("NaN", 1.5, 3),
            "select i from t where f > 1000": (2,),
            "select i from t where not f <= 2.5": (2,),
            "select i from t where f = 'NaN'::float": (2,),
            "select count(*) from t where f <> 2.5": (3 if value == "1.5" else 2,),
            "select i from t order by f desc limit 1": (2,),
        },
        "create table t (i int, f float)",
        f"insert into t values (1, 1.5::float), (2, 'NaN'::float), (3, {value}::float)",
        "update t set i = i + 0",
        "delete from t where i > 3",
    )


def test_a_sum_over_a_full_join_counts_the_rows_that_match_none(tmp_path: Path) -> None:
    """Of one row on each side two come out, of two and one three: more than their product."""
    one, two = "(values (1, 10000000)) x (k, v)", "(values (2, 5)) y (k, w)"
    wide = "(values (3, 1), (4, 2)) z (k, u)"
    answers(
        tmp_path,
        {
            f"select sum(v), count(*) from {one} full join {two} on x.k = y.k": (10000000, 2),
            f"select sum(v) from {one} natural full join {two}": (10000000,),
            f"select sum(v) over () from {one} full join {two} on x.k = y.k limit 1": (10000000,),
            f"select sum(v::number(30, 2)), count(*) from {one} full join {two} on x.k = y.k"
            f" full join {wide} on z.k = y.k": (Decimal("10000000.00"), 4),
        },
    )


def test_a_condition_over_a_full_join_compares_the_columns_of_both_tables(tmp_path: Path) -> None:
    day = "to_date(date_trunc('day', a.u))"
    joined = "one a full join two b on a.v = b.v"
    before = [
        f"create table {name} as select seq4() v, "
        f"dateadd(day, mod(seq4(), {days}), '2020-01-01'::timestamp) u "
        f"from table(generator(rowcount => {rows}))"
        for name, days, rows in (("one", 3, 9), ("two", 5, 24))
    ]
    # Of the keys 0 to 8 the days are 0, 1, 2, 0, 1, 2, 0, 1, 2 and 0, 1, 2, 3, 4, 0, 1, 2, 3.
    answers(
        tmp_path,
        {
            f"select count(*) from {joined} where {day} <= to_date(b.u)": (8,),
            f"select count(*) from (select {day} d, to_date(b.u) e from {joined}) where d > e": (
                1,
            ),
            f"select count(*) from {joined} where b.u is null or a.u is null": (15,),
        },
        *before,
    )


def test_a_limit_over_distinct_floats_shows_nan_once(tmp_path: Path) -> None:
    values = ", ".join(f"('{value}')" for value in ("NaN", 1, "NaN", 2, "NaN", 1))
    answers(
        tmp_path,
        {
            "select distinct f from t order by 1 desc limit 2": [
                (pytest.approx(float("nan"), nan_ok=True),),
                (2.0,),
            ],
            "select f, count(*) from t group by f order by 1 desc limit 1": (
                pytest.approx(float("nan"), nan_ok=True),
                3,
            ),
        },
        "create table t (f float)",
        f"insert into t select column1::float from values {values}",
    )


def test_dates_are_compared_with_the_days_of_timestamps(tmp_path: Path) -> None:
    """The engine's estimate of such a comparison fails for these two columns."""
    rows = (
        "('1969-12-31', '1969-12-31 23:59:59.5'), ('2000-01-02', '2000-01-01 12:00:00'), "
        "('2024-12-30', '2024-12-30 06:07:08')"
    )
    answers(
        tmp_path,
        {
            "select count(*) from t where e > to_date(u)": (1,),
            "select count(*) from t where not e <= to_date(u)": (1,),
        },
        "create table t (e date, u timestamp)",
        f"insert into t values {rows}",
    )


def test_a_common_table_may_read_itself_without_the_word_recursive(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "with r(n) as (select 1 union all select n + 1 from r where n < 3) "
            "select array_agg(n) within group (order by n) from r": ("[\n  1,\n  2,\n  3\n]",),
            # Elsewhere its own name is the table's.
            "with t as (select a + 1 as a from t) select a from t": (2,),
            "with t as (select a from t union all select 5) select sum(a) from t": (6,),
            "with t as (select a from t union select a from t) select a from t": (1,),
        },
        "create table t (a int)",
        "insert into t values (1)",
    )


def test_asof_join_takes_a_right_relation_of_constants(tmp_path: Path) -> None:
    # The library plans a union with such a branch without the order that the join needs.
    values = "(select '2021-06-01'::date as d, 2 as v)"
    joined = f"from t asof join {values} u match_condition (t.d >= u.d)"
    answers(
        tmp_path,
        {
            f"select array_agg(v) within group (order by a) {joined} where a > 1": (
                "[\n  2,\n  2\n]",
            ),
            f"select * {joined} where a = 2": (
                (2, datetime.date(2022, 1, 1), datetime.date(2021, 6, 1), 2)
            ),
            f"select a, v {joined} on t.a = u.v order by v limit 1": (2, 2),
            f"create table r as select a, v {joined} on t.a = u.v": (
                "Table R successfully created.",
            ),
            "select count(v), count(*) from r": (1, 3),
            f"select count(*) from (select a, v {joined} on t.a = u.v)": (3,),
        },
        "create table t (a int, d date)",
        "insert into t values (1, '2020-01-01'), (2, '2022-01-01'), (3, '2023-01-01')",
    )


def test_identifier_stands_for_a_name_in_every_statement(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "desc table identifier($v)": (
                ("A", "NUMBER(38,0)", "COLUMN", "Y", None, "N", "N", *(None,) * 5)
            ),
            "insert into identifier('t') values (2)": (1,),
            "insert into identifier($v) (a) select a + 2 from identifier('ns.t') where a = 1": (1,),
            "update identifier('t') set a = 9 where a = 3": (1, 0),
            "delete from identifier('lake.ns.t') where a = 9": (1,),
            "merge into identifier($v) x using (select 2 a) s on x.a = s.a"
            " when matched then delete": (1,),
            "create table identifier('u') (b int)": ("Table U successfully created.",),
            "create or replace table identifier('\"u u\"') as select 1 x": (
                "Table u u successfully created.",
            ),
            "create table identifier('w') as select 5 x": ("Table W successfully created.",),
            "select x from w": (5,),
            "alter table identifier('u') add column c int": ("Statement executed successfully.",),
            "drop table identifier('u')": ("U successfully dropped.",),
            "insert into identifier('a b') values (1)": "000002",
            "insert into identifier('no_such') values (1)": "002003",
            "select a, 'identifier($v)' from t": (1, "identifier($v)"),
        },
        "create table t (a int)",
        "insert into t values (1)",
        "set v = 'ns.t'",
    )


def test_identifier_is_the_table_or_column_that_its_text_spells(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select identifier('a') from identifier('lake.ns.t') where identifier('T.a') = 1": (1,),
            "select x.a from identifier($v) as x": (1,),
            "select x.a from table($v) as x": (1,),
            "select x.a from table('t') at (offset => 0) x join table('ns.t') y on x.a = y.a": (1,),
            "select a from table('no_such')": "002003",
            "select a from table(1)": "000002",
            "select a from identifier('\"T\"')": (1,),
            "select a from identifier('t') where a in (select identifier('a') from t)": (1,),
            "select a from identifier('no_such')": "002003",
            "select identifier('no_such') from t": "000904",
            "select a from identifier('a b')": "000002",
            "select a from identifier(1)": "000002",
            "select a from identifier(a)": "000904",
        },
        "create table t (a int)",
        "insert into t values (1)",
        "set v = 'ns.t'",
    )


def test_columns_of_subqueries_are_called_as_they_were_named(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        async def shown(text: str) -> list[str]:
            outcome = await local.run(text, describe_only=True)
            return [column.name for column in outcome.columns]

        await local.run('create table t (a int, "Mixed" int)')
        await local.run("insert into t values (1, 2)")
        assert await shown('select * from (select 1 as "x", 2 as "X")') == ["x", "X"]
        assert await local.rows('select x, "x" from (select 1 as "x", 2 as "X")') == [(2, 1)]
        assert await shown('with q as (select a as "a" from t) select q.*, "a" from q') == [
            "a",
            "a",
        ]
        assert await shown('select mixed, x.* from (select "Mixed", a from t) x') == [
            "Mixed",
            "Mixed",
            "A",
        ]
        # A name that differs in case only is the last choice.
        text = 'select x.a, a from (select 5 as "a") y, t x'
        assert await local.rows(text) == [(1, 1)]
        assert await local.rows('select 2 as "b", 1 as b union all select 3, 0 order by b') == [
            (3, 0),
            (2, 1),
        ]
        assert await local.rows('select * exclude "x" from (select 1 as "x", 2 as "X")') == [(2,)]
        for text in ('select "X" from (select 1 as "x")', 'select x."A" from (select 1 as "a") x'):
            with pytest.raises(errors.SqlError) as refusal:
                await local.run(text)
            assert refusal.value.code == "000904", text

    local_sql.run_local(tmp_path, work)


def test_in_of_a_query_has_three_values_wherever_it_stands(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select a in (select c from u) from t order by a": [(True,), (True,), (None,), (None,)],
            "select a not in (select c from u where c > 0) from t order by a": [
                (False,),
                (False,),
                (True,),
                (None,),
            ],
            "select a in (select c from u where d = b) from t order by a": [
                (True,),
                (False,),
                (False,),
                (None,),
            ],
            "select a from t where a in (select c from u where d = b)": (1,),
            "select a from t where a not in (select c from u where d = b and c > 0) order by a": [
                (2,),
                (3,),
            ],
            "select a from t where a in (select c from u where d = b) or a = 3 order by a": [
                (1,),
                (3,),
            ],
            "select a in (select 1 where false), a in (select null::int) from t where a = 1": (
                False,
                None,
            ),
            # The files that hold no 7 are read, too: of a query without rows IN is false.
            "select null::int in (select c from u), 7 in (select c from u)": (None, None),
            "select 7 in (select * from u2), 2 in (select * from u2)": (False, True),
            "select 1 in (select 1), 'x' in (select 'y'), 2 in (select 1 union select null)": (
                True,
                False,
                None,
            ),
            "select b, count(*) from t group by b having b in (select d from u) order by b": [
                (1, 2),
                (2, 1),
            ],
            "select a from t where a in (select c from u where d = b limit 1)": "002031",
            "select a from t where a in (select c from u where d < b)": [],
            "select a from t where a in (select c from u where d > b)": (2,),
            "select a from t where a not in (select c from u where d > b)": (3,),
            "select a from t where a in (select c::number(10, 2) from u where d = b)": (1,),
            "select a from t where a not in (select c + .5 from u where d = b) order by a": [
                (1,),
                (2,),
                (3,),
            ],
            "select a from t where a in (select max(c) from u where d = b)": (1,),
            "select a from t where a not in (select max(c) from u where d = b)": (2,),
            "select a from t where a in (select max(c) over () from u where d = b)": "002031",
            "select 1 in (select random())": "000002",
        },
        "create table t (a int, b int)",
        "create table u (c int, d int)",
        "create table u2 (c int)",
        "insert into t values (1, 1), (2, 1), (3, null), (null, 2)",
        "insert into u values (1, 1), (2, 2)",
        "insert into u values (null, 2), (5, 3)",
        "insert into u2 values (2)",
    )


def test_in_of_a_query_that_is_null_is_not_false_where_that_differs(tmp_path: Path) -> None:
    nulls = "(select c from u)"
    answers(
        tmp_path,
        {
            f"select a from t where a not in {nulls} or a = 3": (3,),
            f"select a from t where not (a in {nulls} and b = 1)": (2,),
            f"select a from t where case when a not in {nulls} then 1 else 3 end < 2": [],
            f"select a from t where case when a in {nulls} then 1 else 3 end < 2": (1,),
            f"select a from t where (a in {nulls} or b = 2) and true order by a": [(1,), (2,)],
            f"select a from t where a not in {nulls}": [],
            f"select a from t where 7 not in {nulls}": [],
            f"select a from t where null not in {nulls}": [],
            "select count(*) from t where null not in (select c from u where c > 99)": (4,),
            "select count(*) from t where 7 not in (select c from u where c is not null)": (4,),
            f"select b from t group by b having sum(a) not in {nulls} or b = 2": "002031",
            "select a from t where not ((a, b) in (select c, c from u) or a = 5)": "000002",
        },
        "create table t (a int, b int)",
        "create table u (c int)",
        "insert into t values (1, 1), (2, 2), (3, 1), (null, 1)",
        "insert into u values (1), (null)",
    )


def test_two_lists_of_one_operand_are_null_where_it_is_null(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select k in (2) and k in (1, 3) from t": [(False,), (None,), (False,)],
            "select k not in (2, 7) or k not in (1, 3) from t": [(True,), (None,), (True,)],
            "select k in (2, 7) and k not in (2, 7) from t": [(False,), (None,), (False,)],
            "select (k = 1 or k = 2) and (k = 3 or k = 4) from t": [(False,), (None,), (False,)],
            "select (k <> 1 and k <> 2) or (k <> 3 and k <> 4) from t": [(True,), (None,), (True,)],
            "select k from t where not (k in (2, 7) and k in (1, 3)) order by k": [(1,), (3,)],
            "select k from t where k not in (2) or k not in (1, 3) order by k": [(1,), (3,)],
            "select q in (null) and q not in (0, 1) from t": [(False,), (False,), (None,)],
        },
        "create table t (k int, q int not null)",
        "insert into t values (1, 0), (null, 1), (3, 2)",
    )


def test_a_text_that_begins_like_a_stage_is_a_text(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select split_part('a@b', '@', 2), strtok('a@b.c', '@.', 3)": ("b", "c"),
            "select 1, '@x', concat('a', '@', 'b') from (values (1, '@y')) v": (1, "@x", "a@b"),
        },
    )


def test_percentile_disc_is_a_value_of_the_group(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table p (g int, a int, v varchar)")
        await local.run(
            "insert into p values (1, 10, 'a'), (1, 20, 'b'), (1, 30, 'c'), (1, 40, 'd'), "
            "(1, null, null), (2, 5, 'z'), (3, null, null)"
        )
        text = ", ".join(
            f"percentile_disc({fraction}) within group (order by {order})"
            for fraction, order in ((0.5, "a"), (0.5, "a desc"), (0, "a"), (1, "v"))
        )
        assert await local.rows(f"select g, {text} from p group by g order by g") == [
            (1, 20, 30, 10, "d"),
            (2, 5, 5, 5, "z"),
            (3, None, None, None, None),
        ]
        # A tenth of thirty is exactly three, which a FLOAT misses.
        numbers = ", ".join(f"({number})" for number in range(1, 31))
        text = "select percentile_disc(0.1) within group (order by column1) from values "
        assert await local.one(text + numbers) == 3

    local_sql.run_local(tmp_path, work)


def test_sequences_of_a_generator_have_the_digits_of_their_bytes(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        text = "select seq1(), seq2(), seq4(), seq8() from table(generator(rowcount => 1))"
        described = await local.run(text, describe_only=True)
        assert [column.precision for column in described.columns] == [3, 5, 10, 19]

    local_sql.run_local(tmp_path, work)


def test_functions_of_bits_and_products_answer_by_arithmetic(tmp_path: Path) -> None:
    cases: dict[str, Any] = {
        "select bitnot(5), bitnot(-1), bit_not(null)": (-6, 0, None),
        f"select bitnot({2**63 - 1})": (-(2**63),),
        "select bit_and(6, 3), bit_or(6, 3), bit_xor(6, 3), bit_shiftleft(1, 4)": (2, 7, 5, 16),
        "select factorial(0), factorial(5), factorial(null)": (1, 120, None),
        "select factorial(33)": (Decimal("8683317618811886495518194401280000000"),),
        "select factorial(34)": "100039",
        "select factorial(-1)": "100039",
        "select regr_valx(1, 2), regr_valy(1, 2), regr_valx(null, 2)": (2.0, 1.0, None),
        "select hex_encode(sha1_binary('abc'))": ("A9993E364706816ABA3E25717850C26C9CD0D89D",),
    }
    answers(tmp_path, cases)


def test_soundex_is_that_of_the_census(tmp_path: Path) -> None:
    # The examples of the National Archives' page on the Soundex indexing system.
    names = {
        "Washington": "W252", "Lee": "L000", "Gutierrez": "G362", "Pfister": "P236",
        "Jackson": "J250", "Tymczak": "T522", "Ashcraft": "A261", "VanDeusen": "V532",
    }  # fmt: skip
    cases: dict[str, Any] = {f"select soundex('{name}')": (code,) for name, code in names.items()}
    cases["select soundex_p123('Pfister'), soundex(' 1'), soundex(null)"] = ("P123", "", None)
    answers(tmp_path, cases)


def test_arrays_of_different_values_are_collected_and_united(tmp_path: Path) -> None:
    rows = "(values (1, 1, '[1, 1, 2]'), (1, 1, '[1, 2, 3, null]'), (2, null, null)) v(g, x, a)"
    source = f"from (select g, x, parse_json(a)::array as a from {rows})"
    cases: dict[str, Any] = {
        f"select g, array_unique_agg(x)::varchar {source} group by g order by g": [
            (1, "[1]"),
            (2, "[]"),
        ],
        f"select array_sort(array_union_agg(a))::varchar {source}": ("[1,1,2,3]",),
        f"select array_union_agg(a)::varchar {source} where g = 2": ("[]",),
        f"select array_unique_agg(x) over (order by g) {source}": "000002",
    }
    answers(tmp_path, cases)


def test_functions_of_the_session_say_what_it_is(tmp_path: Path) -> None:
    cases: dict[str, Any] = {
        "select getvariable('V'), getvariable('v'), getvariable('NOPE')": ("text", None, None),
        "select getvariable('N') || '!'": ("7!",),
        "create view w as select getvariable('V') as v": "000002",
        "select current_role_type(), current_schemas()": ("ROLE", '["LAKE.NS"]'),
        "select is_timestamp_tz(parse_json('1'))": (False,),
    }
    answers(tmp_path, cases, "set v = 'text'", "set n = 7")


def test_zipf_gives_small_numbers_in_proportion_to_their_inverse(tmp_path: Path) -> None:
    counted = "select count_if(z = {}) from (select zipf(1, 10, random(7)) z from {})"
    rows = "table(generator(rowcount => 20000))"
    harmonic = sum(1 / k for k in range(1, 11))

    async def work(local: local_sql.LocalSql) -> None:
        for number in (1, 2, 10):
            share = await local.one(counted.format(number, rows)) / 20000
            assert share == pytest.approx(1 / number / harmonic, abs=0.015)
        assert await local.one(counted.format(0, rows)) == 0
        assert await local.one(counted.format(11, rows)) == 0

    local_sql.run_local(tmp_path, work)


def test_zipf_takes_columns_and_many_elements(tmp_path: Path) -> None:
    text = (
        "select count_if(zipf(s, n, random(1)) = 1), min(zipf(s, n, random(2))),"
        " max(zipf(s, n, random(3))) from (select * from (values (0, 4), (1, 16777216), (30, 1000))"
        " as t(s, n)), table(generator(rowcount => 3000)) group by s order by s"
    )

    async def work(local: local_sql.LocalSql) -> None:
        flat, harmonic, steep = await local.rows(text)
        assert flat[0] == pytest.approx(750, abs=120)
        assert flat[1:] == (1, 4)
        # The harmonic number of n is about ln(n) + 0.5772.
        assert harmonic[0] == pytest.approx(3000 / (24 * math.log(2) + 0.5772), abs=60)
        assert harmonic[2] > 1_000_000
        assert steep == (3000, 1, 1)

    local_sql.run_local(tmp_path, work)


def test_events_are_counted_by_changes_of_the_value(tmp_path: Path) -> None:
    rows = (
        "(1, 1, 120, 'a'), (1, 2, 120, 'a'), (1, 3, 0, null), (1, 4, null, null), (1, 5, 0, 'b'),"
        " (1, 6, 7, 'c'), (2, 1, 7, 'c'), (2, 2, 8, 'c')"
    )
    source = f"from (values {rows}) as t(p, o, x, s)"
    over = "over (partition by p order by o)"

    async def work(local: local_sql.LocalSql) -> None:
        event = f"conditional_change_event({{}}) {over}"
        values = ["x", "s", "x::double", "x / 3", "to_variant(x)", "s = 'a'"]
        listed = ", ".join(event.format(each) for each in values)
        assert await local.rows(f"select {listed} {source} order by p, o") == [
            (0, 0, 0, 0, 0, 0),
            (0, 0, 0, 0, 0, 0),
            (1, 0, 1, 1, 1, 0),
            (1, 0, 1, 1, 1, 0),
            (1, 0, 1, 1, 1, 0),
            (2, 1, 2, 2, 2, 0),
            (0, 0, 0, 0, 0, 0),
            (1, 0, 1, 1, 1, 0),
        ]
        # Snowflake's documentation: the same as CONDITIONAL_TRUE_EVENT of x <> LAG(x).
        lagged = f"select p, o, x, lag(x) {over} as before {source}"
        assert await local.rows(
            f"select conditional_true_event(x <> before) {over} from ({lagged}) order by p, o"
        ) == await local.rows(f"select {event.format('x')} {source} order by p, o")
        days = "(1, '2024-01-02 03:00'::timestamp_tz), (2, '2024-01-02 04:00 +0100'::timestamp_tz)"
        assert await local.rows(
            "select conditional_change_event(z) over (order by o),"
            " conditional_change_event(z::date) over (order by o)"
            f" from (values {days}) as t(o, z) order by o"
        ) == [(0, 0), (0, 0)]
        for text in ("conditional_change_event(x)", "conditional_change_event(x) over ()"):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(f"select {text} {source}")
            assert caught.value.code == "000002"

    local_sql.run_local(tmp_path, work)


def test_sketches_of_parts_are_combined_to_that_of_the_whole(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table parts as select mod(n, 4) as part, hll_accumulate(x) as seen,"
            " approx_percentile_accumulate(x) as spread from (select seq4() as n,"
            " mod(seq4(), 30000) as x from table(generator(rowcount => 60000))) group by 1"
        )
        ((estimate, whole),) = await local.rows(
            "select hll_estimate(seen), (select hll_estimate(s) from"
            " (select hll_combine(seen) as s from parts)) from parts"
        )
        assert estimate == whole == pytest.approx(30000, rel=0.05)
        assert await local.rows("select hll_estimate(seen) from parts where part > 9") == [(0,)]
        assert await local.rows(
            "select hll_import(hll_export(seen)) = seen, hll_export(seen):precision::int,"
            " array_size(hll_export(seen):dense) from parts where part = 1"
        ) == [(True, 12, 4096)]
        of_null = "select hll_estimate(null), hll_estimate(x) from (values (null::binary)) as t(x)"
        assert await local.rows(of_null) == [(0, 0)]
        few = "(select hll_accumulate(x) s from (values (1), (1.0), (2), (null)) as t(x))"
        assert await local.rows(
            f"select hll_estimate(s), hll_estimate(hll_import(hll_export(s))) from {few}"
        ) == [(2, 2)]
        assert await local.rows(f"select array_size(hll_export(s):sparse.indices) from {few}") == [
            (2,)
        ]
        combined = "(select approx_percentile_combine(spread) as s from parts)"
        ((low, middle, high, digest_type),) = await local.rows(
            "select approx_percentile_estimate(s, 0), approx_percentile_estimate(s, 0.5),"
            f" approx_percentile_estimate(s, 1), s:type::varchar from {combined}"
        )
        assert (low, high, digest_type) == (0.0, 29999.0, "tdigest")
        assert middle == pytest.approx(15000, rel=0.01)
        exact = "(select approx_percentile_accumulate(x) s from (values (1), (3), (null)) as t(x))"
        assert await local.rows(
            f"select approx_percentile_estimate(s, 0.5), to_json(s) from {exact}"
        ) == [
            (
                2.0,
                '{"state":[1.000000000000000e+00,1.000000000000000e+00,3.000000000000000e+00,'
                '1.000000000000000e+00],"type":"tdigest","version":1}',
            )
        ]
        far = "(select approx_percentile_accumulate(x) s from (values (-1e308), (1e308)) as t(x))"
        assert await local.rows(f"select approx_percentile_estimate(s, 0.5) from {far}") == [(0.0,)]
        # Such weights added one by one are more than their exact sum.
        weights = (4.8, 6.7, 8.0, 1.4, 0.8, 8.4, 4.6, 7.7, 0.5, 1e-20, 1e-20, 1e-20)
        pairs = ",".join(f"{mean},{weight}" for mean, weight in enumerate(weights))
        state = f'{{"state":[{pairs}],"type":"tdigest","version":1}}'
        summed = f"(select approx_percentile_combine(parse_json('{state}')) as s)"
        assert await local.rows(
            "select approx_percentile_estimate(s, 0), approx_percentile_estimate(s, 1)"
            f" from {summed}"
        ) == [(0.0, 11.0)]
        refused = {
            "select hll_estimate(x'00')": "100039",
            "select hll_estimate(x'')": "100039",
            f"select hll_estimate(x'{'00' * 4100}')": "100039",
            f"select hll_estimate(x'484c4c01{'ff' * 4096}')": "100039",
            "select approx_percentile_accumulate('inf'::float)": "000002",
            "select hll_import(object_construct('precision', 12))": "100039",
            "select approx_percentile_estimate(object_construct('state', 1), 0.5)": "100039",
            'select approx_percentile_estimate(parse_json(\'{"state":[1,1e308,2,1e308],'
            '"type":"tdigest","version":1}\'), 0.5)': "100039",
            f"select approx_percentile_estimate(s, 2) from {exact}": "100039",
            "select hll_accumulate(x) over () from (values (1)) as t(x)": "000002",
        }
        for text, number in refused.items():
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert caught.value.code == number, text

    local_sql.run_local(tmp_path, work)


def test_sketches_of_hundreds_of_states_are_exactly_those_of_all_rows() -> None:
    # 300 states of 50 numbers each; half the numbers of a state are those of the one before.
    numbers = "(select seq4() as n, mod(seq4(), 50) + 25 * floor(seq4() / 50) as x"
    numbers += " from table(generator(rowcount => 15000)))"
    states = f"(select hll_accumulate(x) as s from {numbers} group by floor(n / 50))"
    whole = f"select hll_accumulate(x), count(distinct x) from {numbers}"
    ((state, count),) = sql_text.answer(whole).rows
    ((merged, estimate),) = sql_text.answer(
        f"select hll_combine(s), hll_estimate(s) from {states}"
    ).rows
    assert merged == state
    assert (count, estimate) == (7525, pytest.approx(7525, rel=0.05))


def test_percentiles_of_a_digest_are_near_those_of_its_values() -> None:
    values = "(select n * n as x from (select seq4() as n from table(generator(rowcount => 9001))))"
    shares = (0.001, 0.01, 0.25, 0.5, 0.9, 0.999)
    listed = ", ".join(f"approx_percentile_estimate(s, {share})" for share in shares)
    state = f"(select approx_percentile_accumulate(x) as s from {values})"
    ((*percentiles, size),) = sql_text.answer(
        f"select {listed}, array_size(s:state) from {state}"
    ).rows
    for share, percentile in zip(shares, percentiles, strict=True):
        # Within a thousandth of all ranks, and a tenth of that at the ends.
        rank = math.sqrt(percentile) / 9000
        assert rank == pytest.approx(share, abs=0.0001 + 0.004 * share * (1 - share))
    assert size < 2 * 320


def test_frames_of_intervals_hold_the_rows_of_so_much_time(tmp_path: Path) -> None:
    frame = "range between interval '{}' preceding and {}"
    week = frame.format("7 days", "current row")
    older = "interval '3 days' preceding"
    hours = frame.format("1 hour", "interval '1 hour' following")
    answers(
        tmp_path,
        {
            f"select sum(v) over (order by d {week}) from r order by d": [(1,), (3,), (7,), (8,)],
            f"select sum(v) over (order by ts {hours}) from r order by d": [(3,), (7,), (6,), (8,)],
            f"select sum(v) over (order by v {week}) from r": "000002",
            f"select sum(v) over (order by d {frame.format('-7 days', 'current row')}) from r": (
                "000002"
            ),
            f"select sum(v) over (order by d {frame.format('1 day', older)}) from r": "000002",
            "select sum(v) over (order by v rows between 1 preceding and 3 preceding) from r": (
                "000002"
            ),
            "select sum(v) over (order by v rows between 3 preceding and 1 preceding) from r "
            "order by v": [(None,), (1,), (3,), (7,)],
            f"select sum(v) over (order by d {week.replace('range', 'rows')}) from r": "000002",
            "select sum(v) over (order by d range between 1 preceding and current row) from r": (
                "000002"
            ),
            "select sum(v) over (order by v range between 1 preceding and current row) from r "
            "order by v": [(1,), (3,), (4,), (8,)],
        },
        "create table r (d date, v int, ts timestamp_ntz)",
        "insert into r values ('2024-01-01', 1, '2024-01-01 00:00:00'), "
        "('2024-01-05', 2, '2024-01-01 01:00:00'), ('2024-01-08', 4, '2024-01-01 01:59:00'), "
        "('2024-01-20', 8, null)",
    )


def test_union_by_name_has_the_columns_of_all_branches(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select 1 a, 'x' b union all by name select 'y' b, 2.5 c union all by name select 9 a "
            "order by a nulls first": [
                (None, "y", Decimal("2.5")),
                (1, "x", None),
                (9, None, None),
            ],
            "select 1 a union by name select 1 a union by name select 2 b order by a": [
                (1, None),
                (None, 2),
            ],
            "select 1 a, 2 a union by name select 1 a": "000002",
            "with recursive w as (select 1 a, 10 b union all by name select b + 1 b, a + 1 a from w"
            " where a < 3) select * from w": "000002",
            "select 1 a intersect by name select 1 a": "000002",
        },
    )


def test_arguments_that_a_function_cannot_take_are_errors_of_the_query(tmp_path: Path) -> None:
    times = "(values ('12:30:00'::time, 2), ('00:00:00'::time, -2)) t(h, n)"
    answers(
        tmp_path,
        {
            f"select date_trunc(year, h) from {times}": "001045",
            f"select trunc(h, 'month') from {times}": "001045",
            f"select datediff(month, h, h) from {times}": "001045",
            f"select datediff(day, h, '2024-01-01'::timestamp) from {times}": "001045",
            f"select datediff(hour, min(h), max(h)) from {times}": (12,),
            f"select regexp_count('aa', 'a', -1) from {times}": "001044",
            f"select regexp_count('aa', 'a', 99999999999999999999) from {times}": [(0,), (0,)],
            f"select ceil(0.5, n), floor(-0.5, n) from {times} order by n": [
                (Decimal(100), Decimal(-100)),
                (Decimal("0.5"), Decimal("-0.5")),
            ],
            f"select ceil(0.5, n - 60) from {times}": "100039",
        },
    )


def test_windows_are_ordered_by_times_and_binary_values(tmp_path: Path) -> None:
    rows = (
        "(values (1, '12:30:00'::time, x'FF'), (2, '00:00:00.000001', x'61'), (3, null, null),"
        " (4, '12:30:00', x''), (5, '23:59:59.999999', x'6100')) t(id, h, x)"
    )
    answers(
        tmp_path,
        {
            f"select id, rank() over (order by h) r from {rows} order by r, id": [
                (2, 1),
                (1, 2),
                (4, 2),
                (5, 4),
                (3, 5),
            ],
            f"select id, sum(id) over (order by h desc) s from {rows} order by s, id": [
                (3, 3),
                (5, 8),
                (1, 13),
                (4, 13),
                (2, 15),
            ],
            f"select id, row_number() over (order by x) n from {rows} order by n": [
                (4, 1),
                (2, 2),
                (5, 3),
                (1, 4),
                (3, 5),
            ],
            f"select id, count(*) over (order by x desc range between unbounded preceding and"
            f" current row) n from {rows} order by n": [(3, 1), (1, 2), (5, 3), (2, 4), (4, 5)],
            f"select max(h) over (order by x, h) m, id from {rows} order by id limit 1": (
                datetime.time(23, 59, 59, 999999),
                1,
            ),
        },
    )


def test_lists_of_one_operand_are_met_each_by_itself(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select n from t where n in (1, 2) and n not in (null, 1)": [],
            "select n from t where s in ('a', 'b') and s not in ('a', null)": [],
            "select n from t where not (n in (1, 2) and n not in (null, 1))": (1,),
            "select n from t where n in (1, 2) and n not in (m, 1)": [],
            "select n from t where n not in (m, 1) and n in (1, 2)": [],
            "select n from t where n in (1, 2) and n not in (m, 7)": (1,),
            "select n from t where n in (m, 1) and n in (k, 5) order by n": [(1,), (2,)],
            "select n from t where n in (1, 2) and n in (2, 3) and n not in (3, 4)": (2,),
            "select n, n in (m, 1), n not in (null, 2), n in (null, k) from t order by n": [
                (1, True, None, True),
                (2, True, False, True),
            ],
            "select n from t where null in (n, 1)": [],
            "select n from t where f in (0, 1) and f not in (n - 1)": (2,),
        },
        "create table t (n int, m int, k int, s varchar, f float)",
        "insert into t values (2, 2, 2, 'b', 0), (1, 9, 1, 'a', -0.0)",
    )
