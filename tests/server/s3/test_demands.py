"""What must be allowed for each operation."""

from __future__ import annotations

from typing import Any

import pytest

from server import calls
from server.access import model
from server.s3 import control, fields, guard, operations, rows
from storage import model as storage_model
from tests.server import requesting

WRITTEN = fields.Written()
TAGGED = fields.Written(tags={"a": "1"})
SOURCE = fields.CopySource(bucket="src", key="s")
B = {"bucket": "b"}
K = {"bucket": "b", "key": "k"}
U = {**K, "upload_id": "u"}
TAGGED_BUCKET = control.TaggedResource(
    bucket="b", account="000000000000", integrity=fields.NO_INTEGRITY
)
NAMED = storage_model.Precondition(if_match=("etag",))

BUCKET = "arn:aws:s3:::b"
OBJECT = "arn:aws:s3:::b/k"

TABLE: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("ListBuckets", operations.ListBuckets(), [("s3:ListAllMyBuckets", "arn:aws:s3:::*")]),
    ("CreateBucket", operations.CreateBucket(**B), [("s3:CreateBucket", BUCKET)]),
    ("HeadBucket", operations.Target(**B), [("s3:ListBucket", BUCKET)]),
    ("DeleteBucket", operations.Target(**B), [("s3:DeleteBucket", BUCKET)]),
    ("GetBucketLocation", operations.Target(**B), [("s3:GetBucketLocation", BUCKET)]),
    ("GetBucketVersioning", operations.Target(**B), [("s3:GetBucketVersioning", BUCKET)]),
    (
        "GetObjectLockConfiguration",
        operations.Target(**B),
        [("s3:GetBucketObjectLockConfiguration", BUCKET)],
    ),
    (
        "PutObjectLockConfiguration",
        operations.PutObjectLockConfiguration(**B),
        [("s3:PutBucketObjectLockConfiguration", BUCKET)],
    ),
    ("GetObjectRetention", operations.GetObjectLock(**K), [("s3:GetObjectRetention", OBJECT)]),
    (
        "PutObjectRetention",
        operations.PutObjectLock(**K, lock={}),
        [("s3:PutObjectRetention", OBJECT)],
    ),
    ("GetObjectLegalHold", operations.GetObjectLock(**K), [("s3:GetObjectLegalHold", OBJECT)]),
    (
        "PutObjectLegalHold",
        operations.PutObjectLock(**K, lock={}),
        [("s3:PutObjectLegalHold", OBJECT)],
    ),
    (
        "PutBucketVersioning",
        operations.PutBucketVersioning(**B),
        [("s3:PutBucketVersioning", BUCKET)],
    ),
    (
        "ListObjectVersions",
        operations.ListObjectVersions(**B, prefix="p"),
        [("s3:ListBucketVersions", BUCKET)],
    ),
    (
        "GetBucketCors",
        operations.Target(**B),
        [("s3:GetBucketCORS", BUCKET)],
    ),
    ("Preflight", operations.Target(**B), []),
    ("ListObjects", operations.ListObjects(**B), [("s3:ListBucket", BUCKET)]),
    ("ListObjectsV2", operations.ListObjectsV2(**B, prefix="p"), [("s3:ListBucket", BUCKET)]),
    ("DeleteObjects", operations.DeleteObjects(**B), []),
    ("GetObject", operations.GetObject(**K), [("s3:GetObject", OBJECT)]),
    ("HeadObject", operations.HeadObject(**K), [("s3:GetObject", OBJECT)]),
    (
        "PutObject",
        operations.PutObject(**K, size_bytes=1, written=WRITTEN),
        [("s3:PutObject", OBJECT)],
    ),
    (
        "PutObject",
        operations.PutObject(**K, size_bytes=1, written=TAGGED),
        [("s3:PutObject", OBJECT), ("s3:PutObjectTagging", OBJECT)],
    ),
    (
        "CopyObject",
        operations.CopyObject(**K, source=SOURCE, written=TAGGED),
        [
            ("s3:GetObject", "arn:aws:s3:::src/s"),
            ("s3:PutObject", OBJECT),
            ("s3:PutObjectTagging", OBJECT),
        ],
    ),
    (
        "GetObjectAttributes",
        operations.GetObjectAttributes(**K, names=frozenset({"ETag"})),
        [("s3:GetObject", OBJECT), ("s3:GetObjectAttributes", OBJECT)],
    ),
    (
        "GetObjectAttributes",
        operations.GetObjectAttributes(**K, names=frozenset({"ETag"}), version_id="null"),
        [("s3:GetObjectVersion", OBJECT), ("s3:GetObjectVersionAttributes", OBJECT)],
    ),
    (
        "GetObject",
        operations.GetObject(**K, read=fields.Read(version_id="null")),
        [("s3:GetObjectVersion", OBJECT)],
    ),
    ("DeleteObject", operations.DeleteObject(**K), [("s3:DeleteObject", OBJECT)]),
    (
        "DeleteObject",
        operations.DeleteObject(**K, version_id="null"),
        [("s3:DeleteObjectVersion", OBJECT)],
    ),
    (
        "DeleteObject",
        operations.DeleteObject(**K, conditions=NAMED),
        [("s3:DeleteObject", OBJECT), ("s3:GetObject", OBJECT)],
    ),
    (
        "DeleteObject",
        operations.DeleteObject(**K, version_id="null", conditions=NAMED),
        [("s3:DeleteObjectVersion", OBJECT), ("s3:GetObjectVersion", OBJECT)],
    ),
    (
        "DeleteObject",
        operations.DeleteObject(**K, conditions=storage_model.Precondition(if_match=("*",))),
        [("s3:DeleteObject", OBJECT)],
    ),
    (
        "PutObject",
        operations.PutObject(**K, size_bytes=1, written=WRITTEN, conditions=NAMED),
        [("s3:PutObject", OBJECT), ("s3:GetObject", OBJECT)],
    ),
    (
        "CompleteMultipartUpload",
        operations.CompleteMultipartUpload(**U, conditions=NAMED),
        [("s3:PutObject", OBJECT), ("s3:GetObject", OBJECT)],
    ),
    ("GetObjectTagging", operations.GetObjectTagging(**K), [("s3:GetObjectTagging", OBJECT)]),
    ("RestoreObject", operations.RestoreObject(**K), [("s3:RestoreObject", OBJECT)]),
    ("PutObjectTagging", operations.PutObjectTagging(**K), [("s3:PutObjectTagging", OBJECT)]),
    (
        "DeleteObjectTagging",
        operations.DeleteObjectTagging(**K),
        [("s3:DeleteObjectTagging", OBJECT)],
    ),
    (
        "CreateMultipartUpload",
        operations.CreateMultipartUpload(**K, written=WRITTEN),
        [("s3:PutObject", OBJECT)],
    ),
    (
        "UploadPart",
        operations.UploadPart(**U, part_number=1, size_bytes=1),
        [("s3:PutObject", OBJECT)],
    ),
    (
        "UploadPartCopy",
        operations.UploadPartCopy(**U, part_number=1, source=SOURCE),
        [("s3:GetObject", "arn:aws:s3:::src/s"), ("s3:PutObject", OBJECT)],
    ),
    (
        "CompleteMultipartUpload",
        operations.CompleteMultipartUpload(**U),
        [("s3:PutObject", OBJECT)],
    ),
    (
        "AbortMultipartUpload",
        operations.AbortMultipartUpload(**U),
        [("s3:AbortMultipartUpload", OBJECT)],
    ),
    ("ListParts", operations.ListParts(**U), [("s3:ListMultipartUploadParts", OBJECT)]),
    (
        "ListMultipartUploads",
        operations.ListMultipartUploads(**B),
        [("s3:ListBucketMultipartUploads", BUCKET)],
    ),
    ("GetBucketCors", operations.Target(**B), [("s3:GetBucketCORS", BUCKET)]),
    ("PutBucketCors", operations.PutConfiguration(**B), [("s3:PutBucketCORS", BUCKET)]),
    ("DeleteBucketCors", operations.Target(**B), [("s3:PutBucketCORS", BUCKET)]),
    ("GetBucketTagging", operations.Target(**B), [("s3:GetBucketTagging", BUCKET)]),
    ("PutBucketTagging", operations.PutConfiguration(**B), [("s3:PutBucketTagging", BUCKET)]),
    ("DeleteBucketTagging", operations.Target(**B), [("s3:PutBucketTagging", BUCKET)]),
    ("PostObject", operations.PostObject(**B, boundary="a"), []),
    (
        "PostObject",
        operations.PutObject(**K, size_bytes=None, written=fields.Written(tags={"a": "b"})),
        [("s3:PutObject", OBJECT), ("s3:PutObjectTagging", OBJECT)],
    ),
    ("PutObjectAcl", operations.PutObjectAcl(**K), [("s3:PutObjectAcl", OBJECT)]),
    (
        "PutObjectAcl",
        operations.PutObjectAcl(**K, version_id="null"),
        [("s3:PutObjectVersionAcl", OBJECT)],
    ),
    ("GetObjectAcl", operations.GetObjectAcl(**K), [("s3:GetObjectAcl", OBJECT)]),
    (
        "GetObjectAcl",
        operations.GetObjectAcl(**K, version_id="null"),
        [("s3:GetObjectVersionAcl", OBJECT)],
    ),
    (
        "PutBucketOwnershipControls",
        operations.PutConfiguration(**B),
        [("s3:PutBucketOwnershipControls", BUCKET)],
    ),
    ("GetBucketAcl", operations.Target(**B), [("s3:GetBucketAcl", BUCKET)]),
    ("PutBucketAcl", operations.PutBucketAcl(**B), [("s3:PutBucketAcl", BUCKET)]),
    ("PutBucketPolicy", operations.PutConfiguration(**B), [("s3:PutBucketPolicy", BUCKET)]),
    ("GetBucketPolicy", operations.Target(**B), [("s3:GetBucketPolicy", BUCKET)]),
    ("DeleteBucketPolicy", operations.Target(**B), [("s3:DeleteBucketPolicy", BUCKET)]),
    ("GetBucketPolicyStatus", operations.Target(**B), [("s3:GetBucketPolicyStatus", BUCKET)]),
    (
        "GetBucketLifecycleConfiguration",
        operations.Target(**B),
        [("s3:GetLifecycleConfiguration", BUCKET)],
    ),
    (
        "PutBucketLifecycleConfiguration",
        operations.PutConfiguration(**B),
        [("s3:PutLifecycleConfiguration", BUCKET)],
    ),
    (
        "DeleteBucketLifecycle",
        operations.Target(**B),
        [("s3:PutLifecycleConfiguration", BUCKET)],
    ),
    (
        "GetPublicAccessBlock",
        operations.Target(**B),
        [("s3:GetBucketPublicAccessBlock", BUCKET)],
    ),
    ("GetBucketLogging", operations.Target(**B), [("s3:GetBucketLogging", BUCKET)]),
    (
        "PutBucketLogging",
        operations.PutConfiguration(**B),
        [("s3:PutBucketLogging", BUCKET)],
    ),
    (
        "PutPublicAccessBlock",
        operations.PutConfiguration(**B),
        [("s3:PutBucketPublicAccessBlock", BUCKET)],
    ),
    (
        "DeletePublicAccessBlock",
        operations.Target(**B),
        [("s3:PutBucketPublicAccessBlock", BUCKET)],
    ),
    (
        "GetBucketOwnershipControls",
        operations.Target(**B),
        [("s3:GetBucketOwnershipControls", BUCKET)],
    ),
    (
        "DeleteBucketOwnershipControls",
        operations.Target(**B),
        [("s3:PutBucketOwnershipControls", BUCKET)],
    ),
    ("ListTagsForResource", TAGGED_BUCKET, [("s3:ListTagsForResource", BUCKET)]),
    ("TagResource", TAGGED_BUCKET, [("s3:TagResource", BUCKET)]),
    ("UntagResource", TAGGED_BUCKET, [("s3:UntagResource", BUCKET)]),
    (
        "WriteGetObjectResponse",
        operations.Target(),
        [("s3:WriteGetObjectResponse", "arn:aws:s3:::*")],
    ),
]


def demanded(name: str, value: Any, keys: guard.Guard) -> tuple[model.Demand, ...]:
    """What the row of that name demands of a call with this value."""
    row = next(row for row in rows.ROWS if row.name == name)
    call = calls.Call(row.operation, value, None, guard.Rulings(keys))
    call.caller = requesting.root_caller()
    return row.operation.demands(None, call)


def test_the_table_holds_every_operation() -> None:
    done = {row.name for row in rows.ROWS if row.operation.handler is not None}
    partly = {row.name for row in rows.ROWS if row.status == "partly"}
    assert done - {name for name, _, _ in TABLE} == partly - {"PutBucketLogging"}


@pytest.mark.parametrize(("name", "value", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_an_operation_in_a_general_bucket_demands_the_s3_action(
    name: str, value: Any, expected: list[tuple[str, str]]
) -> None:
    demands_there = demanded(name, value, PlainGuard())
    assert [(demand.action, demand.resource) for demand in demands_there] == expected


class TableRuling(guard.PlainRuling):
    def resource(self, access: guard.Access) -> guard.Resource | None:
        return guard.Resource(action=f"table:{access}", arn="T", context=(("lake:branch", "m"),))


class TableGuard:
    """Every key of bucket `b` is data of one table."""

    def at(self, bucket: str, key: str, reading: object = None) -> guard.Ruling:
        ruling = TableRuling if bucket == "b" else guard.PlainRuling
        return ruling(bucket=None)


@pytest.mark.parametrize(
    ("name", "value", "access"),
    [
        ("GetObject", operations.GetObject(**K), "read"),
        ("HeadObject", operations.HeadObject(**K), "read"),
        ("GetObjectTagging", operations.GetObjectTagging(**K), "read"),
        ("PutObject", operations.PutObject(**K, size_bytes=1, written=WRITTEN), "write"),
        ("DeleteObject", operations.DeleteObject(**K), "write"),
        ("CompleteMultipartUpload", operations.CompleteMultipartUpload(**U), "write"),
        ("ListObjectsV2", operations.ListObjectsV2(**B, prefix="p/"), "list"),
        ("ListMultipartUploads", operations.ListMultipartUploads(**B, prefix="p/"), "list"),
    ],
)
def test_below_a_table_the_guard_says_what_is_demanded(name: str, value: Any, access: str) -> None:
    (demand,) = demanded(name, value, TableGuard())
    assert (demand.action, demand.resource) == (f"table:{access}", "T")
    assert demand.context["lake:branch"] == "m"
    assert demand.place == ("b/p/" if access == "list" else "b/k")


def test_a_version_of_a_tables_file_takes_the_right_on_the_table() -> None:
    operation = operations.GetObject(**K, read=fields.Read(version_id="null"))
    (demand,) = demanded("GetObject", operation, TableGuard())
    assert (demand.action, demand.resource) == ("table:read", "T")
    assert demand.context == {"lake:branch": "m", "s3:VersionId": "null"}


class PlainGuard:
    def at(self, bucket: str, key: str, reading: object = None) -> guard.Ruling:
        return guard.PlainRuling(bucket=None)


def test_a_listing_shows_its_prefix_and_delimiter_to_policies() -> None:
    operation = operations.ListObjectsV2(bucket="b", prefix="p/", delimiter="/", max_keys=5)
    (demand,) = demanded("ListObjectsV2", operation, PlainGuard())
    assert demand.context == {"s3:prefix": "p/", "s3:delimiter": "/", "s3:max-keys": "5"}
