"""rule: access to what is inside structured OBJECTs, ARRAYs and MAPs.

A table that another engine has made may have columns of Iceberg's struct, list and map. A part of
such a value has the type that the column's definition says. A key that no definition has is an
error of the text. Source: Snowflake, Structured data types.
"""

from __future__ import annotations

import re
from typing import Any

from sql import errors, variants
from sql.dialect import arithmetic, builders, casts, comparisons, sqltypes
from sql.plan import code, emit, relations, sharing, substitution
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

INDEX_MAX = (1 << 31) - 2
"""No list has so many elements; the engine counts from 1, to the greatest 32-bit number."""


def step_into(value: Expr, step: str | int) -> Expr:
    """Return a field, an element or a MAP's value at one constant step of a path."""
    structure = _structure(value)
    if structure.word == "struct":
        return _field(value, step)
    if structure.word == "map":
        key = exprs.text(step) if isinstance(step, str) else exprs.integer(step)
        return _of_key(value, key)
    if isinstance(step, str):
        raise casts.mismatch(f"key '{step}' of a structured ARRAY")
    return _element(value, exprs.integer(step))


def element(value: Expr, index: Expr) -> Expr:
    """Return value[index]; index is a constant where value is a structured OBJECT."""
    structure = _structure(value)
    if structure.word == "map":
        return _of_key(value, index)
    if structure.word == "list":
        if index.type.name not in ("fixed", "real", "null"):
            raise casts.mismatch(f"{sqltypes.shown(index.type)} as index of a structured ARRAY")
        return _element(value, _whole(arithmetic.as_number(index)))
    if not isinstance(index.literal, str):
        raise errors.unsupported("a key of a structured OBJECT that is no constant")
    return _field(value, index.literal)


def at_path(value: Expr, path: str) -> Expr:
    """Return what stands at a path's text in a structured value; raises SqlError."""
    try:
        steps = variants.parse_path(path)
    except ValueError:
        raise errors.unsupported(f"the path '{path}'") from None
    for step in steps:
        if value.type.structure is None:
            raise casts.mismatch(f"path into {sqltypes.shown(value.type)}")
        value = step_into(value, step)
    return value


def ignoring_case(value: Expr, name: Expr) -> Expr:
    """Return a field whatever case its name has; a field of exactly the name comes first."""
    structure = _structure(value)
    if structure.word != "struct":
        return element(value, name)
    if not isinstance(name.literal, str):
        raise errors.unsupported("a key of a structured OBJECT that is no constant")
    wanted = name.literal
    alike = sorted(each for each, _ in structure.members if each.lower() == wanted.lower())
    return _field(value, wanted if wanted in alike or not alike else alike[0])


def size(value: Expr) -> Expr:
    """Return the number of elements of a structured ARRAY or a MAP."""
    return builders.small_integer(code.call("cardinality", value), [value])


def keys(value: Expr) -> Expr:
    """Return the keys of a MAP as a structured ARRAY."""
    return exprs.derived(code.call("map_keys", value), keys_type(value), [value])


def values(value: Expr) -> Expr:
    """Return the values of a MAP as a structured ARRAY, in the order of its keys."""
    listed = sqltypes.structured("list", {"element": value_type(_structure(value))})
    return exprs.derived(code.call("map_values", value), listed, [value])


def contains_key(value: Expr, key: Expr) -> Expr:
    """Return whether a MAP has a key; NULL for no MAP and for no key."""
    wanted = as_key(value, key)
    has = code.call("array_has", code.call("map_keys", value), wanted)
    if wanted.nullable:
        # A key that the type of the map's keys cannot hold is NULL, and in no map.
        is_absent = code.joined([code.is_not_null(part) for part in (value, key)], "AND")
        has = code.call("coalesce", has, code.case([(is_absent, code.FALSE)]))
    return exprs.derived(has, sqltypes.BOOLEAN, [value, key])


def joined(first: Expr, second: Expr) -> Expr:
    """Return the entries of two MAPs of one type; of a key that both have, the second's value."""
    computed = code.kernel(f"_map_cat_{sqltypes.encoded(first.type)}", first, second)
    return exprs.derived(computed, first.type, [first, second])


def inserted(value: Expr, entry: Expr, updates: Expr) -> Expr:
    """Return a MAP with the entry of another one. updates: whether it replaces one of its key."""
    name = f"_map_insert_{sqltypes.encoded(value.type)}"
    computed = code.kernel(name, value, entry, updates)
    return exprs.derived(computed, value.type, [value, entry, updates])


def chosen(value: Expr, keys: Expr, *, keeps: bool) -> Expr:
    """Return a MAP with the keys of an ARRAY alone, or without these.

    keys: of keys_type or wanted_type.
    """
    encoded = f"{sqltypes.encoded(value.type)}_{sqltypes.encoded(keys.type)}"
    name = f"_map_{'pick' if keeps else 'delete'}_{encoded}"
    return exprs.derived(code.kernel(name, value, keys), value.type, [value, keys])


def as_key(value: Expr, key: Expr) -> Expr:
    """Return what is a key of a MAP as one; NULL for what the type of its keys does not hold."""
    key_type = _compared_key_type(value)
    key = _exact_key(key, key_type)
    is_number = key_type.name == "fixed" and key.type.name in ("fixed", "real")
    converted = casts.cast(key, key_type, lenient=is_number)
    exact: code.Code = code.exactly(converted, key_type, lenient=is_number)
    if _is_lossless(key.type, key_type):
        return exprs.derived(exact, key_type, [converted], nullable=is_number or None)
    # As a truth each number but 0 equals TRUE, as a number 1 alone.
    is_truth = key_type.name == "boolean"
    exact = _if_same(exact, key, arithmetic.as_number(converted) if is_truth else converted)
    return exprs.derived(exact, key_type, [converted], nullable=True)


def new_key(value: Expr, key: Expr) -> Expr:
    """Return a key that a MAP gets, cast to the type of its keys; NULL for NULL alone."""
    return casts.cast(key, _compared_key_type(value))


def wanted_type(value: Expr) -> sqltypes.SqlType:
    """Return the type of an ARRAY of what may equal keys of a MAP: it has all of each element."""
    element = _key_type(value)
    if element.name == "fixed":
        scale = max(element.scale, comparisons.VARIANT_SCALE)
        element = sqltypes.number(sqltypes.PRECISION_MAX, scale)
    elif element.name == "date":
        raise errors.unsupported("an ARRAY of keys of type DATE")
    return sqltypes.structured("list", {"element": element})


def keys_type(value: Expr) -> sqltypes.SqlType:
    """Return the type of an ARRAY of a MAP's keys."""
    return sqltypes.structured("list", {"element": _key_type(value)})


def with_one_zero(select: relations.Rel) -> relations.Rel:
    """Return a SELECT that groups by structured values, or by DISTINCT, as `=` compares them.

    select: Sort or Project, and the steps below it. The engine's own groups of such values tell
    -0.0 from 0.0.
    """
    steps, below = sharing.steps_of(select)
    keys: list[code.Part] = []
    for step in reversed(steps):
        match step:
            case relations.Aggregate(keys=parts):
                below = step.source
                for part in parts:
                    if isinstance(part, relations.GroupingSets):
                        keys += [key for each in part.sets for key in each]
                    else:
                        keys.append(part)
            case relations.Project(is_distinct=True, items=items):
                below = below if keys else step.source
                keys += [item.value for item in items]
    texts = {emit.text(key) for key in keys if _holds_floats(key)}
    if not texts:
        return select

    def replace(node: Any) -> Any:
        if node is below:
            return node
        if _holds_floats(node) and emit.text(node) in texts:
            return casts.with_one_zero(node)
        return None

    changed: relations.Rel = substitution.substituted(select, replace)
    return changed


def _holds_floats(node: Any) -> bool:
    return type(node) is Expr and sqltypes.holds_floats(node.type)


def value_type(structure: sqltypes.Structure) -> sqltypes.SqlType:
    """Return the type of the elements of a list, or of the values of a map."""
    return structure.members[-1][1]


def _structure(value: Expr) -> sqltypes.Structure:
    assert value.type.structure is not None
    return value.type.structure


def _compared_key_type(value: Expr) -> sqltypes.SqlType:
    """Return the type of a MAP's keys; raises SqlError for a type that has no comparison here."""
    key_type = _key_type(value)
    if key_type.name not in KEYS:
        raise errors.unsupported(f"access by a key of type {sqltypes.shown(key_type)}")
    return key_type


def _key_type(value: Expr) -> sqltypes.SqlType:
    return _structure(value).members[0][1]


def _field(value: Expr, name: str | int) -> Expr:
    structure = _structure(value)
    names = [each for each, _ in structure.members]
    if not isinstance(name, str) or name not in names:
        raise no_such_field(str(name))
    # A kernel: below a NULL, the engine's own function shows what a file has for a required field.
    path, encoded = f"_{names.index(name)}", sqltypes.encoded(value.type)
    whole: code.Part = value
    inner = value.code
    if isinstance(inner, code.FunctionUse) and inner.is_kernel and FIELD.fullmatch(inner.name):
        before, encoded = inner.name.removeprefix("_field").rsplit("_", 1)
        path = before + path
        whole = inner.arguments[0]
    sql_type = structure.members[names.index(name)][1]
    return _read(code.kernel(f"_field{path}_{encoded}", whole), sql_type, [value])


FIELD = re.compile("_field(_[0-9]+)+_[0-9a-f]+")


def no_such_field(name: str) -> errors.SqlError:
    return errors.SqlError(
        "093201",
        "23001",
        f"SQL compilation error:\nexpected structured object to contain field {name} but it did"
        " not.",
        phase="COMPILATION",
    )


def _element(value: Expr, index: Expr) -> Expr:
    """Return the element of a list at a whole number from 0; NULL where there is none."""
    place: code.Part
    if isinstance(index.literal, int):
        # The engine counts from 1, and backwards from -1.
        place = code.part(index.literal + 1 if 0 <= index.literal < INDEX_MAX else 0)
    else:
        bounded = code.call("least", code.call("greatest", index, -1), INDEX_MAX)
        number = code.arrow(bounded, "Int64")
        # The engine's functions pass NULL over.
        place = code.case([(code.is_not_null(index), code.infix(number, "+", 1))])
    element_code = code.call("array_element", value, place)
    return _read(element_code, value_type(_structure(value)), [value, index])


def _whole(index: Expr) -> Expr:
    """Return a number if it is a whole one; NULL for another."""
    sql_type = sqltypes.number(sqltypes.PRECISION_MAX)
    whole = casts.cast(index, sql_type, lenient=True)
    if index.type.name == "fixed" and not index.type.scale:
        return whole
    same = _if_same(whole, index, whole)
    return exprs.derived(same, sql_type, [whole, index], nullable=True)


def _if_same(computed: code.Part, value: Expr, converted: Expr) -> code.Code:
    """Return what is computed; NULL where the value that is converted for it does not stay equal.

    Raises SqlError for values that are compared with none of the converted one's type.
    """
    casts.check_stable(value)
    return code.case([(comparisons.compare(converted, value, "="), computed)])


def _of_key(value: Expr, key: Expr) -> Expr:
    wanted = as_key(value, key)
    listed = code.call("map_extract", value, wanted)
    inner = code.call("array_element", listed, 1)
    return _read(inner, value_type(_structure(value)), [value, wanted])


def _exact_key(key: Expr, key_type: sqltypes.SqlType) -> Expr:
    """Return a text or a VARIANT as a number or a moment that has all of it, for such a key."""
    match key_type.name, key.type.name:
        case "fixed", "text":
            return arithmetic.as_number(key)
        case "fixed", "variant":
            scale = max(key_type.scale, comparisons.VARIANT_SCALE)
            return casts.cast(key, sqltypes.number(sqltypes.PRECISION_MAX, scale))
        case "date", "text" | "variant":
            return casts.cast(key, sqltypes.TIMESTAMP_NTZ)
    return key


def _is_lossless(source: sqltypes.SqlType, target: sqltypes.SqlType) -> bool:
    """Whether each value of one type that becomes another for a MAP's key stays equal to itself."""
    if source.name == target.name and source.name in ("fixed", *sqltypes.CLOCKS):
        return source.scale <= target.scale
    return source.name == "null" or source.name in LOSSLESS.get(target.name, ())


MOMENT_SOURCES = frozenset({"text", "variant", "date"})
LOSSLESS = {
    "text": frozenset({"text", "variant", "fixed", "boolean", "date"}),
    "boolean": frozenset({"text", "variant", "boolean"}),
    "date": frozenset({"date"}),
    "time": frozenset({"text", "variant"}),
    "timestamp_ntz": MOMENT_SOURCES,
    "timestamp_ltz": MOMENT_SOURCES,
}
"""By the type of a MAP's keys, types that lose nothing as one; digits are compared apart."""


KEYS = frozenset({"text", "fixed", "boolean", "date", "timestamp_ntz", "timestamp_ltz", "time"})
"""Types of keys by which a value of a MAP is found."""


def _read(computed: code.Code, sql_type: sqltypes.SqlType, parts: list[Expr]) -> Expr:
    """Return a part of a structured value as it is computed with, as columns are."""
    part = exprs.derived(computed, sql_type, parts, nullable=True)
    return part if is_read_as_held(sql_type) else casts.instant_of_nanoseconds(part)


def is_read_as_held(sql_type: sqltypes.SqlType) -> bool:
    """Whether a part of that type is computed with in the form in which a value holds it."""
    return sql_type.name != "timestamp_ltz" or sql_type.scale <= casts.MICROSECOND_DIGITS
