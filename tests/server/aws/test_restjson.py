"""The rest-json protocol both ways, with botocore's own serializer and parser as the other side."""

from __future__ import annotations

import contextlib
import datetime
import json
from typing import Any

import botocore.awsrequest
import botocore.loaders
import botocore.model
import botocore.parsers
import botocore.serialize
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import asgi
from server.aws import check, errors, match, model, restjson
from tests.kit import examples

SERVICE = model.load("s3tables")
DOCUMENT = botocore.loaders.Loader().load_service_model("s3tables", "service-2")
THEIRS = botocore.model.ServiceModel(DOCUMENT, "s3tables")
BUCKET_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"


def parsed(operation: str, params: dict[str, Any]) -> dict[str, Any]:
    """What we read of what botocore writes."""
    serializer = botocore.serialize.create_serializer("rest-json", include_validation=False)
    sent = serializer.serialize_to_request(params, THEIRS.operation_model(operation))
    path = sent["url_path"].encode()
    scope = {
        "method": sent["method"],
        "path": "",
        "raw_path": path,
        "query_string": _query(sent["query_string"]),
        "headers": [],
        "scheme": "http",
    }

    async def receive() -> dict[str, Any]:
        raise AssertionError

    request = asgi.Request(scope, receive, request_id="r")
    route = match.match(SERVICE, request.method, request.segments)
    assert route is not None
    assert route.operation.name == operation
    return restjson.parse_members(
        SERVICE, route.operation, labels=route.labels, pairs=request.pairs, body=sent["body"]
    )


def _query(sent: dict[str, Any]) -> bytes:
    request = {"url_path": "/", "query_string": sent, "headers": {}, "method": "GET"}
    botocore.awsrequest.prepare_request_dict(request, endpoint_url="http://h")
    return str(request["url"]).partition("?")[2].encode()


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("CreateTableBucket", {"name": "lake", "tags": {"a": "b", "": ""}}),
        ("ListTableBuckets", {"prefix": "a b&c", "maxBuckets": 7}),
        ("GetTableBucket", {"tableBucketARN": BUCKET_ARN}),
        ("CreateNamespace", {"tableBucketARN": BUCKET_ARN, "namespace": ["sales"]}),
        (
            "GetTable",
            {"tableBucketARN": BUCKET_ARN, "namespace": "ns", "name": "Île de/France"},
        ),
        (
            "CreateTable",
            {
                "tableBucketARN": BUCKET_ARN,
                "namespace": "ns",
                "name": "t",
                "format": "ICEBERG",
                "metadata": {
                    "iceberg": {
                        "schemaV2": {
                            "type": "struct",
                            "schemaId": 3,
                            "identifierFieldIds": [1],
                            "fields": [
                                {
                                    "id": 1,
                                    "name": "a",
                                    "required": True,
                                    "type": {"type": "list", "element-id": 5, "element": "int"},
                                }
                            ],
                        },
                        "partitionSpec": {
                            "specId": 0,
                            "fields": [
                                {
                                    "sourceId": 1,
                                    "transform": "day",
                                    "name": "d",
                                    "fieldId": 1000,
                                }
                            ],
                        },
                        "properties": {"a": "b"},
                    }
                },
            },
        ),
        ("UntagResource", {"resourceArn": f"{BUCKET_ARN}/table/x", "tagKeys": ["a", "b c", "a"]}),
    ],
)
def test_members_are_read_as_botocore_writes_them(operation: str, params: dict[str, Any]) -> None:
    assert parsed(operation, params) == params


def test_nulls_and_unknown_members_are_left_out() -> None:
    members = restjson.parse_members(
        SERVICE,
        SERVICE.operations["CreateTableBucket"],
        labels={},
        pairs=(),
        body=b'{"name":"lake","tags":null,"more":1}',
    )
    assert members == {"name": "lake"}


def test_the_first_of_a_repeated_query_parameter_counts_and_a_blank_one_is_there() -> None:
    members = restjson.parse_members(
        SERVICE,
        SERVICE.operations["ListTableBuckets"],
        labels={},
        pairs=(("prefix", ""), ("prefix", "x"), ("maxBuckets", "-5"), ("other", "y")),
        body=b"",
    )
    assert members == {"prefix": "", "maxBuckets": -5}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The request body is not valid JSON: "),
        (b"[]", "The request body is not a JSON object."),
        (b"\xff", "The request body is not valid JSON: "),
        (b'"x"', "The request body is not a JSON object."),
    ],
)
def test_a_body_that_is_no_json_object_is_malformed(body: bytes, message: str) -> None:
    with pytest.raises(errors.MalformedDocument) as caught:
        restjson.parse_members(
            SERVICE, SERVICE.operations["CreateTableBucket"], labels={}, pairs=(), body=body
        )
    assert str(caught.value).startswith(message)


def test_a_body_nested_too_deep_is_malformed() -> None:
    deep: Any = "int"
    for _ in range(restjson.DEPTH_MAX):
        deep = {"type": "list", "element": deep}
    field = {"id": 1, "name": "a", "required": True, "type": deep}
    body = {"metadata": {"iceberg": {"schemaV2": {"type": "struct", "fields": [field]}}}}
    with pytest.raises(errors.MalformedDocument):
        restjson.parse_members(
            SERVICE,
            SERVICE.operations["CreateTable"],
            labels={"tableBucketARN": "a", "namespace": "b"},
            pairs=(),
            body=orjson.dumps(body),
        )


@examples.at_most(300)
@given(
    st.sampled_from(sorted(SERVICE.operations)),
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "tags", "metadata", "iceberg", "schema", "fields", "namespace"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_garbage_bodies_give_members_or_the_one_error(operation: str, body: bytes) -> None:
    said = SERVICE.operations[operation]
    labels = {part.name: "x" for part in said.route if not isinstance(part, str)}
    with contextlib.suppress(errors.MalformedDocument, errors.ValidationFailed):
        members = restjson.parse_members(SERVICE, said, labels=labels, pairs=(), body=body)
        check.check_members(SERVICE, said, members)


def test_a_result_is_read_back_by_botocore() -> None:
    operation = SERVICE.operations["GetTableBucket"]
    result = {
        "arn": BUCKET_ARN,
        "name": "lake",
        "ownerAccountId": "000000000000",
        "createdAt": 1_700_000_000_123,
        "type": "customer",
    }
    body = restjson.encode_result(SERVICE, operation, result)
    assert json.loads(body)["createdAt"] == "2023-11-14T22:13:20.123Z"
    parser = botocore.parsers.create_parser("rest-json")
    read = parser.parse(
        {"status_code": 200, "headers": {}, "body": body},
        THEIRS.operation_model("GetTableBucket").output_shape,
    )
    read.pop("ResponseMetadata")
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)
    assert read == {**result, "createdAt": moment}


def test_an_empty_result_has_a_body_only_where_the_status_allows_one() -> None:
    assert restjson.encode_result(SERVICE, SERVICE.operations["DeleteTable"], {}) == b""
    assert restjson.encode_result(SERVICE, SERVICE.operations["TagResource"], {}) == b"{}"


@pytest.mark.parametrize(
    "result",
    [{"arn": "x", "more": 1}, {}, {"arn": 5}],
    ids=["unknown", "missing", "mistyped"],
)
def test_a_result_that_the_model_does_not_know_is_our_mistake(result: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        restjson.encode_result(SERVICE, SERVICE.operations["CreateTableBucket"], result)


def test_an_error_is_read_back_by_botocore() -> None:
    headers, body = restjson.encode_error("NotFoundException", "gone")
    parser = botocore.parsers.create_parser("rest-json")
    shape = THEIRS.operation_model("GetTableBucket").output_shape
    for sent in (dict(headers), {}):
        read = parser.parse({"status_code": 404, "headers": sent, "body": body}, shape)
        assert read["Error"] == {"Code": "NotFoundException", "Message": "gone"}
