"""What goes wrong in the engine, as its user reads it: Snowflake's number and no word of ours."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from catalog import errors as catalog_errors
from catalog.metadata import errors as metadata_errors
from sql import engine, engine_datafusion, errors, faults, limits
from tests.kit import sql_text

LARGE = Decimal("9" * 38)
NEAR_ONE = Decimal("0." + "9" * 37)
TABLE = pa.table(
    {
        "i": pa.array([1, -5, None], pa.int64()),
        "w": pa.array([LARGE, LARGE.copy_negate(), None], pa.decimal128(38, 0)),
        "m": pa.array([Decimal(9), NEAR_ONE.copy_negate(), None], pa.decimal128(38, 37)),
        "n": pa.array([Decimal("1.25"), Decimal("-99999999.99"), None], pa.decimal128(10, 2)),
        "f": pa.array([1e300, float("nan"), None], pa.float64()),
        "s": pa.array(["a", "1.5", None], pa.string()),
    }
)


def fault_of(text: str) -> errors.SqlError:
    try:
        sql_text.answer(text, {"t": TABLE})
    except errors.SqlError as error:
        return error
    except engine.EngineFault as fault:
        return faults.of_engine(fault, query_id="q")
    raise AssertionError(f"{text} had an answer")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("select f::int from t", "100039", "1e300"),
        ("select f::number(38, 37) from t", "100039", "1e300"),
        ("select w::number(38, 10) from t", "100039", "9" * 38),
        ("select w from t union all select 1.5", "100039", "9" * 38),
        ("select w + 1.5 from t", "100039", ""),
        ("select chr(-1)", "100039", "-1"),
        ("select repeat('a', w) from t", "100039", "9" * 38),
        ("select date_from_parts(w, 1, 1) from t", "100039", "9" * 38),
        ("select date_from_parts(-100000000, 1, 1)", "100035", "-100000000, 1, 1"),
        ("select lpad(s, 9223372036854775807) from t", "100078", "9223372036854775807"),
        ("select repeat('x', greatest(9223372036854775807))", "100078", "9223372036854775808"),
        ("select repeat('ab', 2147483647)", "100078", ""),
        ("select repeat('abcdefgh', i * 3000000) from t", "100078", " characters"),
        ("select repeat(s, 16777217) from t", "100078", " characters"),
        ("select repeat(s, i * 3000000000) from t", "100078", " characters"),
        ("select space(i * 20000000) from t", "100078", " characters"),
        ("select lpad(s, i * 20000000) from t", "100078", "0000000 characters"),
        ("select rpad(s, i * 20000000, '\u20ac') from t", "100078", "0000000 characters"),
        ("select s rlike '([' from t", "100048", "'([', unclosed character class"),
        ("select regexp_like('a', 'a{1000}{1000}{1000}')", "100048", "too large"),
        ("select s rlike 'a{1000}{1000}{1000}' from t", "100048", "too large"),
        ("select regexp_replace(s, 'a{1000}{1000}{1000}') from t", "100048", "too large"),
        (
            "select regexp_count(s, 'a{1000}{1000}') from t",
            "100048",
            "'a{1000}{1000}', it does not",
        ),
        ("select regexp_substr(s, 'a{1000}{1000}{1000}') from t", "100048", "bad repetition"),
        ("select regexp_substr(s, '(?:\\\\pL{100}){10}') from t", "100048", "too large"),
        ("select hex_decode_string('ff')", "100144", "'0xFF'"),
        ("select base64_decode_string('/w==')", "100144", "'0xFF'"),
        ("select base64_decode_string('?')", "100116", "base64-encoded value: '?'"),
        ("select hex_decode_binary('41 42')", "100115", "'41 42'"),
        ("select regexp_instr(s, '(a') from t", "100048", "'(a', missing )"),
        ("select regexp_replace(s, '(') from t", "100048", "'(', unclosed group"),
        ("select regexp_like(s, 'a(?=b)', 'i') from t", "100048", "'a(?=b)', look-around"),
        ("select i, count(*) from t", "000979", "[T.I]"),
        ("select i, sum(n) from t group by n", "000979", "[T.I]"),
        ("select grouping(i) from t", "000979", "GROUPING"),
        ("select sum(max(i)) from t", "002036", "inside the aggregate SUM"),
        ("select max(row_number() over (order by i)) from t", "002036", "inside MAX"),
        ("select lag(rank() over (order by i)) over (order by i) from t", "002036", "inside LAG"),
        ("select 1 from t join t u on sum(t.i) = 1", "002035", "ON condition"),
        ("select 1 from t join t u on row_number() over (order by t.i) = 1", "002035", "ON"),
        ("select * from values (sum(1))", "002035", "VALUES"),
        ("select corr(distinct '1.5', '2')", "000002", "CORR with DISTINCT"),
        ("select (select i from t)", "090150", "Single-row subquery"),
        ("select (select t.i from t u where u.n < t.n) from t", "002031", "subquery"),
        (
            "select i from t where exists (select 1 from t u where t.i in (select n from t))",
            "002031",
            "subquery",
        ),
        (
            "select i from t where exists"
            " (select 1 from t u where exists (select 1 from t v where t.i = v.n))",
            "002031",
            "subquery",
        ),
        ("select ntile(0) over (order by i) from t", "100039", "'0'"),
        ("select nth_value(i, 0) over (order by i) from t", "100039", "'0'"),
        ("select repeat('x', 1000000000)", "100078", "1000000000"),
        ("select lpad('x', 2000000000)", "100078", "2000000000"),
        ("select space(16777217)", "100078", "16777217"),
        ("select /* nothing */ from t", "001003", "select list"),
        ("select s:a.b from t", "001065", "path into VARCHAR"),
        ("select s[0] from t", "001065", "path into VARCHAR"),
        ("select trunc(current_date)", "001044", "TRUNC"),
        ("select year('10:11:12'::time)", "001045", "'YEAR'"),
        ("select approx_percentile(i, 'x') from t", "001044", "APPROX_PERCENTILE"),
        ("select approx_percentile(i, 2) from t", "100039", "'2'"),
        (
            "select listagg(s) over (order by i rows between 1 preceding and current row) from t",
            "000002",
            "window frame",
        ),
        ("select (w || w)::number(38, 5) from t", "100039", "9" * 38),
        ("select case when i = 1 then 0 else (select 1/0) end from t where i = 1", "100051", ""),
        ("select coalesce(i, (select 1/0)) from t where i = 1", "100051", ""),
    ],
)
def test_a_fault_of_a_query_has_its_own_number_and_words(text: str, code: str, words: str) -> None:
    fault = fault_of(text)
    assert (fault.code, words in fault.message) == (code, True), fault.message


@pytest.mark.parametrize(
    ("words", "code", "value"),
    [
        (
            'ArrowError(ArithmeticOverflow("Overflow happened on: 1234 * 10000000001"), Some(""))',
            "100039",
            "1234 * 10000000001",
        ),
        ('ArithmeticOverflow("Overflow on: -5 + 7")', "100039", "-5 + 7"),
        (
            'ArrowError(InvalidArgumentError("12345 is too large to store in a Decimal128 of'
            ' precision 3. Max is 999"), Some(""))',
            "100039",
            "12345",
        ),
        ('InvalidArgumentError("-1.5 is too small to store in a Decimal256")', "100039", "-1.5"),
        ('ArrowError(CastError("Can\'t cast value 1e300 to type Int64"), None)', "100039", "1e300"),
        ('CastError("value of 300 is out of range Int8")', "100039", "300"),
        (
            'CastError("Cannot cast to Decimal128(3, 0). Overflowing on 1e300"), Some(""))',
            "100039",
            "1e300",
        ),
        ('Execution("invalid Unicode scalar value: -1"), Some(""))', "100039", "-1"),
        (
            'Execution("string size overflow, but got 1000000000000"), None)',
            "100078",
            "1" + 12 * "0",
        ),
    ],
)
def test_a_fault_that_the_engine_spells_as_a_structure_tells_the_value_alone(
    words: str, code: str, value: str
) -> None:
    for text in (f"External({words}", f'Context("simplify", {words})'):
        fault = engine_datafusion.fault_of(RuntimeError(text))
        assert (fault.cause, fault.code, fault.message) == ("value", code, value)


@pytest.mark.parametrize("planning", [True, False])
def test_an_expression_too_deep_for_the_engine_is_reported_as_such(planning: bool) -> None:
    words = RuntimeError("SQL error: RecursionLimitExceeded (current limit: 500)")
    fault = engine_datafusion.fault_of(words, planning=planning)
    error = faults.of_engine(fault, query_id="q")
    assert (error.code, "nested too deeply" in error.message) == ("000002", True)


def test_a_panic_of_the_engine_is_no_internal_error() -> None:
    panic = RuntimeError("rust future panicked: unknown error")
    fault = engine_datafusion.fault_of(panic)
    assert faults.of_engine(fault, query_id="q").code == "000625"


@pytest.mark.parametrize(
    "rows",
    [
        [("ab", 0), ("ab", 1), ("", 5), ("\u20ac", 3), (None, 2), ("ab", None), ("ab", -1)],
        [(None, None)],
        [],
    ],
)
def test_repeat_by_a_column_repeats_each_text(rows: list[tuple[str | None, int | None]]) -> None:
    names = ("s", "n")
    arrays = [pa.array([row[0] for row in rows], pa.string())]
    arrays.append(pa.array([row[1] for row in rows], pa.int64()))
    table = pa.table(dict(zip(names, arrays, strict=True)))
    expected = [(None if text is None or count is None else text * count,) for text, count in rows]
    assert sql_text.answer("select repeat(s, n) from t", {"t": table}).rows == expected


def test_repeated_texts_of_one_batch_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEATED_BYTES_MAX", 1_000)
    table = pa.table({"s": ["x" * 10] * 50})
    with pytest.raises(engine.EngineFault) as caught:
        sql_text.answer("select repeat(s, length(s)) from t", {"t": table})
    assert faults.of_engine(caught.value).code == "000625"


@pytest.mark.parametrize(
    "cause",
    ["plan", "internal"],
)
def test_an_unforeseen_fault_says_nothing_of_the_machine(cause: engine.FaultCause) -> None:
    inside = 'Internal("AggregateUDF { inner: Sum }") at /srv/boathouse/tmp/x.parquet'
    error = faults.of_engine(engine.EngineFault(cause, inside), query_id="the-id")
    assert error.code == {"plan": "000002", "internal": "000603"}[cause]
    assert "the-id" in error.message
    assert not any(word in error.message for word in ("/srv", "UDF", "{", "parquet"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("w > m", [LARGE]),
        ("w < m", [LARGE.copy_negate()]),
        ("w = m", []),
        ("w is distinct from m", [LARGE, LARGE.copy_negate()]),
        ("w > 1.5", [LARGE]),
        ("w <> 'abc1' or w > 0", None),
        ("w between 0.5 and 99999999999999999999999999999999999999", [LARGE]),
        ("w in (1.5, 99999999999999999999999999999999999999)", [LARGE]),
        ("w not in (1.5, 99999999999999999999999999999999999999)", [LARGE.copy_negate()]),
        ("n < m", [LARGE, LARGE.copy_negate()]),
        ("i > n", [LARGE.copy_negate()]),
        ("w > '1.5'", [LARGE]),
        ("nullif(w, 1.5) = w", [LARGE, LARGE.copy_negate()]),
    ],
)
def test_numbers_whose_digits_no_common_type_holds_are_compared_exactly(
    condition: str, expected: list[Decimal] | None
) -> None:
    text = f"select w from t where {condition} order by w desc"
    if expected is None:
        assert fault_of(text).code == "100038"
    else:
        rows = sql_text.answer(text, {"t": TABLE}).rows
        assert [row[0] for row in rows] == expected


def test_numbers_of_many_digits_join_and_multiply_exactly() -> None:
    joined = "select count(*) from t a join t b on a.w = b.m - 1 or a.n = b.w or a.m = b.m"
    assert sql_text.answer(joined, {"t": TABLE}).cell == 2
    with pytest.raises(engine.EngineFault) as out_of_range:
        sql_text.answer("select m + 1 from t", {"t": TABLE})  # 39 digits
    assert out_of_range.value.code == "100039"
    product = sql_text.answer("select m * m from t where m < 0", {"t": TABLE})
    assert product.cell == Decimal("0." + "9" * 36 + "8")  # (1 - e)^2 = 1 - 2e + e^2
    scaled = "select 1000000000000000::number(38, 10) * 1000::number(38, 10)"
    assert sql_text.answer(scaled).cell == Decimal(10) ** 18


def test_a_number_before_a_minus_is_not_read_beyond_its_exponent() -> None:
    assert sql_text.value("1e3-2") == 998.0
    assert sql_text.value("1e3+2e1-1e0") == 1019.0
    assert sql_text.value("1.5e-1-1e-1*2") == pytest.approx(-0.05)
    assert sql_text.value("1e3 - 2") == 998.0


def test_null_in_a_list_of_mixed_types_is_null() -> None:
    assert sql_text.value("(null in (1e3, 2))") is None
    assert (
        sql_text.value("(null in ('2024-01-01'::date, '2024-01-01 10:00:00'::timestamp))") is None
    )


def test_a_scalar_subquery_may_be_a_union() -> None:
    assert sql_text.value("(select 1 union select 1)") == 1
    assert sql_text.value("1 + ((select 1) union all (select 2) order by 1 desc limit 1)") == 3


def test_split_part_by_a_number_that_is_null_is_null() -> None:
    rows = sql_text.answer("select i, split_part('a,b', ',', n) from t", {"t": TABLE}).rows
    assert [row[1] for row in rows if row[0] is None] == [None]
    assert [row[1] for row in rows if row[0] == 1] == ["a"]
    zero = "select split_part(s, ',', i - 1) from t where i = 1"
    assert sql_text.answer(zero, {"t": TABLE}).cell == "a"


@pytest.mark.parametrize(
    ("error", "code", "sqlstate"),
    [
        (catalog_errors.NoSuchTable("Table does not exist: ns.t"), "002003", "42S02"),
        (catalog_errors.TableWithoutMetadata("No metadata: ns.t"), "002003", "42S02"),
        (catalog_errors.InvalidName("a name"), "001008", "22023"),
        (catalog_errors.InvalidMetadataFile("a file"), "091364", "58030"),
        (metadata_errors.BadRequirement("a requirement"), "001008", "22023"),
        (catalog_errors.LoadAlreadyTaken("a load"), "000625", "40000"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_of_catalog_answers_the_nearest_base_of_an_error(
    error: Exception, code: str, sqlstate: str
) -> None:
    fault = faults.of_catalog(error)
    assert fault is not None
    assert (fault.code, fault.sqlstate) == (code, sqlstate)


def test_of_catalog_leaves_unknown_errors_alone() -> None:
    assert faults.of_catalog(ValueError("x")) is None


@pytest.mark.parametrize(
    ("text", "code", "sqlstate"),
    [
        ("select (s || 'x')::date from t", "100040", "22007"),
        ("select (s || 'x')::time from t", "100108", "22007"),
        ("select (s || 'x')::timestamp from t", "100035", "22007"),
        ("select to_date('2024-02-30')", "100040", "22007"),
        ("select to_time('25:00')", "100108", "22007"),
        ("select parse_json('{' || s) from t", "100069", "22P02"),
        ("select parse_json(s || '{}'):a from t", "100069", "22P02"),
    ],
)
def test_texts_that_are_no_values_have_the_number_and_the_state_of_their_type(
    text: str, code: str, sqlstate: str
) -> None:
    fault = fault_of(text)
    assert (fault.code, fault.sqlstate) == (code, sqlstate)


def test_a_name_that_a_rename_finds_taken_is_named_alone() -> None:
    taken = catalog_errors.TableAlreadyExists("Cannot rename ns.a to ns.b. Table already exists")
    fault = faults.of_catalog(taken)
    assert fault is not None
    assert (fault.code, fault.sqlstate) == ("002002", "42710")
    assert fault.message == "SQL compilation error:\nObject 'B' already exists."
