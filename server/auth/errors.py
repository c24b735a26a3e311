"""rule: the errors of authentication and of signed bodies, without HTTP statuses.

`AuthError`: the caller is not authenticated. `PayloadError`: a body differs from the signed or
announced one.
"""

from __future__ import annotations


class AuthError(Exception):
    """A credential or signature is missing, malformed or wrong. `str()` contains no secret."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class MissingCredentials(AuthError):
    """The operation needs a credential and the request has none."""


class MalformedAuthorization(AuthError):
    """The Authorization header, or its form in the query, is malformed.

    in_query: whether it was a presigned request.
    """

    in_query: bool = False


class InvalidDate(MalformedAuthorization):
    """A signed request has no valid time: in x-amz-date, or else in Date."""


class MalformedV2Authorization(MalformedAuthorization):
    """An Authorization header of version 2 is not `AWS KEY:SIGNATURE`."""


class ExpiresOutOfRange(MalformedAuthorization):
    """A presigned request names a validity that is not from one second to seven days."""


class IncompleteV2Query(MalformedAuthorization):
    """A presigned request of version 2 lacks one of its three parameters."""


class IncompleteForm(MalformedAuthorization):
    """A POST form has some fields of a signature, but not all; `field` is missing."""

    field: str


class SeveralProofs(MalformedAuthorization):
    """A request has an Authorization header, and a signature in its query too."""


class UnsupportedAuthorization(AuthError):
    """The face does not accept this scheme or signing algorithm; `scheme` names it."""

    scheme: str


class UnknownScheme(UnsupportedAuthorization):
    """The Authorization header has a scheme that is no signature's; `scheme` names it."""


class RegionMismatch(AuthError):
    """The credential scope names another region; `expected` is the server's."""

    expected: str
    actual: str


class ServiceMismatch(AuthError):
    """The credential scope names another service; `expected` are those that the face accepts."""

    expected: tuple[str, ...]
    actual: str


class InvalidAccessKey(AuthError):
    """The access key does not exist; `access_key` is the one in the request."""

    access_key: str


class TooManyFailures(AuthError):
    """A client sent too many wrong passwords for a name; it may try again later."""

    retry_after_seconds: int = 1


class SignatureDoesNotMatch(AuthError):
    """The client's signature differs from the computed one.

    access_key, signature_provided: as the client sent them. string_to_sign, canonical_request: the
    input of the computation, for the response; a signature cannot be computed from them.
    """

    access_key: str
    signature_provided: str
    string_to_sign: str
    canonical_request: str


class HeadersNotSigned(AuthError):
    """A request's signature does not cover headers that change its meaning; `names`."""

    names: tuple[str, ...]


class RequestTimeTooSkewed(AuthError):
    """The time of the signature differs too much from the server's; both in Unix milliseconds."""

    request_time_ms: int
    server_time_ms: int
    max_skew_ms: int


class ExpiredPresign(AuthError):
    """A presigned request has expired. expires_seconds: its validity; None for version 2."""

    expires_at_ms: int
    server_time_ms: int
    expires_seconds: int | None


class PresignNotYetValid(AuthError):
    """A presigned request is not valid yet."""


class InvalidToken(AuthError):
    """A bearer or session token is not from this server, was changed, or is for another use."""


class ExpiredToken(AuthError):
    """A bearer or session token has expired."""


class MalformedPostPolicy(AuthError):
    """A POST form's policy document is malformed."""


class ExpiredPostPolicy(AuthError):
    """A POST form's policy document has expired."""


class PostPolicyViolated(AuthError):
    """A POST form breaks a condition of its policy, or has a field that no condition names."""

    condition: str


class PostBodyTooSmall(AuthError):
    """A POST form's file is smaller than content-length-range allows."""


class PostBodyTooLarge(AuthError):
    """A POST form's file is larger than content-length-range allows."""


class PayloadError(Exception):
    """A body differs from the signed or announced one."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class MalformedPayloadHash(PayloadError):
    """x-amz-content-sha256 is malformed; `actual` is its value."""


class MissingPayloadHash(PayloadError):
    """A signed request has no x-amz-content-sha256."""


class UnsupportedPayload(PayloadError):
    """A payload form of AWS that is not supported here (signatures on elliptic curves)."""


class PayloadHashMismatch(PayloadError):
    """The body's SHA-256 differs from the signed one; both in hexadecimal."""

    expected: str
    computed: str


class ChunkSignatureMismatch(PayloadError):
    """A chunk's or the trailer's signature is wrong; `chunk` counts from 0."""

    chunk: int


class MalformedChunk(PayloadError):
    """The framing of an aws-chunked body is malformed."""


class MalformedTrailer(PayloadError):
    """The trailers of an aws-chunked body are malformed, or others than were announced."""


class IncompletePayload(PayloadError):
    """The body ended before the last chunk, or is shorter or longer than announced."""


class MissingDecodedLength(PayloadError):
    """x-amz-decoded-content-length is missing or not a number."""
