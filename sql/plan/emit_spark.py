"""rule: Spark's text of plans, the second emitter.

What Spark computes otherwise, or not at all, is refused by its name: kernels, functions that are
not in FUNCTIONS, decimals of more than 38 digits, recursion. QUALIFY, which Spark does not have, is
a condition over a query.

A session that runs the text needs these settings, or its answers differ: names keep their letters'
case (`spark.sql.caseSensitive`); sums and products of decimals keep every digit, or overflow
(`spark.sql.decimalOperations.allowPrecisionLoss` off); `${...}` in a literal is text
(`spark.sql.variable.substitute` off).
"""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Mapping
from typing import Any, Final

from sql import errors
from sql.plan import code, emit, relations, substitution
from sql.plan.emit import Pieces
from sql.plan.expressions import Expr


def text(query: relations.Rel) -> str:
    """Return the Spark SQL of a query; raises SqlError for what Spark cannot express."""
    return emit.written(substitution.substituted(query, _as_spark_has_it), FORMS)


QUALIFIES: Final = "qualifies"
"""The column that holds a condition of QUALIFY."""


def _as_spark_has_it(node: Any) -> Any:
    """Return a query without what Spark's SQL lacks; None for any other node."""
    if type(node) is relations.Limit and node.count == relations.ALL_ROWS:
        return substitution.substituted(node.source, _as_spark_has_it)
    return _without_qualify(node)


def _without_qualify(node: Any) -> Any:
    """Return a SELECT with QUALIFY as a condition over a query; None for any other node."""
    if type(node) is relations.Sort:
        select = _without_qualify(node.source)
        if select is None:
            return None
        if not all(type(key.key) is code.Token for key in node.keys):
            raise errors.unsupported("ORDER BY of an expression beside QUALIFY in Spark SQL")
        return dataclasses.replace(node, source=select)
    if type(node) is not relations.Project or type(node.source) is not relations.RowFilter:
        return None
    condition = node.source
    if type(condition.source) is not relations.WindowRows:
        return None
    computed = relations.Project(
        source=substitution.substituted(condition.source, _as_spark_has_it),
        items=(
            *substitution.substituted(node.items, _as_spark_has_it),
            relations.ProjectItem(name=QUALIFIES, value=condition.condition),
        ),
    )
    chosen = relations.RowFilter(
        source=relations.Named(query=computed, alias=QUALIFIES),
        condition=code.ColumnUse(relation=QUALIFIES, name=QUALIFIES),
    )
    items = relations.columns(item.name for item in node.items)
    return relations.Project(source=chosen, items=items, is_distinct=node.is_distinct)


def quoted(identifier: str) -> str:
    """Return an identifier as Spark takes it literally."""
    return "`" + identifier.replace("`", "``") + "`"


def literal(value: str) -> str:
    """Return text as a string literal of Spark, in which a backslash escapes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


TYPES: Final = {
    "Int64": "BIGINT",
    "Int32": "INT",
    "Float64": "DOUBLE",
    "Utf8": "STRING",
    "Boolean": "BOOLEAN",
    "Date32": "DATE",
    "Binary": "BINARY",
    "BIGINT": "BIGINT",
    "Timestamp(Microsecond, None)": "TIMESTAMP_NTZ",
    "TIMESTAMP(6) WITH TIME ZONE": "TIMESTAMP",
}
"""Types of the engine, by the names that casts have for them."""
DECIMAL: Final = re.compile(r"Decimal(?:128|256)\((\d+), (\d+)\)")
DIGITS_MAX: Final = 38
"""Digits of Spark's decimals. A value that needs more is an error, not another value."""

FUNCTIONS: Final = {
    "strpos": "instr",
    "character_length": "char_length",
    "stddev": "stddev_samp",
    "bool_and": "bool_and",
    "bool_or": "bool_or",
    **{
        name: name
        for name in (
            *("abs", "ascii", "bit_and", "bit_or", "cbrt", "ceil", "coalesce", "concat_ws"),
            *("corr", "count", "covar_pop", "covar_samp", "cume_dist", "dense_rank", "exp"),
            *("first_value", "floor", "greatest", "initcap", "isnan", "lag", "last_value", "lead"),
            *("least", "left", "ln", "lower", "lpad", "max", "md5", "median", "min"),
            *("nth_value", "ntile", "nullif", "percent_rank", "power", "rank", "repeat"),
            *("replace", "reverse", "right", "round", "row_number", "rpad", "signum", "sqrt"),
            *("stddev_pop", "stddev_samp", "substr", "sum", "upper", "var_pop", "var_samp"),
        )
    },
}
"""Functions of the engine that Spark has too, and their names there."""

OPERATORS: Final = {
    **{name: name for name in ("+", "-", "*", "%", "=", "<>", "<", "<=", ">", ">=")},
    **{
        name: name
        for name in ("||", "AND", "OR", "LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE", "&", "|", "^")
    },
    "/": "/",
    "~": "RLIKE",
    "IS NOT DISTINCT FROM": "<=>",
}
"""Operators of the engine, and Spark's."""


INTERVAL: Final = re.compile(r"INTERVAL '((?:-?\d+ [a-z]+ ?)+)'")
"""An interval constant as plans have it."""
SPANS: Final[Mapping[str, tuple[int, int, int]]] = {
    "month": (1, 0, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
    "microsecond": (0, 0, 1),
}
"""Months, days and microseconds of a unit."""


def _token(token: code.Token) -> Pieces:
    if not token.text.startswith("INTERVAL"):
        return [token.text]
    interval = INTERVAL.fullmatch(token.text)
    if interval is None:
        raise errors.unsupported("INTERVAL of this form in Spark SQL")
    words = interval[1].split()
    months = days = microseconds = 0
    for count, unit in zip(words[::2], words[1::2], strict=True):
        span = SPANS.get(unit.removesuffix("s"))
        if span is None:
            raise errors.unsupported(f"INTERVAL of {unit} in Spark SQL")
        months += int(count) * span[0]
        days += int(count) * span[1]
        microseconds += int(count) * span[2]
    seconds = decimal.Decimal(microseconds).scaleb(-6)
    return [f"make_interval(0, {months}, 0, {days}, 0, 0, {seconds:f})"]


def _call(call: code.FunctionUse) -> Pieces:
    if call.name == "date_part":
        return _date_part(call)
    name = None if call.is_kernel else FUNCTIONS.get(call.name)
    if name is None:
        raise errors.unsupported(f"{PARAMETERS.sub('', call.name)} in Spark SQL")
    if call.order or call.within:
        raise errors.unsupported(f"{call.name} in an order in Spark SQL")
    if name == "row_number" and call.over is not None and not call.over.order:
        raise errors.unsupported("numbers of rows without an order in Spark SQL")
    if call.over is not None and "INTERVAL" in call.over.frame:
        raise errors.unsupported("a window frame of an INTERVAL in Spark SQL")
    if name == "round" and (quotient := _quotient(call)) is not None:
        return quotient
    return emit.called(dataclasses.replace(call, name=name))


PARAMETERS: Final = re.compile("_[0-9a-f]{8,}$")
"""The text in a kernel's name by which it computes, such as a format."""

PARTS: Final = frozenset({"year", "quarter", "month", "day", "hour", "minute"})
"""Parts of moments that are the same whole numbers on both engines."""


def _date_part(call: code.FunctionUse) -> Pieces:
    part = call.arguments[0]
    if type(part) is not code.StringLiteral or part.value not in PARTS:
        raise errors.unsupported("this part of a date or time in Spark SQL")
    return [f"date_part('{part.value}', ", call.arguments[1], ")"]


QUOTIENT_SCALE_MAX: Final = 12
"""Digits after the point of a quotient, as far as Snowflake computes them by itself."""

QUOTIENT = (
    "(CAST((q.n - q.n % q.d) / q.d AS DECIMAL(38, {scale}))"
    " + CAST((({rest} - {rest} % q.d) / q.d"
    " + CASE WHEN abs({rest} % q.d) * 2 < abs(q.d) THEN 0"
    " WHEN (q.n < 0) = (q.d < 0) THEN 1 ELSE -1 END)"
    " AS DECIMAL(38, 0)) * {unit})"
)
"""A quotient rounded half away from zero: its whole part, and the next digits by the remainder.
Each division in it has no remainder, and so no digit is lost; Spark's own rounds twice."""


def _quotient(call: code.FunctionUse) -> Pieces | None:
    """Return a rounded quotient of NUMBERs, exactly; None if a call rounds anything else."""
    first, scale_part = call.arguments[0], call.arguments[-1]
    if type(first) is not code.Infix or first.operators != ("/",):
        return None
    if type(scale_part) is not code.Token or int(scale_part.text) > QUOTIENT_SCALE_MAX:
        raise errors.unsupported(
            f"a quotient with more than {QUOTIENT_SCALE_MAX} digits after the point in Spark SQL"
        )
    scale = int(scale_part.text)
    unit = f"{decimal.Decimal(1).scaleb(-scale):f}"
    rest = f"(q.n % q.d * {10**scale})"
    text = QUOTIENT.format(scale=scale, rest=rest, unit=f"CAST('{unit}' AS DECIMAL(38, {scale}))")
    dividend, divisor = first.operands
    pair = ["array(named_struct('n', ", dividend, ", 'd', ", divisor, "))"]
    return ["element_at(transform(", *pair, f", q -> {text}), 1)"]


def _cast(cast: code.Cast) -> Pieces:
    operand = cast.operand
    if cast.target in INTEGERS and type(operand) is Expr and operand.type.name in MOMENTS:
        if operand.type.name != "date":
            raise errors.unsupported(f"a {operand.type.name.upper()} as a number in Spark SQL")
        return ["CAST(unix_date(", operand, f") AS {type_name(cast.target)})"]
    if cast.target == "Date32" and _is_number(operand):
        return ["date_from_unix_date(CAST(", operand, " AS INT))"]
    word = "TRY_CAST(" if cast.lenient else "CAST("
    return [word, cast.operand, f" AS {type_name(cast.target)})"]


def _is_number(part: code.Part) -> bool:
    """Return whether a part is known to be a whole number."""
    if type(part) is Expr:
        if part.type.name == "fixed":
            return True
        part = part.code
    if type(part) is code.Infix:
        return _is_number(part.operands[0])
    return type(part) is code.Cast and part.target in INTEGERS


INTEGERS: Final = frozenset({"Int32", "Int64"})
MOMENTS: Final = frozenset({"date", "time", "timestamp_ntz", "timestamp_ltz"})


def type_name(target: str) -> str:
    """Return Spark's name of a type that a cast names; raises SqlError for one it has not."""
    digits = DECIMAL.fullmatch(target)
    if digits is not None and int(digits[2]) <= DIGITS_MAX:
        return f"DECIMAL({min(int(digits[1]), DIGITS_MAX)}, {digits[2]})"
    name = TYPES.get(target)
    if name is None:
        raise errors.unsupported(f"{target} in Spark SQL")
    return name


def _infix(infix: code.Infix) -> Pieces:
    first = infix.operands[0]
    if "/" in infix.operators and not (type(first) is Expr and first.type.name == "real"):
        raise errors.unsupported("a quotient that is not rounded in Spark SQL")
    pieces: Pieces = ["(", first]
    for operator, operand in zip(infix.operators, infix.operands[1:], strict=True):
        if operator == "IS DISTINCT FROM" and len(infix.operators) == 1:
            return ["(NOT (", first, " <=> ", operand, "))"]
        if operator not in OPERATORS:
            raise errors.unsupported(f"{operator} in Spark SQL")
        pieces += (f" {OPERATORS[operator]} ", operand)
    return [*pieces, ")"]


def _recursive(_: relations.Recursive) -> Pieces:
    raise errors.unsupported("recursive WITH in Spark SQL")


def _unnest(step: relations.Unnest) -> Pieces:
    raise errors.unsupported("FLATTEN in Spark SQL")


FORMS: Final[emit.Forms] = {
    **emit.forms(quoted),
    code.Token: _token,
    code.StringLiteral: lambda part: [literal(part.value)],
    code.FunctionUse: _call,
    code.Cast: _cast,
    code.Infix: _infix,
    code.Checked: lambda checked: [checked.operand],  # Spark's own arithmetic fails beyond 64 bits
    relations.Series: lambda series: [f"(SELECT id AS value FROM range({series.count}))"],
    relations.Unnest: _unnest,
    relations.Recursive: _recursive,
}
"""How each sort of code and relation is written in Spark SQL."""
