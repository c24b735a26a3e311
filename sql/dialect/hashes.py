"""rule: HASH, HASH_AGG and the numbers of an MD5 digest.

The arguments become one ARRAY, whose canonical text keeps their types and places apart. Equal
numbers are one text there, whatever their types; an instant is one, whatever zone shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql.dialect import casts, semistructured, sqltypes
from sql.dialect.builders import Builder, FunctionCall, aggregate, function
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

HASH_DIGITS = 19


def _hash(call: FunctionCall) -> Expr:
    return hash_of(_arguments(call))


def _arguments(call: FunctionCall) -> list[Expr]:
    return [part for index in range(len(call.nodes)) for part in call.several(index)]


def hash_of(arguments: Sequence[Expr]) -> Expr:
    """Return the signed number of 64 bits that stands for some values; it is never NULL."""
    listed = semistructured.array_of([_plain(argument) for argument in arguments])
    digest = code.call("digest", code.exactly(listed, sqltypes.TEXT), "blake3")
    number = code.kernel("_hash_of_digest", code.exactly(digest, sqltypes.BINARY))
    return exprs.derived(number, sqltypes.integer(HASH_DIGITS), [listed], nullable=False)


def _plain(argument: Expr) -> Expr:
    """Return an argument so that it is the same VARIANT as an equal one of another type."""
    match argument.type.name:
        case "real":
            written = code.kernel("_v_plain_real", casts.as_arrow(argument, sqltypes.REAL))
        case "variant" | "object" | "array" if argument.type.is_variant:
            written = code.kernel("_v_plain_value", casts.as_arrow(argument, sqltypes.TEXT))
        case "timestamp_ltz" | "timestamp_tz":
            instant = casts.cast(argument, sqltypes.TIMESTAMP_LTZ)
            microseconds = code.exactly(code.exactly(instant, sqltypes.integer()), sqltypes.TEXT)
            marked = code.infix('"\\u0001l', "||", microseconds, "||", '"')
            return exprs.derived(marked, sqltypes.VARIANT, [argument])
        case _:
            return argument
    return exprs.derived(written, sqltypes.VARIANT, [argument])


def _hash_agg(call: FunctionCall) -> Expr:
    """HASH_AGG: of the rows of a group, in any order; 0 of no rows."""
    hashed = hash_of(_arguments(call))
    wide = sqltypes.number(HASH_DIGITS)
    added = code.FunctionUse(
        name="sum",
        arguments=(code.exactly(hashed, wide),),
        is_distinct=call.distinct,
        over=call.over,
    )
    total = code.call("coalesce", code.exactly(added, sqltypes.number(38)), 0)
    wrapped = code.kernel("_wrapped_sum", code.exactly(total, sqltypes.number(38)))
    return call.aggregated(wrapped, sqltypes.integer(HASH_DIGITS), [hashed], nullable=False)


def _md5_half(half: str) -> Builder:
    def build(call: FunctionCall) -> Expr:
        text = call.text(0)
        digest = code.exactly(code.call("digest", text, "md5"), sqltypes.BINARY)
        return exprs.derived(code.kernel(f"_md5_{half}", digest), sqltypes.number(20), [text])

    return build


HASH_FUNCTIONS = (
    function("HASH", "any [any]*999", "integer", _hash),
    function("MD5_NUMBER_LOWER64", "text", "number", _md5_half("lower")),
    function("MD5_NUMBER_UPPER64", "text", "number", _md5_half("upper")),
    aggregate("HASH_AGG", "any [any]*999", "integer", _hash_agg),
)
