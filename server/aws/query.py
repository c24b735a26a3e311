"""rule: AWS's Query protocol: members of a form, and results and errors in XML.

A member's name in the form is its path in the model: `Tags.member.1.Key`. As in `restjson`, parsing
gives each member its type if the text has that form; other values stay text, and `check` reports
them with AWS's messages. Encoding is strict: a result outside the model is an error of this server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from server import xmltext
from server.aws import errors, restjson, shapes

DEPTH_MAX: Final = 12
DIGITS_MAX: Final = 20
INDEX_DIGITS_MAX: Final = 4

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML cannot have; a message may quote them."""
_UNKNOWN: Final = "\ufffd"

Tree: TypeAlias = dict[str, Any]
"""The values of a form by the parts of their names: a name's first part -> a text or a Tree."""


def parse_members(
    service: shapes.ServiceModel,
    operation: shapes.OperationModel,
    pairs: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Return an operation's members by the model's names. Unknown members are ignored.

    pairs: of the form, decoded. Raises MalformedDocument.
    """
    if operation.input is None:
        return {}
    members = _parse(service, service.shapes[operation.input], _grow(pairs))
    assert isinstance(members, dict)
    return members


def encode_result(
    service: shapes.ServiceModel,
    operation: shapes.OperationModel,
    result: Mapping[str, Any],
    *,
    namespace: str,
    request_id: str,
) -> bytes:
    """Return the document of a success. Times in result are Unix milliseconds."""
    pieces = [f'<{operation.name}Response xmlns="{namespace}">']
    if operation.output is None:
        assert not result, f"{operation.name} answers nothing"
    else:
        shape = service.shapes[operation.output]
        pieces += _encode(service, shape, operation.result_wrapper or shape.name, result)
    pieces.append(
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        f"</{operation.name}Response>"
    )
    return "".join(pieces).encode()


def encode_error(
    code: str, message: str, *, is_senders: bool, namespace: str, request_id: str
) -> bytes:
    """Return the document of an error. code: the name by which clients raise it."""
    return (
        f'<ErrorResponse xmlns="{namespace}"><Error>'
        f"<Type>{'Sender' if is_senders else 'Receiver'}</Type><Code>{code}</Code>"
        f"<Message>{xmltext.escape(_CONTROL.sub(_UNKNOWN, message))}</Message></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def _grow(pairs: Iterable[tuple[str, str]]) -> Tree:
    """Return the tree of a form. The first value of a name counts."""
    tree: Tree = {}
    for name, value in pairs:
        *path, last = name.split(".", DEPTH_MAX)
        node: Any = tree
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise errors.MalformedDocument(f"{name[:100]} is below a member that is a text.")
        if isinstance(node.setdefault(last, value), dict):
            raise errors.MalformedDocument(f"{name[:100]} is a text and has members.")
    return tree


def _parse(service: shapes.ServiceModel, shape: shapes.Shape, node: Tree | str) -> Any:
    match shape.type, node:
        case "structure", dict():
            return {
                member.name: _parse(service, service.shapes[member.shape], node[member.wire_name])
                for member in shape.members
                if member.wire_name in node
            }
        case "list", dict():
            assert shape.element is not None
            element = service.shapes[shape.element]
            return [_parse(service, element, item) for item in _items(node.get("member", {}))]
        case "map", dict():
            assert shape.element is not None
            element = service.shapes[shape.element]
            entries = [entry for entry in _items(node.get("entry", {})) if isinstance(entry, dict)]
            return {
                str(entry["key"]): _parse(service, element, entry["value"])
                for entry in entries
                if "key" in entry and "value" in entry
            }
        case ("list", "") | ("map", ""):
            return [] if shape.type == "list" else {}
        case (("integer" | "long"), str()):
            digits = node.removeprefix("-")
            is_number = digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX
            return int(node) if is_number else node
        case "boolean", ("true" | "false"):
            return node == "true"
    return node


def _items(numbered: Any) -> list[Any]:
    """Return the items of a list in the order of their numbers."""
    if not isinstance(numbered, dict):
        raise errors.MalformedDocument("A list's items are numbered from 1.")
    for number in numbered:
        if not (number.isascii() and number.isdigit() and len(number) <= INDEX_DIGITS_MAX):
            raise errors.MalformedDocument(f"{number[:20]!r} is not the number of a list's item.")
    return [numbered[number] for number in sorted(numbered, key=int)]


def _encode(
    service: shapes.ServiceModel, shape: shapes.Shape, name: str, value: Any
) -> Iterable[str]:
    """Yield an element and its content."""
    yield f"<{name}>"
    match shape.type:
        case "structure":
            yield from _encode_structure(service, shape, value)
        case "list":
            assert shape.element is not None
            element = service.shapes[shape.element]
            for item in value:
                yield from _encode(service, element, "member", item)
        case "map":
            assert shape.element is not None
            element = service.shapes[shape.element]
            for key, item in value.items():
                yield f"<entry><key>{xmltext.escape(key)}</key>"
                yield from _encode(service, element, "value", item)
                yield "</entry>"
        case "timestamp":
            yield str(restjson.format_timestamp(value, "iso8601"))
        case "boolean":
            yield "true" if value else "false"
        case "string":
            assert isinstance(value, str), f"{shape.name} is no text: {value!r}"
            yield xmltext.escape(value)
        case _:
            yield str(value)
    yield f"</{name}>"


def _encode_structure(
    service: shapes.ServiceModel, shape: shapes.Shape, value: Mapping[str, Any]
) -> Iterable[str]:
    unknown = value.keys() - {member.name for member in shape.members}
    assert not unknown, f"{shape.name} has no {sorted(unknown)}"
    missing = shape.required - value.keys()
    assert not missing, f"{shape.name} lacks {sorted(missing)}"
    for member in shape.members:
        if member.name in value:
            yield from _encode(
                service, service.shapes[member.shape], member.wire_name, value[member.name]
            )
