"""The Query protocol both ways, with botocore's own serializer and parser as the other side."""

from __future__ import annotations

import contextlib
import datetime
import re
import urllib.parse
from typing import Any

import botocore.loaders
import botocore.model
import botocore.parsers
import botocore.serialize
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.aws import check, errors, model, query
from tests.kit import examples

SERVICE = model.load("iam")
THEIRS = botocore.model.ServiceModel(
    botocore.loaders.Loader().load_service_model("iam", "service-2"), "iam"
)
NAMESPACE = "https://iam.amazonaws.com/doc/2010-05-08/"


def parsed(operation: str, params: dict[str, Any]) -> dict[str, Any]:
    """What we read of what botocore writes."""
    serializer = botocore.serialize.create_serializer("query", include_validation=False)
    body = serializer.serialize_to_request(params, THEIRS.operation_model(operation))["body"]
    pairs = [(name, str(value)) for name, value in body.items()]
    return query.parse_members(SERVICE, SERVICE.operations[operation], pairs)


def read_back(operation: str, result: dict[str, Any]) -> Any:
    """What botocore reads of what we write."""
    body = query.encode_result(
        SERVICE, SERVICE.operations[operation], result, namespace=NAMESPACE, request_id="r1"
    )
    parser = botocore.parsers.create_parser("query")
    answer = {"status_code": 200, "headers": {}, "body": body}
    return parser.parse(answer, THEIRS.operation_model(operation).output_shape)


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("CreateUser", {
            "UserName": "a", "Tags": [{"Key": "k", "Value": "v"}, {"Key": "l", "Value": ""}],
        }),
        ("ListUsers", {"MaxItems": 7, "PathPrefix": "/é/"}),
        ("ListPolicies", {"OnlyAttached": True, "Scope": "Local"}),
        ("UntagUser", {"UserName": "a", "TagKeys": [f"k{n}" for n in range(12)]}),
        ("UntagUser", {"UserName": "a", "TagKeys": []}),
        ("SimulateCustomPolicy", {
            "PolicyInputList": ["{}"], "ActionNames": ["s3:GetObject"],
            "ContextEntries": [{"ContextKeyName": "a", "ContextKeyValues": ["1", "2"]}],
        }),
    ],
)  # fmt: skip
def test_members_come_back_as_botocore_sends_them(operation: str, params: dict[str, Any]) -> None:
    assert parsed(operation, params) == params


def test_results_come_back_as_botocore_reads_them() -> None:
    at_ms = 1_763_740_800_000
    user = {
        "Path": "/", "UserName": "a<&>\"'", "UserId": "AIDA1", "Arn": "arn", "CreateDate": at_ms,
    }  # fmt: skip
    answer = read_back("ListUsers", {"Users": [user, user], "IsTruncated": False})
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    assert answer["Users"] == [{**user, "CreateDate": moment}] * 2
    assert answer["IsTruncated"] is False
    assert answer["ResponseMetadata"]["RequestId"] == "r1"
    summary = read_back("GetAccountSummary", {"SummaryMap": {"Users": 3, "Roles": 0}})
    assert summary["SummaryMap"] == {"Users": 3, "Roles": 0}


@pytest.mark.parametrize("service", ["sts", "iam", "s3tables"])
def test_every_pattern_of_a_model_is_one_for_python(service: str) -> None:
    for shape in model.load(service).shapes.values():
        re.compile(shape.pattern or "")


@pytest.mark.parametrize(("key", "is_valid"), [("é:a b/@", True), ("a\u00d7", False), ("", False)])
def test_tag_keys_are_letters_digits_spaces_and_some_signs(key: str, is_valid: bool) -> None:
    members = {"UserName": "a", "Tags": [{"Key": key, "Value": ""}]}
    operation = SERVICE.operations["CreateUser"]
    if is_valid:
        check.check_members(SERVICE, operation, members)
    else:
        with pytest.raises(errors.ValidationFailed):
            check.check_members(SERVICE, operation, members)


def test_a_result_outside_the_model_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError):
        read_back("ListUsers", {"Users": [], "Unknown": 1})
    with pytest.raises(AssertionError):
        read_back("ListUsers", {"IsTruncated": False})


def test_an_error_comes_back_as_botocore_reads_it() -> None:
    body = query.encode_error(
        "NoSuchEntity", "no <user>", is_senders=True, namespace=NAMESPACE, request_id="r2"
    )
    answer = botocore.parsers.create_parser("query").parse(
        {"status_code": 404, "headers": {}, "body": body}, None
    )
    assert answer["Error"] == {"Type": "Sender", "Code": "NoSuchEntity", "Message": "no <user>"}
    assert answer["ResponseMetadata"]["RequestId"] == "r2"


NAMES = st.lists(
    st.sampled_from(["Tags", "member", "1", "2", "Key", "x", "", "-1", "UserName"]), max_size=14
).map(".".join)


@examples.at_most(300)
@given(st.lists(st.tuples(NAMES, st.text(max_size=5)), max_size=12))
def test_garbage_is_members_that_the_check_reports_or_one_error(
    pairs: list[tuple[str, str]],
) -> None:
    operation = SERVICE.operations["CreateUser"]
    pairs = [(urllib.parse.unquote(name), value) for name, value in pairs]
    with contextlib.suppress(errors.MalformedDocument, errors.ValidationFailed):
        check.check_members(SERVICE, operation, query.parse_members(SERVICE, operation, pairs))
