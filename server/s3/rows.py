"""face: the table of S3's operations, one row each.

A row has the method and sub-resource of the operation's requests, the parser, the demands, the
handler, whether AWS offers it on the storage of tables, and the status in COMPATIBILITY.md. The
first row that matches a request wins. An operation that is not implemented is a row without a
handler: the face authorises the caller, and then refuses the operation by name.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from server import asgi, calls
from server.auth import callers
from server.s3 import (
    acls,
    bucketacls,
    buckets,
    configurations,
    control,
    cors,
    deletes,
    demands,
    documents,
    encryption,
    engines,
    listing,
    locks,
    objects,
    operations,
    ownership,
    posts,
    routes,
    uploads,
    wire,
)

Handler: TypeAlias = Callable[
    [engines.S3Services, calls.Call], asgi.Response | Awaitable[asgi.Response]
]


_in_request = demands.in_request


def _row(
    name: str,
    method: str,
    scope: routes.Scope,
    subresource: str = "",
    *,
    parse: routes.Parse,
    demands: calls.Demanding,
    handler: Handler | None,
    when: routes.Condition | None = None,
    status: routes.Status | None = "yes",
    on_tables: bool = True,
    owner_checked: bool = True,
    only_reads: bool = False,
    demands_of_document: bool = False,
    on_denial: calls.OnDenial = engines.reveal_absent_bucket,
    with_key: calls.WithKey | None = None,
    with_body: calls.WithBody | None = None,
    # Policies decide what an anonymous caller may do.
    authentication: callers.Authentication = callers.Authentication.SIGNED_OR_ANONYMOUS,
) -> routes.S3Row:
    return routes.S3Row(
        operation=calls.Operation(
            name=name,
            handler=handler
            if on_tables or handler is None
            else functools.partial(engines.refuse_strict, handler),
            demands=_in_request(demands),
            authentication=authentication,
            only_reads=only_reads,
            demands_of_document=demands_of_document,
            on_denial=on_denial,
            with_key=with_key,
            with_body=with_body,
        ),
        methods=tuple(method.split()),
        scope=scope,
        subresource=subresource,
        when=when,
        parse=parse,
        status=status,
        on_tables=on_tables,
        owner_checked=owner_checked,
    )


def _absent(
    name: str,
    subresource: str,
    code: str,
    message: str,
    *,
    action: str | None = None,
    method: str = "GET",
) -> routes.S3Row:
    """Return the row of a configuration that no bucket has; its response has its own error code."""
    return _row(
        name,
        method,
        "bucket",
        subresource,
        parse=operations.parse_target,
        demands=demands.on_bucket(action or f"s3:{name}"),
        handler=functools.partial(buckets.refuse_absent, code, message),
        status="partly",
    )


def _empty(
    name: str,
    subresource: str,
    action: str,
    root: str,
    content: str = "",
    *,
    when: routes.Condition | None = None,
) -> routes.S3Row:
    """Return the row of a configuration that no bucket has; its response is the document that S3
    shows for none."""
    return _row(
        name,
        "GET",
        "bucket",
        subresource,
        when=when,
        parse=operations.parse_target,
        demands=demands.on_bucket(action),
        handler=functools.partial(buckets.show_none, wire.document(root, content)),
        status="partly",
    )


def _delete_absent(name: str, subresource: str, action: str) -> routes.S3Row:
    """Return the row that removes a configuration that no bucket has, which is no error."""
    return _row(
        name,
        "DELETE",
        "bucket",
        subresource,
        parse=operations.parse_target,
        demands=demands.on_bucket(action),
        handler=buckets.delete_none,
        status="partly",
    )


def _numbered(name: str, subresource: str, list_root: str) -> tuple[routes.S3Row, ...]:
    """Return the rows of configurations that a bucket has by their ids, here none; see `_empty`.

    name: as in the names of the operations.
    """
    missing = ("NoSuchConfiguration", "The specified configuration does not exist.")
    reads, writes = f"s3:Get{name}Configuration", f"s3:Put{name}Configuration"
    return (
        _empty(
            f"ListBucket{name}Configurations",
            subresource,
            reads,
            list_root,
            "<IsTruncated>false</IsTruncated>",
            when=_without("id"),
        ),
        _absent(f"GetBucket{name}Configuration", subresource, *missing, action=reads),
        _absent(
            f"DeleteBucket{name}Configuration",
            subresource,
            *missing,
            action=writes,
            method="DELETE",
        ),
        _unimplemented(f"PutBucket{name}Configuration", "PUT", "bucket", subresource),
    )


def _unimplemented(
    name: str,
    method: str,
    scope: routes.Scope,
    subresource: str = "",
    *,
    when: routes.Condition | None = None,
    parse: routes.Parse | None = None,
) -> routes.S3Row:
    parse_scope = operations.parse_object_target if scope == "object" else operations.parse_target
    return _row(
        name,
        method,
        scope,
        subresource,
        parse=parse or parse_scope,
        demands=demands.for_unimplemented(f"s3:{name}"),
        handler=None,
        when=when,
        status="no",
    )


def _preflight(scope: routes.Scope) -> routes.S3Row:
    """Return the row of a browser's CORS preflight request."""
    return _row(
        "Preflight",
        "OPTIONS",
        scope,
        parse=operations.parse_target,
        demands=calls.demand_nothing,
        handler=configurations.preflight,
        status=None,
        # A browser sends it without the signature of the request that follows.
        authentication=callers.Authentication.NONE,
    )


def _of_control(
    name: str, method: str, handler: Handler, *, demands_of_document: bool = False
) -> routes.S3Row:
    """Return the row of an operation of S3 Control about the tags of a bucket."""
    return _row(
        name,
        method,
        "control",
        "tags",
        parse=control.parse_tagged_resource,
        demands=demands.on_bucket(f"s3:{name}"),
        handler=handler,
        status=None,
        demands_of_document=demands_of_document,
    )


def _delete_configuration(
    name: str, subresource: str, setting: str, action: str, *, status: routes.Status = "yes"
) -> routes.S3Row:
    """Return the row that removes a configuration."""
    return _row(
        name,
        "DELETE",
        "bucket",
        subresource,
        parse=operations.parse_target,
        demands=demands.on_bucket(action),
        handler=functools.partial(configurations.delete_configuration, setting),
        status=status,
    )


def _put_configuration(
    name: str,
    subresource: str,
    action: str,
    handler: Handler,
    *,
    status: routes.Status = "yes",
) -> routes.S3Row:
    """Return the row that replaces a configuration by the document in its body."""
    return _row(
        name,
        "PUT",
        "bucket",
        subresource,
        parse=operations.parse_put_configuration,
        demands=demands.on_bucket(action),
        handler=handler,
        status=status,
    )


def _get_configuration(
    name: str, subresource: str, action: str, handler: Handler, *, status: routes.Status = "yes"
) -> routes.S3Row:
    """Return the row that shows a configuration."""
    return _row(
        name,
        "GET",
        "bucket",
        subresource,
        parse=operations.parse_target,
        demands=demands.on_bucket(action),
        handler=handler,
        status=status,
    )


def _with(*names: str) -> routes.Condition:
    """Return the condition that the query has one of these parameters."""
    wanted = frozenset(names)
    return lambda bucket, query, headers: bool(query) and not wanted.isdisjoint(query)


def _without(name: str) -> routes.Condition:
    """Return the condition that the query lacks a parameter."""
    return lambda bucket, query, headers: name not in query


def _copies(bucket: str, query: operations.Query, headers: operations.Headers) -> bool:
    return headers.get("x-amz-copy-source") is not None


def _copies_part(bucket: str, query: operations.Query, headers: operations.Headers) -> bool:
    return bool(query) and _IS_PART(bucket, query, headers) and _copies(bucket, query, headers)


def _is_version_2(bucket: str, query: operations.Query, headers: operations.Headers) -> bool:
    return query.get("list-type") == "2"


def _is_form(bucket: str, query: operations.Query, headers: operations.Headers) -> bool:
    return not _answers_lambda(bucket, query, headers)


def _answers_lambda(bucket: str, query: operations.Query, headers: operations.Headers) -> bool:
    return bucket == "WriteGetObjectResponse"


_OF_UPLOAD: Final = _with("uploadId")
_IS_PART: Final = _with("uploadId", "partNumber")

ROWS: Final[tuple[routes.S3Row, ...]] = (
    # Objects.
    _row(
        "ListParts",
        "GET",
        "object",
        when=_OF_UPLOAD,
        parse=operations.parse_list_parts,
        demands=demands.for_upload("s3:ListMultipartUploadParts"),
        handler=uploads.list_parts,
    ),
    _row(
        "GetObject",
        "GET",
        "object",
        parse=operations.parse_get_object,
        demands=demands.for_read,
        handler=objects.get_object,
        only_reads=True,
        on_denial=objects.reveal_absent_object,
        with_key=operations.get_with_key,
    ),
    _row(
        "GetObjectAttributes",
        "GET",
        "object",
        "attributes",
        parse=operations.parse_get_attributes,
        demands=demands.for_attributes,
        handler=objects.get_object_attributes,
        on_tables=False,
    ),
    _row(
        "HeadObject",
        "HEAD",
        "object",
        parse=operations.parse_head_object,
        demands=demands.for_read,
        handler=objects.head_object,
        only_reads=True,
        on_denial=objects.reveal_absent_object,
        with_key=operations.head_with_key,
    ),
    _row(
        "UploadPartCopy",
        "PUT",
        "object",
        when=_copies_part,
        parse=operations.parse_upload_part_copy,
        demands=demands.for_part_copy,
        handler=uploads.upload_part_copy,
        on_tables=False,
    ),
    _row(
        "UploadPart",
        "PUT",
        "object",
        when=_IS_PART,
        parse=operations.parse_upload_part,
        demands=demands.on_object("s3:PutObject", "write"),
        handler=uploads.upload_part,
    ),
    _row(
        "CopyObject",
        "PUT",
        "object",
        when=_copies,
        parse=operations.parse_copy_object,
        demands=demands.for_copy,
        handler=objects.copy_object,
        on_tables=False,
    ),
    _row(
        "PutObject",
        "PUT",
        "object",
        parse=operations.parse_put_object,
        demands=demands.for_write,
        handler=objects.put_object,
        with_body=operations.put_with_body,
    ),
    _row(
        "CompleteMultipartUpload",
        "POST",
        "object",
        when=_OF_UPLOAD,
        parse=operations.parse_complete_upload,
        demands=demands.for_completion,
        handler=uploads.complete_upload,
    ),
    _row(
        "AbortMultipartUpload",
        "DELETE",
        "object",
        when=_OF_UPLOAD,
        parse=operations.parse_abort,
        demands=demands.for_upload("s3:AbortMultipartUpload"),
        handler=uploads.abort_upload,
    ),
    _row(
        "DeleteObject",
        "DELETE",
        "object",
        parse=operations.parse_delete_object,
        demands=demands.for_deletion,
        handler=objects.delete_object,
        on_tables=False,
    ),
    _row(
        "CreateMultipartUpload",
        "POST",
        "object",
        "uploads",
        parse=operations.parse_create_upload,
        demands=demands.for_write,
        handler=uploads.create_upload,
    ),
    _row(
        "GetObjectTagging",
        "GET",
        "object",
        "tagging",
        parse=operations.parse_get_tagging,
        demands=demands.on_version("s3:GetObjectTagging", "s3:GetObjectVersionTagging", "read"),
        handler=objects.get_object_tagging,
        on_tables=False,
    ),
    _row(
        "PutObjectTagging",
        "PUT",
        "object",
        "tagging",
        parse=operations.parse_put_tagging,
        demands=demands.on_version("s3:PutObjectTagging", "s3:PutObjectVersionTagging", "write"),
        handler=objects.put_object_tagging,
        on_tables=False,
        demands_of_document=True,
    ),
    _row(
        "DeleteObjectTagging",
        "DELETE",
        "object",
        "tagging",
        parse=operations.parse_delete_tagging,
        demands=demands.on_version(
            "s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging", "write"
        ),
        handler=objects.delete_object_tagging,
        on_tables=False,
    ),
    _row(
        "GetObjectAcl",
        "GET",
        "object",
        "acl",
        parse=operations.parse_get_object_acl,
        demands=demands.on_version("s3:GetObjectAcl", "s3:GetObjectVersionAcl", "read"),
        handler=acls.get_object_acl,
        on_tables=False,
    ),
    _row(
        "PutObjectAcl",
        "PUT",
        "object",
        "acl",
        parse=operations.parse_put_object_acl,
        demands=demands.on_version("s3:PutObjectAcl", "s3:PutObjectVersionAcl", "write"),
        handler=acls.put_object_acl,
        on_tables=False,
    ),
    _row(
        "GetObjectLegalHold",
        "GET",
        "object",
        "legal-hold",
        parse=operations.parse_get_lock,
        demands=demands.on_version("s3:GetObjectLegalHold", "s3:GetObjectLegalHold", "read"),
        handler=locks.get_object_legal_hold,
        on_tables=False,
    ),
    _row(
        "PutObjectLegalHold",
        "PUT",
        "object",
        "legal-hold",
        parse=operations.parse_put_legal_hold,
        demands=demands.on_version("s3:PutObjectLegalHold", "s3:PutObjectLegalHold", "write"),
        handler=locks.put_object_legal_hold,
        on_tables=False,
        demands_of_document=True,
    ),
    _row(
        "GetObjectRetention",
        "GET",
        "object",
        "retention",
        parse=operations.parse_get_lock,
        demands=demands.on_version("s3:GetObjectRetention", "s3:GetObjectRetention", "read"),
        handler=locks.get_object_retention,
        on_tables=False,
    ),
    _row(
        "PutObjectRetention",
        "PUT",
        "object",
        "retention",
        parse=operations.parse_put_retention,
        demands=demands.on_version("s3:PutObjectRetention", "s3:PutObjectRetention", "write"),
        handler=locks.put_object_retention,
        on_tables=False,
        demands_of_document=True,
    ),
    _row(
        "GetObjectTorrent",
        "GET",
        "object",
        "torrent",
        parse=operations.parse_target,
        demands=demands.on_object("s3:GetObjectTorrent", "read"),
        handler=objects.get_object_torrent,
        status="partly",
        on_tables=False,
    ),
    _row(
        "RestoreObject",
        "POST",
        "object",
        "restore",
        parse=operations.parse_restore,
        demands=demands.on_version("s3:RestoreObject", "s3:RestoreObject", "write"),
        handler=objects.restore_object,
        on_tables=False,
    ),
    _preflight("object"),
    # Buckets.
    _row(
        "ListObjectsV2",
        "GET",
        "bucket",
        when=_is_version_2,
        parse=operations.parse_list_objects_v2,
        demands=demands.for_list,
        handler=listing.list_objects_v2,
        on_tables=False,
    ),
    _row(
        "ListObjects",
        "GET",
        "bucket",
        parse=operations.parse_list_objects,
        demands=demands.for_list,
        handler=listing.list_objects,
        on_tables=False,
    ),
    _row(
        "HeadBucket",
        "HEAD",
        "bucket",
        parse=operations.parse_target,
        demands=demands.on_bucket("s3:ListBucket"),
        handler=buckets.head_bucket,
    ),
    _row(
        "CreateBucket",
        "PUT",
        "bucket",
        parse=operations.parse_create_bucket,
        demands=demands.for_create_bucket,
        handler=buckets.create_bucket,
        owner_checked=False,
        demands_of_document=True,
    ),
    _row(
        "DeleteBucket",
        "DELETE",
        "bucket",
        parse=operations.parse_target,
        demands=demands.on_bucket("s3:DeleteBucket"),
        handler=buckets.delete_bucket,
    ),
    _row(
        "DeleteObjects",
        "POST",
        "bucket",
        "delete",
        parse=operations.parse_delete_objects,
        demands=calls.demand_nothing,
        handler=deletes.delete_objects,
        on_tables=False,
    ),
    _row(
        "PostObject",
        "POST",
        "bucket",
        when=_is_form,
        parse=operations.parse_post_object,
        demands=demands.for_form,
        handler=posts.post_object,
        authentication=callers.Authentication.IN_BODY,
        # The form's handler checks it, after the caller is authenticated.
        owner_checked=False,
    ),
    _row(
        "ListMultipartUploads",
        "GET",
        "bucket",
        "uploads",
        parse=operations.parse_list_uploads,
        demands=demands.for_list_uploads,
        handler=uploads.list_uploads,
        on_tables=False,
    ),
    _row(
        "GetBucketLocation",
        "GET",
        "bucket",
        "location",
        parse=operations.parse_target,
        demands=demands.on_bucket("s3:GetBucketLocation"),
        handler=buckets.get_bucket_location,
    ),
    _row(
        "GetBucketVersioning",
        "GET",
        "bucket",
        "versioning",
        parse=operations.parse_target,
        demands=demands.on_bucket("s3:GetBucketVersioning"),
        handler=buckets.get_bucket_versioning,
    ),
    _row(
        "PutBucketVersioning",
        "PUT",
        "bucket",
        "versioning",
        parse=operations.parse_put_versioning,
        demands=demands.on_bucket("s3:PutBucketVersioning"),
        handler=buckets.put_bucket_versioning,
    ),
    _row(
        "GetObjectLockConfiguration",
        "GET",
        "bucket",
        "object-lock",
        parse=operations.parse_target,
        demands=demands.on_bucket("s3:GetBucketObjectLockConfiguration"),
        handler=locks.get_object_lock_configuration,
    ),
    _row(
        "PutObjectLockConfiguration",
        "PUT",
        "bucket",
        "object-lock",
        parse=operations.parse_put_object_lock,
        demands=demands.on_bucket("s3:PutBucketObjectLockConfiguration"),
        handler=locks.put_object_lock_configuration,
    ),
    _row(
        "ListObjectVersions",
        "GET",
        "bucket",
        "versions",
        parse=operations.parse_list_versions,
        demands=demands.for_list_versions,
        handler=listing.list_object_versions,
    ),
    _preflight("bucket"),
    _get_configuration("GetBucketCors", "cors", "s3:GetBucketCORS", configurations.get_bucket_cors),
    _put_configuration("PutBucketCors", "cors", "s3:PutBucketCORS", configurations.put_bucket_cors),
    _delete_configuration("DeleteBucketCors", "cors", cors.SETTING, "s3:PutBucketCORS"),
    _get_configuration("GetBucketAcl", "acl", "s3:GetBucketAcl", acls.get_bucket_acl),
    _row(
        "PutBucketAcl",
        "PUT",
        "bucket",
        "acl",
        parse=operations.parse_put_bucket_acl,
        demands=demands.on_bucket("s3:PutBucketAcl"),
        handler=acls.put_bucket_acl,
    ),
    _get_configuration(
        "GetBucketTagging",
        "tagging",
        "s3:GetBucketTagging",
        configurations.get_bucket_tagging,
    ),
    _put_configuration(
        "PutBucketTagging",
        "tagging",
        "s3:PutBucketTagging",
        configurations.put_bucket_tagging,
    ),
    _delete_configuration(
        "DeleteBucketTagging", "tagging", configurations.TAGS, "s3:PutBucketTagging"
    ),
    _get_configuration(
        "GetBucketEncryption",
        "encryption",
        "s3:GetEncryptionConfiguration",
        encryption.get_bucket_encryption,
        status="partly",
    ),
    _put_configuration(
        "PutBucketEncryption",
        "encryption",
        "s3:PutEncryptionConfiguration",
        encryption.put_bucket_encryption,
        status="partly",
    ),
    _delete_configuration(
        "DeleteBucketEncryption",
        "encryption",
        encryption.BUCKET_KEY,
        "s3:PutEncryptionConfiguration",
        status="partly",
    ),
    _get_configuration(
        "GetBucketLifecycleConfiguration",
        "lifecycle",
        "s3:GetLifecycleConfiguration",
        configurations.get_bucket_lifecycle,
    ),
    _put_configuration(
        "PutBucketLifecycleConfiguration",
        "lifecycle",
        "s3:PutLifecycleConfiguration",
        configurations.put_bucket_lifecycle,
    ),
    _row(
        "DeleteBucketLifecycle",
        "DELETE",
        "bucket",
        "lifecycle",
        parse=operations.parse_target,
        demands=demands.on_bucket("s3:PutLifecycleConfiguration"),
        handler=configurations.delete_bucket_lifecycle,
    ),
    _get_configuration(
        "GetBucketOwnershipControls",
        "ownershipControls",
        "s3:GetBucketOwnershipControls",
        configurations.get_bucket_ownership_controls,
    ),
    _put_configuration(
        "PutBucketOwnershipControls",
        "ownershipControls",
        "s3:PutBucketOwnershipControls",
        configurations.put_bucket_ownership_controls,
    ),
    _delete_configuration(
        "DeleteBucketOwnershipControls",
        "ownershipControls",
        bucketacls.CONTROLS,
        "s3:PutBucketOwnershipControls",
    ),
    _get_configuration(
        "GetBucketPolicy", "policy", "s3:GetBucketPolicy", configurations.get_bucket_policy
    ),
    _put_configuration(
        "PutBucketPolicy", "policy", "s3:PutBucketPolicy", configurations.put_bucket_policy
    ),
    _delete_configuration(
        "DeleteBucketPolicy", "policy", ownership.POLICY, "s3:DeleteBucketPolicy"
    ),
    _get_configuration(
        "GetBucketPolicyStatus",
        "policyStatus",
        "s3:GetBucketPolicyStatus",
        configurations.get_bucket_policy_status,
    ),
    _get_configuration(
        "GetPublicAccessBlock",
        "publicAccessBlock",
        "s3:GetBucketPublicAccessBlock",
        configurations.get_public_access_block,
    ),
    _put_configuration(
        "PutPublicAccessBlock",
        "publicAccessBlock",
        "s3:PutBucketPublicAccessBlock",
        configurations.put_public_access_block,
    ),
    _delete_configuration(
        "DeletePublicAccessBlock",
        "publicAccessBlock",
        bucketacls.PUBLIC_ACCESS_BLOCK,
        "s3:PutBucketPublicAccessBlock",
    ),
    _absent(
        "GetBucketReplication",
        "replication",
        "ReplicationConfigurationNotFoundError",
        "The replication configuration was not found",
        action="s3:GetReplicationConfiguration",
    ),
    _absent(
        "GetBucketWebsite",
        "website",
        "NoSuchWebsiteConfiguration",
        "The specified bucket does not have a website configuration",
    ),
    _delete_absent("DeleteBucketReplication", "replication", "s3:PutReplicationConfiguration"),
    _delete_absent("DeleteBucketWebsite", "website", "s3:DeleteBucketWebsite"),
    _empty(
        "GetBucketAccelerateConfiguration",
        "accelerate",
        "s3:GetAccelerateConfiguration",
        "AccelerateConfiguration",
    ),
    _get_configuration(
        "GetBucketLogging", "logging", "s3:GetBucketLogging", configurations.get_bucket_logging
    ),
    _put_configuration(
        "PutBucketLogging",
        "logging",
        "s3:PutBucketLogging",
        configurations.put_bucket_logging,
        status="partly",
    ),
    _empty(
        "GetBucketNotificationConfiguration",
        "notification",
        "s3:GetBucketNotification",
        "NotificationConfiguration",
    ),
    _empty(
        "GetBucketRequestPayment",
        "requestPayment",
        "s3:GetBucketRequestPayment",
        "RequestPaymentConfiguration",
        "<Payer>BucketOwner</Payer>",
    ),
    _put_configuration(
        "PutBucketNotificationConfiguration",
        "notification",
        "s3:PutBucketNotification",
        functools.partial(buckets.put_what_holds, documents.check_notification),
        status="partly",
    ),
    _put_configuration(
        "PutBucketRequestPayment",
        "requestPayment",
        "s3:PutBucketRequestPayment",
        functools.partial(buckets.put_what_holds, documents.check_request_payment),
        status="partly",
    ),
    *_numbered("Analytics", "analytics", "ListBucketAnalyticsConfigurationResult"),
    *_numbered(
        "IntelligentTiering",
        "intelligent-tiering",
        "ListBucketIntelligentTieringConfigurationsOutput",
    ),
    *_numbered("Inventory", "inventory", "ListInventoryConfigurationsResult"),
    *_numbered("Metrics", "metrics", "ListMetricsConfigurationsResult"),
    # The service.
    _row(
        "ListBuckets",
        "GET HEAD",
        "service",
        parse=operations.parse_list_buckets,
        demands=demands.on_every_bucket("s3:ListAllMyBuckets"),
        handler=buckets.list_buckets,
        owner_checked=False,
    ),
    # Not implemented.
    _unimplemented(
        "WriteGetObjectResponse",
        "POST",
        "bucket",
        when=_answers_lambda,
        parse=operations.parse_nothing,
    ),
    _unimplemented("GetBucketAbac", "GET", "bucket", "abac"),
    _unimplemented("PutBucketAbac", "PUT", "bucket", "abac"),
    _unimplemented("PutBucketAccelerateConfiguration", "PUT", "bucket", "accelerate"),
    _unimplemented(
        "UpdateBucketMetadataAnnotationTableConfiguration",
        "PUT",
        "bucket",
        "metadataAnnotationTable",
    ),
    _unimplemented("GetBucketMetadataConfiguration", "GET", "bucket", "metadataConfiguration"),
    _unimplemented("CreateBucketMetadataConfiguration", "POST", "bucket", "metadataConfiguration"),
    _unimplemented(
        "DeleteBucketMetadataConfiguration", "DELETE", "bucket", "metadataConfiguration"
    ),
    _unimplemented(
        "UpdateBucketMetadataInventoryTableConfiguration", "PUT", "bucket", "metadataInventoryTable"
    ),
    _unimplemented(
        "UpdateBucketMetadataJournalTableConfiguration", "PUT", "bucket", "metadataJournalTable"
    ),
    _unimplemented("GetBucketMetadataTableConfiguration", "GET", "bucket", "metadataTable"),
    _unimplemented("CreateBucketMetadataTableConfiguration", "POST", "bucket", "metadataTable"),
    _unimplemented("DeleteBucketMetadataTableConfiguration", "DELETE", "bucket", "metadataTable"),
    _unimplemented("PutBucketReplication", "PUT", "bucket", "replication"),
    _unimplemented("CreateSession", "GET", "bucket", "session"),
    _unimplemented("PutBucketWebsite", "PUT", "bucket", "website"),
    _unimplemented(
        "ListObjectAnnotations", "GET", "object", "annotation", when=_without("annotationName")
    ),
    _unimplemented("GetObjectAnnotation", "GET", "object", "annotation"),
    _unimplemented("PutObjectAnnotation", "PUT", "object", "annotation"),
    _unimplemented("DeleteObjectAnnotation", "DELETE", "object", "annotation"),
    _unimplemented("UpdateObjectEncryption", "PUT", "object", "encryption"),
    _unimplemented("RenameObject", "PUT", "object", "renameObject"),
    _unimplemented("SelectObjectContent", "POST", "object", "select"),
    _of_control("ListTagsForResource", "GET", configurations.list_resource_tags),
    _of_control("TagResource", "POST", configurations.tag_resource, demands_of_document=True),
    _of_control("UntagResource", "DELETE", configurations.untag_resource),
)

TABLE: Final = routes.RouteTable(ROWS)
