"""rule: an AWS service model as values: operations, their routes, and the shapes of their members.

Built once from the model's JSON form, without documentation and parts that only clients need
(endpoints, paginators, waiters). Members keep the model's order, in which AWS also reports
violations. Depends on the form of a model, not on one service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

Location: TypeAlias = Literal["body", "uri", "querystring", "header", "headers", "statusCode"]

GREEDY_LABELS: Final = frozenset({"resourceArn"})
"""Labels that take the rest of the path: some clients send an ARN's own slashes decoded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member of a structure. name: the model's; wire_name: in messages; shape: its name."""

    name: str
    wire_name: str
    shape: str
    location: Location


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One shape with its constraints. type: the model's type, or `document` for any JSON value.

    minimum, maximum: of a string's or list's length or a number's value. element: shape of a
    list's elements or a map's values; key: shape of a map's keys. status: of an error shape.
    """

    name: str
    type: str
    members: tuple[Member, ...] = ()
    required: frozenset[str] = frozenset()
    is_union: bool = False
    element: str | None = None
    key: str | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    timestamp_format: str | None = None
    status: int | None = None

    def member(self, name: str) -> Member:
        """Return the member with the model's name. Raises KeyError."""
        for member in self.members:
            if member.name == name:
                return member
        raise KeyError(name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A variable segment of a route. greedy: it takes the rest of the path."""

    name: str
    greedy: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationModel:
    """One operation: its route, the status of its success, its input and output shapes.

    result_wrapper: the element around the output's members in the Query protocol.
    """

    name: str
    method: str
    route: tuple[str | Label, ...]
    status: int
    input: str | None
    output: str | None
    errors: tuple[str, ...]
    result_wrapper: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceModel:
    """A service's operations by name and shapes by name. version: of its API, a date."""

    name: str
    operations: Mapping[str, OperationModel]
    shapes: Mapping[str, Shape]
    version: str = ""

    def input_members(self, operation: OperationModel) -> tuple[Member, ...]:
        """Return the members of an operation's input, in the model's order."""
        return () if operation.input is None else self.shapes[operation.input].members


def parse_service(document: Mapping[str, Any]) -> ServiceModel:
    """Return the service that a model (decoded JSON, version 2.0) describes."""
    return ServiceModel(
        name=document["metadata"]["serviceId"],
        operations={
            name: _parse_operation(name, body) for name, body in document["operations"].items()
        },
        shapes={name: _parse_shape(name, body) for name, body in document["shapes"].items()},
        version=document["metadata"]["apiVersion"],
    )


def _parse_operation(name: str, body: Mapping[str, Any]) -> OperationModel:
    http = body["http"]
    return OperationModel(
        name=name,
        method=http["method"],
        route=_parse_route(http["requestUri"]),
        status=http.get("responseCode", 200),
        input=body["input"]["shape"] if "input" in body else None,
        output=body["output"]["shape"] if "output" in body else None,
        errors=tuple(error["shape"] for error in body.get("errors", ())),
        result_wrapper=body.get("output", {}).get("resultWrapper"),
    )


def _parse_route(request_uri: str) -> tuple[str | Label, ...]:
    path = request_uri.partition("?")[0].removeprefix("/")
    if not path:
        return ()
    return tuple(_parse_segment(segment) for segment in path.split("/"))


def _parse_segment(segment: str) -> str | Label:
    if not segment.startswith("{"):
        return segment
    name = segment[1:-1]
    return Label(name=name.removesuffix("+"), greedy=name.endswith("+") or name in GREEDY_LABELS)


def _parse_shape(name: str, body: Mapping[str, Any]) -> Shape:
    shape_type = "document" if body.get("document") else body["type"]
    element = body.get("member") or body.get("value")
    return Shape(
        name=name,
        type=shape_type,
        members=tuple(
            _parse_member(member, said) for member, said in body.get("members", {}).items()
        ),
        required=frozenset(body.get("required", ())),
        is_union=body.get("union", False),
        element=element["shape"] if element else None,
        key=body["key"]["shape"] if "key" in body else None,
        pattern=_parse_pattern(body.get("pattern")),
        enum=tuple(body.get("enum", ())),
        minimum=body.get("min"),
        maximum=body.get("max"),
        timestamp_format=body.get("timestampFormat"),
        status=body.get("error", {}).get("httpStatusCode"),
    )


def _parse_pattern(pattern: str | None) -> str | None:
    """Return a pattern without the classes of Unicode properties, which `re` does not have.

    Inside of brackets the replacements match at least as much.
    """
    if pattern is None or "\\p{" not in pattern:
        return pattern
    for class_name, replacement in _PROPERTIES.items():
        pattern = pattern.replace(f"\\p{{{class_name}}}", replacement)
    return pattern


_PROPERTIES: Final = {
    "L": r"\w",
    "N": r"\w",
    # \s has control characters, which XML cannot have.
    "Z": r" \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
}


def _parse_member(name: str, description: Mapping[str, Any]) -> Member:
    return Member(
        name=name,
        wire_name=description.get("locationName", name),
        shape=description["shape"],
        location=cast(Location, description.get("location", "body")),
    )
