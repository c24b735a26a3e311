"""The whole service: each operation of the model is routed, guarded, done or refused by name."""

from __future__ import annotations

import json
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import orjson
import pytest

from catalog import errors as catalog_errors
from catalog.metadata import errors as metadata_errors
from s3tables import errors, face, wire_errors
from server import errors as kit_errors
from server import limits
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.aws import errors as aws_errors
from server.aws import model
from server.aws import wire_errors as kit_wire_errors
from storage import errors as storage_errors
from tests.s3tables.tables_service import REGION, ROOT, Answer, TablesService, bucket_arn, refused

SERVICE = model.load("s3tables")


def signed(
    service: TablesService, method: str, path: str, body: bytes = b"", **headers: str
) -> Answer:
    """A request as it is, signed by botocore's signer."""
    url = f"http://boathouse.test{path}"
    request = botocore.awsrequest.AWSRequest(method=method, url=url, data=body, headers=headers)
    signer = botocore.auth.SigV4Auth(botocore.credentials.Credentials(*ROOT), "s3tables", REGION)
    signer.add_auth(request)
    sent = {name: str(value) for name, value in request.headers.items()}
    return service.send(method, url, {"host": "boathouse.test", **sent}, body)


def test_every_one_of_the_models_57_operations_has_a_row() -> None:
    assert face.ROWS.keys() == SERVICE.operations.keys()
    assert len(face.ROWS) == 57
    assert all(row.function is not None for row in face.ROWS.values())


@pytest.mark.parametrize("name", sorted(SERVICE.operations))
def test_each_operation_needs_a_credential(service: TablesService, name: str) -> None:
    operation = SERVICE.operations[name]
    path = "/" + "/".join(part if isinstance(part, str) else "x" for part in operation.route)
    answer = service.send(
        operation.method,
        f"http://h{path}",
        {"host": "h", "authorization": "AWS4-HMAC-SHA256 Credential=a/b/c/s3tables/aws4_request"},
        b"",
    )
    assert answer.status == 403
    assert answer.headers["x-amzn-ErrorType"] == "IncompleteSignatureException"


def test_a_wrong_secret_is_refused_by_the_name_that_clients_know(service: TablesService) -> None:
    with_wrong = TablesService(**{**vars(service), "users": {"root": (ROOT[0], "wrong")}})
    assert refused(with_wrong.client().list_table_buckets) == (
        403,
        "InvalidSignatureException",
        "The request signature we calculated does not match the signature you provided. Check your "
        "AWS Secret Access Key and signing method. Consult the service documentation for details.",
    )
    with_unknown = TablesService(**{**vars(service), "users": {"root": ("UNKNOWN", "wrong")}})
    assert refused(with_unknown.client().list_table_buckets)[:2] == (
        403,
        "UnrecognizedClientException",
    )


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/nothing"), ("POST", "/buckets"), ("GET", "/"), ("GET", "/tag/")]
)
def test_a_route_that_the_model_does_not_have_is_unknown(
    service: TablesService, method: str, path: str
) -> None:
    answer = signed(service, method, path)
    assert answer.status == 404
    assert answer.headers["x-amzn-ErrorType"] == "UnknownOperationException"


def test_errors_carry_type_message_and_request_id(service: TablesService) -> None:
    arn = bucket_arn("nowhere")
    answer = signed(service, "GET", f"/buckets/{arn.replace(':', '%3A').replace('/', '%2F')}")
    assert answer.status == 404
    assert answer.headers["x-amzn-ErrorType"] == "NotFoundException"
    assert answer.headers["x-amzn-RequestId"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {
        "__type": "NotFoundException",
        "message": "The specified bucket does not exist.",
    }


def test_a_body_beyond_its_bound_is_refused_and_makes_nothing(
    service: TablesService, client: Any
) -> None:
    filling = "x" * limits.MODEL_BODY_BYTES_MAX
    body = orjson.dumps({"name": "beyond-the-bound", "tags": {"a": filling}})
    answer = signed(service, "PUT", "/buckets", body)
    assert answer.status == 413
    assert answer.headers["x-amzn-ErrorType"] == "RequestEntityTooLargeException"
    assert refused(client.get_table_bucket, tableBucketARN=bucket_arn("beyond-the-bound"))[0] == 404


def test_a_large_body_is_taken_and_checked_like_any_other(client: Any, sales: str) -> None:
    fields = [{"name": f"column_{number:05d}", "type": "string"} for number in range(3000)]
    assert len(orjson.dumps(fields)) > limits.PARSED_HERE_BYTES_MAX
    where = {"tableBucketARN": sales, "namespace": "sales", "name": "wide", "format": "ICEBERG"}
    wrong = {"iceberg": {"schema": {"fields": [*fields, {"name": "untyped"}]}}}
    assert refused(client.create_table, **where, metadata=wrong)[:2] == (
        400,
        "BadRequestException",
    )
    client.create_table(**where, metadata={"iceberg": {"schema": {"fields": fields}}})
    table = client.get_table(tableBucketARN=sales, namespace="sales", name="wide")
    assert table["name"] == "wide"


def test_an_arn_that_arrives_decoded_is_the_same(service: TablesService, bucket: str) -> None:
    answer = signed(service, "GET", f"/buckets/{bucket}")
    assert (answer.status, answer.json["arn"]) == (200, bucket)
    answer = signed(service, "GET", f"/tag/{bucket}")
    assert (answer.status, answer.json) == (200, {"tags": {}})


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"name": 5}', b'{"name": null}', b"", b"\xff"])
def test_a_body_that_is_not_the_operations_is_a_bad_request(
    service: TablesService, body: bytes
) -> None:
    answer = signed(service, "PUT", "/buckets", body)
    assert answer.status == 400
    assert answer.headers["x-amzn-ErrorType"] == "BadRequestException"


def test_a_malformed_path_is_a_bad_request(service: TablesService) -> None:
    answer = signed(service, "GET", "/buckets/%ff")
    assert answer.status == 400
    assert answer.headers["x-amzn-ErrorType"] == "BadRequestException"


def test_a_bad_pattern_has_awss_message(client: Any, sales: str) -> None:
    assert refused(client.get_table, tableBucketARN=sales, namespace="sales", name="foo-bar") == (
        400,
        "BadRequestException",
        "1 validation error detected: Value 'foo-bar' at 'name' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [0-9a-z_]*",
    )


def test_a_missing_token_has_awss_message(service: TablesService, sales: str) -> None:
    quoted = sales.replace(":", "%3A").replace("/", "%2F")
    path = f"/tables/{quoted}/sales/t/metadata-location"
    body = json.dumps({"metadataLocation": "s3://a/b"}).encode()
    assert signed(service, "PUT", path, body).json["message"] == (
        "1 validation error detected: Value null at 'versionToken' failed to satisfy constraint: "
        "Member must not be null"
    )


def every_error() -> list[type[Exception]]:
    modules = (
        errors, catalog_errors, metadata_errors, storage_errors, kit_errors, access_errors,
        auth_errors, aws_errors,
    )  # fmt: skip
    return sorted(
        {
            value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Exception)
            and value.__module__ == module.__name__
        },
        key=lambda value: f"{value.__module__}.{value.__name__}",
    )


OURS = {
    # A fault of ours, or a condition that no request to this face can meet.
    catalog_errors.CatalogError, catalog_errors.CommitStateUnknown,
    catalog_errors.IntegrityBroken,
    storage_errors.StorageError, kit_errors.KitError, kit_errors.ClientDisconnected,
    kit_errors.MalformedXML, kit_errors.FaceNotServed, kit_errors.NoSuchRoute,
    kit_errors.MethodNotAllowed, access_errors.AccessError, access_errors.MalformedPolicy,
    access_errors.MalformedARN, access_errors.NoSuchAccessKey, access_errors.WrongPassword,
    access_errors.InvalidJWT, access_errors.ExpiredJWT, access_errors.InvalidPAT,
    access_errors.ExpiredPAT, access_errors.CorruptKeys,
    aws_errors.AwsError, errors.S3TablesError,
}  # fmt: skip


@pytest.mark.parametrize("error_class", every_error(), ids=lambda error_class: error_class.__name__)
def test_every_error_has_an_answer_of_the_model_or_of_awss_common_ones(
    error_class: type[Exception],
) -> None:
    error = error_class.__new__(error_class)
    answer = kit_wire_errors.wire_error(error, (wire_errors.WIRE_ERRORS, kit_wire_errors.COMMON))
    modelled = {
        name: shape.status for name, shape in SERVICE.shapes.items() if shape.status is not None
    }
    if error_class in OURS or error_class.__module__ == "storage.errors":
        return
    assert answer is not kit_wire_errors.INTERNAL, error_class
    assert answer.status == modelled.get(answer.code, answer.status)
