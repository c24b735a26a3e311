"""Every operation of the model is found by its route, in every way clients spell ARNs."""

from __future__ import annotations

import urllib.parse

import pytest

from server.aws import match, model, shapes

SERVICE = model.load("s3tables")
BUCKET_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
TABLE_ARN = f"{BUCKET_ARN}/table/0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"
VALUES = {
    "tableBucketARN": BUCKET_ARN,
    "namespace": "sales",
    "name": "orders",
    "type": "icebergCompaction",
    "resourceArn": TABLE_ARN,
}


def path_of(operation: shapes.OperationModel, *, safe: str) -> str:
    """A path as a client builds it: each label quoted, but for the characters in safe."""
    parts = [
        part if isinstance(part, str) else urllib.parse.quote(VALUES[part.name], safe=safe)
        for part in operation.route
    ]
    return "/" + "/".join(parts)


def segments_of(path: str) -> tuple[str, ...]:
    return tuple(urllib.parse.unquote(part) for part in path.removeprefix("/").split("/"))


def route(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    matched = match.match(SERVICE, method, segments_of(path))
    return None if matched is None else (matched.operation.name, dict(matched.labels))


@pytest.mark.parametrize("safe", ["", ":", ":/"], ids=["escaped", "colons", "decoded"])
@pytest.mark.parametrize("name", sorted(SERVICE.operations))
def test_each_operation_is_routed_with_its_labels(name: str, safe: str) -> None:
    operation = SERVICE.operations[name]
    labels = {
        part.name: VALUES[part.name] for part in operation.route if isinstance(part, shapes.Label)
    }
    assert route(operation.method, path_of(operation, safe=safe)) == (name, labels)


def test_a_bucket_named_like_a_route_is_found_by_its_decoded_arn() -> None:
    arn = BUCKET_ARN.replace("lake", "encryption")
    assert route("GET", f"/buckets/{arn}") == ("GetTableBucket", {"tableBucketARN": arn})


def test_a_bucket_arn_is_the_resource_of_a_tag_too() -> None:
    quoted = urllib.parse.quote(BUCKET_ARN, safe="")
    assert route("GET", f"/tag/{quoted}") == ("ListTagsForResource", {"resourceArn": BUCKET_ARN})


def test_labels_are_decoded_once() -> None:
    assert route("GET", "/namespaces/a%252Fb/c%2Fd") == (
        "GetNamespace",
        {"tableBucketARN": "a%2Fb", "namespace": "c/d"},
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/bucket"),
        ("GET", "/buckets/"),
        ("GET", "/buckets//"),
        ("GET", "/Buckets"),
        ("POST", "/buckets"),
        ("GET", "/buckets/x/nothing"),
        ("GET", "/tables/x/y/z/rename"),
        ("GET", "/tag/"),
        ("GET", "/tag"),
        ("PUT", "/tables/x/y/z/rename/more"),
        ("GET", "/namespaces/x//"),
    ],
)
def test_anything_else_is_no_operation(method: str, path: str) -> None:
    assert route(method, path) is None
