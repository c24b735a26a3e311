"""What the operations of S3 on general buckets demand, and those of STS.

The actions are those of AWS's service authorization reference. The rows of `access_table` have the
requests of S3 below the location of a table, which demand the actions on the table instead.
"""

from __future__ import annotations

from typing import Any, Final

from tests.kit.access_table import DOES, NO_UPLOAD, Request, Row, row, s3

BUCKET: Final = {"Bucket": "{b}"}
OBJECT: Final = {**BUCKET, "Key": "{k}"}
COPY: Final = {**BUCKET, "Key": "copy", "CopySource": "{b}/{k}"}
NO_LOCK: Final = "400 InvalidRequest"
NO_CONFIGURATION: Final = "404 NoSuchConfiguration"
RULES_OF_CORS: Final = {
    "CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://a.example"]}]
}
RULES_OF_LIFECYCLE: Final = {
    "Rules": [{"ID": "r", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 9}}]
}
ENCRYPTION: Final = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
TAGS: Final = {"TagSet": [{"Key": "a", "Value": "b"}]}
RETENTION: Final = {"Mode": "GOVERNANCE", "RetainUntilDate": "2090-01-01T00:00:00Z"}


def _rows(resource: str, *named: tuple[str, Request]) -> tuple[Row, ...]:
    """Rows of requests that demand one action of S3 on one resource."""
    return tuple(row(each.name, f"s3:{action} on {resource}", each) for action, each in named)


def _numbered(name: str, action: str) -> tuple[tuple[str, Request], ...]:
    """Requests for configurations that a bucket has by their ids, here none."""
    reads, writes = f"Get{action}Configuration", f"Put{action}Configuration"
    return (
        (reads, s3(f"ListBucket{name}Configurations", **BUCKET)),
        (reads, s3(f"GetBucket{name}Configuration", NO_CONFIGURATION, **BUCKET, Id="x")),
        (writes, s3(f"DeleteBucket{name}Configuration", NO_CONFIGURATION, **BUCKET, Id="x")),
    )


S3_ROWS: Final = (
    *_rows("every bucket", ("ListAllMyBuckets", s3("ListBuckets"))),
    *_rows("new bucket", ("CreateBucket", s3("CreateBucket", Bucket="{new_b}"))),
    *_rows(
        "bucket",
        ("DeleteBucket", s3("DeleteBucket", **BUCKET)),
        ("ListBucket", s3("HeadBucket", **BUCKET)),
        ("ListBucket", s3("ListObjects", **BUCKET)),
        ("ListBucket", s3("ListObjectsV2", **BUCKET)),
        ("ListBucketVersions", s3("ListObjectVersions", **BUCKET)),
        ("ListBucketMultipartUploads", s3("ListMultipartUploads", **BUCKET)),
        ("GetBucketLocation", s3("GetBucketLocation", **BUCKET)),
        ("GetBucketVersioning", s3("GetBucketVersioning", **BUCKET)),
        (
            "PutBucketVersioning",
            s3("PutBucketVersioning", **BUCKET, VersioningConfiguration={"Status": "Enabled"}),
        ),
        (
            "GetBucketObjectLockConfiguration",
            s3("GetObjectLockConfiguration", "404 ObjectLockConfigurationNotFoundError", **BUCKET),
        ),
        (
            "PutBucketObjectLockConfiguration",
            s3(
                "PutObjectLockConfiguration",
                "409 InvalidBucketState",
                **BUCKET,
                ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"},
            ),
        ),
        ("GetBucketCORS", s3("GetBucketCors", "404 NoSuchCORSConfiguration", **BUCKET)),
        ("PutBucketCORS", s3("PutBucketCors", **BUCKET, CORSConfiguration=RULES_OF_CORS)),
        ("PutBucketCORS", s3("DeleteBucketCors", **BUCKET)),
        ("GetBucketAcl", s3("GetBucketAcl", **BUCKET)),
        ("PutBucketAcl", s3("PutBucketAcl", **BUCKET, ACL="private")),
        ("GetBucketTagging", s3("GetBucketTagging", "404 NoSuchTagSet", **BUCKET)),
        ("PutBucketTagging", s3("PutBucketTagging", **BUCKET, Tagging=TAGS)),
        ("PutBucketTagging", s3("DeleteBucketTagging", **BUCKET)),
        ("GetEncryptionConfiguration", s3("GetBucketEncryption", **BUCKET)),
        (
            "PutEncryptionConfiguration",
            s3("PutBucketEncryption", **BUCKET, ServerSideEncryptionConfiguration=ENCRYPTION),
        ),
        ("PutEncryptionConfiguration", s3("DeleteBucketEncryption", **BUCKET)),
        (
            "GetLifecycleConfiguration",
            s3("GetBucketLifecycleConfiguration", "404 NoSuchLifecycleConfiguration", **BUCKET),
        ),
        (
            "PutLifecycleConfiguration",
            s3(
                "PutBucketLifecycleConfiguration",
                **BUCKET,
                LifecycleConfiguration=RULES_OF_LIFECYCLE,
            ),
        ),
        ("PutLifecycleConfiguration", s3("DeleteBucketLifecycle", **BUCKET)),
        (
            "GetBucketOwnershipControls",
            s3("GetBucketOwnershipControls", "404 OwnershipControlsNotFoundError", **BUCKET),
        ),
        (
            "PutBucketOwnershipControls",
            s3(
                "PutBucketOwnershipControls",
                **BUCKET,
                OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            ),
        ),
        ("PutBucketOwnershipControls", s3("DeleteBucketOwnershipControls", **BUCKET)),
        ("GetBucketPolicy", s3("GetBucketPolicy", "404 NoSuchBucketPolicy", **BUCKET)),
        ("PutBucketPolicy", s3("PutBucketPolicy", **BUCKET, Policy="{general_policy}")),
        ("DeleteBucketPolicy", s3("DeleteBucketPolicy", **BUCKET)),
        ("GetBucketPolicyStatus", s3("GetBucketPolicyStatus", **BUCKET)),
        (
            "GetBucketPublicAccessBlock",
            s3("GetPublicAccessBlock", "404 NoSuchPublicAccessBlockConfiguration", **BUCKET),
        ),
        (
            "PutBucketPublicAccessBlock",
            s3(
                "PutPublicAccessBlock",
                **BUCKET,
                PublicAccessBlockConfiguration={"BlockPublicAcls": True},
            ),
        ),
        ("PutBucketPublicAccessBlock", s3("DeletePublicAccessBlock", **BUCKET)),
        (
            "GetReplicationConfiguration",
            s3("GetBucketReplication", "404 ReplicationConfigurationNotFoundError", **BUCKET),
        ),
        ("PutReplicationConfiguration", s3("DeleteBucketReplication", **BUCKET)),
        ("GetBucketWebsite", s3("GetBucketWebsite", "404 NoSuchWebsiteConfiguration", **BUCKET)),
        ("DeleteBucketWebsite", s3("DeleteBucketWebsite", **BUCKET)),
        ("GetAccelerateConfiguration", s3("GetBucketAccelerateConfiguration", **BUCKET)),
        ("GetBucketLogging", s3("GetBucketLogging", **BUCKET)),
        ("PutBucketLogging", s3("PutBucketLogging", **BUCKET, BucketLoggingStatus={})),
        ("GetBucketNotification", s3("GetBucketNotificationConfiguration", **BUCKET)),
        (
            "PutBucketNotification",
            s3("PutBucketNotificationConfiguration", **BUCKET, NotificationConfiguration={}),
        ),
        ("GetBucketRequestPayment", s3("GetBucketRequestPayment", **BUCKET)),
        (
            "PutBucketRequestPayment",
            s3(
                "PutBucketRequestPayment",
                **BUCKET,
                RequestPaymentConfiguration={"Payer": "BucketOwner"},
            ),
        ),
        *_numbered("Analytics", "Analytics"),
        *_numbered("IntelligentTiering", "IntelligentTiering"),
        *_numbered("Inventory", "Inventory"),
        *_numbered("Metrics", "Metrics"),
    ),
    *_rows(
        "object",
        ("GetObject", s3("GetObject", **OBJECT)),
        ("GetObject", s3("HeadObject", **OBJECT)),
        ("GetObjectAcl", s3("GetObjectAcl", **OBJECT)),
        ("PutObjectAcl", s3("PutObjectAcl", **OBJECT, ACL="private")),
        ("GetObjectTagging", s3("GetObjectTagging", **OBJECT)),
        ("PutObjectTagging", s3("PutObjectTagging", **OBJECT, Tagging=TAGS)),
        ("DeleteObjectTagging", s3("DeleteObjectTagging", **OBJECT)),
        ("GetObjectLegalHold", s3("GetObjectLegalHold", NO_LOCK, **OBJECT)),
        (
            "PutObjectLegalHold",
            s3("PutObjectLegalHold", NO_LOCK, **OBJECT, LegalHold={"Status": "ON"}),
        ),
        ("GetObjectRetention", s3("GetObjectRetention", NO_LOCK, **OBJECT)),
        (
            "PutObjectRetention",
            s3("PutObjectRetention", NO_LOCK, **OBJECT, Retention=RETENTION),
        ),
        ("GetObjectTorrent", s3("GetObjectTorrent", "404 NoSuchKey", **OBJECT)),
        (
            "RestoreObject",
            s3("RestoreObject", "403 InvalidObjectState", **OBJECT, RestoreRequest={"Days": 1}),
        ),
        ("PutObject", s3("PutObject", **OBJECT, Body=b"x")),
        ("PutObject", s3("PostObject", **OBJECT)),
        ("PutObject", s3("CreateMultipartUpload", **OBJECT)),
        (
            "PutObject",
            s3("UploadPart", NO_UPLOAD, **OBJECT, UploadId="none", PartNumber=1, Body=b""),
        ),
        (
            "PutObject",
            s3(
                "CompleteMultipartUpload",
                NO_UPLOAD,
                **OBJECT,
                UploadId="none",
                MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]},
            ),
        ),
        ("AbortMultipartUpload", s3("AbortMultipartUpload", NO_UPLOAD, **OBJECT, UploadId="none")),
        ("ListMultipartUploadParts", s3("ListParts", NO_UPLOAD, **OBJECT, UploadId="none")),
        ("DeleteObject", s3("DeleteObject", **OBJECT)),
        (
            "DeleteObject",
            s3("DeleteObjects", **BUCKET, Delete={"Objects": [{"Key": "{k}"}]}),
        ),
    ),
    row(
        "GetObjectAttributes",
        "s3:GetObject on object + s3:GetObjectAttributes on object",
        s3("GetObjectAttributes", **OBJECT, ObjectAttributes=["ETag"]),
    ),
    row(
        "copy an object",
        "s3:GetObject on object + s3:PutObject on copy",
        s3("CopyObject", **COPY),
        s3("UploadPartCopy", NO_UPLOAD, **COPY, UploadId="none", PartNumber=1),
    ),
)
"""The operations of S3, each with the rights that it needs on a general bucket."""


def _sts(name: str, **members: Any) -> Request:
    return Request(door="sts", name=name, what=members, allowed=DOES)


STS_ROWS: Final = (
    row(
        "AssumeRole",
        "sts:AssumeRole on role",
        _sts("AssumeRole", RoleArn="arn:aws:iam::000000000000:role/{r}", RoleSessionName="night"),
    ),
    Row(
        name="what every caller may do",
        rights=(),
        requests=(_sts("GetCallerIdentity"), _sts("GetSessionToken")),
    ),
)
"""The operations of STS. AssumeRoleWithWebIdentity has no caller whose policies could allow it:
its token and the role's trust policy decide."""
