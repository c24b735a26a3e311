"""Numeric format models: numbers as texts, and texts as numbers.

Values are those of Snowflake's pages "SQL format models", TO_CHAR and TO_DECIMAL, or follow from
their rules by hand.
"""

from __future__ import annotations

import decimal
import itertools
import random
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from sql import engine, faults, number_kernels, numberformats
from tests.kit import sql_text

PRINTED: list[tuple[str, str, str]] = [
    # where a sign stands
    *(
        (number, model, text)
        for model, of_12, of_minus_7 in (
            ("99", " 12", " -7"),
            ("S99", "+12", " -7"),
            ("99S", "12+", " 7-"),
            ("MI99", " 12", "- 7"),
            ("99MI", "12 ", " 7-"),
            ("$99", " $12", " -$7"),
            ("FM99", "12", "-7"),
            ("FM$99MI", "$12", "$7-"),
        )
        for number, text in (("12", of_12), ("-7", of_minus_7))
    ),
    # zeros that 0 keeps and 9 does not
    ("1.2", "999,999.999", "       1.2  "),
    ("123.456", "999,999.999", "     123.456"),
    ("1234.56", "999,999.999", "   1,234.56 "),
    ("-123456.789", "999,999.999", "-123,456.789"),
    ("1.2", "S000,000.000", "+000,001.200"),
    ("1234.56", "S999,999.999", "  +1,234.56 "),
    ("1234.56", "FM999,999.999", "1,234.56"),
    ("12", "FM99.99", "12."),
    ("7", "0999", " 0007"),
    ("0.5", "99.90", "  0.50"),
    ("0", "99.09", "  0.0 "),
    ("0.005", ".99", " .01"),
    # more digits than places; what rounds to zero has no sign
    ("3987", "$99.0", " $##.#"),
    ("-100", "FM99", "-##"),
    ("1e300", "9,999", " #,###"),
    ("99.95", "99.9", " ##.#"),
    ("-0.04", "9.9", " 0. "),
    # B: no zero before the point
    ("-12.391", "B9,999.0", "   -12.4"),
    ("0.01", "B9,999.0", "      .0"),
    ("0", "FMB9", ""),
    # exponents
    ("1234", "FM9D999EE", "1.234E3"),
    ("1234", "9.9ee", " 1.2e3   "),
    ("0", "9.9EEEE", " 0. E+00"),
    ("-0.00129", "9.0EEE", "-1.3E-3"),
    ("99999", "9.9EEEE", " 1. E+05"),
    ("1e12", "9EEE", " 1E+#"),
    ("12345", "99.9EEEEE", " 12.3E+003"),
    # hexadecimal digits
    ("-12.391", "0XXX", "FFF4"),
    ("-12.391", "S0XXX", "-000C"),
    ("3987", "0XXX", "0F93"),
    ("3987", "xxxxxMI", "  f93 "),
    ("256", "XX", "##"),
    ("-129", "XX", "##"),
    # text-minimal numbers
    ("-12.391", "TME", "-1.2391E1"),
    ("0.000", "TME", "0E0"),
    ("3987.000", "tme", "3.987e3"),
    ("0.010", "TM9", "0.010"),
    ("0.010", "FMTM9", "0.01"),
    ("12", "STM9", "+12"),
    ("-12", "$TM9", "-$12"),
    ("-12", "TM9MI", "12-"),
    # literals
    ("12", '">"99"<"', "> 12<"),
    ("-12", '"a""b"99', 'a"b-12'),
    ("123456789", "000-00-0000", " 123-45-6789"),
    ("5", "(9)", "( 5)"),
    ("0.25", "FM99%", "25%"),
]


@pytest.mark.parametrize(("number", "model", "text"), PRINTED)
def test_a_number_is_printed_by_its_model(number: str, model: str, text: str) -> None:
    compiled = numberformats.output_model(model)
    assert numberformats.printed(compiled, Decimal(number)) == text


@pytest.mark.parametrize(
    ("number", "model", "text"),
    [
        (1e300, "TM", "1E300"),
        (1e300, "TM9", "1E300"),
        (1.5, "TM", "1.5"),
        (1e20, "TM", "1E20"),
        (1e20, "TM9", "1" + "0" * 20),
        (1e-300, "TM9", "0"),
        (1e-300, "TM", "1E-300"),
        (-0.1, "TME", "-1E-1"),
        (float("inf"), "99.9", " ##.#"),
        (float("-inf"), "99", "-##"),
        (float("nan"), "99", " ##"),
        (0.1 + 0.2, "9.99", " 0.3 "),
    ],
)
def test_a_float_is_printed_of_its_fewest_digits(number: float, model: str, text: str) -> None:
    compiled = numberformats.output_model(model)
    assert numberformats.printed(compiled, Decimal(repr(number)), is_real=True) == text


def test_a_separator_directly_before_the_point_follows_a_printed_digit() -> None:
    shown = "to_char(0, '9,.99'), to_char(0::float, '9,.99'), to_char(-12.5, '99,,.9')"
    assert sql_text.answer(f"select {shown}").rows == [(" 0,.  ", " 0,.  ", "-12,,.5")]


PLAIN = (
    *("99", "S99", "99S", "MI99", "99MI", "$99", "FM99", "FM$99", "S000,000.000", "9,990.09"),
    *("0999", "FM9,999.990S", '"x"99"y z"', "$0,000.00MI", "99.", "FM99.9", "9,9,9.9", "$S99"),
    *("S$99", "MI$99", "00.00", "FM999,999.99", "999,999,999,999,999,999,999,999,999,999.99"),
)


@pytest.mark.parametrize("model", PLAIN)
def test_a_column_is_printed_as_each_number_of_it_is(model: str) -> None:
    compiled = numberformats.output_model(model)
    generator = random.Random(model)
    numbers = [
        Decimal(generator.randint(-(10**digits), 10**digits)).scaleb(-3)
        for digits in range(1, 14)
        for _ in range(8)
    ]
    numbers += map(Decimal, ("0", "0.001", "-0.001", "0.5", "-0.5", "9" * 35 + ".999"))
    numbers = [
        number.quantize(Decimal("0.001"), context=numberformats.DIGITS) for number in numbers
    ]
    assert number_kernels.is_plain(compiled, 38, 3)
    column = number_kernels.printed_plain(
        compiled, pa.array([*numbers, None], pa.decimal128(38, 3))
    )
    alone = [numberformats.printed(compiled, number) for number in numbers]
    assert column.to_pylist() == [*alone, None]


def test_random_models_print_a_column_as_each_number_of_it() -> None:
    generator = random.Random(6)
    elements = ("9", "9", "0", ",", ",", ".", "S", "MI", "$", '"x"', "_", "FM", " ")
    numbers = [
        Decimal(generator.randint(-(10**digits), 10**digits)).scaleb(-3)
        for digits in range(8)
        for _ in range(3)
    ]
    column = pa.array(numbers, pa.decimal128(12, 3))
    models = 0
    while models < 120:
        spelled = "".join(generator.choices(elements, k=generator.randint(2, 8)))
        try:
            model = numberformats.output_model(spelled)
        except numberformats.BadModel:
            continue
        if not number_kernels.is_plain(model, 12, 3):
            continue
        models += 1
        alone = [numberformats.printed(model, number) for number in numbers]
        assert number_kernels.printed_plain(model, column).to_pylist() == alone, spelled


READ: list[tuple[str, str, str | None]] = [
    ("012,345.67", "999,999.99", "12345.67"),
    ("12,345.67", "999,999.99", "12345.67"),
    (" 12,345.67", "999,999.99", "12345.67"),
    ("012,345.67", "000,000.00", "12345.67"),
    ("12,345.67", "000,000.00", None),
    (" 12,345.67", "000,000.00", None),
    ("12345.67", "999,999.99", "12345.67"),
    ("12,34.56", "999,999.99", None),
    ("1,234567", "9,999,999", None),
    ("3,741.72", "9,999.99", "3741.72"),
    ("$3,741.72", "$9,999.99", "3741.72"),
    ("-$3,741.72", "$9,999.99", "-3741.72"),
    ("3,741.72", "$9,999.99", None),
    ("-101", "MI999|999MI", "-101"),
    ("102-", "MI999|999MI", "-102"),
    ("103", "MI999|999MI", "103"),
    ("102-", "MI999", None),
    ("1.0", "99.9", "1.0"),
    ("-12.3", "99.9", "-12.3"),
    ("- 0.1", "99.9", "-0.1"),
    ("123", "99", None),
    ("405.958", "9,999.99", None),
    ("12.", "99.9", "12"),
    ("12", "99.9", "12"),
    ("12", "99.0", None),
    (".5", "99.9", None),
    (".5", "B99.9", "0.5"),
    ("- 0.1", "TM9", "-0.1"),
    ("1E3", "TM9", None),
    ("1E3", "TME", "1000"),
    ("1000", "TME", None),
    ("1e-2", "TM", "0.01"),
    ("1,000", "TM", None),
    ("ae5", "XXX", "2789"),
    ("ae5", "XX", None),
    ("-f", "SXX", "-15"),
    ("1.5e+02", "9.9EEEE", "150"),
    ("+7", "9MI", None),
    ("7+", "9MI", "7"),
    ("7", "9S", None),
    ("No.  7", '"no. "9', "7"),
    ("12%", "99%", "0.12"),
    (" 1", "FX9", "1"),
    ("1", "FX9", None),
    ("1", "FXFM9", "1"),
    ("0042", "FX0000", None),
    (" 0042", "FX0000", "42"),
    ("12", "AUTO", "12"),
    ("12\n", "99", "12"),
    ("", "99", None),
]


@pytest.mark.parametrize(("text", "model", "number"), READ)
def test_a_text_is_read_by_its_model(text: str, model: str, number: str | None) -> None:
    expected = None if number is None else Decimal(number)
    readers = numberformats.readers(model)
    read = [value for reader in readers if (value := reader.number(text)) is not None]
    assert next(iter(read), None) == expected
    spelled = text.replace("'", "''")
    cell = sql_text.value(f"try_to_number('{spelled}', '{model}', 20, 3)")
    assert cell == expected


def test_a_column_is_read_as_each_text_of_it_is() -> None:
    table = pa.table({"s": ["1,234.5", "-7", None, "  - 12.25", "999,999.99", "5-"]})
    shown = sql_text.answer(
        "select to_number(s, '999,999.99|999S', 10, 1), try_to_number(s, '999,999.99', 5, 2)"
        " from t",
        {"t": table},
    )
    assert shown.rows == [
        (Decimal("1234.5"), None),
        (Decimal("-7.0"), Decimal("-7.00")),
        (None, None),
        (Decimal("-12.3"), Decimal("-12.25")),
        (Decimal("1000000.0"), None),
        (Decimal("-5.0"), None),
    ]


TOKENS = ("9", "X", "TM", ".", "S", "MI", "$", "B", "EE", "_", " ", '"a  b"')
RUN = re.compile(r"(?:\[ [^]]*\]| )(?:\*|\+|\{[0-9]+,\})")
"""A run of blanks in a pattern, as long or longer than some number."""


def test_no_pattern_has_two_runs_of_blanks_next_to_each_other() -> None:
    compiled = 0
    for tokens in itertools.product(TOKENS, repeat=3):
        try:
            readers = numberformats.readers("".join(tokens))
        except (numberformats.BadModel, numberformats.UnsupportedModel):
            continue
        compiled += 1
        adjacent = re.search(f"{RUN.pattern}{RUN.pattern}", readers[0].pattern)
        assert adjacent is None, (tokens, readers[0].pattern)
    assert compiled > 500


@pytest.mark.parametrize("model", ["9", "____9", "B9_", "MI 9", "B9 _ ", '"  "9MI_'])
def test_a_text_of_many_blanks_is_read_in_time_of_its_length(model: str) -> None:
    (reader,) = numberformats.readers(model)
    blanks = " " * 100_000
    assert reader.number(f"{blanks}x") is None
    assert reader.number(f"{blanks}9{blanks}x") is None
    assert reader.number(f"{blanks}9{blanks}") == 9


@pytest.mark.parametrize(
    ("text", "model", "number"),
    [
        ("a    1", '"a   "9', "1"),
        ("a  1", '"a   "9', "1"),
        ("a1", '"a   "9', None),
        ("a 1", '"a"" "" b"9', None),
        ("   1", "  9", "1"),
        (" 1", "  9", None),
        ("\t  1\t", "  9", "1"),
        ("  \t1", "  9", None),
        ("1  ", "9  ", "1"),
        ("1 ", "9  ", None),
        ("- 1", "MI 9", "-1"),
        ("-1", "MI 9", None),
        ("  ", "B9  ", "0"),
        (" ", "B9  ", None),
    ],
)
def test_blanks_of_a_model_are_required(text: str, model: str, number: str | None) -> None:
    (reader,) = numberformats.readers(model)
    assert reader.number(text) == (None if number is None else Decimal(number))
    spelled = text.replace("\t", "\\t")
    cell = sql_text.value(f"try_to_number('{spelled}', '{model}')")
    assert cell == (None if number is None else int(number))


def test_what_a_model_prints_it_reads() -> None:
    generator = random.Random(1)
    models = [*PLAIN, "9.99999EE", "S0.00000EEEE", "MI9.9ee", "TM9", "B999.999"]
    for model in models:
        output, (reader,) = numberformats.output_model(model), numberformats.readers(model)
        places = len(output.fraction) if output.fraction else 0 if "TM" not in model else 3
        for _ in range(20):
            number = Decimal(generator.randint(-99_999, 99_999)).scaleb(-3)
            text = numberformats.printed(output, number)
            if "#" in text:
                continue
            unit = Decimal(1).scaleb(-places)
            if "E" in model.upper():
                unit = unit.scaleb(number.adjusted())
            with decimal.localcontext(rounding=decimal.ROUND_HALF_UP):
                assert reader.number(text) == number.quantize(unit), (model, text)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("9Q", "invalid numeric format keyword: 'Q'"),
        ("9+", "invalid character in the format string: '+'"),
        ('9"', "missing closing \" in the literal: '9\"'"),
        ("9SS", "format element occurs more than once: 'S'"),
        ("S9MI", "format element conflicts with preceding element(s): 'MI'"),
        ("9D9.9", "format element conflicts with preceding element(s): '.'"),
        ("9EE.9", "digit position after an exponent format element: '9EE.9'"),
        ("9X", "cannot mix hexadecimal and decimal format elements: '9X'"),
        ("TM99", "cannot mix TM and digit-based numeric format elements: 'TM99'"),
        ("TM.", "cannot mix TM and digit-based numeric format elements: 'TM.'"),
        ("$", "no digit format elements in a numeric format: '$'"),
    ],
)
def test_a_text_that_is_no_model_is_an_error_with_its_reason(model: str, reason: str) -> None:
    for read in (numberformats.output_model, numberformats.readers):
        with pytest.raises(numberformats.BadModel, match=f"^{re.escape(reason)}$"):
            read(model)
    assert sql_text.value(f"try_to_decimal('1', '{model}')") is None


@pytest.mark.parametrize(
    ("expression", "code", "message"),
    [
        ("to_decimal('ae5', 'XX')", "100140", "Can't parse 'ae5' as number with format 'XX'"),
        ("to_number(' 12|34', '99')", "100140", "Can't parse ' 12|34' as number with format '99'"),
        ("to_number('12345', '99999', 3, 0)", "100039", "Numeric value '12345' is out of range"),
    ],
)
def test_a_text_that_a_model_does_not_read_is_an_error(
    expression: str, code: str, message: str
) -> None:
    with pytest.raises(engine.EngineFault) as caught:
        sql_text.value(expression)
    error = faults.of_engine(caught.value)
    assert (error.code, error.message) == (code, message)


def test_a_model_follows_the_types_of_columns() -> None:
    table = pa.table(
        {
            "i": pa.array([12, -7, None], pa.int64()),
            "d": pa.array([Decimal("0.10"), Decimal("-3987"), None], pa.decimal128(38, 3)),
            "f": pa.array([1.25, -1e9, None], pa.float64()),
        }
    )
    answer = sql_text.answer(
        "select to_char(i, '$99.9'), to_varchar(d, '0XXX'), to_char(f, 'FM9.9EE') from t",
        {"t": table},
    )
    assert answer.rows == [
        (" $12. ", "0000", "1.3E0"),
        (" -$7. ", "F06D", "-1.E9"),
        (None, None, None),
    ]
