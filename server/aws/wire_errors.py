"""rule: AWS's codes for errors of lower floors, common to all services.

A service's own table comes first and may override any class. A subclass is answered by the row of
its nearest base. An error without a row is an internal error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from server import errors as kit_errors
from server import errortables
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.aws import errors
from storage import errors as storage_errors


@dataclass(frozen=True, kw_only=True, slots=True)
class WireError:
    """The error that a client receives. message: None means the error's own sentence.

    with_reason: the error's own sentence follows the message, which is less specific.
    """

    status: int
    code: str
    message: str | None = None
    with_reason: bool = False

    def sentence(self, error: Exception) -> str:
        """Return the message that a client receives for an error."""
        if self.message is None:
            return str(error)
        return f"{self.message.removesuffix('.')}: {error}" if self.with_reason else self.message


Table: TypeAlias = errortables.Table[WireError]

INTERNAL: Final = WireError(
    status=500,
    code="InternalServerErrorException",
    message="An internal error occurred. Try again.",
)

SIGNATURE_SENTENCE: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)
"""AWS's message for a wrong signature, for any service."""

_BAD_SIGNATURE = WireError(status=403, code="InvalidSignatureException")
_BAD_TOKEN = WireError(
    status=403,
    code="UnrecognizedClientException",
    message="The security token included in the request is invalid.",
)

COMMON: Final[Table] = {
    errors.UnknownOperation: WireError(status=404, code="UnknownOperationException"),
    errors.MissingAction: WireError(status=400, code="ValidationException"),
    errors.OperationNotImplemented: WireError(status=501, code="NotImplementedException"),
    errors.MalformedDocument: WireError(status=400, code="SerializationException"),
    errors.ValidationFailed: WireError(status=400, code="ValidationException"),
    kit_errors.MalformedRequest: WireError(status=400, code="ValidationException"),
    kit_errors.RequestTooLarge: WireError(status=400, code="ValidationException"),
    kit_errors.BodyTooLarge: WireError(status=413, code="RequestEntityTooLargeException"),
    kit_errors.BodyStalled: WireError(status=408, code="RequestTimeoutException"),
    kit_errors.ServerBusy: WireError(status=503, code="ServiceUnavailableException"),
    access_errors.AccessDenied: WireError(status=403, code="AccessDeniedException"),
    access_errors.AuditUnavailable: WireError(status=503, code="ServiceUnavailableException"),
    auth_errors.AuthError: _BAD_SIGNATURE,
    auth_errors.SignatureDoesNotMatch: WireError(
        status=403, code=_BAD_SIGNATURE.code, message=SIGNATURE_SENTENCE
    ),
    auth_errors.MissingCredentials: WireError(
        status=403,
        code="MissingAuthenticationTokenException",
        message="Missing Authentication Token",
    ),
    auth_errors.MalformedAuthorization: WireError(status=403, code="IncompleteSignatureException"),
    auth_errors.UnsupportedAuthorization: WireError(
        status=403, code="IncompleteSignatureException"
    ),
    auth_errors.InvalidAccessKey: _BAD_TOKEN,
    auth_errors.InvalidToken: _BAD_TOKEN,
    auth_errors.ExpiredToken: WireError(
        status=403,
        code="ExpiredTokenException",
        message="The security token included in the request is expired",
    ),
    auth_errors.TooManyFailures: WireError(status=429, code="ThrottlingException"),
    auth_errors.PayloadError: WireError(status=400, code="ValidationException"),
    auth_errors.PayloadHashMismatch: _BAD_SIGNATURE,
    storage_errors.DiskFull: WireError(status=507, code="InsufficientStorageException"),
    storage_errors.DiskReadOnly: WireError(status=503, code="ServiceUnavailableException"),
}

_BAD_CLIENT_TOKEN = WireError(status=403, code="InvalidClientTokenId", message=_BAD_TOKEN.message)

QUERY: Final[Table] = {
    errors.UnknownOperation: WireError(status=400, code="InvalidAction"),
    errors.MissingAction: WireError(status=400, code="MissingAction"),
    errors.OperationNotImplemented: WireError(status=501, code="NotImplemented"),
    errors.MalformedDocument: WireError(status=400, code="MalformedInput"),
    errors.ValidationFailed: WireError(status=400, code="ValidationError"),
    kit_errors.MalformedRequest: WireError(status=400, code="ValidationError"),
    kit_errors.RequestTooLarge: WireError(status=400, code="ValidationError"),
    kit_errors.BodyTooLarge: WireError(status=413, code="RequestEntityTooLarge"),
    kit_errors.BodyStalled: WireError(status=408, code="RequestTimeout"),
    kit_errors.ServerBusy: WireError(status=503, code="ServiceUnavailable"),
    access_errors.AccessDenied: WireError(status=403, code="AccessDenied"),
    access_errors.AuditUnavailable: WireError(status=503, code="ServiceUnavailable"),
    auth_errors.AuthError: WireError(status=403, code="SignatureDoesNotMatch"),
    auth_errors.SignatureDoesNotMatch: WireError(
        status=403, code="SignatureDoesNotMatch", message=SIGNATURE_SENTENCE
    ),
    auth_errors.MissingCredentials: WireError(
        status=403,
        code="MissingAuthenticationToken",
        message="Request is missing Authentication Token",
    ),
    auth_errors.MalformedAuthorization: WireError(status=400, code="IncompleteSignature"),
    auth_errors.UnsupportedAuthorization: WireError(status=400, code="IncompleteSignature"),
    auth_errors.InvalidAccessKey: _BAD_CLIENT_TOKEN,
    auth_errors.InvalidToken: _BAD_CLIENT_TOKEN,
    auth_errors.ExpiredToken: WireError(
        status=403,
        code="ExpiredToken",
        message="The security token included in the request is expired",
    ),
    auth_errors.TooManyFailures: WireError(status=429, code="Throttling"),
    auth_errors.PayloadError: WireError(status=400, code="ValidationError"),
    storage_errors.DiskFull: WireError(status=507, code="InsufficientStorage"),
    storage_errors.DiskReadOnly: WireError(status=503, code="ServiceUnavailable"),
}
"""The common rows of services of the Query protocol."""


def wire_error(error: Exception, tables: tuple[Table, ...]) -> WireError:
    """Return the wire error. tables: the first with a row for the nearest base wins."""
    return errortables.find(error, *tables) or INTERNAL
