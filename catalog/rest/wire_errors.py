"""rule: status and type of each error, and the JSON form of the catalog's errors.

Clients branch on the type: they read a 404 without one as "no such table". After a 4xx to a commit
the client deletes its files, so that status is only for commits that certainly did not happen. Java
takes 500, 502, 503 and 504 to a commit for an unknown outcome, and retries a 429 with any request.
So what did not happen and may be tried again is a 429, and what a retry does not mend a 507.
Source: Iceberg REST catalog specification, IcebergErrorResponse; Iceberg's Java client 1.11.
"""

from __future__ import annotations

from typing import Final

from catalog import errors
from catalog.metadata import errors as metadata_errors
from catalog.rest import errors as rest_errors
from server import errors as kit_errors
from server import errortables
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.s3 import guard
from storage import errors as storage_errors

RETRY_AFTER_SECONDS: Final = 1
"""How long a client waits after a 429."""

_BUSY: Final = (429, "TooManyRequestsException")
_NO_WRITES: Final = (507, "InsufficientStorageException")

WIRE_ERRORS: Final[errortables.Table[tuple[int, str]]] = {
    errors.InvalidCatalogRequest: (400, "BadRequestException"),
    errors.InvalidName: (400, "IllegalArgumentException"),
    errors.InvalidLocation: (400, "ValidationException"),
    errors.InvalidProperty: (400, "ValidationException"),
    errors.InvalidMetadataFile: (400, "BadRequestException"),
    errors.MisplacedDeletes: (400, "ValidationException"),
    errors.InvalidPageToken: (400, "BadRequestException"),
    errors.IdempotencyKeyReused: (400, "BadRequestException"),
    errors.NoSuchWarehouse: (404, "NoSuchWarehouseException"),
    errors.NoSuchNamespace: (404, "NoSuchNamespaceException"),
    errors.NamespaceAlreadyExists: (409, "AlreadyExistsException"),
    errors.NamespaceNotEmpty: (409, "NamespaceNotEmptyException"),
    errors.TableBucketNotEmpty: (409, "NamespaceNotEmptyException"),
    errors.DroppedTablesKept: (409, "NamespaceNotEmptyException"),
    errors.FilesReferenced: (409, "NamespaceNotEmptyException"),
    errors.PropertiesOverlap: (422, "UnprocessableEntityException"),
    errors.NoSuchTable: (404, "NoSuchTableException"),
    errors.TableWithoutMetadata: (404, "NoSuchTableException"),
    errors.NotRestorable: (404, "NoSuchTableException"),
    errors.NamespaceNotRestorable: (404, "NoSuchNamespaceException"),
    errors.Protected: (403, "ForbiddenException"),
    errors.TableAlreadyExists: (409, "AlreadyExistsException"),
    errors.NoSuchView: (404, "NoSuchViewException"),
    errors.ViewAlreadyExists: (409, "AlreadyExistsException"),
    errors.MetadataFileMissing: (404, "NotFoundException"),
    errors.ForeignFileRefused: (403, "ForbiddenException"),
    errors.NoSuchSnapshot: (400, "BadRequestException"),
    errors.CommitFailed: (409, "CommitFailedException"),
    errors.LoadAlreadyTaken: (409, "CommitFailedException"),
    errors.StaleVersionToken: (409, "CommitFailedException"),
    errors.DecodingInterrupted: _BUSY,
    errors.MountUnavailable: (503, "ServiceUnavailableException"),
    errors.MountReadOnly: (403, "ForbiddenException"),
    errors.CommitStateUnknown: (500, "CommitStateUnknownException"),
    errors.IntegrityBroken: (500, "InternalServerError"),
    metadata_errors.InvalidMetadata: (400, "BadRequestException"),
    metadata_errors.Undecoded: (400, "BadRequestException"),
    metadata_errors.BadUpdate: (400, "IllegalArgumentException"),
    metadata_errors.BadRequirement: (400, "IllegalArgumentException"),
    metadata_errors.RequirementFailed: (409, "CommitFailedException"),
    metadata_errors.ColumnsDiffer: (409, "CommitFailedException"),
    metadata_errors.StaleSequenceNumber: (409, "CommitFailedException"),
    rest_errors.EndpointNotImplemented: (406, "UnsupportedOperationException"),
    rest_errors.NoSuchEndpoint: (404, "NotFoundException"),
    rest_errors.NoSuchFunction: (404, "NoSuchFunctionException"),
    rest_errors.NoSuchPlanId: (404, "NoSuchPlanIdException"),
    rest_errors.NoSuchPlanTask: (404, "NoSuchPlanTaskException"),
    rest_errors.SigningRefused: (403, "ForbiddenException"),
    rest_errors.MalformedJson: (400, "BadRequestException"),
    guard.LayoutRefused: (400, "ValidationException"),
    storage_errors.NoSuchBucket: (404, "NoSuchWarehouseException"),
    storage_errors.DiskFull: _NO_WRITES,
    storage_errors.DiskReadOnly: _NO_WRITES,
    storage_errors.CommitRefused: _NO_WRITES,
    kit_errors.MalformedRequest: (400, "BadRequestException"),
    kit_errors.RequestTooLarge: (400, "BadRequestException"),
    kit_errors.BodyTooLarge: (413, "BadRequestException"),
    kit_errors.BodyStalled: (408, "RequestTimeoutException"),
    kit_errors.ServerBusy: _BUSY,
    access_errors.AccessDenied: (403, "ForbiddenException"),
    access_errors.AuditUnavailable: _NO_WRITES,
    auth_errors.AuthError: (401, "NotAuthorizedException"),
    auth_errors.PayloadError: (400, "BadRequestException"),
}

INTERNAL: Final = (500, "InternalServerError", "an internal error; see the server's log")


def describe(error: Exception) -> tuple[int, str, str]:
    """Return the status, type and message of an error; an unknown one has no details."""
    row = errortables.find(error, WIRE_ERRORS)
    return INTERNAL if row is None else (*row, str(error))
