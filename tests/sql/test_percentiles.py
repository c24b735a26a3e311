"""PERCENTILE_CONT, PERCENTILE_DISC and MEDIAN: their types, and their values over windows."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from sql import errors
from tests.kit import local_sql

ROWS = "(1, 1.25), (1, 2.00), (1, 4.00), (1, 5.00), (2, 7.50), (2, null), (3, null)"
"""Groups and values: of an even number, of one, of none."""


GROUPS = {1: [Decimal("1.25"), Decimal(2), Decimal(4), Decimal(5)], 2: [Decimal("7.5")], 3: []}


def of_sorted(name: str, fraction: Fraction, values: list[Decimal]) -> Decimal | None:
    """The percentile of values in their order, by its definition in the SQL standard."""
    if not values:
        return None
    if name == "percentile_disc":
        return values[max(0, math.ceil(fraction * len(values)) - 1)]
    place = fraction * (len(values) - 1)
    below, above = (Fraction(values[index]) for index in (math.floor(place), math.ceil(place)))
    exact = below + (above - below) * (place - math.floor(place))
    return round(Decimal(exact.numerator) / exact.denominator, 5)


def test_percentiles_of_numbers_have_three_more_decimal_places(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        rows = await local.rows(
            "select percentile_cont(0.25) within group (order by column2), median(column2),"
            " percentile_cont(0.25) within group (order by column2::float),"
            " percentile_disc(0.25) within group (order by column2)"
            f" from values {ROWS}"
        )
        assert repr(rows) == repr([(Decimal("2.00000"), Decimal("4.00000"), 2.0, Decimal("2.00"))])

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("fraction", "value"),
    [("0.3333333333", 2.0), ("1e-30", 1.0), ("0.333333333", Decimal("2.000"))],
)
def test_percentile_of_a_fraction_with_many_digits_is_a_float(
    tmp_path: Path, fraction: str, value: float | Decimal
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        percentile = f"percentile_cont({fraction}) within group (order by column1)"
        answer = await local.one(f"select {percentile} from values (1), (2), (3), (4)")
        assert type(answer) is type(value)
        assert abs(answer - value) < type(value)("1e-8")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("name", ["percentile_cont", "percentile_disc"])
@pytest.mark.parametrize("direction", ["", " desc"])
def test_percentiles_over_windows_are_those_of_the_groups(
    tmp_path: Path, name: str, direction: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for fraction in ("0", "0.1", "0.25", "0.5", "0.9", "1"):
            percentile = f"{name}({fraction}) within group (order by column2{direction})"
            windowed = await local.rows(
                f"select distinct column1, {percentile} over (partition by column1)"
                f" from values {ROWS} order by 1"
            )
            grouped = await local.rows(
                f"select column1, {percentile} from values {ROWS} group by column1 order by 1"
            )
            assert windowed == grouped
            expected = {
                group: of_sorted(name, Fraction(fraction), sorted(values, reverse=bool(direction)))
                for group, values in GROUPS.items()
            }
            assert dict(grouped) == expected

    local_sql.run_local(tmp_path, work)


def test_percentiles_of_long_numbers_keep_their_digits(tmp_path: Path) -> None:
    base = 123456789012345678901234567800

    async def work(local: local_sql.LocalSql) -> None:
        values = ", ".join(f"({base + step}::number(32, 2))" for step in (9, 0, 4))
        for fraction, above in (("0", 0), ("0.25", 2), ("0.5", 4), ("0.75", 6.5), ("1", 9)):
            expected = Decimal(f"{base + int(above)}{str(above % 1)[1:]}")
            place = f"percentile_cont({fraction}) within group (order by column1)"
            for over, count in (("", 1), (" over ()", 3)):
                rows = await local.rows(f"select {place}{over} from values {values}")
                assert rows == [(expected,)] * count

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("fraction", ["1.5", "-0.1"])
def test_a_fraction_beyond_one_is_refused(tmp_path: Path, fraction: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for over in ("", " over ()"):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(
                    f"select percentile_cont({fraction}) within group (order by column1){over}"
                    " from values (1)"
                )
            assert caught.value.code == "001044"

    local_sql.run_local(tmp_path, work)


def test_approximate_percentiles_take_decimal_fractions(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for fraction, expected in (
            ("0", 0.0),
            ("0.5", 1.0),
            ("1", 2.0),
        ):
            rows = await local.rows(
                f"select approx_percentile(column1, {fraction}) from values (0),(1),(2)"
            )
            assert rows == [(expected,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("name", ["percentile_cont", "percentile_disc"])
@pytest.mark.parametrize("fraction", ["true", "'x'", "'nan'", "'-0.1'"])
def test_a_fraction_that_is_none_is_an_error_of_the_query(
    tmp_path: Path, name: str, fraction: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as refused:
            await local.run(
                f"select {name}({fraction}) within group (order by column1) from values (1)"
            )
        assert refused.value.code == "001044"

    local_sql.run_local(tmp_path, work)
