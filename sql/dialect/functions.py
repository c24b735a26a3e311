"""rule: the functions that user text may call; every other name is 002140.

The engine has functions that Snowflake lacks, one of which shows paths of this machine. So a name
reaches the engine only through this table, as the text that its builder writes, never as the
user's own call.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping

from sqlglot import exp

from sql import errors, kernels, limits, outcomes, searches
from sql.dialect import (
    aggregates,
    arithmetic,
    builders,
    casts,
    choices,
    comparisons,
    formats,
    generation,
    hashes,
    hints,
    lambdas,
    moments,
    names,
    number_texts,
    octets,
    regexps,
    semistructured,
    sketches,
    sqltypes,
)
from sql.dialect.builders import FunctionCall, engine, function, kernel
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def build(call: FunctionCall) -> Expr:
    """Return the call bound; raises SqlError for an unknown name or a wrong number of arguments."""
    row = FUNCTIONS.get(call.name)
    if row is None:
        raise errors.unknown_function(call.name, near=hints.near(call.name, FUNCTIONS))
    if not row.low <= len(call.nodes) <= row.high:
        raise _arity(call, row)
    if call.over and row.function_type == "scalar":
        raise call.refuse("OVER")
    if call.distinct and row.function_type != "aggregate":
        raise call.refuse("DISTINCT")
    if (call.order or call.ignore_nulls) and row.function_type == "scalar":
        raise call.refuse("an ordering")
    return row.build(call)


def keywords(name: str) -> tuple[str, ...]:
    """Return the names by which a function's parameters may be given, in their order."""
    row = FUNCTIONS.get(name)
    if row is None:
        raise errors.unknown_function(name, near=hints.near(name, FUNCTIONS))
    return row.keywords


def is_aggregate(name: str) -> bool:
    """Return whether name is an aggregate function."""
    row = FUNCTIONS.get(name.upper())
    return row is not None and row.function_type == "aggregate"


def signature(name: str) -> str:
    """Return a function's parameters and result as in SHOW FUNCTIONS.

    Parameters that may be absent stand in brackets.
    """
    row = FUNCTIONS[name]
    required = ", ".join(builders.SHOWN[each] for each in row.required)
    optional = [builders.SHOWN[each] for each in row.optional]
    rest = f" [, {optional[0]} ...]" if len(optional) > SIGNATURE_OPTIONAL_MAX else ""
    if not rest:
        rest = "".join(f" [, {each}]" for each in optional)
    if not required:
        rest = rest.replace(" [, ", "[", 1)
    return f"{name}({required}{rest}) RETURN {builders.SHOWN[row.result]}"


SIGNATURE_OPTIONAL_MAX = 8


def _arity(call: FunctionCall, row: builders.Function) -> errors.SqlError:
    few = len(call.nodes) < row.low
    wanted = row.low if few else row.high
    return errors.SqlError(
        "000938" if few else "000939",
        "22023",
        f"SQL compilation error:\n{'not enough' if few else 'too many'} arguments for function "
        f"[{call.name}] expected {wanted}, got {len(call.nodes)}",
        phase="COMPILATION",
    )


# Text


def _count_of(argument: Expr) -> Expr:
    """Return a length argument as a whole number of at least zero."""
    number = arithmetic.round_half_away(argument)
    if isinstance(number.literal, int):
        return exprs.integer(max(number.literal, 0))
    count: code.Code = code.exactly(number, sqltypes.integer())
    if not number.type.is_integer or number.type.low < 0 or number.type.is_claimed:
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
        if octets.takes(call, 0):
            return octets.end(name, call.arg(0), _count_of(call.arg(1)))
        value, count = call.text(0), _count_of(call.arg(1))
        return builders.text_result(code.call(name, value, count), [value, count])

    return build_one


def _substring(call: FunctionCall) -> Expr:
    if octets.takes(call, 0):
        length = [_count_of(call.arg(2))] if len(call.nodes) > 2 else []
        return octets.part(call.arg(0), arithmetic.round_half_away(call.arg(1)), length)
    value = call.text(0)
    start = arithmetic.round_half_away(call.arg(1))
    parts = [value, start]
    length = [_count_of(call.arg(2))] if len(call.nodes) > 2 else []
    parts += length
    if isinstance(start.literal, int) and start.literal >= 0:
        sliced = code.call("substr", value, max(start.literal, 1), *length)
        return builders.text_result(sliced, parts)
    characters = code.call("character_length", value)
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
        if octets.takes(call, 0, 2):
            if len(call.nodes) < 3:
                raise call.invalid()
            return octets.padded(name, call.arg(0), _length_of(call.arg(1)), call.arg(2))
        value, count = call.text(0), _length_of(call.arg(1))
        fill = call.text(2) if len(call.nodes) > 2 else exprs.text(" ")
        return builders.text_result(code.call(name, value, count, fill), [value, count, fill])

    return build_one


def _length(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name == "binary":
        return _octet_length(call)
    value = casts.cast(value, sqltypes.TEXT)
    return builders.small_integer(code.call("character_length", value), [value])


def _octet_length(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name == "binary":
        digits = code.call("character_length", code.call("encode", value, "hex"))
        return builders.small_integer(code.infix(digits, "/", 2), [value])
    value = casts.cast(value, sqltypes.TEXT)
    return builders.small_integer(code.call("octet_length", value), [value])


def _position(call: FunctionCall) -> Expr:
    if octets.takes(call, 0, 1):
        start = call.whole(2, 1)
        if start < 1:
            raise call.refuse("a start below 1")
        return octets.position(call.arg(0), call.arg(1), start)
    needle, value = call.texts()[:2] if len(call.nodes) == 2 else _first_two(call)
    if len(call.nodes) == 2:
        return builders.small_integer(code.call("strpos", value, needle), [needle, value])
    start = call.whole(2)
    if start < 1:
        raise call.refuse("a start below 1")
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
    index = arithmetic.round_half_away(call.arg(2))
    if isinstance(index.literal, int):
        split = code.call("split_part", value, delimiter, code.Token(text=str(index.literal or 1)))
    else:
        texts = (casts.as_arrow(part, sqltypes.TEXT) for part in (value, delimiter))
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
    exact = (casts.as_arrow(part, sqltypes.TEXT) for part in parts)
    return builders.text_result(code.kernel("_initcap", *exact), parts)


def _concat(call: FunctionCall) -> Expr:
    if call.args and all(operand.type.name == "binary" for operand in call.args):
        return octets.joined(call.args)
    return comparisons.concat(call.args, call.context.forms)


def _concat_ws(call: FunctionCall) -> Expr:
    separator, *rest = call.args
    if len(rest) == 1 and separator.nullable:
        present = exprs.derived(code.is_not_null(separator), sqltypes.BOOLEAN, [separator])
        whole = casts.cast(rest[0], sqltypes.TEXT, forms=call.context.forms)
        return choices.case([(present, whole)], None)
    joined = []
    for index, part in enumerate(rest):
        if index:
            joined.append(separator)
        joined.append(part)
    return comparisons.concat(joined, call.context.forms)


def _sha2(call: FunctionCall) -> Expr:
    return builders.text_result(code.call("encode", _sha2_digest(call), "hex"), [call.text(0)])


def _sha2_binary(call: FunctionCall) -> Expr:
    return _bytes(_sha2_digest(call), call.text(0))


def _md5_binary(call: FunctionCall) -> Expr:
    value = call.text(0)
    return _bytes(code.call("digest", value, "md5"), value)


def _bytes(digest: code.Code, value: Expr) -> Expr:
    return exprs.derived(code.exactly(digest, sqltypes.BINARY), sqltypes.BINARY, [value])


def _sha2_digest(call: FunctionCall) -> code.FunctionUse:
    size = call.whole(1, 256)
    if size not in (224, 256, 384, 512):
        raise call.refuse(f"a digest of {size} bits")
    return code.call(f"sha{size}", call.text(0))


def _strtok(call: FunctionCall) -> Expr:
    value = call.text(0)
    delimiters = call.text(1) if len(call.nodes) > 1 else exprs.text(" ")
    number = arithmetic.round_half_away(call.arg(2)) if len(call.nodes) > 2 else exprs.integer(1)
    texts = (casts.as_arrow(part, sqltypes.TEXT) for part in (value, delimiters))
    part = code.kernel("_strtok", *texts, code.exactly(number, sqltypes.integer()))
    return exprs.derived(part, sqltypes.TEXT, [value, delimiters, number], nullable=True)


def _rtrimmed_length(call: FunctionCall) -> Expr:
    value = call.text(0)
    trimmed = code.call("rtrim", value, " ")
    return builders.small_integer(code.call("character_length", trimmed), [value])


def _bit_length(call: FunctionCall) -> Expr:
    octets = _octet_length(call)
    return builders.small_integer(code.infix(octets, "*", 8), [octets], 0, 1 << 34)


def _edit_distance(call: FunctionCall) -> Expr:
    distance = builders.small_integer(
        code.call("levenshtein", call.text(0), call.text(1)), call.args[:2]
    )
    if len(call.nodes) == 2:
        return distance
    return choices.extreme([distance, _count_of(call.arg(2))], "least")


def _hex_decode(target: sqltypes.SqlType, *, lenient: bool = False) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        value = casts.cast(call.text(0), sqltypes.BINARY, lenient=lenient)
        return _decoded(value, target, lenient=lenient)

    return build_one


def _base64_decode(target: sqltypes.SqlType, *, lenient: bool = False) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        return _decoded(_from_base64(call.text(0), lenient=lenient), target, lenient=lenient)

    return build_one


def _from_base64(value: Expr, *, lenient: bool) -> Expr:
    name = "_try_base64_decode" if lenient else "_base64_decode"
    decoded = code.kernel(name, casts.as_arrow(value, sqltypes.TEXT))
    return exprs.derived(decoded, sqltypes.BINARY, [value], nullable=lenient or None)


def _decoded(value: Expr, target: sqltypes.SqlType, *, lenient: bool) -> Expr:
    if target.name == "binary":
        return value
    name = "_try_utf8" if lenient else "_utf8"
    text = code.kernel(name, casts.as_arrow(value, sqltypes.BINARY))
    return exprs.derived(text, sqltypes.TEXT, [value], nullable=lenient or None)


def _base64_encode(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name != "binary":
        value = call.text(0)
    length, alphabet = call.whole(1, 0), str(call.constant(2, ""))
    if length < 0 or len(alphabet) > len(BASE64_MARKS) or not alphabet.isascii():
        raise call.invalid()
    marks = alphabet + BASE64_MARKS[len(alphabet) :]
    name = f"_base64_encode_{length}_{marks.encode().hex()}"
    encoded = code.kernel(name, code.exactly(value, sqltypes.BINARY))
    return builders.text_result(encoded, [value])


BASE64_MARKS = "+/="
"""The last two letters of BASE64's alphabet, and what fills its last group."""


def _chr(call: FunctionCall) -> Expr:
    point = arithmetic.round_half_away(call.arg(0))
    return builders.text_result(code.call("chr", code.arrow(point, "Int64")), [point])


def _regexp_like(call: FunctionCall) -> Expr:
    return comparisons.regexp_like(call.arg(0), call.arg(1), str(call.constant(2, "c")))


def _regexp_replace(call: FunctionCall) -> Expr:
    value, pattern = _first_two(call)
    replacement = call.text(2) if len(call.nodes) > 2 else exprs.text("")
    position, occurrence = call.whole(3, 1), call.whole(4, 0)
    if position < 1 or occurrence < 0:
        raise call.invalid()
    flags = comparisons.regexp_flags(str(call.constant(5, "c")))
    if position != 1 or occurrence > 1:
        flagged = code.infix(flags, "||", pattern) if flags else pattern
        texts = [code.exactly(part, sqltypes.TEXT) for part in (value, flagged, replacement)]
        one = code.kernel(f"_regexp_replace_{position}_{occurrence}", *texts)
        return builders.text_result(one, [value, pattern, replacement])
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
    if start < 1:
        raise call.invalid()
    flags = comparisons.regexp_flags(str(call.constant(3, "c")))
    start = min(start, sqltypes.INT64_HIGH)  # no text is longer
    counted = code.call("regexp_count", value, code.infix(flags, "||", pattern), start)
    return builders.small_integer(counted, [value, pattern])


def _regexp_substr(call: FunctionCall) -> Expr:
    value, pattern = _first_two(call)
    start, occurrence = _match_place(call)
    parameters = str(call.constant(4, "c"))
    flags = comparisons.regexp_flags(parameters)
    group = _group(call, pattern, parameters, 5)
    matched = _matched("substr", value, flags, pattern, (start, occurrence, group))
    return exprs.derived(matched, sqltypes.TEXT, [value, pattern], nullable=True)


def _regexp_substr_all(call: FunctionCall) -> Expr:
    """An ARRAY of the matches, from the wanted one on."""
    value, pattern = _first_two(call)
    start, occurrence = _match_place(call)
    parameters = str(call.constant(4, "c"))
    flags = comparisons.regexp_flags(parameters)
    group = _group(call, pattern, parameters, 5)
    matched = _matched("all", value, flags, pattern, (start, occurrence, group))
    return exprs.derived(matched, sqltypes.ARRAY, [value, pattern])


def _search(call: FunctionCall) -> Expr:
    """SEARCH: whether one of some texts has a word of the second argument, or every one."""
    if len(call.nodes) > 2 and not call.has_keywords:
        raise call.refuse("an analyzer without its name")
    wanted = call.arg(1)
    if not isinstance(wanted.literal, str):
        raise call.invalid()
    analyzer = str(call.option(2, "DEFAULT_ANALYZER")).lower()
    mode = str(call.option(3, "OR")).upper()
    if analyzer not in searches.ANALYZERS or mode not in ("OR", "AND"):
        raise call.refuse(f"{analyzer.upper()} in mode {mode}")
    texts = [
        casts.cast(column, sqltypes.TEXT)
        for column in call.several(0)
        if column.type.name in ("text", "variant", "null")
    ]
    if not texts:
        raise call.invalid()
    name = f"_search_{analyzer}_{mode.lower()}"
    separated = [code.call("coalesce", text, "") if len(texts) > 1 else text for text in texts]
    if analyzer == "no_op_analyzer":
        tests = [code.kernel(name, code.exactly(each, sqltypes.TEXT), wanted) for each in separated]
        return exprs.derived(code.joined(tests, "OR"), sqltypes.BOOLEAN, texts)
    parts: list[code.Part] = [separated[0]]
    for each in separated[1:]:
        parts += (code.StringLiteral(value="\n"), each)
    whole = code.joined(parts, "||") if len(parts) > 1 else parts[0]
    searched = code.kernel(name, code.exactly(whole, sqltypes.TEXT), wanted)
    return exprs.derived(searched, sqltypes.BOOLEAN, texts)


def _permissive(name: str) -> builders.Builder:
    """PARSE_URL and PARSE_IP: if their last argument is 1, an error is a member of the result."""

    def build(call: FunctionCall) -> Expr:
        text, words = call.text(0), []
        last = 1
        if name == "_v_parse_ip":
            ip_type = str(call.constant(1)).lower()
            if ip_type not in ("inet", "host"):
                raise call.invalid()
            words, last = [code.StringLiteral(value=ip_type)], 2
        permissive = call.whole(last, 0)
        if permissive not in (0, 1):
            raise call.invalid()
        named = f"{name}_permissive" if permissive else name
        computed = code.kernel(named, casts.as_arrow(text, sqltypes.TEXT), *words)
        return exprs.derived(computed, sqltypes.OBJECT, [text])

    return build


def _regexp_instr(call: FunctionCall) -> Expr:
    """The place of a match, or if its fifth argument is 1 the place after it."""
    value, pattern = _first_two(call)
    start, occurrence = _match_place(call)
    option, parameters = call.whole(4, 0), str(call.constant(5, "c"))
    if option not in (0, 1):
        raise call.invalid()
    group = _group(call, pattern, parameters, 6)
    flags = comparisons.regexp_flags(parameters)
    places = (start, occurrence, group)
    place = _matched("end" if option else "instr", value, flags, pattern, places)
    return builders.small_integer(place, [value, pattern])


def _match_place(call: FunctionCall) -> tuple[int, int]:
    """Return where a search starts, and the number of the wanted match."""
    start, occurrence = call.whole(2, 1), call.whole(3, 1)
    if start < 1 or occurrence < 1:
        raise call.invalid()
    return start, occurrence


def _matched(
    wanted: str, value: Expr, flags: str, pattern: Expr, places: tuple[int, int, int]
) -> code.FunctionUse:
    name = "_".join(("_regexp", wanted, *map(str, places)))
    flagged = code.infix(flags, "||", pattern) if flags else pattern
    return code.kernel(
        name, casts.as_arrow(value, sqltypes.TEXT), code.exactly(flagged, sqltypes.TEXT)
    )


def _group(call: FunctionCall, pattern: Expr, parameters: str, index: int) -> int:
    """Return the number of the wanted group, the argument at index; 0: the whole match."""
    group = call.whole(index, 1 if "e" in parameters else 0)
    if not group:
        return 0
    if group < 0:
        raise call.invalid()
    if not isinstance(pattern.literal, str):
        raise call.refuse("a group of a pattern that is no constant")
    if len(pattern.literal) > limits.PATTERN_LENGTH_MAX:
        raise errors.too_complex(
            f"a pattern with groups has more than {limits.PATTERN_LENGTH_MAX:,} characters"
        )
    groups = regexps.group_count(pattern.literal)
    if not groups and len(call.nodes) <= index:
        return 0  # the group is the default, not an argument: the whole match
    if group > groups:
        raise call.refuse("a group that the pattern does not have")
    return group


# Numbers


def _real(name: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = [casts.cast(arithmetic.as_number(item), sqltypes.REAL) for item in call.args]
        listed: list[code.Part] = list(parts)
        if name in kernels.DOMAINS:
            listed = [
                code.kernel(f"_domain_{name}", casts.as_arrow(part, sqltypes.REAL))
                for part in parts
            ]
        return builders.real_result(code.call(name, *listed), parts)

    return build_one


def _abs(call: FunctionCall) -> Expr:
    value = arithmetic.as_number(call.arg(0))
    sql_type = value.type
    if sql_type.is_integer:
        if sql_type.low == sqltypes.INT64_LOW:
            value = casts.cast(value, sqltypes.number(19)) if sql_type.wide else value
        bound = max(abs(sql_type.low), abs(sql_type.high))
        sql_type = dataclasses.replace(sql_type, low=0, high=min(bound, sqltypes.INT64_HIGH))
    size = exprs.derived(code.call("abs", value), sql_type, [value])
    if type(value.literal) is int and value.type.is_integer:
        return dataclasses.replace(size, literal=abs(value.literal))
    return size


def _whole(name: str) -> builders.Builder:
    """CEIL and FLOOR."""

    def build_one(call: FunctionCall) -> Expr:
        value = arithmetic.as_number(call.arg(0))
        if len(call.nodes) > 1 and not call.arg(1).is_literal:
            return _at_digits(call, value, name)
        digits = call.whole(1, 0)
        if value.type.is_integer and digits >= 0:
            return value
        if digits != 0:
            return _at_digits(call, value, name)
        if value.type.name == "real":
            return _rounded_real(code.call(name, value), value)
        sql_type = sqltypes.number(sqltypes.PRECISION_MAX)
        # The engine's result has the operand's digits; that of 9.9 needs one more.
        digits = min(value.type.precision + 1, sqltypes.PRECISION_MAX)
        room = code.exactly(value, sqltypes.number(digits, value.type.scale))
        return exprs.derived(code.exactly(code.call(name, room), sql_type), sql_type, [value])

    return build_one


def _round(call: FunctionCall) -> Expr:
    return _rounded(call, "round")


def _truncate(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.is_temporal or value.type.name == "time":
        if len(call.nodes) == 1:
            raise call.invalid()
        return moments.truncate(moments.part_of(call.word(1)), value, call.context.weeks)
    return _rounded(call, "trunc")


def _rounded(call: FunctionCall, name: str) -> Expr:
    value = arithmetic.as_number(call.arg(0))
    if name == "round" and len(call.nodes) > 2:
        mode = str(call.constant(2)).upper()
        if mode not in ROUNDING_MODES:
            raise call.refuse(f"ROUNDING_MODE '{mode}'")
        name = ROUNDING_MODES[mode]
    if name == "half_even" or (len(call.nodes) > 1 and not call.arg(1).is_literal):
        return _at_digits(call, value, name)
    digits = call.whole(1, 0)
    places = code.Token(text=str(digits))
    sql_type = value.type
    if sql_type.name == "real":
        return _rounded_real(code.call(name, value, places), value)
    if digits >= sql_type.scale:
        return value
    scale = max(digits, 0)
    if sql_type.is_integer:
        value = casts.cast(value, sqltypes.number(20))
    result = sqltypes.number(min(sql_type.precision + 1, sqltypes.PRECISION_MAX), scale)
    if sql_type.is_integer:
        wide = sqltypes.number(20)
        whole = exprs.derived(code.exactly(value, wide), wide, [value])
        result = sqltypes.number(21)
        value = whole
    return exprs.derived(code.exactly(code.call(name, value, places), result), result, [value])


def _rounded_real(rounded: code.Code, *parts: Expr) -> Expr:
    """Return a rounded float, 0.0 for -0.0: the engine's joins and windows take them for two."""
    return builders.real_result(code.infix(rounded, "+", exprs.real(0.0)), parts)


ROUNDING_MODES = {"HALF_AWAY_FROM_ZERO": "round", "HALF_TO_EVEN": "half_even"}


def _at_digits(call: FunctionCall, value: Expr, mode: str) -> Expr:
    """Return a number rounded by a kernel; it keeps its scale if a column gives the digits."""
    digits = arithmetic.round_half_away(call.arg(1)) if len(call.nodes) > 1 else exprs.integer(0)
    places = casts.as_arrow(digits, sqltypes.integer())
    if value.type.name == "real":
        computed = code.kernel(f"_rounded_{mode}", casts.as_arrow(value, value.type), places)
        return _rounded_real(computed, value, digits)
    scale = value.type.scale
    # Up and down, a number before the point of any size is rounded to the unit: 0.5 to 100.
    widest = 37 if mode in ("ceil", "floor") else value.type.precision
    exact = sqltypes.number(min(max(widest, scale + 1), 37), min(scale, 36))
    result = sqltypes.number(exact.precision + 1, exact.scale)
    computed = code.kernel(
        f"_rounded_{mode}_{exact.precision}_{exact.scale}",
        code.exactly(casts.cast(value, exact), exact),
        places,
    )
    rounded = exprs.derived(computed, result, [value, digits])
    if isinstance(digits.literal, int) and digits.literal < scale:
        return casts.cast(rounded, sqltypes.number(result.precision, max(digits.literal, 0)))
    return rounded


def _mod(call: FunctionCall) -> Expr:
    return arithmetic.remainder(call.arg(0), call.arg(1))


def _width_bucket(call: FunctionCall) -> Expr:
    """The number of the interval, of equal ones between two ends, in which a number lies."""
    parts = [
        casts.cast(arithmetic.as_number(call.arg(place)), sqltypes.REAL) for place in (0, 1, 2)
    ]
    count = arithmetic.round_half_away(call.arg(3))
    exact = (code.exactly(part, sqltypes.REAL) for part in parts)
    bucket = code.kernel("_width_bucket", *exact, code.exactly(count, sqltypes.integer()))
    return builders.small_integer(bucket, [*parts, count])


def _sign(call: FunctionCall) -> Expr:
    value = arithmetic.as_number(call.arg(0))
    if value.type.name == "fixed":
        # The engine's function would answer NaN for NaN; a NUMBER has none.
        of_float = code.call("signum", code.exactly(value, sqltypes.REAL))
        sign: code.Code = code.exactly(of_float, sqltypes.integer())
    else:
        signs = ((">", 1), ("<", -1), ("=", 0))
        sign = code.case((code.infix(value, operator, 0), number) for operator, number in signs)
    return exprs.derived(sign, sqltypes.integer(1, -1, 1), [value])


def _square(call: FunctionCall) -> Expr:
    value = casts.cast(arithmetic.as_number(call.arg(0)), sqltypes.REAL)
    return builders.real_result(code.infix(value, "*", value), [value])


def _pi(call: FunctionCall) -> Expr:
    return Expr(code=code.call("pi"), type=sqltypes.REAL, nullable=False)


SHIFT_MAX = 62


def _shift(call: FunctionCall, *, is_right: bool) -> Expr:
    """A shift by a constant; the engine would wrap a count of 64 and results beyond 64 bits."""
    count = call.whole(1)
    if not 0 <= count <= SHIFT_MAX:
        raise call.refuse(f"a count that is not between 0 and {SHIFT_MAX}")
    if is_right:
        return _bits(">>")(call)
    return arithmetic.multiply(arithmetic.round_half_away(call.arg(0)), exprs.integer(1 << count))


def _bits(operator: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = [arithmetic.round_half_away(item) for item in call.args]
        if not all(part.type.is_integer for part in parts):
            raise call.refuse("numbers beyond 64 bits")
        return exprs.derived(code.joined(parts, operator), sqltypes.integer(), parts)

    return build_one


def _bitnot(call: FunctionCall) -> Expr:
    """BITNOT: -1 - x, which has each bit of x the other way around."""
    value = arithmetic.round_half_away(call.arg(0))
    if not value.type.is_integer:
        raise call.refuse("a number beyond 64 bits")
    exact = code.exactly(value, sqltypes.integer())
    return exprs.derived(code.infix(-1, "-", exact), sqltypes.integer(), [value])


def _factorial(call: FunctionCall) -> Expr:
    value = arithmetic.round_half_away(call.arg(0))
    product = code.kernel("_factorial", casts.as_arrow(value, sqltypes.integer()))
    return exprs.derived(product, sqltypes.number(sqltypes.PRECISION_MAX), [value])


def _getbit(call: FunctionCall) -> Expr:
    """GETBIT: the bit at a place from the right; a negative number goes on with ones."""
    value, place = (arithmetic.round_half_away(item) for item in call.args)
    if not value.type.is_integer:
        raise call.refuse("numbers beyond 64 bits")
    if isinstance(place.literal, int) and place.literal < 0:
        raise call.invalid()
    exact = code.exactly(place, sqltypes.integer())
    within = code.call("least", code.call("greatest", exact, 0), 63)
    shifted = code.infix(code.exactly(value, sqltypes.integer()), ">>", within)
    bit = code.infix(code.exactly(shifted, sqltypes.integer()), "&", 1)
    present = code.case([(code.is_not_null(place), bit)])
    return exprs.derived(present, sqltypes.integer(1, 0, 1), [value, place])


def _bitxor(call: FunctionCall) -> Expr:
    either, both = (_bits(operator)(call) for operator in "|&")
    return exprs.derived(code.infix(either, "-", both), sqltypes.integer(), [either, both])


def _div0(call: FunctionCall, *, of_null: bool) -> Expr:
    """DIV0, and DIV0NULL, for which a divisor that is NULL is zero, too."""
    return choices.quotient_or_zero(*call.args, of_null=of_null)


# Choices


def _coalesce(call: FunctionCall) -> Expr:
    return choices.coalesce(call.args)


def _iff(call: FunctionCall) -> Expr:
    condition, yes, no = call.args
    return choices.case([(comparisons.as_boolean(condition), yes)], no)


def _nvl2(call: FunctionCall) -> Expr:
    value, yes, no = call.args
    present = exprs.derived(code.is_not_null(value), sqltypes.BOOLEAN, [value], nullable=False)
    return choices.case([(present, yes)], no)


def _nullif(call: FunctionCall) -> Expr:
    return choices.nullif(*call.args)


def _nullifzero(call: FunctionCall) -> Expr:
    value = arithmetic.as_number(call.arg(0))
    return exprs.derived(code.call("nullif", value, 0), value.type, [value], nullable=True)


def _zeroifnull(call: FunctionCall) -> Expr:
    return choices.coalesce([arithmetic.as_number(call.arg(0)), exprs.integer(0)])


def _decode(call: FunctionCall) -> Expr:
    value, *rest = call.args
    whens = []
    while len(rest) >= 2:
        whens.append((rest[0], rest[1]))
        rest = rest[2:]
    return choices.switch(value, whens, rest[0] if rest else None, with_null=True)


def _equal_null(call: FunctionCall) -> Expr:
    return comparisons.compare(call.arg(0), call.arg(1), "IS NOT DISTINCT FROM")


def _extreme(name: str) -> builders.Builder:
    return lambda call: choices.extreme(call.args, name)


def _extreme_of_present(name: str) -> builders.Builder:
    """GREATEST_IGNORE_NULLS and LEAST_IGNORE_NULLS, as the engine's own functions are."""

    def build_one(call: FunctionCall) -> Expr:
        parts, sql_type = casts.unify(call.args, call.name)
        if sql_type.is_variant:
            raise call.refuse(sqltypes.shown(sql_type))
        nullable = all(part.nullable for part in parts)
        return exprs.derived(code.call(name, *parts), sql_type, parts, nullable=nullable)

    return build_one


def _logic(operator: str) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        parts = [comparisons.as_boolean(item) for item in call.args]
        return exprs.derived(code.joined(parts, operator), sqltypes.BOOLEAN, parts)

    return build_one


def _boolnot(call: FunctionCall) -> Expr:
    value = comparisons.as_boolean(call.arg(0))
    return exprs.derived(code.not_(value), sqltypes.BOOLEAN, [value])


# Conversion


def _to_text(call: FunctionCall) -> Expr:
    model = call.constant(1)
    if model is None:
        return casts.cast(call.arg(0), sqltypes.TEXT, forms=call.context.forms)
    value = call.arg(0)
    if value.type.name == "text":
        value = casts.cast(value, sqltypes.TIMESTAMP_NTZ)
    if value.type.name == "binary":
        return _binary_text(call, value, str(model))
    if value.type.name == "time":
        pattern = formats.engine_pattern(str(model))
        return builders.text_result(casts.moment_text(value, pattern), [value])
    if value.type.name in ("fixed", "real", "null"):
        return number_texts.printed(call, value, str(model))
    if not value.type.is_temporal:
        raise call.refuse(f"a format for {sqltypes.shown(value.type)}")
    pattern = formats.engine_pattern(str(model))
    has_zone = value.type.name != "date"
    if not has_zone:
        value = casts.cast(value, sqltypes.TIMESTAMP_NTZ)
    written = casts.moment_text(value, pattern, has_zone=has_zone)
    return builders.text_result(written, [value])


def _binary_text(call: FunctionCall, value: Expr, form: str) -> Expr:
    """TO_CHAR of bytes: as hexadecimal digits, in BASE64, or as the text that they are in UTF-8."""
    exact = code.exactly(value, sqltypes.BINARY)
    match form.upper():
        case "HEX":
            return _hex_digits(value)
        case "BASE64":
            marks = BASE64_MARKS.encode().hex()
            return builders.text_result(code.kernel(f"_base64_encode_0_{marks}", exact), [value])
        case "UTF-8" | "UTF8":
            return builders.text_result(code.kernel("_utf8", exact), [value])
    raise call.refuse(f"format {form}")


def _to_number(*, lenient: bool) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        first = call.constant(1)
        if isinstance(first, str):
            target = _number_type(call, 2)
            return number_texts.read(call, call.arg(0), first, target, lenient=lenient)
        if len(call.nodes) > 3:
            raise call.invalid()
        return casts.cast(call.arg(0), _number_type(call, 1), lenient=lenient)

    return build_one


def _number_type(call: FunctionCall, index: int) -> sqltypes.SqlType:
    """Return the NUMBER whose precision and scale are the arguments from that place on."""
    precision, scale = call.whole(index, 38), call.whole(index + 1, 0)
    if not (1 <= precision <= 38 and 0 <= scale <= min(precision, 37)):
        raise call.refuse(f"NUMBER({precision},{scale})")
    return sqltypes.number(precision, scale)


def _to(target: sqltypes.SqlType, *, lenient: bool = False) -> builders.Builder:
    return lambda call: casts.cast(call.arg(0), target, lenient=lenient)


def _to_binary(*, lenient: bool) -> builders.Builder:
    def build_one(call: FunctionCall) -> Expr:
        value, form = call.arg(0), str(call.constant(1, "HEX")).upper()
        if value.type.name == "binary" or form == "HEX":
            return casts.cast(value, sqltypes.BINARY, lenient=lenient)
        if form == "BASE64":
            return _from_base64(call.text(0), lenient=lenient)
        if form in ("UTF-8", "UTF8"):
            return _bytes(casts.as_arrow(call.text(0), sqltypes.TEXT), value)
        raise call.refuse(f"format {call.constant(1)}")

    return build_one


def _hex_encode(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name != "binary":
        value = casts.cast(value, sqltypes.TEXT)
    is_upper = call.whole(1, 1)
    if is_upper not in (0, 1):
        raise call.invalid()
    return _hex_digits(value, is_upper=bool(is_upper))


def _hex_digits(value: Expr, *, is_upper: bool = True) -> Expr:
    digits = code.call("encode", value, "hex")
    return builders.text_result(code.call("upper", digits) if is_upper else digits, [value])


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


def _schemas(call: FunctionCall) -> Expr:
    """CURRENT_SCHEMAS: where names without a schema are looked up, as a list in JSON."""
    database, schema = call.context.database, call.context.schema
    path = [] if None in (database, schema) else [f"{names.shown(database or '')}.{schema}"]
    return exprs.text(json.dumps([each.upper() for each in path]))


def _getvariable(call: FunctionCall) -> Expr:
    """GETVARIABLE: a session variable's value as text, by its name in upper case; else NULL."""
    name = str(call.constant(0))
    if name != name.upper():
        return exprs.null(sqltypes.TEXT)
    try:
        value = call.bind(exp.Parameter(this=exp.Var(this=name)))
    except errors.SqlError:
        return exprs.null(sqltypes.TEXT)
    return casts.cast(value, sqltypes.TEXT, forms=call.context.forms)


def _get_ddl(call: FunctionCall) -> Expr:
    key = (str(call.constant(0)).lower(), str(call.constant(1)), call.constant(2, False) is True)
    text = call.context.ddl_texts.get(key)
    if text is None:
        raise call.refuse("arguments that are not literals")
    return exprs.text(text)


def _available_roles(call: FunctionCall) -> Expr:
    return exprs.text(json.dumps(list(call.context.available_roles)))


def _last_query_id(call: FunctionCall) -> Expr:
    query_id = call.context.query_id_at(call.whole(0, -1))
    return exprs.null(sqltypes.TEXT) if query_id is None else exprs.text(query_id)


def _system_typeof(call: FunctionCall) -> Expr:
    """SYSTEM$TYPEOF: the type of an expression, and in brackets how its values are held."""
    value = call.arg(0)
    named = exprs.text(sqltypes.shown_with_storage(value.type))
    if not (value.aggregate or value.window):
        return named
    # The engine has to see the aggregate: a query with one has one row for each group.
    either = code.case([(code.is_null(value), named)], named)
    return exprs.derived(either, named.type, [value], nullable=False)


def _uuid_string(call: FunctionCall) -> Expr:
    if call.nodes:
        if len(call.nodes) != 2:
            raise call.invalid()
        texts = [casts.as_arrow(text, sqltypes.TEXT) for text in call.texts()]
        return builders.text_result(code.kernel("_uuid_of_name", *texts), call.args)
    return Expr(code=code.call("uuid"), type=sqltypes.TEXT, nullable=False, is_volatile=True)


def _similarity(call: FunctionCall) -> Expr:
    texts = [casts.as_arrow(text, sqltypes.TEXT) for text in call.texts()]
    return builders.small_integer(code.kernel("_jaro_winkler", *texts), call.args, 0, 100)


def _by_name(*tables: Iterable[builders.Function]) -> Mapping[str, builders.Function]:
    return {name: row for table in tables for row in table for name in row.names}


TEXT_FUNCTIONS = (
    function("UPPER", "text", "text", engine("upper")),
    function("LOWER", "text", "text", engine("lower")),
    function("INITCAP", "text [text]", "text", _initcap),
    function("REVERSE", "text", "text", engine("reverse")),
    function("TRANSLATE", "text text text", "text", engine("translate")),
    function("MD5 MD5_HEX", "text", "text", engine("md5")),
    function("SHA2 SHA2_HEX", "text [constant]", "text", _sha2),
    function("LENGTH LEN", "any", "integer", _length),
    function("OCTET_LENGTH", "any", "integer", _octet_length),
    function("LEFT", "text whole", "text", _left_or_right("left")),
    function("RIGHT", "text whole", "text", _left_or_right("right")),
    function("SUBSTR SUBSTRING", "text whole [whole]", "text", _substring),
    function("TRIM", "text [text]", "text", _trim("btrim")),
    function("LTRIM", "text [text]", "text", _trim("ltrim")),
    function("RTRIM", "text [text]", "text", _trim("rtrim")),
    function("LPAD", "text whole [text]", "text", _pad("lpad")),
    function("RPAD", "text whole [text]", "text", _pad("rpad")),
    function("REPEAT", "text whole", "text", _repeat),
    function("SPACE", "whole", "text", _space),
    function("REPLACE", "text text [text]", "text", _replace),
    function("SPLIT_PART", "text text whole", "text", _split_part),
    function("CONCAT", "any [any]*63", "text", _concat),
    function("CONCAT_WS", "text any [any]*62", "text", _concat_ws),
    function("CONTAINS", "text text", "boolean", engine("contains")),
    function("STARTSWITH", "text text", "boolean", engine("starts_with")),
    function("ENDSWITH", "text text", "boolean", engine("ends_with")),
    function("POSITION CHARINDEX", "text text [constant]", "integer", _position),
    function("ASCII UNICODE", "text", "integer", engine("ascii")),
    function("CHR CHAR", "whole", "text", _chr),
    function("EDITDISTANCE", "text text [whole]", "integer", _edit_distance),
    function("STRTOK", "text [text] [whole]", "text", _strtok),
    function("INSERT", "text whole whole text", "text", kernel("_insert")),
    function("RTRIMMED_LENGTH", "text", "integer", _rtrimmed_length),
    function("BIT_LENGTH", "any", "integer", _bit_length),
    function("SHA1 SHA1_HEX", "text", "text", kernel("_sha1")),
    function("SHA1_BINARY", "text", "binary", kernel("_sha1_binary")),
    function("SOUNDEX", "text", "text", kernel("_soundex")),
    function("SOUNDEX_P123", "text", "text", kernel("_soundex_p123")),
    function("SHA2_BINARY", "text [constant]", "binary", _sha2_binary),
    function("MD5_BINARY", "text", "binary", _md5_binary),
    function("BASE64_ENCODE", "any [constant]*2", "text", _base64_encode),
    *(
        function(f"{prefix}{name}", "text", target.name, build(target, lenient=bool(prefix)))
        for prefix in ("", "TRY_")
        for name, target, build in (
            ("BASE64_DECODE_STRING", sqltypes.TEXT, _base64_decode),
            ("BASE64_DECODE_BINARY", sqltypes.BINARY, _base64_decode),
            ("HEX_DECODE_STRING", sqltypes.TEXT, _hex_decode),
            ("HEX_DECODE_BINARY", sqltypes.BINARY, _hex_decode),
        )
    ),
    function("REGEXP_INSTR", "text text [constant]*5", "integer", _regexp_instr),
    function("REGEXP_LIKE RLIKE REGEXP", "text text [constant]", "boolean", _regexp_like),
    function("REGEXP_REPLACE", "text text [text] [constant]*3", "text", _regexp_replace),
    function("REGEXP_COUNT", "text text [constant]*2", "integer", _regexp_count),
    function("REGEXP_SUBSTR", "text text [constant]*4", "text", _regexp_substr),
    function(
        "REGEXP_SUBSTR_ALL REGEXP_EXTRACT_ALL",
        "text text [constant]*4",
        "array",
        _regexp_substr_all,
    ),
    function(
        "SEARCH",
        "any constant [constant]*2",
        "boolean",
        _search,
        keywords="- - analyzer search_mode",
    ),
    function("PARSE_URL", "text [constant]", "object", _permissive("_v_parse_url")),
    function("PARSE_IP", "text constant [constant]", "object", _permissive("_v_parse_ip")),
    function("HEX_ENCODE", "any [constant]", "text", _hex_encode),
    function("UUID_STRING", "[text]*2", "text", _uuid_string, is_volatile=True),
    function("JAROWINKLER_SIMILARITY", "text text", "integer", _similarity),
)

NUMBER_FUNCTIONS = (
    function("ABS", "number", "number", _abs),
    function("CEIL CEILING", "number [whole]", "number", _whole("ceil")),
    function("FLOOR", "number [whole]", "number", _whole("floor")),
    function(
        "ROUND",
        "number [whole] [constant]",
        "number",
        _round,
        keywords="expr scale rounding_mode",
    ),
    function("TRUNC TRUNCATE", "any [any]", "any", _truncate),
    function("WIDTH_BUCKET", "number number number whole", "integer", _width_bucket),
    function("MOD", "number number", "number", _mod),
    function("SIGN", "number", "integer", _sign),
    function("SQUARE", "real", "real", _square),
    function("PI", "", "real", _pi),
    function("RANDOM", "[constant]", "integer", generation.random, is_volatile=True),
    function("SQRT", "real", "real", _real("sqrt")),
    function("CBRT", "real", "real", _real("cbrt")),
    function("EXP", "real", "real", _real("exp")),
    function("LN", "real", "real", _real("ln")),
    function("LOG", "real real", "real", _real("log")),
    function("POWER POW", "real real", "real", _real("power")),
    function("SIN", "real", "real", _real("sin")),
    function("COS", "real", "real", _real("cos")),
    function("TAN", "real", "real", _real("tan")),
    function("COT", "real", "real", _real("cot")),
    function("ASIN", "real", "real", _real("asin")),
    function("ACOS", "real", "real", _real("acos")),
    function("ATAN", "real", "real", _real("atan")),
    function("ATAN2", "real real", "real", _real("atan2")),
    function("SINH", "real", "real", _real("sinh")),
    function("COSH", "real", "real", _real("cosh")),
    function("TANH", "real", "real", _real("tanh")),
    function("ASINH", "real", "real", _real("asinh")),
    function("ACOSH", "real", "real", _real("acosh")),
    function("ATANH", "real", "real", _real("atanh")),
    function("DEGREES", "real", "real", _real("degrees")),
    function("RADIANS", "real", "real", _real("radians")),
    function("BITNOT BIT_NOT", "whole", "integer", _bitnot),
    function("FACTORIAL", "whole", "number", _factorial),
    function("BITAND BIT_AND", "whole whole", "integer", _bits("&")),
    function("BITOR BIT_OR", "whole whole", "integer", _bits("|")),
    function("BITXOR BIT_XOR", "whole whole", "integer", _bitxor),
    function(
        "BITSHIFTLEFT BIT_SHIFTLEFT",
        "whole constant",
        "number",
        functools.partial(_shift, is_right=False),
    ),
    function(
        "BITSHIFTRIGHT BIT_SHIFTRIGHT",
        "whole constant",
        "number",
        functools.partial(_shift, is_right=True),
    ),
    function("GETBIT", "whole whole", "integer", _getbit),
    function("HAVERSINE", "real real real real", "real", kernel("_haversine")),
    function("DIV0", "number number", "number", functools.partial(_div0, of_null=False)),
    function("DIV0NULL", "number number", "number", functools.partial(_div0, of_null=True)),
)

CHOICE_FUNCTIONS = (
    function("COALESCE", "any [any]*63", "any", _coalesce),
    function("NVL IFNULL", "any any", "any", _coalesce),
    function("NVL2", "any any any", "any", _nvl2),
    function("IFF", "boolean any any", "any", _iff),
    function("NULLIF", "any any", "any", _nullif),
    function("NULLIFZERO", "number", "number", _nullifzero),
    function("ZEROIFNULL", "number", "number", _zeroifnull),
    function("DECODE", "any any any [any]*252", "any", _decode),
    function("EQUAL_NULL", "any any", "boolean", _equal_null),
    function("GREATEST", "any [any]*63", "any", _extreme("greatest")),
    function("LEAST", "any [any]*63", "any", _extreme("least")),
    function("GREATEST_IGNORE_NULLS", "any [any]*63", "any", _extreme_of_present("greatest")),
    function("LEAST_IGNORE_NULLS", "any [any]*63", "any", _extreme_of_present("least")),
    function("BOOLAND", "boolean boolean", "boolean", _logic("AND")),
    function("BOOLOR", "boolean boolean", "boolean", _logic("OR")),
    function("BOOLXOR", "boolean boolean", "boolean", _logic("<>")),
    function("BOOLNOT", "boolean", "boolean", _boolnot),
    function("REGR_VALX", "real real", "real", aggregates.regr_value(1)),
    function("REGR_VALY", "real real", "real", aggregates.regr_value(0)),
)

CONVERSION_FUNCTIONS = (
    function("TO_CHAR TO_VARCHAR", "any [constant]", "text", _to_text),
    function(
        "TO_NUMBER TO_NUMERIC TO_DECIMAL",
        "any [constant]*3",
        "number",
        _to_number(lenient=False),
    ),
    function(
        "TRY_TO_NUMBER TRY_TO_NUMERIC TRY_TO_DECIMAL",
        "any [constant]*3",
        "number",
        _to_number(lenient=True),
    ),
    function("TO_DOUBLE", "any", "real", _to(sqltypes.REAL)),
    function("TRY_TO_DOUBLE", "any", "real", _to(sqltypes.REAL, lenient=True)),
    function("TO_BOOLEAN", "any", "boolean", _to(sqltypes.BOOLEAN)),
    function("TRY_TO_BOOLEAN", "any", "boolean", _to(sqltypes.BOOLEAN, lenient=True)),
    function("TO_BINARY", "any [constant]", "binary", _to_binary(lenient=False)),
    function("TRY_TO_BINARY", "any [constant]", "binary", _to_binary(lenient=True)),
)

CONTEXT_FUNCTIONS = (
    function("CURRENT_DATABASE", "", "text", _shown_context("database")),
    function("CURRENT_SCHEMA", "", "text", _shown_context("schema")),
    function("CURRENT_SCHEMAS", "", "text", _schemas),
    function("CURRENT_WAREHOUSE", "", "text", _context("warehouse")),
    function("CURRENT_ROLE", "", "text", _context("role")),
    function("CURRENT_ROLE_TYPE", "", "text", lambda call: exprs.text("ROLE")),
    function("CURRENT_IP_ADDRESS", "", "text", _context("ip_address")),
    function("GETVARIABLE", "constant", "text", _getvariable),
    function("CURRENT_AVAILABLE_ROLES", "", "text", _available_roles),
    function("GET_DDL", "constant constant [constant]", "text", _get_ddl),
    function("CURRENT_USER", "", "text", _context("user")),
    function("CURRENT_ACCOUNT", "", "text", _context("account")),
    function("CURRENT_ACCOUNT_NAME", "", "text", _context("account")),
    function("CURRENT_REGION", "", "text", _context("region")),
    function("CURRENT_SESSION", "", "text", _context("session_id")),
    function("CURRENT_TRANSACTION", "", "text", _context("transaction")),
    function("LAST_TRANSACTION", "", "text", _context("last_transaction")),
    function("CURRENT_VERSION", "", "text", _context("version")),
    function("CURRENT_CLIENT", "", "text", _context("client")),
    function("LAST_QUERY_ID", "[constant]", "text", _last_query_id),
    function("SYSTEM$TYPEOF", "any", "text", _system_typeof),
)

GROUPS: Mapping[str, tuple[builders.Function, ...]] = {
    "Aggregate": aggregates.AGGREGATES,
    "Window": aggregates.WINDOWS,
    "Sketches": sketches.SKETCH_FUNCTIONS,
    "Date and time": moments.MOMENT_FUNCTIONS,
    "Text": TEXT_FUNCTIONS,
    "Numbers": NUMBER_FUNCTIONS,
    "Generation": generation.GENERATION_FUNCTIONS,
    "Hashes": hashes.HASH_FUNCTIONS,
    "Choices": CHOICE_FUNCTIONS,
    "Conversion": CONVERSION_FUNCTIONS,
    "Semi-structured": semistructured.SEMISTRUCTURED_FUNCTIONS,
    "Lambdas": lambdas.LAMBDA_FUNCTIONS,
    "Session": CONTEXT_FUNCTIONS,
}
"""The table of functions, in the groups of docs/SQL.md."""

FUNCTIONS: Mapping[str, builders.Function] = _by_name(*GROUPS.values())
