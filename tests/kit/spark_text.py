"""A plan as the text of Spark SQL: a second emitter, which proves that plans know no engine.

What Spark computes otherwise, or not at all, is refused by its name: kernels, functions that are
not in FUNCTIONS, decimals of more than 38 digits, recursion. Names keep their letters' case, so a
session that runs the text has `spark.sql.caseSensitive` on. QUALIFY, which Spark does not have, is
a condition over a query.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final

from sql import errors
from sql.plan import code, emit, relations, substitution
from sql.plan.emit import Pieces
from sql.plan.expressions import Expr


def text(query: relations.Rel) -> str:
    """Return the Spark SQL of a query; raises SqlError for what Spark cannot express."""
    return emit.written(substitution.substituted(query, _without_qualify), FORMS)


QUALIFIES: Final = "qualifies"
"""The column that holds a condition of QUALIFY."""


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
        source=substitution.substituted(condition.source, _without_qualify),
        items=(
            *substitution.substituted(node.items, _without_qualify),
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
DECIMAL: Final = re.compile(r"Decimal128\((\d+), (\d+)\)")

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
            *("first_value", "floor", "greatest", "initcap", "lag", "last_value", "lead"),
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
    **{name: name for name in ("||", "AND", "OR", "LIKE", "ILIKE", "&", "|", "^")},
    "/": "/",
    "~": "RLIKE",
    "IS NOT DISTINCT FROM": "<=>",
}
"""Operators of the engine, and Spark's."""


def _token(token: code.Token) -> Pieces:
    if token.text.startswith("INTERVAL"):
        raise errors.unsupported("INTERVAL in Spark SQL")
    return [token.text]


def _call(call: code.FunctionUse) -> Pieces:
    name = None if call.is_kernel else FUNCTIONS.get(call.name)
    if name is None:
        raise errors.unsupported(f"{call.name} in Spark SQL")
    if call.order or call.within:
        raise errors.unsupported(f"{call.name} in an order in Spark SQL")
    if name == "round" and (quotient := _quotient(call)) is not None:
        dividend, divisor = quotient.operands
        return ["round((", dividend, " / ", divisor, "), ", call.arguments[1], ")"]
    return emit.PIECES[code.FunctionUse](dataclasses.replace(call, name=name))


QUOTIENT_SCALE_MAX: Final = 6
"""Digits after the point that Spark's division of long decimals keeps."""


def _quotient(call: code.FunctionUse) -> code.Infix | None:
    """Return the quotient of NUMBERs that a call rounds; raises SqlError if Spark's has too few
    digits.
    """
    first, scale = call.arguments[0], call.arguments[-1]
    if type(first) is not code.Infix or first.operators != ("/",):
        return None
    if type(scale) is not code.Token or int(scale.text) > QUOTIENT_SCALE_MAX:
        raise errors.unsupported(
            f"a quotient with more than {QUOTIENT_SCALE_MAX} digits after the point in Spark SQL"
        )
    return first


def _cast(cast: code.Cast) -> Pieces:
    operand = cast.operand
    if cast.target in INTEGERS and type(operand) is Expr and operand.type.name in MOMENTS:
        raise errors.unsupported(f"a {operand.type.name.upper()} as a number in Spark SQL")
    word = "TRY_CAST(" if cast.lenient else "CAST("
    return [word, cast.operand, f" AS {type_name(cast.target)})"]


INTEGERS: Final = frozenset({"Int32", "Int64"})
MOMENTS: Final = frozenset({"date", "time", "timestamp_ntz", "timestamp_ltz"})


def type_name(target: str) -> str:
    """Return Spark's name of a type that a cast names; raises SqlError for one it has not."""
    decimal = DECIMAL.fullmatch(target)
    name = f"DECIMAL({decimal[1]}, {decimal[2]})" if decimal else TYPES.get(target)
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
    relations.Series: lambda series: [f"(SELECT id AS value FROM range({series.count}))"],
    relations.Unnest: _unnest,
    relations.Recursive: _recursive,
}
"""How each sort of code and relation is written in Spark SQL."""
