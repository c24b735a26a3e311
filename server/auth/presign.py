"""rule: the query of a presigned request, for signature versions 4 and 2.

Version 4 has X-Amz-* parameters and is valid for at most seven days from its date. Version 2 has
AWSAccessKeyId, Expires (epoch seconds) and Signature but no signing time: it is valid in the seven
days before its end. `sigv4` and `sigv2` check the signatures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from server import limits
from server.auth import errors, sigv4

SIGNATURE_PARAMETER: Final = b"X-Amz-Signature"
V4_PARAMETERS: Final = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
)
ALSO_HEAD: Final = b"also-head=1"
"""A parameter of a URL for GET whose signer lets HEAD use it too, as Google's storage always does:
some drivers of Snowflake ask for a file's size first. AWS has no such parameter."""
V2_PARAMETERS: Final = ("AWSAccessKeyId", "Expires", "Signature")

_SECONDS: Final = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PresignV4:
    """A version 4 presigned request. security_token: from the query, None if absent."""

    proof: sigv4.Proof
    timestamp: str
    signed_at_ms: int
    expires_seconds: int
    content_sha256: str | None
    security_token: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PresignV2:
    """A version 2 presigned request."""

    access_key: str
    signature: str
    expires: str
    expires_at_ms: int
    security_token: str | None


def is_v4(query: bytes) -> bool:
    """Return whether a query has a version 4 signature."""
    return b"X-Amz-Algorithm=" in query or b"X-Amz-Signature=" in query


def signed_method(method: str, query: bytes) -> str:
    """Return the method that a presigned request's signature is for."""
    return "GET" if method == "HEAD" and ALSO_HEAD in query.split(b"&") else method


def is_v2(query: bytes) -> bool:
    """Return whether a query has a version 2 signature."""
    return b"AWSAccessKeyId=" in query and b"Signature=" in query


def parse_v4(pairs: Iterable[tuple[str, str]]) -> PresignV4:
    """Parse a decoded query. Raises MalformedAuthorization, ExpiresOutOfRange.

    Each parameter of the signature must occur exactly once.
    """
    parameters = _single(pairs, V4_PARAMETERS)
    if parameters["X-Amz-Algorithm"] != sigv4.ALGORITHM:
        raise _malformed(f"X-Amz-Algorithm only supports {sigv4.ALGORITHM}")
    timestamp = parameters["X-Amz-Date"]
    signed_at_ms = sigv4.parse_timestamp(timestamp)
    if signed_at_ms is None:
        raise _malformed("X-Amz-Date must be YYYYMMDDTHHMMSSZ")
    expires = parameters["X-Amz-Expires"]
    if _SECONDS.fullmatch(expires) is None:
        raise _malformed("X-Amz-Expires must be a whole number of seconds")
    if not 1 <= int(expires) <= limits.PRESIGN_SECONDS_MAX:
        raise errors.ExpiresOutOfRange(
            f"X-Amz-Expires must be from 1 to {limits.PRESIGN_SECONDS_MAX} (a week in seconds)",
            in_query=True,
        )
    return PresignV4(
        proof=sigv4.Proof(
            claim=sigv4.make_claim(
                sigv4.parse_credential(parameters["X-Amz-Credential"], in_query=True),
                sigv4.parse_signed_headers(parameters["X-Amz-SignedHeaders"], in_query=True),
            ),
            signature=parameters["X-Amz-Signature"],
        ),
        timestamp=timestamp,
        signed_at_ms=signed_at_ms,
        expires_seconds=int(expires),
        content_sha256=parameters.get(CONTENT_SHA256),
        security_token=parameters.get("X-Amz-Security-Token"),
    )


def parse_v2(pairs: Iterable[tuple[str, str]]) -> PresignV2:
    """Parse a decoded query. Raises MalformedAuthorization."""
    parameters = _single(pairs, V2_PARAMETERS)
    expires = parameters["Expires"]
    if not (expires.isascii() and expires.isdecimal() and len(expires) < 14):
        raise _malformed("Expires must be a time in epoch seconds")
    return PresignV2(
        access_key=parameters["AWSAccessKeyId"],
        signature=parameters["Signature"],
        expires=expires,
        expires_at_ms=int(expires) * 1000,
        security_token=parameters.get("x-amz-security-token"),
    )


def check_v4_time(presign: PresignV4, *, now_ms: int) -> None:
    """Raise ExpiredPresign after the end, PresignNotYetValid too long before the beginning."""
    if presign.signed_at_ms > now_ms + limits.CLOCK_SKEW_MS_MAX:
        raise errors.PresignNotYetValid("the request is not valid yet")
    _check_end(end_of_v4(presign), now_ms=now_ms, expires_seconds=presign.expires_seconds)


def end_of_v4(presign: PresignV4) -> int:
    """Return the first moment at which the request has expired, in milliseconds."""
    return presign.signed_at_ms + presign.expires_seconds * 1000


def check_v2_time(presign: PresignV2, *, now_ms: int) -> None:
    """Raise ExpiredPresign after the end, PresignNotYetValid more than seven days before it."""
    if (
        presign.expires_at_ms
        > now_ms + limits.PRESIGN_SECONDS_MAX * 1000 + limits.CLOCK_SKEW_MS_MAX
    ):
        raise errors.PresignNotYetValid(
            "the request is not valid yet: it expires more than seven days from now"
        )
    _check_end(presign.expires_at_ms, now_ms=now_ms)


def _check_end(expires_at_ms: int, *, now_ms: int, expires_seconds: int | None = None) -> None:
    if now_ms >= expires_at_ms:
        raise errors.ExpiredPresign(
            "the request has expired",
            expires_at_ms=expires_at_ms,
            server_time_ms=now_ms,
            expires_seconds=expires_seconds,
        )


CONTENT_SHA256: Final = "X-Amz-Content-Sha256"
OPTIONAL: Final = frozenset({CONTENT_SHA256, "X-Amz-Security-Token", "x-amz-security-token"})


def _single(pairs: Iterable[tuple[str, str]], needed: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for parameter, value in pairs:
        # A client that moves its headers into the query may leave their names in lower case.
        name = CONTENT_SHA256 if parameter.lower() == "x-amz-content-sha256" else parameter
        if name in needed or name in OPTIONAL:
            if name in values:
                raise _malformed(f"the query has {name} twice")
            values[name] = value
    if all(values.get(name) for name in needed):
        return values
    if needed is V2_PARAMETERS:
        raise errors.IncompleteV2Query(
            "Query-string authentication requires the Signature, Expires and AWSAccessKeyId "
            "parameters",
            in_query=True,
        )
    raise _malformed(
        "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
        "X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."
    )


def _malformed(message: str) -> errors.MalformedAuthorization:
    return errors.MalformedAuthorization(message, in_query=True)
