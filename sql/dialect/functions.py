"""rule: the functions that user text may call; every other name is 002140.

The engine has functions that Snowflake lacks, one of which shows paths of this machine. So a name
reaches the engine only through this table, as the text that its builder writes, never as the
user's own call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sql import errors, kernels, outcomes
from sql.dialect import aggregates, builders, formats, moments, names, rewrites, sqltypes
from sql.dialect.builders import FunctionCall
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def build(call: FunctionCall) -> Expr:
    """Return the call bound; raises SqlError for an unknown name or a wrong number of arguments."""
    function = FUNCTIONS.get(call.name)
    if function is None:
        raise errors.unknown_function(call.name)
    if not function.low <= len(call.nodes) <= function.high:
        raise _arity(call, function)
    if call.over and function.function_type == "scalar":
        raise call.refuse("OVER")
    if call.distinct and function.function_type != "aggregate":
        raise call.refuse("DISTINCT")
    if (call.order or call.ignore_nulls) and function.function_type == "scalar":
        raise call.refuse("an ordering")
    return function.build(call)


def is_aggregate(name: str) -> bool:
    """Return whether name is an aggregate function."""
    function = FUNCTIONS.get(name.upper())
    return function is not None and function.function_type == "aggregate"


def signature(name: str) -> str:
    """Return a function's arguments and result as in SHOW FUNCTIONS.

    The table of functions declares numbers of arguments and no types, so every type is ANY;
    arguments that may be absent stand in brackets.
    """
    function = FUNCTIONS[name]
    optional = function.high - function.low
    required = ", ".join(["ANY"] * function.low)
    rest = " [, ANY ...]" if optional > SIGNATURE_OPTIONAL_MAX else " [, ANY]" * optional
    if not required:
        rest = rest.replace(" [, ", "[", 1)
    return f"{name}({required}{rest}) RETURN ANY"


SIGNATURE_OPTIONAL_MAX = 8


def _arity(call: FunctionCall, function: builders.Function) -> errors.SqlError:
    few = len(call.nodes) < function.low
    wanted = function.low if few else function.high
    return errors.SqlError(
        "000938" if few else "000939",
        "22023",
        f"SQL compilation error:\n{'not enough' if few else 'too many'} arguments for function "
        f"[{call.name}] expected {wanted}, got {len(call.nodes)}",
        phase="COMPILATION",
    )


# Text


def _texts(name: str) -> builders.Builder:
    """Return the builder of a function from texts to a text."""

    def build_one(call: FunctionCall) -> Expr:
        parts = call.texts()
        return builders.text_result(code.call(name, *parts), parts)

    return build_one


def _text_predicate(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = call.texts()
        return exprs.derived(code.call(name, *parts), sqltypes.BOOLEAN, parts)

    return build_one


def _count_of(argument: Expr) -> Expr:
    """Return a length argument as a whole number of at least zero."""
    number = rewrites.round_half_away(argument)
    if isinstance(number.literal, int):
        return exprs.integer(max(number.literal, 0))
    count: code.Code = code.exactly(number, sqltypes.integer())
    if not number.type.is_integer or number.type.low < 0:
        count = code.kernel("_not_negative", count)
    return exprs.derived(count, sqltypes.integer(), [number])


def _length_of(argument: Expr) -> Expr:
    """Return the length of a resulting text; raises SqlError if no text can have it."""
    if isinstance(argument.literal, int) and argument.literal > outcomes.TEXT_LENGTH_MAX:
        raise errors.too_long(f"... of {argument.literal} characters")
    count = _count_of(argument)
    if isinstance(argument.literal, int):
        return count
    return exprs.derived(code.kernel("_text_length", count), count.type, [count])


def _left_or_right(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        value, count = call.text(0), _count_of(call.arg(1))
        return builders.text_result(code.call(name, value, count), [value, count])

    return build_one


def _substring(call: FunctionCall) -> Expr:
    value = call.text(0)
    start = rewrites.round_half_away(call.arg(1))
    parts = [value, start]
    length = [_count_of(call.arg(2))] if len(call.nodes) > 2 else []
    parts += length
    if isinstance(start.literal, int) and start.literal >= 0:
        sliced = code.call("substr", value, max(start.literal, 1), *length)
        return builders.text_result(sliced, parts)
    characters = code.call("character_length", rewrites.shared(value))
    place = [code.exactly(item, sqltypes.integer()) for item in (start, characters)]
    return builders.text_result(
        code.call("substr", value, code.kernel("_place", *place), *length), parts
    )


def _trim(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = call.texts()
        characters = parts[1] if len(parts) > 1 else " "
        return builders.text_result(code.call(name, parts[0], characters), parts)

    return build_one


def _pad(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        value, count = call.text(0), _length_of(call.arg(1))
        fill = call.text(2) if len(call.nodes) > 2 else exprs.text(" ")
        return builders.text_result(code.call(name, value, count, fill), [value, count, fill])

    return build_one


def _length(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name == "binary":
        return _octet_length(call)
    value = rewrites.cast(value, sqltypes.TEXT)
    return builders.small_integer(code.call("character_length", value), [value])


def _octet_length(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name == "binary":
        digits = code.call("character_length", code.call("encode", value, "hex"))
        return builders.small_integer(code.infix(digits, "/", 2), [value])
    value = rewrites.cast(value, sqltypes.TEXT)
    return builders.small_integer(code.call("octet_length", value), [value])


def _position(call: FunctionCall) -> Expr:
    needle, value = call.texts()[:2] if len(call.nodes) == 2 else _first_two(call)
    if len(call.nodes) == 2:
        return builders.small_integer(code.call("strpos", value, needle), [needle, value])
    start = call.whole(2)
    if start < 1:
        raise call.refuse("a start below 1")
    for part in (needle, value):
        rewrites.shared(part)
    position = code.call("strpos", code.call("substr", value, start), needle)
    shifted = code.case([(code.infix(position, "=", 0), 0)], code.infix(position, "+", start - 1))
    return builders.small_integer(shifted, [needle, value])


def _first_two(call: FunctionCall) -> list[Expr]:
    return [call.text(0), call.text(1)]


def _repeat(call: FunctionCall) -> Expr:
    value, times = call.text(0), call.arg(1)
    count = _count_of(times)
    if isinstance(value.literal, str) and isinstance(times.literal, int):
        length = len(value.literal) * times.literal
        if length > outcomes.TEXT_LENGTH_MAX:
            raise errors.too_long(f"... of {length} characters")
        return builders.text_result(code.call("repeat", value, count), [value, count])
    return builders.text_result(code.kernel("_repeat", value, count), [value, count])


def _space(call: FunctionCall) -> Expr:
    count = _length_of(call.arg(0))
    return builders.text_result(code.call("repeat", " ", count), [count])


def _split_part(call: FunctionCall) -> Expr:
    value, delimiter = _first_two(call)
    index = rewrites.round_half_away(call.arg(2))
    if isinstance(index.literal, int):
        split = code.call("split_part", value, delimiter, code.Token(text=str(index.literal or 1)))
    else:
        texts = (rewrites.as_arrow(part, sqltypes.TEXT) for part in (value, delimiter))
        split = code.kernel("_split_part", *texts, code.exactly(index, sqltypes.integer()))
    return builders.text_result(split, [value, delimiter, index])


def _replace(call: FunctionCall) -> Expr:
    parts = call.texts()
    if len(parts) == 2:
        parts.append(exprs.text(""))
    return builders.text_result(code.call("replace", *parts), parts)


WORD_DELIMITERS = ' \t\n\r\f\v!?@"^#$&~_,.:;+-*%/|\\[](){}<>'
"""What parts the words of INITCAP where the call does not say it."""


def _initcap(call: FunctionCall) -> Expr:
    parts = [call.text(0), call.text(1) if len(call.nodes) > 1 else exprs.text(WORD_DELIMITERS)]
    exact = (rewrites.as_arrow(part, sqltypes.TEXT) for part in parts)
    return builders.text_result(code.kernel("_initcap", *exact), parts)


def _concat(call: FunctionCall) -> Expr:
    return rewrites.concat(call.args, call.context.forms)


def _concat_ws(call: FunctionCall) -> Expr:
    separator, *rest = call.args
    joined = []
    for index, part in enumerate(rest):
        if index:
            joined.append(separator)
        joined.append(part)
    return rewrites.concat(joined, call.context.forms)


def _sha2(call: FunctionCall) -> Expr:
    size = call.whole(1, 256)
    if size not in (224, 256, 384, 512):
        raise call.refuse(f"a digest of {size} bits")
    value = call.text(0)
    return builders.text_result(code.call("encode", code.call(f"sha{size}", value), "hex"), [value])


def _ascii(call: FunctionCall) -> Expr:
    value = call.text(0)
    return builders.small_integer(code.call("ascii", value), [value])


def _chr(call: FunctionCall) -> Expr:
    point = rewrites.round_half_away(call.arg(0))
    return builders.text_result(code.call("chr", code.arrow(point, "Int64")), [point])


def _edit_distance(call: FunctionCall) -> Expr:
    parts = call.texts()
    return builders.small_integer(code.call("levenshtein", *parts), parts)


def _regexp_like(call: FunctionCall) -> Expr:
    return rewrites.regexp_like(call.arg(0), call.arg(1), str(call.constant(2, "c")))


def _regexp_replace(call: FunctionCall) -> Expr:
    value, pattern = _first_two(call)
    replacement = call.text(2) if len(call.nodes) > 2 else exprs.text("")
    position, occurrence = call.whole(3, 1), call.whole(4, 0)
    if position != 1 or occurrence not in (0, 1):
        raise call.refuse("a position or an occurrence")
    flags = rewrites.regexp_flags(str(call.constant(5, "c")))
    every = ["g"] if occurrence == 0 else []
    wanted = code.infix(flags, "||", pattern) if flags else pattern
    # A group is `\\1` in Snowflake alone; the engine would read `$1` as one, too.
    literal: code.Code = code.call("replace", replacement, "$", "$$")
    if isinstance(replacement.literal, str):
        literal = code.StringLiteral(value=replacement.literal.replace("$", "$$"))
    replaced = code.call("regexp_replace", value, wanted, literal, *every)
    return builders.text_result(replaced, [value, pattern, replacement])


def _regexp_count(call: FunctionCall) -> Expr:
    value, pattern = _first_two(call)
    start = call.whole(2, 1)
    flags = rewrites.regexp_flags(str(call.constant(3, "c")))
    counted = code.call("regexp_count", value, code.infix(flags, "||", pattern), start)
    return builders.small_integer(counted, [value, pattern])


def _regexp_substr(call: FunctionCall) -> Expr:
    value, pattern = _first_two(call)
    if call.whole(2, 1) != 1 or call.whole(3, 1) != 1:
        raise call.refuse("a position or an occurrence")
    parameters = str(call.constant(4, "c"))
    flags = rewrites.regexp_flags(parameters)
    group = call.whole(5, 1 if "e" in parameters else 0)
    if group:
        if not isinstance(pattern.literal, str):
            raise call.refuse("a group of a pattern that is no constant")
        groups = _groups(call, pattern.literal)
        if not groups and len(call.nodes) < 6:
            group = 0  # the group is the default, not an argument: the whole match
        elif group > groups:
            raise call.refuse("a group that the pattern does not have")
    whole = code.infix(f"{flags}(", "||", pattern, "||", ")")
    matched = code.call("array_element", code.call("regexp_match", value, whole), group + 1)
    return exprs.derived(matched, sqltypes.TEXT, [value, pattern], nullable=True)


def _groups(call: FunctionCall, pattern: str) -> int:
    """Return the number of groups in a pattern."""
    try:
        return re.compile(pattern).groups
    except re.error:
        raise call.refuse(f"pattern '{pattern[:100]}'") from None


# Numbers


def _real(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = [rewrites.cast(rewrites.as_number(item), sqltypes.REAL) for item in call.args]
        listed: list[code.Part] = list(parts)
        if name in kernels.DOMAINS:
            listed = [
                code.kernel(f"_domain_{name}", rewrites.as_arrow(part, sqltypes.REAL))
                for part in parts
            ]
        return builders.real_result(code.call(name, *listed), parts)

    return build_one


def _abs(call: FunctionCall) -> Expr:
    value = rewrites.as_number(call.arg(0))
    sql_type = value.type
    if sql_type.is_integer:
        if sql_type.low == sqltypes.INT64_LOW:
            value = rewrites.cast(value, sqltypes.number(19)) if sql_type.wide else value
        bound = max(abs(sql_type.low), abs(sql_type.high))
        sql_type = sqltypes.integer(sql_type.precision, 0, min(bound, sqltypes.INT64_HIGH))
    return exprs.derived(code.call("abs", value), sql_type, [value])


def _whole(name: str) -> builders.Builder:
    """CEIL and FLOOR."""

    def build_one(call: FunctionCall) -> Expr:
        value = rewrites.as_number(call.arg(0))
        digits = call.whole(1, 0)
        if value.type.is_integer and digits >= 0:
            return value
        if digits != 0:
            raise call.refuse("a scale")
        if value.type.name == "real":
            return builders.real_result(code.call(name, value), [value])
        sql_type = sqltypes.number(sqltypes.PRECISION_MAX)
        return exprs.derived(code.exactly(code.call(name, value), sql_type), sql_type, [value])

    return build_one


def _round(call: FunctionCall) -> Expr:
    return _rounded(call, "round")


def _truncate(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.is_temporal or value.type.name == "time":
        if len(call.nodes) == 1:
            raise call.invalid()
        return moments.truncate(moments.part_of(call.word(1)), value)
    return _rounded(call, "trunc")


def _rounded(call: FunctionCall, name: str) -> Expr:
    value = rewrites.as_number(call.arg(0))
    digits = call.whole(1, 0)
    places = code.Token(text=str(digits))
    sql_type = value.type
    if sql_type.name == "real":
        return builders.real_result(code.call(name, value, places), [value])
    if digits >= sql_type.scale:
        return value
    scale = max(digits, 0)
    if sql_type.is_integer:
        value = rewrites.cast(value, sqltypes.number(20))
    result = sqltypes.number(min(sql_type.precision + 1, sqltypes.PRECISION_MAX), scale)
    if sql_type.is_integer:
        wide = sqltypes.number(20)
        whole = exprs.derived(code.exactly(value, wide), wide, [value])
        result = sqltypes.number(21)
        value = whole
    return exprs.derived(code.exactly(code.call(name, value, places), result), result, [value])


def _mod(call: FunctionCall) -> Expr:
    return rewrites.remainder(call.arg(0), call.arg(1))


def _sign(call: FunctionCall) -> Expr:
    value = rewrites.shared(rewrites.as_number(call.arg(0)))
    sign = code.case(
        [
            (code.infix(value, ">", 0), 1),
            (code.infix(value, "<", 0), -1),
            (code.infix(value, "=", 0), 0),
        ]
    )
    return exprs.derived(sign, sqltypes.integer(1, -1, 1), [value])


def _square(call: FunctionCall) -> Expr:
    value = rewrites.shared(rewrites.cast(rewrites.as_number(call.arg(0)), sqltypes.REAL))
    return builders.real_result(code.infix(value, "*", value), [value])


def _pi(call: FunctionCall) -> Expr:
    return Expr(code=code.call("pi"), type=sqltypes.REAL, nullable=False)


def _random(call: FunctionCall) -> Expr:
    if call.nodes:
        raise call.refuse("a seed")
    # The engine's number has 53 random bits: two halves of 32 make all 64.
    half = code.call("floor", code.infix(code.call("random"), "*", exprs.real(2.0**32)))
    high = code.exactly(code.infix(half, "-", exprs.real(2.0**31)), sqltypes.integer())
    low = code.exactly(half, sqltypes.integer())
    bits = code.infix(code.infix(high, "*", 1 << 32), "+", low)
    return Expr(code=bits, type=sqltypes.integer(), nullable=False, is_volatile=True)


SHIFT_MAX = 62


def _shift(call: FunctionCall) -> Expr:
    """A shift by a constant; the engine would wrap a count of 64 and results beyond 64 bits."""
    count = call.whole(1)
    if not 0 <= count <= SHIFT_MAX:
        raise call.refuse(f"a count that is not between 0 and {SHIFT_MAX}")
    if call.name == "BITSHIFTRIGHT":
        return _bits(">>")(call)
    return rewrites.multiply(rewrites.round_half_away(call.arg(0)), exprs.integer(1 << count))


def _bits(operator: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = [rewrites.round_half_away(item) for item in call.args]
        if not all(part.type.is_integer for part in parts):
            raise call.refuse("numbers beyond 64 bits")
        return exprs.derived(code.joined(parts, operator), sqltypes.integer(), parts)

    return build_one


def _bitxor(call: FunctionCall) -> Expr:
    either, both = (rewrites.shared(_bits(operator)(call)) for operator in "|&")
    return exprs.derived(code.infix(either, "-", both), sqltypes.integer(), [either, both])


def _div0(call: FunctionCall) -> Expr:
    dividend, divisor = (rewrites.as_number(item) for item in call.args)
    rewrites.shared(divisor)
    # The divisor is made non-zero first: a CASE alone does not prevent the division.
    safe = exprs.derived(code.call("nullif", divisor, 0), divisor.type, [divisor], nullable=True)
    quotient = rewrites.divide(dividend, safe)
    zero = rewrites.cast(exprs.integer(0), quotient.type)
    is_zero = code.infix(divisor, "=", 0)
    if call.name == "DIV0NULL":
        is_zero = code.infix(is_zero, "OR", code.is_null(divisor))
    return exprs.derived(code.case([(is_zero, zero)], quotient), quotient.type, [dividend, divisor])


# Choices


def _coalesce(call: FunctionCall) -> Expr:
    return rewrites.coalesce(call.args)


def _iff(call: FunctionCall) -> Expr:
    condition, yes, no = call.args
    return rewrites.case([(rewrites.as_boolean(condition), yes)], no)


def _nvl2(call: FunctionCall) -> Expr:
    value, yes, no = call.args
    present = exprs.derived(code.is_not_null(value), sqltypes.BOOLEAN, [value], nullable=False)
    return rewrites.case([(present, yes)], no)


def _nullif(call: FunctionCall) -> Expr:
    left, right = call.args
    if left.is_volatile and sqltypes.same_in_engine(left.type, right.type):
        return exprs.derived(
            code.call("nullif", left, right), left.type, [left, right], nullable=True
        )
    same = rewrites.compare(rewrites.shared(left), right, "=")
    sql_type = sqltypes.TEXT if left.type.name == "null" else left.type
    return rewrites.case([(same, exprs.null(sql_type))], left)


def _nullifzero(call: FunctionCall) -> Expr:
    value = rewrites.as_number(call.arg(0))
    return exprs.derived(code.call("nullif", value, 0), value.type, [value], nullable=True)


def _zeroifnull(call: FunctionCall) -> Expr:
    return rewrites.coalesce([rewrites.as_number(call.arg(0)), exprs.integer(0)])


def _decode(call: FunctionCall) -> Expr:
    value, *rest = call.args
    whens = []
    while len(rest) >= 2:
        whens.append((rest[0], rest[1]))
        rest = rest[2:]
    return rewrites.switch(value, whens, rest[0] if rest else None, "IS NOT DISTINCT FROM")


def _equal_null(call: FunctionCall) -> Expr:
    return rewrites.compare(call.arg(0), call.arg(1), "IS NOT DISTINCT FROM")


def _extreme(name: str) -> builders.Builder:
    return lambda call: rewrites.extreme(call.args, name)


def _logic(operator: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = [rewrites.as_boolean(item) for item in call.args]
        return exprs.derived(code.joined(parts, operator), sqltypes.BOOLEAN, parts)

    return build_one


def _boolnot(call: FunctionCall) -> Expr:
    value = rewrites.as_boolean(call.arg(0))
    return exprs.derived(code.not_(value), sqltypes.BOOLEAN, [value])


# Conversion


def _to_text(call: FunctionCall) -> Expr:
    value = call.arg(0)
    model = call.constant(1)
    if model is None:
        return rewrites.cast(value, sqltypes.TEXT, forms=call.context.forms)
    if value.type.name == "text":
        value = rewrites.cast(value, sqltypes.TIMESTAMP_NTZ)
    if value.type.name == "time":
        pattern = formats.engine_pattern(str(model))
        return builders.text_result(code.call("to_char", value, pattern), [value])
    if not value.type.is_temporal:
        raise call.refuse(f"a format for {sqltypes.shown(value.type)}")
    pattern = formats.engine_pattern(str(model))
    if value.type.name == "date":
        value = rewrites.cast(value, sqltypes.TIMESTAMP_NTZ)
    return builders.text_result(code.call("to_char", value, pattern), [value])


def _to_number(*, lenient: bool) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        arguments = list(call.nodes[1:])
        if arguments and isinstance(call.constant(1), str):
            raise call.refuse("a format")
        precision = call.whole(1, 38)
        scale = call.whole(2, 0)
        if not (1 <= precision <= 38 and 0 <= scale <= min(precision, 37)):
            raise call.refuse(f"NUMBER({precision},{scale})")
        return rewrites.cast(call.arg(0), sqltypes.number(precision, scale), lenient=lenient)

    return build_one


def _to(target: sqltypes.SqlType, *, lenient: bool = False) -> builders.Builder:
    return lambda call: rewrites.cast(call.arg(0), target, lenient=lenient)


def _to_binary(call: FunctionCall) -> Expr:
    if str(call.constant(1, "HEX")).upper() != "HEX":
        raise call.refuse(f"format {call.constant(1)}")
    return rewrites.cast(call.arg(0), sqltypes.BINARY, lenient=call.name.startswith("TRY_"))


def _hex_encode(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name != "binary":
        value = rewrites.cast(value, sqltypes.TEXT)
    return builders.text_result(code.call("upper", code.call("encode", value, "hex")), [value])


# The session


def _context(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        value = getattr(call.context, name)
        return exprs.null(sqltypes.TEXT) if value is None else exprs.text(str(value))

    return build_one


def _shown_context(name: str) -> builders.Builder:
    from_stored = _context(name)

    def build_one(call: FunctionCall) -> Expr:
        value = getattr(call.context, name)
        if value is None:
            return from_stored(call)
        return exprs.text(names.shown(value))

    return build_one


def _last_query_id(call: FunctionCall) -> Expr:
    position = call.whole(0, -1)
    ids = call.context.query_ids
    index = len(ids) + position if position < 0 else position - 1
    if position == 0 or not 0 <= index < len(ids):
        return exprs.null(sqltypes.TEXT)
    return exprs.text(ids[index])


def _uuid_string(call: FunctionCall) -> Expr:
    return Expr(code=code.call("uuid"), type=sqltypes.TEXT, nullable=False, is_volatile=True)


FUNCTIONS: Mapping[str, builders.Function] = {
    **aggregates.FUNCTIONS,
    **moments.FUNCTIONS,
    "UPPER": builders.scalar(1, None, _texts("upper")),
    "LOWER": builders.scalar(1, None, _texts("lower")),
    "INITCAP": builders.scalar(1, 2, _initcap),
    "REVERSE": builders.scalar(1, None, _texts("reverse")),
    "TRANSLATE": builders.scalar(3, None, _texts("translate")),
    "MD5": builders.scalar(1, None, _texts("md5")),
    "MD5_HEX": builders.scalar(1, None, _texts("md5")),
    "SHA2": builders.scalar(1, 2, _sha2),
    "SHA2_HEX": builders.scalar(1, 2, _sha2),
    "LENGTH": builders.scalar(1, None, _length),
    "LEN": builders.scalar(1, None, _length),
    "OCTET_LENGTH": builders.scalar(1, None, _octet_length),
    "LEFT": builders.scalar(2, None, _left_or_right("left")),
    "RIGHT": builders.scalar(2, None, _left_or_right("right")),
    "SUBSTR": builders.scalar(2, 3, _substring),
    "SUBSTRING": builders.scalar(2, 3, _substring),
    "TRIM": builders.scalar(1, 2, _trim("btrim")),
    "LTRIM": builders.scalar(1, 2, _trim("ltrim")),
    "RTRIM": builders.scalar(1, 2, _trim("rtrim")),
    "LPAD": builders.scalar(2, 3, _pad("lpad")),
    "RPAD": builders.scalar(2, 3, _pad("rpad")),
    "REPEAT": builders.scalar(2, None, _repeat),
    "SPACE": builders.scalar(1, None, _space),
    "REPLACE": builders.scalar(2, 3, _replace),
    "SPLIT_PART": builders.scalar(3, None, _split_part),
    "CONCAT": builders.scalar(1, 64, _concat),
    "CONCAT_WS": builders.scalar(2, 64, _concat_ws),
    "CONTAINS": builders.scalar(2, None, _text_predicate("contains")),
    "STARTSWITH": builders.scalar(2, None, _text_predicate("starts_with")),
    "ENDSWITH": builders.scalar(2, None, _text_predicate("ends_with")),
    "POSITION": builders.scalar(2, 3, _position),
    "CHARINDEX": builders.scalar(2, 3, _position),
    "ASCII": builders.scalar(1, None, _ascii),
    "UNICODE": builders.scalar(1, None, _ascii),
    "CHR": builders.scalar(1, None, _chr),
    "CHAR": builders.scalar(1, None, _chr),
    "EDITDISTANCE": builders.scalar(2, None, _edit_distance),
    "REGEXP_LIKE": builders.scalar(2, 3, _regexp_like),
    "RLIKE": builders.scalar(2, 3, _regexp_like),
    "REGEXP": builders.scalar(2, 3, _regexp_like),
    "REGEXP_REPLACE": builders.scalar(2, 6, _regexp_replace),
    "REGEXP_COUNT": builders.scalar(2, 4, _regexp_count),
    "REGEXP_SUBSTR": builders.scalar(2, 6, _regexp_substr),
    "ABS": builders.scalar(1, None, _abs),
    "CEIL": builders.scalar(1, 2, _whole("ceil")),
    "CEILING": builders.scalar(1, 2, _whole("ceil")),
    "FLOOR": builders.scalar(1, 2, _whole("floor")),
    "ROUND": builders.scalar(1, 2, _round),
    "TRUNC": builders.scalar(1, 2, _truncate),
    "TRUNCATE": builders.scalar(1, 2, _truncate),
    "MOD": builders.scalar(2, None, _mod),
    "SIGN": builders.scalar(1, None, _sign),
    "SQUARE": builders.scalar(1, None, _square),
    "PI": builders.scalar(0, None, _pi),
    "RANDOM": builders.scalar(0, 1, _random),
    **{
        name: builders.scalar(count, None, _real(engine))
        for name, engine, count in (
            ("SQRT", "sqrt", 1),
            ("CBRT", "cbrt", 1),
            ("EXP", "exp", 1),
            ("LN", "ln", 1),
            ("LOG", "log", 2),
            ("POWER", "power", 2),
            ("POW", "power", 2),
            ("SIN", "sin", 1),
            ("COS", "cos", 1),
            ("TAN", "tan", 1),
            ("COT", "cot", 1),
            ("ASIN", "asin", 1),
            ("ACOS", "acos", 1),
            ("ATAN", "atan", 1),
            ("ATAN2", "atan2", 2),
            ("SINH", "sinh", 1),
            ("COSH", "cosh", 1),
            ("TANH", "tanh", 1),
            ("ASINH", "asinh", 1),
            ("ACOSH", "acosh", 1),
            ("ATANH", "atanh", 1),
            ("DEGREES", "degrees", 1),
            ("RADIANS", "radians", 1),
        )
    },
    "BITAND": builders.scalar(2, None, _bits("&")),
    "BITOR": builders.scalar(2, None, _bits("|")),
    "BITXOR": builders.scalar(2, None, _bitxor),
    "BITSHIFTLEFT": builders.scalar(2, None, _shift),
    "BITSHIFTRIGHT": builders.scalar(2, None, _shift),
    "DIV0": builders.scalar(2, None, _div0),
    "DIV0NULL": builders.scalar(2, None, _div0),
    "COALESCE": builders.scalar(1, 64, _coalesce),
    "NVL": builders.scalar(2, None, _coalesce),
    "IFNULL": builders.scalar(2, None, _coalesce),
    "NVL2": builders.scalar(3, None, _nvl2),
    "IFF": builders.scalar(3, None, _iff),
    "NULLIF": builders.scalar(2, None, _nullif),
    "NULLIFZERO": builders.scalar(1, None, _nullifzero),
    "ZEROIFNULL": builders.scalar(1, None, _zeroifnull),
    "DECODE": builders.scalar(3, 255, _decode),
    "EQUAL_NULL": builders.scalar(2, None, _equal_null),
    "GREATEST": builders.scalar(1, 64, _extreme("greatest")),
    "LEAST": builders.scalar(1, 64, _extreme("least")),
    "BOOLAND": builders.scalar(2, None, _logic("AND")),
    "BOOLOR": builders.scalar(2, None, _logic("OR")),
    "BOOLXOR": builders.scalar(2, None, _logic("<>")),
    "BOOLNOT": builders.scalar(1, None, _boolnot),
    "TO_CHAR": builders.scalar(1, 2, _to_text),
    "TO_VARCHAR": builders.scalar(1, 2, _to_text),
    **{
        f"{prefix}{name}": builders.scalar(1, 3, _to_number(lenient=bool(prefix)))
        for name in ("TO_NUMBER", "TO_NUMERIC", "TO_DECIMAL")
        for prefix in ("", "TRY_")
    },
    "TO_DOUBLE": builders.scalar(1, None, _to(sqltypes.REAL)),
    "TRY_TO_DOUBLE": builders.scalar(1, None, _to(sqltypes.REAL, lenient=True)),
    "TO_BOOLEAN": builders.scalar(1, None, _to(sqltypes.BOOLEAN)),
    "TRY_TO_BOOLEAN": builders.scalar(1, None, _to(sqltypes.BOOLEAN, lenient=True)),
    "TO_BINARY": builders.scalar(1, 2, _to_binary),
    "TRY_TO_BINARY": builders.scalar(1, 2, _to_binary),
    "HEX_ENCODE": builders.scalar(1, None, _hex_encode),
    "UUID_STRING": builders.scalar(0, None, _uuid_string),
    "CURRENT_DATABASE": builders.scalar(0, None, _shown_context("database")),
    "CURRENT_SCHEMA": builders.scalar(0, None, _shown_context("schema")),
    "CURRENT_WAREHOUSE": builders.scalar(0, None, _context("warehouse")),
    "CURRENT_ROLE": builders.scalar(0, None, _context("role")),
    "CURRENT_USER": builders.scalar(0, None, _context("user")),
    "CURRENT_ACCOUNT": builders.scalar(0, None, _context("account")),
    "CURRENT_REGION": builders.scalar(0, None, _context("region")),
    "CURRENT_SESSION": builders.scalar(0, None, _context("session_id")),
    "CURRENT_VERSION": builders.scalar(0, None, _context("version")),
    "CURRENT_CLIENT": builders.scalar(0, None, _context("client")),
    "LAST_QUERY_ID": builders.scalar(0, 1, _last_query_id),
}
