"""rule: AWS's rest-json protocol: decodes members of a request, encodes results.

Parsing only gives each member the model's name and, in the query, its type if the text has that
form; other values stay as received, and `check` reports them with AWS's messages. Encoding is
strict: a result outside the model is an error of this server.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from server import documents, limits
from server.aws import errors, shapes

DEPTH_MAX: Final = 100


def parse_members(
    service: shapes.ServiceModel,
    operation: shapes.OperationModel,
    *,
    labels: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    body: bytes,
) -> dict[str, Any]:
    """Return an operation's members by the model's names, without absent and null ones.

    labels: of the path, pairs: of the query, both decoded. Raises MalformedBody. Unknown members
    are ignored, as AWS does.
    """
    members: dict[str, Any] = {}
    said: Mapping[str, Any] | None = None
    for member in service.input_members(operation):
        shape = service.shapes[member.shape]
        match member.location:
            case "uri":
                members[member.name] = labels[member.wire_name]
            case "querystring":
                values = [value for name, value in pairs if name == member.wire_name]
                if values:
                    members[member.name] = _parse_query(service, shape, values)
            case "body":
                if said is None:
                    said = _parse_object(body)
                if said.get(member.wire_name) is not None:
                    members[member.name] = _rename(service, shape, said[member.wire_name], 1)
            case other:
                raise AssertionError(f"{operation.name} has a member in {other}")
    return members


def encode_result(
    service: shapes.ServiceModel, operation: shapes.OperationModel, result: Mapping[str, Any]
) -> bytes:
    """Return the body of a success. Times in result are Unix milliseconds."""
    if operation.output is None:
        assert not result, f"{operation.name} answers nothing"
        return b"" if operation.status == 204 else b"{}"
    return orjson.dumps(_encode(service, service.shapes[operation.output], result))


def encode_error(code: str, message: str) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """Return headers and body of an error. code: the name by which clients raise it."""
    headers = (("content-type", "application/json"), ("x-amzn-ErrorType", code))
    return headers, orjson.dumps({"__type": code, "message": message})


def _parse_object(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    if documents.has_too_many_values(body):
        raise errors.MalformedDocument(
            f"The request body holds more than {limits.JSON_VALUES_MAX} JSON values."
        )
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.MalformedDocument(f"The request body is not valid JSON: {error}") from error
    if not isinstance(said, dict):
        raise errors.MalformedDocument("The request body is not a JSON object.")
    return said


def _parse_query(service: shapes.ServiceModel, shape: shapes.Shape, values: Sequence[str]) -> Any:
    if shape.type == "list":
        assert shape.element is not None
        element = service.shapes[shape.element]
        return [_parse_text(element, value) for value in values]
    return _parse_text(shape, values[0])


def _parse_text(shape: shapes.Shape, text: str) -> Any:
    if shape.type in ("integer", "long"):
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 20:
            return int(text)
    if shape.type == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


def _rename(service: shapes.ServiceModel, shape: shapes.Shape, value: Any, depth: int) -> Any:
    """Return value with wire names replaced by the model's, without nulls of structures."""
    if depth > DEPTH_MAX:
        raise errors.MalformedDocument(
            f"The request body is nested deeper than {DEPTH_MAX} levels."
        )
    match shape.type, value:
        case "structure", dict():
            return {
                member.name: _rename(
                    service, service.shapes[member.shape], value[member.wire_name], depth + 1
                )
                for member in shape.members
                if value.get(member.wire_name) is not None
            }
        case ("list", list()) if shape.element is not None:
            element = service.shapes[shape.element]
            return [_rename(service, element, item, depth + 1) for item in value]
        case ("map", dict()) if shape.element is not None:
            element = service.shapes[shape.element]
            return {
                name: _rename(service, element, item, depth + 1) for name, item in value.items()
            }
        case "document", _:
            _check_depth(value, depth)
    return value


def _check_depth(value: Any, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise errors.MalformedDocument(
            f"The request body is nested deeper than {DEPTH_MAX} levels."
        )
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for item in inner:
            _check_depth(item, depth + 1)


def _encode(service: shapes.ServiceModel, shape: shapes.Shape, value: Any) -> Any:
    match shape.type:
        case "structure":
            return _encode_structure(service, shape, value)
        case "list":
            assert shape.element is not None
            element = service.shapes[shape.element]
            return [_encode(service, element, item) for item in value]
        case "map":
            assert shape.element is not None
            element = service.shapes[shape.element]
            return {name: _encode(service, element, item) for name, item in value.items()}
        case "timestamp":
            return format_timestamp(value, shape.timestamp_format)
        case "string":
            assert isinstance(value, str), f"{shape.name} is no text: {value!r}"
    return value


def _encode_structure(
    service: shapes.ServiceModel, shape: shapes.Shape, value: Mapping[str, Any]
) -> dict[str, Any]:
    member_names = {member.name for member in shape.members}
    assert value.keys() <= member_names, (
        f"{shape.name} has no {sorted(value.keys() - member_names)}"
    )
    missing = shape.required - value.keys()
    assert not missing, f"{shape.name} lacks {sorted(missing)}"
    return {
        member.wire_name: _encode(service, service.shapes[member.shape], value[member.name])
        for member in shape.members
        if member.name in value
    }


def format_timestamp(time_ms: int, timestamp_format: str | None) -> str | float:
    """Return a time as in a body: ISO 8601 if the model says so, otherwise epoch seconds."""
    if timestamp_format == "iso8601":
        moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return time_ms / 1000
