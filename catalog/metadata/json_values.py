"""rule: typed reads from decoded JSON of a client.

Each function returns the value under a name or raises BadUpdate with the message of Iceberg's own
parser. A malformed body and a violated rule both raise BadUpdate; only the message differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from catalog.metadata import errors

Json: TypeAlias = dict[str, Any]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_SHOWN_CHARACTERS_MAX = 200
_CONTAINERS = (dict, list, tuple)


def shown(value: object) -> str:
    """Return value as JSON text, cut to a length for error messages."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "..."


def has_more_values(value: object, limit: int) -> bool:
    """Return whether a JSON value has more than limit values, itself and members included."""
    waiting: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    count = 1
    while waiting and count <= limit:
        inner = waiting.pop()
        members = inner.values() if isinstance(inner, dict) else inner
        count += len(members)
        if count <= limit:
            waiting += [each for each in members if isinstance(each, _CONTAINERS)]
    return count > limit


def check_object(value: object, *, what: str) -> Json:
    """Return value as a JSON object. what: its name in the error, such as `table update`."""
    if not isinstance(value, dict):
        raise errors.BadUpdate(f"Cannot parse {what} from a non-object: {shown(value)}")
    return value


def get_object(source: Mapping[str, Any], name: str) -> Json:
    value = source.get(name)
    if value is None:
        raise errors.BadUpdate(f"Cannot parse missing field: {name}")
    return check_object(value, what=name)


def get_text(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        raise errors.BadUpdate(f"Cannot parse missing string: {name}")
    raise errors.BadUpdate(f"Cannot parse to a string value: {name}: {shown(value)}")


def find_text(source: Mapping[str, Any], name: str) -> str | None:
    value = source.get(name)
    return value if value is None or isinstance(value, str) else get_text(source, name)


# A number is compared by its exact type: true and false are ints too. Each function checks its own
# number, because a snapshot has seven, and a call costs as much as the check.


def get_int(source: Mapping[str, Any], name: str) -> int:
    """Return a 32-bit integer."""
    value = source.get(name)
    if type(value) is int and -INT_MAX - 1 <= value <= INT_MAX:
        return value
    raise _no_number(value, name, json_type="int")


def find_int(source: Mapping[str, Any], name: str) -> int | None:
    return None if source.get(name) is None else get_int(source, name)


def get_long(source: Mapping[str, Any], name: str) -> int:
    """Return a 64-bit integer."""
    value = source.get(name)
    if type(value) is int and -LONG_MAX - 1 <= value <= LONG_MAX:
        return value
    raise _no_number(value, name, json_type="long")


def find_long(source: Mapping[str, Any], name: str) -> int | None:
    return None if source.get(name) is None else get_long(source, name)


def get_list(source: Mapping[str, Any], name: str) -> list[Any]:
    value = source.get(name)
    if value is None:
        raise errors.BadUpdate(f"Cannot parse missing list: {name}")
    if not isinstance(value, list):
        raise errors.BadUpdate(f"Cannot parse {name} from non-array: {shown(value)}")
    return value


def get_numbers(source: Mapping[str, Any], name: str, *, limit: int) -> list[int]:
    """Return a list of integers from -limit - 1 to limit."""
    numbers = get_list(source, name)
    for number in numbers:
        if type(number) is not int or not -limit - 1 <= number <= limit:
            raise errors.BadUpdate(f"Cannot parse {name} from non-integer: {shown(number)}")
    return numbers


def get_texts(source: Mapping[str, Any], name: str) -> list[str]:
    texts = get_list(source, name)
    for text in texts:
        if not isinstance(text, str):
            raise errors.BadUpdate(f"Cannot parse string from non-text value: {shown(text)}")
    return texts


def get_text_map(source: Mapping[str, Any], name: str) -> dict[str, str]:
    entries = get_object(source, name)
    for key, value in entries.items():
        if not isinstance(value, str):
            get_text(entries, key)
    return entries


def next_id(highest: int, *, what: str) -> int:
    """Return the id after the highest one. Raises BadUpdate if no 32-bit integer is left.

    An id beyond that could be written, and no client could read the metadata again.
    """
    if highest >= INT_MAX:
        raise errors.BadUpdate(f"Cannot add {what}: the highest id is {highest} already")
    return highest + 1


def _no_number(value: object, name: str, *, json_type: str) -> errors.BadUpdate:
    """Return the error of a value that is absent, or no integer of json_type."""
    if value is None:
        return errors.BadUpdate(f"Cannot parse missing {json_type}: {name}")
    return errors.BadUpdate(f"Cannot parse to {_article(json_type)} value: {name}: {shown(value)}")


def _article(json_type: str) -> str:
    return f"an {json_type}" if json_type == "int" else f"a {json_type}"
