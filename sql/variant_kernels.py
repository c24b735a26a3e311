"""rule: the functions of VARIANT, OBJECT and ARRAY, row by row.

Each is a function of the values of one row (`sql.variants`), in a table by name. SQL NULL as an
argument makes the result NULL, or is UNDEFINED where a function gives it a meaning. A value that
does not suit raises Snowflake's coded error.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms, limits, locators, outcomes, variants
from sql.kernelforms import Kernel, coded, per_value
from sql.variants import MISSING, UNDEFINED, Value

Form: TypeAlias = Literal["value", "array", "object", "text", "whole", "boolean"]
"""What a function takes or gives. array, object: NULL for a value that is none."""

ARROW: dict[Form, pa.DataType] = {
    "value": pa.string(),
    "array": pa.string(),
    "object": pa.string(),
    "text": pa.string(),
    "whole": pa.int64(),
    "boolean": pa.bool_(),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFunction:
    """A function of one row. takes_null: SQL NULL comes as UNDEFINED, for arguments of values."""

    compute: Callable[..., Any]
    arguments: tuple[Form, ...]
    result: Form
    takes_null: bool = False


def kernel(name: str) -> Kernel:
    """Return the kernel of a function of the table; raises KeyError."""
    row = FUNCTIONS[name]

    def function(*columns: Any) -> Any:
        readers = [
            _reader(form, takes_null=row.takes_null and form == "value") for form in row.arguments
        ]
        read = [
            [reader(cell) for cell in column.to_pylist()]
            for reader, column in zip(readers, columns, strict=True)
        ]
        writer = WRITERS[row.result]
        try:
            return kernelforms.array_of(
                (
                    None if MISSING in values else writer(row.compute(*values))
                    for values in map(_Row, zip(*read, strict=True))
                ),
                ARROW[row.result],
            )
        except variants.BadJson as error:
            raise bad_json(str(error)) from None
        except RecursionError:
            raise bad_json(variants.NESTED) from None

    # Volatile, so that planning does not evaluate a branch that no row takes.
    return Kernel(
        function=function,
        arguments=tuple(ARROW[form] for form in row.arguments),
        result=ARROW[row.result],
        volatility="volatile",
    )


def escaped(_: re.Match[str]) -> Kernel:
    """Stored JSON for kernels that read it: most texts stay, those that look like marks do not."""

    def function(texts: Any) -> Any:
        if not pc.any(pc.match_substring(texts, variants.MARK_IN_JSON)).as_py():
            return texts
        return per_value(texts, variants.escaped_text, pa.string(), lenient=False)

    return Kernel(function=function, arguments=(pa.string(),), result=pa.string())


def bounded(_: re.Match[str]) -> Kernel:
    """Values that the engine joined of others, if none is longer than a value can be."""

    # Volatile as `kernel`.
    return Kernel(
        function=check_lengths, arguments=(pa.string(),), result=pa.string(), volatility="volatile"
    )


def check_lengths(texts: Any) -> Any:
    """Return texts; raises the coded error if one is longer than a value can be."""
    longest_bytes = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest_bytes > outcomes.TEXT_LENGTH_MAX:
        longest = pc.max(pc.utf8_length(texts)).as_py()
        if longest > outcomes.TEXT_LENGTH_MAX:
            raise coded("100078", f"... of {longest} characters")
    return texts


# Lists of rows


def flatten(match: re.Match[str]) -> Kernel:
    """The parts of what stands at a path in a VARIANT, as a list of rows: FLATTEN's."""
    mode, is_recursive, is_outer = match[1], bool(match[2]), bool(match[3])
    expanded: tuple[type, ...] = {"array": (list,), "object": (dict,)}.get(mode, (list, dict))

    def parts(value: Value, path: str, rows: _PartRows) -> None:
        if isinstance(value, list):
            named: list[tuple[str | None, str, int | None, Value]] = [
                (None, f"{path}[{at}]", at, item)
                for at, item in enumerate(value)
                if item != UNDEFINED
            ]
        else:
            named = [(name, member_path(path, name), None, value[name]) for name in sorted(value)]
        this = variants.dumps(value) if is_recursive and named else None
        for name, inner_path, index, item in named:
            rows.add(name, inner_path, index, variants.dumps(item), this)
            if is_recursive and isinstance(item, expanded):
                parts(item, inner_path, rows)

    def function(texts: Any, paths: Any) -> Any:
        path = paths[0].as_py() if len(paths) else ""
        steps = steps_of(path)
        rows = _PartRows()
        for text in texts.to_pylist():
            value = MISSING if text is None else variants.at_path(read_value(text), steps)
            before = len(rows.keys)
            if isinstance(value, expanded):
                try:
                    parts(value, path, rows)
                except (variants.BadJson, RecursionError):
                    raise bad_json(variants.NESTED) from None
            if is_outer and len(rows.keys) == before:
                rows.add(
                    None, path, None, None, None if value is MISSING else variants.dumps(value)
                )
            rows.end(before)
        return rows.array(with_this=is_recursive)

    return Kernel(
        function=function,
        arguments=(pa.string(), pa.string()),
        result=pa.list_(pa.struct(FLATTENED if is_recursive else FLATTENED[:-1])),
        volatility="volatile",
    )


FLATTENED: Sequence[tuple[str, pa.DataType]] = (
    ("key", pa.string()),
    ("path", pa.string()),
    ("index", pa.int64()),
    ("value", pa.string()),
    ("this", pa.string()),
)


class _PartRows:
    """Rows of FLATTEN while they are collected, column by column."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self._paths: list[str] = []
        self._indexes: list[int | None] = []
        self._values: list[str | None] = []
        self._these: list[str | None] = []
        self._offsets = [0]
        self._bytes = 0

    def add(
        self, key: str | None, path: str, index: int | None, value: str | None, this: str | None
    ) -> None:
        self.keys.append(key)
        self._paths.append(path)
        self._indexes.append(index)
        self._values.append(value)
        self._these.append(this)
        self._bytes += len(path) + len(value or "") + len(this or "")
        if self._bytes > limits.REPEATED_BYTES_MAX:
            raise coded("100078", "... of FLATTEN")

    def end(self, before: int) -> None:
        """Note that the rows from before on are those of one value."""
        if len(self.keys) - before > limits.FLATTENED_MAX:
            raise coded("100039", f"{len(self.keys) - before} rows of FLATTEN")
        self._offsets.append(len(self.keys))

    def array(self, *, with_this: bool) -> Any:
        columns: list[Any] = [self.keys, self._paths, self._indexes, self._values]
        columns += [self._these] if with_this else []
        fields = FLATTENED[: len(columns)]
        structs = pa.StructArray.from_arrays(
            [pa.array(each, form) for each, (_, form) in zip(columns, fields, strict=True)],
            fields=[pa.field(name, form) for name, form in fields],
        )
        return pa.ListArray.from_arrays(pa.array(self._offsets, pa.int32()), structs)


def member_path(path: str, name: str) -> str:
    """Return the path of an object's member, below the path of the object."""
    if PLAIN_NAME.fullmatch(name):
        return f"{path}.{name}" if path else name
    quoted = name.replace("'", "\\'")
    return f"{path}['{quoted}']"


PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


def rows_of_parts(match: re.Match[str]) -> Kernel:
    """The parts of a text with their numbers, as a list of rows: SPLIT_TO_TABLE's."""
    split = _strtok_to_array if match[1] == "strtok" else _split
    row = pa.struct((("index", pa.int64()), ("value", pa.string())))

    def rows_of(text: str | None, delimiter: str | None) -> list[dict[str, Any]] | None:
        if text is None or delimiter is None:
            return None
        return [
            {"index": number, "value": part.removeprefix(f"{variants.MARK}s")}
            for number, part in enumerate(split(text, delimiter), start=1)
        ]

    def function(texts: Any, delimiters: Any) -> Any:
        pairs = zip(texts.to_pylist(), delimiters.to_pylist(), strict=True)
        return pa.array([rows_of(*pair) for pair in pairs], pa.list_(row))

    return Kernel(function=function, arguments=(pa.string(), pa.string()), result=pa.list_(row))


class _Row(tuple[Any, ...]):
    """The values of a row; `in` compares by identity, as MISSING needs it."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        return any(value is item for value in self)


def _reader(form: Form, *, takes_null: bool) -> Callable[[Any], Any]:
    """Return what makes a value of a cell; a text that comes again and again is read once."""
    if form not in ("value", "array", "object"):
        return lambda cell: MISSING if cell is None else cell
    absent = UNDEFINED if takes_null else MISSING
    last: tuple[str | None, Any] = (None, absent)

    def read(cell: str | None) -> Any:
        nonlocal last
        if cell is None:
            return absent
        if cell != last[0]:
            last = cell, _of_form(form, read_value(cell))
        return last[1]

    return read


def _of_form(form: Form, value: Value) -> Any:
    if form == "value":
        return value
    return value if isinstance(value, list if form == "array" else dict) else MISSING


def read_value(text: str) -> Value:
    """Return the value of a canonical or stored text; raises the coded error of bad JSON."""
    try:
        return variants.loads(text)
    except variants.BadJson as error:
        raise bad_json(str(error)) from None


def bad_json(reason: str) -> ValueError:
    return coded("100069", f"Error parsing JSON: {reason}")


def _written(value: Value) -> str | None:
    if value is MISSING or value is UNDEFINED or value == UNDEFINED:
        return None
    return _bounded(variants.dumps(value))


def _bounded(text: str) -> str:
    if len(text) > outcomes.TEXT_LENGTH_MAX:
        raise coded("100078", text)
    return text


def _as_is(value: Any) -> Any:
    return None if value is MISSING else value


WRITERS: dict[Form, Callable[[Any], Any]] = {
    "value": _written,
    "array": _written,
    "object": _written,
    "text": _as_is,
    "whole": _as_is,
    "boolean": _as_is,
}


# JSON


def _parse_json(text: str, *, repeats: bool = False) -> Any:
    if not text.strip():
        return MISSING
    try:
        return _bounded(variants.parse_json(text, repeats=repeats))
    except variants.BadJson as error:
        raise bad_json(str(error)) from None


def _try_parse_json(text: str, *, repeats: bool = False) -> Any:
    try:
        return variants.parse_json(text, repeats=repeats) if text.strip() else MISSING
    except variants.BadJson:
        return MISSING


def _check_json(text: str) -> Any:
    try:
        if text.strip():
            variants.parse_json(text)
    except variants.BadJson as error:
        return str(error)
    return MISSING


def _to_json(value: Value) -> str:
    return variants.plain_text(variants.dumps(value))


def _stored(value: Value) -> str:
    return variants.stored_text(variants.dumps(value))


def _only(value: Value, type_names: str) -> Value:
    """Return a value if it is of one of these types, separated by blanks."""
    return value if variants.type_name(value) in type_names.split() else MISSING


def _strip_null(value: Value) -> Value:
    return MISSING if value is None else value


# Access


def _get(value: Value, step: Any) -> Value:
    if isinstance(value, list) and isinstance(step, int) and not isinstance(step, bool):
        return variants.at_path(value, (step,)) if step >= 0 else MISSING
    if isinstance(value, dict) and isinstance(step, str):
        return variants.at_path(value, (step.removeprefix(f"{variants.MARK}s"),))
    return MISSING


def _get_ignore_case(value: Value, name: str) -> Value:
    if not isinstance(value, dict):
        return MISSING
    if name in value:
        return value[name]
    alike = sorted(each for each in value if each.lower() == name.lower())
    return value[alike[0]] if alike else MISSING


def steps_of(path: str) -> variants.Path:
    """Return the steps of a path; raises the coded error of a bad one."""
    try:
        return variants.parse_path(path)
    except ValueError:
        raise coded("100282", f"Invalid path expression: {path}") from None


def _get_path(value: Value, path: str) -> Value:
    return variants.at_path(value, steps_of(path))


def _json_path_text(text: str, path: str) -> Any:
    canonical = _parse_json(text)
    value = MISSING if canonical is MISSING else _get_path(read_value(canonical), path)
    return MISSING if value is MISSING else _present_text(value)


def _present_text(value: Value) -> Any:
    text = variants.scalar_text(value)
    return MISSING if text is None else text


# Arrays


def _same(value: Value) -> str:
    return variants.order_text(value)


def _compact(array: list[Value]) -> list[Value]:
    return [item for item in array if item is not None and item != UNDEFINED]


def _contains(value: Value, array: list[Value]) -> Any:
    wanted = _same(value)
    if any(_same(item) == wanted for item in array):
        return True
    return MISSING if value == UNDEFINED else False


def _first_of_each(array: list[Value]) -> list[Value]:
    seen: dict[str, Value] = {}
    for item in array:
        seen.setdefault(_same(item), item)
    return list(seen.values())


def _except(array: list[Value], others: list[Value]) -> list[Value]:
    left = Counter(map(_same, others))
    kept = []
    for item in array:
        key = _same(item)
        if left[key]:
            left[key] -= 1
        else:
            kept.append(item)
    return kept


def _intersection(array: list[Value], others: list[Value]) -> list[Value]:
    left = Counter(map(_same, others))
    kept = []
    for item in array:
        key = _same(item)
        if left[key]:
            left[key] -= 1
            kept.append(item)
    return kept


def _overlap(array: list[Value], others: list[Value]) -> bool:
    return not set(map(_same, array)).isdisjoint(map(_same, others))


def _union(arrays: list[Value]) -> list[Value]:
    """Return the values of some arrays, each as often as the array that has it most often."""
    union: list[Value] = []
    counts: Counter[str] = Counter()
    for array in arrays:
        own: Counter[str] = Counter()
        for item in array if isinstance(array, list) else ():
            if item is None or item == UNDEFINED:
                continue
            key = _same(item)
            own[key] += 1
            if own[key] > counts[key]:
                counts[key] += 1
                union.append(item)
    return union


def _flattened(array: list[Value]) -> Value:
    if any(item is None or item == UNDEFINED for item in array):
        return MISSING
    if not all(isinstance(item, list) for item in array):
        raise coded(
            "100107",
            "Not an array: 'Input argument to ARRAY_FLATTEN is not an array of arrays'",
        )
    return [item for inner in array for item in inner]


def _range(start: int, stop: int, step: int) -> list[Value]:
    if step == 0:
        raise coded("100039", "0")
    # len() of the range would fail beyond 64 bits.
    count = -((start - stop) // step)
    if count > limits.VARIANT_ELEMENTS_MAX:
        raise coded("100039", str(count))
    return list(range(start, stop, step))


def _insert(array: list[Value], place: int, value: Value) -> list[Value]:
    if place < -len(array) or place > limits.VARIANT_ELEMENTS_MAX:
        raise coded("100039", str(place))
    at = place if place >= 0 else len(array) + place
    filled = array + [UNDEFINED] * (at - len(array))
    return [*filled[:at], value, *filled[at:]]


def _most(*, greatest: bool) -> Callable[[list[Value]], Value]:
    def compute(array: list[Value]) -> Value:
        present = [item for item in array if item != UNDEFINED]
        values = [item for item in present if item is not None] or present
        if not values:
            return MISSING
        return max(values, key=_same) if greatest else min(values, key=_same)

    return compute


def _mode(array: list[Value]) -> Value:
    if not array:
        return MISSING
    keys = [_same(item) for item in array]
    counts = Counter(keys)
    most = max(counts.values())
    return array[keys.index(min(key for key, count in counts.items() if count == most))]


def _variance(array: list[Value], lost: int) -> Any:
    """Return the variance of the different floats of an array; lost: degrees of freedom.

    NaN and infinities, which are texts in an array, make it NaN.
    """
    values = {item.value for item in array if isinstance(item, variants.Real)}
    others = len({item for item in array if isinstance(item, str)})
    if len(values) + others <= lost:
        return MISSING
    if others:
        return variants.Real(value=math.nan)
    mean = sum(values) / len(values)
    squares = sum((value - mean) * (value - mean) for value in sorted(values))
    return variants.Real(value=squares / (len(values) - lost))


def _position(value: Value, array: list[Value]) -> Any:
    wanted = _same(value)
    return next((at for at, item in enumerate(array) if _same(item) == wanted), MISSING)


def _remove(array: list[Value], value: Value) -> list[Value]:
    wanted = _same(value)
    return [item for item in array if _same(item) != wanted]


def _remove_at(array: list[Value], place: int) -> list[Value]:
    at = place if place >= 0 else len(array) + place
    return [item for number, item in enumerate(array) if number != at]


def _sort(array: list[Value], ascending: bool, nulls_first: bool) -> list[Value]:
    present = [item for item in array if item != UNDEFINED]
    absent = [UNDEFINED] * (len(array) - len(present))
    ordered = sorted(present, key=_same, reverse=not ascending)
    return absent + ordered if nulls_first else ordered + absent


def _to_string(array: list[Value], separator: str) -> str:
    return _bounded(separator.join(variants.scalar_text(item) or "" for item in array))


def _to_array(value: Value) -> Value:
    if value is None:
        return MISSING
    return value if isinstance(value, list) else [value]


def _zip(arrays: list[Value]) -> Value:
    if not all(isinstance(array, list) for array in arrays):
        return MISSING
    length = max(map(len, arrays)) or 1
    rows: list[Value] = []
    for at in range(length):
        row = {
            f"${number}": None if at >= len(array) or array[at] == UNDEFINED else array[at]
            for number, array in enumerate(arrays, start=1)
            if any(arrays)
        }
        rows.append(row)
    return rows


def _split(text: str, separator: str) -> list[Value]:
    return [variants.text_value(part) for part in (text.split(separator) if separator else [text])]


def _strtok_to_array(text: str, delimiters: str) -> list[Value]:
    pieces = re.split(f"[{re.escape(delimiters)}]", text) if delimiters else [text]
    return [variants.text_value(piece) for piece in pieces if piece]


# Objects


def _object(pairs: list[Value], *, keeps_null: bool) -> Value:
    members: dict[str, Value] = {}
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        if name is None or name == UNDEFINED:
            continue
        if value == UNDEFINED:
            if not keeps_null:
                continue
            value = None
        text = variants.scalar_text(name) or ""
        if text in members:
            raise duplicate_key(text)
        members[text] = value
    return members


def duplicate_key(name: str) -> ValueError:
    return coded("100104", f"Duplicate field key '{name}'")


def _arrays_to_object(keys: list[Value], values: list[Value]) -> Value:
    if len(keys) != len(values):
        raise coded("100107", "The arrays of keys and of values must have the same length")
    pairs = [each for pair in zip(keys, values, strict=True) for each in pair]
    return _object(pairs, keeps_null=True)


def _object_insert(members: dict[str, Value], name: str, value: Value, update: bool) -> Value:
    if value == UNDEFINED:
        return members
    if name in members and not update:
        raise duplicate_key(name)
    return {**members, name: value}


def _names_of(keys: list[Value]) -> set[str]:
    flat = keys[0] if len(keys) == 1 and isinstance(keys[0], list) else keys
    return {variants.scalar_text(key) or "" for key in flat}


def _object_delete(members: dict[str, Value], keys: list[Value]) -> Value:
    gone = _names_of(keys)
    return {name: value for name, value in members.items() if name not in gone}


def _object_pick(members: dict[str, Value], keys: list[Value]) -> Value:
    kept = _names_of(keys)
    return {name: value for name, value in members.items() if name in kept}


def _object_keys(members: dict[str, Value]) -> list[Value]:
    return [variants.text_value(name) for name in sorted(members)]


def _to_object(value: Value) -> Value:
    if value is None or isinstance(value, dict):
        return MISSING if value is None else value
    raise failed_cast(value, "OBJECT")


def failed_cast(value: Value, target: str) -> ValueError:
    """Return the error of a value that cannot become the target type."""
    shown = variants.plain_text(variants.dumps(value))
    return coded("100071", f"Failed to cast variant value {shown} to {target}")


def _parse_url(text: str) -> Value:
    try:
        return _of_plain(locators.parse_url(text))
    except ValueError as error:
        raise coded("100139", f"Error parsing URL: {error}") from None


def _parse_ip(text: str, ip_type: str) -> Value:
    try:
        return _of_plain(locators.parse_ip(text, ip_type))
    except ValueError as error:
        raise coded("100139", f"Error parsing IP: {error}") from None


def _permissive(parse: Callable[..., dict[str, Any]]) -> Callable[..., Value]:
    def compute(*arguments: str) -> Value:
        try:
            return _of_plain(parse(*arguments))
        except ValueError as error:
            return {"error": str(error)}

    return compute


def _of_plain(value: Any) -> Value:
    """Return an object of texts and whole numbers as a value."""
    if isinstance(value, dict):
        return {name: _of_plain(item) for name, item in value.items()}
    return variants.text_value(value) if isinstance(value, str) else value


def _row(
    compute: Callable[..., Any],
    arguments: str,
    result: Form,
    *,
    takes_null: bool = False,
) -> RowFunction:
    forms: Sequence[Any] = arguments.split()
    return RowFunction(
        compute=compute, arguments=tuple(forms), result=result, takes_null=takes_null
    )


FUNCTIONS: dict[str, RowFunction] = {
    "_v_parse_json": _row(_parse_json, "text", "text"),
    "_v_parse_json_repeats": _row(partial(_parse_json, repeats=True), "text", "text"),
    "_v_try_parse_json": _row(_try_parse_json, "text", "text"),
    "_v_try_parse_json_repeats": _row(partial(_try_parse_json, repeats=True), "text", "text"),
    "_v_check_json": _row(_check_json, "text", "text"),
    "_v_read": _row(variants.loads_stored, "text", "value"),
    "_v_to_json": _row(_to_json, "value", "text"),
    "_v_stored": _row(_stored, "value", "text"),
    "_v_order": _row(_same, "value", "text"),
    "_v_typeof": _row(variants.type_name, "value", "text"),
    "_v_only": _row(_only, "value text", "value"),
    "_v_strip_null_value": _row(_strip_null, "value", "value"),
    "_v_get": _row(_get, "value value", "value"),
    "_v_get_ignore_case": _row(_get_ignore_case, "value text", "value"),
    "_v_get_path": _row(_get_path, "value text", "value"),
    "_v_json_path_text": _row(_json_path_text, "text text", "text"),
    "_v_array_append": _row(lambda a, v: [*a, v], "array value", "array", takes_null=True),
    "_v_array_prepend": _row(lambda a, v: [v, *a], "array value", "array", takes_null=True),
    "_v_array_cat": _row(lambda a, b: [*a, *b], "array array", "array"),
    "_v_array_compact": _row(_compact, "array", "array"),
    "_v_array_contains": _row(_contains, "value array", "boolean", takes_null=True),
    "_v_array_distinct": _row(_first_of_each, "array", "array"),
    "_v_array_except": _row(_except, "array array", "array"),
    "_v_array_flatten": _row(_flattened, "array", "array"),
    "_v_array_generate_range": _row(_range, "whole whole whole", "array"),
    "_v_array_insert": _row(_insert, "array whole value", "array", takes_null=True),
    "_v_array_intersection": _row(_intersection, "array array", "array"),
    "_v_array_max": _row(_most(greatest=True), "array", "value"),
    "_v_array_mode": _row(_mode, "array", "value"),
    "_v_array_min": _row(_most(greatest=False), "array", "value"),
    "_v_array_position": _row(_position, "value array", "whole", takes_null=True),
    "_v_array_remove": _row(_remove, "array value", "array"),
    "_v_array_remove_at": _row(_remove_at, "array whole", "array"),
    "_v_array_reverse": _row(lambda a: a[::-1], "array", "array"),
    "_v_array_size": _row(len, "array", "whole"),
    "_v_array_slice": _row(lambda a, low, high: a[low:high], "array whole whole", "array"),
    "_v_array_sort": _row(_sort, "array boolean boolean", "array"),
    "_v_array_to_string": _row(_to_string, "array text", "text"),
    "_v_array_union": _row(_union, "array", "array"),
    "_v_array_variance": _row(_variance, "array whole", "value"),
    "_v_arrays_overlap": _row(_overlap, "array array", "boolean"),
    "_v_arrays_to_object": _row(_arrays_to_object, "array array", "object"),
    "_v_arrays_zip": _row(_zip, "array", "array"),
    "_v_to_array": _row(_to_array, "value", "array"),
    "_v_split": _row(_split, "text text", "array"),
    "_v_strtok_to_array": _row(_strtok_to_array, "text text", "array"),
    "_v_object": _row(lambda pairs: _object(pairs, keeps_null=False), "array", "object"),
    "_v_object_keep_null": _row(lambda pairs: _object(pairs, keeps_null=True), "array", "object"),
    "_v_object_insert": _row(
        _object_insert, "object text value boolean", "object", takes_null=True
    ),
    "_v_object_delete": _row(_object_delete, "object array", "object"),
    "_v_object_pick": _row(_object_pick, "object array", "object"),
    "_v_object_keys": _row(_object_keys, "object", "array"),
    "_v_parse_url": _row(_parse_url, "text", "object"),
    "_v_parse_url_permissive": _row(_permissive(locators.parse_url), "text", "object"),
    "_v_parse_ip": _row(_parse_ip, "text text", "object"),
    "_v_parse_ip_permissive": _row(_permissive(locators.parse_ip), "text text", "object"),
    "_v_to_object": _row(_to_object, "value", "object"),
}
"""The functions of one row, by the name of their kernel."""
