"""What must be allowed for each operation."""

from __future__ import annotations

import typing

import pytest

from server.s3 import demands, fields, guard, operations

WRITTEN = fields.Written()
TAGGED = fields.Written(tags={"a": "1"})
SOURCE = fields.Source(bucket="src", key="s")
B = {"bucket": "b"}
K = {"bucket": "b", "key": "k"}
U = {**K, "upload_id": "u"}

BUCKET = "arn:aws:s3:::b"
OBJECT = "arn:aws:s3:::b/k"

TABLE: list[tuple[operations.Operation, list[tuple[str, str]]]] = [
    (operations.ListBuckets(), [("s3:ListAllMyBuckets", "arn:aws:s3:::*")]),
    (operations.CreateBucket(**B), [("s3:CreateBucket", BUCKET)]),
    (operations.HeadBucket(**B), [("s3:ListBucket", BUCKET)]),
    (operations.DeleteBucket(**B), [("s3:DeleteBucket", BUCKET)]),
    (operations.GetBucketLocation(**B), [("s3:GetBucketLocation", BUCKET)]),
    (operations.GetBucketVersioning(**B), [("s3:GetBucketVersioning", BUCKET)]),
    (
        operations.GetBucketConfiguration(**B, name="GetBucketCors"),
        [("s3:GetBucketCORS", BUCKET)],
    ),
    (operations.Preflight(**B), []),
    (operations.ListObjects(**B), [("s3:ListBucket", BUCKET)]),
    (operations.ListObjectsV2(**B, prefix="p"), [("s3:ListBucket", BUCKET)]),
    (operations.DeleteObjects(**B), []),
    (operations.GetObject(**K), [("s3:GetObject", OBJECT)]),
    (operations.HeadObject(**K), [("s3:GetObject", OBJECT)]),
    (operations.PutObject(**K, size_bytes=1, written=WRITTEN), [("s3:PutObject", OBJECT)]),
    (
        operations.PutObject(**K, size_bytes=1, written=TAGGED),
        [("s3:PutObject", OBJECT), ("s3:PutObjectTagging", OBJECT)],
    ),
    (
        operations.CopyObject(**K, source=SOURCE, written=TAGGED),
        [
            ("s3:GetObject", "arn:aws:s3:::src/s"),
            ("s3:PutObject", OBJECT),
            ("s3:PutObjectTagging", OBJECT),
        ],
    ),
    (operations.DeleteObject(**K), [("s3:DeleteObject", OBJECT)]),
    (operations.GetObjectTagging(**K), [("s3:GetObjectTagging", OBJECT)]),
    (operations.PutObjectTagging(**K), [("s3:PutObjectTagging", OBJECT)]),
    (operations.DeleteObjectTagging(**K), [("s3:DeleteObjectTagging", OBJECT)]),
    (operations.CreateMultipartUpload(**K, written=WRITTEN), [("s3:PutObject", OBJECT)]),
    (operations.UploadPart(**U, part_number=1, size_bytes=1), [("s3:PutObject", OBJECT)]),
    (
        operations.UploadPartCopy(**U, part_number=1, source=SOURCE),
        [("s3:GetObject", "arn:aws:s3:::src/s"), ("s3:PutObject", OBJECT)],
    ),
    (operations.CompleteMultipartUpload(**U), [("s3:PutObject", OBJECT)]),
    (operations.AbortMultipartUpload(**U), [("s3:AbortMultipartUpload", OBJECT)]),
    (operations.ListParts(**U), [("s3:ListMultipartUploadParts", OBJECT)]),
    (operations.ListMultipartUploads(**B), [("s3:ListBucketMultipartUploads", BUCKET)]),
    (operations.Unsupported(name="PutObjectAcl", **K), [("s3:PutObjectAcl", OBJECT)]),
    (operations.Unsupported(name="PutBucketPolicy", **B), [("s3:PutBucketPolicy", BUCKET)]),
    (
        operations.Unsupported(name="WriteGetObjectResponse"),
        [("s3:WriteGetObjectResponse", "arn:aws:s3:::*")],
    ),
]


def test_the_table_holds_every_operation() -> None:
    assert {type(operation) for operation, _ in TABLE} == set(typing.get_args(operations.Operation))


@pytest.mark.parametrize(
    ("operation", "expected"), TABLE, ids=[type(row[0]).__name__ for row in TABLE]
)
def test_an_operation_in_a_general_bucket_demands_the_s3_action(
    operation: operations.Operation, expected: list[tuple[str, str]]
) -> None:
    found = demands.of_operation(operation, PlainGuard())
    assert [(demand.action, demand.resource) for demand in found] == expected


class TableRuling(guard.PlainRuling):
    def resource(self, access: guard.Access) -> guard.Resource | None:
        return guard.Resource(action=f"table:{access}", arn="T", context=(("lake:branch", "m"),))


class TableGuard:
    """Every key of bucket `b` is data of one table."""

    def at(self, bucket: str, key: str) -> guard.Ruling:
        ruling = TableRuling if bucket == "b" else guard.PlainRuling
        return ruling(bucket=None)


@pytest.mark.parametrize(
    ("operation", "access"),
    [
        (operations.GetObject(**K), "read"),
        (operations.HeadObject(**K), "read"),
        (operations.GetObjectTagging(**K), "read"),
        (operations.PutObject(**K, size_bytes=1, written=WRITTEN), "write"),
        (operations.DeleteObject(**K), "write"),
        (operations.CompleteMultipartUpload(**U), "write"),
        (operations.ListObjectsV2(**B, prefix="p/"), "list"),
        (operations.ListMultipartUploads(**B, prefix="p/"), "list"),
    ],
)
def test_below_a_table_the_guard_says_what_is_demanded(
    operation: operations.Operation, access: str
) -> None:
    (demand,) = demands.of_operation(operation, TableGuard())
    assert (demand.action, demand.resource) == (f"table:{access}", "T")
    assert demand.context["lake:branch"] == "m"
    assert demand.place == ("b/p/" if access == "list" else "b/k")


class PlainGuard:
    def at(self, bucket: str, key: str) -> guard.Ruling:
        return guard.PlainRuling(bucket=None)


def test_a_listing_shows_its_prefix_and_delimiter_to_policies() -> None:
    operation = operations.ListObjectsV2(bucket="b", prefix="p/", delimiter="/", max_keys=5)
    (demand,) = demands.of_operation(operation, PlainGuard())
    assert demand.context == {"s3:prefix": "p/", "s3:delimiter": "/", "s3:max-keys": "5"}
