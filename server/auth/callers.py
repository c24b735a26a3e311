"""rule: the input and the result of authentication: the caller, its credential, and how the body is
signed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from server.access import model
from server.auth import chunked

Scheme: TypeAlias = Literal[
    "none", "sigv4", "sigv4-query", "sigv2", "sigv2-query", "bearer", "basic", "open"
]


class Authentication(enum.Enum):
    """Which credentials an operation requires.

    NONE: no credential is read (health, the OAuth token endpoint). SELF: the face authenticates in
    `handle`, by tokens that only it can verify (Snowflake sessions); its rows have no demands.
    IN_BODY: the signature is in the body, which the handler reads and verifies (POST forms).
    SIGNED_OR_ANONYMOUS: a credential, if present, must be valid. REQUIRED: a valid credential.
    """

    NONE = "none"
    SELF = "self"
    IN_BODY = "in-body"
    SIGNED_OR_ANONYMOUS = "signed-or-anonymous"
    REQUIRED = "required"


@dataclass(frozen=True, kw_only=True, slots=True)
class Signing:
    """How a request was authenticated. region, service: of the credential scope, else empty.

    signed_at_ms: when a form was signed; a request's head says when it was.
    """

    scheme: Scheme
    region: str = ""
    service: str = ""
    signed_headers: tuple[str, ...] = ()
    signed_at_ms: int | None = None


class Caller(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The caller. credential_id: the access key or the token's id; empty for an anonymous caller.

    payload: the checks of the body, see `chunked.Payload`.
    """

    principal: model.Principal
    payload: chunked.Payload
    credential_id: str
    signing: Signing
