"""face: S3, mounted: identify, what is asked of the caller, one handler per operation.

The table of handlers is closed over the operation type: mypy sees each case, and a test that none
is missing. Decides nothing; rules and engines do.
"""

from __future__ import annotations

import urllib.parse
from typing import Final, assert_never

import msgspec

from server import asgi, dispatch, exchange
from server.access import decide
from server.access import model as access_model
from server.auth import callers
from server.s3 import (
    buckets,
    deletes,
    demands,
    engines,
    errors,
    fields,
    guard,
    listing,
    objects,
    operations,
    uploads,
    wire_errors,
)
from storage import opening

NOT_ON_TABLES: Final = (
    operations.ListObjects
    | operations.ListObjectsV2
    | operations.ListMultipartUploads
    | operations.DeleteObject
    | operations.DeleteObjects
    | operations.CopyObject
    | operations.UploadPartCopy
    | operations.GetObjectTagging
    | operations.PutObjectTagging
    | operations.DeleteObjectTagging
)
"""What AWS does not offer on tables' storage; a bucket can be told not to offer it either."""


class Identified(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for. rulings: what the guard says of its keys, each asked about once."""

    expecting: operations.Expecting | None
    operation: operations.Operation
    rulings: guard.Rulings


class Face:
    """The S3 face.

    root: the server's own principal, whose account owns what nobody else does. guard: what knows
    tables. domain: the configured one for virtual-hosted buckets, besides `localhost`.
    """

    name: str = dispatch.S3

    def __init__(
        self,
        *,
        storage: opening.Storage,
        guard: guard.Guard,
        authoriser: decide.Authoriser,
        root: access_model.Principal,
        region: str,
        domain: str | None = None,
    ) -> None:
        self._storage = storage
        self._guard = guard
        self._authoriser = authoriser
        self._root = root
        self._region = region
        self._domain = domain

    def identify(self, request: asgi.Request) -> Identified:
        """Return which operation the request is."""
        headers = fields.select_headers(request.headers.raw)
        operation = operations.identify(
            method=request.method,
            raw_path=request.raw_path,
            host_bucket=dispatch.bucket_of_host(request.host, self._domain),
            pairs=request.pairs,
            headers=headers,
        )
        owner = headers.get("x-amz-expected-bucket-owner")
        source_owner = headers.get("x-amz-source-expected-bucket-owner")
        expecting = None
        if owner is not None or source_owner is not None:
            expecting = operations.Expecting(
                operation=operation, owner=owner, source_owner=source_owner
            )
        return Identified(
            expecting=expecting, operation=operation, rulings=guard.Rulings(self._guard)
        )

    def authentication(self, operation: Identified) -> exchange.Authentication:
        """Return SIGNED_OR_ANONYMOUS: what an anonymous caller may do, policies say."""
        return exchange.Authentication.SIGNED_OR_ANONYMOUS

    def demands(
        self, operation: Identified, principal: access_model.Principal
    ) -> tuple[access_model.Demand, ...]:
        """Return everything that must be allowed before the operation is begun."""
        return demands.of_operation(operation.operation, operation.rulings)

    async def handle(
        self, operation: Identified, request: asgi.Request, caller: callers.Caller
    ) -> asgi.Response:
        """Do the operation."""
        house = engines.Engines(
            buckets=self._storage.buckets,
            objects=self._storage.objects,
            uploads=self._storage.uploads,
            blobs=self._storage.blobs,
            guard=operation.rulings,
            authoriser=self._authoriser,
            root=self._root,
            region=self._region,
        )
        if operation.expecting is not None:
            engines.check_owners(house, operation.expecting)
        return await self._dispatch(house, operation.operation, request, caller)

    async def _dispatch(
        self,
        house: engines.Engines,
        operation: operations.Operation,
        request: asgi.Request,
        caller: callers.Caller,
    ) -> asgi.Response:
        if (
            isinstance(operation, NOT_ON_TABLES)
            and house.guard.at(operation.bucket, _key_of(operation)).is_aws_strict
        ):
            raise errors.MethodNotAllowed(
                "The specified method is not allowed against this resource.",
                Method=request.method,
                ResourceType="OBJECT",
            )
        match operation:
            case operations.GetObject():
                return await objects.get_object(house, operation, request, caller)
            case operations.PutObject():
                return await objects.put_object(house, operation, request, caller)
            case operations.HeadObject():
                return await objects.head_object(house, operation, request, caller)
            case operations.DeleteObject():
                return await objects.delete_object(house, operation, request, caller)
            case operations.ListObjectsV2():
                return await listing.list_objects_v2(house, operation, request, caller)
            case operations.ListObjects():
                return await listing.list_objects(house, operation, request, caller)
            case operations.DeleteObjects():
                return await deletes.delete_objects(house, operation, request, caller)
            case operations.CopyObject():
                return await objects.copy_object(house, operation, request, caller)
            case operations.CreateMultipartUpload():
                return await uploads.create_upload(house, operation, request, caller)
            case operations.UploadPart():
                return await uploads.upload_part(house, operation, request, caller)
            case operations.UploadPartCopy():
                return await uploads.upload_part_copy(house, operation, request, caller)
            case operations.CompleteMultipartUpload():
                return await uploads.complete_upload(house, operation, request, caller)
            case operations.AbortMultipartUpload():
                return await uploads.abort_upload(house, operation, request, caller)
            case operations.ListParts():
                return await uploads.list_parts(house, operation, request, caller)
            case operations.ListMultipartUploads():
                return await uploads.list_uploads(house, operation, request, caller)
            case operations.GetObjectTagging():
                return await objects.get_object_tagging(house, operation, request, caller)
            case operations.PutObjectTagging():
                return await objects.put_object_tagging(house, operation, request, caller)
            case operations.DeleteObjectTagging():
                return await objects.delete_object_tagging(house, operation, request, caller)
            case operations.ListBuckets():
                return await buckets.list_buckets(house, operation, request, caller)
            case operations.CreateBucket():
                return await buckets.create_bucket(house, operation, request, caller)
            case operations.HeadBucket():
                return await buckets.head_bucket(house, operation, request, caller)
            case operations.DeleteBucket():
                return await buckets.delete_bucket(house, operation, request, caller)
            case operations.GetBucketLocation():
                return await buckets.get_bucket_location(house, operation, request, caller)
            case operations.GetBucketVersioning():
                return await buckets.get_bucket_versioning(house, operation, request, caller)
            case operations.GetBucketConfiguration():
                return await buckets.get_bucket_configuration(house, operation, request, caller)
            case operations.Preflight():
                return await buckets.preflight(house, operation, request, caller)
            case operations.Unsupported(name=name):
                raise errors.NotImplementedHere(
                    f"The operation {name} is not implemented.", Operation=name
                )
            case _:
                assert_never(operation)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return S3's answer to an error."""
        return wire_errors.encode(
            error,
            resource=urllib.parse.unquote(request.raw_path, errors="replace"),
            request_id=request.request_id,
        )


def _key_of(operation: operations.Operation) -> str:
    """Return the key that an operation is about, or the prefix of those that it lists."""
    key: str = getattr(operation, "key", "") or getattr(operation, "prefix", "")
    return key
