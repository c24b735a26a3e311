"""rule: whether members satisfy the model's constraints, with AWS's own messages.

Clients check lengths at most, and never patterns, so all constraints are checked here: required
members, types, patterns (against the whole value), lengths, ranges, enumerations, unions. All
violations are reported in the model's order, up to a bound. The members' meaning is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from server.aws import errors, shapes

FAULTS_MAX: Final = 10
VALUE_SHOWN_CHARACTERS_MAX: Final = 256

INTEGER_RANGES: Final = {
    "integer": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}


def check_members(
    service: shapes.ServiceModel, operation: shapes.OperationModel, members: Mapping[str, Any]
) -> None:
    """Raise ValidationFailed unless members (by the model's names) are a valid input."""
    if operation.input is not None:
        violations = _faults_of_structure(service, service.shapes[operation.input], members, "")
        faults = tuple(islice(violations, FAULTS_MAX))
        if faults:
            raise errors.ValidationFailed(faults)


def _faults(
    service: shapes.ServiceModel, shape: shapes.Shape, value: Any, path: str
) -> Iterator[errors.Violation]:
    match shape.type:
        case "document":
            return
        case "string" if isinstance(value, str):
            yield from _faults_of_text(shape, value, path)
        case "integer" | "long" if isinstance(value, int) and not isinstance(value, bool):
            yield from _faults_of_number(shape, value, path)
        case "boolean" if isinstance(value, bool):
            return
        case "list" if isinstance(value, list):
            yield from _faults_of_length(shape, len(value), value, path)
            yield from _faults_of_list(service, shape, value, path)
        case "map" if isinstance(value, Mapping):
            yield from _faults_of_length(shape, len(value), value, path)
            yield from _faults_of_map(service, shape, value, path)
        case "structure" if isinstance(value, Mapping):
            yield from _faults_of_structure(service, shape, value, path)
        case type_name:
            yield _fault(path, value, f"Member must be of type {type_name}")


def _faults_of_structure(
    service: shapes.ServiceModel, shape: shapes.Shape, value: Mapping[str, Any], path: str
) -> Iterator[errors.Violation]:
    for member in shape.members:
        inner = f"{path}.{member.name}" if path else member.name
        if member.name in value:
            yield from _faults(service, service.shapes[member.shape], value[member.name], inner)
        elif member.name in shape.required:
            yield _fault(inner, None, "Member must not be null")
    if shape.is_union and len(value) != 1:
        names = ", ".join(member.name for member in shape.members)
        yield _fault(path, value, f"Member must have exactly one of its members set: [{names}]")


def _faults_of_list(
    service: shapes.ServiceModel, shape: shapes.Shape, value: Sequence[Any], path: str
) -> Iterator[errors.Violation]:
    assert shape.element is not None
    element = service.shapes[shape.element]
    for number, item in enumerate(value, 1):
        yield from _faults(service, element, item, f"{path}.{number}.member")


def _faults_of_map(
    service: shapes.ServiceModel, shape: shapes.Shape, value: Mapping[str, Any], path: str
) -> Iterator[errors.Violation]:
    assert shape.key is not None
    assert shape.element is not None
    key_shape = service.shapes[shape.key]
    element = service.shapes[shape.element]
    for name, item in value.items():
        yield from _faults(service, key_shape, name, f"{path}.key")
        inner = f"{path}.{_show(name)}"
        if item is None:
            yield _fault(inner, None, "Member must not be null")
        else:
            yield from _faults(service, element, item, inner)


def _faults_of_text(shape: shapes.Shape, value: str, path: str) -> Iterator[errors.Violation]:
    # Lengths first: a value beyond its bound is never matched against a pattern.
    too_long = False
    for fault in _faults_of_length(shape, len(value), value, path):
        too_long = True
        yield fault
    if shape.pattern and not too_long and not re.fullmatch(shape.pattern, value):
        constraint = f"Member must satisfy regular expression pattern: {shape.pattern}"
        yield _fault(path, value, constraint)
    if shape.enum and value not in shape.enum:
        yield _fault(path, value, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")


def _faults_of_length(
    shape: shapes.Shape, length: int, value: Any, path: str
) -> Iterator[errors.Violation]:
    if shape.minimum is not None and length < shape.minimum:
        constraint = f"Member must have length greater than or equal to {shape.minimum}"
        yield _fault(path, value, constraint)
    if shape.maximum is not None and length > shape.maximum:
        constraint = f"Member must have length less than or equal to {shape.maximum}"
        yield _fault(path, value, constraint)


def _faults_of_number(shape: shapes.Shape, value: int, path: str) -> Iterator[errors.Violation]:
    least, most = INTEGER_RANGES[shape.type]
    if shape.minimum is not None:
        least = max(least, shape.minimum)
    if shape.maximum is not None:
        most = min(most, shape.maximum)
    if value < least:
        yield _fault(path, value, f"Member must have value greater than or equal to {least}")
    if value > most:
        yield _fault(path, value, f"Member must have value less than or equal to {most}")


def _fault(path: str, value: Any, constraint: str) -> errors.Violation:
    return errors.Violation(
        path=path, value=None if value is None else _show(value), constraint=constraint
    )


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text[:VALUE_SHOWN_CHARACTERS_MAX]
