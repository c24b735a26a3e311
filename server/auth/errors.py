"""rule: the facts about proofs of identity and signed bodies. No HTTP word here.

`AuthError` is a refused identity, `PayloadError` a body that is not what was signed or announced.
"""

from __future__ import annotations


class AuthError(Exception):
    """A proof of identity is missing, malformed or wrong. `str()` never holds a secret."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class MissingCredentials(AuthError):
    """The operation needs a credential and the request has none."""


class MalformedAuthorization(AuthError):
    """The Authorization header, or its form in the query, cannot be read.

    in_query: whether it was a presigned request.
    """

    in_query: bool = False


class IncompleteForm(MalformedAuthorization):
    """A POST form with a proof of identity has not all fields of one; `field` is missing."""

    field: str


class UnsupportedAuthorization(AuthError):
    """A scheme, or a signing algorithm, that this door does not take; `scheme` names it."""

    scheme: str


class RegionMismatch(AuthError):
    """The credential scope names another region; `expected` is ours."""

    expected: str
    actual: str


class ServiceMismatch(AuthError):
    """The credential scope names another service; `expected` are those taken here."""

    expected: tuple[str, ...]
    actual: str


class InvalidAccessKey(AuthError):
    """No such access key; `access_key` is what was given."""

    access_key: str


class TooManyFailures(AuthError):
    """The name was given with wrong passwords too often; it may be tried again later."""

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
    """Headers that change what a request means are not covered by its signature; `names`."""

    names: tuple[str, ...]


class RequestTimeTooSkewed(AuthError):
    """The request was signed too far from now; both times in Unix milliseconds."""

    request_time_ms: int
    server_time_ms: int
    max_skew_ms: int


class ExpiredPresign(AuthError):
    """A presigned request is past its end."""

    expires_at_ms: int
    server_time_ms: int


class PresignNotYetValid(AuthError):
    """A presigned request starts later than now."""


class InvalidToken(AuthError):
    """A bearer or session token is not one of ours, was changed, or is for another use."""


class ExpiredToken(AuthError):
    """A bearer or session token is past its end."""


class MalformedPostPolicy(AuthError):
    """A POST form's policy document cannot be read."""


class ExpiredPostPolicy(AuthError):
    """A POST form's policy document is past its expiration."""


class PostPolicyViolated(AuthError):
    """A POST form breaks a condition of its policy, or has a field that no condition names."""

    condition: str


class PostBodyTooSmall(AuthError):
    """A POST form's file is smaller than content-length-range allows."""


class PostBodyTooLarge(AuthError):
    """A POST form's file is larger than content-length-range allows."""


class PayloadError(Exception):
    """A body is not what was signed or announced."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class MalformedPayloadHash(PayloadError):
    """x-amz-content-sha256 is missing, or none of the forms that exist; `actual`."""


class UnsupportedPayload(PayloadError):
    """A payload form that exists and is not taken here (signatures on elliptic curves)."""


class PayloadHashMismatch(PayloadError):
    """The body's SHA-256 is another one than was signed; both in hexadecimal."""

    expected: str
    computed: str


class ChunkSignatureMismatch(PayloadError):
    """A chunk's or the trailer's signature is another one than ours; `chunk` counts from 0."""

    chunk: int


class MalformedChunk(PayloadError):
    """The framing of an aws-chunked body cannot be read."""


class IncompletePayload(PayloadError):
    """The body ended before the last chunk, or is shorter or longer than announced."""


class MissingDecodedLength(PayloadError):
    """x-amz-decoded-content-length is missing or not a number."""
