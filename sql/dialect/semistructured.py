"""rule: functions of VARIANT, OBJECT and ARRAY, their constants, and access to their parts.

A value is canonical text (`sql.variants`), so that an array of values is joined by the engine
itself; the rest are kernels over one row's values.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql import variants
from sql.dialect import arithmetic, builders, casts, comparisons, sqltypes, structures
from sql.dialect.builders import FunctionCall, function, of_values
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr


def array(items: Sequence[Expr]) -> Expr:
    """Return the ARRAY of some values; SQL NULL among them is an element."""
    listed = array_of(items)
    if all(item.type.name in SHORT for item in items):
        return listed
    computed = code.kernel("_v_bounded", casts.as_arrow(listed, sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.ARRAY, [listed])


SHORT = frozenset({"null", "boolean", "fixed", "real", "date", "time"})
"""Types of whose values an array cannot be too long."""


def array_of(items: Sequence[Expr]) -> Expr:
    """Return the ARRAY of some values for a kernel, which bounds what it returns."""
    if not items:
        return _constant("[]", sqltypes.ARRAY)
    values = [casts.to_variant(item) for item in items]
    parts: list[code.Part] = [code.StringLiteral(value="[")]
    for value in values:
        absent = code.StringLiteral(value=variants.UNDEFINED_TEXT)
        parts.append(code.call("coalesce", value, absent) if value.nullable else value)
        parts.append(code.StringLiteral(value=","))
    parts[-1] = code.StringLiteral(value="]")
    return exprs.derived(code.joined(parts, "||"), sqltypes.ARRAY, values, nullable=False)


def object_of(pairs: Sequence[Expr], *, keeps_null: bool = False) -> Expr:
    """Return the OBJECT of names and values in turn."""
    if not pairs:
        return _constant("{}", sqltypes.OBJECT)
    name = "_v_object_keep_null" if keeps_null else "_v_object"
    listed = array_of(pairs)
    computed = code.kernel(name, casts.as_arrow(listed, sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.OBJECT, [listed], nullable=False)


def _constant(text: str, sql_type: sqltypes.SqlType) -> Expr:
    return Expr(code=code.arrow(text, "Utf8"), type=sql_type, nullable=False)


def element(value: Expr, index: Expr) -> Expr:
    """Return value[index]: a member by its name, an element by its number from 0."""
    if value.type.structure is not None:
        return structures.element(value, index)
    if isinstance(index.literal, str):
        return step_into(value, index.literal)
    if isinstance(index.literal, int) and not isinstance(index.literal, bool):
        if 0 <= index.literal < 10**9:
            return step_into(value, index.literal)
        return exprs.null(sqltypes.VARIANT)
    computed = code.kernel(
        "_v_get",
        casts.as_arrow(_semistructured(value), sqltypes.TEXT),
        casts.as_arrow(casts.to_variant(index), sqltypes.TEXT),
    )
    return exprs.derived(computed, sqltypes.VARIANT, [value, index], nullable=True)


def step_into(value: Expr, *steps: str | int) -> Expr:
    """Return what stands at constant steps in a value; steps in a row are one call."""
    while steps and value.type.structure is not None:
        value, steps = structures.step_into(value, steps[0]), steps[1:]
    if not steps:
        return value
    inner = value.code
    path = variants.path_text(steps)
    if isinstance(inner, code.FunctionUse) and inner.name == "_v_get_path":
        first, written = inner.arguments
        if isinstance(written, code.StringLiteral):
            whole = code.kernel("_v_get_path", first, written.value + path)
            return exprs.derived(whole, sqltypes.VARIANT, [value], nullable=True)
    return casts.at_path(_semistructured(value), path)


def _semistructured(value: Expr) -> Expr:
    if value.type.name == "null":
        return exprs.null(sqltypes.VARIANT)
    if not value.type.is_variant:
        raise casts.mismatch(f"path into {sqltypes.shown(value.type)}")
    return value


def _parse_json(name: str) -> builders.Builder:
    """PARSE_JSON and TRY_PARSE_JSON. Their second argument: s, or d if members may repeat."""

    def build(call: FunctionCall) -> Expr:
        text, mode = call.text(0), call.constant(1, "s")
        if mode not in ("s", "d"):
            raise call.invalid()
        named = f"{name}_repeats" if mode == "d" else name
        computed = code.kernel(named, casts.as_arrow(text, sqltypes.TEXT))
        return exprs.derived(computed, sqltypes.VARIANT, [text], nullable=True)

    return build


def _array_construct(call: FunctionCall) -> Expr:
    return array(call.args)


def _array_construct_compact(call: FunctionCall) -> Expr:
    listed = array_of(call.args)
    computed = code.kernel("_v_array_compact", casts.as_arrow(listed, sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.ARRAY, [listed])


def _object_construct(*, keeps_null: bool) -> builders.Builder:
    def build(call: FunctionCall) -> Expr:
        arguments = call.spread()
        if len(arguments) % 2:
            raise call.invalid()
        return object_of(arguments, keeps_null=keeps_null)

    return build


def _of_keys(name: str) -> builders.Builder:
    """OBJECT_DELETE and OBJECT_PICK."""

    def build(call: FunctionCall) -> Expr:
        members, keys = builders.COERCIONS["object"](call, 0), call.args[1:]
        listed = array_of(keys)
        computed = code.kernel(
            name,
            casts.as_arrow(members, sqltypes.TEXT),
            casts.as_arrow(listed, sqltypes.TEXT),
        )
        return exprs.derived(computed, sqltypes.OBJECT, [members, listed])

    return build


def _arrays_zip(call: FunctionCall) -> Expr:
    listed = array_of(call.args)
    computed = code.kernel("_v_arrays_zip", casts.as_arrow(listed, sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.ARRAY, [listed], nullable=True)


def _get(call: FunctionCall) -> Expr:
    return element(call.arg(0), call.arg(1))


def _get_ignore_case(call: FunctionCall) -> Expr:
    value, name = call.arg(0), call.text(1)
    if value.type.structure is not None:
        return structures.ignoring_case(value, name)
    exact = [casts.as_arrow(each, sqltypes.TEXT) for each in (casts.to_variant(value), name)]
    computed = code.kernel("_v_get_ignore_case", *exact)
    return exprs.derived(computed, sqltypes.VARIANT, [value, name], nullable=True)


def _array_size(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.structure is not None and value.type.structure.word == "list":
        return structures.size(value)
    array = builders.COERCIONS["array"](call, 0)
    computed = code.kernel("_v_array_size", casts.as_arrow(array, sqltypes.TEXT))
    return builders.small_integer(computed, [array], nullable=True)


def _map_size(call: FunctionCall) -> Expr:
    return structures.size(_map(call, 0))


def _map_keys(call: FunctionCall) -> Expr:
    return structures.keys(_map(call, 0))


def _map_contains_key(call: FunctionCall) -> Expr:
    return structures.contains_key(_map(call, 1), call.arg(0))


def _map_cat(call: FunctionCall) -> Expr:
    if call.arg(0).type.name == "null":
        return exprs.null(_map(call, 1).type)
    first = _map(call, 0)
    if call.arg(1).type.name == "null":
        return exprs.null(first.type)
    second = _map(call, 1)
    return structures.joined(first, casts.cast(second, first.type))


def _map_insert(call: FunctionCall) -> Expr:
    """The entry is an OBJECT of one member first: without a member where the key is NULL."""
    value, key = _map(call, 0), structures.new_key(_map(call, 0), call.arg(1))
    updates = comparisons.as_boolean(call.arg(3)) if len(call.nodes) > 3 else exprs.boolean(False)
    entry = object_of([casts.cast(key, sqltypes.TEXT), call.arg(2)], keeps_null=True)
    return structures.inserted(value, casts.cast(entry, value.type), updates)


def _map_of_keys(*, keeps: bool) -> builders.Builder:
    """MAP_PICK and MAP_DELETE: their keys are arguments, or the elements of an ARRAY."""

    def build(call: FunctionCall) -> Expr:
        value, keys = _map(call, 0), call.args[1:]
        if keys[0].type.name == "array" and len(keys) == 1 and keeps:
            exact = casts.cast(keys[0], structures.wanted_type(value))
        else:
            listed = array_of([structures.as_key(value, key) for key in keys])
            exact = casts.cast(listed, structures.keys_type(value))
        return structures.chosen(value, exact, keeps=keeps)

    return build


def _map(call: FunctionCall, index: int) -> Expr:
    value = call.arg(index)
    if value.type.structure is None or value.type.structure.word != "map":
        raise call.invalid()
    return value


def _to_variant(call: FunctionCall) -> Expr:
    return casts.to_variant(call.arg(0))


def _to_array(call: FunctionCall) -> Expr:
    value = call.arg(0)
    if value.type.name == "array":
        return casts.cast(value, sqltypes.ARRAY)
    computed = code.kernel("_v_to_array", _variant_text(value))
    return exprs.derived(computed, sqltypes.ARRAY, [value], nullable=True)


def _to_object(call: FunctionCall) -> Expr:
    return casts.cast(call.arg(0), sqltypes.OBJECT)


def _variant_text(value: Expr) -> code.Part:
    return casts.as_arrow(casts.to_variant(value), sqltypes.TEXT)


def _is_of(*type_names: str) -> builders.Builder:
    """IS_INTEGER and its like."""

    def build(call: FunctionCall) -> Expr:
        value = call.arg(0)
        structured = value.type.structure is not None
        value = casts.to_variant(value) if structured else _semistructured(value)
        named = code.kernel("_v_typeof", casts.as_arrow(value, sqltypes.TEXT))
        among = code.Among(
            operand=named, members=tuple(code.StringLiteral(value=each) for each in type_names)
        )
        return exprs.derived(among, sqltypes.BOOLEAN, [value])

    return build


def _as_type(target: sqltypes.SqlType | None, *type_names: str) -> builders.Builder:
    """AS_INTEGER and its like: NULL for a VARIANT of another type. target None: a NUMBER."""

    def build(call: FunctionCall) -> Expr:
        value = casts.to_variant(call.arg(0))
        only = code.kernel("_v_only", casts.as_arrow(value, sqltypes.TEXT), " ".join(type_names))
        chosen = exprs.derived(only, sqltypes.VARIANT, [value], nullable=True)
        wanted = target
        if wanted is None:
            precision, scale = call.whole(1, 38), call.whole(2, 0)
            if not (1 <= precision <= 38 and 0 <= scale <= min(precision, 37)):
                raise call.refuse(f"NUMBER({precision},{scale})")
            wanted = sqltypes.number(precision, scale)
        if wanted.is_variant:
            return exprs.retyped(chosen, wanted)
        return casts.cast(chosen, wanted)

    return build


def _array_sort(call: FunctionCall) -> Expr:
    ascending = comparisons.as_boolean(call.arg(1)) if len(call.nodes) > 1 else exprs.boolean(True)
    nulls_first: Expr
    if len(call.nodes) > 2:
        nulls_first = comparisons.as_boolean(call.arg(2))
    else:
        # NULLs are larger than all values, as in ORDER BY.
        nulls_first = exprs.derived(code.not_(ascending), sqltypes.BOOLEAN, [ascending])
    array = builders.COERCIONS["array"](call, 0)
    computed = code.kernel(
        "_v_array_sort", casts.as_arrow(array, sqltypes.TEXT), ascending, nulls_first
    )
    return exprs.derived(computed, sqltypes.ARRAY, [array, ascending, nulls_first])


def _array_range(call: FunctionCall) -> Expr:
    bounds = [arithmetic.round_half_away(item) for item in call.args]
    if len(bounds) == 2:
        bounds.append(exprs.integer(1))
    exact = [casts.as_arrow(item, sqltypes.integer()) for item in bounds]
    computed = code.kernel("_v_array_generate_range", *exact)
    return exprs.derived(computed, sqltypes.ARRAY, bounds)


def _object_insert(call: FunctionCall) -> Expr:
    members = builders.COERCIONS["object"](call, 0)
    name, value = call.text(1), casts.to_variant(call.arg(2))
    update = comparisons.as_boolean(call.arg(3)) if len(call.nodes) > 3 else exprs.boolean(False)
    computed = code.kernel(
        "_v_object_insert",
        casts.as_arrow(members, sqltypes.TEXT),
        casts.as_arrow(name, sqltypes.TEXT),
        casts.as_arrow(value, sqltypes.TEXT),
        update,
    )
    return exprs.derived(computed, sqltypes.OBJECT, [members, name, value, update])


def _get_path(call: FunctionCall) -> Expr:
    value, path = call.arg(0), call.arg(1)
    if isinstance(path.literal, str):
        try:
            steps = variants.parse_path(path.literal)
        except ValueError:
            raise call.refuse(f"the path '{path.literal}'") from None
        if not steps and value.type.structure is None:
            return casts.to_variant(value)
        return step_into(value, *steps)
    computed = code.kernel(
        "_v_get_path",
        casts.as_arrow(_semistructured(value), sqltypes.TEXT),
        casts.as_arrow(call.text(1), sqltypes.TEXT),
    )
    return exprs.derived(computed, sqltypes.VARIANT, [value, path], nullable=True)


def _split(call: FunctionCall) -> Expr:
    texts = call.texts()
    return exprs.derived(
        code.kernel("_v_split", *(casts.as_arrow(each, sqltypes.TEXT) for each in texts)),
        sqltypes.ARRAY,
        texts,
    )


def _strtok_to_array(call: FunctionCall) -> Expr:
    text = call.text(0)
    delimiters = call.text(1) if len(call.nodes) > 1 else exprs.text(" ")
    parts = [text, delimiters]
    computed = code.kernel(
        "_v_strtok_to_array", *(casts.as_arrow(each, sqltypes.TEXT) for each in parts)
    )
    return exprs.derived(computed, sqltypes.ARRAY, parts)


INTEGERS = ("INTEGER",)
DECIMALS = ("INTEGER", "DECIMAL")
REALS = ("INTEGER", "DECIMAL", "DOUBLE")

SEMISTRUCTURED_FUNCTIONS = (
    function("PARSE_JSON", "text [constant]", "variant", _parse_json("_v_parse_json")),
    function("TRY_PARSE_JSON", "text [constant]", "variant", _parse_json("_v_try_parse_json")),
    function("CHECK_JSON", "text", "text", of_values("_v_check_json")),
    function("TO_JSON", "variant", "text", of_values("_v_to_json")),
    function("TO_VARIANT", "any", "variant", _to_variant),
    function("TO_ARRAY", "any", "array", _to_array),
    function("TO_OBJECT", "object", "object", _to_object),
    function("TYPEOF", "variant", "text", of_values("_v_typeof")),
    function("STRIP_NULL_VALUE", "variant", "variant", of_values("_v_strip_null_value")),
    function("GET", "variant any", "variant", _get),
    function("GET_IGNORE_CASE", "variant text", "variant", _get_ignore_case),
    function("GET_PATH", "variant text", "variant", _get_path),
    function("JSON_EXTRACT_PATH_TEXT", "text text", "text", of_values("_v_json_path_text")),
    function("ARRAY_CONSTRUCT", "[any]*999", "array", _array_construct),
    function("ARRAY_CONSTRUCT_COMPACT", "[any]*999", "array", _array_construct_compact),
    function("ARRAY_APPEND", "array variant", "array", of_values("_v_array_append")),
    function("ARRAY_PREPEND", "array variant", "array", of_values("_v_array_prepend")),
    function("ARRAY_CAT", "array array", "array", of_values("_v_array_cat")),
    function("ARRAY_COMPACT", "array", "array", of_values("_v_array_compact")),
    function("ARRAY_CONTAINS", "variant array", "boolean", of_values("_v_array_contains")),
    function("ARRAY_DISTINCT", "array", "array", of_values("_v_array_distinct")),
    function("ARRAY_EXCEPT", "array array", "array", of_values("_v_array_except")),
    function("ARRAY_FLATTEN", "array", "array", of_values("_v_array_flatten")),
    function("ARRAY_GENERATE_RANGE", "whole whole [whole]", "array", _array_range),
    function("ARRAY_INSERT", "array whole variant", "array", of_values("_v_array_insert")),
    function("ARRAY_INTERSECTION", "array array", "array", of_values("_v_array_intersection")),
    function("ARRAY_MAX", "array", "variant", of_values("_v_array_max")),
    function("ARRAY_MIN", "array", "variant", of_values("_v_array_min")),
    function("ARRAY_POSITION", "variant array", "integer", of_values("_v_array_position")),
    function("ARRAY_REMOVE", "array variant", "array", of_values("_v_array_remove")),
    function("ARRAY_REMOVE_AT", "array whole", "array", of_values("_v_array_remove_at")),
    function("ARRAY_REVERSE", "array", "array", of_values("_v_array_reverse")),
    function("ARRAY_SIZE", "array", "integer", _array_size),
    function("ARRAY_SLICE", "array whole whole", "array", of_values("_v_array_slice")),
    function("ARRAY_SORT", "array [boolean]*2", "array", _array_sort),
    function("ARRAY_TO_STRING", "array text", "text", of_values("_v_array_to_string")),
    function("ARRAYS_OVERLAP", "array array", "boolean", of_values("_v_arrays_overlap")),
    function("ARRAYS_TO_OBJECT", "array array", "object", of_values("_v_arrays_to_object")),
    function("ARRAYS_ZIP", "any [any]*15", "array", _arrays_zip),
    function("SPLIT", "text text", "array", _split),
    function("STRTOK_TO_ARRAY", "text [text]", "array", _strtok_to_array),
    function("OBJECT_CONSTRUCT", "[any]*999", "object", _object_construct(keeps_null=False)),
    function(
        "OBJECT_CONSTRUCT_KEEP_NULL", "[any]*999", "object", _object_construct(keeps_null=True)
    ),
    function("OBJECT_INSERT", "object text any [boolean]", "object", _object_insert),
    function("OBJECT_DELETE", "object any [any]*62", "object", _of_keys("_v_object_delete")),
    function("OBJECT_PICK", "object any [any]*62", "object", _of_keys("_v_object_pick")),
    function("OBJECT_KEYS", "object", "array", of_values("_v_object_keys")),
    function("MAP_KEYS", "map", "array", _map_keys),
    function("MAP_SIZE", "map", "integer", _map_size),
    function("MAP_CONTAINS_KEY", "any map", "boolean", _map_contains_key),
    function("MAP_CAT", "map map", "map", _map_cat),
    function("MAP_INSERT", "map any any [boolean]", "map", _map_insert),
    function("MAP_DELETE", "map any [any]*62", "map", _map_of_keys(keeps=False)),
    function("MAP_PICK", "map any [any]*62", "map", _map_of_keys(keeps=True)),
    *(
        function(names, "variant", "boolean", _is_of(*type_names))
        for names, type_names in (
            ("IS_ARRAY", ("ARRAY",)),
            ("IS_BINARY", ("BINARY",)),
            ("IS_BOOLEAN", ("BOOLEAN",)),
            ("IS_CHAR IS_VARCHAR", ("VARCHAR",)),
            ("IS_DATE IS_DATE_VALUE", ("DATE",)),
            ("IS_DECIMAL", DECIMALS),
            ("IS_DOUBLE IS_REAL", REALS),
            ("IS_INTEGER", INTEGERS),
            ("IS_NULL_VALUE", ("NULL_VALUE",)),
            ("IS_OBJECT", ("OBJECT",)),
            ("IS_TIME", ("TIME",)),
            ("IS_TIMESTAMP_LTZ", ("TIMESTAMP_LTZ",)),
            ("IS_TIMESTAMP_NTZ", ("TIMESTAMP_NTZ",)),
            # A TIMESTAMP_TZ becomes no VARIANT, so no value is of that type.
            ("IS_TIMESTAMP_TZ", ("TIMESTAMP_TZ",)),
        )
    ),
    *(
        function(names, "variant", target.name, _as_type(target, *type_names))
        for names, target, type_names in (
            ("AS_ARRAY", sqltypes.ARRAY, ("ARRAY",)),
            ("AS_BINARY", sqltypes.BINARY, ("BINARY",)),
            ("AS_BOOLEAN", sqltypes.BOOLEAN, ("BOOLEAN",)),
            ("AS_CHAR AS_VARCHAR", sqltypes.TEXT, ("VARCHAR",)),
            ("AS_DATE", sqltypes.DATE, ("DATE",)),
            ("AS_DOUBLE AS_REAL", sqltypes.REAL, REALS),
            ("AS_OBJECT", sqltypes.OBJECT, ("OBJECT",)),
            ("AS_TIME", sqltypes.TIME, ("TIME",)),
            ("AS_TIMESTAMP_LTZ", sqltypes.TIMESTAMP_LTZ, ("TIMESTAMP_LTZ",)),
            ("AS_TIMESTAMP_NTZ", sqltypes.TIMESTAMP_NTZ, ("TIMESTAMP_NTZ",)),
        )
    ),
    function("AS_INTEGER", "variant", "number", _as_type(sqltypes.number(38), *INTEGERS)),
    function("AS_DECIMAL AS_NUMBER", "variant [constant]*2", "number", _as_type(None, *DECIMALS)),
)
