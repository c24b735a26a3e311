"""face: answers 501 for an API that this server does not have.

Requests for such an API (STS, IAM) carry a signature with its name. Authentication is required as
for any other request, so that no anonymous client learns which APIs exist; errors have the form of
AWS's query protocol, which the clients of these services read.
"""

from __future__ import annotations

from typing import Final

from server import asgi, calls, errors, errortables, xmltext
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.aws import wire_errors
from storage import errors as storage_errors

WIRE_ERRORS: Final[errortables.Table[tuple[int, str]]] = {
    errors.FaceNotServed: (501, "NotImplemented"),
    errors.MalformedRequest: (400, "ValidationError"),
    errors.RequestTooLarge: (400, "ValidationError"),
    errors.BodyTooLarge: (413, "RequestEntityTooLarge"),
    errors.BodyStalled: (408, "RequestTimeout"),
    errors.ServerBusy: (503, "ServiceUnavailable"),
    access_errors.AccessDenied: (403, "AccessDenied"),
    access_errors.AuditUnavailable: (503, "ServiceUnavailable"),
    storage_errors.DiskFull: (507, "InsufficientStorage"),
    storage_errors.DiskReadOnly: (503, "ServiceUnavailable"),
    auth_errors.AuthError: (403, "SignatureDoesNotMatch"),
    auth_errors.MissingCredentials: (403, "MissingAuthenticationToken"),
    auth_errors.MalformedAuthorization: (403, "IncompleteSignature"),
    auth_errors.UnsupportedAuthorization: (403, "IncompleteSignature"),
    auth_errors.InvalidAccessKey: (403, "InvalidClientTokenId"),
    auth_errors.InvalidToken: (403, "InvalidClientTokenId"),
    auth_errors.ExpiredToken: (403, "ExpiredToken"),
    auth_errors.TooManyFailures: (429, "Throttling"),
    auth_errors.PayloadError: (400, "ValidationError"),
}
"""Error class -> status and code."""


class Unserved:
    """The face of an API that this server does not have. name: as in `dispatch`."""

    services = None

    def __init__(self, name: str) -> None:
        self.name = name
        self._operation = calls.Operation(name=name)

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the one row of every request: it has no handler."""
        return calls.Call(self._operation, None, request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Return the error that there is no such API."""
        return errors.FaceNotServed(f"This server has no {self.name} API.", face=self.name)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return an error in the form of AWS's query protocol."""
        row = errortables.find(error, WIRE_ERRORS)
        status, code = row or (500, "InternalFailure")
        message = "An internal error occurred. Try again." if row is None else str(error)
        if isinstance(error, auth_errors.SignatureDoesNotMatch):
            message = wire_errors.SIGNATURE_SENTENCE
        sender = "Receiver" if status >= 500 else "Sender"
        body = (
            f"<ErrorResponse><Error><Type>{sender}</Type><Code>{code}</Code>"
            f"<Message>{xmltext.escape(message)}</Message></Error>"
            f"<RequestId>{request.request_id}</RequestId></ErrorResponse>"
        )
        return asgi.Response(status, (("content-type", "text/xml"),), body.encode())
