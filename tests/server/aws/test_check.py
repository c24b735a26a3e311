"""Constraints of the model, and AWS's sentences for broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from server.aws import check, errors, model, shapes

SERVICE = model.load("s3tables")
BUCKET_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
TABLE_ARN = f"{BUCKET_ARN}/table/0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"

# A value that fits each pattern of the model, written by hand.
FITTING = {
    "AccountId": "000000000000",
    "EncryptionConfigurationKmsKeyArnString": "arn:aws:kms:us-east-1:000000000000:key/k",
    "IAMRole": "arn:aws:iam::000000000000:role/r",
    "MigrationId": "m-1",
    "NamespaceName": "sales",
    "ResourceArn": BUCKET_ARN,
    "RoleArn": "arn:aws:iam::000000000000:role/r",
    "S3BucketARN": "arn:aws:s3:::bucket-name",
    "TableARN": TABLE_ARN,
    "TableBucketARN": BUCKET_ARN,
    "TableBucketName": "lake",
    "TableName": "orders",
    "CreateNamespaceRequestNamespaceList": ["sales"],
}


def fitting(name: str) -> Any:
    """A valid value of a shape, with its required members only."""
    shape = SERVICE.shapes[name]
    if name in FITTING:
        return FITTING[name]
    match shape.type:
        case "string":
            return shape.enum[0] if shape.enum else "x" * max(1, shape.minimum or 1)
        case "integer" | "long":
            return shape.minimum or 1
        case "boolean":
            return True
        case "document":
            return {"any": ["thing"]}
        case "list":
            assert shape.element is not None
            return [fitting(shape.element) for _ in range(shape.minimum or 0)]
        case "map":
            return {}
        case "structure":
            members = shape.members[:1] if shape.is_union else shape.members
            return {
                member.name: fitting(member.shape)
                for member in members
                if shape.is_union or member.name in shape.required
            }
    raise AssertionError(shape.type)


def faults(operation: str, members: dict[str, Any]) -> tuple[errors.Violation, ...]:
    with pytest.raises(errors.ValidationFailed) as caught:
        check.check_members(SERVICE, SERVICE.operations[operation], members)
    return caught.value.faults


def members_of(operation: shapes.OperationModel) -> dict[str, Any]:
    return fitting(operation.input) if operation.input is not None else {}


def required_members() -> Iterator[tuple[str, str]]:
    for name, operation in SERVICE.operations.items():
        if operation.input is not None:
            for member in sorted(SERVICE.shapes[operation.input].required):
                yield name, member


def broken_patterns() -> Iterator[tuple[str, str, str]]:
    """Operation, member and a value that its pattern takes in part but not whole."""
    for name, operation in SERVICE.operations.items():
        for member in SERVICE.input_members(operation):
            shape = SERVICE.shapes[member.shape]
            if shape.pattern is not None:
                good = fitting(shape.name)
                yield name, member.name, f" {good}"
                yield name, member.name, f"{good}\n"
                if not shape.pattern.removesuffix(")").endswith(".+"):
                    yield name, member.name, f"{good}\u00e9"


@pytest.mark.parametrize("name", sorted(SERVICE.operations))
def test_each_operation_accepts_its_required_members_alone(name: str) -> None:
    operation = SERVICE.operations[name]
    check.check_members(SERVICE, operation, members_of(operation))


@pytest.mark.parametrize("name", sorted(SERVICE.operations))
def test_each_operation_accepts_every_member(name: str) -> None:
    operation = SERVICE.operations[name]
    members = {m.name: fitting(m.shape) for m in SERVICE.input_members(operation)}
    check.check_members(SERVICE, operation, members)


@pytest.mark.parametrize(("name", "member"), sorted(required_members()))
def test_each_required_member_missing_is_refused(name: str, member: str) -> None:
    members = members_of(SERVICE.operations[name])
    del members[member]
    with pytest.raises(errors.ValidationFailed) as caught:
        check.check_members(SERVICE, SERVICE.operations[name], members)
    assert str(caught.value) == (
        f"1 validation error detected: Value null at '{member}' failed to satisfy constraint: "
        "Member must not be null"
    )


@pytest.mark.parametrize(("name", "member", "value"), sorted(broken_patterns()))
def test_each_pattern_broken_is_refused_over_the_whole_value(
    name: str, member: str, value: str
) -> None:
    operation = SERVICE.operations[name]
    assert operation.input is not None
    shape = SERVICE.shapes[SERVICE.shapes[operation.input].member(member).shape]
    members = {**members_of(operation), member: value}
    expected = (
        f"Value '{value}' at '{member}' failed to satisfy constraint: "
        f"Member must satisfy regular expression pattern: {shape.pattern}"
    )
    with pytest.raises(errors.ValidationFailed) as caught:
        check.check_members(SERVICE, operation, members)
    assert str(caught.value) == f"1 validation error detected: {expected}"


@pytest.mark.parametrize(
    ("operation", "changed", "expected"),
    [
        ("ListTables", {"maxTables": 0}, "0|maxTables|value greater than or equal to 1"),
        ("ListTables", {"maxTables": 1001}, "1001|maxTables|value less than or equal to 1000"),
        ("ListTables", {"prefix": ""}, "|prefix|length greater than or equal to 1"),
        ("CreateTableBucket", {"name": "ab"}, "ab|name|length greater than or equal to 3"),
        ("CreateTableBucket", {"tags": {"": "v"}}, "|tags.key|length greater than or equal to 1"),
        ("CreateNamespace", {"namespace": []}, "[]|namespace|length greater than or equal to 1"),
        (
            "CreateNamespace",
            {"namespace": ["a", "b"]},
            '["a","b"]|namespace|length less than or equal to 1',
        ),
    ],
)
def test_lengths_and_ranges_have_their_sentences(
    operation: str, changed: dict[str, Any], expected: str
) -> None:
    members = {**members_of(SERVICE.operations[operation]), **changed}
    (fault,) = faults(operation, members)
    value, path, bound = expected.split("|")
    assert (fault.value, fault.path, fault.constraint) == (value, path, f"Member must have {bound}")


@pytest.mark.parametrize(
    ("operation", "changed", "expected"),
    [
        ("ListTables", {"maxTables": "ten"}, "ten|maxTables|Member must be of type integer"),
        ("ListTables", {"maxTables": True}, "true|maxTables|Member must be of type integer"),
        ("CreateTableBucket", {"name": 5}, "5|name|Member must be of type string"),
        ("CreateTableBucket", {"tags": []}, "[]|tags|Member must be of type map"),
        ("CreateTableBucket", {"tags": {"k": 1}}, "1|tags.k|Member must be of type string"),
        ("CreateTableBucket", {"tags": {"k": None}}, "None|tags.k|Member must not be null"),
        (
            "CreateNamespace",
            {"namespace": [None]},
            "None|namespace.1.member|Member must be of type string",
        ),
        (
            "CreateNamespace",
            {"namespace": ["A"]},
            "A|namespace.1.member|Member must satisfy regular expression pattern: [0-9a-z_]*",
        ),
        (
            "CreateTable",
            {"format": "DELTA"},
            "DELTA|format|Member must satisfy enum value set: [ICEBERG]",
        ),
        (
            "CreateTable",
            {"metadata": {}},
            "{}|metadata|Member must have exactly one of its members set: [iceberg]",
        ),
        (
            "CreateTable",
            {"metadata": {"iceberg": {"schema": {"fields": [{"name": "a"}]}}}},
            "None|metadata.iceberg.schema.fields.1.member.type|Member must not be null",
        ),
    ],
)
def test_each_other_constraint_has_its_sentence(
    operation: str, changed: dict[str, Any], expected: str
) -> None:
    members = {**members_of(SERVICE.operations[operation]), **changed}
    (fault,) = faults(operation, members)
    assert f"{fault.value}|{fault.path}|{fault.constraint}" == expected


def test_integers_are_bounded_by_their_type() -> None:
    field = {"id": 2**31, "name": "a", "type": "int"}
    members = {
        **members_of(SERVICE.operations["CreateTable"]),
        "metadata": {"iceberg": {"schema": {"fields": [field]}}},
    }
    (fault,) = faults("CreateTable", members)
    assert fault.constraint == "Member must have value less than or equal to 2147483647"


def test_several_faults_are_in_one_message_in_the_models_order() -> None:
    with pytest.raises(errors.ValidationFailed) as caught:
        check.check_members(SERVICE, SERVICE.operations["CreateTable"], {"name": "A!"})
    assert str(caught.value).startswith(
        "4 validation errors detected: Value null at 'tableBucketARN' failed to satisfy "
        "constraint: Member must not be null; Value null at 'namespace' failed"
    )


def test_faults_and_shown_values_are_bounded() -> None:
    members = {
        **members_of(SERVICE.operations["CreateTableBucket"]),
        "tags": {f"k{number}": 5 for number in range(100)},
    }
    assert len(faults("CreateTableBucket", members)) == check.FAULTS_MAX
    (fault,) = faults("CreateTableBucket", {"name": "x" * 100_000})
    assert fault.value == "x" * 256
