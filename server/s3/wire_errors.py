"""face: what S3 answers for each error of this floor and those below: code, status, message.

One row per class, looked up along the error's own ancestry; a test walks every class. AWS's message
stands in the row where clients or people know it by heart; elsewhere the fact's own sentence is
shown. What no row knows becomes InternalError, of which the client learns no more than its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from server import asgi, errortables
from server import errors as kit_errors
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.s3 import errors, guard, wire
from storage import errors as storage_errors

Fields: TypeAlias = tuple[tuple[str, str], ...]
LAYOUT_HEADER = "x-boathouse-layout-rule"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One answer. message: None shows the error's own.

    fields, headers: error -> further elements and headers.
    """

    status: int
    code: str
    message: str | None = None
    fields: Callable[[Exception], Fields] | None = None
    headers: Callable[[Exception], Fields] | None = None


def encode(error: Exception, *, resource: str, request_id: str) -> asgi.Response:
    """Return the answer to an error. resource: the path asked for, as people read it."""
    if isinstance(error, storage_errors.NotModified):
        return asgi.Response(304, _not_modified(error))
    row, message = find(error)
    fields = () if row.fields is None else row.fields(error)
    body = wire.error(
        row.code, message, (*fields, ("Resource", resource), ("RequestId", request_id))
    )
    headers = wire.XML_HEADERS
    if row.headers is not None:
        headers = (*headers, *row.headers(error))
    if isinstance(error, guard.LayoutRefused):
        headers = (*headers, (LAYOUT_HEADER, error.rule))
    return asgi.Response(row.status, headers, body)


def find(error: Exception) -> tuple[Row, str]:
    """Return an error's row and the message to show."""
    row = errortables.find(error, WIRE_ERRORS) or _INTERNAL
    code = getattr(error, "code", None)
    if isinstance(error, errors.NotConfigured):
        row = Row(status=row.status, code=str(code), fields=row.fields)
    elif isinstance(error, auth_errors.MalformedAuthorization) and error.in_query:
        row = Row(status=400, code="AuthorizationQueryParametersError")
    return row, str(error) if row.message is None else row.message


def _not_modified(error: storage_errors.NotModified) -> wire.Headers:
    modified_at_ms = error.fields["modified_at_ms"]
    assert isinstance(modified_at_ms, int)
    return (
        ("etag", f'"{error.fields["etag"]}"'),
        ("last-modified", wire.format_date(modified_at_ms)),
    )


def _own(error: Exception) -> Fields:
    """The fields of an error of the S3 face are elements already."""
    assert isinstance(error, errors.S3Error)
    return tuple(error.fields.items())


def _from(**names: str) -> Callable[[Exception], Fields]:
    """Return a function from an error's attributes to elements: element name -> attribute."""

    def fields(error: Exception) -> Fields:
        return tuple(
            (element, str(getattr(error, attribute)))
            for element, attribute in names.items()
            if getattr(error, attribute, None) is not None
        )

    return fields


def _layout(error: Exception) -> Fields:
    assert isinstance(error, guard.LayoutRefused)
    return (
        ("Rule", error.rule),
        ("Segment", error.segment[: guard.SEGMENT_CHARACTERS_MAX]),
        ("Position", str(error.position)),
    )


def _signature(error: Exception) -> Fields:
    assert isinstance(error, auth_errors.SignatureDoesNotMatch)
    return (
        ("AWSAccessKeyId", error.access_key),
        ("StringToSign", error.string_to_sign),
        ("SignatureProvided", error.signature_provided),
        ("CanonicalRequest", error.canonical_request),
    )


def _delete_marker(error: Exception) -> Fields:
    """Return the headers that say that a version is a delete marker.

    One that the request names also has its time, and the one method that it takes.
    """
    assert isinstance(error, storage_errors.KeyDeleted | storage_errors.IsDeleteMarker)
    headers: Fields = (
        ("x-amz-delete-marker", "true"),
        ("x-amz-version-id", str(error.fields["version_id"])),
    )
    if isinstance(error, storage_errors.KeyDeleted):
        return headers
    modified_at_ms = error.fields["modified_at_ms"]
    assert isinstance(modified_at_ms, int)
    return (*headers, ("last-modified", wire.format_date(modified_at_ms)), ("allow", "DELETE"))


def _skew(error: Exception) -> Fields:
    assert isinstance(error, auth_errors.RequestTimeTooSkewed)
    return (
        ("RequestTime", wire.format_timestamp(error.request_time_ms)),
        ("ServerTime", wire.format_timestamp(error.server_time_ms)),
        ("MaxAllowedSkewMilliseconds", str(error.max_skew_ms)),
    )


def _expired(error: Exception) -> Fields:
    assert isinstance(error, auth_errors.ExpiredPresign)
    return (
        ("Expires", wire.format_timestamp(error.expires_at_ms)),
        ("ServerTime", wire.format_timestamp(error.server_time_ms)),
    )


def _names(error: Exception) -> Fields:
    assert isinstance(error, auth_errors.HeadersNotSigned)
    return (("HeadersNotSigned", ", ".join(error.names)),)


_INTERNAL = Row(
    status=500,
    code="InternalError",
    message="We encountered an internal error. Please try again.",
)
_ACCESS_DENIED = Row(status=403, code="AccessDenied")

_MALFORMED_XML = (
    "The XML you provided was not well-formed or did not validate against our published schema"
)
_NO_SUCH_UPLOAD = (
    "The specified upload does not exist. The upload ID may be invalid, or the upload may have "
    "been aborted or completed."
)
_INVALID_PART = (
    "One or more of the specified parts could not be found.  The part may not have been uploaded, "
    "or the specified entity tag may not match the part's entity tag."
)

WIRE_ERRORS: Final[errortables.Table[Row]] = {
    # The S3 face.
    errors.InvalidArgument: Row(status=400, code="InvalidArgument", fields=_own),
    errors.InvalidRequest: Row(status=400, code="InvalidRequest", fields=_own),
    errors.InvalidUri: Row(status=400, code="InvalidURI", fields=_own),
    errors.MethodNotAllowed: Row(status=405, code="MethodNotAllowed", fields=_own),
    errors.NotImplementedHere: Row(status=501, code="NotImplemented", fields=_own),
    errors.MalformedXml: Row(status=400, code="MalformedXML", message=_MALFORMED_XML),
    errors.MissingRequestBody: Row(status=400, code="MissingRequestBodyError", fields=_own),
    errors.MissingContentLength: Row(status=411, code="MissingContentLength", fields=_own),
    errors.EntityTooLarge: Row(status=400, code="EntityTooLarge", fields=_own),
    errors.IncompleteBody: Row(status=400, code="IncompleteBody", fields=_own),
    errors.MetadataTooLarge: Row(status=400, code="MetadataTooLarge", fields=_own),
    errors.InvalidDigest: Row(status=400, code="InvalidDigest", fields=_own),
    errors.BadDigest: Row(status=400, code="BadDigest", fields=_own),
    errors.InvalidTag: Row(status=400, code="InvalidTag", fields=_own),
    errors.TooManyTags: Row(status=400, code="BadRequest", fields=_own),
    errors.InvalidStorageClass: Row(status=400, code="InvalidStorageClass", fields=_own),
    errors.InvalidLocationConstraint: Row(
        status=400, code="InvalidLocationConstraint", fields=_own
    ),
    errors.IllegalLocationConstraint: Row(
        status=400, code="IllegalLocationConstraintException", fields=_own
    ),
    errors.BucketAlreadyOwnedByYou: Row(status=409, code="BucketAlreadyOwnedByYou", fields=_own),
    errors.TableBucketVerb: Row(status=405, code="MethodNotAllowed", fields=_own),
    errors.IllegalVersioning: Row(
        status=400, code="IllegalVersioningConfigurationException", fields=_own
    ),
    errors.InvalidPartNumber: Row(status=416, code="InvalidPartNumber", fields=_own),
    errors.AccessDenied: Row(status=403, code="AccessDenied", fields=_own),
    errors.NotConfigured: Row(status=404, code="NotConfigured", fields=_own),
    errors.CorsNotEnabled: Row(status=403, code="AccessForbidden", fields=_own),
    errors.NotAForm: Row(status=412, code="PreconditionFailed", fields=_own),
    errors.MalformedForm: Row(status=400, code="MalformedPOSTRequest", fields=_own),
    errors.FormTooLarge: Row(status=400, code="MaxPostPreDataLengthExceeded", fields=_own),
    errors.FileMissing: Row(status=400, code="IncorrectNumberOfFilesInPostRequest", fields=_own),
    guard.LayoutRefused: Row(status=403, code="AccessDenied", fields=_layout),
    # Storage.
    storage_errors.NoSuchBucket: Row(
        status=404,
        code="NoSuchBucket",
        message="The specified bucket does not exist",
        fields=_from(BucketName="name"),
    ),
    storage_errors.BucketAlreadyExists: Row(
        status=409,
        code="BucketAlreadyExists",
        message=(
            "The requested bucket name is not available. The bucket namespace is shared by all "
            "users of the system. Please select a different name and try again."
        ),
        fields=_from(BucketName="name"),
    ),
    storage_errors.BucketNotEmpty: Row(
        status=409,
        code="BucketNotEmpty",
        message="The bucket you tried to delete is not empty",
        fields=_from(BucketName="name"),
    ),
    storage_errors.InvalidBucketName: Row(
        status=400, code="InvalidBucketName", fields=_from(BucketName="name")
    ),
    storage_errors.InvalidKey: Row(status=400, code="KeyTooLongError"),
    storage_errors.NoSuchKey: Row(
        status=404,
        code="NoSuchKey",
        message="The specified key does not exist.",
        fields=_from(Key="key"),
    ),
    storage_errors.NoSuchVersion: Row(
        status=404,
        code="NoSuchVersion",
        message="The specified version does not exist.",
        fields=_from(Key="key", VersionId="version_id"),
    ),
    storage_errors.KeyDeleted: Row(
        status=404,
        code="NoSuchKey",
        message="The specified key does not exist.",
        fields=_from(Key="key"),
        headers=_delete_marker,
    ),
    storage_errors.IsDeleteMarker: Row(
        status=405,
        code="MethodNotAllowed",
        message="The specified method is not allowed against this resource.",
        fields=_from(Key="key", VersionId="version_id"),
        headers=_delete_marker,
    ),
    storage_errors.NoSuchUpload: Row(
        status=404,
        code="NoSuchUpload",
        message=_NO_SUCH_UPLOAD,
        fields=_from(UploadId="upload_id"),
    ),
    storage_errors.InvalidPart: Row(
        status=400,
        code="InvalidPart",
        message=_INVALID_PART,
        fields=_from(UploadId="upload_id", PartNumber="part_number", ETag="etag"),
    ),
    storage_errors.PartOutOfOrder: Row(
        status=400,
        code="InvalidPartOrder",
        message=(
            "The list of parts was not in ascending order. Parts must be ordered by part number."
        ),
    ),
    storage_errors.PartTooSmall: Row(
        status=400,
        code="EntityTooSmall",
        message="Your proposed upload is smaller than the minimum allowed size",
        fields=_from(ProposedSize="size_bytes", PartNumber="part_number"),
    ),
    storage_errors.PreconditionFailed: Row(
        status=412,
        code="PreconditionFailed",
        message="At least one of the pre-conditions you specified did not hold",
        fields=_from(Condition="condition"),
    ),
    storage_errors.ContentDiffers: Row(status=403, code="AccessDenied"),
    storage_errors.ExpectationFailed: Row(
        status=409,
        code="OperationAborted",
        message=(
            "A conflicting conditional operation is currently in progress against this resource. "
            "Please try again."
        ),
    ),
    storage_errors.DiskFull: Row(
        status=507,
        code="InsufficientStorage",
        message="The server has no room for this write. Reads and deletes go on.",
    ),
    storage_errors.RangeNotSatisfiable: Row(
        status=416,
        code="InvalidRange",
        message="The requested range is not satisfiable",
        fields=_from(RangeRequested="requested", ActualObjectSize="size_bytes"),
    ),
    storage_errors.NotModified: Row(status=304, code="NotModified"),
    storage_errors.SourceGone: Row(
        status=404, code="NoSuchKey", message="The specified key does not exist."
    ),
    storage_errors.CommitUnknown: _INTERNAL,
    storage_errors.CommitRefused: _INTERNAL,
    storage_errors.IndexClosed: Row(
        status=503,
        code="ServiceUnavailable",
        message="The server is shutting down. Please try again.",
    ),
    storage_errors.BodyTooLarge: _INTERNAL,
    storage_errors.BodyMissing: _INTERNAL,
    storage_errors.CorruptRecord: _INTERNAL,
    storage_errors.CorruptIndex: _INTERNAL,
    storage_errors.CorruptFolder: _INTERNAL,
    storage_errors.FolderInUse: _INTERNAL,
    storage_errors.NewerFormat: _INTERNAL,
    # Proofs of identity.
    auth_errors.MissingCredentials: Row(status=403, code="AccessDenied", message="Access Denied"),
    auth_errors.MalformedAuthorization: Row(status=400, code="AuthorizationHeaderMalformed"),
    auth_errors.IncompleteForm: Row(
        status=400, code="InvalidArgument", fields=_from(ArgumentName="field")
    ),
    auth_errors.UnsupportedAuthorization: Row(status=400, code="InvalidRequest"),
    auth_errors.RegionMismatch: Row(
        status=400, code="AuthorizationHeaderMalformed", fields=_from(Region="expected")
    ),
    auth_errors.ServiceMismatch: Row(status=400, code="AuthorizationHeaderMalformed"),
    auth_errors.InvalidAccessKey: Row(
        status=403,
        code="InvalidAccessKeyId",
        message="The AWS Access Key Id you provided does not exist in our records.",
        fields=_from(AWSAccessKeyId="access_key"),
    ),
    auth_errors.TooManyFailures: Row(
        status=503, code="SlowDown", message="Please reduce your request rate."
    ),
    auth_errors.SignatureDoesNotMatch: Row(
        status=403,
        code="SignatureDoesNotMatch",
        message=(
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
        fields=_signature,
    ),
    auth_errors.HeadersNotSigned: Row(
        status=403,
        code="AccessDenied",
        message="There were headers present in the request which were not signed",
        fields=_names,
    ),
    auth_errors.RequestTimeTooSkewed: Row(
        status=403,
        code="RequestTimeTooSkewed",
        message=("The difference between the request time and the current time is too large."),
        fields=_skew,
    ),
    auth_errors.ExpiredPresign: Row(
        status=403, code="AccessDenied", message="Request has expired", fields=_expired
    ),
    auth_errors.PresignNotYetValid: Row(
        status=403, code="AccessDenied", message="Request is not yet valid"
    ),
    auth_errors.InvalidToken: Row(
        status=400,
        code="InvalidToken",
        message="The provided token is malformed or otherwise invalid.",
    ),
    auth_errors.ExpiredToken: Row(
        status=400, code="ExpiredToken", message="The provided token has expired."
    ),
    auth_errors.MalformedPostPolicy: Row(status=400, code="InvalidPolicyDocument"),
    auth_errors.ExpiredPostPolicy: Row(
        status=403,
        code="AccessDenied",
        message="Invalid according to Policy: Policy expired.",
    ),
    auth_errors.PostPolicyViolated: _ACCESS_DENIED,
    auth_errors.PostBodyTooSmall: Row(status=400, code="EntityTooSmall"),
    auth_errors.PostBodyTooLarge: Row(status=400, code="EntityTooLarge"),
    auth_errors.MalformedPayloadHash: Row(status=400, code="InvalidArgument"),
    auth_errors.UnsupportedPayload: Row(status=501, code="NotImplemented"),
    auth_errors.PayloadHashMismatch: Row(
        status=400,
        code="XAmzContentSHA256Mismatch",
        message="The provided 'x-amz-content-sha256' header does not match what was computed.",
        fields=_from(ClientComputedContentSHA256="expected", S3ComputedContentSHA256="computed"),
    ),
    auth_errors.ChunkSignatureMismatch: Row(
        status=403,
        code="SignatureDoesNotMatch",
        message=(
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
    ),
    auth_errors.MalformedChunk: Row(status=400, code="IncompleteBody"),
    auth_errors.IncompletePayload: Row(status=400, code="IncompleteBody"),
    auth_errors.MissingDecodedLength: Row(status=411, code="MissingContentLength"),
    # Access.
    access_errors.AccessDenied: _ACCESS_DENIED,
    access_errors.MalformedPolicy: Row(status=400, code="MalformedPolicy"),
    access_errors.MalformedARN: Row(status=400, code="InvalidArgument"),
    access_errors.NoSuchAccessKey: Row(
        status=403,
        code="InvalidAccessKeyId",
        message="The AWS Access Key Id you provided does not exist in our records.",
    ),
    access_errors.WrongPassword: Row(status=403, code="AccessDenied", message="Access Denied"),
    access_errors.InvalidToken: Row(
        status=400,
        code="InvalidToken",
        message="The provided token is malformed or otherwise invalid.",
    ),
    access_errors.ExpiredToken: Row(
        status=400, code="ExpiredToken", message="The provided token has expired."
    ),
    access_errors.CorruptKeys: _INTERNAL,
    access_errors.AuditUnavailable: Row(
        status=503,
        code="ServiceUnavailable",
        message="The audit log cannot be written, so no write is taken.",
    ),
    # The kit.
    kit_errors.MalformedRequest: Row(status=400, code="InvalidRequest"),
    kit_errors.RequestTooLarge: Row(status=400, code="RequestHeaderSectionTooLarge"),
    kit_errors.BodyTooLarge: Row(
        status=400, code="MaxMessageLengthExceeded", message="Your request was too big."
    ),
    kit_errors.ClientDisconnected: Row(status=400, code="RequestTimeout"),
    kit_errors.BodyStalled: Row(status=400, code="RequestTimeout"),
    kit_errors.ServerBusy: Row(
        status=503, code="SlowDown", message="Please reduce your request rate."
    ),
    kit_errors.MalformedXML: Row(status=400, code="MalformedXML", message=_MALFORMED_XML),
    kit_errors.FaceNotServed: Row(status=501, code="NotImplemented"),
    kit_errors.NoSuchRoute: Row(status=404, code="NoSuchKey"),
    kit_errors.MethodNotAllowed: Row(status=405, code="MethodNotAllowed"),
}
