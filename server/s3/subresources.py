"""rule: S3's names for what lies at a sub-resource of a bucket or an object.

Sub-resource -> method -> operation, for all of S3; which of them Boathouse does is the business of
`server.s3.operations`.
"""

from __future__ import annotations

from collections.abc import Mapping

# Sub-resource of a bucket -> method -> S3's name for the operation.
BUCKET_SUBRESOURCES: Mapping[str, Mapping[str, str]] = {
    "abac": {"GET": "GetBucketAbac", "PUT": "PutBucketAbac"},
    "accelerate": {
        "GET": "GetBucketAccelerateConfiguration",
        "PUT": "PutBucketAccelerateConfiguration",
    },
    "acl": {"GET": "GetBucketAcl", "PUT": "PutBucketAcl"},
    "analytics": {
        "GET": "GetBucketAnalyticsConfiguration",
        "PUT": "PutBucketAnalyticsConfiguration",
        "DELETE": "DeleteBucketAnalyticsConfiguration",
    },
    "cors": {"GET": "GetBucketCors", "PUT": "PutBucketCors", "DELETE": "DeleteBucketCors"},
    "delete": {"POST": "DeleteObjects"},
    "encryption": {
        "GET": "GetBucketEncryption",
        "PUT": "PutBucketEncryption",
        "DELETE": "DeleteBucketEncryption",
    },
    "intelligent-tiering": {
        "GET": "GetBucketIntelligentTieringConfiguration",
        "PUT": "PutBucketIntelligentTieringConfiguration",
        "DELETE": "DeleteBucketIntelligentTieringConfiguration",
    },
    "inventory": {
        "GET": "GetBucketInventoryConfiguration",
        "PUT": "PutBucketInventoryConfiguration",
        "DELETE": "DeleteBucketInventoryConfiguration",
    },
    "lifecycle": {
        "GET": "GetBucketLifecycleConfiguration",
        "PUT": "PutBucketLifecycleConfiguration",
        "DELETE": "DeleteBucketLifecycle",
    },
    "location": {"GET": "GetBucketLocation"},
    "logging": {"GET": "GetBucketLogging", "PUT": "PutBucketLogging"},
    "metadataAnnotationTable": {"PUT": "UpdateBucketMetadataAnnotationTableConfiguration"},
    "metadataConfiguration": {
        "GET": "GetBucketMetadataConfiguration",
        "POST": "CreateBucketMetadataConfiguration",
        "DELETE": "DeleteBucketMetadataConfiguration",
    },
    "metadataInventoryTable": {"PUT": "UpdateBucketMetadataInventoryTableConfiguration"},
    "metadataJournalTable": {"PUT": "UpdateBucketMetadataJournalTableConfiguration"},
    "metadataTable": {
        "GET": "GetBucketMetadataTableConfiguration",
        "POST": "CreateBucketMetadataTableConfiguration",
        "DELETE": "DeleteBucketMetadataTableConfiguration",
    },
    "metrics": {
        "GET": "GetBucketMetricsConfiguration",
        "PUT": "PutBucketMetricsConfiguration",
        "DELETE": "DeleteBucketMetricsConfiguration",
    },
    "notification": {
        "GET": "GetBucketNotificationConfiguration",
        "PUT": "PutBucketNotificationConfiguration",
    },
    "object-lock": {"GET": "GetObjectLockConfiguration", "PUT": "PutObjectLockConfiguration"},
    "ownershipControls": {
        "GET": "GetBucketOwnershipControls",
        "PUT": "PutBucketOwnershipControls",
        "DELETE": "DeleteBucketOwnershipControls",
    },
    "policy": {"GET": "GetBucketPolicy", "PUT": "PutBucketPolicy", "DELETE": "DeleteBucketPolicy"},
    "policyStatus": {"GET": "GetBucketPolicyStatus"},
    "publicAccessBlock": {
        "GET": "GetPublicAccessBlock",
        "PUT": "PutPublicAccessBlock",
        "DELETE": "DeletePublicAccessBlock",
    },
    "replication": {
        "GET": "GetBucketReplication",
        "PUT": "PutBucketReplication",
        "DELETE": "DeleteBucketReplication",
    },
    "requestPayment": {"GET": "GetBucketRequestPayment", "PUT": "PutBucketRequestPayment"},
    "session": {"GET": "CreateSession"},
    "tagging": {
        "GET": "GetBucketTagging",
        "PUT": "PutBucketTagging",
        "DELETE": "DeleteBucketTagging",
    },
    "uploads": {"GET": "ListMultipartUploads"},
    "versioning": {"GET": "GetBucketVersioning", "PUT": "PutBucketVersioning"},
    "versions": {"GET": "ListObjectVersions"},
    "website": {
        "GET": "GetBucketWebsite",
        "PUT": "PutBucketWebsite",
        "DELETE": "DeleteBucketWebsite",
    },
}

# The same without the parameter `id` lists the configurations instead of getting one.
LISTED_WITHOUT_ID: Mapping[str, str] = {
    "GetBucketAnalyticsConfiguration": "ListBucketAnalyticsConfigurations",
    "GetBucketIntelligentTieringConfiguration": "ListBucketIntelligentTieringConfigurations",
    "GetBucketInventoryConfiguration": "ListBucketInventoryConfigurations",
    "GetBucketMetricsConfiguration": "ListBucketMetricsConfigurations",
}

OBJECT_SUBRESOURCES: Mapping[str, Mapping[str, str]] = {
    "acl": {"GET": "GetObjectAcl", "PUT": "PutObjectAcl"},
    "annotation": {
        "GET": "GetObjectAnnotation",
        "PUT": "PutObjectAnnotation",
        "DELETE": "DeleteObjectAnnotation",
    },
    "attributes": {"GET": "GetObjectAttributes"},
    "encryption": {"PUT": "UpdateObjectEncryption"},
    "legal-hold": {"GET": "GetObjectLegalHold", "PUT": "PutObjectLegalHold"},
    "renameObject": {"PUT": "RenameObject"},
    "restore": {"POST": "RestoreObject"},
    "retention": {"GET": "GetObjectRetention", "PUT": "PutObjectRetention"},
    "select": {"POST": "SelectObjectContent"},
    "tagging": {
        "GET": "GetObjectTagging",
        "PUT": "PutObjectTagging",
        "DELETE": "DeleteObjectTagging",
    },
    "torrent": {"GET": "GetObjectTorrent"},
    "uploads": {"POST": "CreateMultipartUpload"},
}

# Configurations whose absence has an answer of its own, which clients ask for before they work.
ABSENT_CONFIGURATIONS = frozenset(
    {
        "GetBucketCors",
        "GetBucketEncryption",
        "GetBucketLifecycleConfiguration",
        "GetBucketPolicy",
        "GetBucketReplication",
        "GetBucketTagging",
        "GetBucketWebsite",
        "GetObjectLockConfiguration",
        "GetPublicAccessBlock",
        "GetBucketOwnershipControls",
    }
)
