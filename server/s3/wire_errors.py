"""face: the S3 code, status and message for each error of this floor and those below.

One row per class, looked up along the error's base classes; a test checks every class. A row has
AWS's message where clients depend on it; otherwise the error's own message is shown. An error
without a row becomes InternalError, without details.
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
from storage import keys

Fields: TypeAlias = tuple[tuple[str, str], ...]
LAYOUT_HEADER = "x-boathouse-layout-rule"


@dataclass(frozen=True, kw_only=True, slots=True)
class S3WireError:
    """One error response. message: None shows the error's own.

    resource_type: what the request's method is not allowed on; its elements are these two. fields,
    headers: error -> further elements and headers.
    """

    status: int
    code: str
    message: str | None = None
    resource_type: str = ""
    fields: Callable[[Exception], Fields] | None = None
    headers: Callable[[Exception], Fields] | None = None


def encode(
    error: Exception, *, method: str, resource: str, request_id: str, host_id: str
) -> asgi.Response:
    """Return the response to an error. method: of the request. resource: its decoded path.
    request_id, host_id: as in the headers of the answer."""
    row, message = find(error)
    fields = () if row.fields is None else row.fields(error)
    if row.resource_type:
        fields = (("Method", method), ("ResourceType", row.resource_type))
    further = (("Resource", resource), ("RequestId", request_id), ("HostId", host_id))
    body = wire.error(row.code, message, (*fields, *further))
    headers = wire.XML_HEADERS
    if row.headers is not None:
        headers = (*headers, *row.headers(error))
    return asgi.Response(row.status, headers, body)


def find(error: Exception) -> tuple[S3WireError, str]:
    """Return an error's row and the message to show."""
    row = errortables.find(error, WIRE_ERRORS) or _INTERNAL
    code = getattr(error, "code", None)
    if isinstance(error, errors.NotConfigured):
        row = S3WireError(status=row.status, code=str(code), fields=row.fields)
    elif type(error) is auth_errors.MalformedAuthorization and error.in_query:
        row = S3WireError(status=400, code="AuthorizationQueryParametersError")
    return row, str(error) if row.message is None else row.message


def _own(error: Exception) -> Fields:
    """Return the fields of an error of the S3 face, which are elements already."""
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


def _size_of_key(error: Exception) -> Fields:
    assert isinstance(error, storage_errors.InvalidKey)
    if error.fields["reason"] != "too long":
        return ()
    return (
        ("Size", str(error.fields["length_bytes"])),
        ("MaxSizeAllowed", str(keys.KEY_BYTES_MAX)),
    )


def _layout(error: Exception) -> Fields:
    assert isinstance(error, guard.LayoutRefused)
    return (
        ("Rule", error.rule),
        ("Segment", error.segment[: guard.SEGMENT_CHARACTERS_MAX]),
        ("Position", str(error.position)),
    )


def _layout_header(error: Exception) -> Fields:
    assert isinstance(error, guard.LayoutRefused)
    return ((LAYOUT_HEADER, error.rule),)


def _signature(error: Exception) -> Fields:
    assert isinstance(error, auth_errors.SignatureDoesNotMatch)
    fields = (
        ("AWSAccessKeyId", error.access_key),
        ("StringToSign", error.string_to_sign),
        ("SignatureProvided", error.signature_provided),
        ("StringToSignBytes", _bytes_of(error.string_to_sign)),
    )
    if not error.canonical_request:  # forms and version 2 have none
        return fields
    return (
        *fields,
        ("CanonicalRequest", error.canonical_request),
        ("CanonicalRequestBytes", _bytes_of(error.canonical_request)),
    )


def _bytes_of(text: str) -> str:
    """Return a text's bytes in hexadecimal, as S3 shows what a client should have signed."""
    return text.encode("latin-1", "replace").hex(" ")


def _delete_marker(error: Exception) -> Fields:
    """Return the headers of a delete marker.

    If the request has its version id, also its time and the one method that it allows.
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
    validity: Fields = ()
    if error.expires_seconds is not None:
        validity = (("X-Amz-Expires", str(error.expires_seconds)),)
    return (
        *validity,
        ("Expires", wire.format_timestamp(error.expires_at_ms)),
        ("ServerTime", wire.format_timestamp(error.server_time_ms)),
    )


def _names(error: Exception) -> Fields:
    assert isinstance(error, auth_errors.HeadersNotSigned)
    return (("HeadersNotSigned", ", ".join(error.names)),)


_INTERNAL = S3WireError(
    status=500,
    code="InternalError",
    message="We encountered an internal error. Please try again.",
)
_ACCESS_DENIED = S3WireError(status=403, code="AccessDenied")

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

WIRE_ERRORS: Final[errortables.Table[S3WireError]] = {
    # The S3 face.
    errors.InvalidArgument: S3WireError(status=400, code="InvalidArgument", fields=_own),
    errors.InvalidTargetBucket: S3WireError(
        status=400, code="InvalidTargetBucketForLogging", fields=_own
    ),
    errors.InvalidRequest: S3WireError(status=400, code="InvalidRequest", fields=_own),
    errors.InvalidUri: S3WireError(status=400, code="InvalidURI", fields=_own),
    errors.ResourceMethodNotAllowed: S3WireError(status=405, code="MethodNotAllowed", fields=_own),
    errors.S3FeatureNotImplemented: S3WireError(status=501, code="NotImplemented", fields=_own),
    errors.UnexpectedXml: S3WireError(status=400, code="MalformedXML", message=_MALFORMED_XML),
    errors.MissingRequestBody: S3WireError(status=400, code="MissingRequestBodyError", fields=_own),
    errors.MissingContentLength: S3WireError(status=411, code="MissingContentLength", fields=_own),
    errors.EntityTooLarge: S3WireError(status=400, code="EntityTooLarge", fields=_own),
    errors.IncompleteBody: S3WireError(status=400, code="IncompleteBody", fields=_own),
    errors.MetadataTooLarge: S3WireError(status=400, code="MetadataTooLarge", fields=_own),
    errors.InvalidDigest: S3WireError(status=400, code="InvalidDigest", fields=_own),
    errors.BadDigest: S3WireError(status=400, code="BadDigest", fields=_own),
    errors.InvalidTag: S3WireError(status=400, code="InvalidTag", fields=_own),
    errors.TooManyTags: S3WireError(status=400, code="BadRequest", fields=_own),
    errors.InvalidStorageClass: S3WireError(status=400, code="InvalidStorageClass", fields=_own),
    errors.InvalidLocationConstraint: S3WireError(
        status=400, code="InvalidLocationConstraint", fields=_own
    ),
    errors.IllegalLocationConstraint: S3WireError(
        status=400, code="IllegalLocationConstraintException", fields=_own
    ),
    errors.BucketAlreadyOwnedByYou: S3WireError(
        status=409, code="BucketAlreadyOwnedByYou", fields=_own
    ),
    errors.BucketHasVersions: S3WireError(status=409, code="BucketNotEmpty", fields=_own),
    errors.TableBucketVerb: S3WireError(status=405, code="MethodNotAllowed", fields=_own),
    errors.IllegalVersioning: S3WireError(
        status=400, code="IllegalVersioningConfigurationException", fields=_own
    ),
    errors.InvalidRetentionPeriod: S3WireError(
        status=400, code="InvalidRetentionPeriod", fields=_own
    ),
    errors.InvalidPartNumber: S3WireError(status=416, code="InvalidPartNumber", fields=_own),
    errors.AclNotSupported: S3WireError(
        status=400, code="AccessControlListNotSupported", fields=_own
    ),
    errors.BucketAclPresent: S3WireError(
        status=400, code="InvalidBucketAclWithObjectOwnership", fields=_own
    ),
    errors.MalformedAcl: S3WireError(status=400, code="MalformedACLError", fields=_own),
    errors.UnresolvableGrant: S3WireError(
        status=400, code="UnresolvableGrantByEmailAddress", fields=_own
    ),
    errors.AmbiguousGrant: S3WireError(
        status=400, code="AmbiguousGrantByEmailAddress", fields=_own
    ),
    errors.UnexpectedContent: S3WireError(status=400, code="UnexpectedContent", fields=_own),
    errors.MissingSecurityHeader: S3WireError(
        status=400, code="MissingSecurityHeader", fields=_own
    ),
    errors.Forbidden: S3WireError(status=403, code="AccessDenied", fields=_own),
    errors.NotArchived: S3WireError(status=403, code="InvalidObjectState", fields=_own),
    errors.NotConfigured: S3WireError(status=404, code="NotConfigured", fields=_own),
    errors.CorsNotEnabled: S3WireError(status=403, code="AccessForbidden", fields=_own),
    errors.PreflightIncomplete: S3WireError(status=400, code="BadRequest", fields=_own),
    errors.NotAForm: S3WireError(status=412, code="PreconditionFailed", fields=_own),
    errors.MalformedForm: S3WireError(status=400, code="MalformedPOSTRequest", fields=_own),
    errors.FormTooLarge: S3WireError(status=400, code="MaxPostPreDataLengthExceeded", fields=_own),
    errors.FileMissing: S3WireError(
        status=400, code="IncorrectNumberOfFilesInPostRequest", fields=_own
    ),
    guard.LayoutRefused: S3WireError(
        status=403, code="AccessDenied", fields=_layout, headers=_layout_header
    ),
    # Storage.
    storage_errors.NoSuchBucket: S3WireError(
        status=404,
        code="NoSuchBucket",
        message="The specified bucket does not exist",
        fields=_from(BucketName="name"),
    ),
    storage_errors.BucketAlreadyExists: S3WireError(
        status=409,
        code="BucketAlreadyExists",
        message=(
            "The requested bucket name is not available. The bucket namespace is shared by all "
            "users of the system. Please select a different name and try again."
        ),
        fields=_from(BucketName="name"),
    ),
    storage_errors.BucketNotEmpty: S3WireError(
        status=409,
        code="BucketNotEmpty",
        message="The bucket you tried to delete is not empty",
        fields=_from(BucketName="name"),
    ),
    storage_errors.InvalidBucketName: S3WireError(
        status=400, code="InvalidBucketName", fields=_from(BucketName="name")
    ),
    storage_errors.InvalidKey: S3WireError(status=400, code="KeyTooLongError", fields=_size_of_key),
    storage_errors.NoSuchKey: S3WireError(
        status=404,
        code="NoSuchKey",
        message="The specified key does not exist.",
        fields=_from(Key="key"),
    ),
    storage_errors.NoSuchVersion: S3WireError(
        status=404,
        code="NoSuchVersion",
        message="The specified version does not exist.",
        fields=_from(Key="key", VersionId="version_id"),
    ),
    storage_errors.KeyDeleted: S3WireError(
        status=404,
        code="NoSuchKey",
        message="The specified key does not exist.",
        fields=_from(Key="key"),
        headers=_delete_marker,
    ),
    storage_errors.IsDeleteMarker: S3WireError(
        status=405,
        code="MethodNotAllowed",
        message="The specified method is not allowed against this resource.",
        resource_type="DeleteMarker",
        headers=_delete_marker,
    ),
    storage_errors.ObjectLocked: S3WireError(
        status=403,
        code="AccessDenied",
        message="Access Denied because object protected by object lock.",
    ),
    storage_errors.RetentionInPast: S3WireError(
        status=400,
        code="InvalidArgument",
        message="The retain until date must be in the future!",
    ),
    storage_errors.InvalidBucketState: S3WireError(
        status=409, code="InvalidBucketState", fields=_from(BucketName="name")
    ),
    storage_errors.NoSuchUpload: S3WireError(
        status=404,
        code="NoSuchUpload",
        message=_NO_SUCH_UPLOAD,
        fields=_from(UploadId="upload_id"),
    ),
    storage_errors.InvalidPart: S3WireError(
        status=400,
        code="InvalidPart",
        message=_INVALID_PART,
        fields=_from(UploadId="upload_id", PartNumber="part_number", ETag="etag"),
    ),
    storage_errors.PartOutOfOrder: S3WireError(
        status=400,
        code="InvalidPartOrder",
        message=(
            "The list of parts was not in ascending order. Parts must be ordered by part number."
        ),
        fields=_from(UploadId="upload_id"),
    ),
    storage_errors.PartTooSmall: S3WireError(
        status=400,
        code="EntityTooSmall",
        message="Your proposed upload is smaller than the minimum allowed size",
        fields=_from(
            ProposedSize="size_bytes",
            MinSizeAllowed="size_bytes_min",
            PartNumber="part_number",
            ETag="etag",
        ),
    ),
    storage_errors.PreconditionFailed: S3WireError(
        status=412,
        code="PreconditionFailed",
        message="At least one of the pre-conditions you specified did not hold",
        fields=_from(Condition="condition"),
    ),
    storage_errors.ContentDiffers: S3WireError(status=403, code="AccessDenied"),
    storage_errors.ExpectationFailed: S3WireError(
        status=409,
        code="OperationAborted",
        message=(
            "A conflicting conditional operation is currently in progress against this resource. "
            "Please try again."
        ),
    ),
    storage_errors.DiskFull: S3WireError(
        status=507,
        code="InsufficientStorage",
        message=(
            "The server has no room for this write. Reads and deletes go on; a deletion from a "
            "general bucket frees the object's bytes a minute later."
        ),
    ),
    storage_errors.DiskReadOnly: S3WireError(
        status=503,
        code="ServiceUnavailable",
        message="The server's disk takes no writes. Reads go on.",
    ),
    storage_errors.RangeNotSatisfiable: S3WireError(
        status=416,
        code="InvalidRange",
        message="The requested range is not satisfiable",
        fields=_from(RangeRequested="requested", ActualObjectSize="size_bytes"),
    ),
    storage_errors.SourceGone: S3WireError(
        status=409,
        code="OperationAborted",
        message="The source was replaced again and again while it was copied. Please try again.",
    ),
    storage_errors.CommitUnknown: _INTERNAL,
    storage_errors.CommitRefused: _INTERNAL,
    storage_errors.IndexClosed: S3WireError(
        status=503,
        code="ServiceUnavailable",
        message="The server is shutting down. Please try again.",
    ),
    storage_errors.SizeLimitExceeded: _INTERNAL,
    storage_errors.BodyMissing: _INTERNAL,
    storage_errors.BodyDamaged: _INTERNAL,
    storage_errors.CorruptRecord: _INTERNAL,
    storage_errors.CorruptIndex: _INTERNAL,
    storage_errors.CorruptFolder: _INTERNAL,
    storage_errors.FolderInUse: _INTERNAL,
    storage_errors.NewerFormat: _INTERNAL,
    # Proofs of identity.
    auth_errors.MissingCredentials: S3WireError(
        status=403, code="AccessDenied", message="Access Denied"
    ),
    auth_errors.MalformedAuthorization: S3WireError(
        status=400, code="AuthorizationHeaderMalformed"
    ),
    auth_errors.SeveralProofs: S3WireError(status=400, code="InvalidArgument"),
    auth_errors.InvalidDate: S3WireError(status=403, code="AccessDenied"),
    auth_errors.MalformedV2Authorization: S3WireError(status=400, code="InvalidArgument"),
    auth_errors.IncompleteV2Query: S3WireError(status=403, code="AccessDenied"),
    auth_errors.ExpiresOutOfRange: S3WireError(status=403, code="AccessDenied"),
    auth_errors.IncompleteForm: S3WireError(
        status=400,
        code="InvalidArgument",
        fields=lambda error: (*_from(ArgumentName="field")(error), ("ArgumentValue", "")),
    ),
    auth_errors.UnsupportedAuthorization: S3WireError(status=400, code="InvalidRequest"),
    auth_errors.UnknownScheme: S3WireError(
        status=400,
        code="InvalidArgument",
        fields=lambda error: (("ArgumentName", "Authorization"),),
    ),
    auth_errors.RegionMismatch: S3WireError(
        status=400, code="AuthorizationHeaderMalformed", fields=_from(Region="expected")
    ),
    auth_errors.ServiceMismatch: S3WireError(status=400, code="AuthorizationHeaderMalformed"),
    auth_errors.InvalidAccessKey: S3WireError(
        status=403,
        code="InvalidAccessKeyId",
        message="The AWS Access Key Id you provided does not exist in our records.",
        fields=_from(AWSAccessKeyId="access_key"),
    ),
    auth_errors.TooManyFailures: S3WireError(
        status=503, code="SlowDown", message="Please reduce your request rate."
    ),
    auth_errors.SignatureDoesNotMatch: S3WireError(
        status=403,
        code="SignatureDoesNotMatch",
        message=(
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
        fields=_signature,
    ),
    auth_errors.HeadersNotSigned: S3WireError(
        status=403,
        code="AccessDenied",
        message="There were headers present in the request which were not signed",
        fields=_names,
    ),
    auth_errors.RequestTimeTooSkewed: S3WireError(
        status=403,
        code="RequestTimeTooSkewed",
        message=("The difference between the request time and the current time is too large."),
        fields=_skew,
    ),
    auth_errors.ExpiredPresign: S3WireError(
        status=403, code="AccessDenied", message="Request has expired", fields=_expired
    ),
    auth_errors.PresignNotYetValid: S3WireError(
        status=403, code="AccessDenied", message="Request is not yet valid"
    ),
    auth_errors.InvalidToken: S3WireError(
        status=400,
        code="InvalidToken",
        message="The provided token is malformed or otherwise invalid.",
    ),
    auth_errors.ExpiredToken: S3WireError(
        status=400, code="ExpiredToken", message="The provided token has expired."
    ),
    auth_errors.MalformedPostPolicy: S3WireError(status=400, code="InvalidPolicyDocument"),
    auth_errors.ExpiredPostPolicy: S3WireError(
        status=403,
        code="AccessDenied",
        message="Invalid according to Policy: Policy expired.",
    ),
    auth_errors.PostPolicyViolated: _ACCESS_DENIED,
    auth_errors.PostBodyTooSmall: S3WireError(status=400, code="EntityTooSmall"),
    auth_errors.PostBodyTooLarge: S3WireError(status=400, code="EntityTooLarge"),
    auth_errors.MalformedPayloadHash: S3WireError(status=400, code="InvalidArgument"),
    auth_errors.MissingPayloadHash: S3WireError(
        status=400,
        code="InvalidRequest",
        message="Missing required header for this request: x-amz-content-sha256",
    ),
    auth_errors.UnsupportedPayload: S3WireError(status=501, code="NotImplemented"),
    auth_errors.PayloadHashMismatch: S3WireError(
        status=400,
        code="XAmzContentSHA256Mismatch",
        message="The provided 'x-amz-content-sha256' header does not match what was computed.",
        fields=_from(ClientComputedContentSHA256="expected", S3ComputedContentSHA256="computed"),
    ),
    auth_errors.ChunkSignatureMismatch: S3WireError(
        status=403,
        code="SignatureDoesNotMatch",
        message=(
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
    ),
    auth_errors.MalformedChunk: S3WireError(status=400, code="IncompleteBody"),
    auth_errors.MalformedTrailer: S3WireError(status=400, code="MalformedTrailerError"),
    auth_errors.IncompletePayload: S3WireError(status=400, code="IncompleteBody"),
    auth_errors.MissingDecodedLength: S3WireError(status=411, code="MissingContentLength"),
    # Access.
    access_errors.AccessDenied: _ACCESS_DENIED,
    access_errors.MalformedPolicy: S3WireError(status=400, code="MalformedPolicy"),
    access_errors.MalformedARN: S3WireError(status=400, code="InvalidArgument"),
    access_errors.NoSuchAccessKey: S3WireError(
        status=403,
        code="InvalidAccessKeyId",
        message="The AWS Access Key Id you provided does not exist in our records.",
    ),
    access_errors.WrongPassword: S3WireError(
        status=403, code="AccessDenied", message="Access Denied"
    ),
    access_errors.InvalidJWT: S3WireError(
        status=400,
        code="InvalidToken",
        message="The provided token is malformed or otherwise invalid.",
    ),
    access_errors.ExpiredJWT: S3WireError(
        status=400, code="ExpiredToken", message="The provided token has expired."
    ),
    access_errors.InvalidPAT: S3WireError(
        status=400,
        code="InvalidToken",
        message="The programmatic access token is invalid or disabled.",
    ),
    access_errors.ExpiredPAT: S3WireError(
        status=400, code="ExpiredToken", message="The programmatic access token has expired."
    ),
    access_errors.CorruptKeys: _INTERNAL,
    access_errors.AuditUnavailable: S3WireError(
        status=503,
        code="ServiceUnavailable",
        message="The audit log cannot be written, so no write is taken.",
    ),
    # The kit.
    kit_errors.MalformedRequest: S3WireError(status=400, code="InvalidRequest"),
    kit_errors.RequestTooLarge: S3WireError(status=400, code="RequestHeaderSectionTooLarge"),
    kit_errors.BodyTooLarge: S3WireError(
        status=400, code="MaxMessageLengthExceeded", message="Your request was too big."
    ),
    kit_errors.ClientDisconnected: S3WireError(status=400, code="RequestTimeout"),
    kit_errors.BodyStalled: S3WireError(status=400, code="RequestTimeout"),
    kit_errors.ServerBusy: S3WireError(
        status=503, code="SlowDown", message="Please reduce your request rate."
    ),
    kit_errors.MalformedXML: S3WireError(status=400, code="MalformedXML", message=_MALFORMED_XML),
    kit_errors.FaceNotServed: S3WireError(status=501, code="NotImplemented"),
    kit_errors.NoSuchRoute: S3WireError(status=404, code="NoSuchKey"),
    kit_errors.MethodNotAllowed: S3WireError(status=405, code="MethodNotAllowed"),
}
