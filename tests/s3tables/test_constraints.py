"""Every constraint of AWS's model, broken one at a time, in every operation that is done.

The model is read by botocore itself and the requests are boto3's, which is told not to check them.
Each must be refused as AWS refuses it, and change nothing.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from s3tables import face
from tests.s3tables.tables_service import TablesService, bucket_arn, opened

MODEL = botocore.session.get_session().get_service_model("s3tables")
BUCKET = bucket_arn("checked")
SAMPLES = {
    "TableBucketARN": BUCKET,
    "TableARN": f"{BUCKET}/table/6fd43b20-0000-4000-8000-000000000000",
    "ResourceArn": BUCKET,
    "EncryptionConfigurationKmsKeyArnString": "arn:aws:kms:us-east-1:000000000000:key/k",
    "TableBucketName": "other",
    "Document": "long",
}
"""Values that keep their shapes' constraints, where a letter would not."""

Broken = tuple[Any, str, str]
"""A value, where its fault is, and the constraint that it breaks, in AWS's words."""


def sample(shape: Any) -> Any:
    """A valid value of a shape, with its required members alone."""
    if shape.name in SAMPLES:
        return SAMPLES[shape.name]
    match shape.type_name:
        case "string":
            return shape.enum[0] if shape.enum else "x" * max(1, shape.metadata.get("min", 1))
        case "integer" | "long":
            return shape.metadata.get("min", 1)
        case "boolean":
            return True
        case "list":
            return [sample(shape.member)]
        case "map":
            return {sample(shape.key): sample(shape.value)}
        case "structure" if shape.is_tagged_union:
            name, member = next(iter(shape.members.items()))
            return {name: sample(member)}
        case "structure":
            return {name: sample(shape.members[name]) for name in shape.required_members}
    raise AssertionError(shape)


def broken(shape: Any, path: str) -> Iterator[Broken]:
    """Every way to break a shape in one place. Values of another type are not among them."""
    if getattr(shape, "is_document_type", False):
        return
    match shape.type_name:
        case "string":
            yield from broken_text(shape, path)
        case "integer" | "long":
            low, high = shape.metadata.get("min"), shape.metadata.get("max")
            if low is not None:
                yield low - 1, path, f"Member must have value greater than or equal to {low}"
            if high is not None:
                yield high + 1, path, f"Member must have value less than or equal to {high}"
        case "list":
            low, high = shape.metadata.get("min"), shape.metadata.get("max")
            one = sample(shape.member)
            if low:
                yield [], path, f"Member must have length greater than or equal to {low}"
            if high:
                more = [one] * (high + 1)
                yield more, path, f"Member must have length less than or equal to {high}"
            for value, where, constraint in broken(shape.member, f"{path}.1.member"):
                yield [value], where, constraint
        case "map":
            key = sample(shape.key)
            for value, where, constraint in broken(shape.key, f"{path}.key"):
                yield {value: sample(shape.value)}, where, constraint
            for value, where, constraint in broken(shape.value, f"{path}.{key}"):
                yield {key: value}, where, constraint
        case "structure":
            yield from broken_structure(shape, path)


def broken_text(shape: Any, path: str) -> Iterator[Broken]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low:
        value = "x" * (low - 1)
        yield value, path, f"Member must have length greater than or equal to {low}"
    if high is not None:
        value = sample(shape)
        value += "x" * (high + 1 - len(value))
        yield value, path, f"Member must have length less than or equal to {high}"
    pattern = shape.metadata.get("pattern")
    if pattern is not None:
        # Whole values count: one that only begins right, or ends right, is wrong.
        for value in (
            "no Match!".ljust(low or 0, "!"),
            sample(shape) + "\n",
            "\u00e9" + sample(shape),
        ):
            assert not re.fullmatch(pattern, value)
            yield value, path, f"Member must satisfy regular expression pattern: {pattern}"
    if shape.enum:
        words = f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
        yield shape.enum[0].swapcase(), path, words


def broken_structure(shape: Any, path: str) -> Iterator[Broken]:
    whole = sample(shape)
    for name in shape.required_members:
        inner = f"{path}.{name}" if path else name
        if shape.members[name].serialization.get("location") != "uri":
            rest = {key: value for key, value in whole.items() if key != name}
            yield rest, inner, "Member must not be null"
    if shape.is_tagged_union:
        names = ", ".join(shape.members)
        words = f"Member must have exactly one of its members set: [{names}]"
        yield {}, path, words
    for name, member in shape.members.items():
        inner = f"{path}.{name}" if path else name
        base = {} if shape.is_tagged_union else whole
        for value, where, constraint in broken(member, inner):
            in_path = member.serialization.get("location") == "uri"
            if in_path and (value == "" or "/" in value.removeprefix(BUCKET)):
                continue  # no route has an empty segment
            yield {**base, name: value}, where, constraint


CASES = [
    pytest.param(operation, members, path, constraint, id=f"{operation}-{path}-{number}")
    for operation in sorted(face.ROWS)
    for number, (members, path, constraint) in enumerate(
        broken(MODEL.operation_model(operation).input_shape, "")
    )
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TablesService]:
    path: Path = tmp_path_factory.mktemp("constraints") / "data"
    with opened(path) as opened_service:
        opened_service.client().create_table_bucket(name="checked")
        yield opened_service


@pytest.fixture(scope="module")
def client(service: TablesService) -> Any:
    return service.client()


def test_the_cases_break_every_constraint_of_every_operation() -> None:
    assert {case.values[0] for case in CASES} == set(face.ROWS)
    assert len(CASES) > 200
    broken_by_kind = {
        fault: sum(fault in str(case.values[3]) for case in CASES)
        for fault in ("null", "length", "value", "pattern", "enum", "exactly one")
    }
    assert all(broken_by_kind.values()), broken_by_kind


@pytest.mark.parametrize(("operation", "members", "path", "constraint"), CASES)
def test_a_broken_constraint_has_awss_message_and_changes_nothing(
    service: TablesService, client: Any, operation: str, members: Any, path: str, constraint: str
) -> None:
    before = everything(service)
    with pytest.raises(client.exceptions.BadRequestException) as caught:
        getattr(client, xform_name(operation))(**copy.deepcopy(members))
    answer = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
    message = answer["Error"]["Message"]
    assert re.match(r"[1-9] validation errors? detected: Value ", message)
    assert f" at '{path}' failed to satisfy constraint: {constraint}" in message
    if constraint == "Member must not be null":
        assert f"Value null at '{path}'" in message
    raw = service.log[-1][3]
    assert raw.headers["x-amzn-ErrorType"] == "BadRequestException"
    assert raw.json == {"__type": "BadRequestException", "message": message}
    assert everything(service) == before


TYPES = ("text", 5, 1.5, True, [1], {"a": 1})


def mistyped(shape: Any) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Bodies in which one member has a value of every type that is not its own; and where."""
    for name, member in shape.members.items():
        if "location" in member.serialization or getattr(member, "is_document_type", False):
            continue
        base = {} if getattr(shape, "is_tagged_union", False) else on_the_wire(shape, sample(shape))
        key, type_name = member.serialization.get("name", name), member.type_name
        own = {"string": str, "integer": int, "boolean": bool, "list": list}.get(type_name, dict)
        for value in TYPES:
            if type(value) is not own:
                yield {**base, key: value}, name, f"Member must be of type {type_name}"
        if type_name == "structure":
            for inner, where, constraint in mistyped(member):
                yield {**base, key: inner}, f"{name}.{where}", constraint


def on_the_wire(shape: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a structure that travels in the body, under the names it has there."""
    return {
        member.serialization.get("name", name): value[name]
        for name, member in shape.members.items()
        if name in value and "location" not in member.serialization
    }


@pytest.mark.parametrize("operation", sorted(face.ROWS))
def test_a_value_of_another_type_is_a_bad_request(
    service: TablesService, client: Any, operation: str
) -> None:
    shape = MODEL.operation_model(operation).input_shape
    before = everything(service)
    for body, path, constraint in mistyped(shape):
        sent = json.dumps(body).encode()

        def replace(params: dict[str, Any], sent: bytes = sent, **_: Any) -> None:
            params["body"] = sent

        client.meta.events.register_last("before-call.s3tables.*", replace)
        try:
            with pytest.raises(ClientError) as caught:
                getattr(client, xform_name(operation))(**sample(shape))
        finally:
            client.meta.events.unregister("before-call.s3tables.*", replace)
        error = caught.value.response["Error"]
        assert error["Code"] == "BadRequestException", (body, error)
        assert f"at '{path}' failed to satisfy constraint: {constraint}" in error["Message"]
    assert everything(service) == before


@pytest.mark.parametrize(
    ("operation", "name"),
    [("list_tables", "maxTables"), ("list_table_buckets", "maxBuckets")],
)
@pytest.mark.parametrize("value", ["ten", "1.5", "", "1e3", "\u0661", "9" * 30])
def test_a_page_size_that_is_no_number_is_a_bad_request(
    client: Any, operation: str, name: str, value: str
) -> None:
    members = {} if operation == "list_table_buckets" else {"tableBucketARN": BUCKET}
    with pytest.raises(client.exceptions.BadRequestException, match=f"at '{name}' failed"):
        getattr(client, operation)(**members, **{name: value})


def everything(service: TablesService) -> Any:
    buckets = service.lake.storage.buckets.list()
    return buckets, [service.lake.log(bucket.name) for bucket in buckets]
