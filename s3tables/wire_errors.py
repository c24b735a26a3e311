"""rule: the AWS exception and message for each error.

Errors of lower floors get AWS's message, because clients and tests look for it; the reason follows
if that message does not give it. An error without an entry here keeps its own message.
"""

from __future__ import annotations

from typing import Final

from catalog import errors as catalog_errors
from catalog.metadata import errors as metadata_errors
from s3tables import errors
from server import errors as kit_errors
from server.access import errors as access_errors
from server.accesslogs import targets
from server.auth import errors as auth_errors
from server.aws import errors as aws_errors
from server.aws import wire_errors
from storage import errors as storage_errors


def _bad_request(message: str | None = None) -> wire_errors.WireError:
    return wire_errors.WireError(status=400, code="BadRequestException", message=message)


def _not_found(message: str | None = None) -> wire_errors.WireError:
    return wire_errors.WireError(status=404, code="NotFoundException", message=message)


def _conflict(message: str | None = None) -> wire_errors.WireError:
    return wire_errors.WireError(status=409, code="ConflictException", message=message)


_BAD_LOCATION: Final = wire_errors.WireError(
    status=400,
    code="BadRequestException",
    message="The specified metadata location is not valid.",
    with_reason=True,
)
_NO_BUCKET: Final = "The specified bucket does not exist."

WIRE_ERRORS: Final[wire_errors.Table] = {
    errors.BadRequest: _bad_request(),
    targets.UnusableTarget: _bad_request(),
    errors.NotFound: _not_found(),
    errors.Conflict: _conflict(),
    errors.NotForCustomerTables: wire_errors.WireError(
        status=405, code="MethodNotAllowedException"
    ),
    errors.PublicPolicyRefused: wire_errors.WireError(status=403, code="ForbiddenException"),
    access_errors.MalformedPolicy: wire_errors.WireError(
        status=400,
        code="BadRequestException",
        message="The specified resource policy is not valid.",
        with_reason=True,
    ),
    aws_errors.MalformedDocument: _bad_request(),
    aws_errors.ValidationFailed: _bad_request(),
    kit_errors.MalformedRequest: _bad_request(),
    kit_errors.RequestTooLarge: _bad_request(),
    kit_errors.ServerBusy: wire_errors.WireError(status=429, code="TooManyRequestsException"),
    auth_errors.PayloadError: _bad_request(),
    storage_errors.NoSuchBucket: _not_found(_NO_BUCKET),
    storage_errors.InvalidBucketName: wire_errors.WireError(
        status=400,
        code="BadRequestException",
        message="The specified bucket name is not valid.",
        with_reason=True,
    ),
    storage_errors.BucketAlreadyExists: _conflict(
        "The bucket that you tried to create already exists, and you own it."
    ),
    storage_errors.BucketNotEmpty: _conflict("The bucket that you tried to delete is not empty."),
    catalog_errors.InvalidCatalogRequest: _bad_request(),
    catalog_errors.InvalidMetadataFile: _BAD_LOCATION,
    catalog_errors.MetadataFileMissing: _BAD_LOCATION,
    catalog_errors.ForeignFileRefused: wire_errors.WireError(status=403, code="ForbiddenException"),
    catalog_errors.NoSuchWarehouse: _not_found(_NO_BUCKET),
    catalog_errors.NoSuchNamespace: _not_found("The specified namespace does not exist."),
    catalog_errors.NoSuchTable: _not_found("The specified table does not exist."),
    catalog_errors.NoSuchView: _not_found("The specified table does not exist."),
    catalog_errors.Protected: _conflict(),
    catalog_errors.TableBucketNotEmpty: _conflict(
        "The bucket that you tried to delete is not empty."
    ),
    catalog_errors.DroppedTablesKept: _conflict(),
    catalog_errors.FilesReferenced: _conflict(),
    catalog_errors.NamespaceAlreadyExists: _conflict(
        "A namespace with an identical name already exists in the bucket."
    ),
    catalog_errors.NamespaceNotEmpty: _conflict(
        "The namespace that you tried to delete is not empty."
    ),
    catalog_errors.TableAlreadyExists: _conflict(
        "A table with an identical name already exists in the namespace."
    ),
    catalog_errors.ViewAlreadyExists: _conflict(
        "A view with an identical name already exists in the namespace."
    ),
    catalog_errors.DecodingInterrupted: wire_errors.WireError(
        status=503, code="ServiceUnavailableException"
    ),
    catalog_errors.MountUnavailable: wire_errors.WireError(
        status=503, code="ServiceUnavailableException"
    ),
    catalog_errors.MountReadOnly: wire_errors.WireError(status=403, code="ForbiddenException"),
    catalog_errors.StaleVersionToken: _conflict(
        "Provided version token does not match the table version token."
    ),
    catalog_errors.PropertiesOverlap: _bad_request(),
    catalog_errors.CommitFailed: _conflict(),
    metadata_errors.MetadataError: _bad_request(),
    metadata_errors.InvalidMetadata: _BAD_LOCATION,
    metadata_errors.RequirementFailed: _conflict(),
}
