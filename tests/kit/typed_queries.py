"""Random typed queries, each as two texts: for Boathouse's dialect and for DuckDB.

A query is a tree of Nodes. A Node has a sort (the type of its value, or the clause that it is) and
two templates, so that a difference of the dialects is translated where it arises; the column `why`
of FORMS says which documented behaviour of Snowflake a translation follows. DuckDB computes a
NUMBER(p,s) as DECIMAL(p,s), cast to it after each operation.

What the generator avoids, because two right answers exist or an error would depend on the order
of evaluation:

- Digits above 38, a zero divisor, casts that can fail, dates outside the years 1 to 9999.
- ORDER BY with LIMIT, and windows, whose order leaves ties between rows that differ; two windows
  over rows that may be equal.
- WHERE over a FULL JOIN, which has tests of its own in tests/sql/test_answers.py.
- Sums of floats that round, and transcendental functions anywhere but in the outermost list.
- ATAN2 of -0.0: a group of 0.0 and -0.0, which are equal, shows either.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PRECISION_MAX = 38
SCALE_OF_PRODUCTS_MAX = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Type:
    """A type of both dialects. precision, scale: of a NUMBER."""

    name: str
    precision: int = 0
    scale: int = 0

    @property
    def whole(self) -> int:
        """The digits before the point."""
        return self.precision - self.scale

    @property
    def ours(self) -> str:
        return f"number({self.precision}, {self.scale})" if self.name == "number" else self.name

    @property
    def theirs(self) -> str:
        if self.name == "number":
            return f"decimal({self.precision}, {self.scale})"
        return {"float": "double", "timestamp_ntz": "timestamp"}.get(self.name, self.name)


def number(precision: int, scale: int = 0) -> Type:
    return Type(name="number", precision=precision, scale=scale)


TEXT, BOOLEAN, FLOAT = Type(name="varchar"), Type(name="boolean"), Type(name="float")
DATE, TIMESTAMP, TIME = Type(name="date"), Type(name="timestamp_ntz"), Type(name="time")
COUNT = number(18)
LENGTH = number(8)
CALL = re.compile(r"(\w+)\(")
NAMES = ("number", "number", "varchar", "float", "boolean", "date", "timestamp_ntz", "time")


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A part of a query.

    sort: the type of an expression, or the name of a clause. ours, theirs: templates in which {0},
    {1} stand for parts, and {*} for all of them between separators. is_exact: both engines must
    compute the same bits. is_tame: a float, date or timestamp far from the ends of its range.
    """

    sort: Type | str
    ours: str
    theirs: str
    parts: tuple[Node, ...] = ()
    separator: str = ", "
    is_exact: bool = True
    is_tame: bool = False

    @property
    def type(self) -> Type:
        assert isinstance(self.sort, Type)
        return self.sort

    def texts(self) -> tuple[str, str]:
        """Return the text for Boathouse and that for DuckDB."""
        parts = [part.texts() for part in self.parts]
        return (
            self._filled(self.ours, [part[0] for part in parts]),
            self._filled(self.theirs, [part[1] for part in parts]),
        )

    def _filled(self, template: str, parts: list[str]) -> str:
        def text_of(match: re.Match[str]) -> str:
            if match[1] == "*":
                return self.separator.join(part for part in parts if part)
            return parts[int(match[1])]

        return re.sub(r"\{(\d+|\*)\}", text_of, template)

    def size(self) -> int:
        return 1 + sum(part.size() for part in self.parts)


def same(sort: Type | str, template: str, *parts: Node, **more: object) -> Node:
    """Return a Node whose text is the same in both dialects."""
    return Node(sort=sort, ours=template, theirs=template, parts=parts, **more)  # type: ignore[arg-type]


def typed(node: Node) -> Node:
    """Return a NUMBER whose DuckDB text is cast to its type."""
    return dataclasses.replace(node, theirs=f"cast({node.theirs} as {node.type.theirs})")


EMPTY = same("clause", "")
TOTAL_ORDER = "total order"
"""The sort of an order of a window that leaves no ties: with a part less, rows have no order."""


# The rows


COLUMNS: tuple[tuple[str, Type, bool], ...] = (
    ("id", number(6), True),
    ("n", number(5), True),
    ("m", number(12, 2), True),
    ("q", number(20, 5), True),
    ("w", number(38), True),
    ("f", FLOAT, False),
    ("g", FLOAT, True),
    ("b", BOOLEAN, True),
    ("s", TEXT, True),
    ("v", TEXT, True),
    ("d", DATE, False),
    ("e", DATE, True),
    ("t", TIMESTAMP, False),
    ("u", TIMESTAMP, True),
    ("h", TIME, True),
    ("r", number(7, 1), True),
    ("y", TEXT, True),
    ("z", DATE, True),
)
"""Name, type, and whether arithmetic stays far from the ends of the type's range."""
REQUIRED = frozenset({"id", "r", "y", "z"})
"""The columns that are NOT NULL."""

VALUES: dict[str, tuple[str, ...]] = {
    "n": ("0", "1", "-1", "2", "3", "7", "-7", "10", "99999", "-99999"),
    "m": ("0.00", "0.01", "-0.01", "0.50", "-0.50", "1.00", "2.50", "12.34", "9999999999.99"),
    "q": ("0.00000", "0.00001", "-0.00005", "1.50000", "3.33333", "-123456.78901", "7.00000"),
    "w": ("0", "1", "-1", "9223372036854775807", "9223372036854775808", "9" * 38, "-" + "9" * 38),
    "f": ("0", "-0.0", "1.5", "-1.5", "0.1", "1e300", "-1e300", "1e-300", "'NaN'", "'inf'"),
    "g": ("0", "0.25", "-0.25", "1", "1.5", "-2.75", "100", "-1000.5"),
    "b": ("true", "false"),
    "s": ("''", "'a'", "'A'", "'abc'", "'abcabc'", "' a '", "'é'", "'Жук'", "'日本語'", "'a%b'"),
    "v": ("''", "'a'", "'b'", "'10'", "'-3'", "'a,b,,c'", "'x_y'", "'😀'", "'Zoë Ä'", "'  '"),
    "d": ("'0001-01-01'", "'9999-12-31'", "'1970-01-01'", "'2024-02-29'", "'1999-12-31'"),
    "e": ("'1969-12-31'", "'2000-02-29'", "'2023-01-31'", "'2024-12-30'", "'2021-01-03'"),
    "t": (
        "'0001-01-01 00:00:00'",
        "'9999-12-31 23:59:59.999999'",
        "'1969-12-31 23:59:59.999999'",
        "'2024-02-29 12:34:56.789012'",
    ),
    "u": (
        "'1969-12-31 23:59:59.5'",
        "'2000-02-29 00:00:00'",
        "'2023-01-31 23:59:59.999999'",
        "'2024-12-30 06:07:08.009'",
    ),
    "h": ("'00:00:00'", "'23:59:59.999999'", "'12:34:56.789012'", "'00:00:00.000001'"),
    "r": ("0.0", "0.5", "-0.5", "12.0", "999999.9"),
    "y": ("''", "'a'", "'B'", "'ab c'", "'ñ'"),
    "z": ("'2024-02-29'", "'2000-01-01'", "'1970-01-01'", "'2023-12-31'"),
}
TABLES = {"t0": 24, "t1": 9, "t2": 0}
"""The rows of each table. An `id` names one row."""

NULL_SHARE = 0.2


def rows(table: str) -> list[str]:
    """Return the rows of a table as the text between VALUES' parentheses."""
    rng = random.Random(table)
    listed = []
    for row_id in range(TABLES[table]):
        cells = [str(row_id)]
        for name, column_type, _ in COLUMNS[1:]:
            is_null = name not in REQUIRED and rng.random() < NULL_SHARE
            value = "null" if is_null else rng.choice(VALUES[name])
            if column_type == FLOAT and value.startswith("'"):
                value += "::float"
            cells.append(value)
        listed.append(", ".join(cells))
    return listed


# The functions


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A function or operator.

    parameters: a letter each: T text, N number, I whole number of at most 10 digits, J column of
    whole numbers, G tame float, F float, B boolean, D date, E tame date, S timestamp, U tame
    timestamp, H time; and literals: k 0 to 5, p 1 to 4, i -40 to 40, c text of one or two letters,
    l LIKE pattern, r regular expression, y unit of a date, z unit of a timestamp, x decimal places.
    result: a type, or the function that computes it from the parameters' types (None: the digits
    do not suffice). why: the documented behaviour of Snowflake that DuckDB's function lacks.
    """

    result: Type | Callable[..., Type | None]
    parameters: str
    ours: str
    theirs: str
    why: str
    is_exact: bool = True
    is_tame: bool = False


def form(
    result: Type | Callable[..., Type | None],
    parameters: str,
    ours: str,
    theirs: str = "",
    why: str = "",
    *,
    is_exact: bool = True,
    is_tame: bool = False,
) -> Form:
    assert bool(why) == bool(theirs), ours
    return Form(
        result=result,
        parameters=parameters,
        ours=ours,
        theirs=theirs or ours,
        why=why,
        is_exact=is_exact,
        is_tame=is_tame,
    )


def _within(precision: int, scale: int) -> Type | None:
    return number(precision, scale) if precision <= PRECISION_MAX else None


def _sum_of(left: Type, right: Type) -> Type | None:
    scale = max(left.scale, right.scale)
    return _within(max(left.whole, right.whole) + scale + 1, scale)


def _product_of(left: Type, right: Type) -> Type | None:
    scale = left.scale + right.scale
    if scale > max(SCALE_OF_PRODUCTS_MAX, left.scale, right.scale):
        return None
    return _within(left.precision + right.precision, scale)


def _quotient_of(left: Type, right: Type) -> Type | None:
    scale = max(left.scale, min(left.scale + 6, 12))
    # DuckDB divides the numerator as a HUGEINT of so many digits.
    if left.precision + scale - left.scale + right.scale >= PRECISION_MAX - 1:
        return None
    if right.precision >= PRECISION_MAX - 1:
        return None
    return _within(left.whole + right.scale + scale, scale)


def _remainder_of(left: Type, right: Type) -> Type | None:
    scale = max(left.scale, right.scale)
    return _within(max(left.whole, right.whole) + scale, scale)


def _itself(operand: Type, *_: Type) -> Type:
    return operand


def _wholes_of(operand: Type, *_: Type) -> Type | None:
    return _within(operand.whole + 1, 0)


def _rounded(operand: Type, *_: Type) -> Type | None:
    return _within(operand.precision + 1, operand.scale)


SIX = "DuckDB's quotient is a double, Snowflake's a NUMBER with six more places, rounded half away"
SHORT_PRODUCTS = "DuckDB multiplies two DECIMALs of at most 18 digits in 64 bits"
SPELLED = "the name differs"
NULLS = "NULL if an argument is NULL; DuckDB leaves NULLs out"
CASTS = "the type of the result is Snowflake's"
UNTYPED_NULL = "DuckDB folds NULL || text to a NULL without a type, whose REPEAT is a BLOB"

WEEK = "a week begins on Monday; DuckDB's DATEDIFF counts seven days from the first date"
WEEKS = (
    "(case when {{0}} = 'week' then (cast(date_trunc('week', {1}) as date) "
    "- cast(date_trunc('week', {0}) as date)) // 7 else datediff({{0}}, {0}, {1}) end)"
)

FORMS: tuple[Form, ...] = (
    # Text
    form(TEXT, "T", "upper({0})"),
    form(TEXT, "T", "lower({0})"),
    form(TEXT, "T", "reverse({0})"),
    form(TEXT, "Tk", "left({0}, {1})"),
    form(TEXT, "Tk", "right({0}, {1})"),
    form(TEXT, "Tp", "substr({0}, {1})"),
    form(TEXT, "Tpk", "substr({0}, {1}, {2})"),
    form(TEXT, "T", "trim({0})"),
    form(TEXT, "T", "ltrim({0})"),
    form(TEXT, "Tc", "rtrim({0}, {1})"),
    form(TEXT, "Tc", "trim({0}, {1})"),
    form(TEXT, "Tkc", "lpad({0}, {1}, {2})"),
    form(TEXT, "Tkc", "rpad({0}, {1}, {2})"),
    form(TEXT, "Tk", "repeat({0}, {1})", "repeat(cast({0} as varchar), {1})", UNTYPED_NULL),
    form(TEXT, "Tcc", "replace({0}, {1}, {2})"),
    form(TEXT, "TcT", "replace({0}, {1}, {2})"),
    form(TEXT, "Tcp", "split_part({0}, {1}, {2})"),
    form(TEXT, "Tcc", "translate({0}, {1}, {2})"),
    form(TEXT, "TT", "({0} || {1})"),
    form(TEXT, "TT", "concat({0}, {1})", "({0} || {1})", NULLS),
    form(TEXT, "cTT", "concat_ws({0}, {1}, {2})", "({1} || {0} || {2})", NULLS),
    form(
        TEXT,
        "Tkc",
        "insert({0}, 1, {1}, {2})",
        "({2} || substr({0}, {1} + 1))",
        "DuckDB has none",
    ),
    form(TEXT, "T", "md5({0})"),
    form(TEXT, "T", "sha1({0})"),
    form(TEXT, "T", "sha2({0})", "sha256({0})", SPELLED),
    form(TEXT, "T", "hex_encode({0})", "hex({0})", SPELLED),
    form(TEXT, "T", "base64_encode({0})", "base64(encode({0}))", SPELLED),
    form(
        TEXT,
        "Trc",
        "regexp_replace({0}, {1}, {2})",
        "regexp_replace({0}, {1}, {2}, 'g')",
        "all matches are replaced",
    ),
    form(
        TEXT,
        "Tr",
        "regexp_substr({0}, {1})",
        "nullif(regexp_extract({0}, {1}), '')",
        "NULL without a match",
    ),
    form(TEXT, "N", "to_varchar({0})", "cast({0} as varchar)", SPELLED),
    form(TEXT, "N", "cast({0} as varchar)"),
    form(TEXT, "B", "cast({0} as varchar)"),
    form(TEXT, "D", "cast({0} as varchar)"),
    form(TEXT, "E", "to_char({0}, 'YYYY/MM/DD')", "strftime({0}, '%Y/%m/%d')", SPELLED),
    form(
        TEXT,
        "U",
        "cast({0} as varchar)",
        "strftime({0}, '%Y-%m-%d %H:%M:%S.%g')",
        "three digits of the second by TIMESTAMP_OUTPUT_FORMAT",
    ),
    form(TEXT, "E", "dayname({0})", "left(dayname({0}), 3)", "three letters"),
    form(TEXT, "U", "monthname({0})", "left(monthname({0}), 3)", "three letters"),
    # Numbers of text
    form(LENGTH, "T", "length({0})"),
    form(LENGTH, "T", "octet_length({0})", "strlen({0})", SPELLED),
    form(LENGTH, "T", "bit_length({0})"),
    form(LENGTH, "Tc", "position({1}, {0})", "strpos({0}, {1})", SPELLED),
    form(LENGTH, "Tc", "charindex({1}, {0})", "strpos({0}, {1})", SPELLED),
    form(
        LENGTH,
        "T",
        "ascii({0})",
        "(case when {0} = '' then 0 else unicode({0}) end)",
        "0 for the empty text, where DuckDB has -1",
    ),
    form(LENGTH, "T", "rtrimmed_length({0})", "length(rtrim({0}))", "DuckDB has none"),
    form(
        LENGTH,
        "Tr",
        "regexp_count({0}, {1})",
        "len(regexp_extract_all({0}, {1}))",
        "DuckDB has none",
    ),
    # Numbers
    form(_sum_of, "NN", "({0} + {1})"),
    form(_sum_of, "NN", "({0} - {1})"),
    form(_product_of, "NN", "({0} * {1})", "product", SHORT_PRODUCTS),
    form(_quotient_of, "NN", "({0} / nullif({1}, 0))", "quotient", SIX),
    form(
        _quotient_of,
        "NN",
        "div0({0}, {1})",
        "quotient or zero",
        SIX + "; 0 if the divisor is 0",
    ),
    form(_remainder_of, "NN", "mod({0}, nullif({1}, 0))"),
    form(_remainder_of, "NN", "({0} % nullif({1}, 0))"),
    form(_itself, "N", "(- {0})"),
    form(_itself, "N", "abs({0})"),
    form(_itself, "N", "zeroifnull({0})", "coalesce({0}, 0)", SPELLED),
    form(_itself, "N", "nullifzero({0})", "nullif({0}, 0)", SPELLED),
    form(_wholes_of, "N", "ceil({0})"),
    form(_wholes_of, "N", "floor({0})"),
    form(_wholes_of, "N", "round({0})"),
    form(_wholes_of, "N", "trunc({0})"),
    form(_rounded, "Nx", "cast(round({0}, {1}) as {type})", "round({0}, {1})", CASTS),
    form(number(1), "N", "sign({0})"),
    form(
        number(18), "JJ", "bitand({0}, {1})", "(cast({0} as bigint) & cast({1} as bigint))", SPELLED
    ),
    form(
        number(18), "JJ", "bitor({0}, {1})", "(cast({0} as bigint) | cast({1} as bigint))", SPELLED
    ),
    form(
        number(18),
        "JJ",
        "bitxor({0}, {1})",
        "xor(cast({0} as bigint), cast({1} as bigint))",
        SPELLED,
    ),
    form(number(10), "I", "cast({0} as number(10, 0))", "cast({0} as decimal(10, 0))", SPELLED),
    # Floats
    form(FLOAT, "GG", "({0} + {1})", is_tame=True),
    form(FLOAT, "GG", "({0} - {1})", is_tame=True),
    form(FLOAT, "GG", "({0} * {1})", is_tame=True),
    form(FLOAT, "GG", "({0} / nullif({1}, 0))", is_tame=True),
    form(FLOAT, "G", "sqrt(abs({0}))", is_tame=True),
    form(FLOAT, "G", "floor({0})", is_tame=True),
    form(FLOAT, "G", "ceil({0})", is_tame=True),
    form(FLOAT, "F", "abs({0})"),
    form(FLOAT, "F", "(- {0})"),
    form(FLOAT, "I", "cast({0} as float)", "cast({0} as double)", SPELLED, is_tame=True),
    form(FLOAT, "G", "sin({0})", is_exact=False),
    form(FLOAT, "G", "cos({0})", is_exact=False),
    form(FLOAT, "G", "atan({0})", is_exact=False),
    form(FLOAT, "GG", "atan2({0} + 0e0, {1} + 0e0)", is_exact=False),
    form(FLOAT, "G", "tanh({0})", is_exact=False),
    form(FLOAT, "G", "ln(abs({0}) + 1)", is_exact=False),
    form(FLOAT, "G", "exp(sin({0}))", is_exact=False),
    form(FLOAT, "G", "cbrt({0})", is_exact=False),
    form(FLOAT, "G", "degrees({0})", is_exact=False),
    form(FLOAT, "G", "radians({0})", is_exact=False),
    form(FLOAT, "Gk", "power({0}, {1})", is_exact=False),
    form(FLOAT, "N", "cast({0} as float)", "cast({0} as double)", SPELLED, is_exact=False),
    # Booleans
    form(BOOLEAN, "BB", "({0} and {1})"),
    form(BOOLEAN, "BB", "({0} or {1})"),
    form(BOOLEAN, "BBB", "({0} or {1} and {2})"),
    form(BOOLEAN, "B", "(not {0})"),
    form(BOOLEAN, "BB", "booland({0}, {1})", "({0} and {1})", SPELLED),
    form(BOOLEAN, "BB", "boolxor({0}, {1})", "({0} <> {1})", SPELLED),
    form(BOOLEAN, "Tc", "contains({0}, {1})"),
    form(BOOLEAN, "TT", "startswith({0}, {1})", "starts_with({0}, {1})", SPELLED),
    form(BOOLEAN, "TT", "endswith({0}, {1})", "ends_with({0}, {1})", SPELLED),
    form(BOOLEAN, "Tl", "({0} like {1})"),
    form(BOOLEAN, "Tl", "({0} not like {1})"),
    form(BOOLEAN, "Tl", "({0} ilike {1})"),
    form(BOOLEAN, "Tl", "({0} like {1} escape '!')"),
    form(BOOLEAN, "Tr", "regexp_like({0}, {1})", "regexp_full_match({0}, {1})", "of all the text"),
    form(BOOLEAN, "N", "cast({0} as boolean)"),
    # Dates and timestamps
    form(number(4), "D", "year({0})"),
    form(number(4), "S", "year({0})"),
    form(number(2), "D", "month({0})"),
    form(number(2), "S", "quarter({0})"),
    form(number(2), "D", "day({0})"),
    form(number(3), "D", "dayofyear({0})"),
    form(number(1), "D", "dayofweek({0})"),
    form(number(1), "D", "dayofweekiso({0})", "isodow({0})", SPELLED),
    form(number(2), "D", "weekiso({0})", "week({0})", SPELLED),
    form(number(2), "S", "week({0})"),
    form(number(4), "D", "yearofweekiso({0})", "isoyear({0})", SPELLED),
    form(number(2), "S", "hour({0})"),
    form(number(2), "S", "minute({0})"),
    form(number(2), "S", "second({0})"),
    form(number(4), "yS", "date_part({0}, {1})"),
    form(number(9), "yDD", "datediff({0}, {1}, {2})", WEEKS.format("{1}", "{2}"), WEEK),
    form(number(9), "yUU", "datediff({0}, {1}, {2})", WEEKS.format("{1}", "{2}"), WEEK),
    form(number(12), "zUU", "datediff({0}, {1}, {2})"),
    form(
        DATE,
        "yE",
        "date_trunc({0}, {1})",
        "cast(date_trunc({0}, {1}) as date)",
        CASTS,
        is_tame=True,
    ),
    form(
        TIMESTAMP,
        "yU",
        "date_trunc({0}, {1})",
        "cast(date_trunc({0}, {1}) as timestamp)",
        CASTS,
        is_tame=True,
    ),
    form(TIMESTAMP, "zU", "date_trunc({0}, {1})", is_tame=True),
    form(
        DATE,
        "iE",
        "dateadd('day', {0}, {1})",
        "({1} + cast({0} as integer))",
        SPELLED,
        is_tame=True,
    ),
    form(DATE, "Ei", "({0} + {1})", "({0} + cast({1} as integer))", CASTS, is_tame=True),
    form(
        DATE,
        "iE",
        "dateadd('month', {0}, {1})",
        "cast({1} + to_months(cast({0} as integer)) as date)",
        SPELLED,
        is_tame=True,
    ),
    form(
        TIMESTAMP,
        "iU",
        "dateadd('hour', {0}, {1})",
        "({1} + to_hours(cast({0} as integer)))",
        SPELLED,
        is_tame=True,
    ),
    form(
        TIMESTAMP,
        "iU",
        "dateadd('month', {0}, {1})",
        "({1} + to_months(cast({0} as integer)))",
        SPELLED,
        is_tame=True,
    ),
    form(
        TIMESTAMP,
        "iE",
        "dateadd('minute', {0}, {1})",
        "(cast({1} as timestamp) + to_minutes(cast({0} as integer)))",
        SPELLED,
        is_tame=True,
    ),
    form(
        DATE,
        "iE",
        "add_months({1}, {0})",
        "(case when {1} = last_day({1}) then last_day({1} + to_months(cast({0} as integer)))"
        " else cast({1} + to_months(cast({0} as integer)) as date) end)",
        "the last day of a month stays the last day",
        is_tame=True,
    ),
    form(DATE, "E", "last_day({0})", is_tame=True),
    form(DATE, "S", "cast({0} as date)"),
    form(DATE, "U", "to_date({0})", "cast({0} as date)", SPELLED, is_tame=True),
    form(TIMESTAMP, "D", "cast({0} as timestamp_ntz)", "cast({0} as timestamp)", SPELLED),
    form(TIMESTAMP, "E", "to_timestamp_ntz({0})", "cast({0} as timestamp)", SPELLED, is_tame=True),
    form(number(9), "EE", "({0} - {1})"),
    # Times
    form(number(2), "H", "hour({0})"),
    form(number(2), "H", "minute({0})"),
    form(number(2), "H", "second({0})"),
    form(number(6), "zHH", "datediff({0}, {1}, {2})"),
    form(TEXT, "H", "cast({0} as varchar)", "left(cast({0} as varchar), 8)", "seconds are shown"),
    form(TIME, "S", "cast({0} as time)"),
    form(
        TIME,
        "iH",
        "dateadd('minute', {0}, {1})",
        "({1} + to_minutes(cast({0} as integer)))",
        SPELLED,
    ),
    form(TIME, "kpp", "time_from_parts({0}, {1}, {2})", "make_time({0}, {1}, {2})", SPELLED),
)


def _divided(left: Type, right: Type, result: Type) -> str:
    """Return DuckDB's exact quotient: whole numbers divided, rounded half away from zero."""
    zeros = "0" * (result.scale - left.scale + right.scale)
    # A DECIMAL's text without its point is its unscaled value.
    numerator = f"cast(replace(cast({{0}} as varchar), '.', '') || '{zeros}' as hugeint)"
    denominator = "nullif(cast(replace(cast({1} as varchar), '.', '') as hugeint), 0)"
    quotient = f"rounded_quotient({numerator}, {denominator})"
    return f"cast(places(cast({quotient} as varchar), {result.scale}) as {result.theirs})"


SHORT_DECIMAL_MAX = 18
"""The most digits of a DECIMAL that DuckDB holds in 64 bits."""


def _multiplied(left: Type, right: Type) -> str:
    """Return DuckDB's exact product."""
    if max(left.precision, right.precision) > SHORT_DECIMAL_MAX:
        return "({0} * {1})"
    return f"(cast({{0}} as decimal({SHORT_DECIMAL_MAX + 1}, {left.scale})) * {{1}})"


MACROS = (
    "create macro rounded_quotient(n, d) as sign(n) * sign(d) "
    "* ((2::hugeint * abs(n) + abs(d)) // (2::hugeint * abs(d)))",
    # The text of a whole number as that of the number divided by ten to the power k.
    "create macro places(t, k) as case when k = 0 then t else "
    "(case when left(t, 1) = '-' then '-' else '' end) || "
    "left(lpad(ltrim(t, '-'), greatest(k + 1, length(ltrim(t, '-')))::integer, '0'), -k) || '.' || "
    "right(lpad(ltrim(t, '-'), greatest(k + 1, length(ltrim(t, '-')))::integer, '0'), k) end",
)


# The generator


LETTERS = {"T": "varchar", "N": "number", "B": "boolean", "H": "time"}
TAMES = {"G": "float", "E": "date", "U": "timestamp_ntz"}
WILDS = {"F": "float", "D": "date", "S": "timestamp_ntz"}
BY_RESULT: dict[str, tuple[Form, ...]] = {
    name: tuple(
        row
        for row in FORMS
        if (row.result.name if isinstance(row.result, Type) else "number") == name
    )
    for name in set(NAMES)
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
REGEXPS = ("[a-c]+", "b", "[^a]", "a.", "[0-9]+", "[A-Z][a-z]*", "x|b")
PATTERNS = ("%", "a%", "%b%", "_", "%a_c", "", "%é%", "a!%b", "__%", "ABC", "日%")
DATE_UNITS = ("year", "quarter", "month", "week", "day")
TIME_UNITS = ("hour", "minute", "second")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What an expression may read: columns, or the groups and aggregates of a query.

    outer: the columns of the query around this one.
    """

    leaves: tuple[Node, ...]
    outer: tuple[Node, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A query: its text, and the types of its columns."""

    node: Node
    columns: tuple[Node, ...]
    is_ordered: bool = False


class Generator:
    """Draws queries from a seed. Mutable: it counts names."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._names = 0
        self._ctes: list[tuple[str, tuple[tuple[str, Node], ...]]] = []

    def statement(self) -> Query:
        """Return one query, as a client would send it."""
        with_clause = []
        for _ in range(self._rng.choice((0, 0, 0, 1, 2))):
            name = self._name("w")
            query = self._query(depth=1)
            with_clause.append(same("cte", f"{name} as ({{0}})", query.node))
            self._ctes.append((name, tuple((f"c{i}", c) for i, c in enumerate(query.columns))))
        query = self._query(depth=2, is_outermost=True)
        clause = same("with", "with {*} ", *with_clause) if with_clause else EMPTY
        return dataclasses.replace(query, node=same("statement", "{0}{1}", clause, query.node))

    # Queries

    def _query(
        self,
        *,
        depth: int,
        types: tuple[Type, ...] = (),
        outer: tuple[Node, ...] = (),
        is_outermost: bool = False,
    ) -> Query:
        if depth > 0 and self._chance(0.15) and not outer:
            return self._set_operation(depth=depth, types=types)
        return self._select(depth=depth, types=types, outer=outer, is_outermost=is_outermost)

    def _set_operation(self, *, depth: int, types: tuple[Type, ...]) -> Query:
        types = types or tuple(self._storable() for _ in range(self._rng.randint(1, 3)))
        left = self._query(depth=depth - 1, types=types)
        right = self._query(depth=depth - 1, types=types)
        word = self._pick(("union all", "union", "intersect", "except", "minus"))
        node = Node(
            sort="query",
            ours=f"({{0}}) {word} ({{1}})",
            theirs=f"({{0}}) {word.replace('minus', 'except')} ({{1}})",
            parts=(left.node, right.node),
        )
        columns = tuple(
            dataclasses.replace(ours, is_tame=ours.is_tame and theirs.is_tame)
            for ours, theirs in zip(left.columns, right.columns, strict=True)
        )
        return Query(node=node, columns=columns)

    def _select(
        self,
        *,
        depth: int,
        types: tuple[Type, ...],
        outer: tuple[Node, ...],
        is_outermost: bool,
    ) -> Query:
        source, scope = self._from(depth=depth)
        scope = dataclasses.replace(scope, outer=outer)
        where = having = group = qualify = EMPTY
        if self._chance(0.6) and " full join " not in source.texts()[0]:
            where = same(
                "clause", " where {0}", self._condition(scope, depth=depth, subqueries=True)
            )
        is_grouped = self._chance(0.35)
        if is_grouped:
            group, scope = self._grouped(scope)
            if self._chance(0.4):
                having = same(
                    "clause", " having {0}", self._compared(scope, self._pick(scope.leaves))
                )
        elif self._chance(0.3):
            scope = self._with_windows(scope)
            if self._chance(0.3):
                qualify = same("clause", " qualify {0}", self._compared(scope, scope.leaves[-1]))
        items: list[Node] = []
        if types:
            items = [self._of_type(each, scope) for each in types]
        else:
            for _ in range(self._rng.randint(1, 4)):
                items.append(self._item(scope, is_outermost=is_outermost, depth=depth))
        listed = [same("item", f"{{0}} as c{i}", item) for i, item in enumerate(items)]
        distinct = same("clause", "distinct ") if self._chance(0.15) else EMPTY
        if distinct is not EMPTY and not all(item.is_exact for item in items):
            distinct = EMPTY
        order, is_ordered = self._order(items) if self._chance(0.4) else (EMPTY, False)
        node = same(
            "query",
            "select {0}{1} from {2}{3}{4}{5}{6}{7}",
            distinct,
            same("list", "{*}", *listed),
            source,
            where,
            group,
            having,
            qualify,
            order,
        )
        return Query(node=node, columns=tuple(items), is_ordered=is_ordered)

    def _order(self, items: list[Node]) -> tuple[Node, bool]:
        """Return ORDER BY all columns with LIMIT; equal rows may stand in any order."""
        places = list(range(len(items)))
        self._rng.shuffle(places)
        terms = []
        for place in places:
            if not items[place].is_exact:
                return EMPTY, False
            terms.append(self._ordering(same("name", self._pick((f"c{place}", f"{place + 1}")))))
        limit = ""
        if self._chance(0.6):
            limit = f" limit {self._rng.choice((0, 1, 3, 10))}"
            if self._chance(0.4):
                limit += f" offset {self._rng.randint(0, 4)}"
        order = same("clause", " order by {*}", *terms)
        return same("clause", "{0}{1}", order, same("clause", limit)), True

    def _ordering(self, value: Node) -> Node:
        word = self._pick(("", " asc", " desc"))
        nulls = self._pick(("", "", " nulls first", " nulls last"))
        # NULL is the largest value of Snowflake's order; DuckDB's default is NULLS LAST.
        theirs = nulls or (" nulls first" if word == " desc" else " nulls last")
        return Node(
            sort="ordering",
            ours=f"{{0}}{word}{nulls}",
            theirs=f"{{0}}{word}{theirs}",
            parts=(value,),
        )

    def _grouped(self, scope: Scope) -> tuple[Node, Scope]:
        keys = []
        for _ in range(self._rng.choice((0, 1, 1, 2))):
            key = self._pick(scope.leaves)
            if self._chance(0.4):
                grown = self._of_name(key.type.name, scope, depth=1)
                if re.search(r"\ba\d+\.", grown.texts()[0]) and "select" not in grown.texts()[0]:
                    key = grown
            keys.append(key)
        aggregates = [self._aggregate(scope) for _ in range(self._rng.randint(1, 3))]
        grouping = EMPTY
        if keys:
            word = self._pick(("{*}", "{*}", "{*}", "rollup ({*})", "cube ({*})"))
            if len({key.texts()[0] for key in keys}) < len(keys):
                word = "{*}"
            grouping = same("clause", f" group by {word}", *keys)
        return grouping, dataclasses.replace(scope, leaves=(*keys, *aggregates))

    def _aggregate(self, scope: Scope) -> Node:
        """Return an aggregate whose result does not depend on the order of rows."""
        choice = self._rng.randrange(12)
        if choice == 0:
            return typed(same(COUNT, "count(*)"))
        if choice == 1:
            argument = self._any(scope, depth=1)
            return typed(same(COUNT, self._pick(("count({0})", "count(distinct {0})")), argument))
        if choice in (2, 3):
            argument = self._of_name("number", scope, depth=1)
            if argument.type.precision <= 30:
                word = self._pick(("sum({0})", "sum({0})", "sum(distinct {0})"))
                result = number(
                    min(PRECISION_MAX, argument.type.precision + 6), argument.type.scale
                )
                return typed(same(result, word, argument))
        if choice == 4:
            argument = self._of_name("number", scope, depth=1)
            result_scale = max(argument.type.scale, min(argument.type.scale + 6, 12))
            if argument.type.whole + result_scale < 34:
                result = number(argument.type.whole + result_scale + 2, result_scale)
                total = number(PRECISION_MAX, argument.type.scale)
                theirs = _divided(total, COUNT, result)
                theirs = theirs.replace("{0}", f"cast(sum({{0}}) as {total.theirs})")
                theirs = theirs.replace("{1}", "count({0})")
                return Node(sort=result, ours="avg({0})", theirs=theirs, parts=(argument,))
        if choice == 5:
            argument = self._of_name("boolean", scope, depth=1)
            name, theirs = self._pick(
                (("booland_agg", "bool_and({0})"), ("boolor_agg", "bool_or({0})"))
            )
            return Node(sort=BOOLEAN, ours=f"{name}({{0}})", theirs=theirs, parts=(argument,))
        if choice == 6:
            argument = self._of_name("boolean", scope, depth=1)
            # DuckDB's COUNT_IF of NULLs alone is NULL.
            theirs = "count(case when {0} then 1 end)"
            return typed(Node(sort=COUNT, ours="count_if({0})", theirs=theirs, parts=(argument,)))
        if choice == 7:
            argument = self._of_name("varchar", scope, depth=1)
            distinct = self._pick(("", "distinct "))
            return Node(
                sort=TEXT,
                ours=f"listagg({distinct}{{0}}, '|') within group (order by {{0}})",
                # An empty text for no values, where DuckDB has NULL.
                theirs=f"coalesce(string_agg({distinct}{{0}}, '|' order by {{0}}), '')",
                parts=(argument,),
            )
        if choice == 8:
            floats = [leaf for leaf in scope.leaves if leaf.type == FLOAT and leaf.is_tame]
            if floats:
                # Sums of these values are exact, in any order.
                return same(FLOAT, self._pick(("sum({0})", "avg({0})")), self._pick(floats))
        argument = self._any(scope, depth=1)
        return same(
            argument.type, self._pick(("min({0})", "max({0})")), argument, is_tame=argument.is_tame
        )

    def _with_windows(self, scope: Scope) -> Scope:
        count = self._rng.randint(1, 2)
        aliases = {leaf.ours.split(".")[0] for leaf in scope.leaves}
        if aliases != {leaf.ours[:-3] for leaf in scope.leaves if leaf.ours.endswith(".id")}:
            count = 1  # rows may be equal, and each window may number these in another order
        windows = tuple(self._window(scope) for _ in range(count))
        return dataclasses.replace(scope, leaves=(*scope.leaves, *windows))

    def _window(self, scope: Scope) -> Node:
        """Return a window function ordered by all columns, so that ties are equal rows."""
        partition = EMPTY
        if self._chance(0.6):
            partition = same("clause", "partition by {0} ", self._pick(scope.leaves))
        leaves = list(scope.leaves)
        self._rng.shuffle(leaves)
        order = same(TOTAL_ORDER, "order by {*}", *(self._ordering(leaf) for leaf in leaves))
        argument = self._pick(scope.leaves)
        choice = self._rng.randrange(8)
        if choice < 3:
            name = self._pick(("row_number()", "rank()", "dense_rank()", "ntile(3)"))
            if name.endswith("rank()"):
                order = same("clause", "order by {0}", self._ordering(self._pick(scope.leaves)))
            return typed(same(number(10), f"{name} over ({{0}}{{1}})", partition, order))
        if choice < 5:
            name = self._pick(("lag", "lead"))
            step = self._rng.randint(1, 3)
            return same(
                argument.type,
                f"{name}({{0}}, {step}) over ({{1}}{{2}})",
                argument,
                partition,
                order,
                is_tame=argument.is_tame,
            )
        frame = self._pick(
            (
                "rows between unbounded preceding and current row",
                "rows between 2 preceding and 1 following",
                "rows between unbounded preceding and unbounded following",
                "rows between 1 following and 3 following",
                "rows between 3 preceding and 1 preceding",
            )
        )
        if choice == 5:
            name = self._pick(("first_value", "last_value"))
            return same(
                argument.type,
                f"{name}({{0}}) over ({{1}}{{2}} {frame})",
                argument,
                partition,
                order,
                is_tame=argument.is_tame,
            )
        name = self._pick(("sum", "min", "max", "count"))
        if name == "sum":
            numbers = [
                each
                for each in scope.leaves
                if each.type.name == "number" and each.type.precision < 31
            ]
            if not numbers:
                name = "count"
            else:
                argument = self._pick(numbers)
        result = argument.type
        if name == "sum":
            result = number(min(PRECISION_MAX, argument.type.precision + 6), argument.type.scale)
        elif name == "count":
            result = COUNT
        if self._chance(0.3):
            # Without an order, the window is the partition.
            node = same(result, f"{name}({{0}}) over ({{1}})", argument, partition)
        else:
            node = same(
                result, f"{name}({{0}}) over ({{1}}{{2}} {frame})", argument, partition, order
            )
        if result.name == "number":
            return typed(node)
        return dataclasses.replace(node, is_tame=argument.is_tame)

    def _from(self, *, depth: int) -> tuple[Node, Scope]:
        left, leaves = self._source(depth=depth)
        joins = self._rng.choice((0, 0, 0, 1, 1, 2)) if depth else self._rng.choice((0, 0, 1))
        for _ in range(joins):
            right, more = self._source(depth=depth)
            scope = Scope(leaves=(*leaves, *more))
            if self._chance(0.15):
                left = same("source", "{0} cross join {1}", left, right)
            else:
                word = self._pick(("join", "left join", "right join", "full join"))
                left = same(
                    "source",
                    f"{{0}} {word} {{1}} on {{2}}",
                    left,
                    right,
                    self._on(leaves, more, scope, word),
                )
            leaves = scope.leaves
        return left, Scope(leaves=leaves)

    def _on(self, left: tuple[Node, ...], right: tuple[Node, ...], scope: Scope, word: str) -> Node:
        pairs = [
            (one, other)
            for one in left
            for other in right
            if one.type.name == other.type.name and _are_comparable(one.type, other.type)
        ]
        if not pairs:
            return same(BOOLEAN, "true")
        equal = same(BOOLEAN, "({0} = {1})", *self._pick(pairs))
        if self._chance(0.3):
            return same(BOOLEAN, "({0} and {1})", equal, self._condition(scope, depth=0))
        return equal

    def _source(self, *, depth: int) -> tuple[Node, tuple[Node, ...]]:
        alias = self._name("a")
        if self._ctes and self._chance(0.5):
            name, columns = self._pick(self._ctes)
            node = same("source", f"{name} {alias}")
        elif depth > 0 and self._chance(0.35):
            query = self._query(depth=depth - 1)
            node = same("source", f"({{0}}) {alias}", query.node)
            columns = tuple((f"c{i}", column) for i, column in enumerate(query.columns))
        else:
            table = self._rng.choices(tuple(TABLES), weights=(6, 4, 1))[0]
            return same("source", f"{table} {alias}"), tuple(
                same(column_type, f"{alias}.{name}", is_tame=is_tame)
                for name, column_type, is_tame in COLUMNS
            )
        return node, tuple(
            same(column.type, f"{alias}.{name}", is_exact=column.is_exact, is_tame=column.is_tame)
            for name, column in columns
        )

    # Expressions

    def _item(self, scope: Scope, *, is_outermost: bool, depth: int) -> Node:
        if is_outermost and self._chance(0.06):
            forms = [row for row in FORMS if not row.is_exact]
            node = self._of_form(self._pick(forms), scope, depth=1)
            if node:
                return node
        if depth and self._chance(0.08):
            return self._scalar_subquery(scope)
        if self._chance(0.3):
            return self._pick(scope.leaves)
        return self._any(scope, depth=3)

    def _any(self, scope: Scope, *, depth: int) -> Node:
        return self._of_name(self._pick(NAMES), scope, depth=depth)

    def _of_type(self, wanted: Type, scope: Scope) -> Node:
        """Return an expression of exactly this type."""
        if wanted.name != "number":
            return self._of_name(wanted.name, scope, depth=2)
        for _ in range(4):
            node = self._of_name("number", scope, depth=1)
            if node.type.whole < wanted.whole:
                break
        else:
            node = typed(same(number(1), "1"))
        return Node(
            sort=wanted,
            ours=f"cast({{0}} as {wanted.ours})",
            theirs=f"cast({{0}} as {wanted.theirs})",
            parts=(node,),
        )

    def _of_name(self, name: str, scope: Scope, *, depth: int, tame: bool = False) -> Node:
        if depth <= 0 or self._chance(0.2):
            return self._leaf(name, scope, tame=tame)
        if name == "boolean" and self._chance(0.5):
            return self._condition(scope, depth=depth - 1)
        if self._chance(0.25) and not tame:
            return self._chosen(name, scope, depth=depth)
        for _ in range(4):
            row = self._pick(BY_RESULT[name])
            if not row.is_exact or (tame and not row.is_tame):
                continue
            node = self._of_form(row, scope, depth=depth)
            if node:
                return node
        return self._leaf(name, scope, tame=tame)

    def _of_form(self, row: Form, scope: Scope, *, depth: int) -> Node | None:
        parts = tuple(self._argument(letter, scope, depth=depth - 1) for letter in row.parameters)
        types = [part.type for part in parts if isinstance(part.sort, Type)]
        result = row.result if isinstance(row.result, Type) else row.result(*types)
        if result is None:
            return None
        theirs = row.theirs
        if theirs == "product":
            theirs = _multiplied(types[0], types[1])
        elif theirs.startswith("quotient"):
            theirs = _divided(types[0], types[1], result)
            if row.theirs.endswith("zero"):
                theirs = f"(case when {{1}} = 0 then 0 else {theirs} end)"
        node = Node(
            sort=result,
            ours=row.ours.replace("{type}", result.ours),
            theirs=theirs,
            parts=parts,
            is_exact=row.is_exact,
            is_tame=row.is_tame,
        )
        return typed(node) if result.name == "number" else node

    def _argument(self, letter: str, scope: Scope, *, depth: int) -> Node:
        if letter in LETTERS:
            return self._of_name(LETTERS[letter], scope, depth=depth)
        if letter in TAMES:
            return self._of_name(TAMES[letter], scope, depth=depth, tame=True)
        if letter in WILDS:
            return self._of_name(WILDS[letter], scope, depth=depth)
        if letter == "I":
            for _ in range(3):
                node = self._of_name("number", scope, depth=depth)
                if node.type.scale == 0 and node.type.precision <= 10:
                    return node
            return self._literal("number", low=True)
        if letter == "J":
            columns = [leaf for leaf in scope.leaves if leaf.ours.endswith((".n", ".id"))]
            return self._pick(columns) if columns else self._literal("number", low=True)
        return same("literal", self._literal_text(letter))

    def _literal_text(self, letter: str) -> str:
        match letter:
            case "k":
                return str(self._rng.randint(0, 5))
            case "p":
                return str(self._rng.randint(1, 4))
            case "i":
                return str(self._rng.randint(-40, 40))
            case "x":
                return str(self._rng.randint(0, 4))
            case "c":
                return self._pick(("'a'", "'b'", "','", "'é'", "'ab'", "' '", "'-'"))
            case "l":
                return f"'{self._pick(PATTERNS)}'"
            case "r":
                return f"'{self._pick(REGEXPS)}'"
            case "y":
                return f"'{self._pick(DATE_UNITS)}'"
            case "z":
                return f"'{self._pick(TIME_UNITS)}'"
        raise AssertionError(letter)

    def _leaf(self, name: str, scope: Scope, *, tame: bool = False) -> Node:
        leaves = [
            leaf
            for leaf in scope.leaves
            if leaf.type.name == name and leaf.is_exact and (leaf.is_tame or not tame)
        ]
        if leaves and not self._chance(0.12):
            return self._pick(leaves)
        return self._literal(name)

    def _literal(self, name: str, *, low: bool = False) -> Node:
        if self._chance(0.1):
            node_type = number(5) if name == "number" else Type(name=name)
            return Node(
                sort=node_type,
                ours=f"cast(null as {node_type.ours})",
                theirs=f"cast(null as {node_type.theirs})",
                is_tame=True,
            )
        match name:
            case "number":
                if low or self._chance(0.6):
                    text = str(self._rng.choice((0, 1, 2, 3, 10, 100)))
                    return typed(same(number(len(text)), text))
                text = self._pick(("0.5", "1.25", "0.01", "10.0", "2.500"))
                return typed(same(number(len(text) - 1, len(text) - text.index(".") - 1), text))
            case "varchar":
                return same(TEXT, self._pick((*VALUES["s"], *VALUES["v"])))
            case "boolean":
                return same(BOOLEAN, self._pick(("true", "false")))
            case "float":
                text = self._pick(VALUES["g"])
                return Node(
                    sort=FLOAT,
                    ours=f"cast({text} as float)",
                    theirs=f"cast({text} as double)",
                    is_tame=True,
                )
            case "date":
                text = self._pick(VALUES["e"])
                return Node(
                    sort=DATE, ours=f"{text}::date", theirs=f"cast({text} as date)", is_tame=True
                )
            case "time":
                text = self._pick(VALUES["h"])
                return Node(sort=TIME, ours=f"{text}::time", theirs=f"cast({text} as time)")
            case _:
                text = self._pick(VALUES["u"])
                return Node(
                    sort=TIMESTAMP,
                    ours=f"{text}::timestamp_ntz",
                    theirs=f"cast({text} as timestamp)",
                    is_tame=True,
                )

    def _pair(self, name: str, scope: Scope, *, depth: int, count: int = 2) -> tuple[Node, ...]:
        """Return values of one type that can be compared."""
        nodes = [self._of_name(name, scope, depth=depth)]
        while len(nodes) < count:
            node = self._of_name(name, scope, depth=depth)
            if all(_are_comparable(node.type, each.type) for each in nodes) and _common(
                [*nodes, node]
            ):
                nodes.append(node)
            elif self._chance(0.3):
                nodes.append(nodes[0])
        return tuple(nodes)

    def _chosen(self, name: str, scope: Scope, *, depth: int) -> Node:
        """Return a conditional expression."""
        one, other = self._pair(name, scope, depth=depth - 1)
        result = _common([one, other])
        assert result is not None
        where = self._condition(scope, depth=depth - 1)
        choice = self._rng.randrange(10)
        tame = one.is_tame and other.is_tame

        def build(ours: str, theirs: str, *parts: Node) -> Node:
            node = Node(sort=result, ours=ours, theirs=theirs, parts=parts, is_tame=tame)
            return typed(node) if name == "number" else node

        null = f"cast(null as {result.theirs})"
        match choice:
            case 0:
                text = "(case when {2} then {0} else {1} end)"
                return build(text, text, one, other, where)
            case 1:
                text = "(case when {1} then {0} end)"
                return build(text, text, one, where) if result == one.type else one
            case 2:
                return build("iff({2}, {0}, {1})", "if({2}, {0}, {1})", one, other, where)
            case 3:
                return build("coalesce({0}, {1})", "coalesce({0}, {1})", one, other)
            case 4:
                return build("nvl({0}, {1})", "coalesce({0}, {1})", one, other)
            case 5 if result == one.type:
                return build("nullif({0}, {1})", "nullif({0}, {1})", one, other)
            case 6 | 7:
                word = "greatest" if choice == 6 else "least"
                # NULL if an argument is NULL; DuckDB leaves NULLs out.
                theirs = (
                    f"(case when {{0}} is null or {{1}} is null then {null} "
                    f"else {word}({{0}}, {{1}}) end)"
                )
                return build(f"{word}({{0}}, {{1}})", theirs, one, other)
            case 8:
                condition = self._any(scope, depth=0)
                return build(
                    "nvl2({2}, {0}, {1})",
                    "(case when {2} is not null then {0} else {1} end)",
                    one,
                    other,
                    condition,
                )
            case _:
                key, match = self._pair("varchar", scope, depth=0)
                return build(
                    "decode({2}, {3}, {0}, {1})",
                    "(case when {2} is not distinct from {3} then {0} else {1} end)",
                    one,
                    other,
                    key,
                    match,
                )

    def _condition(self, scope: Scope, *, depth: int, subqueries: bool = False) -> Node:
        if subqueries and self._chance(0.3):
            return self._subquery_condition(scope)
        choice = self._rng.randrange(12)
        name = self._pick(NAMES)
        if choice < 3:
            one, other = self._pair(name, scope, depth=depth)
            return same(BOOLEAN, f"({{0}} {self._pick(COMPARISONS)} {{1}})", one, other)
        if choice == 3:
            one, low, high = self._pair(name, scope, depth=depth, count=3)
            word = self._pick(("between", "not between"))
            return same(BOOLEAN, f"({{0}} {word} {{1}} and {{2}})", one, low, high)
        if choice == 4:
            values = self._pair(name, scope, depth=depth, count=self._rng.randint(2, 4))
            word = self._pick(("in", "not in"))
            members = same("list", "{*}", *values[1:])
            return same(BOOLEAN, f"({{0}} {word} ({{1}}))", values[0], members)
        if choice == 5:
            word = self._pick(("is null", "is not null"))
            return same(BOOLEAN, f"({{0}} {word})", self._any(scope, depth=depth))
        if choice == 6:
            one, other = self._pair(name, scope, depth=depth)
            return Node(
                sort=BOOLEAN,
                ours=self._pick(("equal_null({0}, {1})", "({0} is not distinct from {1})")),
                theirs="({0} is not distinct from {1})",
                parts=(one, other),
            )
        if choice < 10 and depth > 0:
            parts = [self._condition(scope, depth=depth - 1) for _ in range(2)]
            word = self._pick(("and", "or"))
            inner = f"({{0}} {word} {{1}})"
            return same(BOOLEAN, self._pick((inner, inner, f"(not {inner})")), *parts)
        row = self._pick([row for row in BY_RESULT["boolean"] if row.parameters[0] == "T"])
        node = self._of_form(row, scope, depth=depth)
        assert node is not None
        return node

    def _compared(self, scope: Scope, leaf: Node) -> Node:
        other = self._leaf(leaf.type.name, scope)
        if not _are_comparable(leaf.type, other.type):
            other = leaf
        return same(BOOLEAN, f"({{0}} {self._pick(COMPARISONS)} {{1}})", leaf, other)

    def _inner(self, scope: Scope, *, is_correlated: bool) -> tuple[Node, Scope, Node]:
        """Return a table of a subquery, its columns, and its condition."""
        source, leaves = self._source(depth=0)
        inner = Scope(leaves=leaves)
        pairs = [
            (one, other)
            for one in leaves
            for other in scope.leaves
            if one.type.name == other.type.name
            and _are_comparable(one.type, other.type)
            and re.fullmatch(r"\w+\.\w+", other.ours)
        ]
        if pairs and is_correlated:
            where = same(BOOLEAN, "({0} = {1})", *self._pick(pairs))
            if self._chance(0.4):
                where = same(BOOLEAN, "({0} and {1})", where, self._condition(inner, depth=0))
        else:
            where = self._condition(inner, depth=0)
        return source, inner, same("clause", " where {0}", where)

    def _subquery_condition(self, scope: Scope) -> Node:
        is_exists = self._chance(0.4)
        source, inner, where = self._inner(scope, is_correlated=self._chance(0.7))
        if is_exists:
            word = self._pick(("exists", "not exists"))
            return same(BOOLEAN, f"({word} (select 1 from {{0}}{{1}}))", source, where)
        pairs = [
            (one, other)
            for one in inner.leaves
            for other in scope.leaves
            if one.type.name == other.type.name and _are_comparable(one.type, other.type)
        ]
        if not pairs:
            return same(BOOLEAN, "(exists (select 1 from {0}{1}))", source, where)
        one, other = self._pick(pairs)
        word = self._pick(("in", "not in"))
        return same(
            BOOLEAN, f"({{0}} {word} (select {{1}} from {{2}}{{3}}))", other, one, source, where
        )

    def _scalar_subquery(self, scope: Scope) -> Node:
        source, inner, where = self._inner(scope, is_correlated=self._chance(0.7))
        value = self._pick(inner.leaves)
        word = self._pick(("min({0})", "max({0})", "count({0})", "count(*)"))
        if word[0] == "c":
            return typed(same(COUNT, f"(select {word} from {{1}}{{2}})", value, source, where))
        return same(
            value.type,
            f"(select {word} from {{1}}{{2}})",
            value,
            source,
            where,
            is_tame=value.is_tame,
        )

    def _storable(self) -> Type:
        name = self._pick(NAMES)
        return (
            self._pick((number(20), number(24, 2), number(30, 6)))
            if name == "number"
            else Type(name=name)
        )

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _pick(self, values):  # type: ignore[no-untyped-def]
        return self._rng.choice(values)


def _are_comparable(left: Type, right: Type) -> bool:
    if left.name != "number" or right.name != "number":
        return left.name == right.name
    return max(left.whole, right.whole) + max(left.scale, right.scale) <= PRECISION_MAX


def _common(nodes: list[Node]) -> Type | None:
    """Return the type that holds the values of all nodes."""
    if nodes[0].type.name != "number":
        return nodes[0].type
    scale = max(node.type.scale for node in nodes)
    return _within(max(node.type.whole for node in nodes) + scale, scale)


# Shrinking


def smaller(node: Node) -> Iterator[Node]:
    """Yield trees like node with one part replaced by less, the largest steps first."""
    if node.sort == TOTAL_ORDER:
        return
    for below in _below(node):
        if below.sort == node.sort:
            yield below
    if isinstance(node.sort, Type) and node.parts:
        null = f"cast(null as {node.sort.ours})", f"cast(null as {node.sort.theirs})"
        yield Node(sort=node.sort, ours=null[0], theirs=null[1])
    if node.sort == "clause" and node.parts:
        yield EMPTY
    if "{*}" in node.ours and len(node.parts) > 1:
        for i in range(len(node.parts)):
            yield dataclasses.replace(node, parts=node.parts[:i] + node.parts[i + 1 :])
    if node.sort == "source" and len(node.parts) > 1:
        yield from (part for part in node.parts if part.sort == "source")
    for i, part in enumerate(node.parts):
        for less in smaller(part):
            yield dataclasses.replace(node, parts=(*node.parts[:i], less, *node.parts[i + 1 :]))


def _below(node: Node) -> Iterator[Node]:
    for part in node.parts:
        yield part
        yield from _below(part)
